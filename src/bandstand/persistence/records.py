"""The records of events in a journal.

    ENTITY_EVENT     an entity has changed:          length u16 | JSON, `EventHead` | line: JSON, an object with `type` and `data`
    EVENT_SCHEMA     a class of events or snapshots: JSON, `SchemaEntry`
    ENTITY_SNAPSHOT  the state of an entity:         length u16 | JSON, `EventHead` | JSON

An entity is whatever has events of its own: a persistent actor, or an entity of the bus. It is identified by the name of its class and a key. The line may be any JSON
object with these two members, such as an event of the bus as it stands on the wire.

The version of an event is its number among those of its entity, from 1; that of a snapshot is the number of the last event it includes.

Everything here is pure: values in, records out, and back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from bandstand.errors import InvalidArgumentError, JournalCorruptError
from bandstand.journal import Record

__all__ = (
    "ENTITY_EVENT",
    "ENTITY_SNAPSHOT",
    "EVENT_SCHEMA",
    "EventHead",
    "EventLine",
    "SchemaEntry",
    "event_keys",
    "event_record",
    "read_head",
    "read_line",
    "read_schema",
    "schema_record",
    "snapshot_key",
    "snapshot_record",
    "stream_name",
)

ENTITY_EVENT: Final = 13
EVENT_SCHEMA: Final = 14
ENTITY_SNAPSHOT: Final = 15

_LENGTH: Final = struct.Struct("<H")

T = TypeVar("T", bound=Struct)


class EventHead(Struct, frozen=True, omit_defaults=True):
    """What an event or a snapshot belongs to."""

    entity: str
    """The name of the class of the entity."""
    key: str
    version: int
    schema: str = ""
    """The hash of the schema it was written with; empty if that is unknown."""


class EventLine(Struct, frozen=True):
    """An event."""

    type: str
    data: Raw


class SchemaEntry(Struct, frozen=True):
    """A schema that events or snapshots are written with."""

    entity: str
    type: str
    """The name of the class."""
    hash: str
    schema: Raw


def event_record(head: EventHead, line: bytes) -> Record:
    """Return the record of an event."""
    return _headed(ENTITY_EVENT, head, line)


def snapshot_record(head: EventHead, state: bytes) -> Record:
    """Return the record of a snapshot."""
    return _headed(ENTITY_SNAPSHOT, head, state)


def schema_record(entry: SchemaEntry) -> Record:
    """Return the record of a schema."""
    return Record(EVENT_SCHEMA, msgspec.json.encode(entry))


def read_head(data: bytes) -> tuple[EventHead, bytes]:
    """Return the head of an event or a snapshot, and what follows it.

    Raises:
        JournalCorruptError: there is no valid head.
    """
    if len(data) < _LENGTH.size:
        raise JournalCorruptError("a record of an event is shorter than its head")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    return _decoded(data[_LENGTH.size : end], EventHead), data[end:]


def read_line(line: bytes) -> EventLine:
    """Return the event in a line.

    Raises:
        JournalCorruptError: it has no `type` or no `data`.
    """
    return _decoded(line, EventLine)


def read_schema(data: bytes) -> SchemaEntry:
    """Return a recorded schema.

    Raises:
        JournalCorruptError: it is not one.
    """
    return _decoded(data, SchemaEntry)


def stream_name(entity: str, key: str) -> str:
    """Return the key of the events and snapshots of an entity in the index, in the space `key`."""
    return f"{entity}/{key}"


def snapshot_key(entity: str, key: str, schema: str) -> str:
    """Return the key of the snapshots of an entity in the index, in the space `snapshot`: a program looks for those that it can read."""
    return f"{schema}/{entity}/{key}"


def event_keys(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the keys of a record for a `JournalIndex`."""
    if record.kind == ENTITY_EVENT:
        head, _ = read_head(record.data)
        yield "key", stream_name(head.entity, head.key)
    elif record.kind == ENTITY_SNAPSHOT:
        head, _ = read_head(record.data)
        yield "key", stream_name(head.entity, head.key)
        yield "snapshot", snapshot_key(head.entity, head.key, head.schema)
    elif record.kind == EVENT_SCHEMA:
        yield "schema", read_schema(record.data).entity


def _headed(kind: int, head: EventHead, data: bytes) -> Record:
    encoded = msgspec.json.encode(head)
    if len(encoded) > 0xFFFF:
        raise InvalidArgumentError(
            f"the key of {head.entity} has {len(head.key)} characters: pass a shorter one"
        )
    return Record(kind, _LENGTH.pack(len(encoded)) + encoded + data)


def _decoded(data: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorruptError(
            f"a record is not {form.__name__}: it was written by another program"
        ) from error
