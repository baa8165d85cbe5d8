"""A loop with nothing to do does nothing: no tick, no wake-up, no processor time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from time import monotonic, process_time, thread_time
from typing import Any, NamedTuple

import pytest

from bandstand.core import Context, Loop, MonotonicClock, Statistics
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
