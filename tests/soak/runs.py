"""Runs one after another, each from a `Random` of its own, until the time is up or one fails."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bandstand import _build_mode
from tests.soak import loop_run
from tests.soak.checks import no_hang, place_of, unexpected_errors
from tests.soak.loop_run import LoopFactory, Settings
from tests.soak.memory import MEBIBYTE, Memory
from tests.soak.pod_run import PodRun

LONGEST = 3.0
"""Seconds of the longest run."""
WARM_UP = 0.5
"""The share of the time after which memory must not grow any more."""
LAST = 5
"""How many of the last runs are compared with the warm-up."""
JUDGED_FROM = 20.0
"""Seconds from which on memory is compared, and pods are used: shorter soaks are all warm-up, and processes take seconds to start."""
MOST_FAILURES = 20
POD_SHARE = 0.15
"""How many of the runs are about pods."""


@dataclass
class Report:
    """What a soak has found."""

    seed: int
    mode: str = field(default_factory=_build_mode.mode)
    runs: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    warm: Memory | None = None
    end: Memory | None = None

    def as_json(self) -> dict[str, Any]:
        memory = [one for one in (self.warm, self.end) if one is not None]
        return {
            "seed": self.seed,
            "mode": self.mode,
            "runs": self.runs,
            "seconds": round(self.seconds, 1),
            "failures": self.failures,
            "counts": dict(self.counts),
            "resident_mib": [round(one.resident / MEBIBYTE, 1) for one in memory],
            "blocks": [one.blocks for one in memory],
        }


def factories() -> tuple[LoopFactory, ...]:
    """Return the factories of all event loops that are installed."""
    try:
        import uvloop
    except ImportError:
        return (asyncio.new_event_loop,)
    return (asyncio.new_event_loop, uvloop.new_event_loop)


def soak(
    seed: int,
    seconds: float,
    *,
    loop_factories: tuple[LoopFactory, ...] = (),
    first: int = 0,
    tell: Callable[[Report, str], None] = lambda _report, _run: None,
    on_hang: Callable[[list[str]], None] | None = None,
) -> Report:
    """Run for about `seconds`, from the run with the number `first` on, until one fails."""
    report, number, begin = Report(seed), first, time.monotonic()
    warm: list[Memory] = []
    late: list[Memory] = []
    chosen = loop_factories or factories()
    while not report.failures and (report.runs == 0 or report.seconds < seconds):
        # A run depends on the seed and its number alone, so that it can be repeated by itself.
        name = f"{seed}/{number}"
        _one(report, name, min(LONGEST, max(0.3, seconds / 4)), chosen, seconds >= JUDGED_FROM, tell, on_hang)
        number += 1
        report.runs += 1
        report.seconds = time.monotonic() - begin
        (warm if report.seconds < seconds * WARM_UP else late).append(Memory.now())
    if warm and late:
        report.warm, report.end = Memory.most(warm), Memory.least(late[-LAST:])
        if seconds >= JUDGED_FROM:
            report.failures += report.end.growth(report.warm)
    return report


def _one(
    report: Report,
    name: str,
    most: float,
    factories: tuple[LoopFactory, ...],
    with_pods: bool,
    tell: Callable[[Report, str], None],
    on_hang: Callable[[list[str]], None] | None,
) -> None:
    settings = Settings.draw(Random(f"{name}/settings"), most, factories)
    factory = settings.config.loop_factory or factories[0]
    is_about_pods = with_pods and Random(f"{name}/kind").random() < POD_SHARE
    run = PodRun(name, most, factory) if is_about_pods else None
    what = f"run {name} ({run or settings})"
    tell(report, what)

    def fail(sentence: str) -> None:
        if len(report.failures) < MOST_FAILURES:
            report.failures.append(f"{what}: {sentence}")

    with ExitStack() as stack:
        if on_hang is not None:
            stack.enter_context(no_hang(most, lambda: on_hang([*report.failures, f"{what}: it hangs"])))
        stack.enter_context(unexpected_errors(fail))
        try:
            if run is None:
                report.counts.update(loop_run.play(name, settings, fail))
            else:
                run.play(fail)
                report.counts.update(run.counts)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a failure of the run
            fail(f"{error!r} was raised{place_of(error)}")
