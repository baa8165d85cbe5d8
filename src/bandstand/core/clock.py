"""The clock that a loop uses, as an interface and as its default."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

__all__ = ("Clock", "IdleClock", "MonotonicClock")


class Clock(Protocol):
    """The source of a loop's time. Pass one to `Loop(clock=...)`; `bandstand.testing` has a virtual clock."""

    def now_ns(self) -> int:
        """Return the nanoseconds since a fixed moment. Must never decrease."""
        ...


class IdleClock(Clock, Protocol):
    """A clock that is called when the loop has nothing to do but wait: it may advance its time instead."""

    def on_idle(self, wait_ns: int) -> bool:
        """Called when nothing is ready, suspended or watched, and the next deadline is `wait_ns` away.

        Return True if the time has advanced: the loop then continues at once. Return False to let it wait.
        """
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    now_ns = staticmethod(monotonic_ns)
