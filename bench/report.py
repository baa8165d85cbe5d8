"""The result of a run, as data: what the table shows and JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.case import Case
from bench.runner import Cell, Cells
from bench.system import SYSTEMS, Table, systems_of, table_of
from bench.target import Target, at_most

BASES: dict[Table, str] = {"actors": "limit", "channels": "Queue", "pods": "bare", "bus": "echo"}
"""What the others of a table are compared with."""
JUDGED: dict[Table, tuple[str, ...]] = {
    "actors": ("compiled", "typed"),
    "channels": ("channel",),
    "pods": ("pod",),
    "bus": ("bus",),
}
"""The columns that targets hold for."""


@dataclass(frozen=True)
class Report:
    """A finished run."""

    cases: Sequence[Case]
    cells: Cells
    refusals: Mapping[str, str]
    machine: Mapping[str, str]
    rounds: int
    is_quick: bool

    def cell(self, case: Case, system: str) -> Cell | None:
        return self.cells.get((case.name, system))

    def value(self, case: Case, system: str) -> float | None:
        cell = self.cell(case, system)
        return None if cell is None else cell.value

    def ratio(self, case: Case, system: str) -> float | None:
        """How many times `limit`, `Queue`, `bare` or `echo` it takes. Only for times: bytes and delays are compared with their target."""
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
        if target is None or value is None or self.is_quick:
            return None
        is_met = target.is_met(value, partial(self.value, case))
        return None if is_met is None else "met" if is_met else "missed"

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """Cells whose result was wrong, with the sentence that says so."""
        return {key: cell.failure for key, cell in self.cells.items() if cell.failure is not None}

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": dict(self.machine),
            "rounds": self.rounds,
            "quick": self.is_quick,
            "systems": [
                {"name": system.name, "what": system.what, "refusal": self.refusals.get(system.name)}
                for system in SYSTEMS
            ],
            "cases": [self._case(case) for case in self.cases],
        }

    def _case(self, case: Case) -> dict[str, Any]:
        return {
            "name": case.name,
            "what": case.what,
            "unit": case.unit,
            "table": table_of(case),
            "targets": {system: self._target(case, system) for system in JUDGED[table_of(case)]},
            "cells": {system.name: self._cell(case, system.name) for system in systems_of(table_of(case))},
        }

    def _target(self, case: Case, system: str) -> dict[str, Any] | None:
        target = self.target(case, system)
        if target is None:
            return None
        return {
            "most": target.most,
            "unit": target.unit,
            "ahead_of": target.rival,
            "rates": dict(target.rates),
            "verdict": self.verdict(case, system),
        }

    def _cell(self, case: Case, system: str) -> dict[str, Any] | None:
        cell = self.cell(case, system)
        if cell is None:
            return None
        return {
            "value": cell.value,
            "ratio": self.ratio(case, system),
            "rate": self.rate(case, system),
            "is_checked": cell.best is not None,
            "failure": cell.failure,
            "best": cell.best,
            "readings": cell.readings,
        }
