"""The words of a shutdown."""

from __future__ import annotations

from enum import Enum

__all__ = ("PhaseEnd", "ShutdownPhase")


class ShutdownPhase(Enum):
    """What a shutdown does, in this order."""

    INTAKE = "intake"
    """Nothing more is let in from outside."""
    DRAIN = "drain"
    """What was let in is handled, and what that makes actors send each other."""
    STOP = "stop"
    """Actors end, the youngest first, supervisors with their children; each cleans up."""
    KILL = "kill"
    """Whoever has not ended is ended without waiting."""


class PhaseEnd(Enum):
    """How a phase has ended."""

    COMPLETE = "complete"
    """There was nothing left to do."""
    TIMED_OUT = "timed out"
    """Its time was up."""
    HURRIED = "hurried"
    """Somebody did not want to wait: a second SIGINT, or `hurry()`."""
    LOOP_ENDED = "loop ended"
    """The loop was ended by somebody else meanwhile."""
