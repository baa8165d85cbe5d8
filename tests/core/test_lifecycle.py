"""The lifecycle of a loop: open, stopped, destroyed; by `run()`, inside `async with`, and from other threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic_ns
from typing import Any

import pytest

from bandstand.core import Context, ExitReason, Loop, LoopConfig, MonotonicClock
from bandstand.errors import InternalError, LoopBusyError, LoopClosedError, WrongThreadError
from bandstand.testing import run_async
from tests.core.support import (
    PATIENCE,
    BreakableClock,
    HostFactory,
    LoopMaker,
    RecordingObserver,
    call_in,
    check_statistics,
    idle,
    in_thread,
    run_message,
    settle,
    stopper,
    turns,
)

# --- open, closed, gone -------------------------------------------------------------------------------------------------


@pytest.mark.spec("J1")
@pytest.mark.guarantee("G26", "G25")
def test_request_stop_ends_the_youngest_actor_first(loop: Loop, diary: RecordingObserver) -> None:
    log: list[str] = []

    def act(ctx: Context[Any]) -> None:
        ctx.loop.request_stop()
        ctx.loop.request_stop()
        for call in (
            lambda: ctx.loop.send(ctx.self_id, "x"),
            lambda: ctx.loop.spawn(idle),
            lambda: ctx.loop.send_after(ctx.self_id, 0, "x"),
            ctx.loop.run,
        ):
            try:
                call()
            except LoopClosedError:
                log.append("closed")
        log.append("finished")

    actors = [loop.spawn(run_message) for _ in range(5)]
    for actor in actors:
        loop.send(actor, act)
        loop.send(actor, act)
    loop.run()
    assert log == ["closed"] * 4 + ["finished"]
    assert diary.stopped == [(actor, ExitReason.NORMAL) for actor in reversed(actors)]
    books = loop.statistics()
    assert (books.alive, books.dead, books.waiting) == (0, 9, 0)
    check_statistics(loop)
    for call in (loop.run, loop.poll_once):
        with pytest.raises(LoopClosedError):
            call()


@pytest.mark.spec("J1")
@pytest.mark.guarantee("G26")
def test_the_youngest_actor_ends_first_in_reused_slots(loop: Loop, diary: RecordingObserver) -> None:
    actors = [loop.spawn(idle) for _ in range(6)]
    for number in (1, 4, 2):
        loop.stop_actor(actors[number])
        actors[number] = loop.spawn(idle)
    by_age = [actors[number] for number in (0, 3, 5, 1, 4, 2)]
    diary.stopped.clear()
    loop.destroy()
    assert [actor for actor, _ in diary.stopped] == by_age[::-1]


@pytest.mark.spec("J1")
@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("hook", ["on_actor_start", "on_actor_stop", "on_dead_letter", "on_mailbox_full"])
@pytest.mark.parametrize("driven", [False, True], ids=["outside a tick", "inside a tick"])
@pytest.mark.parametrize("call", ["destroy", "poll_once", "run"])
def test_a_hook_cannot_destroy_or_drive_the_loop(loop: Loop, hook: str, driven: bool, call: str) -> None:
    caught: list[object] = []

    def hostile(*arguments: object) -> None:
        with pytest.raises(LoopBusyError):
            getattr(loop, call)()
        caught.append(hook)

    def provoke(ctx: object) -> None:
        actor = loop.spawn(idle, mailbox_cap=5)
        loop.try_send(actor, 1)
        loop.try_send(actor, 2)
        loop.stop_actor(actor)

    provoker = loop.spawn(run_message)
    loop.set_observer(type("Hostile", (), {hook: staticmethod(hostile)})())
    if driven:
        call_in(loop, provoker, provoke)
        settle(loop)
    else:
        provoke(None)
    loop.set_observer(None)
    assert caught == [hook]


@pytest.mark.slow
@pytest.mark.guarantee("G26")
def test_a_loop_can_be_collected(loop_factory: HostFactory) -> None:
    """Actors know their loop and the loop its actors: the collector must be able to take them all."""
    loop = Loop(LoopConfig(loop_factory=loop_factory))
    actor = loop.spawn(idle)
    loop.send(actor, "x")
    loop.run(until_idle=True)
    loop.destroy()
    trace = weakref.ref(loop)
    del loop, actor
    gc.collect()
    assert trace() is None


# --- run ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G27", "G17", "G28")
def test_until_idle_waits_for_timers_on_the_real_clock_and_is_never_early(make_loop: LoopMaker) -> None:
    loop = make_loop(clock=MonotonicClock())
    fired: list[tuple[float, int]] = []
    start = monotonic_ns()
    actor = loop.spawn(lambda ctx, ms: fired.append((ms, monotonic_ns() - start)))
    for ms in (7, 3, 0, 3.2, 1):
        loop.send_after(actor, ms / 1000, ms)
    loop.run(until_idle=True)
    assert [ms for ms, _ in fired] == [0, 1, 3, 3.2, 7]
    assert all(after >= ms * 1_000_000 for ms, after in fired)
    assert loop.statistics().wakeups <= 20, "it waits, it does not spin"


@pytest.mark.guarantee("G26")
def test_run_inside_a_running_event_loop_is_busy(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop()

    async def main() -> None:
        with pytest.raises(LoopBusyError, match="async with"):
            loop.run()

    run_async(main, loop_factory=loop_factory)
    loop.send(loop.spawn(stopper), "x")
    loop.run(until_idle=True)


@pytest.mark.spec("J12")
@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_broken_clock_ends_run(make_loop: LoopMaker, after: int, dead_letters: bool) -> None:
    """Also outside the tick proper, where the next wake-up is reckoned: run() must not hang."""
    clock = BreakableClock()
    loop = make_loop(clock=clock)
    actor = loop.spawn(stopper)
    loop.send_after(loop.spawn(idle), 50.0, "x")
    loop.send(actor, "x")
    if dead_letters:
        loop.send(actor, "unread")
    clock.break_with(ValueError("the clock has stopped"), after=after)
    # With enough good calls the loop falls asleep before the clock breaks: wake it.
    waker = threading.Timer(0.05, loop.request_stop)
    waker.start()
    # From the first tick on, it must be told.
    with suppress(InternalError) if after >= 2 else pytest.raises(InternalError, match="has stopped"):
        loop.run()
    waker.cancel()
    waker.join()


# --- in somebody's event loop -------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G28")
def test_async_with_runs_actors_in_an_event_loop(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    seen: list[Any] = []
    inner = make_loop(clock=MonotonicClock())

    async def main() -> None:
        done = asyncio.Event()

        def behavior(ctx: Context[Any], data: object) -> None:
            seen.append(data)
            if data == "timer":
                done.set()

        async with inner as loop:
            assert loop is inner
            actor = loop.spawn(behavior)
            loop.send(actor, "sent")
            loop.send_after(actor, 0.002, "timer")
            await asyncio.wait_for(done.wait(), PATIENCE)
            # Asleep by now; a send wakes it.
            await turns()
            loop.send(actor, "again")
            await turns()
        assert seen == ["sent", "timer", "again"]
        with pytest.raises(LoopClosedError):
            loop.send(actor, "x")

    run_async(main, loop_factory=loop_factory)


@pytest.mark.guarantee("G28")
def test_async_with_leaves_no_callbacks(make_loop: LoopMaker) -> None:
    """Looks inside an event loop of asyncio: what it holds that has neither run nor been cancelled."""
    loop = make_loop(clock=MonotonicClock())

    async def main() -> None:
        host: Any = asyncio.get_running_loop()

        def left(handles: Iterable[asyncio.Handle]) -> list[asyncio.Handle]:
            return [handle for handle in handles if not handle.cancelled()]

        tasks = asyncio.all_tasks()
        async with loop:
            actor = loop.spawn(idle)
            for ms in range(50, 0, -1):
                loop.send_after(actor, (10_000 + ms) / 1000, "x")
                await turns(2)
                assert len(left(host._scheduled)) == 1
            loop.cancel_timer(loop.send_after(actor, 0.001, "x"))
            await turns()
            # Ready at the very end: a callback is under way.
            loop.send(actor, "x")
        assert left(host._ready) == left(host._scheduled) == []
        assert asyncio.all_tasks() == tasks

    asyncio.run(main())


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_broken_loop_interrupts_the_body(
    make_loop: LoopMaker, loop_factory: HostFactory, dead_letters: bool
) -> None:
    clock = BreakableClock()
    loop = make_loop(clock=clock)

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None

        async def body() -> None:
            async with loop:
                actor = loop.spawn(idle)
                clock.break_with(ValueError("the clock has stopped"))
                if dead_letters:
                    loop.send(actor, "x")
                await asyncio.wait_for(asyncio.Event().wait(), 5)

        with pytest.raises(InternalError):
            await body()
        return task.cancelling()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == 0


@pytest.mark.spec("J15")
@pytest.mark.guarantee("G29")
def test_the_thread_that_runs_a_loop_owns_it(make_loop: LoopMaker, seen: list[str]) -> None:
    loop = make_loop()
    actor = loop.spawn(lambda ctx, data: seen.append(threading.current_thread().name))
    loop.send(actor, "x")
    assert in_thread(lambda: loop.run(until_idle=True), name="runner") is None
    assert seen == ["runner"]
    with pytest.raises(WrongThreadError, match="'runner'"):
        loop.send(actor, "x")
    # Whoever runs it next owns it next.
    loop.run(until_idle=True)
    loop.send(actor, "x")
