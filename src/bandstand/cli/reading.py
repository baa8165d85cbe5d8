"""JSON Schemas, as far as somebody at a terminal needs them: which fields there are, and what each of them may be.

Nothing is checked here. A node does that, and says what is wrong; two who check would disagree some day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast, final

__all__ = ("ANYTHING", "LIST", "NULL", "STRING", "Json", "SchemaReader", "Tree", "json_kind", "written")

# Any: a JSON Schema is a tree of plain values.
Tree: TypeAlias = Mapping[str, Any]

Json: TypeAlias = object
"""A value, as JSON has them."""

LIST: Final = frozenset({"array"})
NULL: Final = frozenset({"null"})
STRING: Final = frozenset({"string"})
ANYTHING: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
"""Every kind of value that JSON has."""

REFERENCE = "#/$defs/"
# How far references are followed that lead to nothing but references.
DEEPEST = 20

KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_kind(value: Json) -> str:
    """What a value is called in JSON."""
    return KINDS.get(type(value), "null")


@final
class SchemaReader:
    """Reads the schema of one payload.

    Args:
        whole: the schema, with what it refers to in its `$defs`.
    """

    def __init__(self, whole: Tree) -> None:
        self.whole = whole
        self._defs: Mapping[str, Tree] = whole.get("$defs", {})

    def resolved(self, schema: Tree) -> Tree:
        """What a schema refers to, with what it says itself besides."""
        for _ in range(DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                break
            besides = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**self._defs.get(reference.removeprefix(REFERENCE), {}), **besides}
        return schema

    def branches(self, schema: Tree, depth: int = 0) -> Iterator[Tree]:
        """The alternatives that a schema allows; itself, if it allows one."""
        found = self.resolved(schema)
        several: list[Tree] = found.get("anyOf") or found.get("oneOf") or []
        if not several or depth >= DEEPEST:
            yield found
        else:
            for each in several:
                yield from self.branches(each, depth + 1)

    def kinds(self, schema: Tree) -> frozenset[str]:
        """Which kinds of values it allows."""
        found: set[str] = set()
        for branch in self.branches(schema):
            if "const" in branch:
                found.add(json_kind(branch["const"]))
            elif "enum" in branch:
                found |= {json_kind(value) for value in branch["enum"]}
            elif "type" in branch:
                said = branch["type"]
                found |= {said} if isinstance(said, str) else set(said)
            else:
                found |= {"object"} if "properties" in branch else ANYTHING
        if "number" in found:
            found.add("integer")
        return frozenset(found)

    def fields(self, schema: Tree) -> dict[str, Tree]:
        """The fields that an object may have by name, of all alternatives."""
        found: dict[str, Tree] = {}
        for branch in self.branches(schema):
            for name, field in cast("dict[str, Tree]", branch.get("properties", {})).items():
                found.setdefault(name, field)
        return found

    def required(self, schema: Tree) -> frozenset[str]:
        """The fields that an object must have, whichever alternative it is."""
        several = [frozenset[str](each.get("required", ())) for each in self.branches(schema)]
        return frozenset[str].intersection(*several)

    def others(self, schema: Tree) -> Tree | None:
        """The schema of fields that are not named; None if there are none, or they would be passed over."""
        for branch in self.branches(schema):
            rest = branch.get("additionalProperties")
            if isinstance(rest, dict):
                return cast("Tree", rest)
            if "properties" not in branch and rest is not False and "object" in self.kinds(branch):
                return {}
        return None

    def item(self, schema: Tree, place: int) -> Tree:
        """The schema of what stands at a place of a list."""
        for branch in self.branches(schema):
            row: list[Tree] = branch.get("prefixItems", [])
            if place < len(row):
                return row[place]
            if isinstance(branch.get("items"), dict):
                return cast("Tree", branch["items"])
        return {}

    def parts(self, branch: Tree) -> list[Tree]:
        """The schemas of what a list or an object without named fields holds."""
        found: list[Tree] = list(branch.get("prefixItems", ()))
        found += [
            branch[key] for key in ("items", "additionalProperties") if isinstance(branch.get(key), dict)
        ]
        return found

    # --- in words -----------------------------------------------------------------------------------------------------

    def phrase(self, schema: Tree) -> str:
        """What it may be, in a few words."""
        words = dict.fromkeys(self._phrase(branch) for branch in self.branches(schema))
        if "number" in words:
            # Which includes it.
            words.pop("integer", None)
        return " or ".join(words)

    def _phrase(self, branch: Tree) -> str:
        allowed = [branch["const"]] if "const" in branch else branch.get("enum", ())
        if allowed:
            return " or ".join(map(written, allowed))
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
        """The same where more words follow or precede: alternatives in brackets."""
        words = self.phrase(schema)
        return f"({words})" if len(list(self.branches(schema))) > 1 and " or " in words else words

    def _row(self, branch: Tree) -> Iterator[str]:
        """What stands at each place of a list whose places differ; those that may be missing have a question mark."""
        row: list[Tree] = branch.get("prefixItems", [])
        least: int = branch.get("minItems", 0)
        for place, each in enumerate(row):
            yield self.phrase(each) if place < least else f"{self._grouped(each)}?"
        rest: object = branch.get("items")
        if isinstance(rest, dict) and branch.get("maxItems") != len(row):
            yield f"{self._grouped(cast('Tree', rest))}…"


def written(value: Json) -> str:
    """A value as people write it: words without quotes, the rest as JSON."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _string(branch: Tree) -> str:
    if "format" in branch:
        return str(branch["format"])
    if "contentEncoding" in branch:
        return str(branch["contentEncoding"])
    pattern = f", as {branch['pattern']}" if "pattern" in branch else ""
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
