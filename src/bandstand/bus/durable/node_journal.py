"""The journal of a node: it is opened and read when the node starts, and closed when it stops."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, final

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
from bandstand.bus.durable.retention import PageSummary, Retention, has_owned_records, slices
from bandstand.bus.faults import ACTOR_CRASH, IN_DOUBT, TIMEOUT
from bandstand.bus.request import (
    NO_REQUESTER,
    RECOVERED_CLIENT,
    ROUTED,
    OpenRequest,
    PendingRequest,
    Requester,
)
from bandstand.core.logs import SafeLogger
from bandstand.errors import JournalError
from bandstand.errors.validation import to_ms
from bandstand.journal import Journal, JournalReader
from bandstand.persistence.store import EventStore, event_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bandstand.bus.durable.recovery import JournalContents
    from bandstand.bus.durable.state import DataOwner
    from bandstand.bus.entity_host import EntityHosts
    from bandstand.bus.frame import Frame
    from bandstand.bus.request import Route
    from bandstand.bus.router import Router
    from bandstand.journal import JournalIndex
    from bandstand.persistence.events import EventTypes

__all__ = ("NodeJournal",)

logger = SafeLogger("bandstand.bus")


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
        self._journal = Journal(
            directory, on_failure=router.loop.kernel.fail, now=lambda: router.ids.now_ms() / 1000
        )
        self._lane: DurableLane | None = None
        self.history = JournalHistory(directory)
        """The journal, as the clients of the node see it."""
        self.owners: dict[str, DataOwner] = {}
        """The parts of the node with data of their own, by name. They are added before `open`, which gives them their records."""
        self.requester_of: Callable[[Frame], Requester] = lambda _frame: NO_REQUESTER
        """Finds the requester of an open command of the node itself."""
        self._entities: EntityHosts | None = None
        self._entity_types: list[EventTypes] = []
        self._index: JournalIndex | None = None
        # Deletes old pages.
        self._shortening: asyncio.Task[None] | None = None

    def keep_entities(self, entities: EntityHosts, types: Iterable[EventTypes]) -> None:
        """Keep the events of entities. Call it before `open`, which gives `entities` their store."""
        self._entities = entities
        self._entity_types += types

    async def open(self) -> None:
        """Open the journal, and restore what it says. The capabilities have not started yet: what is dispatched waits for them.

        Raises:
            JournalError: the journal cannot be opened or read; see `Journal.open`.
            EventSchemaError: it has events that the entities of this program cannot read.
        """
        # Not at the top: the package imports this module.
        from bandstand import __version__

        router, config = self._router, self._router.config
        await self._journal.open()
        if self._entities is not None:
            # Before anything is written: the program may not fit the journal.
            self._entities.store = await self._open_events()
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

    async def _open_events(self) -> EventStore:
        self._index = await event_index(self.directory).open()
        store = EventStore(self.directory, self._journal, self._index)
        for types in self._entity_types:
            await store.register(types)
        return store

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
        requester: Requester = RECOVERED_CLIENT if is_of_client else self.requester_of(frame)
        credit = router.client_credit if is_of_client else router.internal_credit
        pending = PendingRequest(requester, frame, credit, False)  # noqa: FBT003  # by position, as elsewhere
        pending.entry = entry
        pending.is_owed = True
        route = router.find(frame.kind, frame.type)
        begun = entry.begun
        if router.steps is not None:
            # A workflow that makes progress is tried again, however often the node dies.
            begun -= router.steps.table.attempts_before_progress(frame.metadata.id, entry.number)
        fate = fate_of(
            begun,
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
            if pages and first > pages[0].number:
                first = await self._first_owned(pages[0].number, first)
            for before in slices(pages, first):
                await self._journal.delete_before(before)
        except JournalError:
            logger.exception(
                "could not delete old pages of the journal %s; the next checkpoint tries again",
                self.directory,
            )

    async def _first_owned(self, since: int, before: int) -> int:
        """Return the first of these pages that an entity needs; `before` if none does. Schemas that are only there are written again."""
        store = None if self._entities is None else self._entities.store
        if store is None:
            # This program has no entities, and another one may have had some.
            return await asyncio.to_thread(self._first_page_with_events, since, before)
        before = await store.first_needed(since, before)
        await store.keep_schemas(before)
        return before

    def _first_page_with_events(self, since: int, before: int) -> int:
        with JournalReader(self.directory) as reader:
            for page in reader.pages(since=since):
                if page.number >= before or has_owned_records(page):
                    return min(page.number, before)
        return before

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
        if self._index is not None:
            await self._index.close()
        await self._journal.close()
