"""The clients of one adapter: how many there are, and the end of all of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import final

from bandstand.bus.adapters.ndjson import NdjsonLine

__all__ = ("Lines",)

# Seconds to wait for the end of connections that were ended: one turn of the event loop, as a rule.
LAST_S = 1.0


@final
class Lines:
    """The clients of one adapter.

    Attributes:
        is_open: whether there may be more of them.
    """

    __slots__ = ("_lines", "_none_left", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._lines: set[NdjsonLine] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: NdjsonLine) -> None:
        """Count one in, before the event loop has connected it: from then on it has to be waited for."""
        self._lines.add(line)
        self._none_left.clear()

    def is_welcome(self) -> bool:
        """Whether it does not come too late."""
        return self.is_open

    def end(self, line: NdjsonLine) -> None:
        """Count it out."""
        self._lines.discard(line)
        if not self._lines:
            self._none_left.set()

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered has been given to the operating system."""
        return all(line.is_flushed for line in self._lines)

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come from any of them."""
        return any(line.can_produce for line in self._lines)

    def stop(self) -> None:
        """Take in nothing more."""
        self.is_open = False
        for line in tuple(self._lines):
            line.stop()

    async def close(self, within_s: float) -> None:
        """Write out what was delivered, for at most so long, and drop every client."""
        self.stop()
        for line in tuple(self._lines):
            line.close()
        try:
            await self._wait(within_s)
        finally:
            for line in tuple(self._lines):
                line.abort()
        await self._wait(LAST_S)

    async def _wait(self, within_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._none_left.wait()
