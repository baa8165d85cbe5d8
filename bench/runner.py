"""Running cells: each in a child process, systems side by side, in rounds; the best reading is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from bench.case import Case
from bench.system import SYSTEMS, System

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 300
"""Seconds after which a child is given up."""


@dataclass
class Cell:
    """What the rounds have found so far about one case on one system."""

    readings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failure: str | None = None

    @property
    def best(self) -> dict[str, Any] | None:
        """The best reading; None if there is none, or if a single one was wrong."""
        if self.failure is not None or not self.readings:
            return None
        return min(self.readings, key=lambda reading: reading["value"])

    @property
    def value(self) -> float | None:
        return None if self.best is None else float(self.best["value"])


Cells: TypeAlias = dict[tuple[str, str], Cell]
"""By the names of case and system. A cell that cannot be measured is not there."""
Turn: TypeAlias = tuple[int, Case, System]
"""A cell's measurement in one of the rounds."""
Scale: TypeAlias = Literal["quick", "brief", "full"]
"""How much is measured: whether it works at all, what fits into some minutes, or everything."""


class Witness(Protocol):
    """Who hears of every measurement, and may know that there is no time for more."""

    def tell(self, turn: Turn, cell: Cell) -> None:
        """Hear of one more."""
        ...

    def has_time(self, round_: int) -> bool:
        """Say whether a round, counted from 0, may begin."""
        ...


def probe(systems: Sequence[System] = SYSTEMS) -> dict[str, str]:
    """Ask a child for each system whether it can be measured here; the reasons why not, by name."""
    refusals: dict[str, str] = {}
    for system in systems:
        answer, failure = _child(system, ["--probe", system.name])
        refusal = failure if answer is None else answer["refusal"]
        if refusal:
            refusals[system.name] = refusal
    return refusals


def plan(cases: Sequence[Case], systems: Sequence[System], rounds: int) -> list[list[Turn]]:
    """Say what each round measures, and in which order: the systems side by side."""
    return [
        [
            (number, case, system)
            for case in cases
            if number < case.most_rounds
            for system in systems
            if system.measure(case) is not None
        ]
        for number in range(rounds)
    ]


def run(rounds: Sequence[Sequence[Turn]], cells: Cells, witness: Witness, *, scale: Scale = "full") -> int:
    """Take the turns of the rounds, filling the cells as they come; how many rounds there was time for.

    What is in the cells stays there when somebody interrupts.
    """
    for number, turns in enumerate(rounds):
        if number and not witness.has_time(number):
            return number
        for turn in turns:
            _, case, system = turn
            cell = cells.setdefault((case.name, system.name), Cell())
            if cell.failure is None:
                _measure(cell, case, system, scale)
                witness.tell(turn, cell)
    return len(rounds)


def _measure(cell: Cell, case: Case, system: System, scale: Scale) -> None:
    size = system.size(case, is_quick=scale == "quick")
    if scale == "brief" and case.size.brief is not None:
        size = min(size, case.size.brief)
    repeats = 1 if scale == "quick" or system.is_slow else case.repeats
    if scale == "brief":
        repeats = min(repeats, 2)
    arguments = [
        *(case.name, system.name, str(size), str(repeats)),
        *(["--quick"] if scale == "quick" else []),
    ]
    reading, failure = _child(system, arguments)
    if reading is None:
        cell.failure = failure
    elif reading["handled"] != reading["sent"]:
        cell.failure = f"{reading['sent']} were sent and {reading['handled']} handled"
    else:
        cell.readings.append(reading)


def _child(system: System, arguments: list[str]) -> tuple[dict[str, Any] | None, str]:
    """Run a child and read its line; None and a sentence if there is none."""
    python = system.python or Path(sys.executable)
    if not python.exists():
        return None, f"there is no {_short(python)}; `make bench` makes it where it can"
    try:
        child = subprocess.run(
            [str(python), "-m", "bench.child", *arguments],
            cwd=ROOT,
            env={**os.environ, **system.environment},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"gave no figure within {DEADLINE} s"
    if child.returncode:
        said = child.stderr.strip().splitlines()
        return None, (said[-1] if said else f"ended with code {child.returncode}").removeprefix(
            "bench.child: "
        )
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer, ""


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
