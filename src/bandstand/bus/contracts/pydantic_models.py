"""Support for pydantic models, without importing pydantic.

A model reads itself from JSON, writes itself as JSON and knows its JSON Schema. Any class with these three methods is supported, so pydantic
costs nothing where it is not used.

pydantic writes schemas that allow more than its models accept. Its schema generator can be replaced: `strict_generator` derives
from the generator it is given, and adds constraints for dates, decimals and keys.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any, Protocol, TypeGuard, cast

import msgspec

from bandstand.bus.contracts import patterns
from bandstand.bus.contracts.patterns import Schema, datetime_schema
from bandstand.bus.wire import with_whole_numbers
from bandstand.errors.formatting import safe_str

__all__ = ("ModelClass", "ModelError", "is_model", "model_error", "model_schema", "read_model", "write_model")


class ModelClass(Protocol):
    """The part of `pydantic.BaseModel` that is needed here."""

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> object:
        """Read an instance."""
        ...

    def model_dump_json(self, *, by_alias: bool) -> str:
        """Write an instance."""
        ...

    @classmethod
    # Any: the options of pydantic.
    def model_json_schema(cls, **options: Any) -> Schema:
        """Return the JSON Schema of the model."""
        ...


class ModelError(ValueError):
    """A validation error of a model, with the path inside the model."""

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(problem)
        self.path = path


def is_model(kind: object) -> TypeGuard[type[ModelClass]]:
    """Return whether a class validates itself as a pydantic model does."""
    return isinstance(kind, type) and all(
        callable(getattr(kind, name, None))
        for name in ("model_validate_json", "model_dump_json", "model_json_schema")
    )


def read_model(kind: type, value: object) -> object:
    """Build a model from plain values: a `dec_hook` for msgspec.

    Raises:
        ModelError: the model rejects the values.
        NotImplementedError: `kind` is not a model.
    """
    if kind is object:
        return value
    if not is_model(kind):
        # msgspec expects this exception from a hook that does not know a class.
        raise NotImplementedError(f"neither msgspec nor pydantic can read {kind.__name__}")
    line = msgspec.json.encode(value)
    try:
        # Via JSON: a model in strict mode accepts a date or a tuple from JSON, but not from Python.
        return kind.model_validate_json(line)
    except ValueError as error:
        try:
            # In strict mode a model does not accept 1.0 as an integer.
            return kind.model_validate_json(with_whole_numbers(line))
        except ValueError:
            raise model_error(error) from error


def write_model(value: object) -> object:
    """Convert a model to plain values: an `enc_hook` for msgspec.

    Raises:
        NotImplementedError: the value is not a model.
    """
    if not is_model(type(value)):
        raise NotImplementedError(f"neither msgspec nor pydantic can write {type(value).__name__}")
    return msgspec.Raw(cast("ModelClass", value).model_dump_json(by_alias=True).encode())


def model_error(error: Exception) -> ModelError:
    """Summarize a validation error in one line: the first problem, and the number of others."""
    details = getattr(error, "errors", None)
    # Any: pydantic describes an error as a dictionary of plain values.
    found = cast("list[dict[str, Any]]", details() if callable(details) else [])
    if not found:
        return ModelError(safe_str(error), "")
    first = found[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.get("loc", ()))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return ModelError(f"{first.get('msg', error)}{more}", path)


# -- schemas -----------------------------------------------------------------------------------------------------------


def model_schema(kind: type[ModelClass], prefix: str) -> tuple[Schema, dict[str, Schema]]:
    """Return the JSON Schema of a model, and the definitions that it refers to.

    Args:
        kind: the model.
        prefix: the prefix of its references, to keep them apart from those of other models.
    """
    options: dict[str, Any] = {"by_alias": True, "ref_template": f"{prefix}{{model}}"}
    offered = signature(kind.model_json_schema).parameters.get("schema_generator")
    if offered is not None:
        options["schema_generator"] = strict_generator(offered.default)
    schema = kind.model_json_schema(**options)
    defs = cast("dict[str, Schema]", schema.pop("$defs", {}))
    with_patterns = patterns.add_patterns
    return with_patterns(schema), {name: with_patterns(each) for name, each in defs.items()}


_HAS_ZONE = {"aware": True, "naive": False}
_BOUNDS = ("ge", "gt", "le", "lt", "multiple_of")


# Any, here and below: pydantic is not imported, so its classes and schemas have no types here.
@cache
def strict_generator(base: Any) -> Any:
    """Return a schema generator that derives from pydantic's."""

    def decimal_schema(self: Any, schema: Any) -> Any:
        found: Schema = base.decimal_schema(self, schema)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if any(schema.get(each) is not None for each in _BOUNDS):
            # A pattern cannot express numeric bounds of a string, so only numbers are allowed.
            number: Schema = found["anyOf"][0]
            return number
        if digits is None and places is None:
            return {"anyOf": [{"type": "number"}, {"type": "string", "pattern": patterns.DECIMAL}]}
        return {"type": "string", "pattern": patterns.decimal_pattern(digits, places)}

    def datetime_schema_(self: Any, schema: Any) -> Any:
        found: Any = base.datetime_schema(self, schema)
        return datetime_schema("date-time", _has_zone(schema)) if found.get("type") == "string" else found

    def time_schema(self: Any, schema: Any) -> Any:
        found: Any = base.time_schema(self, schema)
        return datetime_schema("time", _has_zone(schema)) if found.get("type") == "string" else found

    def dict_schema(self: Any, schema: Any) -> Any:
        found: Schema = base.dict_schema(self, schema)
        keys = schema.get("keys_schema", {})
        match keys.get("type"):
            case "int":
                found["propertyNames"] = {"pattern": patterns.INTEGER_KEY}
            case "float":
                found["propertyNames"] = {"pattern": patterns.NUMBER_KEY}
            case None | "any":
                pass
            case _:
                found.setdefault("propertyNames", self.generate_inner(keys))
        return found

    return type(
        "StrictSchema",
        (base,),
        {
            "decimal_schema": decimal_schema,
            "datetime_schema": datetime_schema_,
            "time_schema": time_schema,
            "dict_schema": dict_schema,
        },
    )


def _has_zone(schema: Any) -> bool | None:
    return _HAS_ZONE.get(schema.get("tz_constraint"))
