"""The JSON Schemas of what stands for itself: numbers, words, dates, bytes; and of the keys of an object, which are strings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import inspect as shapes

from bandstand.bus.contracts import patterns

__all__ = ("Schema", "bounds_of", "key_schema", "moment_schema", "said", "scalar_schema")

# Any: a JSON Schema is a tree of plain values.
Schema: TypeAlias = dict[str, Any]

Bytes: TypeAlias = shapes.BytesType | shapes.ByteArrayType | shapes.MemoryViewType


def said(rules: Schema) -> Schema:
    """The rules that were given, without those that are None."""
    return {key: value for key, value in rules.items() if value is not None}


def bounds_of(shape: shapes.IntType | shapes.FloatType) -> Schema:
    """The bounds of a number."""
    rules = {
        "minimum": shape.ge,
        "exclusiveMinimum": shape.gt,
        "maximum": shape.le,
        "exclusiveMaximum": shape.lt,
    }
    return said(rules | {"multipleOf": shape.multiple_of})


def _text(format_name: str, pattern: str) -> Schema:
    return {"type": "string", "format": format_name, "pattern": pattern}


def moment_schema(format_name: Literal["date-time", "time"], has_zone: bool | None) -> Schema:
    """The schema of a time of which it is said whether it has a zone; None if it may have one.

    By the rules of JSON Schema, `date-time` and `time` have one. A time without a zone has the formats that OpenAPI's registry gives it.
    """
    forms = patterns.TIME if format_name == "time" else patterns.DATE_TIME
    zoned, local = _text(format_name, forms[True]), _text(f"{format_name}-local", forms[False])
    if has_zone is None:
        return {"anyOf": [zoned, local]}
    return zoned if has_zone else local


def _word(shape: shapes.StrType) -> Schema:
    rules = {"minLength": shape.min_length, "maxLength": shape.max_length, "pattern": shape.pattern}
    return {"type": "string"} | said(rules)


def _bytes(shape: Bytes) -> Schema:
    pattern = patterns.bytes_pattern(shape.min_length or 0, shape.max_length)
    return {"type": "string", "contentEncoding": "base64", "pattern": pattern}


# Any: each function takes the shape it stands beside.
SCALARS: Mapping[type[shapes.Type], Callable[[Any], Schema]] = {
    shapes.AnyType: lambda _: {},
    shapes.RawType: lambda _: {},
    shapes.NoneType: lambda _: {"type": "null"},
    shapes.BoolType: lambda _: {"type": "boolean"},
    shapes.IntType: lambda shape: {"type": "integer"} | bounds_of(shape),
    shapes.FloatType: lambda shape: {"type": "number"} | bounds_of(shape),
    shapes.StrType: _word,
    shapes.BytesType: _bytes,
    shapes.ByteArrayType: _bytes,
    shapes.MemoryViewType: _bytes,
    shapes.DateTimeType: lambda shape: moment_schema("date-time", shape.tz),
    shapes.TimeType: lambda shape: moment_schema("time", shape.tz),
    shapes.DateType: lambda _: _text("date", patterns.DATE),
    shapes.TimeDeltaType: lambda _: _text("duration", patterns.DURATION),
    shapes.UUIDType: lambda _: _text("uuid", patterns.UUID),
    shapes.DecimalType: lambda _: _text("decimal", patterns.DECIMAL),
    shapes.LiteralType: lambda shape: {"enum": list(shape.values)},
}

KEYS = (
    shapes.BytesType,
    shapes.DateTimeType,
    shapes.TimeType,
    shapes.DateType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
)


def scalar_schema(shape: shapes.Type) -> Schema | None:
    """The schema of what holds nothing else and has no name; None for all the rest."""
    write = SCALARS.get(type(shape))
    return None if write is None else write(shape)


def key_schema(shape: shapes.Type) -> Schema | None:
    """The schema of an object's keys, all of which are strings; None if they cannot be of this type."""
    inner = shape.type if isinstance(shape, shapes.Metadata) else shape
    match inner:
        case shapes.AnyType():
            return {}
        case shapes.StrType():
            rules = _word(inner)
            # That it is a string goes without saying.
            return rules if len(rules) > 1 else {}
        case shapes.IntType() | shapes.FloatType() if not bounds_of(inner):
            return {"pattern": patterns.WHOLE if isinstance(inner, shapes.IntType) else patterns.NUMBER}
        case shapes.EnumType():
            return {"enum": [str(each.value) for each in inner.cls]}
        case shapes.LiteralType():
            values = cast("Iterable[object]", inner.values)
            return {"enum": [str(value) for value in values if isinstance(value, (str, int))]}
        case _:
            return scalar_schema(inner) if isinstance(inner, KEYS) else None
