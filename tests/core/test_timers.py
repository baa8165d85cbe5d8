"""send_after and cancel_timer: once or never, never early, in order."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop, TimerId
from bandstand.core.kernel import checked_delay
from bandstand.core.timer_wheel import Timer, TimerWheel
from bandstand.errors import InvalidArgumentError, InvalidTimerError
from bandstand.errors.validation import to_ms
from bandstand.testing import VirtualClock
from tests.core.support import (
    BreakableClock,
    LoopMaker,
    Seen,
    collect,
    fill,
    idle,
    python,
    record,
    settle,
)

YEAR = 366 * 24 * 3600 * 1000


def is_pending(timer: TimerId) -> bool:
    """Asked anew each time: a checker takes an attribute for what it was."""
    return timer.pending


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G16", "G17")
@pytest.mark.parametrize("offset", [0, 0.1, 0.999])
@pytest.mark.parametrize(
    "ms", [0.0001, 0.999, 1, 2, 63, 64, 65, 4095, 4096, 4097, 262_144, 86_400_000, YEAR, 99 * YEAR]
)
def test_a_timer_is_delivered_once_and_never_early(
    loop: Loop, clock: VirtualClock, ms: float, offset: float, seen: list[Any]
) -> None:
    actor = loop.spawn(collect, seen)
    clock.advance(offset / 1000)
    timer = loop.send_after(actor, timedelta(milliseconds=ms) if ms == 2 else ms / 1000, "tick")
    assert is_pending(timer)
    assert "pending" in repr(timer)
    due = math.ceil(ms)
    clock.advance((due - 1) / 1000)
    settle(loop)
    clock.advance(0.000999999)
    settle(loop)
    assert seen == []
    # Fractions are rounded up, of the delay and of the time at which it was set.
    clock.advance(0.000000001 if offset == 0 else 0.001)
    settle(loop)
    assert seen == ["tick"]
    assert not is_pending(timer)
    assert "pending" not in repr(timer)
    clock.advance(min(2 * due, 40 * YEAR) / 1000)
    settle(loop)
    assert seen == ["tick"]


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G17")
@pytest.mark.parametrize("ms", [0, 0.0, -0.0, False])
def test_zero_is_a_later_tick_never_inside_the_call(loop: Loop, ms: float) -> None:
    ticks: list[int] = []

    def behavior(ctx: Context[Any], data: int) -> None:
        ticks.append(ctx.loop.statistics().ticks)
        if data > 0:
            ctx.loop.send_after(ctx.self_id, ms / 1000, data - 1)

    loop.send(loop.spawn(behavior), 3)
    settle(loop)
    assert len(ticks) == 4
    assert ticks == sorted(set(ticks)), "each in a tick of its own"


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G17")
@pytest.mark.parametrize(
    "delay",
    [
        -1, -0.1, -1e300, math.nan, math.inf, -math.inf, 101 * YEAR // 1000, 101.0 * YEAR / 1000, 1 << 63, 1 << 64, 1 << 2000,
        1e300, None, "5", 1j, True, timedelta(seconds=-1), timedelta(days=101 * 366),
    ],
    ids=repr,
)  # fmt: skip
def test_a_delay_that_makes_no_sense_is_an_invalid_argument(loop: Loop, delay: Any) -> None:
    actor = loop.spawn(idle)
    with pytest.raises(InvalidArgumentError, match=r"delay is .*: pass seconds from 0 to a hundred years"):
        loop.send_after(actor, delay, "x")
    assert loop.statistics().timers_set == 0


@pytest.mark.guarantee("G17")
def test_seconds_are_counted_in_exact_milliseconds() -> None:
    """16.1 * 1000 is 16100.000000000002 in floating point, and still 16,100 ms."""
    for ms in (*range(1, 40_000, 7), 16_100, 999_999, 86_400_001):
        assert checked_delay(ms / 1000) == ms
        assert to_ms("delay", ms / 1000) == ms
        assert checked_delay(timedelta(milliseconds=ms)) == ms


@pytest.mark.guarantee("G17")
@pytest.mark.parametrize(
    ("delay", "ms"),
    [(0, 0), (0.0, 0), (1e-12, 1), (5e-324, 1), (0.0005, 1), (0.001, 1), (0.0010001, 2), (0.0024, 3), (2, 2000), (timedelta(0), 0),
     (timedelta(microseconds=1), 1), (timedelta(microseconds=1001), 2)],
    ids=repr,
)  # fmt: skip
def test_fractions_of_a_millisecond_round_up(delay: Any, ms: int) -> None:
    """Only 0 is 0: any other delay is at least a millisecond."""
    assert checked_delay(delay) == ms


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("is_due", [False, True])
def test_a_cancelled_timer_is_never_delivered(
    loop: Loop, clock: VirtualClock, seen: list[Any], is_due: bool
) -> None:
    actor = loop.spawn(collect, seen)
    timers = [loop.send_after(actor, (1 + number % 7) / 1000, number) for number in range(100)]
    if is_due:
        clock.advance(0.05)
    for timer in timers[::2]:
        loop.cancel_timer(timer)
        assert not timer.pending
    clock.advance(0.1)
    settle(loop)
    assert sorted(seen) == list(range(1, 100, 2))
    for timer in timers:
        with pytest.raises(InvalidTimerError):
            loop.cancel_timer(timer)
    books = loop.statistics()
    assert (books.timers_set, books.timers_fired, books.timers_cancelled) == (100, 50, 50)
    assert books.timers_pending == 0


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G19", "G21")
def test_timers_go_with_their_target(loop: Loop, clock: VirtualClock, seen: list[Any]) -> None:
    actor = loop.spawn(idle)
    timers = [loop.send_after(actor, ms / 1000, "x") for ms in (0, 1, 100, 100_000)]
    loop.stop_actor(actor)
    heir = loop.spawn(collect, seen)
    assert int(heir) >> 24 == int(actor) >> 24, "the same seat"
    clock.advance(200.0)
    settle(loop)
    assert seen == []
    assert not any(timer.pending for timer in timers)
    books = loop.statistics()
    assert (books.timers_released, books.timers_pending) == (4, 0)


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G20")
def test_a_due_timer_waits_for_room_in_order(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(max_msgs_per_actor=1, max_actors_per_tick=1)
    seen: list[Seen] = []
    actor = loop.spawn(record, seen, mailbox_cap=6)
    timers = [loop.send_after(actor, (1 + number // 2) / 1000, f"timer {number}") for number in range(4)]
    fill(loop, actor)
    clock.advance(0.01)
    loop.poll_once()
    assert loop.statistics().timers_fired == 1
    assert [timer.pending for timer in timers] == [False, True, True, True]
    loop.cancel_timer(timers[2])
    settle(loop)
    assert [message.data for message in seen] == ["filler", "filler", "timer 0", "timer 1", "timer 3"]
    books = loop.statistics()
    assert (books.timers_fired, books.timers_cancelled, books.timers_pending) == (3, 1, 0)
    assert books.refused == 1, "only fill()'s own last try"


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G20")
def test_a_full_lane_holds_back_only_its_own_timers(loop: Loop, clock: VirtualClock) -> None:
    seen: list[Seen] = []
    actor = loop.spawn(record, seen, mailbox_cap=5)
    loop.send_after(actor, 0.001, "data timer")
    loop.send_after(actor, 0.001, "control timer", lane=Lane.CONTROL)
    loop.send(actor, "data")
    clock.advance(0.001)
    settle(loop)
    assert [message.data for message in seen] == ["control timer", "data", "data timer"]


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G20", "G21")
def test_a_timer_that_waits_for_room_goes_with_its_target(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(max_actors_per_tick=1)
    # The first actor uses up the tick's one visit, so the second one's lane stays full.
    loop.send(loop.spawn(idle), "x")
    actor = loop.spawn(idle, mailbox_cap=5)
    loop.send(actor, "filler")
    timer = loop.send_after(actor, 0.001, "overdue")
    clock.advance(0.001)
    loop.poll_once()
    assert is_pending(timer)
    assert loop.statistics().timers_fired == 0
    loop.stop_actor(actor)
    assert not is_pending(timer)
    books = loop.statistics()
    assert (books.timers_released, books.timers_pending, books.dead) == (1, 0, 1)


@pytest.mark.guarantee("G16")
def test_a_clock_that_breaks_in_send_after_leaves_no_half_timer(make_loop: LoopMaker) -> None:
    clock = BreakableClock()
    loop = make_loop(clock=clock)
    actor = loop.spawn(idle)
    clock.break_with(ValueError("the clock has stopped"))
    with pytest.raises(ValueError, match="the clock has stopped"):
        loop.send_after(actor, 0.005, "x")
    clock.error = None
    assert loop.statistics().timers_set == 0
    loop.stop_actor(actor)


FAR = """
from bandstand.core import Loop
from bandstand.errors import InvalidArgumentError
from bandstand.testing import VirtualClock

YEAR = 366 * 24 * 3600 * 1000
seen = []
for years in (0, 30, 39, 45, 60, 100, 138, 139, 140, 145):
    clock = VirtualClock()
    loop = Loop(clock=clock)
    actor = loop.spawn(lambda ctx, data: seen.append(data))
    clock.advance(years * YEAR / 1000)
    loop.poll_once()
    for ms in (0, 1, 1000, YEAR, 50 * YEAR, 100 * YEAR - 1):
        try:
            loop.send_after(actor, ms / 1000, (years, ms))
        except InvalidArgumentError:
            assert years + ms / YEAR > 138, (years, ms)
            continue
        if ms <= 1000:
            # Near enough to see it fire, and never early.
            before = len(seen)
            clock.advance((ms + 1) / 1000)
            loop.poll_once()
            loop.poll_once()
            assert seen[before:] == [(years, ms)], (years, ms, seen)
    loop.destroy()
print("fine")
"""


@pytest.mark.slow
@pytest.mark.spec("C6")
@pytest.mark.guarantee("G17")
def test_the_reach_of_the_wheel_is_refused_or_kept_never_overrun() -> None:
    """139 years of wheel, 100 years of timer: past the sum a compiled wheel would read beyond its last level."""
    done = python(FAR)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr[-2000:]


# --- the wheel alone: what C6 asks for ----------------------------------------------------------------------------------


def drain(wheel: TimerWheel) -> list[Timer]:
    taken: list[Timer] = []
    while (timer := wheel.take()) is not None:
        taken.append(timer)
    return taken


@pytest.mark.spec("C6")
def test_the_wheel_is_turned_few_times_for_a_far_deadline() -> None:
    """One timer a hundred years away wakes the wheel six times at most, once a level, not once a millisecond."""
    wheel = TimerWheel(12_345)
    timer = Timer()
    deadline = 100 * YEAR + 777
    wheel.schedule(timer, deadline)
    turns = 0
    while wheel.soonest < deadline:
        wheel.expire(wheel.soonest)
        assert drain(wheel) == []
        turns += 1
    assert turns <= 7
    wheel.expire(deadline)
    assert drain(wheel) == [timer]


@pytest.mark.spec("C6")
@pytest.mark.heavy
def test_a_hundred_thousand_pending_timers_fire_in_order() -> None:
    from random import Random

    random = Random(4711)
    wheel = TimerWheel(0)
    model: list[tuple[int, int, Timer]] = []
    for number in range(100_000):
        timer, deadline = Timer(), random.randrange(1, 1 << random.randrange(1, 40))
        wheel.schedule(timer, deadline)
        model.append((deadline, number, timer))
    model.sort(key=lambda entry: entry[:2])
    wheel.expire(1 << 40)
    assert drain(wheel) == [timer for _, _, timer in model]
