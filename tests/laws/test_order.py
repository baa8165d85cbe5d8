"""The order of a tick: timers by deadline, then actors in the order in which they became ready."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import Context, Loop, LoopConfig
from bandstand.testing import VirtualClock

Send = tuple[int, int]


@pytest.mark.slow
@pytest.mark.spec("J8", "J9", "J7")
@pytest.mark.guarantee("G12", "G13", "G14", "G15")
@given(
    actors=st.integers(1, 6),
    budget=st.integers(1, 4),
    visits=st.integers(1, 5),
    sends=st.lists(st.integers(0, 5), max_size=40),
    timers=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=12),
    forwards=st.dictionaries(st.integers(0, 60), st.lists(st.integers(0, 5), max_size=3), max_size=20),
    jumps=st.lists(st.integers(0, 3), max_size=30),
)
def test_visits_come_in_the_order_of_becoming_ready(
    actors: int,
    budget: int,
    visits: int,
    sends: list[int],
    timers: list[Send],
    forwards: dict[int, list[int]],
    jumps: list[int],
) -> None:
    """A model of the scheduler in twenty lines, tick by tick: who handles what, in which order.

    Message number n makes its actor send on to `forwards[n]`, from inside, so that actors become ready during a tick.
    """
    clock = VirtualClock()
    actual: list[Send] = []
    expected: list[Send] = []
    boxes: list[deque[int]] = [deque() for _ in range(actors)]
    queue: deque[int] = deque()
    pending: list[tuple[int, int, int, int]] = []
    count = 0
    counts = {"real": 0}
    now = 0

    def model_send(who: int, number: int) -> None:
        boxes[who].append(number)
        if who not in queue and who != running:
            queue.append(who)

    running = -1
    with Loop(
        LoopConfig(max_msgs_per_actor=budget, max_actors_per_tick=visits, max_tick=60.0), clock=clock
    ) as loop:

        def behavior(ctx: Context[int], number: int) -> None:
            actual.append((ctx.state, number))
            for to in forwards.get(number, ()):
                counts["real"] += 1
                ctx.loop.send(ids[to % actors], counts["real"])

        ids = [loop.spawn(behavior, which) for which in range(actors)]
        for to in sends:
            count += 1
            model_send(to % actors, count)
            loop.send(ids[to % actors], count)
        for to, ms in timers:
            count += 1
            pending.append((now + ms, len(pending), to % actors, count))
            loop.send_after(ids[to % actors], ms / 1000, count)
        counts["real"] = count
        for jump in [*jumps, 10, *[0] * 20]:
            clock.advance(jump / 1000)
            now += jump
            # The model's tick.
            due = sorted(entry for entry in pending if entry[0] <= now)
            pending = [entry for entry in pending if entry[0] > now]
            for _, _, who, number in due:
                model_send(who, number)
            for _ in range(visits):
                if not queue:
                    break
                running = queue.popleft()
                handled = 0
                while handled < budget and boxes[running]:
                    number = boxes[running].popleft()
                    expected.append((running, number))
                    handled += 1
                    for to in forwards.get(number, ()):
                        count += 1
                        model_send(to % actors, count)
                if boxes[running]:
                    queue.append(running)
                running = -1
            loop.poll_once()
            assert actual == expected
            assert loop.statistics().ready == len(queue)


@pytest.mark.slow
@pytest.mark.spec("J8")
@pytest.mark.guarantee("G14")
@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=30),
    costs=st.lists(st.sampled_from([100, 1_000, 7_000, 50_000, 100_001, 900_000]), min_size=1, max_size=5),
    ms=st.integers(1, 12),
)
def test_a_due_timer_is_a_message_after_127_messages_at_most(
    sizes: list[int], costs: list[int], ms: int
) -> None:
    """Whatever the sizes of the visits and the costs of the messages: the number that docs/guarantees.md states."""
    clock = VirtualClock()
    with Loop(clock=clock) as loop:
        start = clock.now_ns()
        late = handled = 0

        def behavior(ctx: Context[Any], data: object) -> None:
            nonlocal late, handled
            late += clock.now_ns() - start >= ms * 1_000_000
            clock.advance(costs[handled % len(costs)] / 1e9)
            handled += 1

        for size in sizes:
            actor = loop.spawn(behavior)
            for _ in range(size):
                loop.send(actor, "x")
        loop.send_after(loop.spawn(lambda ctx, data: None), ms / 1000, "timer")
        while loop.statistics().timers_fired == 0:
            before = clock.now_ns() - start
            late = 0
            loop.poll_once()
            if before >= ms * 1_000_000:
                assert loop.statistics().timers_fired == 1
                break
            assert late <= 127
            if loop.statistics().ready == 0:
                clock.advance(0.001)
