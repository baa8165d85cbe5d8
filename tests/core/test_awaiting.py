"""Coroutines that await a turn of the event loop or a future: they behave as in any task."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from bandstand.core import ActorStatus, Context, Loop
from bandstand.testing import VirtualClock, run_async
from tests.core.support import HostFactory, LoopMaker, turns


async def aobey(ctx: Context[Any], data: Callable[[], Any]) -> Any:
    """Do what the message says."""
    return await data()


@pytest.mark.guarantee("G31")
@pytest.mark.parametrize("others", [0, 3])
def test_sleep_0_waits_for_a_whole_turn(loop: Loop, others: int) -> None:
    """Whatever was ready before `sleep(0)` has run after it, tasks that were just made included."""
    wrong: list[str] = []

    async def deed() -> None:
        host = asyncio.get_running_loop()
        for number in range(20):
            ran: list[str] = []

            async def work(ran: list[str] = ran) -> None:
                ran.append("task")

            host.call_soon(ran.append, "call")
            task = asyncio.create_task(work())
            await asyncio.sleep(0)
            if ran != ["call", "task"]:
                wrong.append(f"{number}: {ran}")
            await task

    for _ in range(1 + others):
        loop.send(loop.spawn(aobey), deed)
    loop.run(until_idle=True)
    assert wrong == []


@pytest.mark.guarantee("G31", "G32")
@pytest.mark.parametrize("kind", ["a future", "a task", "a turn"])
def test_a_cancellation_keeps_its_words(loop: Loop, kind: str) -> None:
    heard: list[tuple[Any, ...]] = []

    async def deed() -> None:
        host, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # Twice: first by a driver whose task has never run, then by one that is parked.
        for number in range(2):
            host.call_soon(task.cancel, f"for this reason, {number}")
            try:
                if kind == "a future":
                    await host.create_future()
                elif kind == "a task":
                    await asyncio.create_task(asyncio.Event().wait())
                else:
                    for _ in range(100):
                        await asyncio.sleep(0)
            except asyncio.CancelledError as error:
                heard.append(error.args)
                task.uncancel()

    actor = loop.spawn(aobey)
    loop.send(actor, deed)
    loop.run(until_idle=True)
    assert heard == [("for this reason, 0",), ("for this reason, 1",)]
    assert loop.status(actor) is ActorStatus.RUNNING


@pytest.mark.guarantee("G31")
@pytest.mark.parametrize("first", ["the result", "the cancellation"])
def test_a_result_and_a_cancellation_in_one_turn_are_one_cancellation(loop: Loop, first: str) -> None:
    """As in a task: it is cancelled, once, and what comes later finds no trace of it."""
    log: list[str] = []

    async def deed() -> None:
        host, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        future = host.create_future()

        def end() -> None:
            if not future.done():
                future.set_result("late")

        steps: list[Callable[[], object]] = [end, task.cancel]
        for step in steps if first == "the result" else reversed(steps):
            host.call_soon(step)
        try:
            await future
            log.append("a result")
        except asyncio.CancelledError:
            log.append("cancelled")
            task.uncancel()
        for _ in range(5):
            await asyncio.sleep(0)
        log.append("went on")

    actor = loop.spawn(aobey)
    loop.send(actor, deed)
    loop.send(actor, deed)
    loop.run(until_idle=True)
    assert log == ["cancelled", "went on"] * 2
    assert loop.status(actor) is ActorStatus.RUNNING


def test_a_deadline_that_has_not_changed_is_not_set_anew(make_loop: LoopMaker) -> None:
    """A loop that is called often while a timer is pending would spend more on the host's timers than on its actors."""
    armed: list[float] = []

    def counting() -> asyncio.AbstractEventLoop:
        host = asyncio.new_event_loop()
        call_later: Any = host.call_later

        def counted(delay: float, *rest: Any, **options: Any) -> asyncio.TimerHandle:
            armed.append(delay)
            handle: asyncio.TimerHandle = call_later(delay, *rest, **options)
            return handle

        # Two clocks that stand still: what is measured is no time.
        host.time = lambda: 100.0  # type: ignore[method-assign]
        host.call_later = counted  # type: ignore[method-assign,assignment]
        return host

    loop = make_loop(clock=VirtualClock(), loop_factory=counting)

    async def deed() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        loop.request_stop()

    actor = loop.spawn(aobey)
    loop.send_after(actor, 600.0, None)
    loop.send(actor, deed)
    loop.run()
    assert len(armed) <= 3, armed


@pytest.mark.guarantee("G31")
@pytest.mark.parametrize("wait", ["a turn", "a future", "nothing"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_cancellation_that_is_taken_back_at_once_never_comes(loop: Loop, wait: str, is_first: bool) -> None:
    if is_first and sys.version_info < (3, 13):
        pytest.skip("before Python 3.13 it comes all the same, to any task")
    done: list[str] = []

    async def deed() -> None:
        host = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.uncancel()
        if wait == "a turn":
            await asyncio.sleep(0)
        elif wait == "a future":
            future = host.create_future()
            host.call_soon(host.call_soon, future.set_result, None)
            await future
        await asyncio.sleep(0)
        done.append("well")

    actor = loop.spawn(aobey)
    if not is_first:
        loop.send(actor, lambda: asyncio.sleep(0))
        loop.run(until_idle=True)
    loop.send(actor, deed)
    loop.run(until_idle=True)
    assert done == ["well"]
    assert loop.status(actor) is ActorStatus.RUNNING


@pytest.mark.guarantee("G31")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
def test_a_host_whose_tasks_are_eager_serves_as_well(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    def begin(host: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        # asyncio's own eager factory does not know an option that uvloop passes.
        options["eager_start"] = True
        return asyncio.Task(coroutine, loop=host, **options)

    def eager() -> asyncio.AbstractEventLoop:
        host = loop_factory()
        host.set_task_factory(cast("Any", begin))
        return host

    loop = make_loop(loop_factory=eager)
    done: list[str] = []

    async def deed() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            done.append("late")
        await asyncio.create_task(asyncio.sleep(0))
        done.append("over")

    actor = loop.spawn(aobey)
    for _ in range(2):
        loop.send(actor, deed)
    loop.run(until_idle=True)
    assert done == ["late", "over"] * 2
    assert loop.status(actor) is ActorStatus.RUNNING


@pytest.mark.guarantee("G31")
def test_a_future_continues_its_coroutine_in_the_turn_of_its_callback(
    make_loop: LoopMaker, loop_factory: HostFactory
) -> None:
    """As in a task. A tick that is scheduled for the next turn would double the time of every wait."""
    log: list[str] = []

    async def wait(_ctx: Context[Any], future: asyncio.Future[None]) -> None:
        await future
        log.append("goes on")

    async def main() -> None:
        async with make_loop() as loop:
            future = asyncio.get_running_loop().create_future()
            loop.send(loop.spawn(wait), future)
            await turns()
            future.set_result(None)
            await asyncio.sleep(0)
            assert log == ["goes on"]

    run_async(main, loop_factory=loop_factory)
