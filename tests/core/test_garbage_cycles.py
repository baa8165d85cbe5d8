"""Coroutines that end leave no reference cycles."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from bandstand.core import ActorId, Context, Loop
from bandstand.testing import run_async
from tests.core.support import Boom, HostFactory


@pytest.fixture
def garbage(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[object]]]:
    """Turn the collector off. The function returns the objects that only the collector would have freed."""
    # A captured log record would keep the exception alive.
    caplog.set_level(logging.CRITICAL)

    def found() -> list[object]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        objects = list(gc.garbage)
        gc.set_debug(0)
        gc.garbage.clear()
        return objects

    gc.collect()
    gc.disable()
    yield found
    gc.enable()


async def wait(_ctx: Context[Any], future: asyncio.Future[None]) -> None:
    await future


async def wait_and_fail(_ctx: Context[Any], future: asyncio.Future[None]) -> None:
    await future
    raise Boom


async def settle(loop: Loop) -> None:
    """Let a coroutine end, and after it the task of its driver."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert loop.statistics().in_flight == 0


async def cancelled(loop: Loop, end: Callable[[Loop, ActorId], None]) -> None:
    """End an actor while its coroutine waits for a future."""
    actor = loop.spawn(wait)
    loop.send(actor, asyncio.get_running_loop().create_future())
    await asyncio.sleep(0)
    assert loop.statistics().in_flight == 1
    end(loop, actor)
    await settle(loop)


async def failing(loop: Loop) -> None:
    """Let a coroutine fail after a wait."""
    future = asyncio.get_running_loop().create_future()
    loop.send(loop.spawn(wait_and_fail), future)
    await asyncio.sleep(0)
    assert loop.statistics().in_flight == 1
    future.set_result(None)
    await settle(loop)


def run(loop_factory: HostFactory, main: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
    async def driven() -> None:
        async with Loop() as loop:
            await main(loop)

    run_async(driven, loop_factory=loop_factory)


@pytest.mark.parametrize("end", [Loop.kill_actor, Loop.stop_actor], ids=["kill", "stop"])
def test_a_cancelled_coroutine_leaves_no_cycle(
    loop_factory: HostFactory, garbage: Callable[[], list[object]], end: Callable[[Loop, ActorId], None]
) -> None:
    found: list[object] = []

    async def main(loop: Loop) -> None:
        # The first one imports modules and fills caches.
        await cancelled(loop, end)
        gc.collect()
        await cancelled(loop, end)
        found.extend(garbage())

    run(loop_factory, main)
    assert [type(one).__name__ for one in found] == []


def test_a_coroutine_that_fails_leaves_no_cycle(
    loop_factory: HostFactory, garbage: Callable[[], list[object]]
) -> None:
    found: list[object] = []

    async def main(loop: Loop) -> None:
        await failing(loop)
        gc.collect()
        await failing(loop)
        found.extend(garbage())

    run(loop_factory, main)
    assert [type(one).__name__ for one in found] == []
