"""Time that passes only when told to."""

from __future__ import annotations

from typing import final

from bandstand.errors import InvalidArgument

__all__ = ("VirtualClock",)


@final
class VirtualClock:
    """A clock for `Loop(clock=...)` that stands still until it is advanced.

    It starts at an odd moment on purpose: code that takes a fresh clock for zero does not pass by luck.
    """

    def __init__(self, start_ns: int = 1_234_567_890_123) -> None:
        self._now = start_ns

    def now_ns(self) -> int:
        """The virtual time, in nanoseconds."""
        return self._now

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass.

        Raises:
            InvalidArgument: `ms` is negative. Time does not go back.
        """
        if not ms >= 0:
            raise InvalidArgument(f"ms is {ms!r}: time goes forward only")
        self._now += round(ms * 1_000_000)

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now} ns>"
