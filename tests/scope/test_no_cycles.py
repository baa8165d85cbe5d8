"""Nothing leaves a reference cycle: everything is freed at once, without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import Context, Loop
from bandstand.errors import ChannelTimeoutError, TokenCancelledError
from bandstand.scope import CancelToken, Channel, Scope, select
from tests.scope.support import Boom

pytestmark = pytest.mark.guarantee("G281")

Act = Callable[[Loop], Coroutine[Any, Any, object]]
ACTS: dict[str, Act] = {}


def act(function: Act) -> Act:
    ACTS[function.__name__.replace("_", " ")] = function
    return function


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise Boom("child")


@act
async def a_block_with_a_task(_loop: Loop) -> None:
    async with Scope() as scope:
        _ = scope.launch(asyncio.sleep(0))


@act
async def a_block_with_a_channel_actor(_loop: Loop) -> None:
    channel = Channel[int](3)
    async with Scope() as scope:
        scope.consume(channel, lambda _element: None)
        await channel.send(1)
        channel.close()


@act
async def a_task_that_fails(_loop: Loop) -> None:
    with suppress(ExceptionGroup):
        async with Scope() as scope:
            _ = scope.launch(fail())
            await forever()


@act
async def an_actor_that_fails(loop: Loop) -> None:
    def panic(ctx: Context[Any], data: object) -> None:
        raise Boom("actor")

    with suppress(ExceptionGroup):
        async with Scope() as scope:
            loop.send(scope.spawn(panic), "x")
            await forever()


@act
async def a_scope_that_is_cancelled(_loop: Loop) -> None:
    async with Scope() as scope:
        _ = scope.launch(forever())
        _ = scope.cancel("enough")


@act
async def a_scope_that_is_cancelled_from_above(_loop: Loop) -> None:
    token = CancelToken()
    with suppress(TokenCancelledError):
        async with Scope(token=token) as scope:
            _ = scope.launch(forever())
            token.cancel("enough")
            await forever()


@act
async def a_task_that_is_cancelled_in_its_block(_loop: Loop) -> None:
    async def block() -> None:
        async with Scope() as scope:
            _ = scope.launch(forever())
            await forever()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@act
async def a_guard_that_is_cancelled(_loop: Loop) -> None:
    token = CancelToken()
    with suppress(TokenCancelledError):
        async with token.guard():
            token.cancel("enough")
            await forever()


@act
async def tokens(_loop: Loop) -> None:
    token = CancelToken()
    token.child().on_cancel(lambda _token: None)
    token.cancel("enough")


@act
async def operations_of_a_channel(_loop: Loop) -> None:
    channel = Channel[int](1)
    await channel.send(1)
    assert await channel.receive() == 1
    with suppress(ChannelTimeoutError):
        await channel.receive(timeout=0.01)
    with suppress(TokenCancelledError):
        await channel.receive(token=CancelToken(timeout=0.01))
    channel.close()


@act
async def selects(_loop: Loop) -> None:
    left, right = Channel[int](1), Channel[int](1)
    left.try_send(1)
    assert await select(left.receive(), right.receive()) == (0, 1)
    with suppress(ChannelTimeoutError):
        await select(left.receive(), right.receive(), timeout=0.01)
    with suppress(TokenCancelledError):
        await select(left.receive(), right.receive(), token=CancelToken(timeout=0.01))


@act
async def a_select_in_a_task_that_is_cancelled(_loop: Loop) -> None:
    async def wait() -> None:
        await select(Channel[int]().receive(), Channel[int]().receive())

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.virtual_time
async def test_nothing_is_left_for_the_garbage_collector(name: str, loop: Loop) -> None:
    # Caches that are filled at the first run do not count.
    for _ in range(2):
        await ACTS[name](loop)
    await asyncio.sleep(1)
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            await ACTS[name](loop)
        await asyncio.sleep(1)
        found = gc.collect()
    finally:
        if was_enabled:
            gc.enable()
    assert found == 0
