"""The codec of one payload type: decodes, encodes, and knows the JSON Schema.

Decoding is one call of msgspec, which validates. Encoding validates too, because the constructor of a `Struct` does not: the encoded
bytes are decoded again, so a capability never sends a payload that its reader would reject. That takes most of the time of encoding. So it is
left out for a payload whose classes alone show that it is valid: see `leaf_classes`.

A payload that msgspec rejects because of `1.0` in place of an integer is decoded a second time: see `with_whole_numbers`.

This module is compiled. Every message passes `read` or `write`; everything else here runs only at start or after an error.
"""

# `new_raw`, `field_of` and `has_null` are defined here or in the .pxd; the type checker sees one of the two.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MemberDescriptorType
from typing import Any, Final, Optional, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct
from msgspec import inspect as shapes

from bandstand.bus.contracts.pydantic_models import ModelError, read_model, write_model
from bandstand.bus.contracts.schema import Schema, example_of, schema_of
from bandstand.bus.contracts.types import is_none, name_of
from bandstand.bus.wire import DECODE_ERRORS, is_about_fractions, split_problem, with_whole_numbers
from bandstand.errors import ContractError, ContractViolationError, InvalidMessageError
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

__all__ = ("PayloadCodec",)

Flag: TypeAlias = bool

IS_COMPILED: Flag = cython.compiled
LONGEST_SHOWN = 200

EMPTY = Raw(b"{}")
EMPTY_SCHEMA: Final[Schema] = {"type": "object", "properties": {}}
EXAMPLE_ERRORS = (InvalidMessageError, *DECODE_ERRORS)

if not cython.compiled:
    # Compiled, these are C functions in the .pxd: in Cython, `in` first tries to convert the word to a number, which raises.
    def new_raw(kind: type[Raw], data: bytes) -> Raw:
        """Return a `Raw` of some bytes."""
        return kind(data)

    def field_of(field: Any, owner: object) -> Any:
        """Return the value of a field."""
        return field.__get__(owner)

    def has_null(line: bytes) -> bool:
        """Return whether a line contains the word null, possibly inside a string."""
        return b"null" in line


class EmptyPayload(Struct):
    """The data of a message without data. Unknown fields are ignored."""


# Not `| None`: the C compiler warns about what Cython makes of it.
_decode_empty = msgspec.json.Decoder(Optional[EmptyPayload]).decode  # noqa: UP045
_encode = msgspec.json.Encoder(enc_hook=write_model).encode


def _read_empty(data: Raw | bytes) -> None:
    if bytes(data) not in {b"{}", b""}:
        _decode_empty(data)


# What JSON has one way to write for, and reads back as it was. Not float: it may be infinite.
_LEAVES: tuple[tuple[type, frozenset[type]], ...] = (
    (shapes.AnyType, frozenset({str, int, bool, type(None)})),
    (shapes.StrType, frozenset({str})),
    (shapes.IntType, frozenset({int})),
    (shapes.BoolType, frozenset({bool})),
    (shapes.NoneType, frozenset({type(None)})),
)


def leaf_classes(shape: shapes.Type) -> frozenset[type]:
    """Return the classes whose objects are valid for a type, whatever their value. Objects of other classes may be valid too."""
    if isinstance(shape, shapes.Metadata):
        return leaf_classes(shape.type)
    if isinstance(shape, shapes.UnionType):
        return frozenset(each for kind in shape.types for each in leaf_classes(kind))
    for kind, classes in _LEAVES:
        # Equal to a shape without limits, such as a pattern or a lowest value.
        if type(shape) is kind and shape == kind():
            return classes
    return frozenset()


def plain_fields(annotation: Any) -> tuple[tuple[Any, frozenset[type]], ...]:
    """Return the fields of a struct with their `leaf_classes`; nothing if there is more to check than the fields, or for other types."""
    shape = shapes.type_info(annotation)
    if (
        not isinstance(shape, shapes.StructType)
        or shape.tag is not None
        or shape.array_like
        or hasattr(shape.cls, "__post_init__")
    ):
        return ()
    fields = [(getattr(shape.cls, field.name, None), leaf_classes(field.type)) for field in shape.fields]
    are_plain = all(type(field) is MemberDescriptorType and classes for field, classes in fields)
    return tuple(fields) if are_plain else ()


class PayloadCodec:
    """Decodes and encodes one type of payload.

    Args:
        annotation: any type that msgspec can decode, pydantic models included; None for no data.
        where: the message that the payload belongs to, for error messages.

    Raises:
        ContractError: the type is not supported; names `where` and the field.
    """

    __slots__ = ("_decode", "_is_empty", "_plain_fields", "_where", "annotation", "example", "schema")

    # Any, here and below: a type, a union or an annotated type, and its values.
    def __init__(self, annotation: Any, where: str) -> None:
        self._where = where
        self._is_empty = is_none(annotation)
        # The type; None for no data.
        self.annotation = None if self._is_empty else annotation
        # The JSON Schema: `read` accepts everything that it allows.
        self.schema: Schema = EMPTY_SCHEMA if self._is_empty else schema_of(annotation, where)
        decode: Callable[[Raw | bytes], Any] = _read_empty
        if not self._is_empty:
            try:
                decode = msgspec.json.Decoder(annotation, dec_hook=read_model).decode
            except (TypeError, ValueError) as error:
                raise ContractError(
                    f"{where}: {name_of(annotation)} cannot be read from JSON: {safe_str(error)}"
                ) from error
        self._decode = decode
        # The fields of a struct that is valid if their objects have the right classes.
        # Interpreted, to look at them takes longer than to decode.
        self._plain_fields = plain_fields(annotation) if IS_COMPILED and not self._is_empty else ()
        # A plain value that `read` accepts; None if none was found.
        self.example: Any = self._make_example()

    def read(self, data: Any) -> Any:
        """Decode a payload.

        Raises:
            InvalidMessageError: it does not match the type; says what is wrong, and where.
        """
        try:
            return self._decode(data)
        except Exception as error:  # noqa: BLE001  # a class's own validation may raise anything
            return self._retry_read(data, error)

    def write(self, value: Any) -> Raw:
        """Encode a payload, and check that `read` accepts it.

        Raises:
            ContractViolationError: `read` would not accept it; says what is wrong, and where.
        """
        if self._is_empty:
            if value is None or value == {}:
                return EMPTY
            raise ContractViolationError(
                f"{self._where} has no data, but was given {_shown(value)}: pass None"
            )
        try:
            line = _encode(value)
            if not self._is_plain(value):
                self._decode(line)
        except Exception as error:
            raise self._write_error(value, error) from error
        if has_null(line):
            self._check_finite(value)
        return new_raw(Raw, line)

    def _is_plain(self, value: Any) -> Flag:
        """Return whether the classes of a struct's fields show that it is valid."""
        fields = self._plain_fields
        if not fields or type(value) is not self.annotation:
            return False
        # A loop: compiled, `all` would make a generator.
        for field, classes in fields:  # noqa: SIM110  # see above
            if type(field_of(field, value)) not in classes:
                return False
        return True

    # -- errors --------------------------------------------------------------------------------------------------------

    def _retry_read(self, data: Raw | bytes, error: Exception) -> Any:
        """Decode what msgspec has rejected with whole numbers as integers, or raise `InvalidMessageError`."""
        if not isinstance(error, DECODE_ERRORS):
            raise InvalidMessageError.of(
                f"not the data of {self._where}: its validation raised {describe_exception(error)}", "$.data"
            ) from error
        if is_about_fractions(error):
            try:
                value = self._decode(with_whole_numbers(bytes(data)))
            except Exception:  # noqa: BLE001, S110  # the first error is the one to report
                pass
            else:
                return value
        problem, path = _located(error)
        raise InvalidMessageError.of(f"not the data of {self._where}: {problem}", path) from None

    def _write_error(self, value: object, error: Exception) -> ContractViolationError:
        if isinstance(error, DECODE_ERRORS):
            problem, path = _located(error)
            return self._not_allowed(value, f"{problem}, at {path}")
        return self._not_allowed(value, describe_exception(error))

    def _check_finite(self, value: object) -> None:
        """Refuse NaN and infinity: JSON does not have them, and msgspec writes null, which the type may allow."""
        if _may_have_nonfinite(value) and (path := _nonfinite_path(value)):
            raise self._not_allowed(value, f"not a finite number, at {path}")

    def _not_allowed(self, value: object, problem: str) -> ContractViolationError:
        return ContractViolationError(f"{self._where} does not allow {_shown(value)}: {problem}")

    def _make_example(self) -> object:
        example = example_of(self.schema)
        try:
            self.read(msgspec.json.encode(example))
        except EXAMPLE_ERRORS:
            return None
        return example


def _shown(value: object) -> str:
    return safe_repr(value, LONGEST_SHOWN)


def _located(error: Exception) -> tuple[str, str]:
    problem, path = split_problem(error)
    inner, sep, outer = path.partition("` in `")
    if sep:
        # msgspec reports a wrong key as "`key` in `$.path`".
        problem, path = f"{problem} as the {inner}", outer
    cause = error.__cause__
    if isinstance(cause, ModelError):
        path += cause.path
    return problem, f"$.data{path.removeprefix('$')}"


# -- numbers that JSON does not have -----------------------------------------------------------------------------------

# MessagePack writes NaN and infinity as eight bytes after a marker, with all bits of the exponent set.
_NONFINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _dump_model(value: object) -> object:
    # A model as its fields; None for an object that has no numbers to check.
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else None


_pack = msgspec.msgpack.Encoder(enc_hook=_dump_model).encode


def _may_have_nonfinite(value: object) -> bool:
    """Return False if a payload contains no NaN or infinity for certain. Ten times faster than a search."""
    try:
        return _NONFINITE.search(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):
        # MessagePack cannot write it: an integer of more than 64 bits, for example.
        return True


def _nonfinite_path(value: object) -> str:
    """Return the path of the first NaN or infinity, as `$.data.key`; empty if there is none."""
    return _search(msgspec.to_builtins(value, enc_hook=_dump_model), "$.data")


def _search(value: object, path: str) -> str:
    if isinstance(value, float):
        return "" if math.isfinite(value) else path
    inner: Iterable[tuple[str, object]]
    if isinstance(value, Mapping):
        inner = ((f"{path}.{key}", each) for key, each in cast("Mapping[object, object]", value).items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = ((f"{path}[{place}]", each) for place, each in enumerate(cast("Iterable[object]", value)))
    else:
        return ""
    for step, each in inner:
        if found := _search(each, step):
            return found
    return ""
