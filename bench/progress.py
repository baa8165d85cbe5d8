"""Saying on stderr how far the run is and how long it still takes: one line that changes on a terminal, one line a row elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from time import monotonic

from bench.runner import Cell, Turn


class Pace:
    """How long turns take, learned from those taken: an earlier round's tell of the same cell, the mean of all of a new one."""

    def __init__(self, rounds: Sequence[Sequence[Turn]], budget: float | None) -> None:
        """`budget`: the seconds in which all must be done; a round that would not fit is not begun, save the first."""
        self._rounds = [[_key(turn) for turn in turns] for turns in rounds]
        self._budget = budget
        self._took: dict[tuple[str, str], float] = {}
        self._done = 0
        self.spent = 0.0

    def take(self, turn: Turn, seconds: float) -> None:
        """Learn from one turn."""
        self._took[_key(turn)] = seconds
        self._done += 1
        self.spent += seconds

    def has_time(self, number: int) -> bool:
        """Say whether this round can end within the budget."""
        return self._budget is None or self.spent + self._needs(number) <= self._budget

    def left(self, number: int, taken: int) -> float:
        """The seconds from here, where `taken` turns of the round `number` are over, to the end of the last round that fits."""
        ahead = self._seconds(self._rounds[number][taken:])
        for later in range(number + 1, len(self._rounds)):
            longer = ahead + self._needs(later)
            if self._budget is not None and self.spent + longer > self._budget:
                break
            ahead = longer
        return ahead

    def _needs(self, number: int) -> float:
        return self._seconds(self._rounds[number])

    def _seconds(self, keys: Sequence[tuple[str, str]]) -> float:
        mean = self.spent / self._done if self._done else 0.0
        return sum(self._took.get(key, mean) for key in keys)


class Progress:
    """Hears of every cell as it is measured."""

    def __init__(
        self,
        rounds: Sequence[Sequence[Turn]],
        budget: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._sizes = [len(turns) for turns in rounds]
        self._pace = Pace(rounds, budget)
        self._clock = clock
        self._last = clock()
        self._taken = 0
        self._number = 0
        self._row: tuple[int, str] | None = None
        self._is_terminal = sys.stderr.isatty()

    def has_time(self, round_: int) -> bool:
        return self._pace.has_time(round_)

    def tell(self, turn: Turn, cell: Cell) -> None:
        """Show one more cell."""
        number, case, system = turn
        now = self._clock()
        self._pace.take(turn, now - self._last)
        self._last = now
        if number != self._number:
            self._number, self._taken = number, 0
        self._taken += 1
        figure = "FAILED" if cell.failure else f"{cell.readings[-1]['value']:,.1f}"
        if self._is_terminal:
            text = f"{self._where(number)}  {case.name}: {system.name} {figure}"
            sys.stderr.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
            self._row = number, case.name
        else:
            if self._row != (number, case.name):
                self._end_row()
                self._row = number, case.name
                sys.stderr.write(f"{self._where(number)}  {case.name:<18}")
            sys.stderr.write(f"  {system.name} {figure}")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._end_row()

    def _where(self, number: int) -> str:
        """Say how far and how long: in which round, at which cell of it, and the time to the end of the last round."""
        return (
            f"round {number + 1}/{len(self._sizes)}  {self._taken}/{self._sizes[number]}  "
            f"{_duration(self._pace.left(number, self._taken))} left"
        )

    def _end_row(self) -> None:
        if self._row is not None:
            sys.stderr.write("\r\x1b[K" if self._is_terminal else "\n")
        self._row = None


def _key(turn: Turn) -> tuple[str, str]:
    _, case, system = turn
    return case.name, system.name


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
