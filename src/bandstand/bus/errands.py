"""What a node and a capability that runs elsewhere say to each other.

A frame travels as the line of JSON that it is on every other wire. Around it is what a wire between two processes of one program needs
besides: a number for each message that is given, so that its answer and its end find it again (ids will not do: clients
make them up, and may use one twice), and what a capability says that is no message.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from bandstand.bus.config import NodeConfig
from bandstand.bus.frame import Kind

__all__ = (
    "Answered",
    "Asked",
    "Begin",
    "Crashed",
    "Discarded",
    "Done",
    "Emitted",
    "Given",
    "Later",
    "Ready",
    "Stop",
    "TakenBack",
    "Up",
    "Withdrawn",
    "read_down",
    "read_up",
    "written",
)


class Errand(Struct, frozen=True, array_like=True, tag=True, tag_field="errand", gc=False):
    """One thing that is said."""


# --- to the capability ------------------------------------------------------------------------------------------------


class Begin(Errand, frozen=True):
    """The first: how the node is set up, and which commands and queries there are."""

    config: NodeConfig
    known: tuple[tuple[Kind, str], ...]


class Given(Errand, frozen=True):
    """A message to be handled."""

    number: int
    frame: bytes


class Stop(Errand, frozen=True):
    """End in good order."""


# --- both ways --------------------------------------------------------------------------------------------------------


class Answered(Errand, frozen=True):
    """The one answer to what was given, or asked, under that number."""

    number: int
    frame: bytes


# --- to the node ------------------------------------------------------------------------------------------------------


class Ready(Errand, frozen=True):
    """It has started."""

    is_worker: bool
    """Whether it answers in its own time, and so may be given several messages at once."""


class Done(Errand, frozen=True):
    """The handler has come to its end."""

    number: int


class Asked(Errand, frozen=True):
    """The capability sends a command or query."""

    number: int
    frame: bytes
    is_awaited: bool
    """Whether the handler at hand waits for the answer."""
    is_idle: bool
    """Whether nobody wants the answer."""


class Withdrawn(Errand, frozen=True):
    """Nobody waits any more for what was asked."""

    number: int


class Emitted(Errand, frozen=True):
    """The capability has emitted an event."""

    frame: bytes


class Later(Errand, frozen=True):
    """It will send, or emit, this: if it ends before, that is left to the node."""

    delay_ms: int
    frame: bytes


class TakenBack(Errand, frozen=True):
    """It will not: the id of the message."""

    id: str


class Discarded(Errand, frozen=True):
    """A Worker has answered what is not open any more."""

    kind: Kind
    type: str
    data: bytes


class Crashed(Errand, frozen=True):
    """It has failed, and this is the last that is heard of it."""

    is_fault: bool
    """Whether it has said what its contract does not allow."""
    words: str
    trace: str
    """Where it was, for the log."""


Down: TypeAlias = Begin | Given | Answered | Stop
Up: TypeAlias = (
    Ready | Answered | Done | Asked | Withdrawn | Emitted | Later | TakenBack | Discarded | Crashed
)

written = msgspec.msgpack.Encoder().encode
"""An errand as bytes."""
read_down = msgspec.msgpack.Decoder(Down).decode
"""What was said to a capability."""
read_up = msgspec.msgpack.Decoder(Up).decode
"""What a capability has said."""
