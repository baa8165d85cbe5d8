"""Where a supervisor stands, and what it is told besides what its children do."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from bandstand.core import ActorId

__all__ = ("CLOSED", "CLOSING", "OPEN", "OPENING", "Deadline", "End", "Stage")


class Stage(Enum):
    """Where a supervisor stands."""

    OPENING = "opening"
    """Its children start for the first time."""
    OPEN = "open"
    CLOSING = "closing"
    """Its children stop, and then it ends."""
    CLOSED = "closed"


# As with `Phase`: names of their own are quicker to ask for.
OPENING: Final = Stage.OPENING
OPEN: Final = Stage.OPEN
CLOSING: Final = Stage.CLOSING
CLOSED: Final = Stage.CLOSED


class Deadline(NamedTuple):
    """A child that was stopped should have ended by now."""

    child: ActorId


class End(NamedTuple):
    """Somebody wants us to end, in good order."""
