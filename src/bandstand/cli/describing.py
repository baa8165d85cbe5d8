"""`bandstand describe`: what a node can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, final

import msgspec

from bandstand.bus.contracts.describe import Description
from bandstand.cli.exits import Errors, Exit, conclude
from bandstand.cli.showing import show_all, show_types
from bandstand.cli.terminal import printable_lines
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.cli.target import Target

__all__ = ("Inquiry", "inquire", "read_description")


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


def inquire(inquiry: Inquiry, target: Target, out: TextIO, err: TextIO) -> Exit:
    """Print what a node says about itself."""
    name = inquiry.name
    with Errors(err) as errors, target.connected() as bus:
        is_type = "." in name
        wanted = {"type" if is_type else "capability": name} if name else {}
        answer = bus.exchange("query", "Syscall.Describe", wanted)
        if answer.kind == "error" and is_type:
            # The name of a capability may have dots as well.
            second = bus.exchange("query", "Syscall.Describe", {"capability": name})
            is_type = second.kind == "error"
            answer = answer if is_type else second
        if answer.kind == "error" or inquiry.is_json:
            return conclude(answer, out, err)
        described = read_description(answer)
        shown = show_types(described, name, inquiry.command) if is_type else show_all(described)
        out.write(printable_lines(shown) + "\n")
        return Exit.REPLY
    return errors.exit


def read_description(answer: Frame) -> Description:
    """What a node says about itself.

    Raises:
        BadMessage: it cannot be read.
    """
    try:
        return msgspec.json.decode(answer.data, type=Description)
    except msgspec.MsgspecError as error:
        raise BadMessage.of(f"what the node says about itself cannot be read: {error}") from None
