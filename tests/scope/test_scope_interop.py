"""Scopes with asyncio's groups and timeouts, anyio's groups and cancel scopes, nested scopes, and scopes in actors."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from bandstand.core import STOP, Context, Loop, Verdict
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.scope import Scope
from bandstand.testing import run_async
from tests.scope.support import (
    Boom,
    both_libraries,
    cancel_soon,
    check_nothing_left,
    fail_at_cleanup,
    fail_soon,
    hang,
    idle,
    iterate,
    open_group,
    raises_errors,
)

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G118")]


# --- asyncio around ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def fail_after(seconds: float) -> AsyncGenerator[None]:
    with anyio.fail_after(seconds):
        yield


@pytest.mark.parametrize("timeout", [asyncio.timeout, fail_after])
@pytest.mark.parametrize("where", ["body", "joining"])
@pytest.mark.virtual_time
async def test_a_timeout_around(
    timeout: Callable[[float], AbstractAsyncContextManager[Any]], where: str
) -> None:
    log: list[str] = []
    with pytest.raises(TimeoutError):
        async with timeout(1), Scope() as scope:
            scope.launch(hang(log))
            scope.consume(Channel[int](), print)
            scope.spawn(idle)
            if where == "body":
                await hang(log, "body")
    assert sorted(log) == (["body ended", "child ended"] if where == "body" else ["child ended"])


@both_libraries
@pytest.mark.parametrize("who", ["brother", "scope's child", "group's body"])
async def test_a_task_group_around(library: str, who: str) -> None:
    log: list[str] = []

    async def block() -> None:
        async with Scope() as scope:
            scope.launch(hang(log))
            if who == "scope's child":
                scope.launch(fail_soon())
            await hang(log, "body")

    with raises_errors(Boom()):
        async with open_group(library) as start:
            start(block())
            start(hang(log, "brother"))
            await iterate(2)
            if who == "brother":
                start(fail_soon())
            elif who == "group's body":
                raise Boom
            # Not in its __aexit__: there, on 3.11, a group does not undo its own cancellation.
            await hang()
    assert sorted(log) == ["body ended", "brother ended", "child ended"]


# --- asyncio inside ---------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_timeout_inside() -> None:
    log: list[str] = []
    async with Scope() as scope:
        child = scope.launch(hang(log))
        try:
            async with asyncio.timeout(1):
                await hang(log, "body")
        except TimeoutError:
            log.append("timed out")
        assert not child.done()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(child, 1)
    assert log == ["body ended", "timed out", "child ended"]


@both_libraries
@pytest.mark.parametrize("where", ["body", "child"])
async def test_a_task_group_inside(library: str, where: str) -> None:
    log: list[str] = []

    async def use_group(*, fails: bool) -> None:
        async with open_group(library) as start:
            start(hang(log, "inner"))
            if fails:
                start(fail_soon())
            await hang(log, "group")

    async def run(scope: Scope, *, fails: bool) -> None:
        if where == "child":
            scope.launch(use_group(fails=fails))
            await hang()
        else:
            await use_group(fails=fails)

    async with Scope() as scope:
        scope.launch(cancel_soon(scope))
        await run(scope, fails=False)
    assert sorted(log) == ["group ended", "inner ended"]
    with raises_errors(Boom()):
        async with Scope() as scope:
            await run(scope, fails=True)


async def test_a_task_group_inside_that_fails_while_the_scope_is_cancelled() -> None:
    """3.13 cancels the task once more at the end of such a group: that must not reach the code after the scope."""
    with raises_errors(Boom()):
        async with Scope() as scope:
            scope.launch(cancel_soon(scope))
            async with asyncio.TaskGroup() as group:
                group.create_task(fail_at_cleanup())
                await hang()


@pytest.mark.parametrize("first", ["anyio", "scope"])
@pytest.mark.parametrize("is_same_turn", [True, False])
async def test_an_anyio_scope_that_is_cancelled_together_with_the_scope(
    first: str, is_same_turn: bool
) -> None:
    host = asyncio.get_running_loop()
    log: list[str] = []
    with anyio.CancelScope() as around:
        async with Scope() as scope:
            scope.launch(hang(log))

            def cancel() -> None:
                for who in ("anyio", "scope") if first == "anyio" else ("scope", "anyio"):
                    if who == "anyio":
                        around.cancel()
                    else:
                        scope.token.cancel("own")
                    if not is_same_turn:
                        break

            host.call_soon(cancel)
            await hang(log, "body")
        # The scope's ends here. anyio's is raised at the next checkpoint, if it was not raised before.
        await anyio.lowlevel.checkpoint()
        log.append("went on")
    assert sorted(log[:2]) == ["body ended", "child ended"]
    assert ("went on" in log) is (first == "scope" and not is_same_turn)
    assert around.cancel_called is not (first == "scope" and not is_same_turn)


async def test_two_cancellations_of_a_task_that_is_about_to_run_become_one() -> None:
    """asyncio raises one error for both, with the last message, and anyio recognises its own by the message."""
    log: list[str] = []
    with anyio.CancelScope() as around:
        async with Scope() as scope:

            def cancel() -> None:
                asyncio.get_running_loop().call_soon(around.cancel)
                scope.token.cancel("own")

            asyncio.get_running_loop().call_soon(cancel)
            await iterate(1000)
        log.append("not reached")
    assert log == []
    assert around.cancelled_caught


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_a_cancellation_ends_at_the_scope_that_was_cancelled(
    joined: bool, level: int, loop: Loop
) -> None:
    """Three nested scopes in one task; "joined": each has the token of the outer one."""
    log: list[str] = []
    async with Scope(name="1") as one:
        one.launch(hang(log, "child 1"))
        async with Scope(name="2", token=one.token if joined else None) as two:
            two.launch(hang(log, "child 2"))
            async with Scope(name="3", token=two.token if joined else None) as three:
                three.launch(hang(log, "child 3"))
                await iterate()
                asyncio.get_running_loop().call_soon([one, two, three][level - 1].token.cancel, "this one")
                await hang(log, "body")
            log.append("after 3")
            await two.cancel()
        log.append("after 2")
        await one.cancel()
    log.append("after 1")
    check_nothing_left(loop)
    await iterate()
    assert sorted(line for line in log if "ended" in line) == [
        "body ended",
        "child 1 ended",
        "child 2 ended",
        "child 3 ended",
    ]
    assert [line for line in log if "after" in line] == ["after 3", "after 2", "after 1"][3 - level :]


# --- scopes in actors -------------------------------------------------------------------------------------------------


Block = Callable[[], Coroutine[Any, Any, None]]


def in_actor(block: Block, *, is_stopped: bool) -> list[str]:
    """Run a block in the handler of an actor, and return how it ended."""
    log: list[str] = []

    async def main(loop: Loop) -> None:
        async def handler(ctx: Context[Any], data: object) -> Verdict:
            try:
                await block()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise
            log.append("over")
            return STOP

        actor = loop.spawn(handler)
        loop.send(actor, "go")
        await iterate(20)
        if is_stopped:
            loop.stop_actor(actor)
        for _ in range(50):
            await iterate()
        assert not actor.is_alive

    run_async(main, Loop())
    return log


def in_consumer(block: Block, *, is_stopped: bool) -> list[str]:
    """The same in the function of a channel actor."""
    log: list[str] = []

    async def main(loop: Loop) -> None:
        channel = Channel[int](UNBOUNDED)

        async def process(number: int) -> None:
            try:
                await block()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise
            log.append("over")

        async with Scope() as scope:
            consumer = scope.consume(channel, process)
            await channel.send(1)
            await iterate(20)
            if is_stopped:
                await consumer.cancel()
            channel.close()

    run_async(main, Loop())
    return log


@pytest.mark.parametrize("inside", [in_actor, in_consumer])
def test_a_scope_inside_an_actor(inside: Callable[..., list[str]]) -> None:
    log: list[str] = []

    async def normal() -> None:
        async with Scope() as scope:
            channel = Channel[int](UNBOUNDED)
            consumer = scope.consume(channel, idle_process)
            scope.spawn(idle)
            scope.launch(asyncio.sleep(0))
            await channel.send(1)
            channel.close()
        assert consumer.processed == 1

    async def cancelled(*, by_itself: bool = True) -> None:
        async with Scope() as scope:
            scope.launch(hang(log))
            scope.consume(Channel[int](), idle_process)
            scope.spawn(idle)
            if by_itself:
                scope.launch(cancel_soon(scope))
            await hang(log, "body")

    async def failing() -> None:
        with pytest.raises(ExceptionGroup):
            async with Scope() as scope:
                scope.launch(fail_soon())
                await hang(log, "body")

    assert inside(normal, is_stopped=False) == ["over"]
    assert inside(cancelled, is_stopped=False) == ["over"]
    assert sorted(log) == ["body ended", "child ended"]
    log.clear()
    assert inside(failing, is_stopped=False) == ["over"]
    assert log == ["body ended"]
    log.clear()
    assert inside(partial(cancelled, by_itself=False), is_stopped=True) == ["cancelled"]
    assert sorted(log) == ["body ended", "child ended"]


def idle_process(number: int) -> None:
    """Do nothing."""
