"""The restarts that may still count. Pure; nobody here looks at a clock.

A history is never changed: adding gives a new one. As a tuple that would cost a copy for each restart, and a supervisor of
thousands of children that allows thousands of restarts would pay for it with their square. So a history is a window onto a
list that is only ever appended to, and shares it with the history it came from; whoever adds to an older one than the
newest gets a copy.
"""

from __future__ import annotations

from typing import TypeAlias

from bandstand.supervision.intensity import SLACK

Count: TypeAlias = int


class History:
    """The times of past restarts that may still count, in milliseconds, the oldest first. Immutable."""

    __slots__ = ("_end", "_start", "_times", "count")

    def __init__(self, times: tuple[float, ...] = ()) -> None:
        self._times = list(times)
        self._start: Count = 0
        self._end: Count = len(self._times)
        self.count: Count = self._end

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
            end -= start
            start = 0
        times.append(now)
        history = History.__new__(History)
        history._times = times
        history._start = start
        history._end = end + 1
        history.count = end + 1 - start
        return history

    def __eq__(self, other: object) -> bool:
        return self.times == other.times if isinstance(other, History) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.times)

    def __reduce__(self) -> tuple[type[History], tuple[tuple[float, ...]]]:
        return History, (self.times,)

    def __repr__(self) -> str:
        return f"History({self.times!r})"
