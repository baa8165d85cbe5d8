"""Reads the journal of a node record by record: what each one says, and where it is.

A record has an `Offset`: the number of its page, and its place in it. `read_batch` reads a bounded number of records behind an offset and returns the offset to
continue from, so a reader needs no state: the command line, `Syscall.Recent` and a subscription that resumes all read this way.

A checkpoint repeats what is open: the same request is in the journal again behind each checkpoint. Such a record is a *copy*, and is left out unless
it is asked for. A page is the work of several writers, so other records may follow the copies: they end at the first record that a checkpoint
cannot have.

Reading takes as long as the disk does: call these functions on a thread, not on an event loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, Self, TypeAlias, final

from msgspec import Raw, Struct

from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    BOOT,
    CHECKPOINT,
    DATA,
    DEAD,
    DEAD_ENDED,
    ENDED,
    EVENT,
    IS_DOUBTFUL,
    KIND_NAMES,
    REQUEST,
    TIMER,
    TIMER_ENDED,
    Boot,
    Checkpoint,
    DataEntry,
    DeadEntry,
    TimerEntry,
    read_answer,
    read_json,
    read_line,
    read_numbers,
    read_request,
)
from bandstand.bus.frame import KINDS, Frame, Metadata
from bandstand.bus.tap import Filter
from bandstand.errors import InvalidArgumentError, JournalCorruptError, JournalError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.journal import JournalReader, Page, Record
from bandstand.persistence.records import ENTITY_EVENT, EventHead, read_head

__all__ = (
    "START",
    "Batch",
    "Content",
    "Entry",
    "Offset",
    "Selection",
    "entries_of",
    "ids_of",
    "pages_backward",
    "read_batch",
    "read_entry",
)

# The kinds of records with a message that has passed the router.
_PASSED: Final = frozenset({REQUEST, ANSWER, EVENT})

_OFFSET: Final = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)

# How many bytes of pages `pages_backward` reads at a time, about.
_WINDOW_BYTES: Final = 4 << 20


class Offset(NamedTuple):
    """The place of a record in a journal. Offsets are in the order of the records."""

    page: int
    """The number of the page."""
    place: int
    """The place in the page, from 1. 0 is the place before the first record."""

    def __str__(self) -> str:
        return f"{self.page}-{self.place}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of an offset.

        Raises:
            InvalidArgumentError: it is not an offset.
        """
        found = _OFFSET.fullmatch(text)
        if found is None:
            raise InvalidArgumentError(
                f"{safe_repr(text)} is not an offset: pass the number of a page and a place in it, such as 12-3"
            )
        return cls(int(found[1]), int(found[2]))


START: Final = Offset(0, 0)
"""Before everything that is kept."""

Content: TypeAlias = Boot | Checkpoint | DataEntry | DeadEntry | EventHead | TimerEntry
"""What a record contains besides a message."""


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the journal, decoded."""

    offset: Offset
    at: int
    """When its page was written, in milliseconds since 1970."""
    kind: int
    data: bytes
    is_copy: bool = False
    """Whether it is part of a checkpoint, which repeats what is open."""
    message: Frame | None = None
    """The message in it; None if its kind has none. The event of an actor has no id: its entity, key and version stand for it."""
    numbers: tuple[int, ...] = ()
    """The numbers of the requests that it is about."""
    accepted_at: int = 0
    """When a request was accepted, in milliseconds since 1970."""
    flags: int = 0
    content: Content | None = None
    ended: str = ""
    """The id of the timer or dead letter that has ended."""

    @property
    def kind_name(self) -> str:
        """The name of its kind; that of an unknown kind is its number."""
        return KIND_NAMES.get(self.kind, str(self.kind))


# -- pages to entries --------------------------------------------------------------------------------------------------------------


def entries_of(page: Page, where: Selection | None = None) -> Iterator[Entry]:
    """Yield the records of a page that a selection selects; without one, all records, with copies.

    Raises:
        JournalCorruptError: a record is not what its kind says. The error names it.
    """
    for offset, record, is_copy in _marked(page):
        entry = _select(offset, page.at, record, where, is_copy=is_copy)
        if entry is not None:
            yield entry


def _marked(page: Page) -> Iterator[tuple[Offset, Record, bool]]:
    """Yield the records of a page with their offsets, and whether they are copies."""
    offset = START
    # The number of the next request when the checkpoint was made; 0 for a record that belongs to no checkpoint.
    next_number = 0
    try:
        for place, record in enumerate(page.records, 1):
            offset = Offset(page.number, place)
            is_copy = next_number > 0 and _can_be_copy(record, next_number)
            if record.kind == CHECKPOINT:
                next_number = read_json(CHECKPOINT, record.data, Checkpoint).next_number
            elif not is_copy:
                next_number = 0
            yield offset, record, is_copy
    except JournalCorruptError as error:
        raise _unreadable(offset, error) from error


def _select(
    offset: Offset, at: int, record: Record, where: Selection | None, *, is_copy: bool
) -> Entry | None:
    """Decode a record; None if it is not selected."""
    if where is not None and not where.accepts(record, at, is_copy=is_copy):
        return None
    try:
        entry = read_entry(offset, at, record, is_copy=is_copy)
    except (JournalCorruptError, UnicodeDecodeError) as error:
        raise _unreadable(offset, error) from error
    return entry if where is None or where.matches(entry) else None


def _unreadable(offset: Offset, error: Exception) -> JournalCorruptError:
    return JournalCorruptError.at(
        f"record {offset.place} of page {offset.page} cannot be read: {safe_str(error)}",
        offset.page,
        offset.place,
    )


def _can_be_copy(record: Record, next_number: int) -> bool:
    """Return whether a record can be part of a checkpoint."""
    if record.kind == REQUEST:
        return read_request(record.data).number < next_number
    if record.kind == ANSWER:
        return bool(read_answer(record.data).flags & IS_DOUBTFUL)
    return record.kind in {BEGAN, TIMER, DEAD, DATA}


def read_entry(offset: Offset, at: int, record: Record, *, is_copy: bool) -> Entry:
    """Decode a record.

    Raises:
        JournalCorruptError, UnicodeDecodeError: it is not what its kind says.
    """
    kind, data = record.kind, record.data
    if kind == REQUEST:
        request = read_request(data)
        message = read_line(kind, request.line)
        return Entry(offset, at, kind, data, is_copy, message, (request.number,), request.at, request.flags)
    if kind == ANSWER:
        answer = read_answer(data)
        message = read_line(kind, answer.line)
        return Entry(offset, at, kind, data, is_copy, message, (answer.number,), flags=answer.flags)
    if kind == EVENT:
        return Entry(offset, at, kind, data, is_copy, read_line(kind, data))
    if kind == ENTITY_EVENT:
        head, line = read_head(data)
        return Entry(offset, at, kind, data, is_copy, _entity_message(head, at, line), content=head)
    if kind in {BEGAN, ENDED}:
        return Entry(offset, at, kind, data, is_copy, numbers=read_numbers(kind, data))
    if kind == TIMER:
        timer = read_json(kind, data, TimerEntry)
        return Entry(offset, at, kind, data, is_copy, timer.message, content=timer)
    if kind == DEAD:
        dead = read_json(kind, data, DeadEntry)
        return Entry(offset, at, kind, data, is_copy, dead.message, content=dead)
    if kind in {TIMER_ENDED, DEAD_ENDED}:
        return Entry(offset, at, kind, data, is_copy, ended=data.decode())
    form = _FORMS.get(kind)
    content = None if form is None else read_json(kind, data, form)
    return Entry(offset, at, kind, data, is_copy, content=content)


def _entity_message(head: EventHead, at: int, line: bytes) -> Frame:
    """Return the event of an entity: one of the bus as it was on the wire, or one of an actor, which has no envelope."""
    try:
        return read_line(ENTITY_EVENT, line)
    except JournalCorruptError:
        event = read_json(ENTITY_EVENT, line, _ActorEvent)
        name = f"{head.entity}/{head.key}/{head.version}"
        return Frame(kind="event", type=event.type, data=event.data, metadata=Metadata(name, at))


class _ActorEvent(Struct, frozen=True):
    """An event of an actor."""

    type: str
    data: Raw


_FORMS: Final[dict[int, type[Boot | Checkpoint | DataEntry]]] = {
    BOOT: Boot,
    CHECKPOINT: Checkpoint,
    DATA: DataEntry,
}


# -- selecting ---------------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects records. Without arguments it selects all that are no copies.

    Raises:
        InvalidArgumentError: a kind or a type is invalid.
    """

    types: Collection[str] = ()
    """The types of messages, as names or as prefixes such as `Memory.*`; empty for all."""
    kinds: Collection[str] = ()
    """The kinds of records or of messages: `timer`, `error`; empty for all. An `event` is a record or a message."""
    id: str = ""
    """The id of a message, or of the request that it answers; of a timer or a dead letter. Empty for all."""
    key: str = ""
    """The key of an entity; empty for all."""
    correlation: str = ""
    """The correlation of messages; empty for all."""
    cause: str = ""
    """The id of the message that has caused messages; empty for all."""
    since: int | None = None
    """Only pages written at this time or later, in milliseconds since 1970."""
    until: int | None = None
    """Only pages written before this time, in milliseconds since 1970."""
    has_copies: bool = False
    """Whether to select the copies in checkpoints too."""
    is_passed: bool = False
    """Whether to select only messages that have passed the router: requests, answers and events. A timer or a dead letter repeats one."""
    _filter: Filter | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = (*KIND_NAMES.values(), *KINDS)
        for kind in self.kinds:
            if kind not in known:
                raise InvalidArgumentError(
                    f"Selection: {safe_repr(kind)} is not a kind: pass some of {', '.join(dict.fromkeys(known))}"
                )
        object.__setattr__(self, "_filter", Filter(types=self.types) if self.types else None)

    @cached_property
    def _record_kinds(self) -> frozenset[int]:
        return frozenset(number for number, name in KIND_NAMES.items() if name in self.kinds)

    @cached_property
    def _has_message_kinds(self) -> bool:
        return any(kind in KINDS for kind in self.kinds)

    @cached_property
    def _texts(self) -> tuple[bytes, ...]:
        return tuple(text.encode() for text in (self.id, self.key, self.correlation, self.cause) if text)

    def accepts(self, record: Record, at: int, *, is_copy: bool) -> bool:
        """Return False if a record cannot be selected: then it need not be decoded."""
        data = record.data
        return (
            (self.has_copies or not is_copy)
            and (not self.is_passed or record.kind in _PASSED)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and (not self.kinds or self._has_message_kinds or record.kind in self._record_kinds)
            # With a backslash, JSON can have a text in other characters.
            and (all(text in data for text in self._texts) or b"\\" in data)
        )

    def matches(self, entry: Entry) -> bool:
        """Return whether a record is selected that `accepts` has let pass."""
        message, content = entry.message, entry.content
        own = None if message is None else message.metadata
        is_of_kind = (
            not self.kinds
            or entry.kind in self._record_kinds
            or (message is not None and message.kind in self.kinds)
        )
        return (
            is_of_kind
            and (self._filter is None or (message is not None and self._filter.matches(message)))
            and (not self.id or self.id in ids_of(entry))
            and (not self.key or (isinstance(content, EventHead) and content.key == self.key))
            and (not self.correlation or (own is not None and own.correlation == self.correlation))
            and (not self.cause or (own is not None and own.causation == self.cause))
        )


def ids_of(entry: Entry) -> set[str | None]:
    """Return the ids under which a record is found."""
    found: set[str | None] = {entry.ended}
    if entry.message is not None:
        found.add(entry.message.metadata.id)
        if entry.kind == ANSWER:
            found.add(entry.message.metadata.causation)
    if isinstance(entry.content, (TimerEntry, DeadEntry)):
        found.add(entry.content.id)
    return found


# -- batches -----------------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of a journal."""

    entries: tuple[Entry, ...]
    next: Offset
    """Where to continue: all records up to it were read."""
    is_end: bool
    """Whether everything that was durable has been read."""
    has_gap: bool
    """Whether pages behind the offset were deleted before they were read."""


def read_batch(
    reader: JournalReader,
    after: Offset = START,
    *,
    where: Selection | None = None,
    limit: int = 1000,
    max_bytes: int = 1 << 20,
    max_searched: int = 100_000,
    pages: Callable[[int], Iterator[Page]] | None = None,
) -> Batch:
    """Read the records behind an offset, in their order.

    It ends after `limit` records, after `max_bytes` of them, or after `max_searched` records were looked at, of which the selection may select none. A
    record that is larger than `max_bytes` is read alone.

    Args:
        reader: the journal. It must belong to this thread.
        after: the offset: that of the last record that was handled, or `Batch.next`.
        where: which records to return; None for all that are no copies.
        limit: how many records to return at most.
        max_bytes: how many bytes their data may have together.
        max_searched: how many records to look at.
        pages: yields the pages from a number on. It may leave out pages of which the selection selects nothing, but not the first nor the last one. None
            for `reader.pages`.

    Raises:
        JournalCorruptError: a page or a record is damaged, or a page is missing.
        JournalError: the offset is behind the end, so it belongs to another journal.
    """
    selection = Selection() if where is None else where
    found: list[Entry] = []
    size = searched = first = 0
    position = after
    try:
        for page in (pages or reader.pages)(after.page):
            first = first or page.number
            if len(found) >= limit:
                return Batch(tuple(found), position, is_end=False, has_gap=0 < after.page < first)
            position = max(position, Offset(page.number, 0))
            for offset, record, is_copy in _marked(page):
                if offset <= after:
                    continue
                entry = _select(offset, page.at, record, selection, is_copy=is_copy)
                is_too_much = entry is not None and found and size + len(record.data) > max_bytes
                if is_too_much or len(found) >= limit or searched >= max_searched:
                    return Batch(tuple(found), position, is_end=False, has_gap=0 < after.page < first)
                searched += 1
                position = offset
                if entry is not None:
                    found.append(entry)
                    size += len(record.data)
            position = Offset(page.number + 1, 0)
    except JournalError:
        if not first or reader.first <= position.page:
            raise
        # The next pages were deleted meanwhile. The next batch begins behind them, and has a gap.
        return Batch(tuple(found), position, is_end=False, has_gap=0 < after.page < first)
    if not first:
        _check_end(reader, after)
    return Batch(tuple(found), position, is_end=True, has_gap=0 < after.page < first)


def _check_end(reader: JournalReader, after: Offset) -> None:
    """Check that an offset behind which there is no page is the end of the journal."""
    is_known = not after.place and (after.page <= 1 or next(reader.pages(after.page - 1), None) is not None)
    if not is_known:
        raise JournalError(
            f"the journal {reader.directory} ends before the offset {after}: the offset belongs to another journal, or this one is an older copy"
        )


# -- from the end ------------------------------------------------------------------------------------------------------------------


def pages_backward(reader: JournalReader, last: int, since: int = 0) -> Iterator[Page]:
    """Yield the pages from number `last` down to `since`, or to the first one that is kept.

    Raises:
        JournalCorruptError, JournalError: as for `JournalReader.pages`. The pages are read in groups, and those of a group before the damage may be missing.
    """
    count = 1
    while last >= (first := max(since, reader.first)):
        start = max(first, last - count + 1)
        group = list(reader.pages(start, last))
        yield from reversed(group)
        size = sum(len(record.data) for page in group for record in page.records)
        # Groups of about `_WINDOW_BYTES`: the reader fetches as many at a time.
        count = max(
            1, count * 2 if size < _WINDOW_BYTES // 2 else count // 2 if size > _WINDOW_BYTES * 2 else count
        )
        last = start - 1
