"""Times of single operations: their median is the figure, and how long the slow ones took is in the details."""

from __future__ import annotations

from collections.abc import Sequence

from bench.case import Outcome


def outcome(times: Sequence[int], handled: int) -> Outcome:
    """What so many operations, each timed in nanoseconds, come to; `handled` of them gave the right answer."""
    count = len(times)
    ranked = sorted(times)
    median, slow = ranked[count // 2], ranked[count * 99 // 100]
    return Outcome(
        # The figure is the median itself, not a share of the sum.
        total=float(median * count),
        operations=count,
        sent=count,
        handled=handled,
        details={"p50_ns": float(median), "p99_ns": float(slow)},
    )
