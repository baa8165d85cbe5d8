"""What a message was caused by and what it has caused, as far as a journal says.

A message names its cause, so causes are found by reading backward, and effects by reading forward: a cause is recorded before its effects. Neither keeps
more than what it has found in memory. With an index of the messages, only the pages are read that say something about what was found so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from bandstand.bus.durable.message_index import PageWalk
from bandstand.bus.durable.reader import Selection, entries_of, pages_backward
from bandstand.bus.durable.records import (
    ANSWER,
    DEAD,
    EVENT,
    REQUEST,
    TIMER,
    DeadEntry,
    TimerEntry,
)
from bandstand.bus.frame import Kind
from bandstand.persistence.records import ENTITY_EVENT

if TYPE_CHECKING:
    from bandstand.bus.durable.message_index import MessageIndex
    from bandstand.bus.durable.reader import Entry, Offset
    from bandstand.journal import JournalReader, Page

__all__ = ("Lineage", "LoggedMessage", "Occurrence", "find_lineage")

# The kinds of the first record of a message. A dead letter comes after one of these.
_ORIGINS: Final = frozenset({REQUEST, ANSWER, EVENT, ENTITY_EVENT, TIMER})

# How many causes are followed: clients choose ids, so there can be cycles.
_MAX_ANCESTORS: Final = 1000


@final
class Occurrence(Struct):
    """A record that is about a message."""

    offset: str
    at: int
    """When it was written, in milliseconds since 1970."""
    kind: str


@final
class LoggedMessage(Struct, omit_defaults=True):
    """A message in the journal."""

    id: str
    kind: Kind
    type: str
    at: int
    """When it was recorded, in milliseconds since 1970."""
    causation: str | None = None
    correlation: str | None = None
    records: list[Occurrence] = msgspec.field(default_factory=list[Occurrence])
    """The records that are about it, in their order."""


@final
class Lineage(Struct, rename="camel"):
    """A message with its causes and its effects."""

    ancestors: list[LoggedMessage]
    """The messages that caused it, the oldest first."""
    message: LoggedMessage
    effects: list[LoggedMessage]
    """All that it has caused, directly or indirectly, in the order of the journal. Each names its own cause."""
    related: list[LoggedMessage]
    """Other messages with the same correlation, from the first cause on."""
    missing: str | None
    """The id of a cause that the journal does not have: it is not written to the journal, or was deleted."""
    complete: bool
    """False if there are more messages than the limit."""


def find_lineage(
    reader: JournalReader,
    name: str,
    limit: int = 1000,
    on_page: Callable[[Page], object] | None = None,
    index: MessageIndex | None = None,
) -> Lineage | None:
    """Find a message by its id, with its causes and its effects; None if the journal does not have it.

    If several messages have the same id, it is the last one.

    Args:
        reader: the journal.
        name: the id.
        limit: how many effects and related messages to return at most.
        on_page: called with each page that was read.
        index: the index of the journal; None to read every page.

    Raises:
        JournalCorruptError, JournalError: as for `JournalReader.pages`.
    """
    found = _find_before(reader, name, reader.last, None, on_page, index)
    if found is None:
        return None
    above: list[Entry] = []
    seen = {name}
    missing: str | None = None
    child = found
    while (cause := _cause_of(child)) is not None and cause not in seen and len(above) < _MAX_ANCESTORS:
        entry = _find_before(reader, cause, child.offset.page, child.offset, on_page, index)
        if entry is None:
            missing = cause
            break
        seen.add(cause)
        above.append(entry)
        child = entry
    ancestors = [_logged(entry) for entry in reversed(above)]
    message = _logged(found)
    start = found.offset if message.correlation is None else child.offset
    pages = PageWalk(reader, index, start.page)
    effects = _Effects(message, {each.id for each in ancestors}, limit, pages.want)
    for page in pages:
        for entry in entries_of(page):
            if entry.offset >= start:
                effects.take(entry, is_later=entry.offset >= found.offset)
        if on_page is not None:
            on_page(page)
        if not effects.is_complete:
            break
    return Lineage(
        ancestors, effects.message, effects.found, effects.related, missing, complete=effects.is_complete
    )


def _find_before(
    reader: JournalReader,
    name: str,
    page_number: int,
    before: Offset | None,
    on_page: Callable[[Page], object] | None,
    index: MessageIndex | None,
) -> Entry | None:
    """Return the first record of the last message with this id before an offset."""
    where = Selection(id=name, has_copies=True)
    # A record that is not the first one of its message. Without that, it is all there is.
    candidate: Entry | None = None
    # An empty id is not in the index.
    pages = index.backward(page_number, name) if index and name else pages_backward(reader, page_number)
    for page in pages:
        for entry in reversed(list(entries_of(page, where))):
            message = entry.message
            if (
                message is None
                or message.metadata.id != name
                or (before is not None and entry.offset >= before)
            ):
                continue
            if entry.kind in _ORIGINS and not entry.is_copy:
                return entry
            candidate = entry
        if on_page is not None:
            on_page(page)
    return candidate


def _cause_of(entry: Entry) -> str | None:
    return None if entry.message is None else entry.message.metadata.causation


def _logged(entry: Entry) -> LoggedMessage:
    message = entry.message
    assert message is not None
    own = message.metadata
    return LoggedMessage(
        own.id, message.kind, message.type, entry.at, own.causation, own.correlation, [_occurrence(entry)]
    )


def _occurrence(entry: Entry) -> Occurrence:
    return Occurrence(str(entry.offset), entry.at, entry.kind_name)


@final
class _Effects:
    """Collects the effects of a message, and what has the same correlation.

    Args:
        message: the message.
        above: the ids of its causes.
        limit: how many messages to collect.
        want: called with each space and key of the index that later records of these messages can have.
    """

    def __init__(
        self, message: LoggedMessage, above: set[str], limit: int, want: Callable[[str, str], object]
    ) -> None:
        self.message = message
        self.correlation = message.correlation
        self.found: list[LoggedMessage] = []
        self.related: list[LoggedMessage] = []
        self.is_complete = True
        self._above = above
        self._limit = limit
        self._want = want
        self._first = message.records[0].offset
        # The message itself and its effects by their ids; and all messages, by their ids and by those of their requests, timers and dead letters.
        self._effects = {message.id: message}
        self._known = {message.id: message}
        self._named: dict[object, LoggedMessage] = {}
        want("id", message.id)
        want("cause", message.id)
        if self.correlation is not None:
            want("correlation", self.correlation)

    def take(self, entry: Entry, *, is_later: bool) -> None:
        """Take the next record; `is_later` if it is not before the message itself."""
        message = entry.message
        if message is None:
            if not entry.is_copy:
                for name in (*entry.numbers, entry.ended):
                    if (about := self._named.get(name)) is not None:
                        about.records.append(_occurrence(entry))
            return
        own = message.metadata
        known = self._known.get(own.id)
        if known is None and own.id not in self._above:
            known = self._add(entry, own.causation, own.correlation, is_later=is_later)
        elif known is not None and not entry.is_copy and str(entry.offset) != self._first:
            known.records.append(_occurrence(entry))
        if known is not None:
            self._name(entry, known)

    def _add(
        self, entry: Entry, causation: str | None, correlation: str | None, *, is_later: bool
    ) -> LoggedMessage | None:
        is_effect = is_later and causation in self._effects
        if not is_effect and (correlation is None or correlation != self.correlation):
            return None
        if len(self.found) + len(self.related) >= self._limit:
            self.is_complete = False
            return None
        logged = _logged(entry)
        (self.found if is_effect else self.related).append(logged)
        self._known[logged.id] = logged
        self._want("id", logged.id)
        if is_effect:
            self._effects[logged.id] = logged
            self._want("cause", logged.id)
        return logged

    def _name(self, entry: Entry, logged: LoggedMessage) -> None:
        """Remember by which number or id later records are about this message."""
        if entry.kind == REQUEST:
            self._named[entry.numbers[0]] = logged
            self._want("number", str(entry.numbers[0]))
        elif entry.kind in {TIMER, DEAD} and isinstance(entry.content, (TimerEntry, DeadEntry)):
            self._named[entry.content.id] = logged
            self._want("id", entry.content.id)
