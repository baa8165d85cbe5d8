"""What a figure must reach: so many times `limit`, or so much by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A bound from design.md's table, or one that the documentation states. Holds for the compiled kernel."""

    most: float
    unit: str
    """`x` for multiples of limit, else the case's own unit."""

    def reads(self) -> str:
        return f"≤ {self.most:,.4g} " + ("× limit" if self.unit == "x" else self.unit)

    def is_met(self, value: float, limit: float | None) -> bool | None:
        """Say whether `value` reaches it; None if there is no limit to compare with."""
        if self.unit != "x":
            return value <= self.most
        return None if not limit else value / limit <= self.most


def times_limit(most: float) -> Target:
    return Target(most, "x")


def at_most(most: float, unit: str) -> Target:
    return Target(most, unit)
