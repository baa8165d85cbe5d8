"""The codec of one payload: reads it, writes it, and tells what it looks like.

Reading is one call of msgspec's decoder, which checks as it decodes. Writing checks too, since the constructor of a `Struct` does
not: what was encoded is decoded again, and so nothing leaves a capability that its reader would refuse.

What was refused because of `1.0` in the place of an integer is read once more: see `bandstand.bus.whole`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.contracts.annotations import is_nothing, name_of, shown
from bandstand.bus.contracts.example import example_of
from bandstand.bus.contracts.finite import may_be_unreal, path_to_no_number
from bandstand.bus.contracts.foreign import ForeignError, read_model, write_model
from bandstand.bus.contracts.schema import schema_of
from bandstand.bus.hot.codec import Codec
from bandstand.bus.whole import is_about_fractions, with_whole_numbers
from bandstand.bus.wire import DECODE_ERRORS, split_problem
from bandstand.errors import BadContract, BadMessage, OutboundFault
from bandstand.errors.formatting import describe_exception, safe_str

__all__ = ("Payload",)

T = TypeVar("T")


class Nothing(Struct):
    """What a message without data has as its data. Fields that nobody knows are tolerated, as everywhere."""


NO_DATA: Final[dict[str, Any]] = {"type": "object", "properties": {}}

_decode_nothing = msgspec.json.Decoder(Nothing | None).decode
_encode = msgspec.json.Encoder(enc_hook=write_model).encode


class Payload(Codec, Generic[T]):
    """Reads and writes one type of payload.

    Args:
        kind: the type: whatever msgspec can decode, with pydantic models inside or not; None for no data at all.
        where: what it is the payload of, for the sentences of errors.

    Raises:
        BadContract: the type cannot be served; names `where` and the field.
    """

    __slots__ = ("_once_more", "_where", "example", "kind", "schema")

    # Any: a type, a union or an annotated type; Python has no type for those.
    def __init__(self, kind: Any, where: str) -> None:
        self._where = where
        self.kind: Final = None if is_nothing(kind) else kind
        """The type; None for no data at all."""
        # Any, here and below: a JSON Schema is a tree of plain values.
        self.schema: Final[dict[str, Any]] = NO_DATA if self.kind is None else schema_of(kind, where)
        """Its JSON Schema, by itself: what it says is right, `read` takes."""
        decode: Callable[[Raw | bytes], Any] = _read_nothing
        if self.kind is not None:
            try:
                decode = msgspec.json.Decoder(kind, dec_hook=read_model).decode
            except (TypeError, ValueError) as error:
                raise BadContract(
                    f"{where}: {name_of(kind)} cannot be read from JSON: {safe_str(error)}"
                ) from error
        super().__init__(decode, _encode, self.kind is None)
        # The codec's own is out of reach where it is compiled.
        self._once_more = cast("Callable[[bytes], T]", decode)
        self.example: Final[Any] = self._sample()
        """A plain value that `read` takes; None if none was found."""

    if TYPE_CHECKING:
        # What the codec does, with the types that it cannot know.
        def read(self, data: Raw | bytes) -> T:
            """Decode a payload: see `Codec.read`."""
            ...

        def write(self, value: T) -> Raw:
            """Encode a payload, checked: see `Codec.write`."""
            ...

    def read_again(self, data: Raw | bytes, error: Exception) -> T:
        """Read what msgspec has refused: with whole numbers as integers, or with the sentence that says what is wrong."""
        if not isinstance(error, DECODE_ERRORS):
            # A class's own check has raised it, over what a stranger has sent.
            raise BadMessage.of(
                f"not the data of {self._where}: its check raised {describe_exception(error)}", "$.data"
            ) from error
        if is_about_fractions(error):
            try:
                value: T = self._once_more(with_whole_numbers(bytes(data)))
            except Exception:  # noqa: BLE001, S110  # whatever this attempt finds, what the first one found is told
                pass
            else:
                return value
        problem, path = _located(error)
        raise BadMessage.of(f"not the data of {self._where}: {problem}", path) from None

    def unfit(self, value: object, error: Exception) -> OutboundFault:
        """The sentence for a value that would not be read."""
        if self.kind is None:
            return OutboundFault(f"{self._where} has no data, but was given {shown(value)}: give None")
        if isinstance(error, DECODE_ERRORS):
            problem, path = _located(error)
            return self._not_allowed(value, f"{problem}, at {path}")
        return self._not_allowed(value, describe_exception(error))

    def check_finite(self, value: object) -> None:
        """JSON has no NaN and no infinity, and msgspec writes null for them: where null is allowed, that would pass.

        Raises:
            OutboundFault: there is one.
        """
        if may_be_unreal(value) and (path := path_to_no_number(value)):
            raise self._not_allowed(value, f"not a finite number, at {path}")

    def _not_allowed(self, value: object, problem: str) -> OutboundFault:
        return OutboundFault(f"{self._where} does not allow {shown(value)}: {problem}")

    def _sample(self) -> object:
        sample = example_of(self.schema)
        try:
            self.read(msgspec.json.encode(sample))
        except (BadMessage, *DECODE_ERRORS):
            return None
        return sample


def _read_nothing(data: Raw | bytes) -> None:
    if bytes(data) not in {b"{}", b""}:
        _decode_nothing(data)


def _located(error: Exception) -> tuple[str, str]:
    problem, path = split_problem(error)
    inner, sep, outer = path.partition("` in `")
    if sep:
        # msgspec says that it was the key of a dictionary, and where the dictionary is.
        problem, path = f"{problem} as the {inner}", outer
    cause = error.__cause__
    if isinstance(cause, ForeignError):
        path += cause.path
    return problem, f"$.data{path.removeprefix('$')}"
