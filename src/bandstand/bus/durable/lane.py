"""The durable command lane: the way of commands through a node that has a journal.

**The problem.** A node that dies must not lose a command that it has accepted, must not carry one out twice, and must answer each one. An fsync takes
longer than a hundred commands.

**Pages.** Everything that the router does in a round goes into one batch, and a batch is one page of the journal. One batch at a time is
written; the next one collects meanwhile. So the disk is always busy under load, and a single command never waits for others.

**The way of a command.** The request is in a durable page before its capability gets it. Its answer, and what its handler has sent, are in one page, and
only after that is any of it sent: the answer, events, further commands, timers. If the handler fails, what it has sent is dropped.

**Begun or not.** After a crash it matters whether a handler may have begun on a command: if not, it is simply dispatched. A page that says so costs
no extra fsync. A command that finds a free place at its capability is marked in the record of its request; one that has to wait is marked in
the page with the answers that make room, and delivered after that. The number of places follows the speed of the capability: it grows if the capability
has had nothing to do during a write, and shrinks if most of what has a place still waits.

**Queries** are not journaled. A query waits only behind commands to the same capability that came before it and are on their way to the disk; a
`Syscall.Ping`, which confirms the events before it, also waits behind events.

**A full disk.** Commands are refused with `Sys.Unavailable`. What is owed, such as answers, stays in memory and is tried again until there is room. **A
failing disk** ends the node: what is on it is unknown.

Everything here runs in turns of the router.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.dead_letters import REASONS, DeadLetterEntry
from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    DATA,
    DEAD,
    DEAD_ENDED,
    ENDED,
    EVENT,
    FROM_CLIENT,
    IS_BEGUN,
    IS_DOUBTFUL,
    IS_REMEMBERED,
    REQUEST,
    TIMER,
    TIMER_ENDED,
    DataEntry,
    DeadEntry,
    TimerEntry,
    answer_data,
    json_record,
    numbers_data,
    read_line,
    request_data,
)
from bandstand.bus.durable.state import DoubtfulRequest
from bandstand.bus.faults import (
    CONFLICT,
    IN_DOUBT,
    OVERLOADED,
    SHUTTING_DOWN,
    TIMEOUT,
    UNAVAILABLE,
    FaultAnswer,
)
from bandstand.bus.frame import Frame, Metadata, kind_of, type_of
from bandstand.bus.request import DONE, NoRequester, OpenRequest, PendingRequest
from bandstand.bus.request_table import has_same_content
from bandstand.bus.wire import write_frame
from bandstand.core import Lane
from bandstand.core.logs import SafeLogger
from bandstand.errors import JournalError, JournalFullError, RefusedError
from bandstand.journal import Record, RecordBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bandstand.bus.admission import CreditLimit
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.durable.state import DurableState, RememberedPages
    from bandstand.bus.ingress import Peer
    from bandstand.bus.router import Router
    from bandstand.bus.scheduler import ScheduledMessage
    from bandstand.core import TimerId
    from bandstand.journal import Journal

__all__ = (
    "CommandQueue",
    "DiskRetryDue",
    "DurableLane",
    "HeldWrite",
    "PageDue",
    "PageWritten",
    "PendingPage",
)

Count: TypeAlias = int
Flag: TypeAlias = bool

logger = SafeLogger("bandstand.bus")

# After so many bytes of records a checkpoint is written: at boot, less than twice as much is read.
_CHECKPOINT_BYTES: Final = 4 << 20
# How long the node waits before it tries a full disk again, in seconds.
_RETRY_S: Final = 0.25
# The query with which a client finds out that the node has taken what it has sent before.
_PING: Final = "Syscall.Ping"
_FULL: Final = (
    "the disk of the journal is full, so the node accepts only queries; nothing was done: try again later"
)


class PageDue:
    """Sent to the router behind the messages that are in its mailbox: write what they have left."""


class DiskRetryDue:
    """A timer message: find out whether the disk has room again."""


class PageWritten:
    """Sent to the router: a page is durable, or has failed."""

    __slots__ = ("error", "page")

    def __init__(self, page: int, error: JournalError | None) -> None:
        self.page = page
        self.error = error


class CommandQueue:
    """The commands of one capability on their way through the journal."""

    __slots__ = ("answered", "entering", "in_progress", "least", "places", "ready", "unmarked")

    def __init__(self, least: Count) -> None:
        # How many have a place, and how many there are; never fewer than `least`.
        self.in_progress: Count = 0
        self.places: Count = least
        self.least: Count = least
        # How many are in pages that are not durable yet, and how many of these are not marked as begun.
        self.entering: Count = 0
        self.unmarked: Count = 0
        # What waits for a place, and the queries behind it.
        self.ready: deque[PendingRequest] = deque()
        # How many were answered since the last page.
        self.answered: Count = 0

    @property
    def size(self) -> int:
        """How many commands and queries are in it."""
        return self.in_progress + self.unmarked + len(self.ready)

    def adapt(self) -> None:
        """Adapt the number of places to the speed of the capability: a page is durable."""
        if self.answered:
            in_hand = self.in_progress - (self.entering - self.unmarked)
            if not in_hand and self.ready:
                # It had nothing to do during the write.
                self.places *= 2
            elif in_hand * 2 > self.places:
                self.places = max(self.least, self.places // 2)
            self.answered = 0


class HeldWrite:
    """What a part of the node writes together with the answer of a command.

    Args:
        write: called when the answer is written, to write records into the same page.
        drop: called instead if the handler has failed.
    """

    __slots__ = ("drop", "write")

    def __init__(self, write: Callable[[], object], drop: Callable[[], object]) -> None:
        self.write = write
        self.drop = drop


class PendingPage:
    """The records of a page, and what happens once they are durable."""

    __slots__ = ("begun", "commands", "effects", "is_checkpoint", "records")

    def __init__(self) -> None:
        # The records of commands that are refused if the disk is full; and those that must not get lost.
        self.commands = RecordBatch()
        self.records = RecordBatch()
        # What follows, in the order in which it came: a request is delivered, a tuple is an answer to send, the rest is called.
        self.effects: list[Any] = []
        # The numbers of the commands that are marked as begun.
        self.begun: list[int] = []
        # Whether the page is a checkpoint, and has nothing else.
        self.is_checkpoint: Flag = False

    def has_records(self) -> Flag:
        """Return whether there is anything to write."""
        return bool(self.commands.count or self.records.count or self.begun)

    def join(self) -> RecordBatch:
        """Return the records in their order: an answer never comes before its request."""
        records = self.commands
        if self.begun:
            records.add(BEGAN, numbers_data(self.begun))
        records.extend(self.records)
        return records


class DurableLane:
    """The durable command lane of a node.

    Args:
        router: the router of the node.
        journal: the journal, open for writing.
        state: what the journal says is open.
        remembered: the pages that have the remembered answers.
    """

    __slots__ = (
        "_batch",
        "_doubts",
        "_drained",
        "_events",
        "_has_failed",
        "_is_due",
        "_is_full",
        "_is_stopping",
        "_journal",
        "_next_number",
        "_queues",
        "_remembered",
        "_retry_timer",
        "_router",
        "_size",
        "_state",
        "_writing",
        "on_checkpoint",
        "on_page",
    )

    def __init__(
        self, router: Router, journal: Journal, state: DurableState, remembered: RememberedPages
    ) -> None:
        self._router = router
        self._journal = journal
        self._state = state
        self._remembered = remembered
        self._next_number: Count = state.next_number
        # The commands of which it is not known whether they were carried out: their numbers, by the ids of the messages.
        self._doubts: dict[str, int] = {
            doubt.frame().metadata.id: number for number, doubt in state.doubtful.items()
        }
        self._queues: dict[CapabilitySlot, CommandQueue] = {}
        self._batch = PendingPage()
        # The batch that is being written.
        self._writing: PendingPage | None = None
        # Whether a `PageDue` is in the mailbox of the router.
        self._is_due: Flag = False
        # Whether the last page has found the disk full, and what it owes is still in memory.
        self._is_full: Flag = False
        self._retry_timer: TimerId | None = None
        # How many events are in pages that are not durable yet.
        self._events: Count = 0
        # Whether the disk has failed.
        self._has_failed: Flag = False
        # Whether the node stops: what waits for a place stays in the journal.
        self._is_stopping: Flag = False
        # The bytes of records since the last checkpoint.
        self._size: Count = 0
        self._drained: asyncio.Future[None] | None = None
        self.on_page: Callable[[], object] = lambda: None
        """Called when a page is durable."""
        self.on_checkpoint: Callable[[int], object] | None = None
        """Called when a checkpoint is durable, with the first page that a start of the node would read."""

    # -- requests ----------------------------------------------------------------------------------------------------------

    def accept(self, pending: PendingRequest) -> None:
        """Take a request on its way to its capability. A command is delivered once it is durable."""
        route = pending.route
        assert route is not None
        slot = route.slot
        queue = self._queues.get(slot)
        if queue is None:
            # A worker takes every message at once.
            least = slot.spec.concurrency if slot.spec.is_class else slot.mailbox
            queue = self._queues[slot] = CommandQueue(least)
        if not route.is_durable:
            self._accept_query(queue, pending)
            return
        if pending.entry is not None:
            # It was open when the node ended.
            queue.ready.append(pending)
            self._fill(queue)
            return
        if self._doubts and self._is_in_doubt(pending):
            return
        if not pending.is_owed and self._is_full:
            self._refuse(pending)
            return
        if queue.size >= slot.mailbox:
            self._router.fail(
                pending, OVERLOADED, f"the mailbox of {slot.id} is full; try again later", capability=slot.id
            )
            return
        flags = FROM_CLIENT if pending.credit.remembers else 0
        is_marked = not queue.ready and not queue.unmarked and queue.in_progress < queue.places
        if is_marked:
            flags |= IS_BEGUN
        number = self._next_number
        self._next_number = number + 1
        line = write_frame(pending.frame)
        entry = OpenRequest(number, self._router.ids.now_ms(), flags, line)
        pending.entry = entry
        queue.entering += 1
        if is_marked:
            queue.in_progress += 1
            entry.is_marked = entry.has_place = True
        else:
            queue.unmarked += 1
        batch = self._batch
        records = batch.records if pending.is_owed else batch.commands
        records.add(REQUEST, request_data(number, entry.at, flags, line))
        batch.effects.append(pending)
        self._want_page()

    def _accept_query(self, queue: CommandQueue, pending: PendingRequest) -> None:
        if self._is_full:
            self._router.deliver(pending)
        elif queue.entering or (self._events and type_of(pending.frame) == _PING):
            # A client that has published an event confirms it with a ping.
            self._batch.effects.append(pending)
            self._want_page()
        elif queue.ready:
            queue.ready.append(pending)
        else:
            self._router.deliver(pending)

    def _refuse(self, pending: PendingRequest) -> None:
        self._router.fail(pending, UNAVAILABLE, _FULL)

    def answer(self, pending: PendingRequest, frame: Frame, is_final: Flag) -> None:
        """Take the answer to a journaled command. It is sent once it is durable, together with what the handler has sent.

        Args:
            pending: the command.
            frame: the answer.
            is_final: whether a repeat of the command would have the same answer.
        """
        entry, route = pending.entry, pending.route
        assert entry is not None
        pending.is_answered = True
        flags = 0
        if route is not None and route.remembers and entry.flags & FROM_CLIENT:
            if type_of(frame) == IN_DOUBT or (
                type_of(frame) == TIMEOUT and pending.is_begun and not route.is_retry_safe
            ):
                flags = IS_DOUBTFUL
            elif is_final:
                flags = IS_REMEMBERED
        line = write_frame(frame)
        batch = self._batch
        batch.records.add(ANSWER, answer_data(entry.number, flags, line))
        if entry.outputs is not None:
            self._release_outputs(entry, is_kept=kind_of(frame) == "reply" or type_of(frame) not in REASONS)
        batch.effects.append((pending, frame, flags))
        self._leave(pending, entry)
        self._want_page()

    def withdraw(self, pending: PendingRequest) -> None:
        """End a command without an answer: its requester is gone."""
        entry = pending.entry
        assert entry is not None
        if not pending.is_answered:
            self._drop_outputs(entry)
            number = entry.number
            self.write(ENDED, numbers_data([number]), partial(self._state.open.pop, number, None))
            self._leave(pending, entry)

    def pause(self, pending: PendingRequest) -> None:
        """A command waits for its next attempt: others may have its place."""
        entry = pending.entry
        assert entry is not None
        self._drop_outputs(entry)
        self._leave(pending, entry)

    def resume(self, pending: PendingRequest) -> None:
        """Start the next attempt of a command."""
        queue = self._queue_of(pending)
        queue.ready.append(pending)
        self._fill(queue)

    def _queue_of(self, pending: PendingRequest) -> CommandQueue:
        assert pending.route is not None
        return self._queues[pending.route.slot]

    def _leave(self, pending: PendingRequest, entry: OpenRequest) -> None:
        """Release the place of a command."""
        if entry.has_place:
            entry.has_place = False
            queue = self._queue_of(pending)
            queue.in_progress -= 1
            queue.answered += 1
            if queue.ready:
                self._fill(queue)

    def _fill(self, queue: CommandQueue) -> None:
        """Give the free places to what waits."""
        ready, batch = queue.ready, self._batch
        while ready and not self._is_stopping:
            pending = ready[0]
            entry = pending.entry
            if pending.stage == DONE or pending.is_answered:
                ready.popleft()
            elif entry is None:
                ready.popleft()
                if queue.entering:
                    # Behind the commands that have just been given a place.
                    batch.effects.append(partial(self._router.deliver, pending))
                    self._want_page()
                else:
                    self._router.deliver(pending)
            elif queue.in_progress < queue.places:
                ready.popleft()
                queue.in_progress += 1
                queue.entering += 1
                entry.is_marked = entry.has_place = True
                batch.begun.append(entry.number)
                batch.effects.append(pending)
                self._want_page()
            else:
                break

    # -- what handlers send ------------------------------------------------------------------------------------------------

    def is_open(self, pending: PendingRequest) -> Flag:
        """Return whether a request is a journaled command without an answer."""
        return pending.entry is not None and pending.stage != DONE and not pending.is_answered

    def hold(
        self, parent: PendingRequest, output: PendingRequest | ScheduledMessage | Frame | HeldWrite
    ) -> None:
        """Keep what the handler of a command has sent until its answer is durable."""
        entry = parent.entry
        assert entry is not None
        if entry.outputs is None:
            entry.outputs = []
        entry.outputs.append(output)

    def _release_outputs(self, entry: OpenRequest, *, is_kept: bool) -> None:
        """Write what a handler has sent; or drop it, if the handler has failed."""
        if not is_kept:
            self._drop_outputs(entry)
            return
        outputs, entry.outputs = entry.outputs, None
        for output in outputs or ():
            if isinstance(output, PendingRequest):
                if output.stage != DONE:
                    output.is_owed = True
                    self._router.take(output)
            elif isinstance(output, Frame):
                assert self._router.on_event is not None
                self._router.on_event(output, None, self._router.event_credit)
            elif isinstance(output, HeldWrite):
                output.write()
            else:
                self.schedule(output)

    def _drop_outputs(self, entry: OpenRequest) -> None:
        outputs, entry.outputs = entry.outputs, None
        for output in outputs or ():
            if isinstance(output, PendingRequest):
                self._router.withdraw(output)
            elif isinstance(output, Frame):
                self._router.event_credit.used -= 1
            elif isinstance(output, HeldWrite):
                output.drop()
            else:
                scheduler = self._router.scheduler
                assert scheduler is not None
                scheduler.cancel(output.id)

    # -- events, timers and dead letters -----------------------------------------------------------------------------------

    def check_room(self) -> None:
        """Refuse a message that need not be taken.

        Raises:
            RefusedError: the disk is full.
        """
        if self._is_full:
            raise RefusedError(FaultAnswer(UNAVAILABLE, _FULL))

    def publish(self, frame: Frame, peer: Peer | None, credit: CreditLimit | None) -> None:
        """Publish an event once it is durable, and release its credit then."""
        self._events += 1
        self.write(EVENT, write_frame(frame), partial(self._publish, frame, peer, credit))

    def _publish(self, frame: Frame, peer: Peer | None, credit: CreditLimit | None) -> None:
        router = self._router
        assert router.on_durable_event is not None
        self._events -= 1
        router.on_durable_event(frame, peer)
        if credit is not None:
            credit.used -= 1
            if router.on_credit is not None:
                router.on_credit()

    def schedule(self, message: ScheduledMessage) -> None:
        """Write a scheduled message. Its timer starts once it is durable."""
        scheduler = self._router.scheduler
        assert scheduler is not None
        if message.id not in scheduler:
            # It was cancelled by the handler that has scheduled it.
            return
        message.is_journaled = True
        entry = TimerEntry(message.id, message.due, scheduler.is_of_client(message), message.frame)
        self._write_state(json_record(TIMER, entry), partial(scheduler.start, message))

    def end_timer(self, name: str) -> None:
        """Write that a scheduled message was sent or cancelled."""
        self._write_state(Record(TIMER_ENDED, name.encode()))

    def add_dead_letter(self, letter: DeadLetterEntry) -> None:
        """Write a dead letter."""
        entry = DeadEntry(
            letter.id,
            letter.reason,
            letter.at_ms,
            letter.attempts,
            letter.frame,
            letter.text,
            letter.capability,
            letter.answer,
        )
        self._write_state(json_record(DEAD, entry))

    def remove_dead_letter(self, name: str) -> None:
        """Write that a dead letter was removed."""
        self._write_state(Record(DEAD_ENDED, name.encode()))

    def write_data(self, owner: str, data: Struct, effect: Callable[[], object] | None = None) -> None:
        """Write a record of a part of the node, and call `effect` when it is durable: after the `DataOwner` of that part has taken it."""
        self._write_state(json_record(DATA, DataEntry(owner, Raw(msgspec.json.encode(data)))), effect)

    def write(self, kind: int, data: bytes, effect: Callable[[], object]) -> None:
        """Write a record that must not get lost, and call `effect` when it is durable."""
        self._batch.records.add(kind, data)
        self._batch.effects.append(effect)
        self._want_page()

    def write_records(self, records: Iterable[Record], effect: Callable[[], object]) -> None:
        """Write records into one page, and call `effect` when it is durable. An answer that is given in the same turn is in that page too."""
        batch = self._batch
        for record in records:
            batch.records.add(record.kind, record.data)
        batch.effects.append(effect)
        self._want_page()

    def _write_state(self, record: Record, effect: Callable[[], object] | None = None) -> None:
        """Write a record that changes the state."""
        self.write(record.kind, record.data, partial(self._state.apply, record, 0))
        if effect is not None:
            self._batch.effects.append(effect)

    # -- doubts ------------------------------------------------------------------------------------------------------------

    def _is_in_doubt(self, pending: PendingRequest) -> bool:
        """Answer a repeat of a command of which it is not known whether it was carried out. Return False if there is no doubt."""
        route, frame = pending.route, pending.frame
        assert route is not None
        doubt = self.find_doubt(frame.metadata.id)
        if doubt is None or not pending.credit.remembers or not route.remembers:
            return False
        router = self._router
        if not has_same_content(doubt.frame(), frame):
            router.counters.conflicting += 1
            text = f"the id {frame.metadata.id} was used for another request, with other content; nothing was done: send this one with a new id"
            router.fail(pending, CONFLICT, text)
            return True
        answer = read_line(ANSWER, doubt.answer)
        router.counters.repeated += 1
        own = frame.metadata
        metadata = Metadata(router.ids(), router.ids.last_ms, own.id, own.correlation)
        again = Frame(kind=answer.kind, type=answer.type, data=answer.data, metadata=metadata)
        router.finish(pending, again, False)  # noqa: FBT003  # by position: it is compiled
        return True

    def note_late(self, pending: PendingRequest, frame: Frame) -> None:
        """The handler of a command has answered after its deadline: now it is known what has become of it."""
        entry = pending.entry
        if entry is not None and (kind_of(frame) == "reply" or type_of(frame) not in REASONS):
            doubt = self._state.doubtful.get(entry.number)
            if doubt is not None:
                self.settle(doubt, frame)

    def find_doubt(self, name: str) -> DoubtfulRequest | None:
        """Return the command with this id if it is not known whether it was carried out."""
        number = self._doubts.get(name)
        return None if number is None else self._state.doubtful.get(number)

    def settle(self, doubt: DoubtfulRequest, answer: Frame | None) -> None:
        """End the doubt about a command. A repeat gets this answer from now on; with None, it is carried out."""
        number = doubt.request.number
        if answer is None:
            self.write(ENDED, numbers_data([number]), partial(self._end_doubt, number, None))
            return
        data = answer_data(number, IS_REMEMBERED, write_frame(answer))
        self.write(ANSWER, data, partial(self._end_doubt, number, answer))

    def _end_doubt(self, number: int, answer: Frame | None) -> None:
        doubt = self._state.doubtful.pop(number, None)
        if doubt is None:
            # It was settled twice: the first time counts.
            return
        router = self._router
        request = doubt.frame()
        del self._doubts[request.metadata.id]
        if answer is not None:
            self._remembered.note(doubt.request.page, router.ids.now_ms(), 1)
            router.requests.restore(request, answer, router.now_ms())

    # -- pages -------------------------------------------------------------------------------------------------------------

    def _want_page(self) -> None:
        """Have the batch written after the messages that are in the router's mailbox now."""
        if not self._is_due and self._writing is None and self._retry_timer is None:
            self._is_due = True
            self._router.post(PageDue())

    def write_page(self, _due: PageDue | None = None) -> None:
        """Write the batch, unless another one is being written."""
        self._is_due = False
        if self._writing is not None or self._retry_timer is not None:
            return
        batch, self._batch = self._batch, PendingPage()
        records = batch.join()
        if not records.count:
            # Queries whose commands have gone another way.
            self._complete(batch, 0)
            self._note_drained()
            return
        self._writing = batch
        self._size += records.size
        self._journal.write_batch(records, self._on_written)

    def _on_written(self, page: int, error: JournalError | None) -> None:
        # Called by the event loop: the rest happens in a turn of the router.
        router = self._router
        router.loop.send(router.actor, PageWritten(page, error), lane=Lane.CONTROL)

    def handle_written(self, written: PageWritten) -> None:
        """Let the page take effect, and write the next one."""
        batch, self._writing = self._writing, None
        assert batch is not None
        if written.error is None:
            self.on_page()
            if self._is_full:
                self._is_full = False
                logger.warning("the disk of the journal has room again: the node accepts commands")
            if batch.is_checkpoint:
                self._note_checkpoint(written.page)
            elif self._size >= _CHECKPOINT_BYTES:
                # A checkpoint has what the pages before it have changed.
                self._complete(batch, written.page)
                self._write_checkpoint()
                return
            if self._batch.has_records():
                # The disk has work while the effects of this page run.
                self.write_page()
            self._complete(batch, written.page)
            if self._batch.effects:
                # Nothing but queries: they come behind the commands of this page.
                self._want_page()
        elif isinstance(written.error, JournalFullError):
            self._retry_later(batch)
        else:
            # The node ends: nothing is written any more.
            self._writing = batch
            self._has_failed = True
        self._note_drained()

    def _complete(self, batch: PendingPage, page: int) -> None:
        """Let a durable page take effect."""
        for queue in self._queues.values():
            queue.adapt()
        now = self._router.ids.now_ms()
        lowest = count = 0
        for effect in batch.effects:
            kind = type(effect)  # pyright: ignore[reportUnknownVariableType]  # any class
            if kind is tuple:
                pending, frame, flags = effect
                lowest_page = self._finish(pending, frame, flags)
                if lowest_page:
                    count += 1
                    lowest = lowest_page if not lowest else min(lowest, lowest_page)
            elif kind is PendingRequest:
                self._on_durable(effect, page)
            else:
                effect()
        if count:
            self._remembered.note(lowest, now, count)
        for queue in self._queues.values():
            if queue.ready:
                self._fill(queue)

    def _on_durable(self, pending: PendingRequest, page: Count) -> None:
        """Deliver a request, or let it wait for a place."""
        entry = pending.entry
        queue = self._queue_of(pending)
        if entry is None:
            if queue.ready:
                queue.ready.append(pending)
            elif pending.stage != DONE:
                self._router.deliver(pending)
            return
        queue.entering -= 1
        if not entry.page:
            entry.page = page
            self._state.open[entry.number] = entry
        if entry.is_marked:
            entry.is_marked = False
            entry.begun += 1
            if pending.stage != DONE and not pending.is_answered:
                self._router.deliver(pending)
        else:
            queue.unmarked -= 1
            queue.ready.append(pending)

    def _finish(self, pending: PendingRequest, frame: Frame, flags: Count) -> Count:
        """Send a durable answer. Return the page of the request if the answer is remembered; 0 if not."""
        entry = pending.entry
        assert entry is not None
        state = self._state
        state.open.pop(entry.number, None)
        if flags & IS_DOUBTFUL:
            self._add_doubt(pending, entry, frame)
        if pending.stage != DONE:
            self._router.finish(pending, frame, flags & IS_REMEMBERED != 0)
        return entry.page if flags & IS_REMEMBERED else 0

    def _add_doubt(self, pending: PendingRequest, entry: OpenRequest, frame: Frame) -> None:
        self._state.doubtful[entry.number] = DoubtfulRequest(entry, write_frame(frame))
        self._doubts[pending.frame.metadata.id] = entry.number
        limit = self._router.config.remember_count
        if len(self._doubts) > limit:
            name, number = next(iter(self._doubts.items()))
            logger.error("more than %d commands are in doubt: a repeat of %s is carried out", limit, name)
            self.settle(self._state.doubtful[number], None)

    def _write_checkpoint(self) -> None:
        """Write everything that is open, so that a boot need not read what came before."""
        state = self._state
        state.next_number = self._next_number
        read_from = self._remembered.read_from(self._router.ids.now_ms())
        records = list(state.checkpoint(read_from))
        self._writing = PendingPage()
        self._writing.is_checkpoint = True
        self._size = 0
        self._journal.write(records, self._on_written)

    def _note_checkpoint(self, page: int) -> None:
        # The page of the checkpoint has the requests of all that is open.
        for request in self._state.open.values():
            request.page = page
        for doubtful in self._state.doubtful.values():
            doubtful.request.page = page
        if self.on_checkpoint is not None:
            read_from = self._remembered.read_from(self._router.ids.now_ms())
            self.on_checkpoint(min(page, read_from or page))

    # -- a full disk -------------------------------------------------------------------------------------------------------

    def _retry_later(self, batch: PendingPage) -> None:
        """The disk is full: refuse the commands of a page, and write the rest later."""
        if not self._is_full:
            self._is_full = True
            logger.error("the disk of the journal is full: the node accepts no commands until there is room")
        if batch.is_checkpoint:
            # It is written after another page.
            batch = PendingPage()
            self._size = _CHECKPOINT_BYTES
        collected, self._batch = self._batch, batch
        batch.commands = RecordBatch()
        batch.records.extend(collected.records)
        batch.begun += collected.begun
        effects = batch.effects + collected.effects
        batch.effects = [effect for effect in effects if not _is_refusable(effect)]
        refused = [effect for effect in effects if _is_refusable(effect)]
        router = self._router
        self._retry_timer = router.loop.send_after(router.actor, _RETRY_S, DiskRetryDue())
        for pending in refused:
            entry = pending.entry
            if entry is None:
                if pending.stage != DONE:
                    router.deliver(pending)
                continue
            queue = self._queue_of(pending)
            queue.entering -= 1
            if not entry.is_marked:
                queue.unmarked -= 1
            self._leave(pending, entry)
            # It may have been answered while it waited for the disk.
            if pending.stage != DONE and not pending.is_answered:
                pending.entry = None
                self._refuse(pending)
        for queue in self._queues.values():
            self._deliver_queries(queue)

    def _deliver_queries(self, queue: CommandQueue) -> None:
        """Deliver the queries that wait behind commands: these wait for the disk."""
        queries = [pending for pending in queue.ready if pending.entry is None]
        if queries:
            queue.ready = deque(pending for pending in queue.ready if pending.entry is not None)
            for pending in queries:
                if pending.stage != DONE:
                    self._router.deliver(pending)

    def retry_disk(self, _due: DiskRetryDue) -> None:
        """Try to write what the node owes."""
        self._retry_timer = None
        batch = self._batch
        if batch.effects:
            self.write_page()
        else:
            # Nothing is owed: the next command finds out whether there is room.
            self._is_full = False

    # -- the end of the node -----------------------------------------------------------------------------------------------

    def dismiss(self, pending: PendingRequest) -> None:
        """End a command whose node stops."""
        self._is_stopping = True
        router, route = self._router, pending.route
        if pending.is_answered or route is None:
            return
        if isinstance(pending.requester, NoRequester):
            # It stays in the journal, and the next start of the node decides.
            router.abandon(pending)
        elif pending.is_begun and not route.is_retry_safe:
            router.fail(
                pending,
                IN_DOUBT,
                "the node stopped while the command was handled: it may have been carried out or not",
            )
        else:
            router.fail(pending, SHUTTING_DOWN, "the node stopped before it was answered")

    async def drain(self) -> None:
        """Wait until everything is on the disk and has taken effect; or until the disk has failed, or is full."""
        if (
            self._has_failed
            or not self._router.actor.is_alive
            or (self._writing is None and not self._is_due)
        ):
            return
        self._drained = asyncio.get_running_loop().create_future()
        await self._drained

    def _note_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            is_idle = self._writing is None and not self._is_due
            if is_idle or self._is_full or self._has_failed:
                self._drained.set_result(None)


def _is_refusable(effect: object) -> bool:
    """Return whether an effect is the delivery of a query, or of a new command that may be refused."""
    if not isinstance(effect, PendingRequest):
        return False
    entry = effect.entry
    return entry is None or (not effect.is_owed and not entry.page)
