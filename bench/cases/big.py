"""Big (Savina 8): a hundred and twenty actors ping each other at random, each waiting for its pong. Measures many to many.

A ping is the pinger's number, a pong is None. Whom to ping comes from a table made beforehand with a fixed seed: drawing
numbers is not what is measured. An operation is one message, ping or pong.
Who has had all its pongs says so once. Slow systems ping less often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from random import Random

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Handler, Play, Stage
from bench.target import ahead_of

ACTORS = 120
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


def classes(setting: Setting) -> Outcome:
    pings, pongs = setting.size // (2 * ACTORS), 0
    loop = typed.make()

    class Member(Actor):
        def __init__(self, me: int) -> None:
            self.number = me
            self.whom = partners(me, pings)

        @tell
        def ping(self, pinger: int) -> None:
            members[pinger].pong()

        @tell
        def pong(self) -> None:
            nonlocal pongs
            other = next(self.whom)
            pongs += 1
            if other >= 0:
                members[other].ping(self.number)

    members = [loop.spawn(Member, me) for me in range(ACTORS)]
    elapsed = raw.drain(loop, *(member.pong for member in members))
    raw.settle(loop, ACTORS + 2 * ACTORS * pings)
    return outcome(elapsed, pings, pongs)


def closing(stage: Stage) -> Handler:
    """Finish when every actor has had its last pong."""
    waiting = ACTORS

    def close(_me: object, _done: None) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            stage.finish()

    return close


def program(stage: Stage, setting: Setting) -> Play:
    pings = setting.size // (2 * ACTORS)
    send = stage.send
    # Each counts for itself: some have a thread each.
    counts: list[Callable[[], int]] = []

    def actor(me: int) -> Handler:
        whom, pongs = partners(me, pings), 0

        def handle(_me: object, pinger: int | None) -> None:
            nonlocal pongs
            if pinger is None:
                other = next(whom)
                pongs += 1
                if other >= 0:
                    send(actors[other], me)
                else:
                    send(closer, None)
            else:
                send(actors[pinger], None)

        counts.append(lambda: pongs)
        return handle

    closer = stage.spawn(closing(stage))
    actors = [stage.spawn(actor(me)) for me in range(ACTORS)]

    def begin() -> None:
        for each in actors:
            send(each, None)

    sent = ACTORS * pings
    return Play(
        begin=begin,
        operations=2 * sent,
        sent=sent,
        handled=lambda: sum(count() for count in counts) - ACTORS,
    )


def outcome(elapsed: int, pings: int, pongs: int) -> Outcome:
    """Every actor must have had one pong for each ping, and the None that started it."""
    sent = ACTORS * pings
    return Outcome(total=elapsed, operations=2 * sent, sent=sent, handled=pongs - ACTORS)


CASE = Case(
    name="big",
    title="big, 120 actors",
    what="a hundred and twenty actors ping each other at random (Savina 8)",
    size=Size(full=4_800_000, slow=240_000, quick=2_400),
    savina=8,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("big", setting.size // (2 * ACTORS) * 2 * ACTORS, ACTORS),
    },
    target=ahead_of("erlang"),
    typed_target=ahead_of("erlang"),
)
