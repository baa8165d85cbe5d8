"""Ray as a peer, where somebody has installed it: an actor in a worker process on this machine.

Nothing here needs it, and it is large: `make bench` does not install it, `make bench-full` does.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from bench import latency, stopwatch
from bench.case import Outcome

PATIENCE = 60.0


def refusal() -> str | None:
    """Say why this process cannot measure it; None if it can."""
    try:
        import_module("ray")
    except ImportError:
        return "Ray is not installed; `make bench-full` puts it into .venvs/bench where it can"
    return None


class Adder:
    """What its actor is made of."""

    def __init__(self) -> None:
        self.total = 0

    def plus(self, one: int) -> int:
        self.total += one
        return self.total


# Any: it is not installed where types are checked.
@contextmanager
def living() -> Generator[tuple[Any, Any]]:
    """The library, and an actor of its."""
    ray: Any = import_module("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        actor = ray.remote(Adder).remote()
        ray.get(actor.plus.remote(0), timeout=PATIENCE)
        yield ray, actor
    finally:
        ray.shutdown()


def tell(count: int) -> Outcome:
    """So many calls whose results nobody wants; its calls of one actor are handled in order, so the last one says it all."""
    with living() as (ray, actor):
        plus = actor.plus.remote
        start = stopwatch.start()
        for _ in repeat(None, count):
            plus(1)
        total = ray.get(plus(0), timeout=PATIENCE)
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=count, sent=count, handled=total)


def ask(count: int) -> Outcome:
    """One call at a time, each waited for."""
    times: list[int] = []
    right = 0
    with living() as (ray, actor):
        plus, get = actor.plus.remote, ray.get
        stopwatch.start()
        for expected in range(1, count + 1):
            start = perf_counter_ns()
            answer = get(plus(1), timeout=PATIENCE)
            times.append(perf_counter_ns() - start)
            right += answer == expected
    return latency.outcome(times, right)
