"""Timers of actors: `after`, `every` and `every_after`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.actor import ActorSystem, Alarm, Ticker, is_alive
from bandstand.core import ExitReason
from bandstand.errors import InvalidArgumentError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.actor.players import Book, Puppet, ride, spin, turns
from tests.core.support import RecordingObserver

pytestmark = pytest.mark.guarantee("G68")

LoopMaker = Callable[..., ActorSystem]
MS = 1_000_000


class Watch:
    """Measures the milliseconds since it was created."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.start = clock.now_ns()

    def __call__(self) -> float:
        return (self.clock.now_ns() - self.start) / MS


def pass_by(loop: ActorSystem, clock: VirtualClock, ms: int, step: float = 1) -> None:
    """Advance time in steps, and tick the loop after each."""
    for _ in range(round(ms / step)):
        clock.advance(step / 1000)
        calm(loop)


def calm(loop: ActorSystem) -> None:
    """Tick until nothing is ready, at most so often that an endless ticker fails its test instead of hanging it."""
    for _ in range(300):
        if loop.poll_once() == 0 and loop.statistics().ready == 0:
            return
    pytest.fail("the loop does not come to rest", pytrace=False)


# --- after ----------------------------------------------------------------------------------------------------------------


def test_after_calls_once_and_never_early(loop: ActorSystem, clock: VirtualClock, book: Book) -> None:
    alarms: list[Alarm] = []
    loop.spawn(Puppet, book).do(lambda me: alarms.extend(me.after(0.01, me.write, n) for n in (1, 2)))
    calm(loop)
    clock.advance(0.009999000000000001)
    calm(loop)
    assert book == []
    assert alarms[1].cancel() is True
    assert alarms[1].cancel() is False
    pass_by(loop, clock, 50)
    assert book == [(1,)]
    assert alarms[0].cancel() is False, "it has fired"
    assert loop.statistics().timers_cancelled == 1


@pytest.mark.slow
@given(ms=st.just(0.0) | st.floats(1e-6, 50), early=st.floats(0, 0.999))
def test_after_is_never_early_for_any_start_time(ms: float, early: float) -> None:
    clock = VirtualClock()
    with ActorSystem(clock=clock) as loop:
        clock.advance(early / 1000)
        watch, times = Watch(clock), list[float]()
        loop.spawn(Puppet, []).do(lambda me: me.after(ms / 1000, lambda: times.append(watch())))
        calm(loop)
        pass_by(loop, clock, 53, step=0.25)
        assert len(times) == 1
        assert ms <= times[0] + 1e-9 < ms + 2.5


@pytest.mark.parametrize("kind", ["after", "every"])
def test_a_declared_method_has_its_own_lane(loop: ActorSystem, clock: VirtualClock, kind: str) -> None:
    book: Book = []
    handle = loop.spawn(Puppet, book)

    def start(me: Puppet) -> None:
        for method, what in ((me.note, "data"), (me.write, "data too"), (me.urgent, "control")):
            getattr(me, kind)(0.005, method, what)

    handle.do(start)
    calm(loop)
    clock.advance(0.007)
    calm(loop)
    assert book == ["control", "data", ("data too",)]


def test_after_awaits_a_coroutine_function(make_loop: LoopMaker, clock: VirtualClock, book: Book) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)

    def start(me: Puppet) -> None:
        async def later() -> None:
            book.append("begin")
            await asyncio.sleep(0.01)
            book.append("end")

        me.after(0.005, later)

    loop.spawn(Puppet, book).do(start)
    loop.run(until_idle=True)
    assert book == ["begin", "end"]


def test_the_result_of_a_timer_call_is_dropped(loop: ActorSystem, clock: VirtualClock) -> None:
    handle = loop.spawn(Puppet, [])
    handle.do(lambda me: me.after(0.001, lambda: 7))
    calm(loop)
    pass_by(loop, clock, 5)
    assert is_alive(handle)


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), "1", None, True, timedelta(seconds=-1), 0])
def test_an_invalid_delay_or_period_is_refused(loop: ActorSystem, delay: Any) -> None:
    caught: list[str] = []

    def start(me: Puppet) -> None:
        for function in (me.every, me.every_after) if delay == 0 else (me.after, me.every, me.every_after):
            with pytest.raises(InvalidArgumentError, match=r"(delay|period) is .*: pass seconds") as info:
                function(delay, me.write)
            caught.append(str(info.value))

    loop.spawn(Puppet, []).do(start)
    calm(loop)
    assert len(caught) == (2 if delay == 0 else 3)
    assert delay != 0 or all("above 0" in words for words in caught)


# --- every ----------------------------------------------------------------------------------------------------------------


def ticks(loop: ActorSystem, clock: VirtualClock, period: float, total: int, step: float = 1) -> list[float]:
    watch, times = Watch(clock), list[float]()
    loop.spawn(Puppet, []).do(lambda me: me.every(period / 1000, lambda: times.append(watch())))
    calm(loop)
    pass_by(loop, clock, total, step)
    return times


def test_every_does_not_drift_when_each_tick_is_late(loop: ActorSystem, clock: VirtualClock) -> None:
    # Time advances in steps of 7 ms, so nearly every tick is late; the delays do not add up.
    times = ticks(loop, clock, 10, 1001, step=7)
    assert len(times) == 100
    assert all(0 <= time - 10 * number < 7 for number, time in enumerate(times, 1))


@pytest.mark.slow
@given(period=st.integers(1, 40), step=st.integers(1, 60), early=st.floats(0, 0.999))
def test_ticks_are_never_early_and_never_two_for_one_period(period: int, step: int, early: float) -> None:
    clock = VirtualClock()
    with ActorSystem(clock=clock) as loop:
        clock.advance(early / 1000)
        times = ticks(loop, clock, period, 600, step)
    periods = [int(time // period) for time in times]
    assert all(number >= 1 for number in periods)
    assert len(set(periods)) == len(periods)
    # One for each step that passes a multiple, except for what rounding up to a whole millisecond moves.
    assert len(times) >= 600 // max(period, step) - 2


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("kind", ["every", "every_after"])
def test_a_cancelled_ticker_stops(loop: ActorSystem, clock: VirtualClock, kind: str, is_inside: bool) -> None:
    """Also if it is cancelled inside its tick."""
    book: Book = []
    tickers: list[Ticker] = []

    def tick() -> None:
        book.append("tick")
        if is_inside and len(book) == 3:
            assert tickers[0].cancel()

    loop.spawn(Puppet, book).do(lambda me: tickers.append(getattr(me, kind)(0.01, tick)))
    calm(loop)
    pass_by(loop, clock, 35)
    assert tickers[0].cancel() is not is_inside
    assert tickers[0].cancel() is False
    pass_by(loop, clock, 50)
    assert book == ["tick"] * 3
    assert loop.statistics().timers_pending == 0


def test_a_tick_in_the_mailbox_does_nothing_after_cancel(loop: ActorSystem, clock: VirtualClock) -> None:
    book: Book = []
    tickers: list[Ticker] = []
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: tickers.append(me.every(0.01, me.write, "tick")))
    calm(loop)

    def cancel(me: Puppet) -> None:
        tickers[0].cancel()
        book.append("cancelled")

    handle.do(lambda me: clock.advance(0.01))
    loop.poll_once()
    handle.do(cancel)
    calm(loop)
    clock.advance(0.01)
    calm(loop)
    assert book[-1] == "cancelled"


@pytest.mark.parametrize("kind", ["every", "every_after"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tick_that_raises_fails_the_actor(
    loop: ActorSystem, clock: VirtualClock, diary: RecordingObserver, kind: str, is_async: bool
) -> None:
    async def later(me: Puppet) -> None:
        await turns()
        me.fail()

    def start(me: Puppet) -> None:
        if is_async:
            getattr(me, kind)(0.01, later, me)
        else:
            getattr(me, kind)(0.01, me.fail)

    handle = loop.spawn(Puppet, [])
    handle.do(start)
    calm(loop)
    clock.advance(0.011)
    spin(loop)
    assert [why for _, why in diary.stopped] == [ExitReason.PANIC]
    assert loop.statistics().timers_pending == 0


# --- every_after ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_every_after_counts_from_the_end(make_loop: LoopMaker, clock: VirtualClock, is_async: bool) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    watch, times = Watch(clock), list[float]()

    async def slow_tick() -> None:
        times.append(watch())
        await asyncio.sleep(0.02)

    def tick() -> None:
        times.append(watch())
        clock.advance(0.02)

    async def body() -> None:
        loop.spawn(Puppet, []).do(lambda me: me.every_after(0.01, slow_tick if is_async else tick))
        await asyncio.sleep(0.2)

    ride(loop, body)
    # 10, then a bit more than 30 each time: rounded up to whole milliseconds, never early.
    assert times[0] == 10
    assert len(times) >= 6
    assert all(30 <= second - first <= 32 for first, second in pairwise(times))


# --- end of the actor -------------------------------------------------------------------------------------------------------


def test_timers_end_with_their_actor(loop: ActorSystem, clock: VirtualClock, book: Book) -> None:
    handle = loop.spawn(Puppet, book)

    def start(me: Puppet) -> None:
        me.kept = (
            me.after(0.01, me.write, 1),
            me.every(0.01, me.write, 2),
            me.every_after(0.01, me.write, 3),
        )
        made.extend(me.kept)

    made: list[Alarm] = []
    handle.do(start)
    calm(loop)
    handle.stop()
    calm(loop)
    assert loop.statistics().timers_pending == 0
    pass_by(loop, clock, 50)
    assert book == []
    assert made[0].cancel() is False
    for alarm in made:
        alarm.cancel()


def test_an_ending_actor_cannot_start_a_timer(loop: ActorSystem, book: Book) -> None:
    class Late(Puppet):
        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            with pytest.raises(NoSuchActorError):
                self.after(0.001, self.write)
            self.book.append("refused")

    loop.spawn(Late, book).stop()
    calm(loop)
    assert book == ["refused"]


@pytest.mark.parametrize("period", [1000 / 60, 1000 / 30, 1.1, 3.3])
def test_a_fractional_period_never_ticks_twice(loop: ActorSystem, clock: VirtualClock, period: float) -> None:
    """A rounded multiple of the period turned out to be now, over and over."""
    times: list[float] = []

    def start(me: Puppet) -> None:
        def tick() -> None:
            times.append(clock.now_ns() / 1e6)
            if len(times) == 100:
                me.stop()

        me.every(period / 1000, tick)

    loop.spawn(Puppet, []).do(start)
    loop.run(until_idle=True)
    assert len(times) == len(set(times)) == 100
    assert times[-1] - times[0] == pytest.approx(99 * period, abs=2)
