"""JSON Schemas that state everything a decoder requires, and examples of them.

msgspec writes schemas too, but they allow more than its decoder accepts: a date is a string with a `format`, which readers may
ignore, and the keys of a dictionary may be any string. A payload made from such a schema could be rejected. Here every constraint is written down, as a
pattern where JSON Schema has no keyword for it. A type whose constraints cannot be written down is rejected when the contract is read.

Custom validation, such as a `__post_init__` or a pydantic validator, is not part of a schema.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec import inspect as shapes

from bandstand.bus.contracts import patterns
from bandstand.bus.contracts.patterns import Schema, datetime_schema, string_schema
from bandstand.bus.contracts.pydantic_models import ModelClass, is_model, model_schema, write_model
from bandstand.bus.contracts.types import description_of
from bandstand.errors import ContractError
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("Schema", "example_of", "schema_of")

_REFERENCE: Final = "#/$defs/"
# The finest step whose multiples are exact as floats. Tenths, for example, are not.
_FINEST_STEP: Final = 2**20

_Collection: TypeAlias = shapes.ListType | shapes.VarTupleType | shapes.SetType | shapes.FrozenSetType
_Record: TypeAlias = shapes.StructType | shapes.DataclassType | shapes.TypedDictType | shapes.NamedTupleType
_Bytes: TypeAlias = shapes.BytesType | shapes.ByteArrayType | shapes.MemoryViewType


# Any: a type, a union or an annotated type; Python has no common type for these.
def schema_of(annotation: Any, where: str) -> Schema:
    """Return the JSON Schema (2020-12) of a type, with its definitions in `$defs`.

    Args:
        annotation: the type.
        where: the message it belongs to, for error messages.

    Raises:
        ContractError: the type is not supported; names `where` and the field.
    """
    try:
        shape = shapes.type_info(annotation)
    except Exception as error:
        # msgspec lets any exception through: a TypeError, a NameError, an error of a descriptor.
        raise ContractError(
            f"{where}: the type {safe_repr(annotation)} cannot be read from JSON: {safe_str(error)}"
        ) from error
    return _SchemaWriter(where).write_document(shape)


class _SchemaWriter:
    """Writes the schema of one payload. Every named type is written once, under `$defs`."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._defs: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def write_document(self, shape: shapes.Type) -> Schema:
        """Return the schema of the whole payload."""
        schema = self._write(shape, "$.data")
        name = str(schema.get("$ref", "")).removeprefix(_REFERENCE)
        if len(schema) == 1 and name in self._defs and _REFERENCE + name not in set(_references(self._defs)):
            # Nothing else refers to it, so it is easier to read in place.
            schema = self._defs.pop(name)
        return schema | {"$defs": self._defs} if self._defs else schema

    def _write(self, shape: shapes.Type, path: str) -> Schema:
        """Return the schema of the type at `path`."""
        schema = _scalar_schema(shape)
        if schema is not None:
            if isinstance(shape, shapes.FloatType):
                self._check_step(shape, path)
            return schema
        match shape:
            case shapes.Metadata():
                # Additions of the user, from msgspec.Meta.
                extra = cast("Schema | None", getattr(shape, "extra_json_schema", None))
                return self._write(shape.type, path) | (extra or {})
            case shapes.EnumType():
                kind = shape.cls
                members = [each.value for each in kind]
                return self._define(kind, kind, lambda _: _described(kind) | {"enum": members})
            case (
                shapes.StructType()
                | shapes.DataclassType()
                | shapes.TypedDictType()
                | shapes.NamedTupleType()
            ):
                # By identity: a generic class has one shape for each type argument.
                return self._define(shape.cls, id(shape), lambda _: self._write_record(shape, path))
            case shapes.CustomType():
                return self._write_custom(shape.cls, path)
            case _:
                return self._write_container(shape, path)

    def _write_container(self, shape: shapes.Type, path: str) -> Schema:
        match shape:
            case shapes.UnionType():
                return {"anyOf": [self._write(each, path) for each in shape.types]}
            case shapes.ListType() | shapes.VarTupleType() | shapes.SetType() | shapes.FrozenSetType():
                return self._write_collection(shape, path)
            case shapes.TupleType():
                items = [self._write(each, f"{path}[{place}]") for place, each in enumerate(shape.item_types)]
                return _tuple_schema(items, len(items))
            case shapes.DictType():
                return self._write_dict(shape, path)
            case _:
                raise self._error(path, f"{type(shape).__name__.removesuffix('Type')} has no form in JSON")

    def _error(self, path: str, problem: str) -> ContractError:
        return ContractError(f"{self._where}: {path}: {problem}")

    def _define(self, kind: type, key: object, write: Callable[[str], Schema]) -> Schema:
        """Return a reference to a named type, and write its definition the first time."""
        name = self._names.get(key)
        if name is None:
            name = kind.__name__
            if name in self._defs:
                name = f"{kind.__module__}.{kind.__qualname__}"
            while name in self._defs:
                name += "_"
            self._names[key] = name
            # Reserve the name before writing: the type may refer to itself.
            self._defs[name] = {}
            self._defs[name] = write(name)
        return {"$ref": _REFERENCE + name}

    def _write_collection(self, shape: _Collection, path: str) -> Schema:
        schema: Schema = {"type": "array", "items": self._write(shape.item_type, f"{path}[...]")}
        schema |= _without_none({"minItems": shape.min_length, "maxItems": shape.max_length})
        if isinstance(shape, (shapes.SetType, shapes.FrozenSetType)):
            if not is_hashable(shape.item_type):
                raise self._error(
                    f"{path}[...]", "a set cannot hold this type, which is not hashable: use a list"
                )
            self._check_min_length(shape.min_length, shape.item_type, path)
            schema["uniqueItems"] = True
        return schema

    def _write_dict(self, shape: shapes.DictType, path: str) -> Schema:
        names = _key_schema(shape.key_type)
        if names is None:
            raise self._error(path, "JSON keys are strings, and these cannot be strings: use dict[str, ...]")
        self._check_min_length(shape.min_length, shape.key_type, path)
        schema: Schema = {"type": "object"} | ({"propertyNames": names} if names else {})
        schema["additionalProperties"] = self._write(shape.value_type, f"{path}[...]")
        return schema | _without_none({"minProperties": shape.min_length, "maxProperties": shape.max_length})

    def _write_record(self, shape: _Record, path: str) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        is_array, is_closed = isinstance(shape, shapes.NamedTupleType), False
        if isinstance(shape, shapes.StructType):
            is_array, is_closed = shape.array_like, shape.forbid_unknown_fields
            if shape.tag_field is not None:
                properties[shape.tag_field] = {"const": shape.tag}
                required.append(shape.tag_field)
        for field in shape.fields:
            name = field.encode_name
            properties[name] = self._write(field.type, f"{path}.{name}") | _default(field)
            if field.required:
                required.append(name)
        schema = _described(shape.cls)
        if is_array:
            least = max((place for place, name in enumerate(properties, 1) if name in required), default=0)
            return schema | _tuple_schema(list(properties.values()), least)
        schema |= {"type": "object", "properties": properties, "required": required}
        return schema | {"additionalProperties": False} if is_closed else schema

    def _write_custom(self, kind: type, path: str) -> Schema:
        if kind is object:
            return {}
        if not is_model(kind):
            raise self._error(
                path,
                f"{kind.__name__} cannot be read from JSON: make it a Struct, a dataclass or a pydantic model",
            )
        return self._define(kind, kind, lambda name: self._write_model(kind, name))

    def _write_model(self, kind: type[ModelClass], name: str) -> Schema:
        schema, defs = model_schema(kind, f"{_REFERENCE}{name}.")
        self._defs |= {f"{name}.{inner}": found for inner, found in defs.items()}
        return schema

    def _check_step(self, shape: shapes.FloatType, path: str) -> None:
        step = shape.multiple_of
        if step is not None and float(step).as_integer_ratio()[1] > _FINEST_STEP:
            raise self._error(
                path, f"multiples of {step} are not exact as floats: use an int that counts the steps"
            )

    def _check_min_length(self, least: int | None, item: shapes.Type, path: str) -> None:
        # Two spellings of the same value are one item for the decoder, but two items for the schema.
        if (least or 0) > 1 and not _has_one_spelling(item):
            raise self._error(
                path,
                f"min_length={least} cannot be guaranteed for values that JSON can write in several ways",
            )


def _references(tree: object) -> Iterable[str]:
    if isinstance(tree, dict):
        for key, value in cast("dict[str, object]", tree).items():
            if key == "$ref" and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(tree, list):
        for value in cast("list[object]", tree):
            yield from _references(value)


def _tuple_schema(items: list[Schema], least: int) -> Schema:
    # JSON Schema does not allow an empty prefixItems.
    prefix = {"prefixItems": items} if items else {}
    return {"type": "array", **prefix, "minItems": least, "maxItems": len(items)}


def _described(kind: type) -> Schema:
    text = description_of(kind)
    return {"title": kind.__name__} | ({"description": text} if text else {})


def _default(field: shapes.Field) -> Schema:
    if field.required or field.default is msgspec.NODEFAULT or field.default is msgspec.UNSET:
        return {}
    return {"default": msgspec.json.decode(msgspec.json.encode(field.default, enc_hook=write_model))}


def _without_none(keywords: Schema) -> Schema:
    return {key: value for key, value in keywords.items() if value is not None}


# -- scalars and keys --------------------------------------------------------------------------------------------------


def _bounds(shape: shapes.IntType | shapes.FloatType) -> Schema:
    return _without_none(
        {
            "minimum": shape.ge,
            "exclusiveMinimum": shape.gt,
            "maximum": shape.le,
            "exclusiveMaximum": shape.lt,
            "multipleOf": shape.multiple_of,
        }
    )


def _str_schema(shape: shapes.StrType) -> Schema:
    keywords = {"minLength": shape.min_length, "maxLength": shape.max_length, "pattern": shape.pattern}
    return {"type": "string"} | _without_none(keywords)


def _bytes_schema(shape: _Bytes) -> Schema:
    pattern = patterns.bytes_pattern(shape.min_length or 0, shape.max_length)
    return {"type": "string", "contentEncoding": "base64", "pattern": pattern}


# Any: each function takes the shape that is its key.
_SCALARS: Mapping[type[shapes.Type], Callable[[Any], Schema]] = {
    shapes.AnyType: lambda _: {},
    shapes.RawType: lambda _: {},
    shapes.NoneType: lambda _: {"type": "null"},
    shapes.BoolType: lambda _: {"type": "boolean"},
    shapes.IntType: lambda shape: {"type": "integer"} | _bounds(shape),
    shapes.FloatType: lambda shape: {"type": "number"} | _bounds(shape),
    shapes.StrType: _str_schema,
    shapes.BytesType: _bytes_schema,
    shapes.ByteArrayType: _bytes_schema,
    shapes.MemoryViewType: _bytes_schema,
    shapes.DateTimeType: lambda shape: datetime_schema("date-time", shape.tz),
    shapes.TimeType: lambda shape: datetime_schema("time", shape.tz),
    shapes.DateType: lambda _: string_schema("date", patterns.DATE),
    shapes.TimeDeltaType: lambda _: string_schema("duration", patterns.DURATION),
    shapes.UUIDType: lambda _: string_schema("uuid", patterns.UUID),
    shapes.DecimalType: lambda _: string_schema("decimal", patterns.DECIMAL),
    shapes.LiteralType: lambda shape: {"enum": list(shape.values)},
}

_STRING_SCALARS: Final = (
    shapes.BytesType,
    shapes.DateTimeType,
    shapes.TimeType,
    shapes.DateType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
)


def _scalar_schema(shape: shapes.Type) -> Schema | None:
    """Return the schema of a type without parts and without a name; None for all other types."""
    write = _SCALARS.get(type(shape))
    return None if write is None else write(shape)


def _key_schema(shape: shapes.Type) -> Schema | None:
    """Return the schema of an object's keys, which are strings in JSON; None if the type cannot be a key."""
    inner = shape.type if isinstance(shape, shapes.Metadata) else shape
    match inner:
        case shapes.AnyType():
            return {}
        case shapes.StrType():
            schema = _str_schema(inner)
            # A schema of keys need not say that they are strings.
            return schema if len(schema) > 1 else {}
        case shapes.IntType() | shapes.FloatType() if not _bounds(inner):
            is_int = isinstance(inner, shapes.IntType)
            return {"pattern": patterns.INTEGER_KEY if is_int else patterns.NUMBER_KEY}
        case shapes.EnumType():
            return {"enum": [str(each.value) for each in inner.cls]}
        case shapes.LiteralType():
            values = cast("Iterable[object]", inner.values)
            return {"enum": [str(value) for value in values if isinstance(value, (str, int))]}
        case _:
            return _scalar_schema(inner) if isinstance(inner, _STRING_SCALARS) else None


# -- items of sets -----------------------------------------------------------------------------------------------------

_HASHABLE: Final = (
    shapes.NoneType,
    shapes.BoolType,
    shapes.IntType,
    shapes.FloatType,
    shapes.StrType,
    shapes.BytesType,
    shapes.DateTimeType,
    shapes.TimeType,
    shapes.DateType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
    shapes.EnumType,
    shapes.LiteralType,
)
_ONE_SPELLING: Final = (
    shapes.IntType,
    shapes.StrType,
    shapes.BytesType,
    shapes.DateType,
    shapes.EnumType,
    shapes.LiteralType,
)


def is_hashable(shape: shapes.Type, inside: frozenset[type[object]] = frozenset()) -> bool:
    """Return whether every value of a type is hashable; `inside` are the enclosing classes."""
    match shape:
        case shapes.Metadata():
            return is_hashable(shape.type, inside)
        case shapes.UnionType():
            return all(is_hashable(each, inside) for each in shape.types)
        case shapes.TupleType():
            return all(is_hashable(each, inside) for each in shape.item_types)
        case shapes.VarTupleType() | shapes.FrozenSetType():
            return is_hashable(shape.item_type, inside)
        case shapes.StructType() | shapes.DataclassType() | shapes.NamedTupleType():
            # The hash of an instance is computed from its fields.
            within = inside | {shape.cls}
            return shape.cls in inside or (
                _defines_hash(shape.cls) and all(is_hashable(each.type, within) for each in shape.fields)
            )
        case _:
            return isinstance(shape, _HASHABLE)


def _defines_hash(kind: type[object]) -> bool:
    found: object = getattr(kind, "__hash__", None)
    if found is Struct.__hash__:
        # Every Struct has this method, but it works only for frozen ones and those compared by identity.
        config = cast("type[Struct]", kind).__struct_config__
        return config.frozen or not config.eq
    return found is not None


def _has_one_spelling(shape: shapes.Type) -> bool:
    """Return whether JSON writes equal values alike, so that the number of items does not shrink on reading."""
    if isinstance(shape, shapes.Metadata):
        return _has_one_spelling(shape.type)
    return isinstance(shape, _ONE_SPELLING)


# -- examples ----------------------------------------------------------------------------------------------------------

# How deep a recursive type is followed.
_MAX_DEPTH: Final = 20
# The largest number of items or characters in an example.
_MAX_SIZE: Final = 100

_FORMAT_EXAMPLES: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "date-time-local": "2026-01-31T12:00:00",
    "time": "12:00:00Z",
    "time-local": "12:00:00",
    "duration": "PT1M30S",
    "uuid": "01890a5d-ac96-774b-bcce-b302099a8057",
    "uuid4": "9f1b7c52-6d0e-4a53-8d3c-2f6a1b7e9c04",
    "uuid7": "01890a5d-ac96-774b-bcce-b302099a8057",
    "decimal": "12.50",
    "email": "someone@example.org",
    "uri": "https://example.org/",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}
# Tried in this order for strings with a pattern.
_STRING_EXAMPLES: Final = (
    *("a", "A", "abc", "ABC", "Abc", "1", "12", "123", "1234", "a1", "A1", "ab1", "AB1", "AB-123"),
    *("a-b", "a.b", "a@b.c", "0.5", "1.0.0", "#a0b1c2", "", "2026-01-31T12:00:00", "12:00:00"),
)


# Any, here and below: a schema describes trees of plain values.
def example_of(schema: Schema) -> Any:
    """Return an example for people and language models: plausible if possible, otherwise simple.

    The example may not match the schema, since some patterns are too difficult. Check it with the decoder.
    """
    return _ExampleMaker(schema.get("$defs", {})).make(schema, "example", 0)


class _ExampleMaker:
    """Makes the example of one schema."""

    def __init__(self, defs: dict[str, Schema]) -> None:
        self._defs = defs
        self._open: list[str] = []
        """The references that are being followed, to end the recursion of a type that contains itself."""
        self._makers: dict[str, Callable[[Schema, str, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": lambda schema, name, _: example_string(schema, name),
            "integer": lambda schema, _name, _: _example_number(schema, is_int=True),
            "number": lambda schema, _name, _: _example_number(schema, is_int=False),
            "boolean": lambda _schema, _name, _: True,
            "null": lambda _schema, _name, _: None,
        }

    def make(self, schema: Schema | bool, name: str, depth: int) -> Any:
        """Return an example of a part of the schema that is called `name`."""
        # The schema True allows anything.
        if isinstance(schema, bool) or depth > _MAX_DEPTH:
            return name
        reference = str(schema.get("$ref", ""))
        if reference:
            self._open.append(reference)
            schema = self._resolve(schema)
        made = self._make_resolved(schema, name, depth + 1)
        if reference:
            self._open.pop()
        return made

    def _resolve(self, schema: Schema) -> Schema:
        return self._defs.get(str(schema.get("$ref", "")).removeprefix(_REFERENCE), {}) | schema

    def _make_resolved(self, schema: Schema, name: str, depth: int) -> Any:
        for keyword in ("examples", "enum"):
            if schema.get(keyword):
                return schema[keyword][0]
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("anyOf", "oneOf", "allOf"):
            if schema.get(keyword):
                return self._choose(schema[keyword], name, depth)
        # One type, or a list of types.
        kinds: Any = schema.get("type", "")
        named = [str(kinds)] if isinstance(kinds, str) else [str(each) for each in kinds if each != "null"]
        kind = named[0] if named else "null"
        maker = self._makers.get(kind)
        return name if maker is None else maker(schema, name, depth)

    def _choose(self, choices: list[Schema], name: str, depth: int) -> Any:
        real = [each for each in choices if each.get("type") != "null" and each.get("$ref") not in self._open]
        if real:
            return self.make(real[0], name, depth)
        return None if {"type": "null"} in choices else self.make(choices[0], name, depth)

    def _object(self, schema: Schema, _name: str, depth: int) -> dict[str, Any]:
        properties: dict[str, Schema | bool] = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        made = {
            name: self.make(inner, name, depth)
            for name, inner in properties.items()
            if name in required or (isinstance(inner, dict) and inner.get("examples"))
        }
        rest: Schema | bool = schema.get("additionalProperties", False)
        if not properties and isinstance(rest, dict) and rest.get("$ref") not in self._open:
            keys = self._several(
                {"type": "string"} | schema.get("propertyNames", {}), "key", schema, "Properties", depth
            )
            made |= {str(key): self.make(rest, "value", depth) for key in keys}
        return made

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        if "prefixItems" in schema:
            return [self.make(each, name, depth) for each in schema["prefixItems"]]
        items: Schema | bool = schema.get("items", True)
        if isinstance(items, dict) and items.get("$ref") in self._open and not schema.get("minItems"):
            return []
        return self._several(items, name, schema, "Items", depth)

    def _several(
        self, schema: Schema | bool, name: str, container: Schema, what: str, depth: int
    ) -> list[Any]:
        """Return as many examples as the container requires, at least one if allowed, and distinct if possible."""
        most = int(container.get(f"max{what}", _MAX_SIZE))
        wanted = min(max(int(container.get(f"min{what}", 0)), 1), most, _MAX_SIZE)
        choices: list[Any] = [] if isinstance(schema, bool) else self._resolve(schema).get("enum", [])
        if len(choices) >= wanted:
            return choices[:wanted]
        made: list[Any] = []
        more = range(2, wanted + 2)
        # Numbered names, and plain numbers for keys that cannot be names.
        for other in (name, *(f"{name}{place}" for place in more), *map(str, more)):
            if len(made) == wanted:
                break
            each = self.make(schema, other, depth)
            if isinstance(each, int) and not isinstance(each, bool):
                each += len(made)
            if each not in made or what == "Items":
                made.append(each)
        return made


def example_string(schema: Schema, name: str) -> str:
    """Return an example of a string: `name`, or the first candidate that satisfies the schema."""
    least = int(schema.get("minLength", 0))
    most = int(schema.get("maxLength", max(_MAX_SIZE, least)))
    pattern = str(schema.get("pattern", ""))
    sample = _FORMAT_EXAMPLES.get(str(schema.get("format", "")), name)
    if least > _MAX_SIZE:
        return sample
    is_base64 = schema.get("contentEncoding") == "base64"
    for word in _base64_examples() if is_base64 else (sample, name, *_STRING_EXAMPLES):
        # Repeat a word that is too short.
        fitted = (word * math.ceil(least / len(word)) if word and len(word) < least else word)[:most]
        if len(fitted) >= least and _matches(pattern, fitted):
            return fitted
    return sample


def _base64_examples() -> Iterable[str]:
    # Three bytes look best; if that is too long, the shortest that is allowed.
    return (b64encode(b"a" * length).decode() for length in (3, *range(_MAX_SIZE)))


def _matches(pattern: str, word: str) -> bool:
    try:
        return re.search(pattern, word) is not None
    except re.error:
        # The pattern is in another dialect. The caller checks the example with the decoder.
        return True


def _example_number(schema: Schema, *, is_int: bool) -> int | float:
    step = cast("int | float | None", schema.get("multipleOf"))
    low = cast("int | float | None", schema.get("minimum", schema.get("exclusiveMinimum")))
    high = cast("int | float | None", schema.get("maximum", schema.get("exclusiveMaximum")))
    grain = step or (1 if is_int else 0.5)
    if low is not None:
        if high is not None and not is_int and not step:
            return (low + high) / 2
        place = math.ceil(low / grain)
        return (place + 1 if place * grain == schema.get("exclusiveMinimum") else place) * grain
    if high is not None:
        place = math.floor(high / grain)
        return (place - 1 if place * grain == schema.get("exclusiveMaximum") else place) * grain
    return step or (1 if is_int else 1.5)
