"""What a command that asks a node ends with: an exit code, and a sentence where something went wrong.

What was answered goes to standard output; what went wrong, in a sentence, to standard error.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO, final

import msgspec

from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR, TIMEOUT
from bandstand.bus.wire import write_frame
from bandstand.cli.terminal import CANNOT_WRITE, printable, printable_json
from bandstand.errors import BadMessage, InvalidArgument, RequestFailed

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = ("Errors", "Exit", "conclude", "plain", "sentence")


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
    OUTPUT = CANNOT_WRITE


EXITS = {ROUTING_ERROR: Exit.ROUTING, SCHEMA_ERROR: Exit.SCHEMA, TIMEOUT: Exit.TIMEOUT}


def conclude(answer: Frame, out: TextIO, err: TextIO, *, is_json: bool = False) -> Exit:
    """Print an answer; the exit code."""
    if is_json:
        out.write(printable_json(write_frame(answer).decode()) + "\n")
    elif answer.kind == "reply":
        out.write(printable_json(msgspec.json.format(answer.data).decode()) + "\n")
    if answer.kind == "reply":
        return Exit.REPLY
    err.write(f"bandstand: {sentence(answer)}\n")
    return EXITS.get(answer.type, Exit.FAILED)


def sentence(answer: Frame) -> str:
    """What an error says."""
    data: object = msgspec.json.decode(answer.data)
    match data:
        case {"message": str(message), "path": str(path)} if path not in message:
            said = f"{answer.type}: {message} (at {path})"
        case {"message": str(message)}:
            said = f"{answer.type}: {message}"
        case _:
            said = f"{answer.type}: {msgspec.json.encode(data).decode()}"
    return printable(said)


# Any: plain values, as JSON has them.
def plain(answer: Frame) -> Any:
    """The data of an answer."""
    return msgspec.json.decode(answer.data)


@final
class Errors:
    """Tells what goes wrong between the shell and the node: use it by `with`, and read `exit` after it."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self.exit = Exit.REPLY

    def __enter__(self) -> Errors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        match error:
            case BadMessage() if error.path.startswith("$.data"):
                self.exit = Exit.SCHEMA
            case InvalidArgument():
                self.exit = Exit.USAGE
            case RequestFailed():
                self.exit = EXITS.get(error.type, Exit.FAILED)
            case TimeoutError():
                self.exit = Exit.TIMEOUT
            case OSError() | BadMessage() if not isinstance(error, BrokenPipeError):
                self.exit = Exit.NOBODY
            case _:
                return False
        self._err.write(f"bandstand: {printable(str(error))}\n")
        return True
