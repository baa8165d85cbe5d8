"""Saying on stderr how far the run is: one line that changes on a terminal, one line a cell row elsewhere."""

from __future__ import annotations

import sys

from bench.case import Case
from bench.runner import Cell
from bench.system import System


class Progress:
    """Hears of every cell as it is measured."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._row: tuple[int, str] | None = None
        self._is_terminal = sys.stderr.isatty()

    def tell(self, turn: int, case: Case, system: System, cell: Cell) -> None:
        """Show one more cell."""
        if self._row != (turn, case.name):
            self._end_row()
            self._row = turn, case.name
            sys.stderr.write(f"round {turn + 1}/{self._rounds}  {case.name:<18}")
        figure = "FAILED" if cell.failure else f"{cell.readings[-1]['value']:,.1f}"
        sys.stderr.write(f"  {system.name} {figure}")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._end_row()

    def _end_row(self) -> None:
        if self._row is not None:
            sys.stderr.write("\r\x1b[K" if self._is_terminal else "\n")
        self._row = None
