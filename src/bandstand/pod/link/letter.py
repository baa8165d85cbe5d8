"""A dead letter of a link: a message that left this process, or was about to, and was not handled as far as anybody knows."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.core import Lane

__all__ = ("Undelivered",)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """One message, and why it is dead."""

    pod: str
    """Where it was sent to."""
    role: str
    """To whom."""
    method: str
    """What it was, as `Class.method`."""
    lane: Lane
    is_in_doubt: bool
    """Whether it may have been handled: the process is gone, and had the message."""
    reason: str
    """Why, in a sentence."""
    data: object = None
    """Its arguments, if they were plain values; None if they were packed, and are gone."""
