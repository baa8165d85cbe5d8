"""Times of single operations: one of their percentiles is the figure, and how long the slow ones took is in the details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from bench.case import Outcome

Percentile: TypeAlias = Literal["p50_ns", "p99_ns", "p999_ns"]
PARTS: dict[Percentile, int] = {"p50_ns": 500, "p99_ns": 990, "p999_ns": 999}
"""Which of a thousand, in the order of their times."""


def outcome(times: Sequence[int], handled: int, figure: Percentile = "p50_ns") -> Outcome:
    """What so many operations, each timed in nanoseconds, come to; `handled` of them gave the right answer."""
    count = len(times)
    ranked = sorted(times)
    details: dict[str, float] = {name: float(ranked[count * part // 1000]) for name, part in PARTS.items()}
    return Outcome(
        # The figure is the percentile itself, not a share of the sum.
        total=details[figure] * count,
        operations=count,
        sent=count,
        handled=handled,
        details=details,
    )
