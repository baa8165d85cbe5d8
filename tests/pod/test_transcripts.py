"""The same program under every layout gives the same transcript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec
from tests.pod.program import ITEMS, TICKS, Program, perform
from tests.pod.troupes import COOPERATIVE, DEDICATED, MAIN, PROCESS

pytestmark = [
    pytest.mark.spec("S12", "S19"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

Layout = Mapping[str, PodSpec]


def each_in(thread: ThreadModel) -> Layout:
    """Every role in a pod of its own, all of one kind."""
    return {name: replace(pod, thread=thread) for name, pod in Program.layout().items()}


def grouped(**groups: tuple[ThreadModel, str]) -> Layout:
    """Pods by name: of which kind, and with which roles."""
    roles = {role.name: role for pod in Program.layout().values() for role in pod.roles}
    return {
        name: PodSpec(name=name, thread=thread, roles=tuple(roles[each] for each in names.split()))
        for name, (thread, names) in groups.items()
    }


ALL = "sink double treble clock source"
LAYOUTS: dict[str, Layout] = {
    "one dedicated pod": grouped(all=(DEDICATED, ALL)),
    "one cooperative pod": grouped(all=(COOPERATIVE, ALL)),
    "one main pod": grouped(all=(MAIN, ALL)),
    "one process": grouped(all=(PROCESS, ALL)),
    "each on its own thread": each_in(DEDICATED),
    "each cooperative": each_in(COOPERATIVE),
    "each in its own process": each_in(PROCESS),
    "two processes": grouped(left=(PROCESS, "sink clock"), right=(PROCESS, "double treble source")),
    "a bit of everything": grouped(
        main=(MAIN, "source"),
        thread=(DEDICATED, "sink clock"),
        here=(COOPERATIVE, "double"),
        there=(PROCESS, "treble"),
    ),
    "the sink far away": grouped(
        there=(PROCESS, "sink"), thread=(DEDICATED, "double treble clock"), main=(MAIN, "source")
    ),
}


@cache
def expected() -> dict[str, dict[str, list[str]]]:
    """What everybody must see, written out."""
    items = range(ITEMS)
    workers = {}
    for name in ("double", "treble"):
        workers[name] = {"source": [f"{n} for r1" for n in items] + [f"flushed {ITEMS}"]}
    divided = ["7 / 2", "7 / 0"]
    workers["double"]["source"] += [
        *divided,
        f"flushed {ITEMS}",
        f"flushed {ITEMS}",
        *divided,
        f"flushed {ITEMS}",
    ]
    workers["treble"]["source"] += [f"flushed {ITEMS}"]
    ticks = range(TICKS, -1, -1)
    quotients = ["3.5", "ZeroDivisionError: division by zero"]
    counts = f"[{ITEMS}, {ITEMS}]"
    return {
        "sink": {
            "double, at its start": ["0 for none"],
            "treble, at its start": ["0 for none"],
            "double": [f"{2 * n} for r1" for n in items],
            "treble": [f"{3 * n} for r1" for n in items],
            "double, by control": ["hail"] * 4,
            "treble, by control": ["hail"] * 2,
            "double, by a handle that was given": ["True for r1", "True for r2"],
            # Timers begin anew: what was set when they were set does not travel.
            "clock": [f"{n} for {r if n == TICKS else 'none'}" for r in ("r1", "r2") for n in ticks],
        },
        **workers,
        "clock": {"itself": [f"{n} to come" for n in (*ticks, *ticks)]},
        "source": {"itself": [counts, *quotients, counts, *quotients]},
        "outside": {"source": ["r1", "r2"]},
    }


@pytest.mark.slow
@pytest.mark.guarantee("G172")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
async def test_the_transcript_is_the_same_everywhere(layout: Layout) -> None:
    assert await perform(Program(layout=layout)) == expected()
