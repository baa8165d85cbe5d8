"""The events of one class of entities: their names, their schemas, how they are written, and how those of older programs are read.

Everything here is pure: classes and values in, records and values out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard, final

import msgspec
from msgspec import Raw, Struct

from bandstand.errors import DeclarationError, EventSchemaError, EventStoreError, InvalidArgumentError
from bandstand.errors.formatting import describe_exception, safe_repr, type_name
from bandstand.journal import Record
from bandstand.persistence.narrowing import narrowing
from bandstand.persistence.records import (
    EventHead,
    EventLine,
    SchemaEntry,
    event_record,
    read_line,
    snapshot_record,
)
from bandstand.persistence.schema import hash_of, schema_of

__all__ = ("EventDecoder", "EventTypes", "Upcaster", "is_struct", "name_of_event")

Upcaster: TypeAlias = "Callable[[dict[str, Any]], Struct | None]"
"""Makes an event of the present from the data of an old one; None leaves it out."""

_ENCODE_ERRORS: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


@final
class _EventType:
    """One class of events, or of snapshots."""

    def __init__(self, entity: str, kind: type[Struct]) -> None:
        self.kind = kind
        self.name = name_of_event(kind)
        try:
            self.schema = schema_of(kind)
            self.decode = msgspec.json.Decoder(kind).decode
        except (TypeError, RecursionError) as error:
            raise DeclarationError(
                f"{entity}: {kind.__qualname__} has a field that JSON does not have: {describe_exception(error)}"
            ) from error
        self.hash = hash_of(self.schema)


def name_of_event(kind: type[Struct]) -> str:
    """Return the name under which events of a class are written: its tag, or its own name."""
    tag = kind.__struct_config__.tag
    return tag if isinstance(tag, str) else kind.__name__


def is_struct(kind: object) -> TypeGuard[type[Struct]]:
    """Return whether this is a class derived from `msgspec.Struct`."""
    return isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct


@final
class EventTypes:
    """The classes of the events of an entity.

    Args:
        entity: the name of the class of the entity, which is written with each event.
        events: the classes of its events.
        upcasters: functions by the name of an event. They read events that the present class does not read, or that have no class any more.
        snapshot: the class of its snapshots; None if it makes none.

    Raises:
        DeclarationError: a class cannot be that of an event.
    """

    __slots__ = ("by_kind", "by_name", "entity", "snapshot", "upcasters")

    def __init__(
        self,
        entity: str,
        events: Sequence[type[Struct]],
        *,
        upcasters: Mapping[str, Upcaster] | None = None,
        snapshot: type[Struct] | None = None,
    ) -> None:
        if not entity or "/" in entity:
            raise DeclarationError(
                f"the entity {safe_repr(entity)} is not a name: choose one without slashes"
            )
        self.entity = entity
        self.by_kind: dict[type, _EventType] = {}
        self.by_name: dict[str, _EventType] = {}
        self.upcasters: Mapping[str, Upcaster] = dict(upcasters or {})
        for kind in events:
            self._check(kind)
            found = _EventType(entity, kind)
            if found.name in self.by_name:
                raise DeclarationError(
                    f"{entity} has two events with the name {safe_repr(found.name)}: rename one"
                )
            self.by_name[found.name] = self.by_kind[kind] = found
        if not events:
            raise DeclarationError(f"{entity} has no events: declare at least one class")
        if snapshot is not None:
            self._check(snapshot)
        self.snapshot = None if snapshot is None else _EventType(entity, snapshot)

    def _check(self, kind: Any) -> None:
        if not is_struct(kind):
            raise DeclarationError(
                f"{self.entity}: {safe_repr(kind)} is not a class derived from msgspec.Struct"
            )
        if kind.__struct_config__.array_like:
            raise DeclarationError(
                f"{self.entity}: {kind.__qualname__} is array_like, so its fields have no names in the journal: remove array_like"
            )

    def encode(self, key: str, version: int, event: Struct) -> tuple[Record, Struct]:
        """Return the record of an event, and the event as it will be read back.

        Raises:
            InvalidArgumentError: it is not an event of this entity, or cannot be written, or cannot be read back.
        """
        known = self.by_kind.get(type(event))
        if known is None:
            raise InvalidArgumentError(
                f"{safe_repr(event)} is not an event of {self.entity}: pass one of {', '.join(self.by_name)}"
            )
        try:
            data = msgspec.json.encode(event)
            read_back = known.decode(data)
        except _ENCODE_ERRORS as error:
            raise InvalidArgumentError(
                f"the event {safe_repr(event)} of {self.entity} cannot be written: {describe_exception(error)}"
            ) from error
        line = msgspec.json.encode(EventLine(known.name, Raw(data)))
        return event_record(EventHead(self.entity, key, version, known.hash), line), read_back

    def encode_snapshot(self, key: str, version: int, state: object) -> Record:
        """Return the record of a snapshot.

        Raises:
            InvalidArgumentError: it is not a snapshot of this entity, or cannot be written, or cannot be read back.
        """
        known = self.snapshot
        if known is None or type(state) is not known.kind:
            wanted = "None" if known is None else known.kind.__qualname__
            raise InvalidArgumentError(
                f"a snapshot of {self.entity} is of type {type_name(state)}, not {wanted}"
            )
        try:
            data = msgspec.json.encode(state)
            known.decode(data)
        except _ENCODE_ERRORS as error:
            raise InvalidArgumentError(
                f"a snapshot of {self.entity} cannot be written: {describe_exception(error)}"
            ) from error
        return snapshot_record(EventHead(self.entity, key, version, known.hash), data)

    def decode_snapshot(self, data: bytes) -> Struct | None:
        """Return the state in a snapshot; None if it does not fit the class."""
        assert self.snapshot is not None
        try:
            return self.snapshot.decode(data)
        except _DECODE_ERRORS:
            return None


@final
class EventDecoder:
    """Reads the events of an entity from a journal, those of older programs as well.

    Args:
        types: the present classes.
        recorded: the schemas in the journal.

    Raises:
        EventSchemaError: an event that may be in the journal cannot be read by its present class, and has no upcaster.
    """

    __slots__ = ("_must_upcast", "recorded", "types")

    def __init__(self, types: EventTypes, recorded: Iterable[SchemaEntry] = ()) -> None:
        self.types = types
        self.recorded = {(entry.type, entry.hash): entry for entry in recorded}
        """The schemas in the journal, by name and hash of the event."""
        self._must_upcast: set[tuple[str, str]] = set()
        for (name, digest), entry in self.recorded.items():
            reason = self._why_unreadable(entry)
            if reason is None:
                continue
            if name not in types.upcasters:
                raise EventSchemaError(
                    f"{types.entity}: the journal has events {name} that this program cannot read: {reason}. Change the class, or add "
                    f"an upcaster for {safe_repr(name)}"
                )
            self._must_upcast.add((name, digest))

    def _why_unreadable(self, entry: SchemaEntry) -> str | None:
        known = self.types.by_name.get(entry.type)
        if known is None:
            return f"{self.types.entity} has no event of this name"
        if known.hash == entry.hash:
            return None
        return narrowing(msgspec.json.decode(entry.schema), known.schema)

    def unrecorded(self) -> list[SchemaEntry]:
        """Return the schemas of the present classes that are not in the journal."""
        return [
            SchemaEntry(self.types.entity, known.name, known.hash, Raw(msgspec.json.encode(known.schema)))
            for known in self.types.by_name.values()
            if (known.name, known.hash) not in self.recorded
        ]

    def add(self, entries: Iterable[SchemaEntry]) -> None:
        """Take note that schemas are in the journal now."""
        self.recorded |= {(entry.type, entry.hash): entry for entry in entries}

    def decode(self, head: EventHead, line: bytes) -> Struct | None:
        """Return the event in a record; None if an upcaster leaves it out.

        Raises:
            EventStoreError: it cannot be read, or its upcaster has failed.
            JournalCorruptError: it is not an event.
        """
        found = read_line(line)
        known = self.types.by_name.get(found.type)
        error: Exception | None = None
        if known is not None and (found.type, head.schema) not in self._must_upcast:
            try:
                return known.decode(found.data)
            except _DECODE_ERRORS as invalid:
                error = invalid
        upcaster = self.types.upcasters.get(found.type)
        where = f"event {head.version} of {head.entity}/{head.key}, of type {found.type},"
        if upcaster is None:
            why = "has no class" if error is None else f"cannot be read: {describe_exception(error)}"
            raise EventStoreError(
                f"{where} {why}: change the class, or add an upcaster for {safe_repr(found.type)}"
            )
        try:
            event = upcaster(msgspec.json.decode(found.data))
        except Exception as failure:
            raise EventStoreError(
                f"the upcaster of {where} has failed: {describe_exception(failure)}"
            ) from failure
        if event is not None and type(event) not in self.types.by_kind:
            raise EventStoreError(
                f"the upcaster of {where} returned {safe_repr(event)}: return an event, or None"
            )
        return event
