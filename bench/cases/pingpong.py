"""Ping-pong (Savina 1): one message goes to and fro between two actors. Measures delivery with nothing to batch.

Every message finds an idle actor, so each costs a scheduling too. An operation is one message: a round trip is two.
"""

from __future__ import annotations

import asyncio
from collections import deque

from bandstand.core import Context
from bench import limit, queues, raw
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


CASE = Case(
    name="ping-pong",
    title="ping-pong",
    what="one message to and fro between two actors (Savina 1)",
    size=Size(full=1_000_000, slow=200_000, quick=2_000),
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
    },
    target=times_limit(1.5),
)
