"""`bandstand call`, `query` and `emit`: say one thing to a node, show the answer, tell by the exit code what became of it.

A node tells what it understands, so none of them needs to be told whether a type is a command or a query, or which of its fields are
strings: it asks first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO, final

from bandstand.bus.faults import ROUTING_ERROR
from bandstand.cli.arguments import data_of
from bandstand.cli.describing import read_description
from bandstand.cli.exits import Errors, Exit, conclude
from bandstand.cli.terminal import printable
from bandstand.errors import InvalidArgument

if TYPE_CHECKING:
    from bandstand.bus.contracts.describe import Description, MessageDescription
    from bandstand.cli.reading import Tree
    from bandstand.cli.target import Target

__all__ = ("Call", "call", "emit")

# What a node is asked about itself before the call is answered in no time, however short the call may be.
LEAST_MS = 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command or query to be sent."""

    type: str
    arguments: Sequence[str] = ()
    """Its data: one JSON, or fields one by one; see `arguments`."""
    kind: Literal["command", "query"] | None = None
    """Which one, where there are both of that type."""
    is_json: bool = False
    """Whether to print the whole answer as one line."""


def call(wish: Call, target: Target, out: TextIO, err: TextIO) -> Exit:
    """Send a command or query, and print its answer."""
    with Errors(err) as errors, target.connected() as bus:
        asked_ms = max(target.timeout_ms, LEAST_MS)
        described = bus.exchange("query", "Syscall.Describe", {"type": wish.type}, asked_ms)
        if described.kind == "error":
            return conclude(described, out, err, is_json=wish.is_json)
        message = _choose(wish, read_description(described), err)
        if message is None:
            return Exit.ROUTING
        data = data_of(wish.arguments, message.schema)
        answer = bus.exchange(message.kind, wish.type, data, target.timeout_ms)
        return conclude(answer, out, err, is_json=wish.is_json)
    return errors.exit


def emit(wish: Call, target: Target, out: TextIO, err: TextIO, *, allows_undeclared: bool = False) -> Exit:
    """Tell a node that something has happened, and wait until it has taken it in.

    Clients may listen to a type that no capability declares. Such an event has no schema, and a misspelt type looks the same, so it
    is sent only with `allows_undeclared`.
    """
    with Errors(err) as errors, target.connected() as bus:
        asked_ms = max(target.timeout_ms, LEAST_MS)
        described = bus.exchange("query", "Syscall.Describe", {"type": wish.type}, asked_ms)
        schema: Tree = {}
        if described.kind == "error":
            if described.type != ROUTING_ERROR or not allows_undeclared:
                code = conclude(described, out, err, is_json=wish.is_json)
                if described.type == ROUTING_ERROR:
                    err.write(
                        "bandstand: --undeclared emits an event of a type that no capability declares\n"
                    )
                return code
        else:
            known = read_description(described)
            said = [each for found in known.capabilities for each in (*found.emits, *found.subscribes)]
            if not said:
                kind = known.capabilities[0].handles[0].kind
                name = printable(wish.type)
                err.write(f"bandstand: {name} is a {kind}, and no event; `bandstand call {name}` sends it\n")
                return Exit.ROUTING
            schema = said[0].schema
        bus.emit(wish.type, data_of(wish.arguments, schema))
        if wish.is_json:
            out.write(f'{{"emitted":{json.dumps(wish.type)}}}\n')
        return Exit.REPLY
    return errors.exit


def _choose(wish: Call, described: Description, err: TextIO) -> MessageDescription | None:
    """The description of what is to be sent."""
    found = [
        message
        for capability in described.capabilities
        for message in capability.handles
        if message.type == wish.type and wish.kind in {None, message.kind}
    ]
    if not found:
        said = [
            each
            for capability in described.capabilities
            for each in (*capability.emits, *capability.subscribes)
        ]
        what = (
            f"no {wish.kind}"
            if wish.kind
            else f"an {said[0].kind}: only commands and queries are called"
            if said
            else "not handled"
        )
        name = printable(wish.type)
        err.write(f"bandstand: {name} is {what}; `bandstand describe {name}` says more\n")
        return None
    if len(found) > 1:
        raise InvalidArgument(f"{wish.type} is a command and a query: say --kind command or --kind query")
    return found[0]
