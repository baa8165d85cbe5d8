"""Cancelling scopes: by whom, how far it reaches, and children that ignore it."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask
from bandstand.core import Context, Loop
from bandstand.errors import ChannelTimeoutError, InvalidArgumentError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consumer import EndedBy
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock
from tests.scope.support import (
    Boom,
    fail_at_cleanup,
    hang,
    idle,
    ignore_cancellation,
    in_thread,
    is_closed,
    is_over,
    iterate,
    raises_errors,
)

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G115")]


# --- by scope.cancel() ------------------------------------------------------------------------------------------------


@pytest.mark.spec("K4")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_channel_actor_cancels_its_scope_and_does_not_wait_for_itself(is_async: bool) -> None:
    answers: list[object] = []
    channel = Channel[int](UNBOUNDED)
    async with Scope() as scope:

        def process(number: int) -> None:
            answers.append(number)
            scope.token.cancel("by a consumer")

        async def slowly(number: int) -> None:
            answers.append(number)
            await asyncio.sleep(0)
            await scope.cancel("by a consumer")

        consumer = scope.consume(channel, slowly if is_async else process)
        await channel.send(1)
        await channel.send(2)
        await hang()
    assert answers == [1]
    assert consumer.outcome is not None
    assert consumer.outcome.ended_by is EndedBy.CANCELLED


@pytest.mark.virtual_time
async def test_no_child_is_accepted_after_the_deadline_of_the_parent_token(clock: VirtualClock) -> None:
    """The token reads the clock: a start is refused although no listener was notified yet."""
    token = CancelToken(timeout=0.1)
    with pytest.raises(TokenCancelledError) as caught:
        async with Scope(token=token) as scope:
            clock.advance(0.2)
            coroutine = hang()
            with pytest.raises(TokenCancelledError):
                scope.launch(coroutine)
            assert is_closed(coroutine)
            scope.token.raise_if_cancelled()
    assert caught.value.token == token.number


# --- the body continues, and something else cancels the scope too -----------------------------------------------------


@pytest.mark.parametrize("who", ["a callback", "a child", "a thread", "an actor"])
async def test_a_body_that_has_cancelled_its_scope_is_still_cancelled_by_others(who: str, loop: Loop) -> None:
    log: list[str] = []

    async def child() -> None:
        try:
            await hang()
        finally:
            if who == "a child":
                scope.cancel("by another")

    def behavior(ctx: Context[Any], data: object) -> None:
        scope.cancel("by another")

    stranger = loop.spawn(behavior)
    async with Scope() as scope:
        scope.launch(child())
        await iterate()
        scope.cancel("by the body")
        if who == "a callback":
            asyncio.get_running_loop().call_soon(scope.cancel, "by another")
        elif who == "a thread":
            in_thread(scope.cancel, "by another")
        elif who == "an actor":
            loop.send(stranger, "go")
        await hang(log, "body")
    assert scope.token.reason == "by the body"
    loop.stop_actor(stranger)
    assert log == ["body ended"]


@pytest.mark.parametrize("who", ["ask", "init", "consumer"])
def test_an_actor_that_runs_in_the_bodys_task_is_not_the_body(who: str) -> None:
    """A loop may run a tick inside a task that awaits an answer; and starting an actor is a call."""

    class Judge(Actor):
        def __init__(self, scope: Scope) -> None:
            self.scope = scope

        def on_start(self) -> None:
            if who == "init":
                self.scope.cancel("by an actor")

        @ask
        def judge(self) -> bool:
            if who == "ask":
                self.scope.cancel("by an actor")
            return True

    def poisoned(number: int) -> None:
        scopes[0].cancel("by an actor")

    scopes: list[Scope] = []
    log: list[str] = []

    async def main() -> None:
        async with ActorSystem(clock=clock) as loop:
            async with Scope() as scope:
                scopes.append(scope)
                channel = Channel[int](UNBOUNDED)
                scope.consume(channel, poisoned)
                judge = loop.spawn(Judge, scope)
                if who == "consumer":
                    channel.try_send(1)
                await judge.judge()
                await hang(log, "body")
            judge.stop()

    clock = VirtualClock()
    clock.run(main())
    assert log == ["body ended"]


async def test_a_cancel_that_comes_while_the_scope_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another thread, between two statements: the callback runs late, in the body's task, but is not the body's call."""
    scope = Scope()
    was = CancelToken.on_cancel

    def first_cancel(token: CancelToken, callback: Callable[[CancelToken], object]) -> Callable[[], bool]:
        monkeypatch.undo()
        token.cancel("in between")
        return was(token, callback)

    monkeypatch.setattr(CancelToken, "on_cancel", first_cancel)
    async with scope:
        await hang()
    assert scope.token.reason == "in between"


class Signalled:
    """Signal handlers, written in different ways."""

    def __init__(self, deed: Callable[[], object]) -> None:
        self.deed = deed

    def captured(self, number: int, frame: object) -> None:
        def deeper() -> object:
            return frame, self.deed()

        deeper()

    def once(self, number: int, frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.deed()

    def __call__(self, *arguments: object) -> None:
        self.deed()

    def ways(self) -> dict[str, Callable[[int, FrameType | None], object]]:
        return {
            "function": lambda _number, _frame: self.deed(),
            "partial": partial(self, "word"),
            "captured": self.captured,
            "once": self.once,
            "object": self,
        }


@pytest.fixture
def usr1() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def compute() -> None:
    """Compute, and receive a signal."""
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.usefixtures("usr1")
@pytest.mark.parametrize("by", ["scope", "token"])
@pytest.mark.parametrize("way", list(Signalled(print).ways()))
async def test_a_signal_handler_is_not_the_body_that_it_interrupts(way: str, by: str) -> None:
    """It runs while the body computes, in the body's task; the body is cancelled at its next await, however short."""
    log: list[str] = []
    async with Scope() as scope:
        handler = Signalled(lambda: scope.cancel("signal") if by == "scope" else scope.token.cancel("signal"))
        signal.signal(signal.SIGUSR1, handler.ways()[way])
        scope.launch(hang(log))
        await iterate()
        compute()
        log.append("computed")
        await asyncio.sleep(0)
        log.append("went on")
    assert scope.token.reason == "signal"
    assert log == ["computed", "child ended"]


@pytest.mark.usefixtures("usr1")
@pytest.mark.parametrize("where", ["a child", "a callback"])
async def test_a_signal_handler_cancels_children_only_in_the_next_iteration(where: str) -> None:
    """It may have interrupted the scope's own code, so its request is handled in the next iteration."""
    seen: list[int] = []
    async with Scope() as scope:
        task = scope.launch(hang())

        def handler(*_: object) -> None:
            scope.cancel("signal")
            seen.append(task.cancelling())

        async def child() -> None:
            compute()
            await hang()

        signal.signal(signal.SIGUSR1, handler)
        await iterate()
        if where == "a child":
            scope.launch(child())
        else:
            asyncio.get_running_loop().call_soon(compute)
        await hang()
    assert seen == [0]
    assert task.cancelled()


async def test_a_function_that_gets_the_frame_of_the_body_is_not_a_signal_handler() -> None:
    """A signal handler gets two arguments, the frame among them."""
    log: list[str] = []

    def cancel(_frame: object) -> None:
        scope.cancel("by the body")

    async with Scope() as scope:
        scope.launch(hang(log))
        await iterate()
        cancel(inspect.currentframe())
        await iterate()
        log.append("the body goes on")
    assert log == ["child ended", "the body goes on"]


@pytest.mark.parametrize("how", ["waiting", "joining", "by the body", "deadline"])
@pytest.mark.virtual_time
async def test_a_parents_cancellation_propagates_as_cancelled(how: str) -> None:
    log: list[str] = []
    token = CancelToken(timeout=1.0 if how == "deadline" else None)
    asyncio.get_running_loop().call_later(1, token.cancel, "from above")
    with pytest.raises(TokenCancelledError, match="a scope was cancelled") as caught:
        async with Scope(token=token) as scope:
            scope.launch(hang(log, "task"))
            scope.consume(Channel[int](), print)
            await iterate()
            if how == "by the body":
                token.cancel("by the body")
            if how != "joining":
                await hang(log, "body")
    assert caught.value.token == token.number
    assert caught.value.reason == token.reason
    assert "task ended" in log
    assert is_over(scope)


# --- by asyncio -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G116")
@pytest.mark.parametrize("order", ["scope first", "task first", "same turn"])
@pytest.mark.virtual_time
async def test_both_the_scope_and_its_task_are_cancelled(order: str) -> None:
    """asyncio's propagates, whichever came first."""
    scopes: list[Scope] = []

    async def slow() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(1)

    async def block() -> None:
        async with Scope() as scope:
            scopes.append(scope)
            scope.launch(slow())
            await hang()

    task = asyncio.create_task(block())
    await iterate()
    if order != "task first":
        scopes[0].token.cancel("own")
    if order == "scope first":
        await iterate()
    task.cancel()
    if order == "task first":
        await iterate()
        scopes[0].token.cancel("own")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


@pytest.mark.guarantee("G116")
async def test_errors_have_priority_over_a_cancellation_by_asyncio_and_the_count_stays() -> None:
    """From 3.13 on, as with a TaskGroup, the next await is cancelled."""
    counts: list[int] = []

    async def block() -> None:
        task = asyncio.current_task()
        assert task is not None
        with raises_errors(Boom()):
            async with Scope() as scope:
                scope.launch(fail_at_cleanup())
                await hang()
        counts.append(task.cancelling())
        await asyncio.sleep(0)
        counts.append(task.cancelling())

    task = asyncio.create_task(block())
    await iterate()
    task.cancel()
    await asyncio.wait([task])
    assert counts == ([1] if sys.version_info >= (3, 13) else [1, 1])


# --- children that do not end -----------------------------------------------------------------------------------------


@pytest.mark.guarantee("G117")
@pytest.mark.virtual_time
async def test_a_task_that_ignores_its_cancellation_is_abandoned_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "bandstand.scope")
    release = asyncio.Event()

    async def mule() -> None:
        await ignore_cancellation(release)
        raise Boom("much later")

    before = asyncio.get_running_loop().time()
    async with Scope(stop_timeout=2.0, name="shop") as scope:
        task = scope.launch(mule(), name="mule")
        await iterate()
        assert await scope.cancel() is False
        assert not scope.children
    assert asyncio.get_running_loop().time() - before == pytest.approx(2)
    assert not task.done()
    assert "mule" in caplog.text
    assert "did not end within 2000 ms after scope 'shop' was cancelled, and is abandoned" in caplog.text
    release.set()
    await iterate()
    assert "had abandoned it" in caplog.text
    assert "much later" in caplog.text


@pytest.mark.guarantee("G117")
@pytest.mark.parametrize("kind", ["actor", "consumer"])
@pytest.mark.virtual_time
async def test_an_actor_that_ignores_its_cancellation_is_killed(
    kind: str, caplog: pytest.LogCaptureFixture, loop: Loop
) -> None:
    caplog.set_level(logging.ERROR, "bandstand.scope")
    release = asyncio.Event()
    channel = Channel[int](UNBOUNDED)

    async def process(number: int) -> None:
        await ignore_cancellation(release)

    async def behavior(ctx: Context[Any], data: object) -> None:
        await ignore_cancellation(release)

    before = asyncio.get_running_loop().time()
    async with Scope(stop_timeout=3.0) as scope:
        if kind == "actor":
            loop.send(scope.spawn(behavior), "go")
        else:
            consumer = scope.consume(channel, process)
            await channel.send(1)
        await iterate()
        # A killed actor has ended: no child was abandoned, and the kill is no error.
        assert await scope.cancel() is True
    assert asyncio.get_running_loop().time() - before == pytest.approx(3)
    assert loop.statistics().alive == 0
    if kind == "consumer":
        assert consumer.outcome is not None
        assert consumer.outcome.ended_by is EndedBy.KILLED
    assert "was killed" in caplog.text
    release.set()
    await iterate()


@pytest.mark.guarantee("G117")
@pytest.mark.parametrize("timeout", [5, None])
@pytest.mark.virtual_time
async def test_the_stop_timeout_starts_with_the_cancellation(timeout: float | None) -> None:
    """Not with the end of the block; children that end in time are not killed; and None is no timeout."""
    log: list[str] = []

    async def slow() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(4 if timeout else 10_000)
            log.append("cleaned up")

    async with Scope(stop_timeout=timeout) as scope:
        scope.launch(slow())
        await iterate()
        scope.token.cancel()
        await asyncio.sleep(3)
    assert log == ["cleaned up"]


@pytest.mark.virtual_time
async def test_the_wait_for_the_end_of_a_cancel_can_time_out() -> None:
    release = asyncio.Event()
    async with Scope() as scope:
        scope.launch(ignore_cancellation(release))
        await iterate()
        with pytest.raises(ChannelTimeoutError):
            await scope.wait_all(0.01)
        with pytest.raises(ChannelTimeoutError, match="the end of all children"):
            await scope.cancel(timeout=0.01)
        with pytest.raises(InvalidArgumentError, match="timeout"):
            scope.cancel(timeout=-0.001)
        waiting = scope.cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await waiting
        release.set()
        assert await scope.cancel() is True


@pytest.mark.guarantee("G120")
@pytest.mark.no_loop
async def test_a_loop_that_is_stopped_while_a_scope_is_open(clock: VirtualClock) -> None:
    before = clock.now_ns()
    async with Loop(clock=clock) as loop, Scope() as scope:
        consumer = scope.consume(Channel[int](), print)
        actor = scope.spawn(idle)
        await iterate()
        loop.request_stop()
    assert consumer.done
    assert not actor.is_alive
    assert clock.now_ns() == before
