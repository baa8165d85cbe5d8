"""Counting (Savina 3): one actor sends another a million messages in one go. Measures a mailbox's throughput.

The whole million waits in one mailbox before the first is handled, in every system: so growing the queue counts too.
An operation is one message.

This row has no target: `limit` keeps a million tuples waiting, and the garbage collector, which stays on, walks through
them again and again; a mailbox that keeps no object a message is ahead of it without any merit of its own. The row below,
with short queues, is where the target holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import repeat

from bandstand.core import Context
from bandstand.service import Actor, data
from bench import limit, otp, queues, raw, typed
from bench.case import Case, Outcome, Setting, Size


def plain(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def produce(_ctx: None, n: int) -> None:
        for _ in repeat(None, n):
            append((count, 1))

    def count(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    append((produce, n))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    loop = raw.make()
    send = loop.send

    def produce(_ctx: Context[None], n: int) -> None:
        for _ in repeat(None, n):
            send(counter, 1)

    def count(_ctx: Context[None], one: int) -> None:
        nonlocal total
        total += one

    producer = loop.spawn(produce)
    counter = loop.spawn(count, mailbox_cap=n + 8)
    send(producer, n)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def classes(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    loop = typed.make()

    class Producer(Actor):
        @data
        def produce(self, n: int) -> None:
            for _ in repeat(None, n):
                counter.count(1)

    class Counter(Actor):
        @data
        def count(self, one: int) -> None:
            nonlocal total
            total += one

    producer = loop.spawn(Producer)
    counter = loop.options(mailbox_cap=n + 8).spawn(Counter)
    producer.produce(n)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(n: int) -> Outcome:
    total = 0
    mailbox, orders = asyncio.Queue[int](), asyncio.Queue[int]()
    put = mailbox.put_nowait

    def produce(_ctx: None, n: int) -> None:
        for _ in repeat(None, n):
            put(1)

    def count(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    actors = [queues.serve(orders, produce, 1), queues.serve(mailbox, count, n)]
    elapsed = await queues.drain(actors, lambda: orders.put_nowait(n))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="counting",
    title="counting, a million at once",
    what="a million messages from one actor to one other, all at once (Savina 3)",
    size=Size(full=1_000_000, slow=1_000_000, quick=2_000),
    savina=3,
    measures={
        "limit": plain,
        "raw": bandstand,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "erlang": lambda setting: otp.run("counting", setting.size, setting.size),
    },
)
