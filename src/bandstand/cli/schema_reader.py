"""Reads JSON Schemas: the fields of an object, and the values that a schema allows, in words.

It does not validate data. The node does, and a second validator could disagree with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast, final

__all__ = ("LIST", "NULL", "STRING", "Json", "SchemaReader", "Tree", "json_kind", "value_text")

# Any: a JSON Schema is a tree of plain values.
Tree: TypeAlias = Mapping[str, Any]

Json: TypeAlias = object
"""A JSON value."""

LIST: Final = frozenset({"array"})
NULL: Final = frozenset({"null"})
STRING: Final = frozenset({"string"})
# All kinds of JSON values.
_ALL_KINDS: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

_REFERENCE: Final = "#/$defs/"
# The number of references and nested alternatives to follow; schemas can refer to themselves.
_MAX_DEPTH: Final = 20

_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_kind(value: Json) -> str:
    """Return the name of the kind of a value in JSON Schema."""
    return _KINDS.get(type(value), "null")


@final
class SchemaReader:
    """Reads the schema of the data of one message.

    Args:
        whole: the schema; its `$defs` contain what it refers to.
    """

    def __init__(self, whole: Tree) -> None:
        self.whole = whole
        self._defs: Mapping[str, Tree] = whole.get("$defs", {})

    def resolved(self, schema: Tree) -> Tree:
        """Return the schema that a schema refers to, with its own keywords added."""
        for _ in range(_MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            own = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._defs.get(reference.removeprefix(_REFERENCE), {}), **own}
        return schema

    def branches(self, schema: Tree, depth: int = 0) -> Iterator[Tree]:
        """Return the alternatives of a schema; the schema itself if it has none."""
        found = self.resolved(schema)
        several: list[Tree] = found.get("anyOf") or found.get("oneOf") or []
        if not several or depth >= _MAX_DEPTH:
            yield found
        else:
            for each in several:
                yield from self.branches(each, depth + 1)

    def kinds(self, schema: Tree) -> frozenset[str]:
        """Return the kinds of values that a schema allows."""
        found: set[str] = set()
        for branch in self.branches(schema):
            if "const" in branch:
                found.add(json_kind(branch["const"]))
            elif "enum" in branch:
                found |= {json_kind(value) for value in branch["enum"]}
            elif "type" in branch:
                names = branch["type"]
                found |= {names} if isinstance(names, str) else set(names)
            else:
                found |= {"object"} if "properties" in branch else _ALL_KINDS
        if "number" in found:
            found.add("integer")
        return frozenset(found)

    def fields(self, schema: Tree) -> dict[str, Tree]:
        """Return the fields that an object can have, of all alternatives, by name."""
        found: dict[str, Tree] = {}
        for branch in self.branches(schema):
            for name, field in cast("dict[str, Tree]", branch.get("properties", {})).items():
                found.setdefault(name, field)
        return found

    def required(self, schema: Tree) -> frozenset[str]:
        """Return the fields that an object must have in every alternative."""
        several = [frozenset[str](each.get("required", ())) for each in self.branches(schema)]
        return frozenset[str].intersection(*several)

    def others(self, schema: Tree) -> Tree | None:
        """Return the schema of additional fields; None if the object has none, or the node ignores them."""
        for branch in self.branches(schema):
            rest = branch.get("additionalProperties")
            if isinstance(rest, dict):
                return cast("Tree", rest)
            if "properties" not in branch and rest is not False and "object" in self.kinds(branch):
                return {}
        return None

    def item(self, schema: Tree, index: int) -> Tree:
        """Return the schema of the item at an index of a list."""
        for branch in self.branches(schema):
            row: list[Tree] = branch.get("prefixItems", [])
            if index < len(row):
                return row[index]
            if isinstance(branch.get("items"), dict):
                return cast("Tree", branch["items"])
        return {}

    def parts(self, branch: Tree) -> list[Tree]:
        """Return the schemas of the items of a list, or of the values of an object without named fields."""
        found: list[Tree] = list(branch.get("prefixItems", ()))
        found += [
            branch[key] for key in ("items", "additionalProperties") if isinstance(branch.get(key), dict)
        ]
        return found

    def phrase(self, schema: Tree) -> str:
        """Return the values that a schema allows, in a few words."""
        words = dict.fromkeys(self._phrase(branch) for branch in self.branches(schema))
        if "number" in words:
            # A number can be an integer.
            words.pop("integer", None)
        return " or ".join(words)

    def _phrase(self, branch: Tree) -> str:
        allowed = [branch["const"]] if "const" in branch else branch.get("enum", ())
        if allowed:
            return " or ".join(map(value_text, allowed))
        match branch.get("type"):
            case "string":
                words = _string(branch)
            case "integer" | "number" as kind:
                words = f"{kind}{_bounds(branch)}"
            case "array" if "prefixItems" in branch or branch.get("maxItems") == 0:
                words = f"[{', '.join(self._row(branch))}]"
            case "array":
                words = f"list of {self._grouped(self.item(branch, 0))}{_size(branch, 'Items', 'items')}"
            case "object" if "properties" not in branch:
                words = f"object of {self._grouped(self.others(branch) or {})}"
            case str(kind):
                words = str(branch.get("title", kind))
            case _:
                words = "any JSON"
        return words

    def _grouped(self, schema: Tree) -> str:
        """Return the phrase of a schema, in brackets if it has alternatives, for use inside another phrase."""
        words = self.phrase(schema)
        return f"({words})" if len(list(self.branches(schema))) > 1 and " or " in words else words

    def _row(self, branch: Tree) -> Iterator[str]:
        """Return the phrases of the items of a tuple; those of optional items end with a question mark."""
        row: list[Tree] = branch.get("prefixItems", [])
        least: int = branch.get("minItems", 0)
        for index, each in enumerate(row):
            yield self.phrase(each) if index < least else f"{self._grouped(each)}?"
        rest: object = branch.get("items")
        if isinstance(rest, dict) and branch.get("maxItems") != len(row):
            yield f"{self._grouped(cast('Tree', rest))}…"


def value_text(value: Json) -> str:
    """Return a value as text: strings without quotes, other values as JSON."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _string(branch: Tree) -> str:
    if "format" in branch:
        return str(branch["format"])
    if "contentEncoding" in branch:
        return str(branch["contentEncoding"])
    pattern = f", matching {branch['pattern']}" if "pattern" in branch else ""
    return f"string{_size(branch, 'Length', 'characters')}{pattern}"


def _size(branch: Tree, of: str, unit: str) -> str:
    least, most = branch.get(f"min{of}", 0), branch.get(f"max{of}")
    if most is not None:
        return f", {least} to {most} {unit}" if least != most else f", {most} {unit}"
    return f", at least {least} {unit if least > 1 else unit.removesuffix('s')}" if least else ""


def _bounds(branch: Tree) -> str:
    words = {
        "minimum": "from {}",
        "exclusiveMinimum": "above {}",
        "maximum": "to {}",
        "exclusiveMaximum": "below {}",
        "multipleOf": "in steps of {}",
    }
    return "".join(f" {form.format(branch[key])}" for key, form in words.items() if key in branch)
