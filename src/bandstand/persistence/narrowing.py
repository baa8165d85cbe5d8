"""Whether a schema reads everything that an older one has written.

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

from bandstand.errors.formatting import safe_repr
from bandstand.persistence.schema import Schema

__all__ = ("narrowing",)

_ANYTHING: Final[Schema] = {}
# Limits of a value: a schema accepts less when one of the first kind is higher, and when one of the second is lower.
_MINIMA: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MAXIMA: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# Rules that cannot be compared: the new one must be the old one, or none.
_RULES: Final = ("format", "timezone", "pattern", "contentEncoding", "multipleOf", "propertyNames")


def narrowing(old: Schema, new: Schema) -> str | None:
    """Return why a value of the old schema may not fit the new one: `field 'amount' was integer, and is string`; None if all values fit."""
    return _Comparison(old.get("$defs", {}), new.get("$defs", {})).compare(old, new, "", frozenset())


@final
class _Comparison:
    """Compares two documents. A path is the name of a field, as in `lines[].amount`."""

    def __init__(self, old_definitions: Mapping[str, Schema], new_definitions: Mapping[str, Schema]) -> None:
        self._old = old_definitions
        self._new = new_definitions

    def compare(self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[int, int]]) -> str | None:
        """Return why `new` is narrower than `old`. `assumed` are the pairs on the way here, by identity: classes may contain themselves."""
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if (pair := (id(old), id(new))) in assumed:
            return None
        assumed |= {pair}
        if not new:
            return None
        if not old:
            return f"{_field(path)} allowed any value, and is {_name(new)}"
        if "anyOf" in old:
            return _first(self.compare(part, new, path, assumed) for part in old["anyOf"])
        if "anyOf" in new:
            return self._compare_with_union(old, new, path, assumed)
        if "enum" in old or "enum" in new:
            return _compare_values(old, new, path)
        if old.get("type") != new.get("type") and (old.get("type"), new.get("type")) != ("integer", "number"):
            return f"{_field(path)} was {_name(old)}, and is {_name(new)}"
        if "prefixItems" in new and not _is_tuple_for(old, new):
            return f"{_field(path)} was {_name(old)}, and is {_name(new)}"
        if (reason := _compare_limits(old, new, path)) is not None:
            return reason
        if old["type"] == "object":
            return self._compare_objects(old, new, path, assumed)
        if old["type"] == "array":
            return self._compare_arrays(old, new, path, assumed)
        return None

    def _compare_with_union(
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[int, int]]
    ) -> str | None:
        reasons: list[str] = []
        for part in new["anyOf"]:
            reason = self.compare(old, part, path, assumed)
            if reason is None:
                return None
            if _resolved(part, self._new).get("type") == old.get("type"):
                reasons.append(reason)
        # The reason that names a field inside, if only one part of the union can be meant.
        return reasons[0] if len(reasons) == 1 else f"{_field(path)} was {_name(old)}, and is {_name(new)}"

    def _compare_objects(
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[int, int]]
    ) -> str | None:
        was: Mapping[str, Schema] = old.get("properties", {})
        fields: Mapping[str, Schema] = new.get("properties", {})
        more: Schema | bool = new.get("additionalProperties", _ANYTHING)
        if "properties" not in old and "properties" in new:
            return f"{_field(path)} was a dict, and is an object with fields"
        for name, schema in was.items():
            if name in fields or isinstance(more, dict):
                allowed = fields[name] if name in fields or isinstance(more, bool) else more
                reason = self.compare(schema, allowed, _join(path, name), assumed)
                if reason is not None:
                    return reason
            else:
                return (
                    f"{_field(_join(path, name))} does not exist any more, and unknown fields are forbidden"
                )
        for name in new.get("required", ()):
            if name not in was and name != new.get("optionalTag"):
                return f"{_field(_join(path, name))} is new, and has no default"
            if name in was and name not in old.get("required", ()):
                return f"{_field(_join(path, name))} had a default, and has none"
        if "properties" not in old:
            values: Schema = old.get("additionalProperties", _ANYTHING)
            return None if isinstance(more, bool) else self.compare(values, more, _join(path, "*"), assumed)
        return None

    def _compare_arrays(
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[int, int]]
    ) -> str | None:
        was: Sequence[Schema] = old.get("prefixItems", ())
        places: Sequence[Schema] = new.get("prefixItems", ())
        items: Any = new.get("items", {})
        for number, schema in enumerate(was):
            reason = self.compare(schema, places[number] if places else items, f"{path}[{number}]", assumed)
            if reason is not None:
                return reason
        return None if was else self.compare(old.get("items", {}), items, f"{path}[]", assumed)


def _is_tuple_for(old: Schema, new: Schema) -> bool:
    """Return whether every array of the old schema has a length that the new one, a tuple, allows."""
    has_all = bool(old.get("minItems", 0) >= new["minItems"])
    return has_all and "prefixItems" in old and len(old["prefixItems"]) <= len(new["prefixItems"])


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _compare_values(old: Schema, new: Schema, path: str) -> str | None:
    if "enum" not in old:
        return f"{_field(path)} was {_name(old)}, and is {_name(new)}"
    if "enum" in new:
        missing = [value for value in old["enum"] if value not in new["enum"]]
        return f"{_field(path)} does not allow {safe_repr(missing[0])} any more" if missing else None
    kinds = {_type_of(value) for value in old["enum"]}
    allowed = {"integer", "number"} if new.get("type") == "number" else {new.get("type")}
    is_limited = any(rule in new for rule in (*_MINIMA, *_MAXIMA, *_RULES))
    return (
        None
        if kinds <= allowed and not is_limited
        else f"{_field(path)} was {_name(old)}, and is {_name(new)}"
    )


def _type_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    return "integer" if isinstance(value, int) else "string"


def _compare_limits(old: Schema, new: Schema, path: str) -> str | None:
    for rule in _MINIMA:
        if rule in new and (rule not in old or old[rule] < new[rule]):
            return f"{_field(path)} has the limit {rule} {new[rule]}"
    for rule in _MAXIMA:
        if rule in new and (rule not in old or old[rule] > new[rule]):
            return f"{_field(path)} has the limit {rule} {new[rule]}"
    for rule in _RULES:
        if rule in new and old.get(rule) != new[rule]:
            return f"{_field(path)} has the {rule} {safe_repr(new[rule])}"
    return None


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _field(path: str) -> str:
    return f"field {safe_repr(path)}" if path else "the event"


def _name(schema: Schema) -> str:
    """Return a short description of a schema for people."""
    if not schema:
        return "any value"
    if "anyOf" in schema:
        return " or ".join(_name(part) for part in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    if "prefixItems" in schema:
        return f"a tuple of {len(schema['prefixItems'])}"
    kind = str(schema.get("type"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
