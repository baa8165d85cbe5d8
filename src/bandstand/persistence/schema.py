"""Schemas of events: what they are, and whether a class reads everything that an older one has written.

A schema is the JSON Schema that msgspec makes of a class, without texts and defaults. It is recorded in the journal, so it can be compared with the class of a
later program.

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast, final

import msgspec

__all__ = ("Schema", "hash_of", "narrowing", "schema_of")

Schema: TypeAlias = "dict[str, Any]"

_ANYTHING: Final[Schema] = {}
_TEXTS: Final = frozenset({"title", "description", "default", "examples", "discriminator"})
# Limits of a value: a schema accepts less when the first kind is higher, and when the second is lower.
_MINIMA: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MAXIMA: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# Rules that cannot be compared: the new one must be the old one, or none.
_RULES: Final = ("format", "pattern", "contentEncoding", "multipleOf", "propertyNames")


def schema_of(kind: type[msgspec.Struct]) -> Schema:
    """Return the schema of a class.

    Raises:
        TypeError: a field has a type that JSON does not have.
    """
    return _without_texts(msgspec.json.schema(kind))


def hash_of(schema: Schema) -> str:
    """Return a short text that identifies a schema."""
    return blake2b(msgspec.json.encode(schema, order="deterministic"), digest_size=8).hexdigest()


def narrowing(old: Schema, new: Schema) -> str | None:
    """Return why a value of the old schema may not fit the new one: `field 'amount' was integer, and is string`; None if all values fit."""
    return _Comparison(old.get("$defs", {}), new.get("$defs", {})).compare(old, new, "", frozenset())


def _without_texts(schema: Mapping[str, Any]) -> Schema:
    found: Schema = {}
    for key, value in schema.items():
        if key in _TEXTS:
            continue
        if key in {"properties", "$defs"}:
            # Here the keys are names of the user, and may be `title`.
            found[key] = {name: _without_texts(part) for name, part in value.items()}
        elif key in {"anyOf", "prefixItems"}:
            found[key] = [_without_texts(part) for part in value]
        elif key in {"items", "additionalProperties", "propertyNames"} and isinstance(value, dict):
            found[key] = _without_texts(cast("Schema", value))
        else:
            found[key] = value
    return found


@final
class _Comparison:
    """Compares two documents. A path is the name of a field, as in `lines[].amount`."""

    def __init__(self, old_definitions: Mapping[str, Schema], new_definitions: Mapping[str, Schema]) -> None:
        self._old = old_definitions
        self._new = new_definitions

    def compare(self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[str, str]]) -> str | None:
        """Return why `new` is narrower than `old`. `assumed` are the pairs of references on the way here: classes may contain themselves."""
        if "$ref" in old and "$ref" in new:
            pair = (old["$ref"], new["$ref"])
            if pair in assumed:
                return None
            assumed |= {pair}
        old, new = _resolved(old, self._old), _resolved(new, self._new)
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
        if (reason := _compare_limits(old, new, path)) is not None:
            return reason
        if old["type"] == "object":
            return self._compare_objects(old, new, path, assumed)
        if old["type"] == "array":
            return self._compare_arrays(old, new, path, assumed)
        return None

    def _compare_with_union(
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[str, str]]
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
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[str, str]]
    ) -> str | None:
        was: Mapping[str, Schema] = old.get("properties", {})
        fields: Mapping[str, Schema] = new.get("properties", {})
        more: Schema | bool = new.get("additionalProperties", _ANYTHING)
        if "properties" not in old and "properties" in new:
            return f"{_field(path)} was a dict, and is an object with fields"
        for name in new.get("required", ()):
            if name not in was:
                return f"{_field(_join(path, name))} is new, and has no default"
            if name not in old.get("required", ()):
                return f"{_field(_join(path, name))} had a default, and has none"
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
        if "properties" not in old:
            values: Schema = old.get("additionalProperties", _ANYTHING)
            return None if isinstance(more, bool) else self.compare(values, more, _join(path, "*"), assumed)
        return None

    def _compare_arrays(
        self, old: Schema, new: Schema, path: str, assumed: frozenset[tuple[str, str]]
    ) -> str | None:
        was: Sequence[Schema] = old.get("prefixItems", ())
        places: Sequence[Schema] = new.get("prefixItems", ())
        if places and len(was) != len(places):
            return f"{_field(path)} was {_name(old)}, and is a tuple of {len(places)}"
        items: Any = new.get("items", {})
        for number, schema in enumerate(was):
            reason = self.compare(schema, places[number] if places else items, f"{path}[{number}]", assumed)
            if reason is not None:
                return reason
        return None if was else self.compare(old.get("items", {}), items, f"{path}[]", assumed)


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    while "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema if "const" not in schema else {**schema, "enum": [schema["const"]]}


def _compare_values(old: Schema, new: Schema, path: str) -> str | None:
    if "enum" not in old:
        return f"{_field(path)} was {_name(old)}, and is {_name(new)}"
    if "enum" in new:
        missing = [value for value in old["enum"] if value not in new["enum"]]
        return f"{_field(path)} does not allow {missing[0]!r} any more" if missing else None
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
            return f"{_field(path)} has the {rule} {new[rule]!r}"
    return None


def _first(reasons: Iterator[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _field(path: str) -> str:
    return f"field {path!r}" if path else "the event"


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
    kind = str(schema.get("type", "an object"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
