"""Measure one cell in this process and print it as a line of JSON.

    python -m bench.child ping-pong limit 1000000 3
    BANDSTAND_PURE=1 python -m bench.child ping-pong interpreted 200000 3
    python -m bench.child --probe compiled                    can this process measure it, and with what?

Arguments: case, system, size, how often to measure; `--seconds` says what the readings may take together, the first of them apart; `--quick`
shrinks what the size does not say. A cell whose result is wrong ends with code 1 and a sentence.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import TypeAlias

from bench.case import Case, Outcome, Setting, WrongResultError
from bench.cases import by_name as case_by_name
from bench.system import System
from bench.system import by_name as system_by_name

Work: TypeAlias = Callable[[], dict[str, object]]
"""What a child has been told to do, once it is understood."""


def measure(
    case: Case, system: System, setting: Setting, repeats: int, seconds: float = inf
) -> tuple[Outcome, int]:
    """Measure a cell so often, and return the best and of how many it is; every result is checked.

    After the first, none is begun that would not end within so many seconds if it took as long as the longest: so whoever is as
    quick gets as many readings, whatever system it is.

    Raises:
        WrongResultError: a run did not handle what it sent, or the system cannot be measured here.
    """
    function = system.measure(case)
    if function is None:
        raise WrongResultError(f"{case.name} has no measure for {system.name}")
    if refusal := system.refusal():
        raise WrongResultError(refusal)
    system.prepare()
    outcomes: list[Outcome] = []
    begun = last = monotonic()
    longest = 0.0
    while len(outcomes) < repeats and (not outcomes or last - begun + longest <= seconds):
        outcome = function(setting)
        outcome.check()
        outcomes.append(outcome)
        now = monotonic()
        longest, last = max(longest, now - last), now
    return min(outcomes, key=lambda outcome: outcome.value), len(outcomes)


def pin(cores: int | None) -> None:
    """Stay on so many of the cores this process may use, with every thread it will have; None is all of them."""
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def as_json(outcome: Outcome, readings: int) -> dict[str, object]:
    return {
        "value": outcome.value,
        "operations": outcome.operations,
        "sent": outcome.sent,
        "handled": outcome.handled,
        "bound": outcome.bound,
        "details": dict(outcome.details),
        "of_readings": readings,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m bench.child", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("cell", nargs="*", metavar="CASE SYSTEM SIZE REPEATS")
    parser.add_argument("--probe", metavar="SYSTEM")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", metavar="S", type=float, default=inf)
    options = parser.parse_args(arguments)
    # Only what was written wrongly is a wrong option: what a measurement raises has its traceback.
    try:
        work = _probe(options.probe) if options.probe else _cell(options)
    except (LookupError, ValueError) as error:
        parser.error(str(error))
    try:
        print(json.dumps(work()))
    except (ImportError, WrongResultError) as error:
        print(f"bench.child: {error}", file=sys.stderr)
        return 1
    return 0


def _probe(name: str) -> Work:
    system = system_by_name(name)
    return lambda: {"refusal": system.refusal()}


def _cell(options: Namespace) -> Work:
    name, system_name, *numbers = options.cell
    size, repeats = map(int, numbers)
    case, system = case_by_name(name), system_by_name(system_name)

    def work() -> dict[str, object]:
        pin(system.cores)
        setting = Setting(size, is_quick=options.quick, loop_factory=system.loop_factory())
        return as_json(*measure(case, system, setting, repeats, options.seconds))

    return work


if __name__ == "__main__":
    sys.exit(main())
