"""What a loop has done so far, as a frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Statistics",)


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot of a loop's books, which balance at any moment.

    `sent == handled + refused + dead + dropped + waiting`, and
    `timers_set == timers_fired + timers_cancelled + timers_released + timers_pending`.
    """

    sent: int
    """Messages anybody tried to send: user sends, fired timers, the system's own."""
    handled: int
    """Messages a behavior has seen."""
    refused: int
    """Sends that raised, or answered False: full, no such actor, closed."""
    dead: int
    """Accepted messages whose actor ended before it handled them."""
    dropped: int
    """Messages given up by an overflow policy."""
    waiting: int
    """Messages in mailboxes now."""
    alive: int
    """Actors living now."""
    spawned: int
    """Actors ever spawned."""
    ended_normal: int
    """Actors that ended by wish."""
    ended_fail: int
    """Actors that ended by verdict."""
    ended_panic: int
    """Actors that ended by an exception."""
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
    """Timers that went with their actor."""
    timers_pending: int
    """Timers in the wheel now, or due and waiting for room."""
    ticks: int
    """Ticks run."""
    wakeups: int
    """Times the host loop called the loop: for something ready, or for a timer."""
