"""Requests from inside the program: `await node.bus.ask(Get(...))`, one at a time, and from a hundred tasks at once.

Nothing is spared: the message is encoded, validated, routed, decoded for the capability, and its answer likewise for the asker,
so that nobody shares data with anybody.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import repeat

from bandstand.core.asyncio_host import new_event_loop
from bench import stopwatch
from bench.caller import VALUES
from bench.case import Case, Outcome, Setting, Size

TASKS = 100


def asks(setting: Setting, *, tasks: int) -> Outcome:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_asks(setting.size // tasks, tasks))


async def _asks(each: int, tasks: int) -> Outcome:
    from bandstand.bus.memory import Get
    from bench import lines

    handled = 0
    async with lines.node(None) as node:
        ask = node.bus.ask

        async def go(key: str, value: str) -> None:
            nonlocal handled
            for _ in repeat(None, each):
                answer = await ask(Get(key=key))
                handled += answer.value == value

        pairs = list(VALUES.items())[:tasks]
        start = stopwatch.start()
        if tasks == 1:
            await go(*pairs[0])
        else:
            await asyncio.gather(*(go(key, value) for key, value in pairs))
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=each * tasks, sent=each * tasks, handled=handled)


CASES = (
    Case(
        name="bus-ask",
        title="ask from inside",
        what="`await node.bus.ask(...)`, one at a time",
        size=Size(full=50_000, slow=10_000, quick=200),
        measures={"bus": partial(asks, tasks=1)},
    ),
    Case(
        name="bus-ask-100",
        title="ask from inside, 100 in flight",
        what="the same from a hundred tasks at once",
        size=Size(full=100_000, slow=20_000, quick=1_000),
        measures={"bus": partial(asks, tasks=TASKS)},
    ),
)
