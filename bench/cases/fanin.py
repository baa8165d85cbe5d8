"""Fan-in: a hundred actors send to one. Measures many senders into one mailbox.

Each sends bursts of ten; the sink answers the last of a burst, and its sender goes on. So at most a thousand messages wait
in every system, the sink keeps its default cap, and the garbage collector has no long queue to walk through (see
`counting`). An operation is one message to the sink; the answer, one in ten, is paid for by the ten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import repeat

from bandstand.core import ActorId, Context
from bench import limit, queues, raw
from bench.case import Case, Outcome, Setting, Size

SENDERS = 100
BURST = 10


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def sender() -> limit.Handler:
        left = bursts

        def produce(_ctx: None, _go: None) -> None:
            nonlocal left
            if left:
                left -= 1
                for _ in repeat(None, BURST - 1):
                    append((count, None))
                append((count, produce))

        return produce

    def count(_ctx: None, last_of: limit.Handler | None) -> None:
        nonlocal total
        total += 1
        if last_of is not None:
            append((last_of, None))

    for _ in range(SENDERS):
        append((sender(), None))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    bursts, total = setting.size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    loop = raw.make()
    send = loop.send

    def sender() -> ActorId:
        left = bursts

        def produce(_ctx: Context[None], _go: None) -> None:
            nonlocal left
            if left:
                left -= 1
                for _ in repeat(None, BURST - 1):
                    send(sink, None)
                send(sink, me)

        me = loop.spawn(produce)
        return me

    def count(_ctx: Context[None], last_of: ActorId | None) -> None:
        nonlocal total
        total += 1
        if last_of is not None:
            send(last_of, None)

    sink = loop.spawn(count)
    for _ in range(SENDERS):
        send(sender(), None)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + SENDERS * (bursts + 1))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int) -> Outcome:
    bursts, total = size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    sink = asyncio.Queue[Callable[[None], None] | None]()
    orders = [asyncio.Queue[None]() for _ in range(SENDERS)]
    put = sink.put_nowait

    def sender(me: Callable[[None], None]) -> queues.Handler:
        left = bursts

        def produce(_ctx: None, _go: None) -> None:
            nonlocal left
            if left:
                left -= 1
                for _ in repeat(None, BURST - 1):
                    put(None)
                put(me)

        return produce

    def count(_ctx: None, last_of: Callable[[None], None] | None) -> None:
        nonlocal total
        total += 1
        if last_of is not None:
            last_of(None)

    def begin() -> None:
        for queue in orders:
            queue.put_nowait(None)

    senders = [queues.serve(queue, sender(queue.put_nowait), bursts + 1) for queue in orders]
    elapsed = await queues.drain([queues.serve(sink, count, n), *senders], begin)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="fan-in",
    title="fan-in, 100 to 1",
    what="a hundred actors send to one, in bursts of ten",
    size=Size(full=1_000_000, slow=300_000, quick=2_000),
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
    },
)
