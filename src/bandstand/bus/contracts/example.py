"""An example of what a JSON Schema describes: plausible where it can be, and simple where not.

It is for people and language models, who learn more from one example than from a page of rules. It need not be found: a pattern
may be too much for it. So whoever asks checks what comes out against the decoder.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any, cast

from bandstand.bus.contracts.scalars import Schema

__all__ = ("example_of",)

REFERENCE = "#/$defs/"
# How far a type that holds itself is followed.
DEEPEST = 20
# How large an example may have to be before there is none.
MOST = 100

FORMATS = {
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
WORDS = (
    *(
        "a",
        "A",
        "abc",
        "ABC",
        "Abc",
        "1",
        "12",
        "123",
        "1234",
        "a1",
        "A1",
        "ab1",
        "AB1",
        "AB-123",
        "a-b",
        "a.b",
        "a@b.c",
    ),
    *("0.5", "1.0.0", "#a0b1c2", ""),
)
MOMENTS = ("2026-01-31T12:00:00", "12:00:00")


# Any, here and below: what a schema describes is a tree of plain values.
def example_of(schema: Schema) -> Any:
    """A value that the schema describes, or something near it."""
    return _Maker(schema.get("$defs", {})).make(schema, "example", 0)


class _Maker:
    """Makes the example of one schema."""

    def __init__(self, defs: dict[str, Schema]) -> None:
        self._defs = defs
        self._open: list[str] = []
        """The definitions that are being followed, so that one that holds itself is not followed for ever."""
        self._makers: dict[str, Callable[[Schema, str, int], Any]] = {
            "object": self._object,
            "array": self._array,
            "string": lambda schema, name, _: _word(schema, name),
            "integer": lambda schema, _name, _: _number(schema, is_whole=True),
            "number": lambda schema, _name, _: _number(schema, is_whole=False),
            "boolean": lambda _schema, _name, _: True,
            "null": lambda _schema, _name, _: None,
        }

    def make(self, schema: Schema | bool, name: str, depth: int) -> Any:
        """An example of a part of it, which is called `name`."""
        # True stands for anything at all.
        if isinstance(schema, bool) or depth > DEEPEST:
            return name
        reference = str(schema.get("$ref", ""))
        if reference:
            self._open.append(reference)
            schema = self._resolved(schema)
        made = self._of(schema, name, depth + 1)
        if reference:
            self._open.pop()
        return made

    def _resolved(self, schema: Schema) -> Schema:
        return self._defs.get(str(schema.get("$ref", "")).removeprefix(REFERENCE), {}) | schema

    def _of(self, schema: Schema, name: str, depth: int) -> Any:
        for word in ("examples", "enum"):
            if schema.get(word):
                return schema[word][0]
        for word in ("const", "default"):
            if word in schema:
                return schema[word]
        for word in ("anyOf", "oneOf", "allOf"):
            if schema.get(word):
                return self._pick(schema[word], name, depth)
        # One type, or a list of them.
        kinds: Any = schema.get("type", "")
        named = [str(kinds)] if isinstance(kinds, str) else [str(each) for each in kinds if each != "null"]
        kind = named[0] if named else "null"
        maker = self._makers.get(kind)
        return name if maker is None else maker(schema, name, depth)

    def _pick(self, choices: list[Schema], name: str, depth: int) -> Any:
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
            keys = self._distinct(
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
        return self._distinct(items, name, schema, "Items", depth)

    def _distinct(self, schema: Schema | bool, name: str, holder: Schema, what: str, depth: int) -> list[Any]:
        """As many examples as there must be, but one if there may be, and no two alike if it can be helped."""
        most = int(holder.get(f"max{what}", MOST))
        wanted = min(max(int(holder.get(f"min{what}", 0)), 1), most, MOST)
        choices: list[Any] = [] if isinstance(schema, bool) else self._resolved(schema).get("enum", [])
        if len(choices) >= wanted:
            return choices[:wanted]
        made: list[Any] = []
        more = range(2, wanted + 2)
        # A word that is longer each time, and where words are no use, a number.
        for other in (name, *(f"{name}{place}" for place in more), *map(str, more)):
            if len(made) == wanted:
                break
            each = self.make(schema, other, depth)
            if isinstance(each, int) and not isinstance(each, bool):
                each += len(made)
            if each not in made or what == "Items":
                made.append(each)
        return made


def _word(schema: Schema, name: str) -> str:
    least = int(schema.get("minLength", 0))
    most = int(schema.get("maxLength", max(MOST, least)))
    pattern = str(schema.get("pattern", ""))
    sample = FORMATS.get(str(schema.get("format", "")), name)
    if least > MOST:
        return sample
    words = _encoded() if schema.get("contentEncoding") == "base64" else (sample, name, *WORDS, *MOMENTS)
    for word in words:
        # As often as it takes to be long enough.
        fitted = (word * math.ceil(least / len(word)) if word and len(word) < least else word)[:most]
        if len(fitted) >= least and _matches(pattern, fitted):
            return fitted
    return sample


def _encoded() -> Iterable[str]:
    # Three bytes look best; if it may not be so many, the fewest that are allowed.
    return (b64encode(b"a" * length).decode() for length in (3, *range(MOST)))


def _matches(pattern: str, word: str) -> bool:
    try:
        return re.search(pattern, word) is not None
    except re.error:
        # It is written for another dialect: whoever reads the example finds out whether it is right.
        return True


def _number(schema: Schema, *, is_whole: bool) -> int | float:
    step = cast("int | float | None", schema.get("multipleOf"))
    low = cast("int | float | None", schema.get("minimum", schema.get("exclusiveMinimum")))
    high = cast("int | float | None", schema.get("maximum", schema.get("exclusiveMaximum")))
    grain = step or (1 if is_whole else 0.5)
    if low is not None:
        if high is not None and not is_whole and not step:
            return (low + high) / 2
        place = math.ceil(low / grain)
        return (place + 1 if place * grain == schema.get("exclusiveMinimum") else place) * grain
    if high is not None:
        place = math.floor(high / grain)
        return (place - 1 if place * grain == schema.get("exclusiveMaximum") else place) * grain
    return step or (1 if is_whole else 1.5)
