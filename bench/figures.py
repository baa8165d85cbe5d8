"""A run as its JSON tells it: what the chart and the page are made of. Reading it needs nothing of bandstand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class NoFiguresError(Exception):
    """There is nothing to show, or it must not be shown; the sentence says what to do."""


@dataclass(frozen=True)
class Row:
    """A case and the figures of the systems that have one."""

    name: str
    title: str
    what: str
    unit: str
    table: str
    savina: int | None
    values: dict[str, float]
    ratios: dict[str, float]

    def rate(self, system: str) -> float | None:
        """Operations a second, where what is measured is a time."""
        value = self.values.get(system)
        return 1e9 / value if self.unit == "ns" and value else None


@dataclass(frozen=True)
class Figures:
    """All of a run that is shown somewhere."""

    machine: dict[str, str]
    versions: dict[str, str]
    rounds: int
    scale: str
    headings: dict[str, str]
    """What each system is called, in the order of the columns."""
    rows: list[Row]
    ranking: list[dict[str, Any]]

    @property
    def actors(self) -> list[Row]:
        return [row for row in self.rows if row.table == "actors"]

    @property
    def savina(self) -> list[Row]:
        """The cases of the Savina suite, by their numbers."""
        return sorted(
            (row for row in self.actors if row.savina is not None and row.unit == "ns"),
            key=lambda row: row.savina or 0,
        )

    def present(self, rows: list[Row]) -> list[str]:
        """Which systems have a figure in any of these rows, in the order of the columns."""
        return [system for system in self.headings if any(system in row.values for row in rows)]

    @property
    def command(self) -> str:
        return "make bench" if self.scale == "brief" else "make bench-full"


def load(path: Path) -> Figures:
    """Read a run.

    Raises:
        NoFiguresError: it is not there, is none, or its figures mean nothing.
    """
    try:
        known: dict[str, Any] = json.loads(path.read_text("utf-8"))
        figures = _figures(known)
    except FileNotFoundError:
        raise NoFiguresError(f"there is no {path}: `make bench` or `make bench-full` measures it") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoFiguresError(
            f"{path} is not what `python -m bench --json` writes ({type(error).__name__}: {error})"
        ) from None
    if figures.scale == "quick":
        raise NoFiguresError(f"{path} is of a --quick run: its figures mean nothing")
    if known["partial"]:
        raise NoFiguresError(f"{path} is of a run that was interrupted: measure again")
    return figures


def _figures(known: dict[str, Any]) -> Figures:
    return Figures(
        machine=known["machine"],
        versions=known["versions"],
        rounds=known["rounds"],
        scale=known["scale"],
        headings={system["name"]: system["heading"] for system in known["systems"]},
        rows=[_row(case) for case in known["cases"]],
        ranking=known["ranking"],
    )


def _row(case: dict[str, Any]) -> Row:
    cells = {system: cell for system, cell in case["cells"].items() if cell is not None}
    return Row(
        **{name: case[name] for name in ("name", "title", "what", "unit", "table", "savina")},
        values={system: cell["value"] for system, cell in cells.items() if cell["value"] is not None},
        ratios={system: cell["ratio"] for system, cell in cells.items() if cell["ratio"] is not None},
    )
