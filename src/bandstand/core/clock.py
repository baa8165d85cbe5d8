"""Time as an argument: what the loop asks of a clock, and the one it uses when none is given."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

__all__ = ("Clock", "MonotonicClock")


class Clock(Protocol):
    """Where a loop gets its time from. Pass one to `Loop(clock=...)`; `bandstand.testing` has a virtual one."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment. Must never go back."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    now_ns = staticmethod(monotonic_ns)
