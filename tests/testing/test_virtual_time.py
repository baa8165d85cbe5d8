"""VirtualEventLoop: asyncio, the loop's timers, threads and sockets in one virtual time."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import Context, Loop, LoopConfig
from bandstand.testing import Probe, VirtualClock, VirtualEventLoop

pytestmark = pytest.mark.guarantee("G40")

HOUR = 3600


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def virtual(clock: VirtualClock) -> Loop:
    return Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=clock)


def since(clock: VirtualClock, start: int) -> float:
    """Virtual milliseconds since `start`."""
    return (clock.now_ns() - start) / 1e6


# --- asyncio alone ----------------------------------------------------------------------------------------------------


def test_run_returns_the_result_of_the_coroutine(clock: VirtualClock) -> None:
    async def main() -> str:
        running = asyncio.get_running_loop()
        assert isinstance(running, VirtualEventLoop)
        assert running.clock is clock
        assert running.virtual_time
        await asyncio.sleep(HOUR)
        return "slept"

    start = clock.now_ns()
    assert clock.run(main()) == "slept"
    assert since(clock, start) == HOUR * 1000


@pytest.mark.parametrize("seconds", [0.1, 0.001, 1 / 3, 7.7])
def test_repeated_sleeps_do_not_drift(clock: VirtualClock, seconds: float) -> None:
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(seconds)

    start = clock.now_ns()
    clock.run(main())
    assert since(clock, start) == pytest.approx(seconds * 1_000_000, abs=0.001)
    if seconds != 1 / 3:
        assert (clock.now_ns() - start) % 1_000_000 == 0


@pytest.mark.parametrize("forever", [lambda: asyncio.sleep(math.inf), anyio.sleep_forever])
def test_an_infinite_sleep_does_not_move_the_clock(clock: VirtualClock, forever: Any) -> None:
    async def main() -> None:
        sleeper = asyncio.ensure_future(forever())
        await asyncio.sleep(5)
        assert not sleeper.done()
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper

    start = clock.now_ns()
    clock.run(main())
    assert since(clock, start) == 5000


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["wheel", "sleep", "timeout"]), st.integers(0, 5000)), max_size=20))
@pytest.mark.guarantee("G18")
def test_mixed_deadlines_fire_in_order_and_to_the_nanosecond(deadlines: list[tuple[str, int]]) -> None:
    clock = VirtualClock()
    log: list[tuple[int, int]] = []
    start = clock.now_ns()

    def note(ctx: Context[Any], ms: int) -> None:
        log.append((ms, clock.now_ns() - start))

    async def sleep(ctx: Context[Any], ms: int) -> None:
        await asyncio.sleep(ms / 1000)
        note(ctx, ms)

    async def time_out(ctx: Context[Any], ms: int) -> None:
        try:
            async with asyncio.timeout(ms / 1000):
                await asyncio.Event().wait()
        except TimeoutError:
            note(ctx, ms)

    with virtual(clock) as loop:
        noter = loop.spawn(note)
        for kind, ms in deadlines:
            if kind == "wheel":
                loop.send_after(noter, ms / 1000, ms)
            else:
                loop.send(loop.spawn(sleep if kind == "sleep" else time_out), ms)
        loop.run(until_idle=True)
    assert log == [(ms, ms * 1_000_000) for ms in sorted(ms for _, ms in deadlines)]


def test_a_loop_on_the_running_event_loop_shares_its_time(clock: VirtualClock) -> None:
    probe = Probe()

    def ticker(ctx: Context[Any], data: object) -> None:
        ctx.loop.send_after(ctx.self_id, 1.0, "tick")

    async def main() -> int:
        async with Loop(clock=clock) as loop:
            loop.send(loop.spawn(Probe(ticker)), "start")
            loop.send(Probe(ticker).spawn(loop), "start")
            loop.send_after(probe.spawn(loop), 9.999, "just before")
            loop.send_after(probe.spawn(loop), 10.001, "just after")
            await asyncio.sleep(10)
            return loop.statistics().timers_fired

    start = clock.now_ns()
    fired = clock.run(main())
    assert since(clock, start) == 10_000
    assert probe.data == ["just before"]
    # Nine or ten each: the order of events at the same time is not guaranteed.
    assert 2 * 9 + 1 <= fired <= 2 * 10 + 1


# --- the outside world ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_executor", [False, True])
def test_time_stands_still_while_an_executor_works(clock: VirtualClock, own_executor: bool) -> None:
    log: list[str] = []
    start = clock.now_ns()

    def work() -> float:
        # Longer than one wait of the selector.
        threading.Event().wait(0.03)
        log.append("worked")
        return since(clock, start)

    async def hand_over(ctx: Context[Any], data: object) -> None:
        async with asyncio.timeout(1):
            if own_executor:
                with ThreadPoolExecutor() as pool:
                    ended = await asyncio.get_running_loop().run_in_executor(pool, work)
            else:
                ended = await asyncio.to_thread(work)
        assert ended == 0
        log.append("handed back")

    with virtual(clock) as loop:
        loop.send_after(loop.spawn(lambda ctx, data: log.append(data)), 0.001, "timer")
        loop.send(loop.spawn(hand_over), None)
        loop.run(until_idle=True)
        assert loop.statistics().ended_panic == 0
    assert log == ["worked", "handed back", "timer"]
    assert since(clock, start) == 1


@pytest.mark.guarantee("G341")
def test_time_stands_still_while_a_worker_thread_of_anyio_works(clock: VirtualClock) -> None:
    start = clock.now_ns()

    def work() -> float:
        # Longer than one wait of the selector.
        threading.Event().wait(0.03)
        return since(clock, start)

    async def main() -> None:
        sleeper = asyncio.create_task(asyncio.sleep(HOUR))
        # The first call starts a thread, the second one uses it again.
        for _ in range(2):
            with anyio.fail_after(1):
                assert await anyio.to_thread.run_sync(work) == 0
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(anyio.to_thread.run_sync, work)
        assert since(clock, start) == 0
        assert not sleeper.done()
        await sleeper

    clock.run(main())
    assert since(clock, start) == HOUR * 1000


@pytest.mark.guarantee("G341")
def test_idle_worker_threads_of_anyio_do_not_stop_time(clock: VirtualClock) -> None:
    start = clock.now_ns()

    async def main() -> None:
        await anyio.to_thread.run_sync(lambda: None)
        for _ in range(50):
            await asyncio.sleep(HOUR)

    clock.run(main())
    assert since(clock, start) == 50 * HOUR * 1000
