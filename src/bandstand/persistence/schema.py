"""Schemas of events: the JSON Schema of a class, without texts and defaults.

They are recorded in the journal, so that the classes of a later program can be compared with them. They are made here, and not by msgspec, because its
schemas leave out what JSON Schema cannot express, such as the time zone of a datetime, and may change with its version.

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast, final

import msgspec
from msgspec import inspect

__all__ = ("Schema", "hash_of", "schema_of")

Schema: TypeAlias = "dict[str, Any]"

_PLAIN: Final[dict[type[inspect.Type], Schema]] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.BytesType: {"type": "string", "contentEncoding": "base64"},
    inspect.ByteArrayType: {"type": "string", "contentEncoding": "base64"},
    inspect.MemoryViewType: {"type": "string", "contentEncoding": "base64"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.TimeType: {"type": "string", "format": "time"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.TimeDeltaType: {"type": "string", "format": "duration"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
    inspect.DecimalType: {"type": "string", "format": "decimal"},
}
_LIMITS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "tz": "timezone",
}
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}


def schema_of(kind: type[msgspec.Struct]) -> Schema:
    """Return the schema of a class.

    Raises:
        TypeError: a field has a type that JSON does not have.
    """
    builder = _Builder()
    schema = builder.build(inspect.type_info(kind))
    return {**schema, "$defs": builder.definitions}


def hash_of(schema: Schema) -> str:
    """Return a short text that identifies a schema."""
    return blake2b(msgspec.json.encode(schema, order="deterministic"), digest_size=8).hexdigest()


@final
class _Builder:
    """Makes the schema of a type, and those of the classes in it, which are `definitions`."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[tuple[type, bool], str] = {}

    def build(self, found: inspect.Type) -> Schema:
        if isinstance(found, inspect.Metadata):
            return self.build(found.type)
        if (plain := _PLAIN.get(type(found))) is not None:
            return {**plain, **_limits(found, plain.get("type"))}
        if isinstance(found, inspect.EnumType):
            return {"enum": [member.value for member in found.cls]}
        if isinstance(found, inspect.LiteralType):
            return {"enum": list(found.values)}
        if isinstance(found, inspect.UnionType):
            tagged = [
                part for part in found.types if isinstance(part, inspect.StructType) and part.tag is not None
            ]
            # With one of them there is nothing to tell apart, and an object may lack the tag.
            needs_tag = len(tagged) > 1
            return {
                "anyOf": [
                    self._reference(part, needs_tag=True)
                    if needs_tag and part in tagged
                    else self.build(part)
                    for part in found.types
                ]
            }
        if isinstance(found, inspect.TupleType):
            return _tuple([self.build(item) for item in found.item_types], len(found.item_types))
        if isinstance(found, inspect.CollectionType):
            return {"type": "array", "items": self.build(found.item_type), **_limits(found, "array")}
        if isinstance(found, inspect.DictType):
            keys = self.build(found.key_type)
            names = {} if keys == {"type": "string"} else {"propertyNames": keys}
            values = {"additionalProperties": self.build(found.value_type)}
            return {"type": "object", **values, **names, **_limits(found, "object")}
        return self._reference(found, needs_tag=False)

    def _reference(self, found: inspect.Type, *, needs_tag: bool) -> Schema:
        if not isinstance(
            found, inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType
        ):
            raise TypeError(f"{getattr(found, 'cls', found)} has no form in JSON")
        name = self._names.get((found.cls, needs_tag))
        if name is None:
            name = found.cls.__name__
            while name in self.definitions:
                name += "_"
            self._names[found.cls, needs_tag] = name
            self._define(name, found, needs_tag=needs_tag)
        return {"$ref": f"#/$defs/{name}"}

    def _define(
        self,
        name: str,
        found: inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType,
        *,
        needs_tag: bool,
    ) -> None:
        # Entered first: the class may contain itself.
        definition = self.definitions[name] = {}
        struct = found if isinstance(found, inspect.StructType) else None
        tag = None if struct is None else struct.tag
        fields = {field.encode_name: self.build(field.type) for field in found.fields}
        required = [field.encode_name for field in found.fields if field.required]
        if isinstance(found, inspect.NamedTupleType) or (struct is not None and struct.array_like):
            tags = [] if tag is None else [{"enum": [tag]}]
            definition |= _tuple([*tags, *fields.values()], len(tags) + len(required))
            return
        if struct is not None and struct.tag_field is not None:
            fields = {struct.tag_field: {"enum": [tag]}, **fields}
            required = [struct.tag_field, *required]
            if not needs_tag:
                # It is always written, and need not be there to be read.
                definition["optionalTag"] = struct.tag_field
        definition |= {"type": "object", "properties": fields, "required": required}
        if struct is not None and struct.forbid_unknown_fields:
            definition["additionalProperties"] = False


def _tuple(items: list[Schema], least: int) -> Schema:
    return {"type": "array", "prefixItems": items, "minItems": least, "maxItems": len(items)}


def _limits(found: inspect.Type, kind: str | None) -> Schema:
    """Return the limits of a type, by their names in JSON Schema."""
    limits: Schema = {}
    for name, value in cast("Iterable[tuple[str, Any]]", msgspec.structs.asdict(found).items()):
        if value is None:
            continue
        if name in _LIMITS:
            limits[_LIMITS[name]] = value
        elif name in {"min_length", "max_length"} and kind in _LENGTHS:
            limits[name[:3] + _LENGTHS[kind]] = value
    return limits
