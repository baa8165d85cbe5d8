"""What ends the visit of an actor early: the time of the tick, and urgent messages of other threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop
from bandstand.testing import VirtualClock
from tests.core.support import LoopMaker, collect, in_thread, settle

MS = 1_000_000
# How many messages may lie between two looks at the clock.
PACE = 8


class Worker:
    """Takes as long for each message as the message says, in milliseconds; writes down what it has handled, and when."""

    def __init__(self, loop: Loop, clock: VirtualClock) -> None:
        self.clock = clock
        self.seen: list[object] = []
        self.deeds: dict[int, Callable[[], object]] = {}
        self.actor = loop.spawn(self.handle, mailbox_cap=10_000)

    def handle(self, ctx: Context[Any], data: Any) -> None:
        self.seen.append(data)
        if deed := self.deeds.pop(len(self.seen), None):
            deed()
        if isinstance(data, (int, float)):
            self.clock.advance(data / 1000)


@pytest.mark.guarantee("G14", "G268")
@pytest.mark.parametrize("take_ms", [0.5, 1, 2])
def test_a_visit_uses_the_time_of_its_tick(loop: Loop, clock: VirtualClock, take_ms: float) -> None:
    worker = Worker(loop, clock)
    for _ in range(40):
        loop.send(worker.actor, take_ms)
    start = clock.now_ns()
    loop.poll_once()
    assert 5 * MS <= clock.now_ns() - start < (5 + take_ms) * MS


@pytest.mark.guarantee("G14", "G268")
def test_an_actor_that_becomes_slow_is_noticed(loop: Loop, clock: VirtualClock) -> None:
    worker = Worker(loop, clock)
    for _ in range(1000):
        loop.send(worker.actor, 0)
    settle(loop)
    for _ in range(60):
        loop.send(worker.actor, 100)
    assert loop.poll_once() <= PACE
    # From then on it is known: the clock is read after each of its messages.
    assert [loop.poll_once() for _ in range(10)] == [1] * 10


@pytest.mark.guarantee("G14", "G268")
def test_a_visit_ends_as_soon_as_a_deadline_has_passed(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(max_tick=1.0)
    worker = Worker(loop, clock)
    seen: list[Any] = []
    for _ in range(60):
        loop.send(worker.actor, 10)
    loop.send_after(loop.spawn(collect, seen), 0.03, "timer")
    assert loop.poll_once() == 3
    loop.poll_once()
    assert seen == ["timer"]


@pytest.mark.guarantee("G14")
def test_timer_callbacks_are_limited_by_the_tick(loop: Loop, clock: VirtualClock, seen: list[object]) -> None:
    fired: list[int] = []

    def slow(number: int) -> None:
        fired.append(number)
        clock.advance(0.1)

    for number in range(10):
        loop.kernel.call_later(1, lambda number=number: slow(number))  # type: ignore[misc]  # a default binds it
    loop.send(loop.spawn(collect, seen), "x")
    clock.advance(0.001)
    loop.poll_once()
    assert fired == [0]
    assert seen == ["x"]
    for _ in range(9):
        loop.poll_once()
    assert fired == list(range(10))


@pytest.mark.guarantee("G269")
@pytest.mark.parametrize("lane", [Lane.CONTROL, Lane.MANAGEMENT])
def test_an_urgent_message_of_a_thread_comes_first(loop: Loop, clock: VirtualClock, lane: Lane) -> None:
    worker = Worker(loop, clock)
    for _ in range(60):
        loop.send(worker.actor, 0)
    worker.deeds[3] = lambda: in_thread(lambda: loop.send_async(worker.actor, "urgent", lane=lane))
    settle(loop)
    assert worker.seen[:5] == [0, 0, 0, "urgent", 0]
    assert len(worker.seen) == 61


@pytest.mark.guarantee("G12", "G269")
@pytest.mark.parametrize(("lane", "before"), [(Lane.CONTROL, 3), (Lane.DATA, 60)])
def test_an_urgent_message_to_another_actor_ends_the_visit_as_well(
    loop: Loop, clock: VirtualClock, lane: Lane, before: int, seen: list[Any]
) -> None:
    worker = Worker(loop, clock)
    other = loop.spawn(collect, seen)
    for _ in range(60):
        loop.send(worker.actor, 0)
    worker.deeds[3] = lambda: in_thread(lambda: loop.send_async(other, "x", lane=lane))
    count: list[int] = []
    loop.send(loop.spawn(lambda ctx, data: count.append(len(worker.seen))), "next in the queue")
    settle(loop)
    assert (seen, count, len(worker.seen)) == (["x"], [before], 60)


@pytest.mark.guarantee("G26", "G269")
@pytest.mark.parametrize("end", ["kill_actor", "stop_actor", "fail_actor", "request_stop"])
def test_an_end_by_a_thread(
    loop: Loop, clock: VirtualClock, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(loop, clock)
    for _ in range(60):
        loop.send(worker.actor, 0)
    arguments = [] if end == "request_stop" else [worker.actor]
    worker.deeds[2] = lambda: in_thread(
        lambda: loop.kernel.inbox.call_soon(lambda: getattr(loop, end)(*arguments))
    )
    loop.poll_once()
    assert len(worker.seen) == 2
    assert loop.statistics().dead == 58
