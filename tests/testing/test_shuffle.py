"""shuffle: the order of ready actors depends on the seed, and all guarantees hold."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import Context, Lane, Loop, LoopConfig
from bandstand.testing import VirtualClock, shuffle

pytestmark = pytest.mark.guarantee("G41")

SEEDS = st.integers(0, 2**64)
USER_LANES = (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)


def make_loop(**fields: Any) -> Loop:
    clock = VirtualClock()
    return Loop(LoopConfig(loop_factory=clock.new_event_loop, **fields), clock=clock)


def order(seed: int | None, actors: int = 8, messages: int = 3) -> list[str]:
    """Return which actor handled which message, in order, if all actors are ready at once."""
    transcript: list[str] = []
    with make_loop(max_msgs_per_actor=1) as loop:
        if seed is not None:
            shuffle(loop, seed)

        def note(ctx: Context[str], data: int) -> None:
            transcript.append(f"{ctx.state}{data}")

        for name in "abcdefgh"[:actors]:
            actor = loop.spawn(note, name)
            for number in range(messages):
                loop.send(actor, number)
        loop.run(until_idle=True)
    return transcript


@pytest.mark.slow
@given(SEEDS)
def test_the_same_seed_gives_the_same_order(seed: int) -> None:
    assert order(seed) == order(seed)


@pytest.mark.slow
def test_every_order_occurs() -> None:
    seen = {tuple(order(seed, actors=3, messages=1)) for seed in range(200)}
    assert seen == set(permutations(["a0", "b0", "c0"]))


@pytest.mark.slow
@given(SEEDS, st.integers(1, 4), st.integers(0, 2**32))
@pytest.mark.guarantee("G4", "G5", "G10", "G12")
def test_order_inside_a_lane_holds_under_every_seed(seed: int, visit: int, plot: int) -> None:
    choice = Random(plot)
    sent: dict[tuple[int, Lane], list[int]] = defaultdict(list)
    handled: dict[tuple[int, Lane], list[int]] = defaultdict(list)
    serial = iter(range(10**9))

    def pass_on(ctx: Context[int], data: tuple[int, int]) -> None:
        number, rest = data
        handled[ctx.state, ctx.lane].append(number)
        if rest:
            send(rest - 1)
            send(rest - 1)

    with make_loop(max_msgs_per_actor=visit) as loop:
        shuffle(loop, seed)
        actors = [loop.spawn(pass_on, place) for place in range(5)]

        def send(rest: int) -> None:
            place, lane, number = choice.randrange(5), choice.choice(USER_LANES), next(serial)
            loop.send(actors[place], (number, rest), lane=lane)
            sent[place, lane].append(number)

        for _ in range(4):
            send(4)
        loop.run(until_idle=True)
        books = loop.statistics()
    assert handled == sent
    assert books.sent == books.handled == next(serial)


@pytest.mark.slow
@given(SEEDS, st.lists(st.tuples(st.integers(0, 3), st.sampled_from(USER_LANES)), max_size=40))
@pytest.mark.guarantee("G6")
def test_lanes_hold_under_every_seed(seed: int, messages: list[tuple[int, Lane]]) -> None:
    handled: dict[int, list[tuple[Lane, int]]] = defaultdict(list)

    def note(ctx: Context[int], number: int) -> None:
        handled[ctx.state].append((ctx.lane, number))

    with make_loop(max_msgs_per_actor=2) as loop:
        shuffle(loop, seed)
        actors = [loop.spawn(note, place) for place in range(4)]
        for number, (place, lane) in enumerate(messages):
            loop.send(actors[place], number, lane=lane)
        loop.run(until_idle=True)
    for place, seen in handled.items():
        expected = [(lane, number) for number, (there, lane) in enumerate(messages) if there == place]
        # By lane, and within a lane by number, the order of sending.
        assert seen == sorted(expected)
