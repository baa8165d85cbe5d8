"""The ranking: each system's rate beside bandstand's, as one number.

It is the geometric mean of the ratios over the cases that both have a figure for, each case counting once: a ratio of 2 and one
of 0.5 cancel out, and no single case decides. It says how systems stand *to bandstand*. It is not how they stand to each other where
they were not measured by the same cases, and not how fast a program will be: that depends on what it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from bench.case import Case
from bench.report import Report
from bench.system import systems_of, table_of

REFERENCE = "compiled"
"""Who has 1 by definition."""


@dataclass(frozen=True)
class Mean:
    """A geometric mean, and of how many ratios."""

    ratio: float
    cases: int


@dataclass(frozen=True)
class Place:
    """A system and where it stands."""

    system: str
    all: Mean
    savina: Mean | None
    """Over the cases of the Savina suite alone; None where it has a figure for none of them."""

    def as_json(self) -> dict[str, Any]:
        savina = self.savina
        return {
            "system": self.system,
            "ratio": self.all.ratio,
            "cases": self.all.cases,
            "savina_ratio": None if savina is None else savina.ratio,
            "savina_cases": 0 if savina is None else savina.cases,
        }


def rank(report: Report) -> list[Place]:
    """Order the systems that run actors by their mean, the fastest first; those that share no case with bandstand are left out."""
    cases = [case for case in report.cases if table_of(case) == "actors"]
    places: list[Place] = []
    for system in systems_of("actors"):
        mean = _mean(report, cases, system.name)
        if mean is not None:
            savina = _mean(report, (case for case in cases if case.savina is not None), system.name)
            places.append(Place(system.name, mean, savina))
    return sorted(places, key=lambda place: -place.all.ratio)


def _mean(report: Report, cases: Iterable[Case], system: str) -> Mean | None:
    ratios: list[float] = []
    for case in cases:
        ratio = report.ratio(case, system)
        # Who is compared with itself wins nothing; only the reference stands there with its 1.
        if ratio is not None and (system == REFERENCE or report.baseline(case) != system):
            ratios.append(ratio)
    return Mean(geometric_mean(ratios), len(ratios)) if ratios else None
