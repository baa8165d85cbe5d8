"""How a channel actor has ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bandstand.core import ExitReason

__all__ = ("EndedBy", "Outcome")


class EndedBy(Enum):
    """What has ended a channel actor."""

    CLOSED = "closed"
    """The channel was closed, and nothing was left in it."""
    STOPPED = "stopped"
    """Somebody has stopped it: by `stop()`, by its id, by its supervisor, or by ending its loop."""
    CANCELLED = "cancelled"
    """Its token was cancelled."""
    RETURNED = "returned"
    """Its function has returned STOP."""
    FAILED = "failed"
    """Its function has raised, or returned FAIL or what is no verdict, or somebody has failed it."""
    KILLED = "killed"
    """Somebody has ended it without waiting for what it was doing."""
    NOT_YET = "not yet"
    """It has not ended. Its own function, which cannot wait for its own end, is answered so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a channel actor has ended."""

    reason: ExitReason
    """The reason, as every actor has one, and as its supervisor hears it."""
    cause: BaseException | None
    """What its function has raised, or whatever else has failed it; None if nothing has."""
    ended_by: EndedBy
    """What has ended it."""
