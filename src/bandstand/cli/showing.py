"""What a node says about itself, for people: a table of everything, or a page about one thing.

The page ends with a line to try. Nobody reads a grammar who can change an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from bandstand.bus.contracts.describe import (
    CapabilityDescription,
    Description,
    MessageDescription,
    SaidDescription,
)
from bandstand.cli.arguments import command_words
from bandstand.cli.reading import NULL, Json, SchemaReader, Tree, written

__all__ = ("show_all", "show_types")

# What fits beside the name of a field and what it may be; a longer description gets a line of its own.
WIDTH: Final = 110
# How deep lists of lists are looked into for objects.
DEEPEST: Final = 5


def show_all(described: Description) -> str:
    """Every capability with what it handles and says, a line each."""
    rows = [row for capability in described.capabilities for row in _rows(capability)]
    width = max((len(name) for _, name, _ in rows), default=0)
    blocks: list[str] = []
    for capability in described.capabilities:
        lines = [f"{capability.id}: {_first_line(capability.description)}"]
        lines += [f"  {kind:<8} {name:<{width}}  {text}".rstrip() for kind, name, text in _rows(capability)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def show_types(described: Description, name: str, command: str) -> str:
    """All that has to do with one type.

    Args:
        described: the answer about it.
        name: the type.
        command: what a call begins with, as `bandstand call`.
    """
    blocks = [
        block
        for capability in described.capabilities
        for block in (
            *(_page(capability, each, command) for each in capability.handles if each.type == name),
            *(_notice(capability.id, "says", each) for each in capability.emits if each.type == name),
        )
    ]
    if not blocks:
        # Somebody listens to it whom nobody here tells.
        blocks = [
            _notice(capability.id, "hears", each)
            for capability in described.capabilities
            for each in capability.subscribes
            if each.type == name
        ]
    heard = [each.id for each in described.capabilities if name in {said.type for said in each.subscribes}]
    if heard:
        blocks.append(f"heard by {', '.join(heard)}")
    return "\n\n".join(blocks)


def _rows(capability: CapabilityDescription) -> Iterator[tuple[str, str, str]]:
    several: Iterable[MessageDescription | SaidDescription] = (*capability.handles, *capability.emits)
    for each in several:
        yield each.kind, each.type, _first_line(each.description)
    for each in capability.subscribes:
        yield "hears", each.type, ""


def _page(capability: CapabilityDescription, message: MessageDescription, command: str) -> str:
    parts = [f"{message.kind} {message.type}, handled by {capability.id}\n{message.description}".rstrip()]
    parts += [
        _section("data", message.schema, "none"),
        _section("reply", message.reply, "nothing but that it is done"),
    ]
    if message.retry is not None:
        retry = message.retry
        parts.append(
            f"tried again\n  up to {retry.attempts} times in all, after {' or '.join(retry.on)}, {retry.initial_ms:g} ms later at first"
        )
    if capability.refuses:
        parts.append(f"refused\n  with Sys.Refused, after {' or '.join(capability.refuses)}")
    if message.example is not None:
        data = message.example.data
        words = "" if data == {} else command_words(data, message.schema)
        parts.append(f"try\n  {command} {message.type} {words}".rstrip())
    return "\n\n".join(parts)


def _notice(capability: str, verb: str, said: SaidDescription) -> str:
    title = f"{said.kind} {said.type}, which {capability} {verb}\n{said.description}".rstrip()
    return f"{title}\n\n{_section('data', said.schema, 'none')}"


def _section(title: str, schema: Tree, nothing: str) -> str:
    reader = SchemaReader(schema)
    lines: Sequence[str]
    held = _held(reader, schema)
    if held:
        lines = _held_lines(reader, held, [])
        if len(held) > 1 or held[0] != reader.resolved(schema):
            lines = [reader.phrase(schema), *(f"  {line}" for line in lines)]
    else:
        is_empty = "properties" in reader.resolved(schema) or reader.kinds(schema) == NULL
        lines = [nothing if is_empty else reader.phrase(schema)]
    return "\n".join((title, *(f"  {line}" for line in lines)))


def _field_lines(reader: SchemaReader, schema: Tree, around: list[Tree]) -> list[str]:
    """The fields of an object, and of what they hold; `around` are those that hold it."""
    fields = reader.fields(schema)
    around = [*around, fields]
    required = reader.required(schema)
    phrases = {
        name: reader.phrase(field) if name in required else _optional(reader, field)
        for name, field in fields.items()
    }
    names = max(map(len, fields))
    middle = max((len(each) for each in phrases.values() if len(each) <= WIDTH // 2), default=0)
    lines: list[str] = []
    for name, field in fields.items():
        text = _first_line(_about(reader, field))
        line = f"{name:<{names}}  {phrases[name]:<{middle}}"
        if len(line) + len(text) + 2 * len(around) + 2 <= WIDTH:
            lines.append(f"{line}  {text}".rstrip())
        else:
            lines += [line.rstrip(), f"{'':<{names}}  {text}"]
        # What holds itself was shown already.
        held = [each for each in _held(reader, field) if reader.fields(each) not in around]
        lines += [f"  {line}" for line in _held_lines(reader, held, around)]
    return lines


def _held_lines(reader: SchemaReader, held: Sequence[Tree], around: list[Tree]) -> list[str]:
    """The fields of each of several objects: under its name, if there are several."""
    if len(held) == 1:
        return _field_lines(reader, held[0], around)
    lines: list[str] = []
    for each in held:
        lines.append(f"{each.get('title', 'object')}:")
        lines += [f"  {line}" for line in _field_lines(reader, each, around)]
    return lines


def _about(reader: SchemaReader, field: Tree) -> str:
    if "description" in field:
        return str(field["description"])
    return str(reader.resolved(field).get("description", ""))


def _held(reader: SchemaReader, field: Tree, depth: int = 0) -> list[Tree]:
    """All that a field holds that has fields itself: it may be an object, one of several, or a list or an object of such."""
    found: list[Tree] = []
    for branch in reader.branches(field):
        if reader.fields(branch):
            inner = [branch]
        elif depth < DEEPEST:
            inner = [each for part in reader.parts(branch) for each in _held(reader, part, depth + 1)]
        else:
            inner = []
        found += [each for each in inner if each not in found]
    return found


def _optional(reader: SchemaReader, field: Tree) -> str:
    """What a field may be, and what it means to leave it out."""
    default: Json = reader.resolved(field).get("default")
    words = reader.phrase(field)
    if default is None or default in ("", [], {}):
        # That it may be null as well is of no use to anybody who can leave it out.
        return f"{words.removesuffix(' or null')}, optional"
    return f"{words}, {written(default)} by default"


def _first_line(text: str) -> str:
    return cast("list[str]", text.strip().splitlines() or [""])[0]
