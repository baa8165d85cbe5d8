"""Asks of Thespian and xoscar: an actor that adds up and answers with the sum so far."""

from __future__ import annotations

import asyncio
from importlib import import_module
from itertools import repeat
from typing import Any

from bench import queues, stopwatch
from bench.case import Setting
from bench.stages import thespian, xoscar


def with_thespian(n: int) -> tuple[int, int, int]:
    """Ask by `ActorSystem.ask`, one after the other; the nanoseconds, what was added up, and the sum of the answers."""
    actors: Any = import_module("thespian.actors")

    def receive(me: Any, one: int, sender: Any) -> None:
        me.total = getattr(me, "total", 0) + one
        me.send(sender, me.total)

    system, answers = thespian.make_system(), 0
    adder = system.createActor(type("Adder", (actors.Actor,), {"receiveMessage": receive}))
    ask = system.ask
    start = stopwatch.start()
    for _ in repeat(None, n):
        answers += ask(adder, 1)
    elapsed = stopwatch.since(start)
    total = ask(adder, 0)
    system.shutdown()
    return elapsed, total, answers


def with_xoscar(window: int, setting: Setting) -> tuple[int, int, int]:
    """Await a local reference's method, or gather so many of them at a time."""
    return queues.run(setting, _with_xoscar(window, setting.size))


async def _with_xoscar(window: int, n: int) -> tuple[int, int, int]:
    xo: Any = import_module("xoscar")

    def add(me: Any, one: int) -> int:
        me.total = getattr(me, "total", 0) + one
        return int(me.total)

    answers = 0
    async with await xo.create_actor_pool(xoscar.HERE, n_process=0) as pool:
        kind = type("Adder", (xo.Actor,), {"add": add})
        ask = (await xoscar.local(kind, address=pool.external_address)).add
        start = stopwatch.start()
        if window == 1:
            for _ in repeat(None, n):
                answers += await ask(1)
        else:
            for _ in repeat(None, n // window):
                answers += sum(await asyncio.gather(*[ask(1) for _ in repeat(None, window)]))
        elapsed = stopwatch.since(start)
        return elapsed, await ask(0), answers
