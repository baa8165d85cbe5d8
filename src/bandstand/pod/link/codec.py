"""Arguments and answers as they travel: what goes in comes out, with the same value and the same types.

Two ways. *Plain* values (None, bools, floats, integers of 64 bits, short strings and bytes, exactly of these types, and flat
tuples of them) cannot change after the call, so they are kept as they are, and msgspec encodes a whole burst of them at once
when it is written. Everything else is pickled in the call: what cannot be is an error of the caller, and what the caller does to
its objects afterwards is not seen on the other side.

Large buffers (NumPy's, and bytes and bytearrays that are arguments themselves) are *parts*: they are not in the pickle, and
travel beside it in chunks. Bytes are not copied for that, what can change is, once. A pickle that is large itself is a part too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast, final

from msgspec.msgpack import Decoder, Encoder, Ext

from bandstand.errors import BadMessage
from bandstand.errors.formatting import safe_repr
from bandstand.pod.passport import Resolver, resolving

if TYPE_CHECKING:
    from bandstand.pod.link.budget import ByteBudget

__all__ = ("LARGE", "Carried", "Packet", "Part", "Unpacker", "culprit", "encode", "pack_value")

LARGE: Final = 65_536
"""A buffer of more bytes than this travels by itself."""
PROTOCOL: Final = 5

# What the bytes of an extension are: a pickle; a pickle, or nothing if that is a part itself, and the numbers of its parts.
PICKLED: Final = 1
PARTED: Final = 2

Carried: TypeAlias = tuple[tuple[int, Any], ...]
"""Context variables by their places in `carries`, with their values, which may be anything."""
Store: TypeAlias = bytes | bytearray


class Part(NamedTuple):
    """A buffer that travels by itself."""

    data: memoryview
    is_frozen: bool
    """Whether it is bytes on the other side; else it is a bytearray."""


@final
class Packet:
    """Arguments, or an answer, that are pickled. `weight` is how many bytes that took; parts do not count.

    `is_over` says whether there was no room left for it in the budget that it was charged to.
    """

    __slots__ = ("_budget", "_charged", "body", "is_over", "parts", "streams", "weight")

    def __init__(self, body: bytes, parts: tuple[Part, ...]) -> None:
        self.body = body
        self.parts = parts
        self.weight = len(body)
        # The numbers by which the other side knows the parts, once they are under way.
        self.streams: tuple[int, ...] = ()
        self._budget: ByteBudget | None = None
        self._charged = 0
        self.is_over = False

    def charge(self, budget: ByteBudget) -> None:
        """Count its bytes, those of its parts included, for as long as it exists."""
        self._charged = self.weight + sum(part.data.nbytes for part in self.parts)
        self._budget = budget
        self.is_over = budget.charge(self._charged)

    def __del__(self) -> None:
        if self._budget is not None:
            self._budget.refund(self._charged)


@final
class Lifted:
    """A large argument of bytes, to be pickled as a buffer: the pickler would put it into the pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: Store) -> None:
        self._value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (lower, (PickleBuffer(self._value),))


def lower(value: Store) -> Store:
    """What a lifted argument was: the buffer has come as what it had been."""
    return value


def pack_value(data: object, carried: Carried = ()) -> Packet:
    """Pickle a value, and what travels along. Raises whatever its pickling raises."""
    parts: list[Part] = []

    def keep(buffer: PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes <= LARGE:
            return True
        is_bytes = type(raw.obj) is bytes
        # Read-only is not unchangeable: only of bytes that is sure.
        parts.append(Part(raw if is_bytes else memoryview(bytes(raw)), raw.readonly))
        return False

    body = pickle.dumps(
        (_lifted(data), carried) if carried else (_lifted(data),), PROTOCOL, buffer_callback=keep
    )
    if len(body) > LARGE:
        return Packet(b"", (Part(memoryview(body), is_frozen=True), *parts))
    return Packet(body, tuple(parts))


def _lifted(value: Any, depth: int = 2) -> Any:
    """The same arguments, with large bytes among them to be parts. One by itself, a tuple of several, or both with names."""
    data: object = value
    kind = type(data)
    if kind is bytes or kind is bytearray:
        return Lifted(value) if len(value) > LARGE else data
    if depth and kind is tuple:
        return tuple([_lifted(one, depth - 1) for one in value])
    if depth and kind is dict:
        return {name: _lifted(one, 0) for name, one in value.items()}
    return data


def to_wire(value: object) -> Ext:
    """What msgspec does not know by itself: a packet, whose parts are under way."""
    if type(value) is not Packet:
        raise TypeError(f"{safe_repr(value)} was not packed")
    if not value.streams:
        return Ext(PICKLED, value.body)
    return Ext(PARTED, encode((value.body, value.streams)))


encode: Final = Encoder(enc_hook=to_wire).encode
decode_parts: Final = Decoder(tuple[bytes, tuple[int, ...]]).decode


@final
class Unpacker:
    """Unpacks what has come.

    Args:
        parts_of: gives the buffers of these numbers, which have come.
        resolver: finds handles that were packed by their roles; None for nobody's.
    """

    __slots__ = ("_parts_of", "_resolver")

    def __init__(
        self, parts_of: Callable[[Sequence[int]], list[Store]], resolver: Resolver | None = None
    ) -> None:
        self._parts_of = parts_of
        self._resolver = resolver

    def unpack(self, value: Ext) -> tuple[Any, Carried]:
        """What was packed, and what travelled along.

        Raises:
            BadMessage: it is none of ours.
            Exception: whatever its unpickling raises.
        """
        if value.code == PICKLED:
            packed = self._load(cast("bytes", value.data), [])
        elif value.code == PARTED:
            body, streams = decode_parts(value.data)
            buffers = self._parts_of(streams)
            packed = self._load(body or buffers.pop(0), buffers)
        else:
            raise BadMessage(f"a value of a kind that is not known came over the link: {value.code}")
        return packed[0], packed[1] if len(packed) == 2 else ()

    def _load(self, body: Store, buffers: list[Store]) -> tuple[Any, ...]:
        # From a process that we have started, or that has started us.
        if self._resolver is None:
            return pickle.loads(body, buffers=buffers)  # type: ignore[no-any-return]  # noqa: S301
        with resolving(self._resolver):
            return pickle.loads(body, buffers=buffers)  # type: ignore[no-any-return]  # noqa: S301


def culprit(data: Any, carried: Carried = (), what: str = "an argument") -> str:
    """Which of the values that were to be pickled cannot be, in words."""
    values: list[tuple[str, Any]] = [("a context variable", value) for _, value in carried]
    values += [(what, value) for value in _arguments(data)]
    for name, value in values:
        try:
            pickle.dumps(value, PROTOCOL)
        except Exception:  # noqa: BLE001  # whatever somebody's reduce raises
            return f"{name} of type {type(value).__qualname__}"
    return what


def _arguments(data: Any) -> list[Any]:
    """The arguments one by one: one by itself, several by position, or these and those by name."""
    shape: object = data
    if type(shape) is not tuple:
        return [data]
    if len(data) == 2 and isinstance(data[0], tuple) and isinstance(data[1], dict):
        return [*data[0], *data[1].values()]
    return [*data]
