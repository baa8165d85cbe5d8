"""Asks of an `async def`: one that never suspends, and one that gives the event loop a turn before it answers.

The asks of `ask`, one at a time from beside the loop; only the handler is another one. An operation is one ask with its
answer. `limit` makes a coroutine for each and steps it by hand (see `coroutines`); with asyncio, the actor's task awaits the
handler itself, so one that never suspends is a plain call there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import repeat
from typing import Any

from bandstand.actor import Actor, ActorSystem, ask
from bench import limit, queues, stopwatch, typed
from bench.case import Case, Kind, Measure, Outcome, Setting, Size
from bench.cases.ask import outcome
from bench.cases.coroutines import serve, stepper, turn


class Adder(Actor):
    def __init__(self) -> None:
        self.total = 0

    @ask
    async def add(self, one: int) -> int:
        self.total += one
        return self.total


class LaterAdder(Adder):
    @ask
    async def add(self, one: int) -> int:
        await asyncio.sleep(0)
        self.total += one
        return self.total


def plain(setting: Setting, *, suspends: bool) -> Outcome:
    n, left, total, answers = setting.size, setting.size, 0, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    async def add(asker: limit.Handler, one: int) -> None:
        nonlocal total
        total += one
        append((asker, total))

    async def add_later(asker: limit.Handler, one: int) -> None:
        nonlocal total
        await turn()
        total += one
        append((asker, total))

    handler: Callable[[limit.Handler, int], Coroutine[Any, Any, None]] = add_later if suspends else add
    step = stepper(tasks)

    def begin(ctx: None, request: tuple[limit.Handler, int]) -> None:
        step(ctx, handler(*request))

    def go_on(_ctx: None, answer: int) -> None:
        nonlocal left, answers
        answers += answer
        left -= 1
        if left:
            append((begin, (go_on, 1)))

    append((begin, (go_on, 1)))
    elapsed = limit.drain(tasks)
    return outcome(elapsed, n, total, answers)


async def classes(n: int, kind: type[Adder], loop: ActorSystem) -> Outcome:
    answers, adder = 0, loop.spawn(kind)
    start = stopwatch.start()
    for _ in repeat(None, n):
        answers += await adder.add(1)
    elapsed = stopwatch.since(start)
    typed.settle_asks(loop, n)
    return outcome(elapsed, n, await adder.add(0), answers)


async def tasks(n: int, *, suspends: bool) -> Outcome:
    total, answers = 0, 0
    requests = asyncio.Queue[tuple[asyncio.Future[int], int]]()
    put, create_future = requests.put_nowait, asyncio.get_running_loop().create_future
    sleep = asyncio.sleep

    async def add(_ctx: None, request: tuple[asyncio.Future[int], int]) -> None:
        nonlocal total
        future, one = request
        total += one
        future.set_result(total)

    async def add_later(_ctx: None, request: tuple[asyncio.Future[int], int]) -> None:
        nonlocal total
        future, one = request
        await sleep(0)
        total += one
        future.set_result(total)

    actor = asyncio.ensure_future(serve(requests, add_later if suspends else add, n))
    await sleep(0)
    start = stopwatch.start()
    for _ in repeat(None, n):
        future = create_future()
        put((future, 1))
        answers += await future
    elapsed = stopwatch.since(start)
    await actor
    return outcome(elapsed, n, total, answers)


def case(*, suspends: bool) -> Case:
    measures: dict[Kind, Measure] = {
        "limit": lambda setting: plain(setting, suspends=suspends),
        "typed": lambda setting: typed.beside(
            partial(classes, setting.size, LaterAdder if suspends else Adder)
        ),
        "queues": lambda setting: queues.run(setting, tasks(setting.size, suspends=suspends)),
    }
    return Case(
        name="ask-async-suspends" if suspends else "ask-async",
        title="ask of an async def, sleep(0)" if suspends else "ask of an async def, no await",
        what="asks of an `async def` that awaits asyncio.sleep(0)"
        if suspends
        else "asks of an `async def` that never suspends",
        size=Size(full=100_000, slow=50_000, quick=2_000) if suspends else Size(300_000, 100_000, 2_000),
        measures=measures,
    )


CASES = (case(suspends=False), case(suspends=True))
