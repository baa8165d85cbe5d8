"""A child's place, as others see it: where it stands, what is known of it, and who wants to know more."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from bandstand.core import ActorId
from bandstand.supervision.vocabulary import ChildMode

__all__ = ("DOWN", "STARTING", "STOPPING", "UP", "WAITING", "ChildInfo", "Follower", "Phase")


class Phase(Enum):
    """Where a child stands, as its supervisor sees it."""

    DOWN = "down"
    """It is not running, and nothing is about to start it."""
    WAITING = "waiting"
    """It is to be started: after its backoff, when its siblings have stopped, or when those before it have started."""
    STARTING = "starting"
    """Its init is in flight."""
    UP = "up"
    STOPPING = "stopping"
    """It was told to stop, and its coroutine has not ended yet."""


# By these names they cost a tenth of what `Phase.UP` does, which asks the enumeration's class every time.
DOWN: Final = Phase.DOWN
WAITING: Final = Phase.WAITING
STARTING: Final = Phase.STARTING
UP: Final = Phase.UP
STOPPING: Final = Phase.STOPPING


class Follower(Protocol):
    """Somebody who wants to know what becomes of a place."""

    def changed(self) -> None:
        """Somebody is there anew, or the child was forgotten, or its supervisor has ended: look."""
        ...


class ChildInfo(NamedTuple):
    """What a supervisor knows of one child."""

    name: str
    actor: ActorId | None
    """The present incarnation; None while there is none."""
    phase: Phase
    mode: ChildMode
    is_supervisor: bool
    restarts: int
    """How often it was started again."""
