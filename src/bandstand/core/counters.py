"""Message counters that balance.

Every message a program tries to send has exactly one outcome, and each outcome has a counter:

    sent  =  handled + refused + dead + dropped          (+ what still waits in a mailbox)

`accepted` counts the messages that entered a mailbox; `refused` the sends that raised or returned False.
"""

from __future__ import annotations

from typing import TypeAlias

Count: TypeAlias = int


class MessageCounters:
    """The message counters of one loop. Only the loop's own thread changes them."""

    __slots__ = (
        "accepted",
        "dead",
        "dead_system",
        "dropped",
        "dropped_system",
        "handled",
        "refused",
        "stashed",
    )

    def __init__(self) -> None:
        self.accepted: Count = 0
        self.handled: Count = 0
        self.refused: Count = 0
        # Accepted messages whose actor ended before it handled them; `dead_system` of them were sent by the runtime.
        self.dead: Count = 0
        self.dead_system: Count = 0
        # Messages given up by an overflow policy; `dropped_system` of them are events of descriptors no longer watched.
        self.dropped: Count = 0
        self.dropped_system: Count = 0
        # Messages that an actor has stashed. They wait, but no visit will find them in a lane.
        self.stashed: Count = 0

    def waiting(self) -> Count:
        """Return how many accepted messages have no outcome yet."""
        return self.accepted - self.handled - self.dead - self.dropped

    def is_settled(self) -> bool:
        """Return True if every accepted message has its outcome or is stashed."""
        return self.accepted == self.handled + self.dead + self.dropped + self.stashed
