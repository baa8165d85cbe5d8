"""Ping-pong (Savina 1): one message goes to and fro between two actors. Measures delivery with nothing to batch.

Every message finds an idle actor, so each costs a scheduling too. An operation is one message: a round trip is two. Savina's forty
thousand round trips are over soon, so they are measured more often. The slowest systems make fewer.
"""

from __future__ import annotations

from collections import deque

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage
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


def program(stage: Stage, setting: Setting) -> Play:
    n, left = setting.size, -1
    send = stage.send

    def ping(_me: object, k: int) -> None:
        nonlocal left
        if k:
            send(second, k - 1)
        else:
            left = k
            stage.finish()

    def pong(_me: object, k: int) -> None:
        nonlocal left
        if k:
            send(first, k - 1)
        else:
            left = k
            stage.finish()

    first, second = stage.spawn(ping), stage.spawn(pong)
    return Play(begin=lambda: send(first, n - 1), operations=n, sent=n, handled=lambda: n - left)


def classes(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    loop = typed.make()

    class Ping(Actor):
        @tell
        def hit(self, k: int) -> None:
            nonlocal left
            if k:
                second.hit(k - 1)
            else:
                left = k

    class Pong(Actor):
        @tell
        def hit(self, k: int) -> None:
            nonlocal left
            if k:
                first.hit(k - 1)
            else:
                left = k

    first, second = loop.spawn(Ping), loop.spawn(Pong)
    elapsed = raw.drain(loop, lambda: first.hit(n - 1))
    return Outcome(total=elapsed, operations=n, sent=n, handled=raw.settle(loop, n) - left)


CASE = Case(
    name="ping-pong",
    title="ping-pong",
    what="one message to and fro between two actors (Savina 1)",
    size=Size(full=80_000, slow=80_000, quick=2_000),
    savina=1,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("pingpong", setting.size),
    },
    target=times_limit(1.5),
    typed_target=times_limit(2.5),
    repeats=15,
)
