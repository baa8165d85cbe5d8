"""Running cells: each in a child process, systems side by side, in rounds; the best reading is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from bench import scale as scales
from bench.case import Case
from bench.scale import Scale
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


class Witness(Protocol):
    """Who hears of every measurement, and may know that there is no time for more."""

    def tell(self, turn: Turn, cell: Cell) -> None:
        """Hear of one more."""
        ...

    def has_time(self, round_: int) -> bool:
        """Say whether a round, counted from 0, may begin."""
        ...


def probe(systems: Sequence[System] = SYSTEMS) -> dict[str, str]:
    """Ask a child for each system whether it can be measured here; the reasons why not, by name.

    A child that crashes refuses nothing: then its cells fail, and the table says so.
    """
    refusals: dict[str, str] = {}
    for system in systems:
        refusal = _missing(system)
        if refusal is None:
            answer, _ = _child(system, ["--probe", system.name])
            refusal = None if answer is None else answer["refusal"]
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
    arguments = [
        *(case.name, system.name, str(size), str(scales.repeats(scale, case.repeats))),
        *("--seconds", str(scales.SECONDS[scale])),
        *(["--quick"] if scale == "quick" else []),
    ]
    reading, failure = _child(system, arguments)
    if reading is None:
        cell.failure = failure
    elif reading["handled"] != reading["sent"]:
        cell.failure = f"{reading['sent']} were sent and {reading['handled']} handled"
    else:
        cell.readings.append(reading)


def _missing(system: System) -> str | None:
    """Say that the Python of a system is not there; None if it is."""
    python = _python(system)
    return None if python.exists() else f"there is no {_short(python)}; `make bench` makes it where it can"


def _child(system: System, arguments: list[str]) -> tuple[dict[str, Any] | None, str]:
    """Run a child and read its line; None and a sentence if there is none."""
    python = _python(system)
    try:
        child = subprocess.Popen(
            [str(python), "-m", "bench.child", *arguments],
            cwd=ROOT,
            env={**os.environ, **system.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A child has children of its own, and they are to end with it.
            start_new_session=True,
        )
    except OSError as error:
        return None, f"{_short(python)} cannot be run ({error.strerror})"
    try:
        said, complaint = child.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        _end(child)
        return None, f"gave no figure within {DEADLINE} s"
    except BaseException:  # Ctrl-C, as a rule, which does not reach another session by itself
        _end(child)
        raise
    if child.returncode:
        lines = complaint.strip().splitlines()
        return None, (lines[-1] if lines else f"ended with code {child.returncode}").removeprefix(
            "bench.child: "
        )
    answer = _answer(said)
    return answer, "" if answer is not None else f"gave no figure, but said {said.strip()[-200:]!r}"


def _end(child: subprocess.Popen[str]) -> None:
    """End a child and all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _answer(said: str) -> dict[str, Any] | None:
    """The last line that is an object of JSON: a library may have said something too."""
    for line in reversed(said.splitlines()):
        with suppress(ValueError):
            answer: object = json.loads(line)
            if isinstance(answer, dict):
                return cast("dict[str, Any]", answer)
    return None


def _python(system: System) -> Path:
    return system.python or Path(sys.executable)


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
