"""What one world will be like: everything about it that is decided before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias, get_args

from bandstand.core import LoopConfig

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
Drive: TypeAlias = Literal["run", "ride", "poll"]
"""Who drives the loop: `run()`, `async with` on somebody's event loop, or `poll_once()` by hand."""
End: TypeAlias = Literal["settle", "actor", "thread", "exit", "leave"]
"""How it ends: run dry; `request_stop()` by an actor or a thread in the storm; SystemExit; destroyed as it stands."""

ENDS: dict[Drive, tuple[End, ...]] = {
    "run": ("settle", "settle", "actor", "thread", "exit"),
    "ride": ("settle", "settle", "actor", "thread", "leave"),
    "poll": ("settle", "settle", "actor", "exit", "leave"),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One world's settings, drawn from its own Random."""

    drive: Drive
    end: End
    seconds: float
    config: LoopConfig
    loop_factory: LoopFactory
    population: int
    """How many players there are at most at one time."""
    threads: int
    is_observed: bool
    """Whether an observer hears of everything. Without one, only the sums can be checked."""
    mischief: float
    """How often a hook of that observer raises, sends, stops or spawns."""
    is_shuffled: bool

    @classmethod
    def draw(cls, random: Random, seconds: float, factories: tuple[LoopFactory, ...]) -> Plan:
        """Draw a plan for a world of about `seconds`."""
        drive: Drive = random.choice(get_args(Drive))
        factory = random.choice(factories)
        config = LoopConfig(
            max_actors=random.choice((48, 500, 65_536)),
            default_mailbox_cap=random.choice((8, 64, 1024)),
            sys_reserved=random.choice((1, 4)),
            max_msgs_per_actor=random.choice((1, 7, 64)),
            max_actors_per_tick=random.choice((1, 32, 1024)),
            max_tick=random.choice((0.000_2, 0.001, 0.005)),
            stop_timeout=random.choice((0.001, 3.0, 3.0)),
            stall_timeout=random.choice((None, None, None, 20.0)),
            fd_sweep_period=random.choice((0.005, 0.04)),
            loop_factory=factory,
        )
        return cls(
            drive=drive,
            end=random.choice(ENDS[drive]),
            seconds=seconds * random.uniform(0.5, 1.0),
            config=config,
            loop_factory=factory,
            population=random.choice((20, 60, 400)),
            threads=random.choice((0, 1, 2, 3)),
            is_observed=random.random() < 0.8,
            mischief=random.choice((0.0, 0.0, 0.02)),
            is_shuffled=random.random() < 0.25,
        )

    def reads(self) -> str:
        """Say in a few words what it is."""
        name = getattr(self.loop_factory, "__module__", "?").partition(".")[0]
        seen = "observed" if self.is_observed else "unobserved"
        return (
            f"{self.drive} on {name}, ends by {self.end}, {self.threads} threads, {seen}"
            f"{', mischief' if self.mischief else ''}{', shuffled' if self.is_shuffled else ''}"
        )
