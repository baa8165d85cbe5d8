"""What a message costs as more actors live: a token walks through 100, then 1,000, and up to a million of them.

The order of the walk is mixed, once and for everybody alike, so that neighbours in it are none in memory: what grows with the
number is how seldom a cache holds the next actor. An operation is one hop; who makes and links them is not in the figure. Under
10⁶ actors a fast system makes one walk through all of them, a slow one through a part.

A million tasks with queues would take minutes to make, and so the asyncio pair ends at 10⁵. Pykka, Thespian and xoscar are not here:
what grows there is the number of threads, or nothing that is not lost in the cost of one message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from bandstand.core import LoopConfig
from bandstand.service import Actor, data
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Kind, Measure, Outcome, Setting, Size
from bench.stage import Handler, Play, Program, Stage, Who


def order_of(actors: int) -> list[int]:
    """The order of the walk."""
    order = list(range(actors))
    Random(actors).shuffle(order)
    return order


def actors_in(actors: int, setting: Setting) -> int:
    """How many there are; a hundredth under --quick."""
    return max(10, actors // 100) if setting.is_quick else actors


def plain(actors: int, setting: Setting) -> Outcome:
    n, left = setting.size, -1
    tasks: limit.Tasks = deque()
    append = tasks.append

    def member() -> tuple[limit.Handler, Callable[[limit.Handler], None]]:
        following: limit.Handler

        def hop(_ctx: None, k: int) -> None:
            nonlocal left
            if k:
                append((following, k - 1))
            else:
                left = k

        def link(other: limit.Handler) -> None:
            nonlocal following
            following = other

        return hop, link

    order = order_of(actors_in(actors, setting))
    members = [member() for _ in order]
    for place, number in enumerate(order):
        members[number][1](members[order[place - 1]][0])
    append((members[0][0], n - 1))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def program_of(actors: int) -> Program:
    def program(stage: Stage, setting: Setting) -> Play:
        n, left = setting.size, -1
        send = stage.send

        def member() -> tuple[Handler, Callable[[Who], None]]:
            following: Who = None

            def hop(_me: object, k: int) -> None:
                nonlocal left
                if k:
                    send(following, k - 1)
                else:
                    left = k
                    stage.finish()

            def link(other: Who) -> None:
                nonlocal following
                following = other

            return hop, link

        order = order_of(actors_in(actors, setting))
        parts = [member() for _ in order]
        members = [stage.spawn(hop) for hop, _ in parts]
        for place, number in enumerate(order):
            parts[number][1](members[order[place - 1]])
        return Play(begin=lambda: send(members[0], n - 1), operations=n, sent=n, handled=lambda: n - left)

    return program


def classes(actors: int, setting: Setting) -> Outcome:
    n, left = setting.size, -1
    order = order_of(actors_in(actors, setting))
    loop = typed.make(LoopConfig(max_actors=len(order)))

    class Member(Actor):
        @data
        def link(self, following: Member) -> None:
            self.following = following

        @data
        def hop(self, k: int) -> None:
            nonlocal left
            if k:
                self.following.hop(k - 1)
            else:
                left = k

    members = [loop.spawn(Member) for _ in order]
    for place, number in enumerate(order):
        members[number].link(members[order[place - 1]])
    loop.run(until_idle=True)
    members[0].hop(n - 1)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + len(order))
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def with_otp(actors: int, setting: Setting) -> Outcome:
    return otp.run("growth", setting.size, actors_in(actors, setting))


def case(power: int, digit: str) -> Case:
    actors = 10**power
    kinds: tuple[Kind, ...] = ("raw", "queues") if actors < 1_000_000 else ("raw",)
    measures: dict[Kind, Measure] = {
        "limit": partial(plain, actors),
        "typed": partial(classes, actors),
        **stages.measures(program_of(actors), *kinds),
        "erlang": partial(with_otp, actors),
    }
    return Case(
        name=f"growth-1e{power}",
        title=f"a message among 10{digit} actors",
        what=f"a token walks through {actors:,} living actors in mixed order",
        size=Size(full=1_000_000, slow=200_000, quick=2_000),
        measures=measures,
        repeats=3 if actors < 100_000 else 1,
        most_rounds=99 if actors < 100_000 else 3,
        is_brief=False,
    )


CASES = (case(2, "²"), case(3, "³"), case(4, "⁴"), case(5, "⁵"), case(6, "⁶"))
