"""Counting by the batch: the million messages of `counting` at once, to an actor that takes them as lists. Savina has no such case.

Whoever sends, sends one by one, as in `counting`; who receives adds up up to a thousand at a time. An operation is one message.
Erlang has no such thing, since a `receive` takes one: its figure is that of `counting`, message for message. `limit` is a
list that is appended to and cut into lists; the asyncio peer waits for one message and takes the rest without waiting.
"""

from __future__ import annotations

import asyncio
from itertools import repeat

from bandstand.actor import Actor, batch, tell
from bench import otp, queues, raw, stopwatch, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import ahead_of

MOST = 1_000


def plain(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    waiting: list[int] = []
    append = waiting.append

    def count(ones: list[int]) -> None:
        nonlocal total
        total += sum(ones)

    start = stopwatch.start()
    for _ in repeat(None, n):
        append(1)
    for first in range(0, n, MOST):
        count(waiting[first : first + MOST])
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def classes(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    loop = typed.make()

    class Producer(Actor):
        @tell
        def produce(self, n: int) -> None:
            for _ in repeat(None, n):
                counter.count(1)

    class Counter(Actor):
        @batch(limit=MOST)
        def count(self, ones: list[int]) -> None:
            nonlocal total
            total += sum(ones)

    producer = loop.spawn(Producer)
    counter = loop.options(mailbox=n).spawn(Counter)
    elapsed = raw.drain(loop, lambda: producer.produce(n))
    raw.settle(loop, n + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(n: int) -> Outcome:
    total = 0
    mailbox, orders = asyncio.Queue[int](), asyncio.Queue[int]()
    put = mailbox.put_nowait

    def produce(_ctx: None, n: int) -> None:
        for _ in repeat(None, n):
            put(1)

    async def count() -> None:
        nonlocal total
        get, get_nowait, empty = mailbox.get, mailbox.get_nowait, mailbox.empty
        while total < n:
            ones = [await get()]
            while len(ones) < MOST and not empty():
                ones.append(get_nowait())
            total += sum(ones)

    actors = [queues.serve(orders, produce, 1), count()]
    elapsed = await queues.drain(actors, lambda: orders.put_nowait(n))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="counting-batch",
    title="counting, in lists",
    what="a million messages from one actor to one other, which takes them a thousand at a time",
    size=Size(full=1_000_000, slow=1_000_000, quick=2_000),
    measures={
        "limit": plain,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "erlang": lambda setting: otp.run("counting", setting.size, setting.size),
    },
    typed_target=ahead_of("erlang"),
)
