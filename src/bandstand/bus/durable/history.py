"""Serves the journal of a node to its clients: the messages behind an offset, and those that are written later.

Reading takes as long as the disk does, so it happens on a thread, a bounded number of records at a time. A client that follows the journal gets what
is read from it and nothing else. So there is no moment at which it changes from old messages to new ones, and every message has its offset.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, final

from bandstand.bus.durable.reader import Batch, Offset, Selection, read_batch
from bandstand.core.logs import SafeLogger
from bandstand.errors import JournalError
from bandstand.journal import JournalReader

if TYPE_CHECKING:
    import os

    from bandstand.bus.durable.reader import Entry

__all__ = ("Follower", "JournalHistory")

# What one batch reads at most: as much as a client can take at once, in a few milliseconds.
_MAX_BYTES: Final = 256 << 10
_MAX_SEARCHED: Final = 20_000
_MAX_MESSAGES: Final = 256
# How long the node waits for a client that does not keep up, before it looks again, in seconds.
_SLOW_S: Final = 0.05

logger = SafeLogger("bandstand.bus")


class Follower(Protocol):
    """A client that follows the journal."""

    @property
    def is_open(self) -> bool:
        """Whether it is still connected."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether it keeps up."""
        ...

    def send(self, entry: Entry, *, has_gap: bool) -> object:
        """Send it a message; `has_gap` if messages before it were deleted before they could be sent."""
        ...

    def end(self, reason: str) -> object:
        """Tell it that no more messages come."""
        ...


@final
class JournalHistory:
    """The journal of a node, as its clients see it. Use it on the node's event loop.

    Args:
        directory: where the journal is.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        self._tasks: dict[Follower, asyncio.Task[None]] = {}
        # Set at the next page, and replaced then.
        self._grown = asyncio.Event()

    async def read(self, after: Offset, where: Selection, limit: int) -> Batch:
        """Read the messages behind an offset: see `read_batch`.

        Raises:
            JournalError: as for `read_batch`.
        """
        return await asyncio.to_thread(self._read, after, where, limit)

    def _read(self, after: Offset, where: Selection, limit: int) -> Batch:
        # A reader belongs to one thread, and each batch may be read on another one.
        with JournalReader(self._directory) as reader:
            return read_batch(
                reader, after, where=where, limit=limit, max_bytes=_MAX_BYTES, max_searched=_MAX_SEARCHED
            )

    # -- followers ---------------------------------------------------------------------------------------------------------

    def note_page(self) -> None:
        """Let the followers read what was written: a page is durable."""
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def follow(self, follower: Follower, after: Offset, where: Selection) -> None:
        """Send a client the messages behind an offset, and those that are written later, until it disconnects or `stop` is called."""
        # An empty context: that of the caller has the request, which would stay in memory.
        task = asyncio.create_task(self._run(follower, after, where), context=Context())
        self._tasks[follower] = task
        task.add_done_callback(lambda _: self._tasks.pop(follower, None))

    def stop(self, follower: Follower) -> None:
        """Send a client no more messages."""
        task = self._tasks.get(follower)
        if task is not None:
            task.cancel()

    @property
    def followers(self) -> tuple[Follower, ...]:
        """The clients that follow."""
        return tuple(self._tasks)

    async def close(self) -> None:
        """Stop all followers, and wait until they have stopped."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, follower: Follower, after: Offset, where: Selection) -> None:
        # Whether messages were deleted since the last one that was sent.
        has_gap = False
        try:
            while follower.is_open:
                if not follower.is_writable:
                    await asyncio.sleep(_SLOW_S)
                    continue
                # Taken before the read, so that no page is missed.
                grown = self._grown
                batch = await self.read(after, where, _MAX_MESSAGES)
                has_gap = has_gap or batch.has_gap
                for entry in batch.entries:
                    if follower.is_open:
                        follower.send(entry, has_gap=has_gap)
                        has_gap = False
                after = batch.next
                if batch.is_end:
                    await grown.wait()
        except JournalError as error:
            logger.warning("a client follows the journal no longer: %s", error)
            if follower.is_open:
                follower.end(str(error))
