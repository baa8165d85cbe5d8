"""A callback of the event loop that wakes a loop and runs its tick itself: `begin_host_call` and `end_host_call`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Context, Loop
from bandstand.testing import run_async
from tests.core.support import HostFactory

pytestmark = pytest.mark.spec("C2")


def in_callback(loop_factory: HostFactory, body: Callable[[Loop, list[object]], None]) -> list[object]:
    """Run `body` in a callback of the event loop, while the loop sleeps. Return what was recorded until then, and after it."""
    recorded: list[object] = []

    async def main() -> None:
        async with Loop() as loop:
            loop.spawn(lambda _ctx, data: recorded.append(data), name="recorder")
            while loop.kernel.is_awake:  # noqa: ASYNC110  # nothing reports that a loop sleeps
                await asyncio.sleep(0)
            done = asyncio.get_running_loop().create_future()

            def callback() -> None:
                body(loop, recorded)
                recorded.append("callback ends")
                done.set_result(None)

            asyncio.get_running_loop().call_soon(callback)
            await done
            for _ in range(5):
                await asyncio.sleep(0)

    run_async(main, loop_factory=loop_factory)
    return recorded


def recorder_of(loop: Loop) -> Any:
    return next(node.actor for node in loop.tree() if node.name == "recorder")


def test_the_tick_runs_before_the_callback_returns(loop_factory: HostFactory) -> None:
    def body(loop: Loop, recorded: list[object]) -> None:
        before = loop.statistics().wakeups
        assert loop.kernel.begin_host_call()
        loop.send(recorder_of(loop), 1)
        assert recorded == []
        loop.kernel.end_host_call()
        assert recorded == [1]
        assert loop.statistics().wakeups == before + 1
        assert not loop.kernel.is_awake

    assert in_callback(loop_factory, body) == [1, "callback ends"]


def test_without_a_message_there_is_no_tick(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        before = loop.statistics()
        assert loop.kernel.begin_host_call()
        loop.kernel.end_host_call()
        assert loop.statistics().ticks == before.ticks

    assert in_callback(loop_factory, body) == ["callback ends"]


def test_a_loop_whose_tick_is_scheduled_runs_it_later(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        loop.send(recorder_of(loop), 1)
        assert not loop.kernel.begin_host_call()

    assert in_callback(loop_factory, body) == ["callback ends", 1]


def test_the_loop_is_woken_as_usual_afterwards(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        assert loop.kernel.begin_host_call()
        loop.kernel.end_host_call()
        loop.send(recorder_of(loop), 1)

    assert in_callback(loop_factory, body) == ["callback ends", 1]


def test_a_timer_that_is_set_meanwhile_fires(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        assert loop.kernel.begin_host_call()
        loop.send_after(recorder_of(loop), 0, 1)
        loop.kernel.end_host_call()

    async def main() -> list[object]:
        recorded: list[object] = []
        async with Loop() as loop:
            fired = asyncio.get_running_loop().create_future()

            def record(_ctx: Context[Any], data: object) -> None:
                recorded.append(data)
                fired.set_result(None)

            loop.spawn(record, name="recorder")
            while loop.kernel.is_awake:  # noqa: ASYNC110  # nothing reports that a loop sleeps
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(body, loop, recorded)
            await fired
        return recorded

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(main()) == [1]
