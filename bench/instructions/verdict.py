"""What is said of a figure beside the recorded one: as it was, worse, better, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bench.instructions.record import Record, known_at, nearest_to
from bench.instructions.site import Site
from bench.instructions.workload import YARDSTICK, by_name

WIDE_MARGIN = 0.35
"""By how much the ratio of a figure to the yardstick may grow, where another site is all that is recorded."""

Word: TypeAlias = Literal["ok", "worse", "better", "unrecorded"]


@dataclass(frozen=True)
class Verdict:
    """One workload, judged."""

    name: str
    figure: float
    recorded: float | None
    """What was recorded; at another site, that in proportion to the yardstick here."""
    margin: float
    word: Word

    @property
    def change(self) -> float | None:
        """By what part it grew."""
        return None if self.recorded is None else self.figure / self.recorded - 1


@dataclass(frozen=True)
class Comparison:
    """All that was counted, beside one record."""

    verdicts: Sequence[Verdict]
    beside: Record | None
    is_known: bool
    """Whether the record is this site's own."""

    def having(self, word: Word) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.word == word]


def compare(figures: Mapping[str, float], records: Sequence[Record], site: Site) -> Comparison:
    """Hold figures against the record of this site, or else their ratios to the yardstick against the nearest one's.

    Args:
        figures: instructions an operation, by workload; the yardstick among them, unless the site is known.
    """
    if known := known_at(records, site):
        verdicts = [
            judge(name, figure, known.figures.get(name), by_name(name).margin)
            for name, figure in figures.items()
        ]
        return Comparison(verdicts, known, is_known=True)
    other = nearest_to(records, site)
    if other is None:
        return Comparison(
            [judge(name, figure, None, 0) for name, figure in figures.items()], None, is_known=False
        )
    scale = figures[YARDSTICK] / other.figures[YARDSTICK]
    verdicts = list[Verdict]()
    for name, figure in figures.items():
        recorded = other.figures.get(name)
        verdicts.append(judge(name, figure, None if recorded is None else recorded * scale, WIDE_MARGIN))
    return Comparison(verdicts, other, is_known=False)


def judge(name: str, figure: float, recorded: float | None, margin: float) -> Verdict:
    """Judge one figure. Exactly the margin is still in it."""
    if recorded is None:
        return Verdict(name, figure, None, margin, "unrecorded")
    word: Word = "ok"
    if figure > recorded * (1 + margin):
        word = "worse"
    elif figure < recorded * (1 - margin):
        word = "better"
    return Verdict(name, figure, recorded, margin, word)
