"""Making payloads from nothing but a JSON Schema, as a stranger would who has read `Syscall.Describe`.

It takes every liberty that the schema leaves: unknown fields where they are not forbidden, fields left out that may be, whole
numbers written with a fraction of zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from bandstand.bus.contracts.codec import PayloadCodec

# Any, here and below: a JSON Schema, and what it describes, are trees of plain values.
Made = st.SearchStrategy[Any]

VALIDATOR: Any = Draft202012Validator
DEEPEST = 3
LETTERS = st.characters(codec="utf-8")
ANYTHING: Made = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(LETTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(LETTERS), inner, max_size=3),
    max_leaves=5,
)


def payloads_of(payload: PayloadCodec) -> Made:
    """Whatever the schema of a payload allows."""
    return from_schema(payload.schema)


def from_schema(schema: dict[str, Any]) -> Made:
    """Whatever a schema allows."""
    is_valid: Callable[[Any], bool] = VALIDATOR(schema).is_valid
    return Generator(schema.get("$defs", {})).make(schema, 0).filter(is_valid)


def check_schema(schema: dict[str, Any]) -> None:
    """Fail if it is no schema."""
    VALIDATOR.check_schema(schema)


def check(schema: dict[str, Any], value: Any) -> None:
    """Fail if the schema does not allow the value."""
    VALIDATOR(schema).validate(value)


class Generator:
    def __init__(self, defs: dict[str, Any]) -> None:
        self.defs = defs

    def make(self, schema: Any, depth: int) -> Made:  # one for each word of the language
        if schema is True or schema == {}:
            return ANYTHING
        if "$ref" in schema:
            target = self.defs[schema["$ref"].removeprefix("#/$defs/")]
            return st.deferred(lambda: self.make(target, depth + 1))
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema:
                choices = schema[word]
                if depth > DEEPEST and {"type": "null"} in choices:
                    return st.none()
                return st.one_of([self.make(each, depth) for each in choices])
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return st.one_of([self.make(schema | {"type": each}, depth) for each in cast("list[str]", kinds)])
        return self.typed(kinds, schema, depth)

    def typed(self, kind: str | None, schema: Any, depth: int) -> Made:  # one for each type
        match kind:
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                whole = integers(schema)
                return whole | whole.filter(lambda number: abs(number) < 2**53).map(float)
            case "number":
                return numbers(schema)
            case "string":
                return words(schema)
            case "array":
                return self.arrays(schema, depth)
            case "object":
                return self.objects(schema, depth)
            case _:
                return ANYTHING

    def arrays(self, schema: Any, depth: int) -> Made:
        least = schema.get("minItems", 0)
        if "prefixItems" in schema:
            row = [self.make(each, depth) for each in schema["prefixItems"]]
            return st.integers(least, len(row)).flatmap(lambda size: st.tuples(*row[:size]).map(list))
        most = schema.get("maxItems", least if depth > DEEPEST else least + 4)
        if most == 0:
            return st.just([])
        inner = self.make(schema.get("items", True), depth)
        if schema.get("uniqueItems"):
            return st.lists(inner, min_size=least, max_size=most, unique_by=json.dumps)
        return st.lists(inner, min_size=least, max_size=most)

    def objects(self, schema: Any, depth: int) -> Made:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        known = {name: self.make(inner, depth) for name, inner in properties.items() if name in required}
        optional = {name: inner for name, inner in properties.items() if name not in required}
        if depth > DEEPEST:
            optional = {}
        made = st.fixed_dictionaries(
            known, optional={name: self.make(inner, depth) for name, inner in optional.items()}
        )
        rest = schema.get("additionalProperties", True)
        if rest is False:
            return made
        least = max(schema.get("minProperties", 0) - len(required), 0)
        most = least if depth > DEEPEST else max(schema.get("maxProperties", least + 2) - len(properties), 0)
        keys = words({"type": "string"} | schema.get("propertyNames", {})).filter(
            lambda key: key not in properties
        )
        more = st.dictionaries(keys, self.make(rest, depth), min_size=least, max_size=most)
        return st.tuples(more, made).map(lambda both: both[0] | both[1])


def integers(schema: Any) -> Made:
    step = schema.get("multipleOf", 1)
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = math.floor(schema["exclusiveMinimum"]) + 1
    if "exclusiveMaximum" in schema:
        high = math.ceil(schema["exclusiveMaximum"]) - 1
    least = None if low is None else math.ceil(low / step)
    most = None if high is None else math.floor(high / step)
    return st.integers(least, most).map(lambda number: number * step)


def numbers(schema: Any) -> Made:
    if "multipleOf" in schema:
        return st.integers(-(10**6), 10**6).map(lambda number: number * schema["multipleOf"])
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    floats = st.floats(
        low,
        high,
        allow_nan=False,
        allow_infinity=False,
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
    )
    return floats if low is not None or high is not None else floats | st.integers()


def words(schema: Any) -> Made:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" not in schema:
        return st.text(LETTERS, min_size=least, max_size=most)
    found = st.from_regex(schema["pattern"], alphabet=LETTERS)
    return found.filter(lambda word: least <= len(word) and (most is None or len(word) <= most))
