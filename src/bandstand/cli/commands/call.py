"""`bandstand call`, `query` and `emit`: send a message to a node and print the answer.

The commands ask the node first what the type is, so users need not say whether it is a command or a query, or which of its fields are
strings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TextIO, final

from bandstand.bus.faults import ROUTING_ERROR
from bandstand.cli.arguments import parse_data
from bandstand.cli.commands.describe import read_description
from bandstand.cli.output import ErrorReporter, ExitCode, print_answer, printable
from bandstand.errors import InvalidArgumentError

if TYPE_CHECKING:
    from bandstand.bus.contracts.describe import Description, MessageDescription
    from bandstand.cli.schema_reader import Tree
    from bandstand.cli.settings import Target

__all__ = ("CallOptions", "call", "emit")

# The least timeout of the description: a short timeout is meant for the call itself.
_DESCRIBE_TIMEOUT: Final = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The message to send."""

    type: str
    arguments: Sequence[str] = ()
    """The words of its data: see `arguments`."""
    kind: Literal["command", "query"] | None = None
    """The kind to send; None for the one that the type has."""
    is_json: bool = False
    """Whether to print the whole answer as one line of JSON."""


def call(options: CallOptions, target: Target, out: TextIO, err: TextIO) -> ExitCode:
    """Send a command or a query, and print the answer."""
    with ErrorReporter(err) as reporter, target.connected() as bus:
        describe_timeout = max(target.timeout, _DESCRIBE_TIMEOUT)
        answer = bus.exchange("query", "Syscall.Describe", {"type": options.type}, describe_timeout)
        if answer.kind == "error":
            return print_answer(answer, out, err, is_json=options.is_json)
        message = _choose(options, read_description(answer), err)
        if message is None:
            return ExitCode.ROUTING
        data = parse_data(options.arguments, message.schema)
        answer = bus.exchange(message.kind, options.type, data, target.timeout)
        return print_answer(answer, out, err, is_json=options.is_json)
    return reporter.exit_code


def emit(
    options: CallOptions, target: Target, out: TextIO, err: TextIO, *, allows_undeclared: bool = False
) -> ExitCode:
    """Send an event, and wait until the node has accepted it.

    Clients can subscribe to a type that no capability declares. Such a type has no schema, and cannot be told from a misspelt one, so
    it is sent only with `allows_undeclared`.
    """
    with ErrorReporter(err) as reporter, target.connected() as bus:
        describe_timeout = max(target.timeout, _DESCRIBE_TIMEOUT)
        answer = bus.exchange("query", "Syscall.Describe", {"type": options.type}, describe_timeout)
        schema: Tree = {}
        if answer.kind == "error":
            if answer.type != ROUTING_ERROR or not allows_undeclared:
                code = print_answer(answer, out, err, is_json=options.is_json)
                if answer.type == ROUTING_ERROR:
                    err.write("bandstand: pass --undeclared to emit a type that no capability declares\n")
                return code
        else:
            described = read_description(answer)
            events = [event for each in described.capabilities for event in (*each.emits, *each.subscribes)]
            if not events:
                kind = described.capabilities[0].handles[0].kind
                name = printable(options.type)
                err.write(f"bandstand: {name} is a {kind}, not an event: use `bandstand call {name}`\n")
                return ExitCode.ROUTING
            schema = events[0].schema
        bus.emit(options.type, parse_data(options.arguments, schema))
        if options.is_json:
            out.write(f'{{"emitted":{json.dumps(options.type)}}}\n')
        return ExitCode.SUCCESS
    return reporter.exit_code


def _choose(options: CallOptions, described: Description, err: TextIO) -> MessageDescription | None:
    """Return the description of the message to send; print an error and return None if it cannot be called."""
    found = [
        message
        for capability in described.capabilities
        for message in capability.handles
        if message.type == options.type and options.kind in {None, message.kind}
    ]
    if not found:
        events = [
            event
            for capability in described.capabilities
            for event in (*capability.emits, *capability.subscribes)
        ]
        if options.kind:
            problem = f"is not a {options.kind}"
        elif events:
            problem = f"is an {events[0].kind}, and only commands and queries can be called"
        else:
            problem = "is not handled"
        name = printable(options.type)
        err.write(f"bandstand: {name} {problem}: see `bandstand describe {name}`\n")
        return None
    if len(found) > 1:
        raise InvalidArgumentError(
            f"{options.type} is both a command and a query: pass --kind command or --kind query"
        )
    return found[0]
