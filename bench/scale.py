"""How much a run measures, and how often: the same rule for every system."""

from __future__ import annotations

from typing import Literal, TypeAlias

Scale: TypeAlias = Literal["quick", "brief", "full"]
"""Whether it works at all, what fits into some minutes, or everything."""

SECONDS: dict[Scale, float] = {"quick": 0.0, "brief": 1.5, "full": 4.0}
"""What the readings of a cell in one process may take together; the first is taken in any case."""
MOST_BRIEF = 2
"""Readings of a cell in one process of the brief run."""


def repeats(scale: Scale, wanted: int) -> int:
    """How often a process measures its cell, of the times that its case wants."""
    return {"quick": 1, "brief": min(wanted, MOST_BRIEF), "full": wanted}[scale]


def reads(scale: str) -> str:
    """Say for a caption how often a process measures its cell."""
    if scale == "quick":
        return "measured once"
    if scale == "brief":
        return f"measured twice in it, once where two readings take more than {SECONDS['brief']:g} s"
    return f"measured 3 times in it, up to 15 in short rows, fewer where that takes more than {SECONDS['full']:g} s"
