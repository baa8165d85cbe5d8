"""Run one workload and tell valgrind when to watch: `valgrind ... python -m bench.instructions.probe WORKLOAD SWITCH`."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from itertools import count

from bandstand.core import LoopConfig
from bench.case import Setting, WrongResultError
from bench.instructions.workload import by_name

WARM_UP = 10
"""How often it runs unwatched. A loop that is entered fewer than eight times is not specialised by Python 3.11."""
LONG_TICK = 60.0
STEP_NS = 10_000
"""What passes between two readings of the wall clock: about what a request to the bus takes outside."""


def lift_time_cap() -> None:
    """Let ticks end by their count, as they do where nothing makes a program fifty times slower."""
    defaults = LoopConfig.__init__.__kwdefaults__
    assert defaults is not None
    assert "max_tick" in defaults
    defaults["max_tick"] = LONG_TICK


def step_wall_clock() -> None:
    """Let the time of day depend on how often it is read: whoever does something every millisecond, as ids do, does it as often as ever.

    Before the bus is imported: it takes the function once.
    """
    time.time_ns = count(time.time_ns(), STEP_NS).__next__


def main(name: str, library: str) -> int:
    lift_time_cap()
    step_wall_clock()
    workload = by_name(name)
    measure, switch = workload.measure(), ctypes.CDLL(library)
    try:
        for _ in range(WARM_UP):
            measure(Setting(workload.size)).check()
        gc.collect()
        gc.freeze()
        for setting in (Setting(workload.size), Setting(2 * workload.size)):
            switch.begin()
            outcome = measure(setting)
            switch.end(b"%d" % setting.size)
            outcome.check()
    except WrongResultError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
