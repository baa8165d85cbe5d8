"""What becomes of an event that finds its subscriber's room full."""

from __future__ import annotations

from enum import Enum

__all__ = ("Policy",)


class Policy(Enum):
    """What a subscription does with one event more when its room is full. There is none that makes others wait."""

    DROP_NEWEST = "drop-newest"
    """Give up the event that comes."""
    DROP_OLDEST = "drop-oldest"
    """Give up the oldest that waits, for the one that comes."""
    CONFLATE = "conflate"
    """Let only the latest wait, or, with a `key`, the latest of each key, in the place of the one it replaces."""
    CUT_OFF = "cut-off"
    """End the subscription, and tell whoever has it."""
