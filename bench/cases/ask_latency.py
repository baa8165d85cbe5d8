"""How long single asks take, each timed by itself: the figure is the median, p99 and p99.9 are in the JSON.

The same asks as in `ask`, one after the other, and checked the same way: the answers must be 1, 2, ... n. The clock is read twice for
each, which is in the figure. The garbage collector stays on; its longer walks are among the slow ones.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import repeat
from time import perf_counter_ns

from bandstand.actor import ActorSystem
from bench import latency, otp, queues, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size
from bench.cases.ask import Adder
from bench.target import ahead_of


async def asked(n: int, loop: ActorSystem) -> Outcome:
    adder, answers, times = loop.spawn(Adder), list[int](), list[int]()
    stopwatch.start()
    for _ in repeat(None, n):
        begin = perf_counter_ns()
        answer = await adder.add(1)
        times.append(perf_counter_ns() - begin)
        answers.append(answer)
    typed.settle_asks(loop, n)
    return latency.outcome(times, right(answers))


async def tasks(n: int) -> Outcome:
    total, answers, times = 0, list[int](), list[int]()
    requests = asyncio.Queue[tuple[asyncio.Future[int], int]]()
    put, create_future = requests.put_nowait, asyncio.get_running_loop().create_future

    def add(_ctx: None, request: tuple[asyncio.Future[int], int]) -> None:
        nonlocal total
        future, one = request
        total += one
        future.set_result(total)

    server = asyncio.ensure_future(queues.serve(requests, add, n))
    await asyncio.sleep(0)
    stopwatch.start()
    for _ in repeat(None, n):
        begin = perf_counter_ns()
        future = create_future()
        put((future, 1))
        answer = await future
        times.append(perf_counter_ns() - begin)
        answers.append(answer)
    await server
    return latency.outcome(times, right(answers))


def pykka(setting: Setting) -> Outcome:
    total, answers, times = 0, list[int](), list[int]()

    def add(_ctx: object, one: int) -> int:
        nonlocal total
        total += one
        return total

    with threads.living(add) as (adder,):
        stopwatch.start()
        for _ in repeat(None, setting.size):
            begin = perf_counter_ns()
            answer = adder.ask(1)
            times.append(perf_counter_ns() - begin)
            answers.append(answer)
    return latency.outcome(times, right(answers))


def with_otp(setting: Setting) -> Outcome:
    handled, times = otp.times("ask_latency", setting.size)
    return latency.outcome(times, handled)


def right(answers: list[int]) -> int:
    """How many answers are the sum that was due."""
    return sum(answer == due for due, answer in enumerate(answers, 1))


CASE = Case(
    name="ask-latency",
    title="ask, the median of single ones",
    what="a request and its answer, each timed by itself; p99 and p99.9 are in the JSON",
    size=Size(full=200_000, slow=50_000, quick=2_000),
    measures={
        "typed": lambda setting: typed.beside(partial(asked, setting.size)),
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "pykka": pykka,
        "erlang": with_otp,
    },
    typed_target=ahead_of("erlang"),
)
