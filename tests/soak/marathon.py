"""World after world, each from a Random of its own that depends on the seed, until the time is over or one fails."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bandstand import _build_mode
from tests.soak.alarms import listening
from tests.soak.books import Fail
from tests.soak.concert import Concert
from tests.soak.memory import MEBIBYTE, Memory
from tests.soak.plan import LoopFactory, Plan
from tests.soak.pods import Storm
from tests.soak.warden import Warden
from tests.soak.world import World, play

LONGEST = 3.0
"""Seconds of the longest world."""
WARM_UP = 0.5
"""The share of the time after which memory must not grow any more."""
LAST = 5
"""How many of the last worlds are looked at."""
JUDGED_FROM = 20.0
"""Seconds of a run from which on its memory is judged: shorter ones are all warm-up."""
MOST_FAILURES = 20
CONCERTS = 0.25
"""How many of the worlds are concerts: nodes of the bus with clients."""
STORMS = 0.1
"""How many are storms over a troupe, in runs that are judged: their processes take seconds to start."""


@dataclass
class Report:
    """What a run has found."""

    seed: int
    mode: str = field(default_factory=_build_mode.mode)
    worlds: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    """Seconds of the slowest concert's 99th percentile: what a client that asked one thing at a time has waited."""
    warm: Memory | None = None
    end: Memory | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "mode": self.mode,
            "worlds": self.worlds,
            "seconds": round(self.seconds, 1),
            "failures": self.failures,
            "counts": dict(self.counts),
            "bus_p99_ms": round(self.slowest * 1000, 1),
            "resident_mib": [
                None if at is None else round(at.resident / MEBIBYTE, 1) for at in (self.warm, self.end)
            ],
            "blocks": [None if at is None else at.blocks for at in (self.warm, self.end)],
        }


def factories() -> tuple[LoopFactory, ...]:
    """Every event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return (asyncio.new_event_loop,)
    return (asyncio.new_event_loop, uvloop.new_event_loop)


def run(
    seed: int,
    seconds: float,
    *,
    loop_factories: tuple[LoopFactory, ...] = (),
    first: int = 0,
    tell: Callable[[Report, str], None] = lambda _report, _plan: None,
    on_hang: Callable[[list[str]], None] | None = None,
) -> Report:
    """Play worlds for about `seconds`, from the `first` on. Ends at the first that fails."""
    report = Report(seed)
    begin = time.monotonic()
    end = begin + seconds
    warm: list[Memory] = []
    late: list[Memory] = []
    number = first
    chosen = loop_factories or factories()
    while not report.failures and (report.worlds == 0 or time.monotonic() < end):
        name = f"{seed}/{number}"
        # A world's plan depends on the seed and on nothing else, so that it can be played again by itself.
        random, most = Random(f"{name}/plan"), min(LONGEST, max(0.3, seconds / 4))
        plan = Plan.draw(random, most, chosen)
        kind = Random(f"{name}/kind").random()
        if kind < CONCERTS:
            concert = Concert(name, most, plan.loop_factory)
            _perform(report, concert, number, most, tell, on_hang)
            report.slowest = max(report.slowest, concert.p99)
        elif kind >= 1 - STORMS and seconds >= JUDGED_FROM:
            _perform(report, Storm(name, most, plan.loop_factory), number, most, tell, on_hang)
        else:
            tell(report, plan.reads())
            _play(report, name, number, plan, on_hang)
        number += 1
        report.worlds += 1
        report.seconds = time.monotonic() - begin
        (warm if report.seconds < seconds * WARM_UP else late).append(Memory.now())
    if warm and late:
        report.warm, report.end = Memory.most(warm), Memory.least(late[-LAST:])
        if seconds >= JUDGED_FROM:
            report.failures += report.end.growth(report.warm)
    return report


def _play(
    report: Report, name: str, number: int, plan: Plan, on_hang: Callable[[list[str]], None] | None
) -> None:
    where = f"world {number} ({plan.reads()})"
    with _guarded(report, where, plan.seconds, on_hang) as fail:
        _count(report, play(name, plan, fail))


def _perform(
    report: Report,
    show: Concert | Storm,
    number: int,
    seconds: float,
    tell: Callable[[Report, str], None],
    on_hang: Callable[[list[str]], None] | None,
) -> None:
    tell(report, show.reads())
    with _guarded(report, f"world {number} ({show.reads()})", seconds, on_hang) as fail:
        show.play(fail)
        report.counts.update(show.counts)


@contextmanager
def _guarded(
    report: Report, where: str, seconds: float, on_hang: Callable[[list[str]], None] | None
) -> Generator[Fail]:
    """Turn whatever goes wrong, on stage or off, into failures of the report; nothing may hang."""

    def fail(sentence: str) -> None:
        if len(report.failures) < MOST_FAILURES:
            report.failures.append(f"{where}: {sentence}")

    warden = (
        None
        if on_hang is None
        else Warden(seconds, lambda: on_hang([*report.failures, f"{where}: it hangs"]))
    )
    try:
        with listening(fail):
            yield fail
    except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
        fail(f"{error!r} came out{_line(error)}")
    finally:
        if warden is not None:
            warden.dismiss()


def _count(report: Report, world: World) -> None:
    books = world.books
    report.counts.update(
        sent=books.tried,
        handled=books.handled,
        refused=books.refused,
        dead=books.dead,
        dropped=books.dropped,
        deeds=world.deeds,
        spawned=world.spawned,
        knocks=world.knocks,
        inner_loops=world.inner_loops,
        **world.sums,
    )


def _line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
