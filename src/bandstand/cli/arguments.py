"""Converts the words of a command line to the data of a message, and back.

    key=greeting value=hello          fields; the schema says which of them are strings
    delay=5000 message.type=Tea.Brew  a dot leads to a field of a nested object
    types=Tea.* types=Memory.*        a list, one item at a time
    note:=null                        a value as JSON, regardless of the schema

A field whose schema allows only strings is taken literally; any other text is parsed as JSON, and is a string if that fails. So users
do not have to type JSON strings with quotes, and quotes for the shell around them.

The node validates the data. The exception are unknown fields, which a node ignores: they are reported here, because they are
probably misspelt.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn, cast, final

from bandstand.cli.schema_reader import LIST, NULL, STRING, Json, SchemaReader, Tree, json_kind
from bandstand.errors import InvalidArgumentError, InvalidMessageError

__all__ = ("format_data", "parse_data")

# NAME=TEXT or NAME:=JSON. A single word of any other form is the data as JSON.
_FIELD = re.compile(r"(?P<name>[^\W\d][\w-]*(?:\.[\w-]+)*)(?P<exact>:?)=(?P<text>.*)", re.DOTALL)


def parse_data(arguments: Sequence[str], schema: Tree) -> bytes:
    """Return the data that the arguments stand for, as JSON.

    Args:
        arguments: one JSON text, or any number of NAME=TEXT and NAME:=JSON; none for an empty object.
        schema: the JSON Schema of the data.

    Raises:
        InvalidArgumentError: an argument has another form, or two arguments contradict each other.
        InvalidMessageError: the schema has no such field.
    """
    pairs = [_FIELD.fullmatch(argument) for argument in arguments]
    if len(arguments) == 1 and pairs[0] is None:
        return _whole_text(arguments[0])
    builder = _ObjectBuilder(schema)
    for argument, pair in zip(arguments, pairs, strict=True):
        if pair is None:
            raise InvalidArgumentError(
                f"{argument!r} is not a field: pass NAME=TEXT or NAME:=JSON, such as key=greeting, or all of the data as JSON"
            )
        builder.put(pair["name"], pair["text"], is_exact=bool(pair["exact"]))
    return _encode(builder.data)


def format_data(data: Json, schema: Tree) -> str:
    """Return data as words for a shell, from which `parse_data` makes the same data."""
    if isinstance(data, dict):
        fields = cast("dict[str, Json]", data)
        words = [word for name, value in fields.items() for word in _format_field(name, value, schema)]
        if _stands_for(words, fields, schema):
            return shlex.join(words)
    return shlex.quote(json.dumps(data, ensure_ascii=False))


def _format_field(name: str, value: Json, schema: Tree) -> list[str]:
    """Return a field in the simplest form that stands for its value."""
    exact = f"{name}:={json.dumps(value, ensure_ascii=False)}"
    forms = [[exact.replace(":=", "=", 1)], [exact]]
    if isinstance(value, str):
        forms.insert(0, [f"{name}={value}"])
    elif isinstance(value, list):
        items = cast("list[Json]", value)
        forms.insert(0, [f"{name}={each if isinstance(each, str) else json.dumps(each)}" for each in items])
    return next((form for form in forms if _stands_for(form, {name: value}, schema)), [exact])


def _stands_for(words: Sequence[str], data: dict[str, Json], schema: Tree) -> bool:
    try:
        return bool(json.loads(parse_data(words, schema)) == data)
    except (InvalidArgumentError, ValueError):
        return False


def _whole_text(text: str) -> bytes:
    try:
        # Not parsed here: the node may accept numbers that are too large for Python's parser.
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("the data is not UTF-8") from None


@final
class _ObjectBuilder:
    """Builds an object from single fields."""

    def __init__(self, schema: Tree) -> None:
        self._reader = SchemaReader(schema)
        self.data: dict[str, Json] = {}

    def put(self, name: str, text: str, *, is_exact: bool) -> None:
        """Set a field, or append to it if it is a list."""
        holder, schema, rest = self.data, self._reader.whole, name
        while True:
            fields = self._reader.fields(schema)
            # A field name can contain a dot.
            step = rest if rest in fields else rest.partition(".")[0]
            schema = self._field_schema(schema, fields, step, name)
            rest = rest[len(step) + 1 :]
            if not rest:
                break
            inner = holder.setdefault(step, {})
            if not isinstance(inner, dict):
                raise InvalidArgumentError(
                    f"{name} is given, but a field that contains it is given too: pass one of them"
                )
            holder = cast("dict[str, Json]", inner)
        if is_exact:
            value = _parse_exact(name, text)
        elif self._reader.kinds(schema) - NULL == LIST:
            value = self._append(holder.pop(step, None), text, schema, name)
        else:
            value = self._parse(text, schema)
        if step in holder:
            _raise_duplicate(name)
        holder[step] = value

    def _field_schema(self, schema: Tree, fields: dict[str, Tree], step: str, name: str) -> Tree:
        if step in fields:
            return fields[step]
        others = self._reader.others(schema)
        if others is not None:
            return others
        near = get_close_matches(step, fields, n=2)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        else:
            hint = f"the fields are {', '.join(fields)}" if fields else "the type has no fields"
        raise InvalidMessageError.of(f"there is no field {name}; {hint}", f"$.data.{name}", None)

    def _parse(self, text: str, schema: Tree) -> Json:
        kinds = self._reader.kinds(schema)
        if kinds - NULL == STRING:
            return text
        try:
            value = _decode(text)
        except ValueError:
            return text
        # If neither fits, send the JSON value: the node reports what it expects.
        return text if json_kind(value) not in kinds and "string" in kinds else value

    def _append(self, before: Json, text: str, schema: Tree, name: str) -> list[Json]:
        if before is None:
            try:
                value = _decode(text)
            except ValueError:
                value = None
            if isinstance(value, list):
                return cast("list[Json]", value)
            before = []
        elif not isinstance(before, list):
            _raise_duplicate(name)
        items = cast("list[Json]", before)
        return [*items, self._parse(text, self._reader.item(schema, len(items)))]


def _raise_duplicate(name: str) -> NoReturn:
    raise InvalidArgumentError(f"{name} is given twice: pass it once")


def _parse_exact(name: str, text: str) -> Json:
    try:
        return _decode(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name}:={text} is not valid JSON: {error}; for a string, pass {name}={text}"
        ) from None


def _decode(text: str) -> Json:
    """Parse JSON.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        value: Json = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _parse_finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


def _encode(data: Json) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("an argument is not UTF-8") from None
