"""Message counters that balance, and `Statistics`, the record of a loop's counters.

Every message a program tries to send has exactly one outcome, and each outcome has a counter:

    sent  =  handled + refused + dead + dropped          (+ what still waits in a mailbox)

`accepted` counts the messages that entered a mailbox; `refused` the sends that raised or returned False.

Asks (`actor.reply.AskTable`), pools (`pool.status.PoolCounters`) and channels (`scope._channel.ChannelCore`) balance too, each with its own
outcomes. They do not share a class: the outcomes differ, and compiled code increments a C field for each message. A table of counters by
name would cost a lookup for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ("Statistics",)

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
        # Messages that an overflow policy has dropped; `dropped_system` of them are events of descriptors no longer watched.
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


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot of a loop's counters, which balance at any time.

    `sent == handled + refused + dead + dropped + waiting`, and
    `timers_set == timers_fired + timers_cancelled + timers_released + timers_pending`.
    """

    sent: int
    """Attempts to send: by users, by timers and by the system."""
    handled: int
    """Messages that were passed to a behavior."""
    refused: int
    """Sends that raised or returned False: mailbox full, no such actor, loop closed."""
    dead: int
    """Accepted messages whose actor exited before it handled them."""
    dropped: int
    """Messages that an overflow policy dropped."""
    waiting: int
    """Messages in mailboxes now."""
    alive: int
    """Actors alive now."""
    spawned: int
    """Actors ever spawned."""
    ended_normal: int
    """Actors that were stopped."""
    ended_fail: int
    """Actors that failed by their verdict."""
    ended_panic: int
    """Actors that failed by an exception."""
    ready: int
    """Actors in the run queue now."""
    in_flight: int
    """Actors whose async behavior is suspended now."""
    fds: int
    """Descriptors watched now."""
    timers_set: int
    """Timers ever set."""
    timers_fired: int
    """Timers whose message was delivered."""
    timers_cancelled: int
    """Timers that were cancelled."""
    timers_released: int
    """Timers that were released because their actor exited."""
    timers_pending: int
    """Timers that are set now, or due and waiting for room."""
    ticks: int
    """Ticks run."""
    wakeups: int
    """How often the event loop called this loop, because an actor was ready or a timer was due."""
