"""Fork-join create (Savina 5): make an actor, send it one message, have it end; forty thousand times.

Five hundred live at a time; the last of them tells the maker to go on. (Savina makes all forty thousand in one go, which
measures the garbage collector's walks through them more than anything else.) An operation is one whole life.

`limit` is the least a life can be in Python: a handler and a deque of its own, kept in a dict under a number, visited
through the same run queue as ever, and deleted. The asyncio peer is a task with a Queue, ended by returning.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from bandstand.core import STOP, Context, Verdict
from bandstand.service import Actor, data
from bench import limit, otp, queues, raw, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import ahead_of

BURST = 500


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append
    actors: dict[int, tuple[limit.Handler, deque[int]]] = {}

    def create(_ctx: None, burst: int) -> None:
        if burst:
            for number in range(BURST):
                mailbox = deque[int]()
                actors[number] = live, mailbox
                mailbox.append(0 if number < BURST - 1 else burst)
                append((visit, number))

    def visit(_ctx: None, number: int) -> None:
        handler, mailbox = actors[number]
        handler(None, mailbox.popleft())
        del actors[number]

    def live(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            append((create, last_of - 1))

    append((create, bursts))
    elapsed = limit.drain(tasks)
    if actors:
        raise WrongResultError(f"{len(actors)} actors did not end")
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = raw.make()
    send, spawn = loop.send, loop.spawn

    def create(_ctx: Context[None], burst: int) -> None:
        if burst:
            for number in range(BURST):
                send(spawn(live), 0 if number < BURST - 1 else burst)

    def live(_ctx: Context[None], last_of: int) -> Verdict:
        nonlocal total
        total += 1
        if last_of:
            send(maker, last_of - 1)
        return STOP

    maker = spawn(create)
    send(maker, bursts)
    elapsed = raw.drain(loop)
    if loop.statistics().ended_normal != n:
        raise WrongResultError(f"{n} actors were to end, {loop.statistics().ended_normal} did")
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = typed.make()
    spawn = loop.spawn

    class Maker(Actor):
        @data
        def create(self, burst: int) -> None:
            if burst:
                for number in range(BURST):
                    spawn(Mayfly).live(0 if number < BURST - 1 else burst)

    class Mayfly(Actor):
        @data
        def live(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                maker.create(last_of - 1)
            self.stop()

    maker = spawn(Maker)
    maker.create(bursts)
    elapsed = raw.drain(loop)
    if loop.statistics().ended_normal != n:
        raise WrongResultError(f"{n} actors were to end, {loop.statistics().ended_normal} did")
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int) -> Outcome:
    bursts, total = size // BURST, 0
    n = bursts * BURST

    def live(_ctx: None, _data: int) -> None:
        nonlocal total
        total += 1

    start = stopwatch.start()
    for _ in range(bursts):
        living: list[asyncio.Future[None]] = []
        for _ in range(BURST):
            mailbox = asyncio.Queue[int]()
            living.append(asyncio.ensure_future(queues.serve(mailbox, live, 1)))
            mailbox.put_nowait(0)
        for life in living:
            await life
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def pykka(setting: Setting) -> Outcome:
    bursts = setting.size // BURST
    n, lived = bursts * BURST, list[int]()

    def live(me: Any, data: int) -> None:
        # Many threads: an append is safe, a sum would not be.
        lived.append(data)
        me.stop()

    kind = threads.kind(live)
    start = stopwatch.start()
    for _ in range(bursts):
        living: list[threads.Ref] = []
        for _ in range(BURST):
            ref = kind.start()
            ref.tell(0)
            living.append(ref)
        for ref in living:
            ref.actor_stopped.wait()
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=len(lived))


CASE = Case(
    name="fork-join-create",
    title="create + message + stop",
    what="make an actor, send it a message, have it end; 500 living at a time (Savina 5)",
    size=Size(full=40_000, slow=40_000, quick=500),
    savina=5,
    measures={
        "limit": plain,
        "raw": bandstand,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "pykka": pykka,
        "erlang": lambda setting: otp.run("create", setting.size // BURST * BURST, BURST),
    },
    target=ahead_of("erlang"),
    typed_target=ahead_of("erlang"),
    repeats=5,
)
