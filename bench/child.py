"""Measure one cell in this process and print it as a line of JSON.

    python -m bench.child ping-pong limit 1000000 3
    BANDSTAND_PURE=1 python -m bench.child ping-pong interpreted 200000 3
    python -m bench.child --probe compiled                    can this process measure it, and with what?

Arguments: case, system, size, how often to measure; `--quick` shrinks what the size does not say. A cell whose result is
wrong ends with code 1 and a sentence.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from bench.case import Case, Outcome, Setting, WrongResultError
from bench.cases import by_name as case_by_name
from bench.system import System
from bench.system import by_name as system_by_name


def measure(case: Case, system: System, setting: Setting, repeats: int) -> Outcome:
    """Measure a cell so often and return the best; every result is checked.

    Raises:
        WrongResultError: a run did not handle what it sent, or the system cannot be measured here.
    """
    function = system.measure(case)
    if function is None:
        raise WrongResultError(f"{case.name} has no measure for {system.name}")
    if refusal := system.refusal():
        raise WrongResultError(refusal)
    outcomes = [function(setting) for _ in range(repeats)]
    for outcome in outcomes:
        outcome.check()
    return min(outcomes, key=lambda outcome: outcome.value)


def pin(cores: int | None) -> None:
    """Stay on so many of the cores this process may use, with every thread it will have; None is all of them."""
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "value": outcome.value,
        "operations": outcome.operations,
        "sent": outcome.sent,
        "handled": outcome.handled,
        "bound": outcome.bound,
        "details": dict(outcome.details),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m bench.child", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("cell", nargs="*", metavar="CASE SYSTEM SIZE REPEATS")
    parser.add_argument("--probe", metavar="SYSTEM")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.probe:
            print(json.dumps({"refusal": system_by_name(options.probe).refusal()}))
            return 0
        name, system_name, size, repeats = options.cell
        system = system_by_name(system_name)
        pin(system.cores)
        setting = Setting(int(size), is_quick=options.quick, loop_factory=system.loop_factory())
        outcome = measure(case_by_name(name), system, setting, int(repeats))
    except (LookupError, ValueError) as error:
        parser.error(str(error))
    except (ImportError, WrongResultError) as error:
        print(f"bench.child: {error}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(outcome)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
