"""`bandstand describe`: shows which messages a node handles and emits, as an overview or as a page about one type.

The page of a type ends with a command line to try, because an example is easier to change than a grammar is to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO, cast, final

import msgspec

from bandstand.bus.contracts.describe import (
    CapabilityDescription,
    Description,
    EventDescription,
    MessageDescription,
)
from bandstand.cli.arguments import format_data
from bandstand.cli.output import ErrorReporter, ExitCode, print_answer, printable_lines
from bandstand.cli.schema_reader import NULL, Json, SchemaReader, Tree, value_text
from bandstand.errors import InvalidMessageError

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.cli.settings import Target

__all__ = ("DescribeOptions", "describe", "read_description", "show_all", "show_type")

# The widest line with a description in it; a longer description gets its own line.
_WIDTH: Final = 110
# How many levels of nested lists to search for objects.
_MAX_DEPTH: Final = 5


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions:
    """What to describe."""

    name: str = ""
    """A type or a capability; empty for everything."""
    is_json: bool = False
    """Whether to print the answer of the node as JSON."""
    command: str = "bandstand call"
    """The beginning of the command lines to try."""


def describe(options: DescribeOptions, target: Target, out: TextIO, err: TextIO) -> ExitCode:
    """Print the description of a node, a capability or a type."""
    name = options.name
    with ErrorReporter(err) as reporter, target.connected() as bus:
        is_type = "." in name
        wanted = {"type" if is_type else "capability": name} if name else {}
        answer = bus.exchange("query", "Syscall.Describe", wanted)
        if answer.kind == "error" and is_type:
            # The id of a capability can contain dots too.
            second = bus.exchange("query", "Syscall.Describe", {"capability": name})
            is_type = second.kind == "error"
            answer = answer if is_type else second
        if answer.kind == "error" or options.is_json:
            return print_answer(answer, out, err)
        described = read_description(answer)
        text = show_type(described, name, options.command) if is_type else show_all(described)
        out.write(printable_lines(text) + "\n")
        return ExitCode.SUCCESS
    return reporter.exit_code


def read_description(answer: Frame) -> Description:
    """Decode the reply to `Syscall.Describe`.

    Raises:
        InvalidMessageError: it is not a description.
    """
    try:
        return msgspec.json.decode(answer.data, type=Description)
    except msgspec.MsgspecError as error:
        raise InvalidMessageError.of(f"cannot read the description that the node sent: {error}") from None


def show_all(described: Description) -> str:
    """Return an overview: the capabilities, with a line for each message that they handle, emit or subscribe to."""
    rows = [row for capability in described.capabilities for row in _rows(capability)]
    width = max((len(name) for _, name, _ in rows), default=0)
    blocks: list[str] = []
    for capability in described.capabilities:
        several = f" (up to {capability.concurrency} at a time)" if capability.concurrency > 1 else ""
        each_key = f" (one for each {capability.key})" if capability.key is not None else ""
        lines = [f"{capability.id}: {_first_line(capability.description)}{several}{each_key}"]
        lines += [f"  {kind:<8} {name:<{width}}  {text}".rstrip() for kind, name, text in _rows(capability)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def show_type(described: Description, name: str, command: str) -> str:
    """Return the page about one type.

    Args:
        described: the description of the type.
        name: the type.
        command: the beginning of the command line to try, such as `bandstand call`.
    """
    blocks = [
        block
        for capability in described.capabilities
        for block in (
            *(_page(capability, each, command) for each in capability.handles if each.type == name),
            *(_event_page(capability.id, "emitted", each) for each in capability.emits if each.type == name),
        )
    ]
    if not blocks:
        # No capability emits it: it comes from clients.
        blocks = [
            _event_page(capability.id, "subscribed to", each)
            for capability in described.capabilities
            for each in capability.subscribes
            if each.type == name
        ]
    subscribers = [
        each.id for each in described.capabilities if name in {event.type for event in each.subscribes}
    ]
    if subscribers:
        blocks.append(f"subscribers\n  {', '.join(subscribers)}")
    return "\n\n".join(blocks)


def _rows(capability: CapabilityDescription) -> Iterator[tuple[str, str, str]]:
    messages: Iterable[MessageDescription | EventDescription] = (*capability.handles, *capability.emits)
    for each in messages:
        yield each.kind, each.type, _first_line(each.description)
    for each in capability.subscribes:
        yield "receives", each.type, ""


def _page(capability: CapabilityDescription, message: MessageDescription, command: str) -> str:
    parts = [f"{message.kind} {message.type}, handled by {capability.id}\n{message.description}".rstrip()]
    parts += [
        _section("data", message.schema, "none"),
        _section("reply", message.reply, "no data"),
    ]
    if message.retry is not None:
        retry = message.retry
        parts.append(
            f"retry\n  up to {retry.attempts} attempts, after {' or '.join(retry.on)}; the first delay is {retry.initial_ms:g} ms"
        )
    if capability.refuses:
        parts.append(f"refusals\n  Sys.Refused, if the handler raises {' or '.join(capability.refuses)}")
    if message.example is not None:
        data = message.example.data
        words = "" if data == {} else format_data(data, message.schema)
        parts.append(f"try\n  {command} {message.type} {words}".rstrip())
    return "\n\n".join(parts)


def _event_page(capability: str, verb: str, event: EventDescription) -> str:
    title = f"{event.kind} {event.type}, {verb} by {capability}\n{event.description}".rstrip()
    return f"{title}\n\n{_section('data', event.schema, 'none')}"


def _section(title: str, schema: Tree, nothing: str) -> str:
    """Return a section about data of a schema; `nothing` is the text for a schema without fields."""
    reader = SchemaReader(schema)
    lines: Sequence[str]
    objects = _objects(reader, schema)
    if objects:
        lines = _object_lines(reader, objects, [])
        if len(objects) > 1 or objects[0] != reader.resolved(schema):
            lines = [reader.phrase(schema), *(f"  {line}" for line in lines)]
    else:
        is_empty = "properties" in reader.resolved(schema) or reader.kinds(schema) == NULL
        lines = [nothing if is_empty else reader.phrase(schema)]
    return "\n".join((title, *(f"  {line}" for line in lines)))


def _field_lines(reader: SchemaReader, schema: Tree, around: list[Tree]) -> list[str]:
    """Return lines for the fields of an object and of the objects in them; `around` are the fields of the enclosing objects."""
    fields = reader.fields(schema)
    around = [*around, fields]
    required = reader.required(schema)
    phrases = {
        name: reader.phrase(field) if name in required else _optional(reader, field)
        for name, field in fields.items()
    }
    names = max(map(len, fields))
    middle = max((len(each) for each in phrases.values() if len(each) <= _WIDTH // 2), default=0)
    lines: list[str] = []
    for name, field in fields.items():
        text = _first_line(_about(reader, field))
        line = f"{name:<{names}}  {phrases[name]:<{middle}}"
        if len(line) + len(text) + 2 * len(around) + 2 <= _WIDTH:
            lines.append(f"{line}  {text}".rstrip())
        else:
            lines += [line.rstrip(), f"{'':<{names}}  {text}"]
        # A type that contains itself is shown once.
        objects = [each for each in _objects(reader, field) if reader.fields(each) not in around]
        lines += [f"  {line}" for line in _object_lines(reader, objects, around)]
    return lines


def _object_lines(reader: SchemaReader, objects: Sequence[Tree], around: list[Tree]) -> list[str]:
    """Return lines for the fields of each object, under its name if there are several."""
    if len(objects) == 1:
        return _field_lines(reader, objects[0], around)
    lines: list[str] = []
    for each in objects:
        lines.append(f"{each.get('title', 'object')}:")
        lines += [f"  {line}" for line in _field_lines(reader, each, around)]
    return lines


def _about(reader: SchemaReader, field: Tree) -> str:
    if "description" in field:
        return str(field["description"])
    return str(reader.resolved(field).get("description", ""))


def _objects(reader: SchemaReader, field: Tree, depth: int = 0) -> list[Tree]:
    """Return the objects with fields that a value can be or contain: itself, its alternatives, or its items."""
    found: list[Tree] = []
    for branch in reader.branches(field):
        if reader.fields(branch):
            inner = [branch]
        elif depth < _MAX_DEPTH:
            inner = [each for part in reader.parts(branch) for each in _objects(reader, part, depth + 1)]
        else:
            inner = []
        found += [each for each in inner if each not in found]
    return found


def _optional(reader: SchemaReader, field: Tree) -> str:
    """Return the phrase of a field that can be omitted."""
    default: Json = reader.resolved(field).get("default")
    words = reader.phrase(field)
    if default is None or default in ("", [], {}):
        # A user can omit the field instead of passing null.
        return f"{words.removesuffix(' or null')}, optional"
    return f"{words}, default {value_text(default)}"


def _first_line(text: str) -> str:
    return cast("list[str]", text.strip().splitlines() or [""])[0]
