"""The statistics of a loop."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Statistics",)


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
