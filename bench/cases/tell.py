"""One-way calls from beside the loop: bursts of 500 from code that then waits until they have been handled.

`counting` and `ping-pong` send from actor to actor, inside a tick; here the sender is ordinary code in the event loop, as in
somebody's web application. An operation is one message; the wait, once in 500, is paid for by them.

*Named* has two arguments, one of them by its name: so the call is bound to the method's signature first. `limit` sends a
tuple, which its handler takes apart.

What is comparable. bandstand asks for the sum at the end of a burst, Pykka and Erlang (`gen_server:cast`) do too;
asyncio gives the actor's task turns until it has handled all, which is the least there can be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import repeat

from bandstand.actor import Actor, ActorSystem, ask, tell
from bench import limit, otp, queues, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size

BURST = 500


class Adder(Actor):
    def __init__(self) -> None:
        self.total = 0

    @tell
    def add(self, one: int) -> None:
        self.total += one

    @tell
    def add_product(self, one: int, factor: int = 0) -> None:
        self.total += one * factor

    @ask
    def value(self) -> int:
        return self.total


def plain(setting: Setting, *, is_named: bool) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append, popleft = tasks.append, tasks.popleft

    def add(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    def add_product(_ctx: None, pair: tuple[int, int]) -> None:
        nonlocal total
        one, factor = pair
        total += one * factor

    start = stopwatch.start()
    for _ in repeat(None, bursts):
        if is_named:
            for _ in repeat(None, BURST):
                append((add_product, (1, 1)))
        else:
            for _ in repeat(None, BURST):
                append((add, 1))
        while tasks:
            handler, data = popleft()
            handler(None, data)
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def classes(size: int, loop: ActorSystem) -> Outcome:
    bursts, adder = size // BURST, loop.spawn(Adder)
    start = stopwatch.start()
    for _ in repeat(None, bursts):
        for _ in repeat(None, BURST):
            adder.add(1)
        await adder.value()
    elapsed = stopwatch.since(start)
    return await settle(loop, elapsed, bursts, adder)


async def named(size: int, loop: ActorSystem) -> Outcome:
    bursts, adder = size // BURST, loop.spawn(Adder)
    start = stopwatch.start()
    for _ in repeat(None, bursts):
        for _ in repeat(None, BURST):
            adder.add_product(1, factor=1)
        await adder.value()
    elapsed = stopwatch.since(start)
    return await settle(loop, elapsed, bursts, adder)


async def settle(loop: ActorSystem, elapsed: int, bursts: int, adder: Adder) -> Outcome:
    typed.settle_asks(loop, bursts)
    return Outcome(total=elapsed, operations=bursts * BURST, sent=bursts * BURST, handled=await adder.value())


async def tasks(size: int) -> Outcome:
    bursts, total = size // BURST, 0
    n = bursts * BURST
    mailbox = asyncio.Queue[int]()
    put, sleep = mailbox.put_nowait, asyncio.sleep

    def add(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    actor = asyncio.ensure_future(queues.serve(mailbox, add, n))
    await sleep(0)
    start = stopwatch.start()
    for burst in range(1, bursts + 1):
        for _ in repeat(None, BURST):
            put(1)
        while total < burst * BURST:
            await sleep(0)
    elapsed = stopwatch.since(start)
    await actor
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def pykka(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST

    def add(_ctx: object, one: int) -> int:
        nonlocal total
        total += one
        return total

    with threads.living(add) as (adder,):
        tell, ask = adder.tell, adder.ask
        start = stopwatch.start()
        for _ in repeat(None, bursts):
            for _ in repeat(None, BURST):
                tell(1)
            ask(0)
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASES = (
    Case(
        name="tell",
        title="tell from outside, bursts of 500",
        what="one-way calls from code beside the loop, 500 at a time",
        size=Size(full=1_000_000, slow=300_000, quick=2_000),
        measures={
            "limit": lambda setting: plain(setting, is_named=False),
            "typed": lambda setting: typed.beside(partial(classes, setting.size)),
            "queues": lambda setting: queues.run(setting, tasks(setting.size)),
            "pykka": pykka,
            "erlang": lambda setting: otp.run("tell", setting.size // BURST * BURST, BURST),
        },
    ),
    Case(
        name="tell-named",
        title="tell with an argument by name",
        what="the same with two arguments, one of them by its name",
        size=Size(full=1_000_000, slow=300_000, quick=2_000),
        measures={
            "limit": lambda setting: plain(setting, is_named=True),
            "typed": lambda setting: typed.beside(partial(named, setting.size)),
        },
    ),
)
