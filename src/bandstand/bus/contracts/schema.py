"""JSON Schemas that say all that a decoder asks for.

msgspec makes schemas too, but looser ones than its decoder is: a date is a string with a `format`, which a reader may ignore, and
the keys of a dictionary may be anything. Whoever made a payload from such a schema could be refused. Here every rule is written
down, as a pattern where there is no other word for it, and what cannot be written down is refused when the contract is read.

A class's own checks, a `__post_init__` or a validator, are its own affair: no schema can tell them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import inspect as shapes

from bandstand.bus.contracts import patterns
from bandstand.bus.contracts.annotations import description_of
from bandstand.bus.contracts.foreign import Model, is_model, schema_of_model, write_model
from bandstand.bus.contracts.hashing import is_canonical, is_hashable
from bandstand.bus.contracts.scalars import Schema, key_schema, said, scalar_schema
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("schema_of",)

REFERENCE = "#/$defs/"
# The finest step of a float whose multiples can be reckoned without an error: tenths are not among them.
FINEST_STEP = 2**20

Many: TypeAlias = shapes.ListType | shapes.VarTupleType | shapes.SetType | shapes.FrozenSetType
Record: TypeAlias = shapes.StructType | shapes.DataclassType | shapes.TypedDictType | shapes.NamedTupleType


# Any: a type, a union or an annotated type; Python has no type for those.
def schema_of(kind: Any, where: str) -> Schema:
    """The JSON Schema (2020-12) of a type, with all that it refers to in its `$defs`.

    Args:
        kind: the type.
        where: what it is the type of, for the sentences of errors.

    Raises:
        BadContract: the type cannot be served; names `where` and the field.
    """
    try:
        shape = shapes.type_info(kind)
    except Exception as error:
        # Over an annotation msgspec raises what it comes upon: a TypeError, a NameError, an error of somebody's descriptor.
        raise BadContract(
            f"{where}: the type {safe_repr(kind)} cannot be read from JSON: {safe_str(error)}"
        ) from error
    return _Writer(where).write_whole(shape)


class _Writer:
    """Writes the schema of one payload. Every type with a name is written once, under `$defs`."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._defs: dict[str, Schema] = {}
        self._names: dict[object, str] = {}

    def write_whole(self, shape: shapes.Type) -> Schema:
        """The schema of the payload itself."""
        schema = self.write(shape, "$.data")
        name = str(schema.get("$ref", "")).removeprefix(REFERENCE)
        if len(schema) == 1 and name in self._defs and REFERENCE + name not in set(_references(self._defs)):
            # What nothing else refers to is easier to read in its place.
            schema = self._defs.pop(name)
        return schema | {"$defs": self._defs} if self._defs else schema

    def write(self, shape: shapes.Type, path: str) -> Schema:
        """The schema of one type, which stands at `path`."""
        schema = scalar_schema(shape)
        if schema is not None:
            if isinstance(shape, shapes.FloatType):
                self._check_step(shape, path)
            return schema
        match shape:
            case shapes.Metadata():
                # Any: what somebody has added to the schema by hand.
                extra = cast("Schema | None", getattr(shape, "extra_json_schema", None))
                return self.write(shape.type, path) | (extra or {})
            case shapes.EnumType():
                kind = shape.cls
                members = [each.value for each in kind]
                return self._named(kind, kind, lambda _: _described(kind) | {"enum": members})
            case (
                shapes.StructType()
                | shapes.DataclassType()
                | shapes.TypedDictType()
                | shapes.NamedTupleType()
            ):
                # By identity: a generic class has a shape for each of its arguments.
                return self._named(shape.cls, id(shape), lambda _: self._write_record(shape, path))
            case shapes.CustomType():
                return self._write_custom(shape.cls, path)
            case _:
                return self._write_holder(shape, path)

    def _write_holder(self, shape: shapes.Type, path: str) -> Schema:
        match shape:
            case shapes.UnionType():
                return {"anyOf": [self.write(each, path) for each in shape.types]}
            case shapes.ListType() | shapes.VarTupleType() | shapes.SetType() | shapes.FrozenSetType():
                return self._write_many(shape, path)
            case shapes.TupleType():
                items = [self.write(each, f"{path}[{place}]") for place, each in enumerate(shape.item_types)]
                return _row(items, len(items))
            case shapes.DictType():
                return self._write_dict(shape, path)
            case _:
                raise self._refused(path, f"{type(shape).__name__.removesuffix('Type')} has no form in JSON")

    def _refused(self, path: str, problem: str) -> BadContract:
        return BadContract(f"{self._where}: {path}: {problem}")

    def _named(self, kind: type, key: object, write: Callable[[str], Schema]) -> Schema:
        name = self._names.get(key)
        if name is None:
            name = kind.__name__
            if name in self._defs:
                name = f"{kind.__module__}.{kind.__qualname__}"
            while name in self._defs:
                name += "_"
            self._names[key] = name
            # Its place is taken before it is written, in case that it refers to itself.
            self._defs[name] = {}
            self._defs[name] = write(name)
        return {"$ref": REFERENCE + name}

    # --- what holds others --------------------------------------------------------------------------------------------

    def _write_many(self, shape: Many, path: str) -> Schema:
        schema: Schema = {"type": "array", "items": self.write(shape.item_type, f"{path}[...]")}
        schema |= said({"minItems": shape.min_length, "maxItems": shape.max_length})
        if isinstance(shape, (shapes.SetType, shapes.FrozenSetType)):
            if not is_hashable(shape.item_type):
                raise self._refused(f"{path}[...]", "a set cannot hold this, which has no hash: use a list")
            self._check_least(shape.min_length, shape.item_type, path)
            schema["uniqueItems"] = True
        return schema

    def _write_dict(self, shape: shapes.DictType, path: str) -> Schema:
        names = key_schema(shape.key_type)
        if names is None:
            raise self._refused(
                path, "the keys of an object are strings in JSON, and these cannot be: use dict[str, ...]"
            )
        self._check_least(shape.min_length, shape.key_type, path)
        schema: Schema = {"type": "object"} | ({"propertyNames": names} if names else {})
        schema["additionalProperties"] = self.write(shape.value_type, f"{path}[...]")
        return schema | said({"minProperties": shape.min_length, "maxProperties": shape.max_length})

    def _write_record(self, shape: Record, path: str) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        is_row, is_closed = isinstance(shape, shapes.NamedTupleType), False
        if isinstance(shape, shapes.StructType):
            is_row, is_closed = shape.array_like, shape.forbid_unknown_fields
            if shape.tag_field is not None:
                properties[shape.tag_field] = {"const": shape.tag}
                required.append(shape.tag_field)
        for field in shape.fields:
            name = field.encode_name
            properties[name] = self.write(field.type, f"{path}.{name}") | _default(field)
            if field.required:
                required.append(name)
        schema = _described(shape.cls)
        if is_row:
            least = max((place for place, name in enumerate(properties, 1) if name in required), default=0)
            return schema | _row(list(properties.values()), least)
        schema |= {"type": "object", "properties": properties, "required": required}
        return schema | {"additionalProperties": False} if is_closed else schema

    def _write_custom(self, kind: type, path: str) -> Schema:
        if kind is object:
            return {}
        if not is_model(kind):
            raise self._refused(
                path,
                f"{kind.__name__} cannot be read from JSON: make it a Struct, a dataclass or a pydantic model",
            )
        return self._named(kind, kind, lambda name: self._write_model(kind, name))

    def _write_model(self, kind: type[Model], name: str) -> Schema:
        schema, defs = schema_of_model(kind, f"{REFERENCE}{name}.")
        self._defs |= {f"{name}.{inner}": patterns.tightened(found) for inner, found in defs.items()}
        tightened: Schema = patterns.tightened(schema)
        return tightened

    # --- what no schema could promise ---------------------------------------------------------------------------------

    def _check_step(self, shape: shapes.FloatType, path: str) -> None:
        step = shape.multiple_of
        if step is not None and float(step).as_integer_ratio()[1] > FINEST_STEP:
            raise self._refused(
                path, f"multiples of {step} are not exact as floats: count in whole steps, as int"
            )

    def _check_least(self, least: int | None, held: shapes.Type, path: str) -> None:
        # Two spellings of one value count once here, and twice for whoever reads the schema.
        if (least or 0) > 1 and not is_canonical(held):
            raise self._refused(
                path, f"min_length={least} cannot be promised of values with several spellings"
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


def _row(items: list[Schema], least: int) -> Schema:
    # By the rules of JSON Schema a row that is given must have something in it.
    given = {"prefixItems": items} if items else {}
    return {"type": "array", **given, "minItems": least, "maxItems": len(items)}


def _described(kind: type) -> Schema:
    text = description_of(kind)
    return {"title": kind.__name__} | ({"description": text} if text else {})


def _default(field: shapes.Field) -> Schema:
    if field.required or field.default is msgspec.NODEFAULT or field.default is msgspec.UNSET:
        return {}
    return {"default": msgspec.json.decode(msgspec.json.encode(field.default, enc_hook=write_model))}
