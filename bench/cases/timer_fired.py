"""Timers set and fired: a hundred thousand, due within ten milliseconds, a thousand for each of a hundred actors.

Setting them takes longer than they take to be due, so nobody waits and the whole is work. An operation is one timer set
and its message handled.

bandstand's timer becomes a message in a mailbox and is handled in its turn, and so does Erlang's; `limit` (the standard library's heap) and
asyncio (`call_later`) call the handler as soon as it is due, without a mailbox: less is done there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from time import monotonic_ns
from typing import Any

from bandstand.core import Context
from bench import otp, queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size
from bench.target import ahead_of

ACTORS = 100
MS = [i % 10 + 1 for i in range(ACTORS)]
SECONDS = [ms / 1000 for ms in MS]
"""Milliseconds, by actor."""


def plain(setting: Setting) -> Outcome:
    share, total = setting.size // ACTORS, 0
    n = share * ACTORS
    heap: list[tuple[int, int, Any, int]] = []
    number = count()

    def handle(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    start = stopwatch.start()
    for _ in range(share):
        for ms in MS:
            heappush(heap, (monotonic_ns() + ms * 1_000_000, next(number), handle, 1))
    now = monotonic_ns()
    while heap:
        if heap[0][0] > now:
            now = monotonic_ns()
            continue
        _, _, handler, data = heappop(heap)
        handler(None, data)
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    share, total = setting.size // ACTORS, 0
    n = share * ACTORS
    loop = raw.make()
    send_after = loop.send_after

    def handle(_ctx: Context[None], one: int) -> None:
        nonlocal total
        total += one

    actors = [loop.spawn(handle) for _ in range(ACTORS)]

    def schedule(_ctx: Context[None], share: int) -> None:
        for _ in range(share):
            for actor, delay in zip(actors, SECONDS, strict=True):
                send_after(actor, delay, 1)

    scheduler = loop.spawn(schedule)
    elapsed = raw.drain(loop, lambda: loop.send(scheduler, share))
    raw.settle(loop, n + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int) -> Outcome:
    share, total = size // ACTORS, 0
    n = share * ACTORS
    loop = asyncio.get_running_loop()
    call_later: Callable[..., object] = loop.call_later
    done = loop.create_future()

    def handle(_ctx: None, one: int) -> None:
        nonlocal total
        total += one
        if total == n:
            done.set_result(None)

    start = stopwatch.start()
    for _ in range(share):
        for ms in MS:
            call_later(ms / 1000, handle, None, 1)
    await done
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="timers-fired",
    title="timer fired",
    what="a timer set, due and handled; 100,000 due within 10 ms",
    size=Size(full=100_000, slow=100_000, quick=1_000),
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "erlang": lambda setting: otp.run("fired", setting.size // ACTORS * ACTORS, ACTORS),
    },
    target=ahead_of("erlang"),
)
