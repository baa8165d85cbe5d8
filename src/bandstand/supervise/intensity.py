"""Restart intensity: how often is too often. Pure arithmetic; nobody here looks at a clock.

A supervisor may restart `limit` times within `period_ms`; one time more, and it gives up. With the default, 3 in 5 s, the
fourth restart within any five seconds is the one that is not made. A restart counts until `period_ms` have passed since
it, so a child that fails every 1.7 s is restarted for ever (no five seconds hold four of its failures), and one that fails
every 1.6 s ends its supervisor with its fourth failure (at 0, 1.6, 3.2 and 4.8 s).

A history is never changed: adding gives a new one. As a tuple that would cost a copy for each restart, and a supervisor of
thousands of children that allows thousands of restarts would pay for it with their square. So a history is a window onto a
list that is only ever appended to, and shares it with the history it came from; whoever adds to an older one than the
newest gets a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from bandstand.supervise.checks import check_intensity

__all__ = ("History", "Intensity", "Restarts")

# A list is copied, to forget what lies before the window, when that is this long and more than the window itself.
SLACK = 32


@final
class History:
    """The times of past restarts that may still count, in milliseconds, the oldest first. Immutable."""

    __slots__ = ("_end", "_start", "_times", "count")

    def __init__(self, times: tuple[float, ...] = ()) -> None:
        self._times = list(times)
        self._start = 0
        self._end = self.count = len(self._times)

    def __len__(self) -> int:
        return self.count

    @property
    def times(self) -> tuple[float, ...]:
        """The times themselves."""
        return tuple(self._times[self._start : self._end])

    def add(self, now: float, period_ms: float) -> History:
        """One restart more at `now`; those that are `period_ms` old are forgotten."""
        start, end, times = self._start, self._end, self._times
        oldest = now - period_ms
        while start < end and times[start] <= oldest:
            start += 1
        if end != len(times) or (start > SLACK and start > end - start):
            times = times[start:end]
            start, end = 0, end - start
        times.append(now)
        history = History.__new__(History)
        history._times = times  # noqa: SLF001  # its own kind
        history._start = start  # noqa: SLF001  # likewise
        history._end = end + 1  # noqa: SLF001  # likewise
        history.count = end + 1 - start
        return history

    def __eq__(self, other: object) -> bool:
        return self.times == other.times if isinstance(other, History) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.times)

    def __repr__(self) -> str:
        return f"History({self.times!r})"


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
