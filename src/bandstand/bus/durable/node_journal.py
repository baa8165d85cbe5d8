"""The journal of a node: it is opened and read when the node starts, and closed when it stops."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from bandstand.bus.dead_letters import DeadLetterEntry
from bandstand.bus.durable.history import JournalHistory
from bandstand.bus.durable.lane import DiskRetryDue, DurableLane, PageDue, PageWritten
from bandstand.bus.durable.records import (
    ANSWER,
    BOOT,
    FROM_CLIENT,
    REQUEST,
    Boot,
    json_record,
    read_line,
)
from bandstand.bus.durable.recovery import Fate, fate_of, read_journal
from bandstand.bus.durable.retention import PageSummary, Retention, slices
from bandstand.bus.faults import ACTOR_CRASH, IN_DOUBT, TIMEOUT
from bandstand.bus.request import NO_REQUESTER, ROUTED, OpenRequest, PendingRequest, Requester
from bandstand.core.logs import SafeLogger
from bandstand.errors import JournalError
from bandstand.errors.validation import to_ms
from bandstand.journal import Journal, JournalReader

if TYPE_CHECKING:
    from bandstand.bus.durable.recovery import JournalContents
    from bandstand.bus.durable.state import DataOwner
    from bandstand.bus.frame import Frame
    from bandstand.bus.request import Route
    from bandstand.bus.router import Router

__all__ = ("NodeJournal",)

logger = SafeLogger("bandstand.bus")


class RecoveredClient:
    """The requester of a command whose client was connected before the node ended."""

    __slots__ = ()

    def settle(self, _frame: Frame, _settles: bool, /) -> bool:
        """Return False: the answer is not delivered, and waits for a repeat of the command."""
        return False


_RECOVERED_CLIENT: Final = RecoveredClient()


@final
class NodeJournal:
    """The journal of a node.

    Args:
        router: the router of the node.
        directory: where the journal is.
    """

    def __init__(self, router: Router, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._router = router
        self._journal = Journal(directory, on_failure=router.loop.kernel.fail)
        self._lane: DurableLane | None = None
        self.history = JournalHistory(directory)
        """The journal, as the clients of the node see it."""
        self.owners: dict[str, DataOwner] = {}
        """The parts of the node with data of their own, by name. They are added before `open`, which gives them their records."""
        # Deletes old pages.
        self._shortening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the journal, and restore what it says. The capabilities have not started yet: what is dispatched waits for them.

        Raises:
            JournalError: the journal cannot be opened or read; see `Journal.open`.
        """
        # Not at the top: the package imports this module.
        from bandstand import __version__

        router, config = self._router, self._router.config
        await self._journal.open()
        keep_ms = int(to_ms("remember_for", config.remember_for))
        contents = await asyncio.to_thread(
            read_journal, self.directory, config.remember_count, keep_ms, self.owners
        )
        state = contents.state
        # The lane removes the requests from the state as they end.
        open_requests = list(state.open.values())
        lane = DurableLane(router, self._journal, state, contents.remembered)
        router.handlers |= {
            PageDue: lane.write_due,
            PageWritten: lane.handle_written,
            DiskRetryDue: lane.retry_disk,
        }
        boot = Boot(__version__, router.ids.now_ms(), os.getpid())
        await self._journal.append(json_record(BOOT, boot))
        self._lane = router.durable = lane
        lane.on_checkpoint = self._shorten
        lane.on_page = self.history.note_page
        self._restore(contents)
        for request in open_requests:
            self._recover(request)

    def _restore(self, contents: JournalContents) -> None:
        router, state = self._router, contents.state
        now, now_ms = router.ids.now_ms(), router.now_ms()
        for answer in contents.answers:
            request = read_line(REQUEST, answer.request)
            router.requests.restore(
                request, read_line(ANSWER, answer.answer), now_ms, max(0, now - answer.at)
            )
        letters = router.dead_letters
        lane = router.durable
        assert lane is not None
        letters.on_added, letters.on_gone = lane.add_dead_letter, lane.remove_dead_letter
        for dead in list(state.dead.values()):
            entry = DeadLetterEntry(
                dead.message,
                dead.reason,
                dead.at,
                answer=dead.answer,
                said=dead.said,
                capability=dead.capability,
                attempts=dead.attempts,
            )
            letters.restore(dead.id, entry)
        scheduler = router.scheduler
        assert scheduler is not None
        for timer in state.timers.values():
            scheduler.restore(timer.id, timer.message, timer.due, is_of_client=timer.client)

    def _recover(self, entry: OpenRequest) -> None:
        """Decide the fate of an open command."""
        router = self._router
        frame = read_line(REQUEST, entry.line)
        is_of_client = bool(entry.flags & FROM_CLIENT)
        requester: Requester = _RECOVERED_CLIENT if is_of_client else NO_REQUESTER
        credit = router.client_credit if is_of_client else router.internal_credit
        pending = PendingRequest(requester, frame, credit, False)  # noqa: FBT003  # by position, as elsewhere
        pending.entry = entry
        pending.is_owed = True
        route = router.find(frame.kind, frame.type)
        fate = fate_of(
            entry.begun,
            is_retry_safe=route is not None and route.is_retry_safe,
            is_overdue=is_of_client and self._is_overdue(entry, frame, route),
        )
        router.enter(pending)
        if fate is Fate.DISPATCHED:
            router.take(pending)
            return
        pending.route = route
        pending.stage = ROUTED
        if fate is Fate.TIMED_OUT:
            router.fail(
                pending, TIMEOUT, f"the node was down, and {frame.type} has waited longer than its deadline"
            )
        elif fate is Fate.IN_DOUBT:
            router.fail(
                pending,
                IN_DOUBT,
                f"the node has died while {frame.type} was handled: it may have been carried out or not. Find out, then settle it with "
                f"Dead.Settle, or send it with a new id",
            )
        else:
            router.fail(
                pending,
                ACTOR_CRASH,
                f"the node has died {entry.begun} times while {frame.type} was handled; it is not tried again",
            )

    def _is_overdue(self, entry: OpenRequest, frame: Frame, route: Route | None) -> bool:
        timeout = frame.metadata.timeout
        if timeout is None:
            timeout = (
                int(to_ms("timeout", self._router.config.timeout)) if route is None else route.timeout_ms
            )
        return entry.at + timeout <= self._router.ids.now_ms()

    def _shorten(self, needed: int) -> None:
        """Delete the pages that are neither needed nor kept for an audit; `needed` is the first one that is needed."""
        config = self._router.config
        is_limited = config.journal_keep_for is not None or config.journal_keep_bytes is not None
        if is_limited and (self._shortening is None or self._shortening.done()):
            self._shortening = asyncio.create_task(self._delete_before(needed))

    async def _delete_before(self, needed: int) -> None:
        config = self._router.config
        retention = Retention(keep_for=config.journal_keep_for, keep_bytes=config.journal_keep_bytes)
        try:
            pages = await asyncio.to_thread(self._summaries)
            first = retention.first_kept(pages, needed, self._router.ids.now_ms())
            for before in slices(pages, first):
                await self._journal.delete_before(before)
        except JournalError:
            logger.exception(
                "could not delete old pages of the journal %s; the next checkpoint tries again",
                self.directory,
            )

    def _summaries(self) -> list[PageSummary]:
        with JournalReader(self.directory) as reader:
            return [PageSummary(number, at, size) for number, at, size in reader.sizes()]

    async def drain(self) -> None:
        """Wait until everything that was answered is on the disk and sent."""
        if self._lane is not None:
            await self._lane.drain()

    async def close(self) -> None:
        """Write what waits, and close the journal."""
        await self.drain()
        if self._shortening is not None:
            self._shortening.cancel()
            await asyncio.wait([self._shortening])
        await self._journal.close()
