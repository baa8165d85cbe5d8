"""VirtualClock: moved by hand and jumping, on its own event loop and on others, where only the loop's timers are virtual."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import InvalidArgumentError
from bandstand.testing import Probe, VirtualClock

HostFactory = Callable[[], asyncio.AbstractEventLoop]

pytestmark = pytest.mark.guarantee("G40")

YEAR = 365 * 24 * 3600 * 1000


class Timed:
    """A behavior that records when it was called: in milliseconds since the start of the test."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.start = clock.now_ns()
        self.log: list[tuple[Any, float]] = []

    def __call__(self, ctx: Context[Any], data: object) -> None:
        self.log.append((data, (self.clock.now_ns() - self.start) / 1e6))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["the clock's event loop", "the lane's event loop"])
def loop(request: pytest.FixtureRequest, clock: VirtualClock, loop_factory: HostFactory) -> Iterator[Loop]:
    factory = clock.new_event_loop if request.param.startswith("the clock") else loop_factory
    with Loop(LoopConfig(loop_factory=factory), clock=clock) as loop:
        yield loop


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_it_does_not_start_at_zero_and_stands_still(clock: VirtualClock) -> None:
    assert clock.now_ns() == clock.now_ns() == 1_234_567_890_123
    assert VirtualClock(7).now_ns() == 7
    assert repr(VirtualClock(7)) == "<VirtualClock at 7 ns>"


@pytest.mark.parametrize(("ms", "ns"), [(0, 0), (1, 1_000_000), (0.25, 250_000), (YEAR, YEAR * 10**6)])
def test_advance_moves_it(ms: float, ns: int) -> None:
    clock = VirtualClock(5)
    clock.advance(ms / 1000)
    assert clock.now_ns() == 5 + ns


@pytest.mark.parametrize(
    "seconds",
    [
        -1,
        -1e-9,
        float("nan"),
        float("inf"),
        float("-inf"),
        "5",
        None,
        True,
        timedelta(seconds=-1),
        147 * YEAR / 1000,
    ],
)
def test_advance_rejects_invalid_durations(clock: VirtualClock, seconds: Any) -> None:
    before = clock.now_ns()
    with pytest.raises(InvalidArgumentError):
        clock.advance(seconds)
    assert clock.now_ns() == before


@pytest.mark.parametrize("start", [-1, 1.5, None, "0", 1 << 62])
def test_an_invalid_start_is_an_error(start: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        VirtualClock(start)


def test_poll_once_never_jumps(loop: Loop, clock: VirtualClock) -> None:
    loop.send_after(loop.spawn(Probe()), 0.01, "tick")
    before = clock.now_ns()
    for _ in range(10):
        assert loop.poll_once() == 0
    assert clock.now_ns() == before


# --- jumping ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G18")
def test_it_jumps_from_deadline_to_deadline(loop: Loop, clock: VirtualClock) -> None:
    timed = Timed(clock)
    actor = loop.spawn(timed)
    for ms in (5000, 1, 0, 3_600_000, 5000.5, 2):
        loop.send_after(actor, ms / 1000, ms)
    loop.run(until_idle=True)
    assert timed.log == [(0, 0), (1, 1), (2, 2), (5000, 5000), (5000.5, 5001), (3_600_000, 3_600_000)]


def test_time_stands_still_while_an_actor_is_ready(loop: Loop, clock: VirtualClock) -> None:
    timed = Timed(clock)
    first = loop.spawn(timed)

    def busy(ctx: Context[Any], rest: int) -> None:
        if rest:
            ctx.loop.send(ctx.self_id, rest - 1)
        else:
            ctx.loop.send(first, "ready")

    loop.send_after(first, 0.001, "timer")
    loop.send(loop.spawn(busy), 5000)
    loop.run(until_idle=True)
    assert timed.log == [("ready", 0), ("timer", 1)]


def test_only_the_clocks_own_event_loop_is_in_virtual_time(
    clock: VirtualClock, loop_factory: HostFactory
) -> None:
    times: dict[str, float] = {}

    async def look(ctx: Context[Any], name: str) -> None:
        times[name] = asyncio.get_running_loop().time()

    for kind, factory in (("own", clock.new_event_loop), ("other", loop_factory)):
        with Loop(LoopConfig(loop_factory=factory), clock=clock) as loop:
            actor = loop.spawn(look)
            loop.send(actor, f"{kind} before")
            loop.send_after(actor, 24 * 3600, f"{kind} after")
            loop.run(until_idle=True)
    assert times["own after"] - times["own before"] == pytest.approx(24 * 3600)
    assert times["other after"] - times["other before"] < 3600


# --- not jumping ------------------------------------------------------------------------------------------------------


def test_without_autojump_only_advance_moves_it() -> None:
    clock = VirtualClock(autojump=False)
    assert not clock.jump(1)
    assert not clock.on_idle(1)
    assert clock.now_ns() == 1_234_567_890_123


def test_without_autojump_a_running_loop_waits_until_another_thread_moves_the_clock() -> None:
    clock = VirtualClock(autojump=False)
    timed = Timed(clock)
    with Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=clock) as loop:
        loop.send_after(loop.spawn(timed), 10.0, "late")
        idle = threading.Event()
        loop.send(loop.spawn(lambda ctx, data: idle.set()), None)

        def advance() -> None:
            idle.wait(30)
            clock.advance(4.0)
            clock.advance(6.0)

        conductor = threading.Thread(target=advance)
        conductor.start()
        loop.run(until_idle=True)
        conductor.join(30)
    assert timed.log == [("late", 10_000)]


def test_jumping_past_the_maximum_time_is_an_error() -> None:
    clock = VirtualClock((1 << 62) - 10)

    async def main() -> None:
        await asyncio.sleep(5)

    with pytest.raises(InvalidArgumentError, match="end of virtual time"):
        clock.run(main())
