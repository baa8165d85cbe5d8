"""A callback of the event loop that wakes a loop and runs its tick itself: `begin_host_call` and `end_host_call`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Loop
from bandstand.testing import run_async
from tests.core.support import HostFactory, turns, until

pytestmark = pytest.mark.spec("C2")


def in_callback(loop_factory: HostFactory, body: Callable[[Loop, list[object]], None]) -> list[object]:
    """Run `body` in a callback of the event loop, while the loop sleeps. Return what was recorded until then, and after it."""
    recorded: list[object] = []

    async def main() -> None:
        async with Loop() as loop:
            loop.spawn(lambda _ctx, data: recorded.append(data), name="recorder")
            await until(lambda: not loop.kernel.is_awake)
            done = asyncio.get_running_loop().create_future()

            def callback() -> None:
                body(loop, recorded)
                recorded.append("callback ends")
                done.set_result(None)

            asyncio.get_running_loop().call_soon(callback)
            await done
            await turns()

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
    """And the loop is woken as usual afterwards."""

    def body(loop: Loop, _recorded: list[object]) -> None:
        before = loop.statistics()
        assert loop.kernel.begin_host_call()
        loop.kernel.end_host_call()
        assert loop.statistics().ticks == before.ticks
        loop.send(recorder_of(loop), 1)

    assert in_callback(loop_factory, body) == ["callback ends", 1]


def test_a_loop_whose_tick_is_scheduled_runs_it_later(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        loop.send(recorder_of(loop), 1)
        assert not loop.kernel.begin_host_call()

    assert in_callback(loop_factory, body) == ["callback ends", 1]


def test_a_timer_that_is_set_meanwhile_fires(loop_factory: HostFactory) -> None:
    def body(loop: Loop, _recorded: list[object]) -> None:
        assert loop.kernel.begin_host_call()
        loop.send_after(recorder_of(loop), 0, 1)
        loop.kernel.end_host_call()

    assert in_callback(loop_factory, body)[:2] == ["callback ends", 1]
