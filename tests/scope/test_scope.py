"""Scopes: what they own, how they wait for it, and what they refuse."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.core import ActorId, Context, Loop
from bandstand.errors import (
    ActorNotLocalError,
    ChannelTimeoutError,
    InvalidArgumentError,
    NoSuchActorError,
    ScopeClosedError,
    TokenCancelledError,
    WrongThreadError,
)
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock
from tests.scope.support import hang, idle, is_closed, is_over, iterate

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G113")]


# --- what it owns -----------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_the_end_of_the_block_waits_for_tasks(clock: VirtualClock) -> None:
    before = clock.now_ns()
    async with Scope() as scope:
        slow = scope.launch(asyncio.sleep(3, "slow"))
        quick = scope.launch(asyncio.sleep(1, "quick"), name="quickly")
        assert quick.get_name() == "quickly"
        assert scope.children == (slow, quick)
        assert not slow.done()
    assert (slow.result(), quick.result()) == ("slow", "quick")
    assert is_over(scope)
    assert clock.now_ns() - before == 3_000_000_000


def sink(ctx: Context[list[object]], data: object) -> None:
    """Store each message."""
    ctx.state.append(data)


async def relay(ctx: Context[ActorId], data: object) -> None:
    """Forward each message after a while."""
    await iterate(3)
    ctx.loop.send(ctx.state, data)


async def test_actors_end_youngest_first(loop: Loop) -> None:
    """A younger actor may still send to an older one."""
    seen: list[object] = []
    async with Scope() as scope:
        last = scope.spawn(sink, seen)
        middle = scope.spawn(relay, last)
        first = scope.spawn(relay, middle)
        for number in range(20):
            loop.send(first, number)
    assert loop.statistics().dead == 0
    assert seen == list(range(20))


# --- wait_all ---------------------------------------------------------------------------------------------------------


def idle_process(number: int) -> None:
    """Do nothing."""


@pytest.mark.virtual_time
async def test_wait_all_with_a_timeout() -> None:
    async with Scope(name="shop") as scope:
        task = scope.launch(asyncio.sleep(3))
        with pytest.raises(ChannelTimeoutError, match="all tasks and channel actors of scope 'shop'"):
            await scope.wait_all(2.0)
        with pytest.raises(ChannelTimeoutError):
            await scope.wait_all(timeout=0)
        with pytest.raises(InvalidArgumentError, match="timeout"):
            scope.wait_all(-0.001)
        assert not task.done()
        await scope.wait_all(2.0)
        assert task.done()


async def test_a_child_does_not_wait_for_itself(loop: Loop) -> None:
    refused: list[str] = []

    async with Scope() as scope:

        async def child() -> None:
            with pytest.raises(InvalidArgumentError, match="would wait for itself"):
                await scope.wait_all()
            refused.append("task")

        def actor(ctx: Context[Any], data: object) -> None:
            with pytest.raises(InvalidArgumentError, match="would wait for itself"):
                scope.wait_all()
            refused.append("actor")

        scope.launch(child())
        loop.send(scope.spawn(actor), "wait")
    assert sorted(refused) == ["actor", "task"]


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_it_is_for_one_block() -> None:
    scope = Scope(name="once")
    async with scope:
        with pytest.raises(InvalidArgumentError, match="scope 'once' was already entered"):
            async with scope:
                pass
        assert scope.launch(asyncio.sleep(0)) in scope.children
    with pytest.raises(InvalidArgumentError, match="already entered"):
        async with scope:
            pass


async def test_outside_its_block_it_accepts_no_children(loop: Loop) -> None:
    channel = Channel[int]()
    actor = loop.spawn(idle)
    scope = Scope(name="shop")

    def refuses(words: str) -> None:
        coroutine = hang()
        with pytest.raises(ScopeClosedError, match=words):
            scope.launch(coroutine)
        # Closed: Python does not warn that it was never awaited.
        assert is_closed(coroutine)
        with pytest.raises(ScopeClosedError, match=words):
            scope.consume(channel, idle_process)
        with pytest.raises(ScopeClosedError, match=words):
            scope.spawn(idle)
        with pytest.raises(ScopeClosedError, match=words):
            scope.adopt(actor)

    refuses("scope 'shop' is not entered")
    with pytest.raises(ScopeClosedError, match="not entered"):
        scope.cancel()
    async with scope:
        pass
    refuses("scope 'shop' is over")
    # There is nothing to wait for or to cancel.
    assert await scope.wait_all() is True
    assert await scope.cancel() is True
    loop.stop_actor(actor)


async def test_a_cancelled_scope_accepts_no_children(loop: Loop) -> None:
    actor = loop.spawn(idle)
    async with Scope(name="shop") as scope:
        await scope.cancel("we close")
        coroutine = hang()
        with pytest.raises(
            TokenCancelledError, match=r"scope 'shop' is cancelled \(we close\): it accepts no more children"
        ) as caught:
            scope.launch(coroutine)
        assert is_closed(coroutine)
        assert (caught.value.token, caught.value.reason) == (scope.token.number, "we close")
        for start in (
            lambda: scope.consume(Channel[int](), idle_process),
            lambda: scope.spawn(idle),
            lambda: scope.adopt(actor),
        ):
            with pytest.raises(TokenCancelledError, match="we close"):
                start()
    assert loop.statistics().alive == 1
    loop.stop_actor(actor)


async def test_a_block_with_a_cancelled_parent_token_is_not_entered() -> None:
    token = CancelToken()
    token.cancel("too late")
    with pytest.raises(TokenCancelledError, match="a scope was cancelled: too late") as caught:
        async with Scope(token=token):
            pytest.fail("the body has begun")
    assert caught.value.token == token.number


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"token": "x"}, "token is 'x'"),
        ({"loop": "x"}, "loop is 'x'"),
        ({"stop_timeout": -1}, "^stop_timeout is -1"),
        ({"stop_timeout": "soon"}, "^stop_timeout is 'soon'"),
        ({"name": 7}, "name is 7"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Scope(**arguments)


async def test_only_coroutines_are_launched_and_only_actors_adopted(loop: Loop) -> None:
    stranger = Loop()
    foreign = stranger.spawn(idle)
    ended = loop.spawn(idle)
    loop.stop_actor(ended)
    async with Scope() as scope:
        with pytest.raises(InvalidArgumentError, match="call an `async def` function"):
            scope.launch(hang)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(InvalidArgumentError, match="pass the ActorId"):
            scope.adopt(7)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ActorNotLocalError):
            scope.adopt(foreign)
        with pytest.raises(NoSuchActorError, match="has ended"):
            scope.adopt(ended)
        assert not scope.children
    stranger.destroy()


async def test_its_loop_must_be_attached_to_the_running_event_loop() -> None:
    stranger = Loop()
    with pytest.raises(InvalidArgumentError, match="not attached to the running event loop"):
        async with Scope(loop=stranger):
            pass
    async with stranger:
        async with Scope() as undecided:
            assert undecided.loop is None
            with pytest.raises(InvalidArgumentError, match="has no loop"):
                undecided.spawn(idle)
        async with Scope(loop=stranger) as scope:
            assert scope.loop is stranger
            scope.spawn(idle)
            assert stranger.statistics().alive == 1


@pytest.mark.no_loop
async def test_without_a_loop_it_owns_tasks_only() -> None:
    async with Scope() as scope:
        assert scope.loop is None
        task = scope.launch(asyncio.sleep(1, 5))
        with pytest.raises(InvalidArgumentError, match="has no loop"):
            scope.spawn(idle)
    assert task.result() == 5


@pytest.mark.no_loop
async def test_a_loop_that_was_entered_after_the_scope_is_not_its_loop(clock: VirtualClock) -> None:
    """That loop and its actors would end before the scope."""
    words = r"scope 'shop' has no loop for actors: enter it inside `async with Loop\(\):`, or pass loop="
    async with Scope(name="shop") as scope, Loop(clock=clock) as loop:
        actor = loop.spawn(idle)
        for start in (
            lambda: scope.consume(Channel[int](), idle_process),
            lambda: scope.spawn(idle),
            lambda: scope.adopt(actor),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                start()
        assert loop.statistics().alive == 1
        # An explicit argument is accepted.
        consumer = scope.consume(Channel[int](), idle_process, loop=loop)
        assert consumer.loop is loop
        await consumer.stop()


async def test_it_is_entered_in_a_task_and_used_on_its_event_loop() -> None:
    refused: list[bool] = []

    def callback() -> None:
        with pytest.raises(InvalidArgumentError, match="where no task runs"):
            Scope().__aenter__().send(None)
        refused.append(True)

    asyncio.get_running_loop().call_soon(callback)
    await iterate()
    assert refused == [True]
    async with Scope() as scope:
        coroutine = hang()
        with pytest.raises(WrongThreadError, match="belongs to another event loop or thread"):
            await asyncio.to_thread(scope.launch, coroutine)
        assert is_closed(coroutine)


async def test_an_actor_that_an_observer_ends_at_once_is_not_a_child(loop: Loop) -> None:
    class Bouncer:
        def on_actor_start(self, actor: ActorId, name: str | None) -> None:
            loop.stop_actor(actor)

    loop.set_observer(Bouncer())
    async with Scope() as scope:
        assert not scope.spawn(idle).is_alive
        assert not scope.children
    loop.set_observer(None)


async def test_repr() -> None:
    scope = Scope(name="shop")
    assert repr(scope) == "<Scope 'shop' not entered: 0 in it>"
    async with scope:
        scope.launch(hang())
        assert repr(scope) == "<Scope 'shop' open: 1 in it>"
        waiting = scope.cancel()
        assert repr(scope) == "<Scope 'shop' ending: 1 in it>"
        await waiting
    assert repr(scope) == "<Scope 'shop' over: 0 in it>"
    assert repr(Scope()) == "<Scope not entered: 0 in it>"
