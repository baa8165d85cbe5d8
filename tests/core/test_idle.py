"""A loop with nothing to do does nothing: no tick, no wake-up, no processor time."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator
from time import monotonic, process_time, thread_time
from typing import Any, NamedTuple

import pytest

from bandstand.core import Context, Interest, Loop, MonotonicClock, Statistics
from bandstand.testing import run_async
from tests.core.support import HostFactory, LoopMaker, idle

pytestmark = [pytest.mark.spec("J15"), pytest.mark.guarantee("G38")]

PATIENCE = 30
SPAN = 2.0  # seconds to be idle
ALLOWED = 0.010  # seconds of processor time meanwhile

real_time = pytest.mark.real_time(reason="whether a real event loop sleeps shows only while real time passes")


@pytest.fixture(autouse=True)
def _nobody_sweeps() -> Iterator[None]:
    """Collecting what thousands of other tests have left takes longer than is allowed here, and is not the loop's doing."""
    gc.disable()
    yield
    gc.enable()


class Look(NamedTuple):
    """How things stood at one moment, as the loop's own thread saw them."""

    books: Statistics
    thread: float
    process: float
    moment: float


def look_at(loop: Loop) -> Look:
    return Look(loop.statistics(), thread_time(), process_time(), monotonic())


def looker(ctx: Context[list[Look]], data: object) -> None:
    ctx.state.append(look_at(ctx.loop))


def nothing(loop: Loop) -> None:
    """Nothing at all besides the actors."""


def a_far_timer(loop: Loop) -> None:
    loop.send_after(loop.spawn(idle), 3600.0, "an hour from now")


def timers_at_all_distances(loop: Loop) -> None:
    """One in each wheel: turning it over must not cost a wake-up when nothing is due."""
    actor = loop.spawn(idle)
    for power in range(4, 12):
        loop.send_after(actor, 10**power / 1000, "later")


CASES: dict[str, Callable[[Loop], None]] = {
    "nothing else": nothing,
    "a far timer": a_far_timer,
    "timers at all distances": timers_at_all_distances,
}


@real_time
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_idle_seconds_cost_no_tick_no_wakeup_and_no_time(make_loop: LoopMaker, case: str) -> None:
    """It runs in this thread; another one only wakes it at the end."""
    loop = make_loop(clock=MonotonicClock())
    looks: list[Look] = []
    looked = threading.Event()

    def note(ctx: Context[Any], data: object) -> None:
        looks.append(look_at(ctx.loop))
        looked.set()
        if len(looks) == 2:
            ctx.loop.request_stop()

    for _ in range(100):
        loop.send(loop.spawn(idle), "once")
    CASES[case](loop)
    actor = loop.spawn(note)

    def wait() -> None:
        assert looked.wait(PATIENCE)
        threading.Event().wait(SPAN)
        loop.send_async(actor, "well?")

    thread = threading.Thread(target=wait)
    thread.start()
    loop.send(actor, "begin")
    loop.run()
    thread.join(PATIENCE)
    first, last = looks
    assert last.moment - first.moment >= SPAN * 0.99
    # One tick and one wake-up: the message that ended it.
    assert last.books.ticks - first.books.ticks == 1
    assert last.books.wakeups - first.books.wakeups == 1
    assert first.books.alive == last.books.alive >= 101
    assert last.thread - first.thread < ALLOWED
    assert last.process - first.process < 2 * ALLOWED, "the other thread has slept too"


@real_time
@pytest.mark.slow
@pytest.mark.guarantee("G36")
def test_a_watched_descriptor_costs_one_wakeup(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    """Ready for two seconds, and its owner in flight all the while: a level-triggered poll would spin."""
    loop = make_loop(clock=MonotonicClock(), fd_sweep_period=0.5)
    read, write = os.pipe()
    begun = asyncio.Event()

    async def owner(ctx: Context[Any], data: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> tuple[Look, Look]:
        async with loop:
            loop.watch_fd(read, loop.spawn(owner), Interest.READ)
            os.write(write, b"x")
            await begun.wait()
            first = look_at(loop)
            await asyncio.sleep(SPAN)
            return first, look_at(loop)

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            first, last = runner.run(main())
    finally:
        os.close(read)
        os.close(write)
    assert last.books.sent == first.books.sent == 1
    assert last.books.wakeups - first.books.wakeups <= 5
    assert last.thread - first.thread < ALLOWED


def test_a_busy_event_loop_does_not_wake_it(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop(clock=MonotonicClock())

    async def main() -> None:
        async with loop:
            loop.send(loop.spawn(idle), "x")
            loop.send_after(loop.spawn(idle), 3600.0, "an hour from now")
            for _ in range(5):
                await asyncio.sleep(0)
            before = loop.statistics()
            for _ in range(1000):
                await asyncio.sleep(0)
            assert loop.statistics() == before

    run_async(main, loop_factory=loop_factory)


@real_time
def test_a_timer_does_not_wake_the_loop_over_and_over_before_it_is_due(make_loop: LoopMaker) -> None:
    """An event loop whose own time is coarse may come a millisecond early, once; we then ask it again, once."""
    loop = make_loop(clock=MonotonicClock())
    looks: list[Look] = []
    actor = loop.spawn(looker, looks)
    for ms in (0, 7, 15.5, 33):
        loop.send_after(actor, ms / 1000, "now")
    loop.run(until_idle=True)
    assert len(looks) == 4
    assert looks[-1].books.wakeups - looks[0].books.wakeups <= 6
    assert looks[-1].books.ticks - looks[0].books.ticks <= 6
