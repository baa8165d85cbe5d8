"""Asks: a request that gets an answer. One at a time, a hundred in flight, and one at a time from inside an actor.

One service adds up what it is sent and answers with the sum so far; whoever asks adds up the answers, so that one that is
lost, doubled or swapped shows. An operation is one ask with its answer.

What is comparable. `limit` sends the answer as a second task, to a function that goes on from there: it has no one who
waits. bandstand's asker is a coroutine beside the loop, as in somebody's web application, and *inside* an `async def`
method of another actor; every ask has a deadline and knows the end of its target. With asyncio, a request has a future with
it, which the service's task resolves: no deadline, and a service that dies leaves its askers waiting. Pykka's and Erlang's
are `ask` and `gen_server:call`, Thespian's is `ActorSystem.ask`, xoscar's an awaited method of a local reference, gathered
where many are in flight; Pykka and Erlang have `ask(block=False)` and `send_request` for what is in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import repeat

from bandstand.actor import Actor, ActorSystem, ask, tell
from bench import asking, limit, otp, queues, raw, stopwatch, threads, typed
from bench.case import Case, Kind, Measure, Outcome, Setting, Size, WrongResultError
from bench.target import ahead_of, at_most

WINDOW = 100


class Adder(Actor):
    def __init__(self) -> None:
        self.total = 0

    @ask
    def add(self, one: int) -> int:
        self.total += one
        return self.total


def plain(setting: Setting) -> Outcome:
    n, left, total, answers = setting.size, setting.size, 0, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def add(_ctx: None, request: tuple[limit.Handler, int]) -> None:
        nonlocal total
        asker, one = request
        total += one
        append((asker, total))

    def go_on(_ctx: None, answer: int) -> None:
        nonlocal left, answers
        answers += answer
        left -= 1
        if left:
            append((add, (go_on, 1)))

    append((add, (go_on, 1)))
    elapsed = limit.drain(tasks)
    return outcome(elapsed, n, total, answers)


def plain_pipelined(setting: Setting) -> Outcome:
    n, total, answers, waiting = setting.size // WINDOW * WINDOW, 0, 0, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def add(_ctx: None, request: tuple[limit.Handler, int]) -> None:
        nonlocal total
        asker, one = request
        total += one
        append((asker, total))

    def begin(_ctx: None, _data: None) -> None:
        nonlocal waiting
        waiting = WINDOW
        for _ in repeat(None, WINDOW):
            append((add, (go_on, 1)))

    def go_on(_ctx: None, answer: int) -> None:
        nonlocal answers, waiting
        answers += answer
        waiting -= 1
        if not waiting and total < n:
            append((begin, None))

    append((begin, None))
    elapsed = limit.drain(tasks)
    return outcome(elapsed, n, total, answers)


async def sequential(n: int, loop: ActorSystem) -> Outcome:
    answers, adder = 0, loop.spawn(Adder)
    start = stopwatch.start()
    for _ in repeat(None, n):
        answers += await adder.add(1)
    elapsed = stopwatch.since(start)
    return await settle(loop, elapsed, n, answers, adder)


async def pipelined(n: int, loop: ActorSystem) -> Outcome:
    answers, adder = 0, loop.spawn(Adder)
    start = stopwatch.start()
    for _ in repeat(None, n // WINDOW):
        replies = [adder.add(1) for _ in repeat(None, WINDOW)]
        for reply in replies:
            answers += await reply
    elapsed = stopwatch.since(start)
    return await settle(loop, elapsed, n // WINDOW * WINDOW, answers, adder)


async def settle(loop: ActorSystem, elapsed: int, n: int, answers: int, adder: Adder) -> Outcome:
    typed.settle_asks(loop, n)
    return outcome(elapsed, n, await adder.add(0), answers)


def inside(setting: Setting) -> Outcome:
    n, answers = setting.size, 0
    loop = typed.make()

    class Asker(Actor):
        @tell
        async def begin(self, n: int) -> None:
            nonlocal answers
            for _ in repeat(None, n):
                answers += await adder.add(1)

    asker, adder = loop.spawn(Asker), loop.spawn(Adder)
    elapsed = raw.drain(loop, lambda: asker.begin(n))
    typed.settle_asks(loop, n)
    return outcome(elapsed, n, raw.settle(loop, n + 1) - 1, answers)


async def tasks(window: int, size: int) -> Outcome:
    n, total, answers = size // window * window, 0, 0
    requests = asyncio.Queue[tuple[asyncio.Future[int], int]]()
    put, create_future = requests.put_nowait, asyncio.get_running_loop().create_future

    def add(_ctx: None, request: tuple[asyncio.Future[int], int]) -> None:
        nonlocal total
        future, one = request
        total += one
        future.set_result(total)

    async def one_at_a_time() -> None:
        nonlocal answers
        for _ in repeat(None, n):
            future = create_future()
            put((future, 1))
            answers += await future

    async def many() -> None:
        nonlocal answers
        for _ in repeat(None, n // window):
            futures = [create_future() for _ in repeat(None, window)]
            for future in futures:
                put((future, 1))
            for future in futures:
                answers += await future

    server = asyncio.ensure_future(queues.serve(requests, add, n))
    await asyncio.sleep(0)
    start = stopwatch.start()
    await (one_at_a_time() if window == 1 else many())
    elapsed = stopwatch.since(start)
    await server
    return outcome(elapsed, n, total, answers)


def pykka(window: int, setting: Setting) -> Outcome:
    n, total, answers = setting.size // window * window, 0, 0

    def add(_ctx: object, one: int) -> int:
        nonlocal total
        total += one
        return total

    with threads.living(add) as (adder,):
        start = stopwatch.start()
        if window == 1:
            for _ in repeat(None, n):
                answers += adder.ask(1)
        else:
            for _ in repeat(None, n // window):
                futures = [adder.ask(1, block=False) for _ in repeat(None, window)]
                for future in futures:
                    answers += future.get()
        elapsed = stopwatch.since(start)
    return outcome(elapsed, n, total, answers)


def outcome(elapsed: int, n: int, handled: int, answers: int) -> Outcome:
    """The answers are 1, 2, ... n: their sum tells whether each came once."""
    if answers != n * (n + 1) // 2:
        raise WrongResultError(f"{n} asks were answered with other sums than 1 to {n}")
    return Outcome(total=elapsed, operations=n, sent=n, handled=handled)


def with_otp(window: int, setting: Setting) -> Outcome:
    return otp.run("ask", setting.size // window * window, window)


def with_asyncio(window: int, setting: Setting) -> Outcome:
    return queues.run(setting, tasks(window, setting.size))


def with_thespian(setting: Setting) -> Outcome:
    elapsed, total, answers = asking.with_thespian(setting.size)
    return outcome(elapsed, setting.size, total, answers)


def with_xoscar(window: int, setting: Setting) -> Outcome:
    n = setting.size // window * window
    elapsed, total, answers = asking.with_xoscar(window, setting)
    return outcome(elapsed, n, total, answers)


def measures(window: int, plain: Measure, classes: Measure) -> dict[Kind, Measure]:
    return {
        "limit": plain,
        "typed": classes,
        "queues": partial(with_asyncio, window),
        "pykka": partial(pykka, window),
        "erlang": partial(with_otp, window),
    }


CASES = (
    Case(
        name="ask",
        title="ask, one at a time",
        what="a request and its answer, one after the other",
        size=Size(full=500_000, slow=100_000, quick=2_000),
        measures={
            **measures(1, plain, lambda setting: typed.beside(partial(sequential, setting.size))),
            "thespian": with_thespian,
            "xoscar": partial(with_xoscar, 1),
        },
        typed_target=at_most(900, "ns", ahead_of="erlang"),
    ),
    Case(
        name="ask-pipelined",
        title="ask, 100 in flight",
        what="a hundred requests, then their hundred answers",
        size=Size(full=500_000, slow=200_000, quick=2_000),
        measures={
            **measures(
                WINDOW, plain_pipelined, lambda setting: typed.beside(partial(pipelined, setting.size))
            ),
            "xoscar": partial(with_xoscar, WINDOW),
        },
        typed_target=ahead_of("erlang"),
    ),
    Case(
        name="ask-inside",
        title="ask, from an async handler",
        what="one actor asks another, one after the other",
        size=Size(full=200_000, slow=100_000, quick=2_000),
        measures=measures(1, plain, inside),
    ),
)
