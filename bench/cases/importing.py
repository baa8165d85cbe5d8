"""What an import costs, in milliseconds: a fresh interpreter with it, less a fresh interpreter without.

The two are started in turn, and the best of each is taken, so that a busy moment hits both. Files are in the system's cache and
compiled to byte code; nothing else of an earlier start is left. That the import did happen is checked in each.

`import bandstand` loads what is asked for when it is asked for, so the row with the names that one needs to write an actor is the
honest one. The peers are there with what one imports of them to begin with, in both rows.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from time import perf_counter_ns

from bench.case import Case, Kind, Measure, Outcome, Setting, Size, WrongResultError
from bench.target import at_most

MILLISECOND = 1_000_000
CHECK = "; import sys; print({module!r} in sys.modules)"


def importing(statement: str, module: str, setting: Setting) -> Outcome:
    """Start so many pairs of interpreters."""
    imported = bare = sys.maxsize
    rounds, done = setting.size, 0
    for _ in range(rounds):
        took, is_there = started("pass", module)
        if is_there:
            raise WrongResultError(f"an interpreter has {module} before it is imported")
        bare = min(bare, took)
        took, is_there = started(statement, module)
        imported = min(imported, took)
        done += is_there
    return Outcome(
        total=max(0, imported - bare) / MILLISECOND,
        operations=1,
        sent=rounds,
        handled=done,
        details={"bare_ms": bare / MILLISECOND},
    )


def started(statement: str, module: str) -> tuple[int, bool]:
    """Run a statement in an interpreter of its own; the nanoseconds, and whether the module is there in the end."""
    begin = perf_counter_ns()
    run = subprocess.run(
        [sys.executable, "-c", statement + CHECK.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed = perf_counter_ns() - begin
    if run.returncode:
        raise WrongResultError(f"{statement!r} ended with code {run.returncode}: {run.stderr.strip()[-200:]}")
    return elapsed, run.stdout.strip() == "True"


def event_loop(setting: Setting) -> Outcome:
    """What one imports where there is nothing but an event loop."""
    module = "asyncio" if setting.loop_factory is asyncio.new_event_loop else "uvloop"
    return importing(f"import {module}", module, setting)


PEERS: Mapping[Kind, Measure] = {
    "queues": event_loop,
    "pykka": partial(importing, "import pykka", "pykka"),
    "thespian": partial(importing, "import thespian.actors", "thespian.actors"),
    "xoscar": partial(importing, "import xoscar", "xoscar"),
}

case = partial(
    Case,
    size=Size(full=20, slow=20, quick=1),
    unit="ms",
    target=at_most(60, "ms"),
    repeats=1,
    most_rounds=3,
)

CASES = (
    case(
        name="import",
        title="import bandstand",
        what="a cold import, less the start of the interpreter",
        measures={"raw": partial(importing, "import bandstand", "bandstand"), **PEERS},
    ),
    case(
        name="import-actors",
        title="import what an actor needs",
        what="a cold `from bandstand import Actor, ActorSystem, ask, tell`, less the start of the interpreter",
        measures={
            "raw": partial(
                importing, "from bandstand import Actor, ActorSystem, ask, tell", "bandstand.actor"
            ),
            **PEERS,
        },
    ),
)
