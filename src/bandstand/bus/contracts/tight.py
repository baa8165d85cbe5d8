"""pydantic's schemas, made as tight as its models are.

pydantic too writes schemas that are looser than what it validates. It lets its generator be replaced: this one derives from
pydantic's own, which it is given and does not import, and says more about dates, decimals and keys.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from bandstand.bus.contracts import patterns
from bandstand.bus.contracts.scalars import moment_schema

__all__ = ("tight_generator",)

ZONES = {"aware": True, "naive": False}
BOUNDS = ("ge", "gt", "le", "lt", "multiple_of")


# Any, throughout: the generator is of a class that we do not import, and a schema is a tree of plain values.
@cache
def tight_generator(loose: Any) -> Any:
    """A generator of schemas that derives from pydantic's."""

    def decimal_schema(self: Any, schema: Any) -> Any:
        found: dict[str, Any] = loose.decimal_schema(self, schema)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if any(schema.get(each) is not None for each in BOUNDS):
            # What bounds a number says, no pattern can say of a string.
            number: dict[str, Any] = found["anyOf"][0]
            return number
        if digits is None and places is None:
            return {"anyOf": [{"type": "number"}, {"type": "string", "pattern": patterns.DECIMAL}]}
        return {"type": "string", "pattern": patterns.decimal_pattern(digits, places)}

    def datetime_schema(self: Any, schema: Any) -> Any:
        found: Any = loose.datetime_schema(self, schema)
        return moment_schema("date-time", _zone(schema)) if found.get("type") == "string" else found

    def time_schema(self: Any, schema: Any) -> Any:
        found: Any = loose.time_schema(self, schema)
        return moment_schema("time", _zone(schema)) if found.get("type") == "string" else found

    def dict_schema(self: Any, schema: Any) -> Any:
        found: dict[str, Any] = loose.dict_schema(self, schema)
        keys = schema.get("keys_schema", {})
        match keys.get("type"):
            case "int":
                found["propertyNames"] = {"pattern": patterns.WHOLE}
            case "float":
                found["propertyNames"] = {"pattern": patterns.NUMBER}
            case None | "any":
                pass
            case _:
                found.setdefault("propertyNames", self.generate_inner(keys))
        return found

    methods = (decimal_schema, datetime_schema, time_schema, dict_schema)
    return type("TightSchema", (loose,), {each.__name__: each for each in methods})


def _zone(schema: Any) -> bool | None:
    return ZONES.get(schema.get("tz_constraint"))
