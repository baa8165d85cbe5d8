"""Encodes arguments, answers and exceptions for another process, and decodes them there with the same values and types.

There are two encodings. *Plain* values (None, bool, float, 64-bit int, short str and bytes, of exactly these types, and flat
tuples of them) cannot change after the call. They are queued as they are, and msgspec encodes a whole batch when it is
written. Everything else is pickled in the caller's call: a value that cannot be pickled raises there, and later changes to
it are not visible on the other side.

Large buffers (of NumPy arrays, and bytes, bytearrays and memoryviews that are themselves arguments) become *parts*: they are
left out of the pickle and sent beside it in chunks. Bytes are not copied for that; a mutable buffer is copied once. A pickle that
is large itself is a part too.
"""

# PyUnicode_IS_ASCII comes from one of two places, of which pyright sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from pickle import PickleBuffer
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast, final

from msgspec.msgpack import Decoder, Encoder, Ext

from bandstand.core import Lane
from bandstand.errors import InvalidMessageError, RemoteError
from bandstand.errors.formatting import safe_repr, safe_str, safe_traceback, set_cause, type_name
from bandstand.pod.handle_pickling import HandleResolver, pickling_handles, resolving_handles
from bandstand.pod.link.byte_budget import ByteBudget
from bandstand.pod.link.large_buffers import LARGE, Buffer, Part, copy_bytes

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's own macro, declared in the .pxd.
    PyUnicode_IS_ASCII = str.isascii

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bandstand.actor import ActorSystem
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.handle_pickling import HandleCheck

Count: TypeAlias = int
Carried: TypeAlias = tuple[tuple[int, Any], ...]
"""Context variables, by their index in `carries`, with their values."""

# Limits of plain values.
MAX_TEXT = 1024
MAX_FIELDS = 16
MIN_INT = -(1 << 63)
MAX_INT = (1 << 64) - 1
# An upper bound of the encoded size of a value without its text, and of a character that is not ASCII.
VALUE_BYTES = 9
CHARACTER_BYTES = 4

PICKLE_PROTOCOL = 5

# Extension codes of MessagePack: a pickle; or a pickle (empty if it is a part itself) and the numbers of its parts.
PICKLED = 1
PICKLED_WITH_PARTS = 2

UNSET = object()
USER_LANES = (int(Lane.CONTROL), int(Lane.MANAGEMENT), int(Lane.DATA))
MAX_TRACEBACK = 16_384


# -- plain values ------------------------------------------------------------------------------------------------------


def is_plain(value: Any) -> bool:
    """Return whether a value needs no pickling: a single field, or a short flat tuple of fields."""
    data: object = value
    return is_field(value) if type(data) is not tuple else len(value) <= MAX_FIELDS and are_fields(value)


def are_fields(fields: tuple[Any, ...]) -> bool:
    """Return whether all values are fields."""
    for value in fields:  # noqa: SIM110  # compiled, a generator would be an object
        if not is_field(value):
            return False
    return True


def is_field(value: Any) -> bool:
    """Return whether a value is a plain value other than a tuple."""
    data: object = value
    kind = type(data)
    if kind is int:
        return bool(MIN_INT <= value <= MAX_INT)
    if data is None or kind is float or kind is bool:
        return True
    if kind is str:
        return is_short_text(value)
    return kind is bytes and len(value) <= MAX_TEXT


def is_short_text(text: str) -> bool:
    """Return whether a string is short and can be encoded as UTF-8."""
    if len(text) > MAX_TEXT:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate: it has no UTF-8 form, but pickle can encode it.
        return False
    return True


def plain_size(value: Any) -> Count:
    """Return an upper bound of the encoded size of a plain value, in bytes."""
    data: object = value
    if type(data) is not tuple:
        return field_size(value)
    fields: tuple[Any, ...] = value
    size = VALUE_BYTES
    for field in fields:
        size += field_size(field)
    return size


def field_size(value: Any) -> Count:
    """Return an upper bound of the encoded size of a field, in bytes."""
    data: object = value
    kind = type(data)
    if kind is str:
        length = len(value)
        return VALUE_BYTES + (length if PyUnicode_IS_ASCII(value) else CHARACTER_BYTES * length)
    return VALUE_BYTES + len(value) if kind is bytes else VALUE_BYTES


# -- pickled values ----------------------------------------------------------------------------------------------------


class Packet:
    """Pickled arguments, or a pickled answer.

    Attributes:
        body: the pickle; empty if it is a part itself.
        parts: the buffers that are not sent yet.
        part_numbers: how the other side knows the buffers, once they are queued.
        size: the bytes of `body`.
        is_over_budget: whether the budget had no room when the packet was charged to it.
    """

    __slots__ = ("_budget", "_charged", "body", "is_over_budget", "part_numbers", "parts", "size")

    def __init__(self, body: bytes, parts: tuple[Part, ...]) -> None:
        self.body = body
        self.parts = parts
        self.size: Count = len(body)
        self.part_numbers: tuple[int, ...] = ()
        self._budget: ByteBudget | None = None
        self._charged = 0
        self.is_over_budget = False

    def charge(self, budget: ByteBudget) -> None:
        """Count the bytes of this packet and its parts against a budget, for as long as the packet exists."""
        self._charged = self.size + sum([part.data.nbytes for part in self.parts])
        self._budget = budget
        self.is_over_budget = budget.charge(self._charged)

    def __del__(self) -> None:
        if self._budget is not None:
            self._budget.refund(self._charged)


@final
class LargeBytes:
    """Makes pickle treat a large bytes argument as an out-of-band buffer instead of copying it into the pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: Buffer) -> None:
        self._value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (unwrap_bytes, (PickleBuffer(self._value),))


def unwrap_bytes(value: Buffer) -> Buffer:
    """Return what a `LargeBytes` held. The buffer already arrives with its original type."""
    return value


@final
class ViewArgument:
    """Pickles a memoryview argument: its bytes as a buffer, and its format and shape."""

    __slots__ = ("_value",)

    def __init__(self, value: memoryview) -> None:
        self._value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        value: Any = self._value
        if value.c_contiguous:
            flat = value.cast("B")
        else:
            copy = value.tobytes()
            flat = memoryview(copy if value.readonly else bytearray(copy))
        # The receiver does the same: what cannot be done is an error of the call.
        rebuild_view(flat, value.format, value.shape)
        return (rebuild_view, (PickleBuffer(flat), value.format, value.shape))


def rebuild_view(data: Buffer | memoryview, form: str, shape: tuple[int, ...]) -> memoryview:
    """Return a view of these bytes, with a format and a shape."""
    # Any format: its type is one of a fixed number.
    view: Any = memoryview(data)
    return view.cast(form) if len(shape) == 1 else view.cast(form, shape)  # type: ignore[no-any-return]  # a memoryview


def pack_value(data: object, carried: Carried = ()) -> Packet:
    """Pickle a value together with context variables. Raises whatever pickling raises."""
    parts: list[Part] = []

    def keep_in_band(buffer: PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes <= LARGE:
            return True
        owner = raw.obj.obj if type(raw.obj) is memoryview else raw.obj
        is_bytes = type(owner) is bytes
        # A read-only view may still change; only bytes cannot.
        parts.append(Part(raw if is_bytes else memoryview(copy_bytes(raw)), raw.readonly))
        return False

    body = pickle.dumps(
        (_wrap_large(data), carried) if carried else (_wrap_large(data),),
        PICKLE_PROTOCOL,
        buffer_callback=keep_in_band,
    )
    if len(body) > LARGE:
        return Packet(b"", (Part(memoryview(body), is_frozen=True), *parts))
    return Packet(body, tuple(parts))


def _wrap_large(value: Any, depth: int = 2) -> Any:
    """Return arguments with large bytes and views wrapped: a single value, a tuple, or a tuple with a dict of named ones."""
    data: object = value
    kind = type(data)
    if kind is bytes or kind is bytearray:
        return LargeBytes(value) if len(value) > LARGE else data
    if kind is memoryview:
        return ViewArgument(value)
    if depth and kind is tuple:
        return tuple([_wrap_large(one, depth - 1) for one in value])
    if depth and kind is dict:
        return {name: _wrap_large(one, 0) for name, one in value.items()}
    return data


def to_ext(value: object) -> Ext:
    """Encode a `Packet` whose parts are queued: msgspec calls this for types that it does not know."""
    if type(value) is not Packet:
        raise TypeError(f"{safe_repr(value)} was not packed")
    if not value.part_numbers:
        return Ext(PICKLED, value.body)
    return Ext(PICKLED_WITH_PARTS, encode((value.body, value.part_numbers)))


_encoder: Final = Encoder(enc_hook=to_ext)
encode: Final = _encoder.encode
encode_into: Final = _encoder.encode_into
_decode_parts: Final = Decoder(tuple[bytes, tuple[int, ...]]).decode


@final
class Unpacker:
    """Unpickles values that have arrived.

    Args:
        take_buffers: returns the received buffers with these numbers.
        resolver: finds the handles among the values; None if there are none.
    """

    __slots__ = ("_resolver", "_take_buffers")

    def __init__(
        self, take_buffers: Callable[[Sequence[int]], list[Buffer]], resolver: HandleResolver | None = None
    ) -> None:
        self._take_buffers = take_buffers
        self._resolver = resolver

    def unpack(self, value: Ext) -> tuple[Any, Carried]:
        """Return the value and the context variables that were packed.

        Raises:
            InvalidMessageError: it was not packed by this module.
            Exception: whatever unpickling raises.
        """
        if value.code == PICKLED:
            packed = self._load(cast("bytes", value.data), [])
        elif value.code == PICKLED_WITH_PARTS:
            body, numbers = _decode_parts(value.data)
            buffers = self._take_buffers(numbers)
            packed = self._load(body or buffers.pop(0), buffers)
        else:
            raise InvalidMessageError(f"the link received a value of unknown kind {value.code}")
        return packed[0], packed[1] if len(packed) == 2 else ()

    def _load(self, body: Buffer, buffers: list[Buffer]) -> tuple[Any, ...]:
        # Trusted: it comes from a process that this one has started, or that has started this one.
        if self._resolver is None:
            return pickle.loads(body, buffers=buffers)  # type: ignore[no-any-return]  # noqa: S301
        with resolving_handles(self._resolver):
            return pickle.loads(body, buffers=buffers)  # type: ignore[no-any-return]  # noqa: S301


def name_unpicklable(data: Any, carried: Carried = (), what: str = "an argument") -> str:
    """Describe the first value that cannot be pickled, for an error text."""
    values: list[tuple[str, Any]] = [("a context variable", value) for _, value in carried]
    values += [(what, value) for value in _arguments(data)]
    for name, value in values:
        try:
            pickle.dumps(_wrap_large(value, 0), PICKLE_PROTOCOL)
        except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
            return f"{name} of type {type(value).__qualname__}"
    return what


def _arguments(data: Any) -> list[Any]:
    """Return the arguments in a list: a single one, positional ones, or positional and named ones."""
    shape: object = data
    if type(shape) is not tuple:
        return [data]
    if len(data) == 2 and isinstance(data[0], tuple) and isinstance(data[1], dict):
        return [*data[0], *data[1].values()]
    return [*data]


# -- arguments of a call -----------------------------------------------------------------------------------------------


class Packer:
    """Packs arguments in the call that sends them. Thread-safe.

    Args:
        carries: the context variables to send along. One that is unset or has its default is left out.
        check: returns why the receiver could not resolve a handle among the arguments. Without it, no handle can be sent.
        bounds: how many bytes may be in flight to each lane of a role, by role name. A role without an entry has no bound.
    """

    __slots__ = ("_bounds", "_budgets", "_carries", "_check")

    def __init__(
        self,
        carries: tuple[ContextVar[Any], ...],
        check: HandleCheck | None = None,
        bounds: Mapping[str, int] | None = None,
    ) -> None:
        self._check = check
        self._bounds: Mapping[str, int] = bounds or {}
        self._budgets: dict[tuple[str, int], ByteBudget] = {}
        self._carries = tuple(
            [(index, carries[index], default_of(carries[index])) for index in range(len(carries))]
        )

    def pack(self, handle: Handle | None, method: Method, data: object) -> object:
        """Return what to post instead of these arguments: the arguments themselves if they are plain, or a `Packet`.

        Raises:
            TypeError: an argument or a context variable cannot be pickled, or is a handle that the receiver could not
                resolve. The text names it.
        """
        carried = self.carried() if self._carries else ()
        if not carried and is_plain(data):
            return data
        ref = None if handle is None else handle.__handle_ref__
        # The pod of the receiver.
        pod = getattr(ref, "pod", None)
        with pickling_handles(self._check, pod):
            try:
                packet = pack_value(data, carried)
            except Exception as error:
                raise TypeError(
                    f"{method.owner}.{method.name}() of {safe_repr(handle)} cannot be sent to another process: "
                    f"{name_unpicklable(data, carried)} cannot be pickled ({safe_str(error)})"
                ) from error
        if self._bounds:
            budget = self._budget_of(getattr(ref, "role", ""), method.lane)
            if budget is not None:
                packet.charge(budget)
        return packet

    def attach(self, role: str, loop: ActorSystem, actor: ActorId) -> None:
        """Note which proxy now receives the messages for a role."""
        for lane in USER_LANES:
            budget = self._budget_of(role, lane)
            if budget is not None:
                budget.attach(loop, actor)

    def _budget_of(self, role: str, lane: int) -> ByteBudget | None:
        """Return the budget of a lane, which all incarnations of the role share; None if it has no bound."""
        budget = self._budgets.get((role, lane))
        if budget is None and role in self._bounds:
            # Another thread may do the same at this moment: the first budget wins.
            budget = self._budgets.setdefault((role, lane), ByteBudget(self._bounds[role], lane))
        return budget

    def carried(self) -> Carried:
        """Return the context variables to send along with a message from here."""
        carried: list[tuple[int, Any]] = []
        for index, variable, default in self._carries:
            value = variable.get(UNSET)
            if value is not UNSET and value is not default:
                carried.append((index, value))
        return tuple(carried)


def default_of(variable: ContextVar[Any]) -> object:
    """Return the default of a context variable; UNSET if it has none."""
    try:
        return Context().run(variable.get)
    except LookupError:
        return UNSET


# -- exceptions --------------------------------------------------------------------------------------------------------


@final
class RemoteTraceback(Exception):  # noqa: N818  # it carries a traceback and is never raised by itself
    """The traceback that an exception had in another process, as text. It is the `__cause__` of the exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class PackedError(NamedTuple):
    """An exception, encoded for another process."""

    body: bytes
    """Its pickle; empty if it cannot be pickled."""
    kind: str
    """The name of its class, with the module."""
    message: str
    """Its text."""
    traceback: str
    """Its traceback, as text."""


class _ErrorState:
    """Pickles an exception by class, arguments and attributes, independent of the signature of its constructor.

    `BaseException` pickles itself as its class called with `args`, which fails for a constructor with another signature.
    """

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_error, (type(self._error), self._error.args, vars(self._error)))


def _rebuild_error(
    kind: type[BaseException], args: tuple[object, ...], state: dict[str, object]
) -> BaseException:
    """Return the exception, made by its constructor, or without it if that fails."""
    try:
        error = kind(*args)
    except Exception:  # noqa: BLE001  # a constructor may raise anything for arguments that are not its own
        error = kind.__new__(kind, *args)
        error.args = args
    vars(error).update(state)
    return error


def _has_default_reduce(kind: type[BaseException]) -> bool:
    """Return whether a class has its own constructor, but the pickling of `BaseException`."""
    return (
        isinstance(kind.__init__, FunctionType)
        and kind.__reduce__ is BaseException.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
    )


def pack_error(error: BaseException) -> PackedError:
    """Encode an exception. Never raises."""
    kind = f"{safe_str(type(error).__module__)}.{type_name(error, qualified=True)}"
    try:
        body = pickle.dumps(
            _ErrorState(error) if _has_default_reduce(type(error)) else error, PICKLE_PROTOCOL
        )
    except Exception:  # noqa: BLE001  # a user's __reduce__ may raise anything
        body = b""
    return PackedError(body, kind, safe_str(error), safe_traceback(error, MAX_TRACEBACK).rstrip())


def unpack_error(packed: PackedError) -> BaseException:
    """Return the exception, or a `RemoteError` if it cannot be rebuilt here. Never raises."""
    body, kind, message, traceback = packed
    error: object = None
    why = "cannot be pickled"
    if body:
        try:
            error = pickle.loads(body)  # noqa: S301  # trusted: from a process that this one has started, or its parent
        except Exception as reason:  # noqa: BLE001  # a user's constructor may raise anything
            why = f"cannot be rebuilt here: {safe_str(reason)}"
    if not isinstance(error, BaseException):
        error = RemoteError(f"{kind}: {message} ({why})")
        error.kind = kind
    set_cause(error, RemoteTraceback(traceback))
    return error
