"""Ping-pong (Savina 1): one message goes to and fro between two actors. Measures delivery with nothing to batch.

Every message finds an idle actor, so each costs a scheduling too. An operation is one message: a round trip is two.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Event

from bandstand.core import Context
from bandstand.service import Actor, data
from bench import limit, otp, queues, raw, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import times_limit


def plain(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    tasks: limit.Tasks = deque()
    append = tasks.append

    def ping(_ctx: None, k: int) -> None:
        nonlocal left
        if k:
            append((pong, k - 1))
        else:
            left = k

    def pong(_ctx: None, k: int) -> None:
        nonlocal left
        if k:
            append((ping, k - 1))
        else:
            left = k

    append((ping, n - 1))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def bandstand(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    loop = raw.make()
    send = loop.send

    def ping(_ctx: Context[None], k: int) -> None:
        nonlocal left
        if k:
            send(second, k - 1)
        else:
            left = k

    def pong(_ctx: Context[None], k: int) -> None:
        nonlocal left
        if k:
            send(first, k - 1)
        else:
            left = k

    first, second = loop.spawn(ping), loop.spawn(pong)
    send(first, n - 1)
    elapsed = raw.drain(loop)
    return Outcome(total=elapsed, operations=n, sent=n, handled=raw.settle(loop, n) - left)


def classes(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    loop = typed.make()

    class Ping(Actor):
        @data
        def hit(self, k: int) -> None:
            nonlocal left
            if k:
                second.hit(k - 1)
            else:
                left = k

    class Pong(Actor):
        @data
        def hit(self, k: int) -> None:
            nonlocal left
            if k:
                first.hit(k - 1)
            else:
                left = k

    first, second = loop.spawn(Ping), loop.spawn(Pong)
    first.hit(n - 1)
    elapsed = raw.drain(loop)
    return Outcome(total=elapsed, operations=n, sent=n, handled=raw.settle(loop, n) - left)


async def tasks(n: int) -> Outcome:
    left = -1
    first, second = asyncio.Queue[int](), asyncio.Queue[int]()
    put_first, put_second = first.put_nowait, second.put_nowait

    def ping(_ctx: None, k: int) -> None:
        nonlocal left
        if k:
            put_second(k - 1)
        else:
            left = k

    def pong(_ctx: None, k: int) -> None:
        nonlocal left
        if k:
            put_first(k - 1)
        else:
            left = k

    actors = [queues.serve(first, ping, n - n // 2), queues.serve(second, pong, n // 2)]
    elapsed = await queues.drain(actors, lambda: put_first(n - 1))
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def pykka(setting: Setting) -> Outcome:
    n, left, done = setting.size, -1, Event()

    def ping(_ctx: object, k: int) -> None:
        nonlocal left
        if k:
            second.tell(k - 1)
        else:
            left = k
            done.set()

    def pong(_ctx: object, k: int) -> None:
        nonlocal left
        if k:
            first.tell(k - 1)
        else:
            left = k
            done.set()

    with threads.living(ping, pong) as (first, second):
        start = stopwatch.start()
        first.tell(n - 1)
        done.wait()
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


CASE = Case(
    name="ping-pong",
    title="ping-pong",
    what="one message to and fro between two actors (Savina 1)",
    size=Size(full=1_000_000, slow=200_000, quick=2_000),
    measures={
        "limit": plain,
        "raw": bandstand,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "pykka": pykka,
        "erlang": lambda setting: otp.run("pingpong", setting.size),
    },
    target=times_limit(1.5),
    typed_target=times_limit(2.5),
)
