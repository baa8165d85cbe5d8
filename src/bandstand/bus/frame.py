"""The envelope of every message, on the wire and inside a node.

    {"kind": "command", "type": "Memory.Set", "data": {...}, "metadata": {"id": "...", "timestamp": 1767910000000}}

`data` stays encoded until the route of the message is known; then it is decoded once, into the type that the capability declares. So a
frame can be kept, logged and forwarded without a copy: it is immutable.

Message ids are ULIDs, which sort by time: 48 bits of milliseconds and 80 random bits, written as 26 characters of Crockford's base 32. A
generator draws random bits once per millisecond, and increments the last number within it. So the ids of one generator are unique and
sorted, and most of them cost no randomness. If the clock is set back, the generator continues in the last millisecond that it saw. Two
generators share no counter: 80 random bits keep their ids apart.

The functions in the middle read the fields of frames. A field of a struct is a slot behind a descriptor. The interpreter caches the way to it;
compiled code does not, and looks the name up in the class each time: for the dozen fields that a request needs, that costs as much as
decoding it. So the descriptors are looked up once; compiled, the slot is read at its offset, and the descriptor is called only for what is not a
plain slot, or not of its class.
"""

# The checker does not know the types of descriptors, and sees one of the two definitions of `read_field`.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta, Raw, Struct

try:
    import cython
except ModuleNotFoundError:  # interpreted, without Cython installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = (
    "KINDS",
    "LONGEST_DELAY_MS",
    "LONGEST_TIMEOUT_MS",
    "Frame",
    "IdGenerator",
    "Kind",
    "Metadata",
    "TypeName",
)

Offset: TypeAlias = int
Nanoseconds: TypeAlias = int
Milliseconds: TypeAlias = int
Count: TypeAlias = int

Kind: TypeAlias = Literal["command", "query", "event", "reply", "error"]
"""The kind of a message: a command or query is a request, a reply or error is its answer, an event is a published fact."""

KINDS: tuple[Kind, ...] = get_args(Kind)

LONGEST_TIMEOUT_MS = 86_400_000
"""A day. The timer wheel supports more, but no client waits that long."""

LONGEST_DELAY_MS = 366 * 86_400_000
"""A leap year. The timer wheel supports more; a longer delay is probably in the wrong unit."""

TypeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Metadata(Struct, frozen=True, omit_defaults=True, gc=False):
    """The id of a message, its time and its cause."""

    id: Id
    """Unique. An answer names it as its causation."""
    timestamp: int | float
    """Milliseconds since 1970, on the sender's clock."""
    causation: Id | None = None
    """The id of the message that caused this one."""
    correlation: Id | None = None
    """Groups the messages of one task. Messages caused by this one inherit it."""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_TIMEOUT_MS)] | None = None
    """Milliseconds a command or query may take; None for the default of its capability or node."""


class Frame(Struct, frozen=True, gc=False, kw_only=True):
    """A message whose data is still encoded."""

    kind: Kind
    type: TypeName
    data: Raw = Raw(b"{}")
    metadata: Metadata

    @property
    def is_request(self) -> bool:
        """Whether the message is owed an answer."""
        return self.kind in {"command", "query"}


KIND: Any = Frame.__dict__["kind"]
TYPE: Any = Frame.__dict__["type"]
DATA: Any = Frame.__dict__["data"]
METADATA: Any = Frame.__dict__["metadata"]
ID: Any = Metadata.__dict__["id"]
TIMESTAMP: Any = Metadata.__dict__["timestamp"]
CAUSATION: Any = Metadata.__dict__["causation"]
TIMEOUT: Any = Metadata.__dict__["timeout"]
CORRELATION: Any = Metadata.__dict__["correlation"]


if not cython.compiled:
    # Compiled, these are C functions in the .pxd.
    def slot_of(descriptor: Any) -> int:  # noqa: ARG001  # the same signature
        """Return -1: interpreted, there are no offsets."""
        return -1

    def is_same_text(text: str, other: str) -> bool:
        """Return whether two texts are equal. In C, two that have different lengths are told apart by these."""
        return text == other

    def fill_frame(
        kind: Kind,  # noqa: ARG001  # the same signature
        type_name: str,  # noqa: ARG001
        data: Raw,  # noqa: ARG001
        message_id: str,  # noqa: ARG001
        timestamp: float,  # noqa: ARG001
        causation: str | None,  # noqa: ARG001
        correlation: str | None,  # noqa: ARG001
    ) -> Frame | None:
        """Return None: interpreted, there are no offsets to fill."""
        return None

    def read_field(descriptor: Any, slot: int, owner: object) -> Any:  # noqa: ARG001  # the same signature
        """Return the value of a descriptor for an object of its class."""
        return descriptor.__get__(owner)


KIND_SLOT: Offset = slot_of(KIND)
TYPE_SLOT: Offset = slot_of(TYPE)
DATA_SLOT: Offset = slot_of(DATA)
METADATA_SLOT: Offset = slot_of(METADATA)
ID_SLOT: Offset = slot_of(ID)
TIMESTAMP_SLOT: Offset = slot_of(TIMESTAMP)
CAUSATION_SLOT: Offset = slot_of(CAUSATION)
TIMEOUT_SLOT: Offset = slot_of(TIMEOUT)
CORRELATION_SLOT: Offset = slot_of(CORRELATION)
# Whether all of them are plain slots, so that `fill_frame` can fill them.
ARE_PLAIN_SLOTS = (
    min(
        *(KIND_SLOT, TYPE_SLOT, DATA_SLOT, METADATA_SLOT),
        *(ID_SLOT, TIMESTAMP_SLOT, CAUSATION_SLOT, CORRELATION_SLOT, TIMEOUT_SLOT),
    )
    > 0
)
# The classes under names that no annotation has: msgspec looks annotations up in the module, where compiled constants are not.
FRAME: Any = Frame
METADATA_CLASS: Any = Metadata


def new_frame(
    kind: Kind,
    type_name: str,
    data: Raw,
    message_id: str,
    timestamp: float,
    causation: str | None,
    correlation: str | None,
) -> Frame:
    """Make a frame without a timeout: compiled, without the calls of the two constructors."""
    frame = fill_frame(kind, type_name, data, message_id, timestamp, causation, correlation)
    if frame is None:
        metadata = Metadata(message_id, timestamp, causation, correlation)
        frame = Frame(kind=kind, type=type_name, data=data, metadata=metadata)
    return frame


def kind_of(frame: Frame) -> Kind:
    """Return the kind of a frame."""
    kind: Kind = read_field(KIND, KIND_SLOT, frame)
    return kind


def is_command(frame: Frame) -> bool:
    """Return whether a frame is a command."""
    kind: Kind = read_field(KIND, KIND_SLOT, frame)
    return is_same_text(kind, "command")


def is_request(frame: Frame) -> bool:
    """Return whether a frame is owed an answer."""
    kind: Kind = read_field(KIND, KIND_SLOT, frame)
    return is_same_text(kind, "query") or is_same_text(kind, "command")


def type_of(frame: Frame) -> str:
    """Return the type of a frame."""
    name: str = read_field(TYPE, TYPE_SLOT, frame)
    return name


def data_of(frame: Frame) -> Raw:
    """Return the encoded data of a frame."""
    data: Raw = read_field(DATA, DATA_SLOT, frame)
    return data


def metadata_of(frame: Frame) -> Metadata:
    """Return the metadata of a frame."""
    metadata: Metadata = read_field(METADATA, METADATA_SLOT, frame)
    return metadata


def id_of(metadata: Metadata) -> str:
    """Return the id of a message."""
    name: str = read_field(ID, ID_SLOT, metadata)
    return name


def timestamp_of(metadata: Metadata) -> float:
    """Return the time of a message, in milliseconds since 1970."""
    timestamp: float = read_field(TIMESTAMP, TIMESTAMP_SLOT, metadata)
    return timestamp


def causation_of(metadata: Metadata) -> str | None:
    """Return the id of the message that caused this one."""
    causation: str | None = read_field(CAUSATION, CAUSATION_SLOT, metadata)
    return causation


def timeout_of(metadata: Metadata) -> int | None:
    """Return the timeout of a request, in milliseconds."""
    timeout: int | None = read_field(TIMEOUT, TIMEOUT_SLOT, metadata)
    return timeout


def correlation_of(metadata: Metadata) -> str | None:
    """Return the correlation of a message."""
    correlation: str | None = read_field(CORRELATION, CORRELATION_SLOT, metadata)
    return correlation


# -- ids ---------------------------------------------------------------------------------------------------------------

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NS_PER_MS = 1_000_000
# The last four characters, 20 bits, are a counter; the 22 characters before them, the head, change rarely.
TAIL_BITS = 20
PAIRS = tuple([first + second for first in ALPHABET for second in ALPHABET])

if not cython.compiled:
    # Compiled, these are C functions in the .pxd.
    system_ns = time.time_ns

    def make_head(time_ms: int, chance: int) -> str:
        """Return the first 22 characters of an id: ten for the time, twelve for 60 random bits."""
        number = time_ms << 60 | chance
        return "".join([ALPHABET[number >> shift & 31] for shift in range(105, -1, -5)])

    def join_id(head: str, first: str, second: str) -> str:
        """Return the head of an id with two pairs of characters behind it."""
        return head + first + second


class IdGenerator:
    """Generates ids. It has no lock: use one per thread.

    Args:
        now_ns: the clock: nanoseconds since 1970.
        draw: the source of randomness: `draw(n)` returns n random bytes.
    """

    __slots__ = ("_draw", "_end_ns", "_head", "_head_bits", "_is_system_clock", "_now_ns", "_tail", "last_ms")

    def __init__(
        self, now_ns: Callable[[], int] = time.time_ns, draw: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._now_ns = now_ns
        self._is_system_clock = now_ns is time.time_ns
        self._draw = draw
        # The end of the millisecond whose ids are counted.
        self._end_ns: Nanoseconds = 0
        # The millisecond of the last id, for callers that need a timestamp too: one object for all its messages.
        self.last_ms = 0
        self._head = ""
        # The random bits in it.
        self._head_bits: Count = 0
        self._tail: Count = 0

    def __call__(self) -> str:
        """Return a new id, greater than all before it."""
        return self.make()

    def make(self) -> str:
        """Return a new id, greater than all before it."""
        now = system_ns() if self._is_system_clock else self._now_ns()
        if now >= self._end_ns:
            tail = self._start_millisecond(now // NS_PER_MS)
        else:
            tail = self._tail + 1
            if tail >> TAIL_BITS:
                # The tail has overflowed: carry into the head.
                tail = 0
                self._head_bits += 1
                self._head = make_head(self.last_ms, self._head_bits)
        self._tail = tail
        return join_id(self._head, PAIRS[tail >> 10], PAIRS[tail & 1023])

    def now_ms(self) -> Milliseconds:
        """Return the time, in milliseconds since 1970."""
        return self._now_ns() // NS_PER_MS

    def _start_millisecond(self, now: Milliseconds) -> Count:
        """Draw a new head and return the first tail."""
        self.last_ms = now
        self._end_ns = (now + 1) * NS_PER_MS
        drawn = self._draw(10)
        high: Count = int.from_bytes(drawn[:5], "big")
        low: Count = int.from_bytes(drawn[5:], "big")
        # The topmost random bit stays clear, so that the carry cannot reach the time.
        self._head_bits = (high & ((1 << 39) - 1)) << TAIL_BITS | low >> TAIL_BITS
        self._head = make_head(now, self._head_bits)
        return low & ((1 << TAIL_BITS) - 1)
