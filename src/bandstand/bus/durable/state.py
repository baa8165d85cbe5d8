"""What is open in a node, as far as its journal says: the fold over its records.

At boot, `apply` reads the journal. While the node runs, `DurableLane` makes the same changes whenever a page is durable: for frequent records
directly, for the others by `apply`. So a checkpoint is a dump of this state.

The data of other parts of the node, such as entities and reminders, are in `DATA` records. A part registers a `DataOwner`, which folds its own.

Everything here is pure: records in, state out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from msgspec import Struct

from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    CHECKPOINT,
    DATA,
    DEAD,
    DEAD_ENDED,
    ENDED,
    IS_BEGUN,
    IS_DOUBTFUL,
    IS_REMEMBERED,
    REQUEST,
    TIMER,
    TIMER_ENDED,
    Checkpoint,
    DataEntry,
    DeadEntry,
    TimerEntry,
    answer_data,
    json_record,
    numbers_record,
    read_answer,
    read_json,
    read_line,
    read_numbers,
    read_request,
    request_data,
)
from bandstand.bus.request import OpenRequest
from bandstand.journal import Record

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.frame import Frame

__all__ = ("DataOwner", "DoubtfulRequest", "DurableState", "RecoveredAnswer", "RememberedPages")


class DataOwner(Protocol):
    """A part of a node with records of its own."""

    def apply(self, data: Raw, at: int, page: int, /) -> None:
        """Take a record that was written at a time, in milliseconds since 1970, in a page; 0 for a page that is not written yet."""
        ...

    def clear(self) -> None:
        """Forget everything: a checkpoint follows."""
        ...

    def entries(self) -> Iterable[Raw]:
        """Return records from which `apply` makes the present state."""
        ...


@final
@dataclass(frozen=True, slots=True)
class DoubtfulRequest:
    """A command of which it is not known whether it was executed: its answer is `Sys.InDoubt`, until it is settled."""

    request: OpenRequest
    answer: bytes

    def frame(self) -> Frame:
        """Return the command."""
        return read_line(REQUEST, self.request.line)


@final
class RecoveredAnswer(Struct, frozen=True, gc=False):
    """The answer to a command that a repeat gets again."""

    request: bytes
    answer: bytes
    at: int
    """When it was answered, in milliseconds since 1970."""


@final
class RememberedPages:
    """Which pages have the answers that are remembered, so that a boot reads no others.

    Args:
        limit: how many answers are remembered.
        keep_ms: for how long.
    """

    __slots__ = ("_count", "_keep_ms", "_limit", "_pages")

    def __init__(self, limit: int, keep_ms: int) -> None:
        self._limit = limit
        self._keep_ms = keep_ms
        # For each page with answers: the lowest page of their requests, how many they are, and when they were written.
        self._pages: deque[tuple[int, int, int]] = deque()
        self._count = 0

    def note(self, lowest: int, at: int, count: int) -> None:
        """Note a page with answers.

        Args:
            lowest: the lowest page that has one of their requests.
            at: when it was written, in milliseconds since 1970.
            count: how many answers it has.
        """
        self._pages.append((lowest, count, at))
        self._count += count
        self._forget(at)

    def _forget(self, now: int) -> None:
        pages = self._pages
        while pages and (self._count - pages[0][1] >= self._limit or pages[0][2] + self._keep_ms < now):
            self._count -= pages.popleft()[1]

    def read_from(self, now: int) -> int:
        """Return the lowest page that is needed; 0 if there are no answers to remember."""
        self._forget(now)
        return min((lowest for lowest, _, _ in self._pages), default=0)


@final
class DurableState:
    """What is open. `apply` takes the records in their order.

    Args:
        owners: the parts of the node with data of their own, by name.
        on_answer: called with each answer that is remembered and its page; None if they do not matter.
    """

    __slots__ = ("_on_answer", "dead", "doubtful", "next_number", "open", "owners", "timers", "unknown_data")

    def __init__(
        self,
        owners: dict[str, DataOwner] | None = None,
        on_answer: Callable[[RecoveredAnswer, int], object] | None = None,
    ) -> None:
        self.owners = {} if owners is None else owners
        self._on_answer = on_answer
        self.next_number = 1
        self.open: dict[int, OpenRequest] = {}
        self.doubtful: dict[int, DoubtfulRequest] = {}
        self.timers: OrderedDict[str, TimerEntry] = OrderedDict()
        self.dead: OrderedDict[str, DeadEntry] = OrderedDict()
        self.unknown_data: dict[str, list[DataEntry]] = {}
        """The data of parts that this node does not have. They are kept: the part may come back with the next program."""

    def apply(self, record: Record, at: int, page: int = 0) -> None:
        """Take the next record.

        Args:
            record: the record. Kinds that do not change what is open are ignored.
            at: when it was written, in milliseconds since 1970.
            page: the page that it is in; 0 if that is not written yet.

        Raises:
            JournalCorruptError: the record cannot be read.
        """
        kind, data = record.kind, record.data
        if kind == REQUEST:
            self._apply_request(data, page)
        elif kind == BEGAN:
            for number in read_numbers(kind, data):
                if (request := self.open.get(number)) is not None:
                    request.begun += 1
        elif kind == ANSWER:
            self._apply_answer(data, at)
        elif kind == ENDED:
            for number in read_numbers(kind, data):
                self.open.pop(number, None)
                self.doubtful.pop(number, None)
        elif kind == TIMER:
            timer = read_json(kind, data, TimerEntry)
            self.timers[timer.id] = timer
        elif kind == TIMER_ENDED:
            self.timers.pop(data.decode(), None)
        elif kind == DEAD:
            dead = read_json(kind, data, DeadEntry)
            self.dead.pop(dead.id, None)
            self.dead[dead.id] = dead
        elif kind == DEAD_ENDED:
            self.dead.pop(data.decode(), None)
        elif kind == CHECKPOINT:
            self._clear()
            self.next_number = max(self.next_number, read_json(kind, data, Checkpoint).next_number)
        elif kind == DATA:
            self._apply_data(read_json(kind, data, DataEntry), at, page)

    def _apply_request(self, data: bytes, page: int) -> None:
        found = read_request(data)
        self.next_number = max(self.next_number, found.number + 1)
        request = OpenRequest(found.number, found.at, found.flags, found.line)
        request.begun = 1 if found.flags & IS_BEGUN else 0
        request.page = page
        self.open[found.number] = request

    def _apply_answer(self, data: bytes, at: int) -> None:
        found = read_answer(data)
        request = self.open.pop(found.number, None)
        settled = self.doubtful.pop(found.number, None)
        if request is None and settled is not None:
            request = settled.request
        if request is None:
            # Its request is in a page that was deleted, or before the page at which the reader has begun.
            return
        if found.flags & IS_DOUBTFUL:
            self.doubtful[found.number] = DoubtfulRequest(request, found.line)
        elif found.flags & IS_REMEMBERED and self._on_answer is not None:
            self._on_answer(RecoveredAnswer(request.line, found.line, at), request.page)

    def _apply_data(self, entry: DataEntry, at: int, page: int) -> None:
        owner = self.owners.get(entry.owner)
        if owner is None:
            self.unknown_data.setdefault(entry.owner, []).append(entry)
        else:
            owner.apply(entry.data, at, page)

    def _clear(self) -> None:
        self.open.clear()
        self.doubtful.clear()
        self.timers.clear()
        self.dead.clear()
        self.unknown_data.clear()
        for owner in self.owners.values():
            owner.clear()

    def checkpoint(self, read_from: int) -> Iterator[Record]:
        """Yield the records of a checkpoint: from them, `apply` makes this state.

        Args:
            read_from: the lowest page with a request whose answer is remembered; 0 if there is none.
        """
        yield json_record(CHECKPOINT, Checkpoint(self.next_number, read_from))
        for doubtful in self.doubtful.values():
            yield from _request_records(doubtful.request)
            yield Record(ANSWER, answer_data(doubtful.request.number, IS_DOUBTFUL, doubtful.answer))
        for request in self.open.values():
            yield from _request_records(request)
        for timer in self.timers.values():
            yield json_record(TIMER, timer)
        for dead in self.dead.values():
            yield json_record(DEAD, dead)
        for entries in self.unknown_data.values():
            for entry in entries:
                yield json_record(DATA, entry)
        for name, owner in self.owners.items():
            for data in owner.entries():
                yield json_record(DATA, DataEntry(name, data))


def _request_records(request: OpenRequest) -> Iterator[Record]:
    flags = request.flags | IS_BEGUN if request.begun else request.flags & ~IS_BEGUN
    yield Record(REQUEST, request_data(request.number, request.at, flags, request.line))
    for _ in range(request.begun - 1):
        yield numbers_record(BEGAN, [request.number])
