"""`bandstand call` and `bandstand describe`: ask a node one thing, show the answer, say by the exit code what became of it.

A node tells what it understands, so neither needs to be told whether a type is a command or a query, or which of its fields are
strings: it asks first.

What was answered goes to standard output; what went wrong, in a sentence, to standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, TextIO, final

import msgspec

from bandstand.bus.client.arguments import data_of
from bandstand.bus.client.caller import Caller
from bandstand.bus.client.showing import show_all, show_types
from bandstand.bus.contracts.describe import Description, MessageDescription
from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR, TIMEOUT
from bandstand.bus.frame import Frame
from bandstand.bus.wire import write_frame
from bandstand.errors import BadMessage, InvalidArgument

if TYPE_CHECKING:
    from bandstand.bus.client.address import Address

__all__ = ("Call", "Exit", "Inquiry", "call", "inquire")

# What a node is asked about itself before the call is answered in no time, however short the call may be.
LEAST_MS = 1000
# How long a call may take if nothing is said: both ends know it then, whatever the capability's own limit is.
PATIENCE_MS = 30_000


@final
class Exit(IntEnum):
    """What the exit code of a command that asks a node means."""

    REPLY = 0
    FAILED = 1
    USAGE = 2
    ROUTING = 3
    SCHEMA = 4
    TIMEOUT = 5
    NOBODY = 6


EXITS = {ROUTING_ERROR: Exit.ROUTING, SCHEMA_ERROR: Exit.SCHEMA, TIMEOUT: Exit.TIMEOUT}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command or query to be sent."""

    type: str
    arguments: Sequence[str] = ()
    """Its data: one JSON, or fields one by one; see `arguments`."""
    kind: Literal["command", "query"] | None = None
    """Which one, where there are both of that type."""
    timeout_ms: int | None = None
    """How long it may take; None for what the node says."""
    is_json: bool = False
    """Whether to print the whole answer as one line."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is to be told about a node."""

    name: str = ""
    """A type, or a capability; empty for everything."""
    is_json: bool = False
    """Whether to print what was answered, rather than a text for people."""
    command: str = "bandstand call"
    """What a call begins with, in the lines to try."""


def call(wish: Call, address: Address, out: TextIO, err: TextIO) -> Exit:
    """Send a command or query, and print its answer."""
    with _Errors(err) as errors, Caller(address) as caller:
        asked_ms = None if wish.timeout_ms is None else max(wish.timeout_ms, LEAST_MS)
        described = caller.request("query", "Syscall.Describe", {"type": wish.type}, asked_ms)
        if described.kind == "error":
            return _conclude(described, out, err, is_json=wish.is_json)
        message = _choose(wish, _read(described), err)
        if message is None:
            return Exit.ROUTING
        data = data_of(wish.arguments, message.schema)
        answer = caller.request(message.kind, wish.type, data, wish.timeout_ms or PATIENCE_MS)
        return _conclude(answer, out, err, is_json=wish.is_json)
    return errors.exit


def inquire(inquiry: Inquiry, address: Address, out: TextIO, err: TextIO) -> Exit:
    """Print what a node says about itself."""
    name = inquiry.name
    with _Errors(err) as errors, Caller(address) as caller:
        is_type = "." in name
        wanted = {"type" if is_type else "capability": name} if name else {}
        answer = caller.request("query", "Syscall.Describe", wanted)
        if answer.kind == "error" and is_type:
            # The name of a capability may have dots as well.
            second = caller.request("query", "Syscall.Describe", {"capability": name})
            is_type = second.kind == "error"
            answer = answer if is_type else second
        if answer.kind == "error" or inquiry.is_json:
            return _conclude(answer, out, err)
        described = _read(answer)
        shown = show_types(described, name, inquiry.command) if is_type else show_all(described)
        out.write(shown + "\n")
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
        err.write(f"bandstand: {wish.type} is {what}; `bandstand describe {wish.type}` says more\n")
        return None
    if len(found) > 1:
        raise InvalidArgument(f"{wish.type} is a command and a query: say --kind command or --kind query")
    return found[0]


def _read(answer: Frame) -> Description:
    try:
        return msgspec.json.decode(answer.data, type=Description)
    except msgspec.MsgspecError as error:
        raise BadMessage.of(f"what the node says about itself cannot be read: {error}") from None


def _conclude(answer: Frame, out: TextIO, err: TextIO, *, is_json: bool = False) -> Exit:
    """Print an answer; the exit code."""
    if is_json:
        out.write(write_frame(answer).decode() + "\n")
    elif answer.kind == "reply":
        out.write(msgspec.json.format(answer.data).decode() + "\n")
    if answer.kind == "reply":
        return Exit.REPLY
    err.write(f"bandstand: {_sentence(answer)}\n")
    return EXITS.get(answer.type, Exit.FAILED)


def _sentence(answer: Frame) -> str:
    """What an error says."""
    data: object = msgspec.json.decode(answer.data)
    match data:
        case {"message": str(message), "path": str(path)} if path not in message:
            return f"{answer.type}: {message} (at {path})"
        case {"message": str(message)}:
            return f"{answer.type}: {message}"
        case _:
            return f"{answer.type}: {msgspec.json.encode(data).decode()}"


@final
class _Errors:
    """Tells what goes wrong between the shell and the node: use it by `with`, and read `exit` after it."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self.exit = Exit.REPLY

    def __enter__(self) -> _Errors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        match error:
            case BadMessage() if error.path.startswith("$.data"):
                self.exit = Exit.SCHEMA
            case InvalidArgument():
                self.exit = Exit.USAGE
            case TimeoutError():
                self.exit = Exit.TIMEOUT
            case OSError() | BadMessage() if not isinstance(error, BrokenPipeError):
                self.exit = Exit.NOBODY
            case _:
                return False
        self._err.write(f"bandstand: {error}\n")
        return True
