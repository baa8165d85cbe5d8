"""The records that a node writes to its journal.

A record has a number, its kind, and bytes. The bytes of a message are its wire line, so a journal without the short binary headers is NDJSON.

    BOOT          a node has started: JSON, `Boot`
    REQUEST       a command was accepted:            number u64 | at u64 | flags u8 | line
    BEGAN         handlers may have begun on these:  number u64, ...
    ANSWER        a command was answered:            number u64 | flags u8 | line
    ENDED         these ended without an answer:     number u64, ...
    EVENT         an event was published: its line
    TIMER         a message was scheduled: JSON, `TimerEntry`
    TIMER_ENDED   it was sent or cancelled: the id of the timer
    DEAD          a dead letter was added: JSON, `DeadEntry`
    DEAD_ENDED    it was removed: its id
    CHECKPOINT    JSON, `Checkpoint`: the records behind it, up to the end of the page, are all that is open; what came before is done
    DATA          belongs to a part of the node with data of its own: JSON, `DataEntry`
    ENTITY_EVENT  an entity has changed; this kind, EVENT_SCHEMA and ENTITY_SNAPSHOT are those of `persistence.records`

The number of a request is the node's own and never repeats: clients choose the ids of messages, and may use one twice. `at` is in milliseconds
since 1970. New kinds get new numbers, and the meaning of a number never changes: a journal must be readable by every later version.

Everything here is pure: values in, records out, and back.
"""

# The checker sees one of the two definitions of `join_request` and `join_answer`.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.dead_letters import Reason
from bandstand.bus.frame import Frame
from bandstand.bus.wire import DECODE_ERRORS
from bandstand.errors import JournalCorruptError
from bandstand.journal import Record
from bandstand.persistence.records import ENTITY_EVENT, ENTITY_SNAPSHOT, EVENT_SCHEMA, read_head

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = (
    "ANSWER",
    "BEGAN",
    "BOOT",
    "CHECKPOINT",
    "DATA",
    "DEAD",
    "DEAD_ENDED",
    "ENDED",
    "EVENT",
    "FROM_CLIENT",
    "IS_BEGUN",
    "IS_DOUBTFUL",
    "IS_REMEMBERED",
    "KIND_NAMES",
    "REQUEST",
    "TIMER",
    "TIMER_ENDED",
    "AnswerRecord",
    "Boot",
    "Checkpoint",
    "DataEntry",
    "DeadEntry",
    "RequestRecord",
    "TimerEntry",
    "answer_data",
    "json_record",
    "line_of",
    "numbers_data",
    "numbers_record",
    "read_answer",
    "read_json",
    "read_line",
    "read_numbers",
    "read_request",
    "request_data",
)

BOOT: Final = 1
REQUEST: Final = 2
BEGAN: Final = 3
ANSWER: Final = 4
ENDED: Final = 5
EVENT: Final = 6
TIMER: Final = 7
TIMER_ENDED: Final = 8
DEAD: Final = 9
DEAD_ENDED: Final = 10
CHECKPOINT: Final = 11
DATA: Final = 12

KIND_NAMES: Final = {
    BOOT: "boot",
    REQUEST: "request",
    BEGAN: "began",
    ANSWER: "answer",
    ENDED: "ended",
    EVENT: "event",
    TIMER: "timer",
    TIMER_ENDED: "timerEnded",
    DEAD: "dead",
    DEAD_ENDED: "deadEnded",
    CHECKPOINT: "checkpoint",
    DATA: "data",
    ENTITY_EVENT: "entityEvent",
    EVENT_SCHEMA: "eventSchema",
    ENTITY_SNAPSHOT: "entitySnapshot",
}
"""The names of the kinds, for people."""

IS_BEGUN: Final = 1
"""Flag of a request: its handler may have begun."""
IS_REMEMBERED: Final = 2
"""Flag of an answer: a repeat of the request gets it again."""
IS_DOUBTFUL: Final = 4
"""Flag of an answer: whether the command was carried out is unknown. A repeat gets this answer until the request is settled."""
FROM_CLIENT: Final = 8
"""Flag of a request: a client has sent it, and may repeat it with the same id."""

T = TypeVar("T", bound=Struct)

_REQUEST: Final = struct.Struct("<QQB")
_ANSWER: Final = struct.Struct("<QB")


if not cython.compiled:
    # Compiled, these are C functions in the .pxd.
    def join_request(number: int, at: int, flags: int, line: bytes) -> bytes:
        """Return the data of the record of an accepted command."""
        return _REQUEST.pack(number, at, flags) + line

    def join_answer(number: int, flags: int, line: bytes) -> bytes:
        """Return the data of the record of an answer."""
        return _ANSWER.pack(number, flags) + line


# Structs without garbage collection: a boot makes one for each record.
class RequestRecord(Struct, frozen=True, gc=False):
    """An accepted command."""

    number: int
    at: int
    flags: int
    line: bytes


class AnswerRecord(Struct, frozen=True, gc=False):
    """The answer to a command."""

    number: int
    flags: int
    line: bytes


class Boot(Struct, frozen=True):
    """The start of a node."""

    version: str
    """The version of bandstand."""
    at: int
    """Milliseconds since 1970."""
    pid: int


class TimerEntry(Struct, frozen=True):
    """A scheduled message."""

    id: str
    """The id of the timer."""
    due: int
    """When it is sent, in milliseconds since 1970."""
    client: bool
    """Whether it takes credit of clients; otherwise that of capabilities."""
    message: Frame


class DeadEntry(Struct, frozen=True, omit_defaults=True):
    """A dead letter."""

    id: str
    reason: Reason
    at: int
    attempts: int
    message: Frame
    said: str = ""
    capability: str | None = None
    answer: Frame | None = None


class Checkpoint(Struct, frozen=True):
    """The head of a checkpoint."""

    next_number: int
    """The number of the next request."""
    read_from: int
    """The lowest page with a request whose answer is remembered; 0 if there is none."""


class DataEntry(Struct, frozen=True):
    """A record of a part of the node, such as entities or reminders."""

    owner: str
    """The name of the part."""
    data: Raw
    """What it means is the part's own."""


def request_data(number: int, at: int, flags: int, line: bytes) -> bytes:
    """Return the data of the record of an accepted command."""
    return join_request(number, at, flags, line)


def read_request(data: bytes) -> RequestRecord:
    """Read the record of an accepted command.

    Raises:
        JournalCorruptError: it is shorter than its header.
    """
    if len(data) < _REQUEST.size:
        raise _malformed(REQUEST)
    number, at, flags = _REQUEST.unpack_from(data)
    return RequestRecord(number, at, flags, data[_REQUEST.size :])


def answer_data(number: int, flags: int, line: bytes) -> bytes:
    """Return the data of the record of an answer."""
    return join_answer(number, flags, line)


def read_answer(data: bytes) -> AnswerRecord:
    """Read the record of an answer.

    Raises:
        JournalCorruptError: it is shorter than its header.
    """
    if len(data) < _ANSWER.size:
        raise _malformed(ANSWER)
    number, flags = _ANSWER.unpack_from(data)
    return AnswerRecord(number, flags, data[_ANSWER.size :])


def numbers_data(numbers: Iterable[int]) -> bytes:
    """Return the data of a record of the numbers of requests: `BEGAN` or `ENDED`."""
    found = tuple(numbers)
    return struct.pack(f"<{len(found)}Q", *found)


def numbers_record(kind: int, numbers: Iterable[int]) -> Record:
    """Return a record of the numbers of requests: `BEGAN` or `ENDED`."""
    return Record(kind, numbers_data(numbers))


def read_numbers(kind: int, data: bytes) -> tuple[int, ...]:
    """Read a record of the numbers of requests.

    Raises:
        JournalCorruptError: its length is not a multiple of eight.
    """
    if len(data) % 8:
        raise _malformed(kind)
    return struct.unpack(f"<{len(data) // 8}Q", data)


def json_record(kind: int, value: Struct) -> Record:
    """Return a record of JSON."""
    return Record(kind, msgspec.json.encode(value))


def read_json(kind: int, data: bytes, form: type[T]) -> T:
    """Read a record of JSON.

    Raises:
        JournalCorruptError: it is not what this kind of record contains.
    """
    try:
        return msgspec.json.decode(data, type=form)
    except DECODE_ERRORS as error:
        raise _malformed(kind) from error


def line_of(kind: int, data: bytes) -> bytes | None:
    """Return the wire line in a record; None if its kind has none."""
    if kind == REQUEST:
        return data[_REQUEST.size :]
    if kind == ANSWER:
        return data[_ANSWER.size :]
    if kind == ENTITY_EVENT:
        return read_head(data)[1]
    return data if kind == EVENT else None


_decode_frame = msgspec.json.Decoder(Frame).decode


def read_line(kind: int, line: bytes) -> Frame:
    """Decode a wire line from the journal.

    Raises:
        JournalCorruptError: it is not a message.
    """
    try:
        return _decode_frame(line)
    except DECODE_ERRORS as error:
        raise _malformed(kind) from error


def _malformed(kind: int) -> JournalCorruptError:
    return JournalCorruptError(
        f"a {KIND_NAMES.get(kind, kind)} record of the journal cannot be read: it was not written by a node of bandstand"
    )
