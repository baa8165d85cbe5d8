"""What a case is: one row of the table, with a way to measure it on each kind of system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.target import Target

Unit: TypeAlias = Literal["ns", "bytes", "ms"]
Kind: TypeAlias = Literal[
    "limit",
    "raw",
    "typed",
    "queues",
    "pykka",
    "thespian",
    "xoscar",
    "erlang",
    "bus",
    "echo",
    "web",
    "channel",
    "queue",
    "stream",
    "pod",
    "queued",
    "one",
    "bare",
    "mp",
    "executor",
    "shared",
    "threads",
    "ray",
    "journal",
    "sqlite",
    "file",
    "memory",
    "persistent",
    "aggregates",
    "workflows",
    "commits",
]


class WrongResultError(Exception):
    """A case did not handle what it sent."""


@dataclass(frozen=True)
class Setting:
    """What a measure is told: how much to do, and which event loop to ride where it makes its own."""

    size: int
    is_quick: bool = False
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a measure found. `total / operations` is the figure, in the case's unit."""

    total: float
    operations: int
    sent: int
    """What had to arrive, known from the case's own arithmetic."""
    handled: int
    """What did arrive, by the handlers' own counting."""
    bound: float | None = None
    """What the documentation promises for this very run, where that depends on the run."""
    details: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def value(self) -> float:
        return self.total / self.operations

    def check(self) -> None:
        """Refuse a figure of a run that lost or doubled something.

        Raises:
            WrongResultError: handled is not sent, or nothing was sent at all.
        """
        if self.handled != self.sent or self.sent < 1 or self.operations < 1:
            raise WrongResultError(
                f"{self.sent} were sent and {self.handled} handled: the figure means nothing"
            )


Measure: TypeAlias = Callable[[Setting], Outcome]


@dataclass(frozen=True)
class Size:
    """How much a cell does: on fast systems, on those that are ten times slower, and under --quick."""

    full: int
    slow: int
    quick: int
    brief: int | None = None
    """No more than this in the brief run, where the others would take too long for it."""
    least: int = 0
    """No less than this for anybody, save under --quick, where with less of it the work would be another."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row. A kind of system without a measure shows a dash."""

    name: str
    """For --case and JSON."""
    title: str
    """For the table."""
    what: str
    """One line: what is measured."""
    size: Size
    measures: Mapping[Kind, Measure]
    unit: Unit = "ns"
    target: Target | None = None
    """What the compiled kernel, a channel, a pod or the bus must reach; an outcome's own `bound` comes before it."""
    typed_target: Target | None = None
    """What typed actors on it must reach."""
    repeats: int = 3
    """How often a child measures, if there is time for it; it reports the best."""
    most_rounds: int = 99
    """Rounds after which more would tell nothing new."""
    savina: int | None = None
    """Its number in the Savina suite, where it is one of that."""
    is_brief: bool = True
    """Whether the brief run measures it too, or only the full one: what takes long, or tells little that others do not."""
