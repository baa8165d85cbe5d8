"""Async behaviors: messages to an `async def`, one that never suspends and one that gives the host a turn each time.

Counting again, in bursts of 500 (see `bounded`): the counter is a coroutine function and answers the last message of a
burst. An operation is one counted message.

What is comparable: `limit` makes a coroutine for each message and steps it by hand, one that has suspended once more from
the end of its deque: what coroutines cost by themselves, without a task. asyncio's actor is a task that awaits its Queue and then the handler, so an `await handler()` that never
suspends is a plain call there, inside a task that runs anyway; it has no context of its own for each message, cannot be
cancelled message by message, and knows no bounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from itertools import repeat
from types import coroutine
from typing import Any

from bandstand.actor import Actor, tell
from bandstand.core import Context
from bench import limit, queues, raw, typed
from bench.case import Case, Kind, Measure, Outcome, Setting, Size

BURST = 500


@coroutine
def turn() -> Generator[None]:
    """Give whoever drives the coroutine a turn, as `asyncio.sleep(0)` does."""
    yield


def stepper(tasks: limit.Tasks) -> limit.Handler:
    """Make a handler that steps a coroutine once, and queues it again if it has suspended."""
    append = tasks.append

    def step(_ctx: None, job: Coroutine[Any, Any, None]) -> None:
        try:
            job.send(None)
        except StopIteration:
            return
        append((step, job))

    return step


def plain(setting: Setting, *, suspends: bool) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def produce(_ctx: None, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                append((begin, 0))
            append((begin, burst))

    async def count(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            append((produce, last_of - 1))

    async def count_later(_ctx: None, last_of: int) -> None:
        nonlocal total
        await turn()
        total += 1
        if last_of:
            append((produce, last_of - 1))

    counter = count_later if suspends else count
    step = stepper(tasks)

    def begin(ctx: None, data: int) -> None:
        step(ctx, counter(ctx, data))

    append((produce, bursts))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting, *, suspends: bool) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = raw.make()
    send, sleep = loop.send, asyncio.sleep

    def produce(_ctx: Context[None], burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                send(counter, 0)
            send(counter, burst)

    async def count(_ctx: Context[None], last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            send(producer, last_of - 1)

    async def count_later(_ctx: Context[None], last_of: int) -> None:
        nonlocal total
        await sleep(0)
        total += 1
        if last_of:
            send(producer, last_of - 1)

    producer = loop.spawn(produce)
    counter = loop.spawn(count_later if suspends else count)
    elapsed = raw.drain(loop, lambda: send(producer, bursts))
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def classes(setting: Setting, *, suspends: bool) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = typed.make()
    sleep = asyncio.sleep

    class Producer(Actor):
        @tell
        def produce(self, burst: int) -> None:
            if burst:
                for _ in repeat(None, BURST - 1):
                    counter.count(0)
                counter.count(burst)

    class Counter(Actor):
        @tell
        async def count(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                producer.produce(last_of - 1)

    class Later(Counter):
        @tell
        async def count(self, last_of: int) -> None:
            nonlocal total
            await sleep(0)
            total += 1
            if last_of:
                producer.produce(last_of - 1)

    producer, counter = loop.spawn(Producer), loop.spawn(Later if suspends else Counter)
    elapsed = raw.drain(loop, lambda: producer.produce(bursts))
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int, *, suspends: bool) -> Outcome:
    bursts, total = size // BURST, 0
    n = bursts * BURST
    mailbox, orders = asyncio.Queue[int](), asyncio.Queue[int]()
    put, order, sleep = mailbox.put_nowait, orders.put_nowait, asyncio.sleep

    def produce(_ctx: None, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                put(0)
            put(burst)

    async def count(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            order(last_of - 1)

    async def count_later(_ctx: None, last_of: int) -> None:
        nonlocal total
        await sleep(0)
        total += 1
        if last_of:
            order(last_of - 1)

    actors = [
        queues.serve(orders, produce, bursts + 1),
        serve(mailbox, count_later if suspends else count, n),
    ]
    elapsed = await queues.drain(actors, lambda: order(bursts))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def serve(
    queue: queues.Queue, handler: Callable[[None, Any], Coroutine[Any, Any, None]], messages: int
) -> None:
    """Be an actor with an async handler for so many messages."""
    get = queue.get
    for _ in range(messages):
        await handler(None, await get())


def case(*, suspends: bool) -> Case:
    measures: dict[Kind, Measure] = {
        "limit": lambda setting: plain(setting, suspends=suspends),
        "raw": lambda setting: bandstand(setting, suspends=suspends),
        "typed": lambda setting: classes(setting, suspends=suspends),
        "queues": lambda setting: queues.run(setting, tasks(setting.size, suspends=suspends)),
    }
    return Case(
        name="async-suspends" if suspends else "async",
        title="async behavior, sleep(0)" if suspends else "async behavior, no await",
        what="messages to an `async def` that awaits asyncio.sleep(0)"
        if suspends
        else "messages to an `async def` that never suspends, bursts of 500",
        size=Size(full=200_000, slow=100_000, quick=2_000) if suspends else Size(1_000_000, 300_000, 2_000),
        measures=measures,
    )


CASES = (case(suspends=False), case(suspends=True))
