"""Counting through a mailbox of ordinary size: bursts of 500, the next when the last has been handled.

The counter answers the last message of a burst, and only then the producer goes on: at most 500 messages wait in every
system, limit included, so the three have the same queue profile and bandstand keeps its default cap of 1024. (If the
producer went on by a message to itself, bandstand would give it a turn after 64 handled messages and fill the mailbox,
where a single deque would not.) With short queues the garbage collector has nothing to walk through. An operation is one counted message; the answer, one in 500, is not counted as one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import repeat
from threading import Event

from bandstand.core import Context
from bandstand.service import Actor, data
from bench import limit, otp, queues, raw, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import times_limit

BURST = 500


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def produce(_ctx: None, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                append((count, 0))
            append((count, burst))

    def count(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            append((produce, last_of - 1))

    append((produce, bursts))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = raw.make()
    send = loop.send

    def produce(_ctx: Context[None], burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                send(counter, 0)
            send(counter, burst)

    def count(_ctx: Context[None], last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            send(producer, last_of - 1)

    producer = loop.spawn(produce)
    counter = loop.spawn(count)
    send(producer, bursts)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = typed.make()

    class Producer(Actor):
        @data
        def produce(self, burst: int) -> None:
            if burst:
                for _ in repeat(None, BURST - 1):
                    counter.count(0)
                counter.count(burst)

    class Counter(Actor):
        @data
        def count(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                producer.produce(last_of - 1)

    producer, counter = loop.spawn(Producer), loop.spawn(Counter)
    producer.produce(bursts)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int) -> Outcome:
    bursts, total = size // BURST, 0
    n = bursts * BURST
    mailbox, orders = asyncio.Queue[int](), asyncio.Queue[int]()
    put, order = mailbox.put_nowait, orders.put_nowait

    def produce(_ctx: None, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                put(0)
            put(burst)

    def count(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            order(last_of - 1)

    actors = [queues.serve(orders, produce, bursts + 1), queues.serve(mailbox, count, n)]
    elapsed = await queues.drain(actors, lambda: order(bursts))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def pykka(setting: Setting) -> Outcome:
    bursts, total, done = setting.size // BURST, 0, Event()
    n = bursts * BURST

    def produce(_ctx: object, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                counter.tell(0)
            counter.tell(burst)
        else:
            done.set()

    def count(_ctx: object, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            producer.tell(last_of - 1)

    with threads.living(produce, count) as (producer, counter):
        start = stopwatch.start()
        producer.tell(bursts)
        done.wait()
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="counting-bounded",
    title="counting, bursts of 500",
    what="the same through a mailbox of default size, never more than 500 waiting",
    size=Size(full=1_000_000, slow=500_000, quick=2_000),
    measures={
        "limit": plain,
        "raw": bandstand,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "pykka": pykka,
        "erlang": lambda setting: otp.run("counting", setting.size // BURST * BURST, BURST),
    },
    target=times_limit(1.4),
    typed_target=times_limit(2.5),
)
