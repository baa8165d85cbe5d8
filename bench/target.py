"""What a figure must reach: so many times `limit`, so much by itself, less than a peer takes, or a part of a peer's rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Figure: TypeAlias = Callable[[str], float | None]
"""What another system took, by its name; None where it was not measured."""


@dataclass(frozen=True)
class Target:
    """A bound that the documentation states. Holds for what is compiled."""

    most: float | None
    unit: str
    """`x` for multiples of limit, else the case's own unit."""
    rival: str | None = None
    """A peer that must take longer, where it is measured."""
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    """For each peer, how many times its rate must be reached, where it is measured."""

    def reads(self) -> str:
        bounds: list[str] = []
        if self.most is not None:
            bounds.append(f"≤ {self.most:,.4g} " + ("× limit" if self.unit == "x" else self.unit))
        if self.rival is not None:
            bounds.append(f"< {self.rival.capitalize()}")
        bounds += [f"≥ {least:g} × {peer}'s rate" for peer, least in self.rates.items()]
        return ", ".join(bounds)

    def is_met(self, value: float, figure: Figure) -> bool | None:
        """Say whether `value` reaches all that can be compared; None if nothing can be."""
        checks: list[bool] = []
        if self.most is not None and self.unit != "x":
            checks.append(value <= self.most)
        elif self.most is not None and (limit := figure("limit")):
            checks.append(value / limit <= self.most)
        if self.rival is not None and (theirs := figure(self.rival)) is not None:
            checks.append(value < theirs)
        for peer, least in self.rates.items():
            if (theirs := figure(peer)) is not None:
                checks.append(theirs / value >= least)
        return all(checks) if checks else None


def times_limit(most: float, ahead_of: str | None = None) -> Target:
    return Target(most, "x", ahead_of)


def at_most(most: float, unit: str, ahead_of: str | None = None) -> Target:
    return Target(most, unit, ahead_of)


def ahead_of(rival: str) -> Target:
    return Target(None, "x", rival)


def at_rate(**rates: float) -> Target:
    return Target(None, "x", rates=rates)
