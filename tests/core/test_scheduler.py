"""Fairness, the order and the bounds of a tick, in virtual time that passes only inside handlers."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.core import Context, Loop
from bandstand.testing import VirtualClock
from tests.core.support import LoopMaker, collect, fill, idle

MS = 1_000_000
# How many messages lie between two looks at the clock at most.
BOUND = 8


@pytest.mark.slow
@pytest.mark.spec("J8")
@pytest.mark.guarantee("G12")
def test_an_actor_that_feeds_itself_cannot_monopolise(loop: Loop, seen: list[int]) -> None:
    def greedy(ctx: Context[Any], data: object) -> None:
        for _ in range(2):
            ctx.loop.try_send(ctx.self_id, data)

    hog = loop.spawn(greedy)
    loop.send(hog, "x")
    loop.poll_once()
    others = [loop.spawn(collect, seen) for _ in range(50)]
    for number, other in enumerate(others):
        loop.send(other, number)
    loop.poll_once()
    assert seen == list(range(50))


@pytest.mark.spec("J8")
@pytest.mark.guarantee("G14")
def test_a_tick_ends_as_soon_as_a_deadline_has_passed(loop: Loop, clock: VirtualClock) -> None:
    order: list[str] = []

    def slow(ctx: Context[Any], data: object) -> None:
        order.append("slow")
        clock.advance(0.001)

    timed = loop.spawn(collect, order)
    loop.send_after(timed, 0.002, "timer")
    for _ in range(10):
        loop.send(loop.spawn(slow), "x")
    assert loop.poll_once() == 2
    # The timer's message is the first thing of the next tick; its actor is behind those who were ready before it.
    loop.poll_once()
    assert loop.statistics().timers_fired == 1


class Flood:
    """Actors that keep the loop busy: each message takes `h` nanoseconds; between ticks they are filled up again."""

    def __init__(self, loop: Loop, clock: VirtualClock, sizes: list[int], h: int) -> None:
        self.loop, self.clock, self.h = loop, clock, h
        self.deadline = 1 << 62
        self.late = 0
        self.actors = [loop.spawn(self.handle, mailbox_cap=size + 4) for size in sizes]

    def handle(self, ctx: Context[Any], data: object) -> None:
        # Only asked while the deadline has passed and its tick goes on: the next tick begins by firing it.
        if self.clock.now_ns() >= self.deadline:
            self.late += 1
        self.clock.advance((self.h / MS) / 1000)

    def tick(self) -> None:
        for actor in self.actors:
            fill(self.loop, actor)
        self.loop.poll_once()


MIXES = {
    "one busy actor": [1000],
    "many small ones": [1] * 200,
    "visits of 63 and 64": [63, 64] * 10,
    "visits of 33": [33] * 30,
    "one large among small": [1] * 63 + [1000],
}
HANDLERS = [500, 1_000, 10_000, 99_000, 1_000_000]


@pytest.mark.spec("J8")
@pytest.mark.guarantee("G14")
@pytest.mark.parametrize("h", HANDLERS)
@pytest.mark.parametrize("mix", MIXES)
def test_a_due_timer_waits_a_bounded_time(loop: Loop, clock: VirtualClock, mix: str, h: int) -> None:
    """The bound that docs/guarantees.md states, then one poll of the host; which is polled as often."""
    start = clock.now_ns()
    flood = Flood(loop, clock, MIXES[mix], h)
    target = loop.spawn(idle)
    flood.tick()
    for fired in range(1, 6):
        loop.send_after(target, 0.001, "timer")
        # The wheel counts whole milliseconds from the loop's beginning: a deadline is rounded up to the next one.
        flood.deadline = clock.now_ns() + MS + -(clock.now_ns() - start) % MS
        flood.late = 0
        while loop.statistics().timers_fired < fired:
            assert flood.late <= BOUND
            before = clock.now_ns()
            was_due = before >= flood.deadline
            if was_due:
                flood.deadline = 1 << 62
            flood.tick()
            assert clock.now_ns() - before <= 5 * MS + BOUND * h
            if was_due:
                assert loop.statistics().timers_fired == fired, "it is the first thing that a tick does"


class Costly:
    """A clock that moves on by a millisecond each time somebody looks at it: looking stands for working."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        self.now += MS
        return self.now


@pytest.mark.spec("J8")
@pytest.mark.guarantee("G14")
def test_timers_that_are_due_faster_than_delivered_do_not_starve_actors(make_loop: LoopMaker) -> None:
    loop = make_loop(clock=Costly())
    seen: list[str] = []
    timed = loop.spawn(idle, mailbox_cap=1 << 20)
    other = loop.spawn(collect, seen)
    for _ in range(10_000):
        loop.send_after(timed, 0, "timer")
    for _ in range(3):
        loop.send(other, "sent")
        before = len(seen)
        # The visit of the other actor may take the rest of a tick; then this one is the next.
        loop.poll_once()
        loop.poll_once()
        assert loop.statistics().timers_pending > 0, "the tick had time for all: the test shows nothing"
        assert len(seen) > before
    fired = loop.statistics().timers_fired
    loop.poll_once()
    assert loop.statistics().timers_fired > fired
