"""Errors in scopes: of the body and of every kind of child."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import FAIL, Context, Loop, Verdict
from bandstand.errors import ChildFailedError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consumer import EndedBy
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock
from tests.scope.support import (
    Boom,
    cancel_soon,
    errors_of,
    fail_at_cleanup,
    fail_soon,
    flatten,
    hang,
    idle,
    is_over,
    iterate,
    raises_errors,
)

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G114")]


# --- a child fails ----------------------------------------------------------------------------------------------------


async def test_a_task_that_fails_cancels_the_others_and_the_body() -> None:
    log: list[str] = []
    channel = Channel[int]()
    with pytest.raises(ExceptionGroup, match="errors in scope 'shop'") as caught:
        async with Scope(name="shop") as scope:
            scope.launch(hang(log, "task"))
            consumer = scope.consume(channel, print)
            actor = scope.spawn(idle)
            scope.launch(fail_soon("first"))
            await hang(log, "body")
    assert errors_of(caught) == [repr(Boom("first"))]
    assert sorted(log) == ["body ended", "task ended"]
    assert consumer.outcome is not None
    assert consumer.outcome.ended_by is EndedBy.CANCELLED
    assert not actor.is_alive
    assert is_over(scope)
    assert scope.token.reason == "Boom: first"
    assert scope.token.cause is None, "the block has raised it"
    # The cancel count of the task is as before, and the next await is not disturbed.
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("how", ["raise", "fail"])
async def test_an_actor_that_fails(how: str, loop: Loop) -> None:
    def behavior(ctx: Context[Any], data: object) -> Verdict:
        if how == "raise":
            raise Boom(data)
        return FAIL

    with pytest.raises(ExceptionGroup) as caught:
        async with Scope() as scope:
            loop.send(scope.spawn(behavior, name="clerk"), "hello")
            await hang()
    (error,) = caught.value.exceptions
    if how == "raise":
        assert repr(error) == repr(Boom("hello"))
    else:
        assert isinstance(error, ChildFailedError)
        assert "ended with reason FAIL" in str(error)


@pytest.mark.spec("K7")
@pytest.mark.parametrize("how", ["raise", "fail", "async"])
async def test_a_channel_actor_that_fails(how: str) -> None:
    channel = Channel[int](UNBOUNDED)

    def process(number: int) -> Verdict:
        if how == "raise":
            raise Boom(number)
        return FAIL

    async def slowly(number: int) -> None:
        await asyncio.sleep(0)
        raise Boom(number)

    with pytest.raises(ExceptionGroup) as caught:
        async with Scope() as scope:
            consumer = scope.consume(channel, slowly if how == "async" else process, name="orders")
            await channel.send(7)
            await channel.send(8)
            await hang()
    (error,) = caught.value.exceptions
    assert consumer.outcome is not None
    assert consumer.outcome.ended_by is EndedBy.FAILED
    if how == "fail":
        assert isinstance(error, ChildFailedError)
        assert "'orders'" in str(error)
    else:
        assert error is consumer.outcome.cause
        assert repr(error) == repr(Boom(7))
    assert channel.statistics().buffered == 1


async def test_all_errors_are_in_the_group(caplog: pytest.LogCaptureFixture) -> None:
    """Except what an actor raises while it is being stopped: that is logged, as everywhere."""

    async def failing(number: int) -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            raise Boom("consumer") from None

    channel = Channel[int](UNBOUNDED)
    with pytest.raises(ExceptionGroup) as caught:
        async with Scope() as scope:
            scope.consume(channel, failing)
            await channel.send(1)
            for word in ("a", "b"):
                scope.launch(fail_at_cleanup(word))
            await iterate()
            try:
                scope.launch(fail_soon("first"))
                await hang()
            finally:
                raise Boom("body")
    assert errors_of(caught) == [repr(Boom(word)) for word in ("a", "b", "body", "first")]
    assert "raised while it was being stopped" in caplog.text


async def test_base_exceptions() -> None:
    class Odd(BaseException):
        pass

    async def odd() -> None:
        await asyncio.sleep(0)
        raise Odd

    with pytest.raises(BaseExceptionGroup) as caught:
        async with Scope() as scope:
            scope.launch(odd())
            await hang()
    assert not isinstance(caught.value, ExceptionGroup)
    assert isinstance(caught.value.exceptions[0], Odd)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_child_propagates_bare(kind: type[BaseException]) -> None:
    """asyncio also raises it from the event loop; when that runs again, the block raises it, and not a group."""

    async def child() -> None:
        await asyncio.sleep(0)
        raise kind("child")

    async def block() -> None:
        async with Scope() as scope:
            scope.launch(hang())
            scope.launch(fail_soon())
            scope.launch(child())
            await hang()

    host = VirtualClock().new_event_loop()
    try:
        task = host.create_task(block())
        with pytest.raises(kind, match="child"):
            host.run_until_complete(task)
        with pytest.raises(kind, match="child"):
            host.run_until_complete(task)
        assert task.cancelling() == 0
        assert isinstance(task.exception(), kind)
    finally:
        host.close()


# --- errors that only report the cancellation of the scope ------------------------------------------------------------


@pytest.mark.guarantee("G115")
async def test_a_wait_cancelled_by_the_scopes_token_is_no_error() -> None:
    empty = Channel[int]()

    async def child() -> None:
        await empty.receive(token=scope.token)

    async with Scope() as scope:
        waiting = scope.launch(child())
        await iterate()
        scope.launch(cancel_soon(scope))
        await empty.receive(token=scope.token)
    assert waiting.done()
    assert is_over(scope)


@pytest.mark.guarantee("G115")
async def test_a_wait_cancelled_by_another_token_is_an_error() -> None:
    other = CancelToken()

    async def child() -> None:
        await Channel[int]().receive(token=other)

    with pytest.raises(ExceptionGroup) as caught:
        async with Scope() as scope:
            scope.launch(child())
            await iterate()
            other.cancel("theirs")
            await hang()
    (error,) = caught.value.exceptions
    assert isinstance(error, TokenCancelledError)
    assert error.token == other.number


@pytest.mark.guarantee("G115")
@pytest.mark.parametrize("where", ["body", "child", "deeper", "scope inside"])
@pytest.mark.virtual_time
async def test_nor_are_groups_of_such_waits(where: str) -> None:
    empty = Channel[int]()

    async def wait() -> None:
        await empty.receive(token=scope.token)

    async def group(depth: int = 0) -> None:
        async with asyncio.TaskGroup() as group_:
            group_.create_task(group(depth - 1) if depth else wait())
            group_.create_task(wait())

    async def inside() -> None:
        # It does not have the scope's token: for it, this is an error.
        async with Scope() as inner:
            inner.launch(wait())

    async with Scope() as scope:
        asyncio.get_running_loop().call_later(1, scope.cancel, "enough")
        if where == "child":
            scope.launch(group())
        elif where == "scope inside":
            scope.launch(inside())
        else:
            await group(2 if where == "deeper" else 0)
    assert is_over(scope)


@pytest.mark.parametrize("where", ["body", "child"])
@pytest.mark.virtual_time
async def test_the_rest_of_such_a_group_is_an_error(where: str) -> None:
    other = CancelToken()
    other.cancel("theirs")

    async def fail() -> None:
        with suppress(asyncio.CancelledError):
            await hang()
        inner = ExceptionGroup("inner", [scope.token.error("a wait"), Boom("in it")])
        raise ExceptionGroup("outer", [inner, scope.token.error("a wait"), other.error("a wait")])

    with pytest.raises(ExceptionGroup) as caught:
        async with Scope() as scope:
            asyncio.get_running_loop().call_later(1, scope.token.cancel, "enough")
            if where == "child":
                scope.launch(fail())
            else:
                await fail()
    assert [type(error) for error in flatten(caught.value)] == [Boom, TokenCancelledError]
    (outer,) = caught.value.exceptions
    assert isinstance(outer, ExceptionGroup)
    assert outer.message == "outer"


# --- edge cases -------------------------------------------------------------------------------------------------------


def test_a_callback_that_is_interrupted_does_not_keep_the_scope_waiting() -> None:
    """Whatever a callback does, the child is removed."""

    def interrupt(_token: CancelToken) -> None:
        raise KeyboardInterrupt

    async def block() -> None:
        async with Scope() as scope:
            scope.token.on_cancel(interrupt)
            scope.launch(fail_soon())
            await hang()

    host = VirtualClock().new_event_loop()
    try:
        task = host.create_task(block())
        with pytest.raises(KeyboardInterrupt):
            host.run_until_complete(task)
        with raises_errors(Boom()):
            host.run_until_complete(task)
    finally:
        host.close()


@pytest.mark.guarantee("G120")
def test_a_dropped_coroutine_does_not_wait() -> None:
    """Its event loop was closed, or has stopped, so it cannot wait. Nothing is raised and nothing hangs."""
    log: list[str] = []
    clock = VirtualClock()
    host = clock.new_event_loop()
    children: list[asyncio.Task[None]] = []

    async def block() -> None:
        async with Scope() as scope:
            children.append(scope.launch(hang(log)))
            try:
                await hang()
            finally:
                log.append("body ended")

    coroutine = block()
    task = host.create_task(coroutine)
    host.run_until_complete(iterate())
    coroutine.close()
    assert log == ["body ended"]
    # The children are cancelled as soon as the event loop runs again.
    host.run_until_complete(iterate())
    assert children[0].cancelled()
    assert log == ["body ended", "child ended"]
    # asyncio steps a coroutine that was closed, and reports that.
    task.cancel()
    host.run_until_complete(iterate())
    assert task.done()
    if not task.cancelled():
        task.exception()
    host.close()


@pytest.mark.slow
@pytest.mark.guarantee("G120")
async def test_a_child_that_fails_after_the_end_of_the_scope_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A dropped generator is closed in another task: its scope is over, and its children may still fail."""
    caplog.set_level("ERROR", "bandstand.scope")
    scopes: list[Scope] = []

    async def numbers() -> AsyncIterator[int]:
        async with Scope(name="shop") as scope:
            scopes.append(scope)
            scope.launch(fail_at_cleanup("unheard"))
            await iterate()
            yield 1

    async for _ in numbers():
        break
    gc.collect()
    await iterate(20)
    # It had not ended when the scope ended, so the result must not be True.
    assert await scopes[0].cancel() is False
    assert "a child of scope 'shop' failed after the scope had ended" in caplog.text
    assert "unheard" in caplog.text


@pytest.mark.slow
@pytest.mark.guarantee("G120")
@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_an_event_loop_that_is_closed_while_a_scope_is_open() -> None:
    log: list[str] = []
    host = VirtualClock().new_event_loop()
    scopes: list[Scope] = []

    async def block() -> None:
        async with Scope() as scope:
            scopes.append(scope)
            scope.launch(hang(log))
            try:
                await hang()
            finally:
                log.append("body ended")

    coroutine = block()
    task = host.create_task(coroutine)
    host.run_until_complete(iterate())
    host.close()
    # A cancel from here has no effect, and the wait returns at once.
    assert scopes[0].cancel("too late").blocking() is False
    coroutine.close()
    assert "body ended" in log
    assert repr(scopes[0]).startswith("<Scope over")
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # we know
    for child in scopes[0].children:
        child._log_destroy_pending = False  # type: ignore[union-attr]  # same
    del task, coroutine, child
    scopes.clear()
    gc.collect()


@pytest.mark.no_loop
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks before 3.12")
async def test_eager_tasks() -> None:
    async def fail() -> None:
        raise Boom("eager")

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]  # since 3.12
    log: list[str] = []
    async with Scope() as scope:
        assert scope.launch(asyncio.sleep(0, "now")) in scope.children
    with raises_errors(Boom("eager")):
        async with Scope() as scope:
            scope.launch(fail())
            assert scope.children == ()
            await hang(log, "body")
    assert log == ["body ended"]
    async with Scope() as scope:
        # It cancels the scope before it is a child.
        async def canceller() -> None:
            await scope.cancel("eager")
            await hang(log)

        scope.launch(canceller())
        await hang(log, "body")
    assert log == ["body ended", "child ended", "body ended"]


@pytest.mark.parametrize("does_join", [True, False])
async def test_a_body_that_has_cancelled_its_scope_is_cancelled_by_a_child_that_fails(
    does_join: bool,
) -> None:
    log: list[str] = []
    with raises_errors(Boom()):
        async with Scope() as scope:
            scope.launch(fail_at_cleanup())
            await iterate()
            joining = scope.cancel()
            try:
                if does_join:
                    await joining
                await hang()
            finally:
                log.append("body ended")
    await iterate()
    assert log == ["body ended"]
