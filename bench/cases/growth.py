"""What a message costs as more actors live: a token walks through 100, then 1,000, and up to a million of them.

The order of the walk is mixed, once and for everybody alike, so that neighbours in it are none in memory: what grows with the
number is how seldom a cache holds the next actor. An operation is one hop; who makes and links them is not in the figure. Under
10⁶ actors a fast system makes one walk through all of them, a slow one through a part.

A million tasks with queues would take minutes to make, and so the asyncio pair ends at 10⁵. Pykka, Thespian and xoscar are not here:
what grows there is the number of threads, or nothing that is not lost in the cost of one message.
"""

from __future__ import annotations

from functools import partial
from random import Random

from bench import otp, stages, walk
from bench.case import Case, Kind, Measure, Outcome, Setting, Size
from bench.stage import Play, Program, Stage


def order_of(actors: int) -> list[int]:
    """The order of the walk."""
    order = list(range(actors))
    Random(actors).shuffle(order)
    return order


def actors_in(actors: int, setting: Setting) -> int:
    """How many there are; a hundredth under --quick."""
    return max(10, actors // 100) if setting.is_quick else actors


def plain(actors: int, setting: Setting) -> Outcome:
    return walk.plain(order_of(actors_in(actors, setting)), setting)


def program_of(actors: int) -> Program:
    def program(stage: Stage, setting: Setting) -> Play:
        return walk.program(order_of(actors_in(actors, setting)), stage, setting)

    return program


def classes(actors: int, setting: Setting) -> Outcome:
    return walk.classes(order_of(actors_in(actors, setting)), setting)


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
    )


CASES = (case(2, "²"), case(3, "³"), case(4, "⁴"), case(5, "⁵"), case(6, "⁶"))
