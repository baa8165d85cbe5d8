"""Memory of an idle actor, in bytes: what the process's resident memory grows by, over how many actors it grew.

*Fresh* has never had a message; *used* has handled one and may hold on to what that took. All share one handler and
have no state of their own; a typed one has an object with one attribute, and a handle, both of which count. `limit` is the least a hand-written actor needs: a handler and a deque of its own. The asyncio
peer is a task that waits for its Queue; Erlang's is a process, its first heap included. Resident memory includes what the allocator wastes, so it is what the machine sees.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections import deque
from contextlib import suppress
from functools import partial

from bandstand.actor import Actor, tell
from bandstand.core import ActorId, Context, LoopConfig
from bench import limit, otp, queues, raw, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import at_most

MOST_PROCESSES = 100_000
"""Of Erlang: ten times as many would tell nothing else."""


def resident() -> int:
    """Bytes of memory this process has in use; where the system does not say, the most it ever had."""
    gc.collect()
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def plain(messages: int, setting: Setting) -> Outcome:
    n, total = setting.size, 0

    def handle(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    actors: list[tuple[limit.Handler, deque[int]] | None] = [None] * n
    before = resident()
    for i in range(n):
        actors[i] = handle, deque()
    for actor in actors * messages:
        assert actor is not None
        actor[1].append(1)
        actor[0](None, actor[1].popleft())
    return outcome(resident() - before, n, messages, total)


def bandstand(messages: int, setting: Setting) -> Outcome:
    n, total = setting.size, 0

    def handle(_ctx: Context[None], one: int) -> None:
        nonlocal total
        total += one

    loop = raw.make(LoopConfig(max_actors=n))
    before = resident()
    actors: list[ActorId] = [loop.spawn(handle) for _ in range(n)]
    for _ in range(messages):
        for actor in actors:
            loop.send(actor, 1)
        loop.run(until_idle=True)
    grown = resident() - before
    alive = loop.statistics().alive
    raw.settle(loop, n * messages)
    return outcome(grown, alive, messages, total)


def classes(messages: int, setting: Setting) -> Outcome:
    n, total = setting.size, 0

    class Counter(Actor):
        def __init__(self) -> None:
            self.total = 0

        @tell
        def add(self, one: int) -> None:
            nonlocal total
            self.total += one
            total += one

    loop = typed.make(LoopConfig(max_actors=n))
    before = resident()
    actors: list[Counter] = [loop.spawn(Counter) for _ in range(n)]
    for _ in range(messages):
        for actor in actors:
            actor.add(1)
        loop.run(until_idle=True)
    grown = resident() - before
    alive = loop.statistics().alive
    raw.settle(loop, n * messages)
    return outcome(grown, alive, messages, total)


async def tasks(messages: int, n: int) -> Outcome:
    total = 0

    def handle(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    actors: list[tuple[asyncio.Queue[int], asyncio.Future[None]] | None] = [None] * n
    before = resident()
    for i in range(n):
        mailbox = asyncio.Queue[int]()
        actors[i] = mailbox, asyncio.ensure_future(queues.serve(mailbox, handle, messages + 1))
    await asyncio.sleep(0)
    living = [actor for actor in actors if actor is not None]
    for _ in range(messages):
        for mailbox, _task in living:
            mailbox.put_nowait(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    grown = resident() - before
    alive = sum(not task.done() for _, task in living)
    for _, task in living:
        task.cancel()
    for _, task in living:
        with suppress(asyncio.CancelledError):
            await task
    return outcome(grown, alive, messages, total)


def with_otp(messages: int, setting: Setting) -> Outcome:
    return otp.run("memory", min(setting.size, MOST_PROCESSES), messages, resource.getpagesize())


def outcome(grown: int, alive: int, messages: int, handled: int) -> Outcome:
    """Count an actor that lives and has handled its messages as one sent and one handled."""
    return Outcome(
        total=max(0, grown), operations=alive, sent=alive * (messages + 1), handled=alive + handled
    )


def case(messages: int, name: str, title: str) -> Case:
    def with_asyncio(setting: Setting) -> Outcome:
        return queues.run(setting, tasks(messages, setting.size))

    return Case(
        name=name,
        title=title,
        what="resident memory of one idle actor among a million (100,000 on the slower systems)",
        size=Size(full=1_000_000, slow=100_000, quick=500),
        measures={
            "limit": partial(plain, messages),
            "raw": partial(bandstand, messages),
            "typed": partial(classes, messages),
            "queues": with_asyncio,
            "erlang": partial(with_otp, messages),
        },
        unit="bytes",
        target=at_most(1024, "bytes"),
        typed_target=at_most(1024, "bytes"),
        repeats=1,
        most_rounds=2,
    )


CASES = (
    case(0, "memory-fresh", "memory of an idle actor, fresh"),
    case(1, "memory-used", "memory of an idle actor, used"),
)
