"""Restart intensity: how often is too often. Pure arithmetic; nobody here looks at a clock.

A supervisor may restart `limit` times within `period_ms`; one time more, and it gives up. With the default, 3 in 5 s, the
fourth restart within any five seconds is the one that is not made. A restart counts until `period_ms` have passed since
it, so a child that fails every 1.7 s is restarted for ever (no five seconds hold four of its failures), and one that fails
every 1.6 s ends its supervisor with its fourth failure (at 0, 1.6, 3.2 and 4.8 s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bandstand.supervision.validate import check_intensity

if TYPE_CHECKING:
    from bandstand.supervision.hot.history import History

__all__ = ("SLACK", "Intensity", "Restarts")

SLACK = 32
"""A history's list is copied, to forget what lies before the window, when that is this long and more than the window itself."""


class Restarts(NamedTuple):
    """The history with one restart more, and whether that was one too many."""

    history: History
    is_too_many: bool


@dataclass(frozen=True, slots=True)
class Intensity:
    """At most `limit` restarts within `period_ms` milliseconds.

    Raises:
        InvalidArgument: a value has no sense.
    """

    limit: int = 3
    period_ms: float = 5000

    def __post_init__(self) -> None:
        check_intensity("Intensity", self.limit, self.period_ms)

    def add(self, history: History, now: float) -> Restarts:
        """Add a restart at `now`, which is not before those of the history."""
        recent = history.add(now, self.period_ms)
        return Restarts(recent, recent.count > self.limit)
