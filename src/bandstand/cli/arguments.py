"""What is typed after a message's type, as its data: JSON, or fields one by one.

    key=greeting value=hello          the schema says which of them are strings
    delay=5000 message.type=Tea.Brew  dots lead inwards
    types=Tea.* types=Memory.*        a list, item by item
    note:=null                        exactly this JSON, whatever the schema says

Typing quotes around every string, and quotes around those for the shell, is what makes people write their own little clients. So a
field that can only be a string is taken as it stands, and anything else as JSON if it is some.

Whether the data is right is for the node to say; except for fields that nobody has asked for, which it would pass over in silence:
a misspelt one is better told.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn, cast, final

from bandstand.cli.reading import LIST, NULL, STRING, Json, SchemaReader, Tree, json_kind
from bandstand.errors import BadMessage, InvalidArgument

__all__ = ("command_words", "data_of")

# NAME=TEXT or NAME:=JSON. Whatever looks otherwise is JSON as a whole.
PAIR = re.compile(r"(?P<name>[^\W\d][\w-]*(?:\.[\w-]+)*)(?P<exact>:?)=(?P<text>.*)", re.DOTALL)


def data_of(arguments: Sequence[str], schema: Tree) -> bytes:
    """The data that arguments mean, as JSON.

    Args:
        arguments: one that is JSON, or any number of NAME=TEXT and NAME:=JSON; none for an empty object.
        schema: the JSON Schema of the data.

    Raises:
        InvalidArgument: an argument is neither, or two contradict each other.
        BadMessage: there is no such field.
    """
    pairs = [PAIR.fullmatch(argument) for argument in arguments]
    if len(arguments) == 1 and pairs[0] is None:
        return _whole(arguments[0])
    builder = _Builder(schema)
    for argument, pair in zip(arguments, pairs, strict=True):
        if pair is None:
            raise InvalidArgument(
                f"{argument!r} is no field: pass NAME=TEXT or NAME:=JSON, as key=greeting, or all of the data as one JSON"
            )
        builder.put(pair["name"], pair["text"], is_exact=bool(pair["exact"]))
    return _encoded(builder.data)


def command_words(data: Json, schema: Tree) -> str:
    """Data as somebody would type it into a shell: what `data_of` makes the same data of."""
    if isinstance(data, dict):
        fields = cast("dict[str, Json]", data)
        words = [word for name, value in fields.items() for word in _typed(name, value, schema)]
        if _means(words, fields, schema):
            return shlex.join(words)
    return shlex.quote(json.dumps(data, ensure_ascii=False))


def _typed(name: str, value: Json, schema: Tree) -> list[str]:
    """One field in the simplest form that means it."""
    exact = f"{name}:={json.dumps(value, ensure_ascii=False)}"
    forms = [[exact.replace(":=", "=", 1)], [exact]]
    if isinstance(value, str):
        forms.insert(0, [f"{name}={value}"])
    elif isinstance(value, list):
        items = cast("list[Json]", value)
        forms.insert(0, [f"{name}={each if isinstance(each, str) else json.dumps(each)}" for each in items])
    return next((form for form in forms if _means(form, {name: value}, schema)), [exact])


def _means(words: Sequence[str], data: dict[str, Json], schema: Tree) -> bool:
    try:
        return bool(json.loads(data_of(words, schema)) == data)
    except (InvalidArgument, ValueError):
        return False


def _whole(text: str) -> bytes:
    try:
        # As it stands: a number too large for us may be none too large for the node.
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the data is not UTF-8") from None


@final
class _Builder:
    """Puts fields together."""

    def __init__(self, schema: Tree) -> None:
        self._reader = SchemaReader(schema)
        self.data: dict[str, Json] = {}

    def put(self, name: str, text: str, *, is_exact: bool) -> None:
        """Set one field, or add to one that is a list."""
        holder, schema, rest = self.data, self._reader.whole, name
        while True:
            fields = self._reader.fields(schema)
            # A name that has a dot itself is meant as a whole.
            step = rest if rest in fields else rest.partition(".")[0]
            schema = self._step(schema, fields, step, name)
            rest = rest[len(step) + 1 :]
            if not rest:
                break
            inner = holder.setdefault(step, {})
            if not isinstance(inner, dict):
                raise InvalidArgument(f"{name} is given, and what it would be a part of is given as well")
            holder = cast("dict[str, Json]", inner)
        if is_exact:
            value = _exact(name, text)
        elif self._reader.kinds(schema) - NULL == LIST:
            value = self._listed(holder.pop(step, None), text, schema, name)
        else:
            value = self._read(text, schema)
        if step in holder:
            _twice(name)
        holder[step] = value

    def _step(self, schema: Tree, fields: dict[str, Tree], step: str, name: str) -> Tree:
        if step in fields:
            return fields[step]
        others = self._reader.others(schema)
        if others is not None:
            return others
        known = ", ".join(fields) or "none at all"
        near = get_close_matches(step, fields, n=2)
        hint = f": did you mean {' or '.join(near)}?" if near else f"; the fields there are {known}"
        raise BadMessage.of(f"there is no field {name}{hint}", f"$.data.{name}", None)

    def _read(self, text: str, schema: Tree) -> Json:
        kinds = self._reader.kinds(schema)
        if kinds - NULL == STRING:
            return text
        try:
            value = _decoded(text)
        except ValueError:
            return text
        # What fits neither way goes as JSON: the node will say what it expects.
        return text if json_kind(value) not in kinds and "string" in kinds else value

    def _listed(self, before: Json, text: str, schema: Tree, name: str) -> list[Json]:
        if before is None:
            try:
                value = _decoded(text)
            except ValueError:
                value = None
            if isinstance(value, list):
                return cast("list[Json]", value)
            before = []
        elif not isinstance(before, list):
            _twice(name)
        items = cast("list[Json]", before)
        return [*items, self._read(text, self._reader.item(schema, len(items)))]


def _twice(name: str) -> NoReturn:
    raise InvalidArgument(f"{name} is given twice: pass it once")


def _exact(name: str, text: str) -> Json:
    try:
        return _decoded(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name}:={text} is no JSON: {error}; for a string, pass {name}={text}"
        ) from None


def _decoded(text: str) -> Json:
    """A value of JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        value: Json = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value


def _encoded(data: Json) -> bytes:
    try:
        return json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgument("an argument is not UTF-8") from None
