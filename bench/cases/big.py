"""Big (Savina 8): a hundred actors ping each other at random, each waiting for its pong. Measures many to many.

A ping is the pinger's number, a pong is None. Whom to ping comes from a table made beforehand with a fixed seed: drawing
numbers is not what is measured. An operation is one message, ping or pong.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import chain, cycle, repeat
from random import Random
from threading import Semaphore

from bandstand.core import Behavior, Context
from bandstand.service import Actor, data
from bench import limit, otp, queues, raw, stopwatch, threads, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import ahead_of

ACTORS = 100
NOBODY = -1


def partners(me: int, pings: int) -> Iterator[int]:
    """Whom an actor pings, so many times; then nobody, for ever."""
    others = [other for other in range(ACTORS) if other != me]
    Random(me).shuffle(others)
    whom = cycle(others)
    return chain([next(whom) for _ in range(pings)], repeat(NOBODY))


def plain(setting: Setting) -> Outcome:
    pings, pongs = setting.size // (2 * ACTORS), 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def actor(me: int) -> limit.Handler:
        whom = partners(me, pings)

        def handle(_ctx: None, pinger: int | None) -> None:
            nonlocal pongs
            if pinger is None:
                other = next(whom)
                pongs += 1
                if other >= 0:
                    append((actors[other], me))
            else:
                append((actors[pinger], None))

        return handle

    actors = [actor(me) for me in range(ACTORS)]
    for handle in actors:
        append((handle, None))
    elapsed = limit.drain(tasks)
    return outcome(elapsed, pings, pongs)


def bandstand(setting: Setting) -> Outcome:
    pings, pongs = setting.size // (2 * ACTORS), 0
    loop = raw.make()
    send = loop.send

    def actor(me: int) -> Behavior[None]:
        whom = partners(me, pings)

        def handle(_ctx: Context[None], pinger: int | None) -> None:
            nonlocal pongs
            if pinger is None:
                other = next(whom)
                pongs += 1
                if other >= 0:
                    send(actors[other], me)
            else:
                send(actors[pinger], None)

        return handle

    actors = [loop.spawn(actor(me)) for me in range(ACTORS)]
    for each in actors:
        send(each, None)
    elapsed = raw.drain(loop)
    raw.settle(loop, ACTORS + 2 * ACTORS * pings)
    return outcome(elapsed, pings, pongs)


def classes(setting: Setting) -> Outcome:
    pings, pongs = setting.size // (2 * ACTORS), 0
    loop = typed.make()

    class Member(Actor):
        def __init__(self, me: int) -> None:
            self.number = me
            self.whom = partners(me, pings)

        @data
        def ping(self, pinger: int) -> None:
            members[pinger].pong()

        @data
        def pong(self) -> None:
            nonlocal pongs
            other = next(self.whom)
            pongs += 1
            if other >= 0:
                members[other].ping(self.number)

    members = [loop.spawn(Member, me) for me in range(ACTORS)]
    for member in members:
        member.pong()
    elapsed = raw.drain(loop)
    raw.settle(loop, ACTORS + 2 * ACTORS * pings)
    return outcome(elapsed, pings, pongs)


async def tasks(size: int) -> Outcome:
    pings, pongs = size // (2 * ACTORS), 0
    mailboxes = [asyncio.Queue[int | None]() for _ in range(ACTORS)]
    puts = [mailbox.put_nowait for mailbox in mailboxes]
    received = [0] * ACTORS

    def actor(me: int) -> queues.Handler:
        whom = partners(me, pings)

        def handle(_ctx: None, pinger: int | None) -> None:
            nonlocal pongs
            if pinger is None:
                other = next(whom)
                pongs += 1
                if other >= 0:
                    puts[other](me)
            else:
                puts[pinger](None)

        return handle

    for me in range(ACTORS):
        received[me] += 1 + pings
        for other in partners(me, pings):
            if other == NOBODY:
                break
            received[other] += 1

    def begin() -> None:
        for put in puts:
            put(None)

    actors = [queues.serve(mailbox, actor(me), received[me]) for me, mailbox in enumerate(mailboxes)]
    elapsed = await queues.drain(actors, begin)
    return outcome(elapsed, pings, pongs)


def pykka(setting: Setting) -> Outcome:
    pings, finished = setting.size // (2 * ACTORS), Semaphore(0)
    # Each thread counts for itself.
    pongs = [0] * ACTORS

    def actor(me: int) -> threads.Handler:
        whom = partners(me, pings)

        def handle(_ctx: object, pinger: int | None) -> None:
            if pinger is None:
                other = next(whom)
                pongs[me] += 1
                if other >= 0:
                    actors[other].tell(me)
                else:
                    finished.release()
            else:
                actors[pinger].tell(None)

        return handle

    with threads.living(*[actor(me) for me in range(ACTORS)]) as actors:
        start = stopwatch.start()
        for each in actors:
            each.tell(None)
        for _ in actors:
            finished.acquire()
        elapsed = stopwatch.since(start)
    return outcome(elapsed, pings, sum(pongs))


def outcome(elapsed: int, pings: int, pongs: int) -> Outcome:
    """Every actor must have had one pong for each ping, and the None that started it."""
    sent = ACTORS * pings
    return Outcome(total=elapsed, operations=2 * sent, sent=sent, handled=pongs - ACTORS)


CASE = Case(
    name="big",
    title="big, 100 actors",
    what="a hundred actors ping each other at random (Savina 8)",
    size=Size(full=1_000_000, slow=200_000, quick=2_000),
    savina=8,
    measures={
        "limit": plain,
        "raw": bandstand,
        "typed": classes,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
        "pykka": pykka,
        "erlang": lambda setting: otp.run("big", setting.size // (2 * ACTORS) * 2 * ACTORS, ACTORS),
    },
    target=ahead_of("erlang"),
    typed_target=ahead_of("erlang"),
)
