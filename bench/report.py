"""The result of a run, as data: what the tables show and JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.case import Case
from bench.runner import Cell, Cells
from bench.scale import Scale
from bench.system import Table, table_of
from bench.target import Target, at_most

BASES: dict[Table, str] = {
    "actors": "limit",
    "channels": "Queue",
    "pods": "bare",
    "bus": "echo",
    "journal": "SQLite",
    "persistence": "commits",
}
"""The least there can be: what targets are multiples of."""
JUDGED: dict[Table, tuple[str, ...]] = {
    "actors": ("compiled", "typed"),
    "channels": ("channel",),
    "pods": ("pod",),
    "bus": ("bus",),
    "journal": ("journal",),
    "persistence": ("persistent",),
}
"""The columns that are ours: targets hold for them, and the first that has a figure is what the others are divided by."""
HEADINGS = {
    "compiled": "bandstand",
    "pykka": "Pykka",
    "pykka-1": "Pykka, 1 core",
    "thespian": "Thespian",
    "erlang": "Erlang",
    "erlang-all": "Erlang, all",
}
"""What a column is called where that is not its name."""


def heading(system: str) -> str:
    """What a column is called."""
    return HEADINGS.get(system, system)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run that has ended, by itself or because somebody ended it."""

    cases: Sequence[Case]
    cells: Cells
    machine: Mapping[str, str]
    rounds: int
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the peers and what they stand on, each asked of its own environment."""
    scale: Scale = "full"
    is_partial: bool = False
    """Whether it was interrupted: some cells may have fewer readings, or none."""

    def cell(self, case: Case, system: str) -> Cell | None:
        return self.cells.get((case.name, system))

    def value(self, case: Case, system: str) -> float | None:
        cell = self.cell(case, system)
        return None if cell is None else cell.value

    def baseline(self, case: Case) -> str | None:
        """Which of our columns the others are divided by: the raw loop, or typed actors where the raw loop has no figure."""
        ours = JUDGED[table_of(case)]
        return next((system for system in ours if self.value(case, system) is not None), None)

    def ratio(self, case: Case, system: str) -> float | None:
        """How many times bandstand's rate it has. Only for times: bytes and delays stand for themselves."""
        baseline = self.baseline(case)
        ours = None if baseline is None else self.rate(case, baseline)
        theirs = self.rate(case, system)
        return theirs / ours if ours and theirs is not None else None

    def multiple(self, case: Case, system: str) -> float | None:
        """How many times `limit`, `Queue`, `bare`, `echo` or `SQLite` it takes. Only for times."""
        value, base = self.value(case, system), self.value(case, BASES[table_of(case)])
        return value / base if case.unit == "ns" and value is not None and base else None

    def rate(self, case: Case, system: str) -> float | None:
        """Operations a second, where what is measured is a time."""
        value = self.value(case, system)
        return 1e9 / value if case.unit == "ns" and value else None

    def target(self, case: Case, system: str) -> Target | None:
        """What a judged column must reach: the bound of its own run where it has one, else the case's."""
        cell = self.cell(case, system)
        best = None if cell is None else cell.best
        if best is not None and best.get("bound") is not None:
            return at_most(round(best["bound"], 2), case.unit)
        return case.typed_target if system == "typed" else case.target

    def verdict(self, case: Case, system: str) -> str | None:
        """Say whether the target is met or missed; None without a target, a figure, or sizes that mean anything."""
        value, target = self.value(case, system), self.target(case, system)
        if target is None or value is None or self.scale == "quick":
            return None
        is_met = target.is_met(value, partial(self.value, case))
        return None if is_met is None else "met" if is_met else "missed"

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """Cells whose result was wrong, with the sentence that says so."""
        return {key: cell.failure for key, cell in self.cells.items() if cell.failure is not None}
