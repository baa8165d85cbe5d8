"""Scopes: who can cancel them, how far that goes, and what becomes of those who do not obey."""

# A block may end before its end, by its own cancellation: what is bound in it may not be. Tasks are the scope's to wait for.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from bandstand.actor import Actor, ask
from bandstand.actor import Loop as Loop_
from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import Cancelled, ChannelTimeout, InvalidArgument
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consumer import EndedBy, consume
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock
from tests.scope.scoping import (
    Boom,
    boom,
    check_clean,
    errors_of,
    hang,
    idle,
    is_closed,
    is_over,
    play,
    play_timed,
    stubborn,
    turns,
)

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G115")]


# --- by scope.cancel() ------------------------------------------------------------------------------------------------


def test_it_ends_at_the_end_of_its_own_block() -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []
        async with Scope() as scope:
            scope.launch(hang(log, "task"))
            consumer = scope.consume(Channel[int](), print)
            actor = scope.spawn(idle)

            async def canceller() -> None:
                assert await scope.cancel("enough") is False

            scope.launch(canceller())
            await hang(log, "body")
            pytest.fail("the body was not cancelled")
        assert sorted(log) == ["body ended", "task ended"]
        assert consumer.outcome is not None
        assert consumer.outcome.ended_by is EndedBy.CANCELLED
        assert not actor.is_alive
        assert scope.token.reason == "enough"
        check_clean(loop)
        await turns()

    play(main)


def test_the_body_that_cancels_its_scope_joins_the_children_and_goes_on() -> None:
    async def main(loop: Loop) -> list[str]:
        log: list[str] = []
        async with Scope() as scope:
            scope.launch(hang(log, "task"))
            scope.consume(Channel[int](), print)
            scope.spawn(idle)
            await turns()
            assert await scope.cancel("enough") is True
            assert not scope.children
            log.append("joined")
            await turns()
            log.append("went on")
        return log

    assert play(main) == ["task ended", "joined", "went on"]


def test_it_is_asked_at_once() -> None:
    """Nothing need be awaited; and asking again changes nothing."""

    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            task = scope.launch(hang())
            await turns()
            first = scope.cancel("first")
            second = scope.cancel("second")
            assert task.cancelling() == 1
            assert scope.token.reason == "first"
            assert await first is True
            assert await second is True

    play(main)


def test_a_reason_that_has_no_sense() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            with pytest.raises(InvalidArgument, match="reason is 7"):
                scope.cancel(7)  # type: ignore[arg-type]  # that is the point
            assert not scope.token.cancelled

    play(main)


def test_a_task_that_has_not_begun_never_begins() -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []
        async with Scope() as scope:
            scope.launch(hang(log))
            await scope.cancel()
        assert log == []

    play(main)


def test_an_actor_cancels_its_scope_and_does_not_wait_for_itself() -> None:
    async def main(loop: Loop) -> None:
        answers: list[bool] = []

        async with Scope() as scope:

            async def behavior(ctx: Context[Any], data: object) -> None:
                answers.append(await scope.cancel("by an actor"))
                await hang()

            loop.send(scope.spawn(behavior), "go")
            await hang()
        assert answers == [False]
        assert scope.token.reason == "by an actor"

    play(main)


@pytest.mark.spec("K4")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_channel_actor_cancels_its_scope_and_does_not_wait_for_itself(is_async: bool) -> None:
    async def main(loop: Loop) -> None:
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

    play(main)


def test_cancelling_one_channel_actor_does_not_touch_the_others() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            one = scope.consume(Channel[int](), print)
            other = scope.consume(Channel[int](), print)
            await one.cancel("only this one")
            assert one.done
            assert not other.done
            assert scope.children == (other,)
            assert not scope.token.cancelled
            await scope.cancel()
            assert other.done

    play(main)


def test_a_channel_actor_with_a_token_of_its_own_ends_with_either() -> None:
    async def main(loop: Loop) -> None:
        token = CancelToken()
        async with Scope() as scope:
            one = scope.consume(Channel[int](), print, token=token)
            token.cancel("its own")
            await one.ended()
            assert not scope.token.cancelled
            two = scope.consume(Channel[int](), print, token=CancelToken())
            await scope.cancel()
            assert two.done

    play(main)


def test_a_child_that_was_started_by_a_cancelled_parent_deadline_is_refused() -> None:
    """The token looks at the clock: a start is refused although nobody could be told yet."""

    async def main(loop: Loop) -> None:
        token = CancelToken(timeout_ms=100)
        with pytest.raises(Cancelled) as caught:
            async with Scope(token=token) as scope:
                clock.advance(200)
                coroutine = hang()
                with pytest.raises(Cancelled):
                    scope.launch(coroutine)
                assert is_closed(coroutine)
                scope.token.raise_if_cancelled()
        assert caught.value.token == token.number

    clock = VirtualClock()
    play_timed(main, clock)


# --- the body goes on, and somebody else does not want that -----------------------------------------------------------


@pytest.mark.parametrize("who", ["a callback", "a child", "a thread", "an actor"])
def test_a_body_that_has_cancelled_its_scope_is_still_interrupted_by_others(who: str) -> None:
    async def main(loop: Loop) -> list[str]:
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
            await turns()
            scope.cancel("by the body")
            if who == "a callback":
                asyncio.get_running_loop().call_soon(scope.cancel, "by another")
            elif who == "a thread":
                thread = threading.Thread(target=scope.cancel, args=("by another",))
                thread.start()
                thread.join()
            elif who == "an actor":
                loop.send(stranger, "go")
            await hang(log, "body")
        assert scope.token.reason == "by the body"
        loop.stop_actor(stranger)
        return log

    assert play(main) == ["body ended"]


@pytest.mark.parametrize("who", ["ask", "init", "consumer"])
def test_an_actor_that_has_its_turn_in_the_bodys_task_is_not_the_body(who: str) -> None:
    """A loop may run a tick inside of whoever awaits an answer; and an actor's start is a call."""

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
        async with Loop_(clock=clock) as loop:
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


@pytest.mark.parametrize("is_async_init", [False, True])
def test_the_body_in_an_actor_is_the_one_who_asks(is_async_init: bool) -> None:
    async def main(loop: Loop) -> list[str]:
        log: list[str] = []

        async def behavior(ctx: Context[Any], data: object) -> None:
            if is_async_init:
                await asyncio.sleep(0)
            async with Scope() as scope:
                scope.launch(hang(log))
                await turns()
                await scope.cancel("by the body")
                await turns()
                log.append("went on")

        actor = loop.spawn(behavior)
        loop.send(actor, "go")
        await turns(30)
        loop.stop_actor(actor)
        return log

    assert play(main) == ["child ended", "went on"]


def test_a_cancel_that_comes_while_the_scope_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another thread, between two lines: it is told late, in the body's own task, and is not the body's."""

    async def main(loop: Loop) -> None:
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

    play(main)


def test_that_comes_too_late_when_the_block_is_over() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            scope.cancel("by the body")
            asyncio.get_running_loop().call_soon(scope.cancel, "by another")
        scope.cancel("much later")
        await turns()
        check_clean(loop)

    play(main)


class Signalled:
    """What handles a signal, in all the ways in which one may be written."""

    def __init__(self, deed: Callable[[], object]) -> None:
        self.deed = deed

    def method(self, number: int, frame: object) -> None:
        self.deed()

    def several(self, *arguments: object) -> None:
        self.deeper()

    def deeper(self) -> None:
        self.deed()

    def more(self, word: str, number: int, frame: object) -> None:
        self.deed()

    def captured(self, number: int, frame: object) -> None:
        def deeper() -> object:
            return frame, self.deed()

        deeper()

    def once(self, number: int, frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        self.deed()

    def __call__(self, number: int, frame: object) -> None:
        self.deed()

    def ways(self) -> dict[str, Callable[[int, FrameType | None], object]]:
        return {
            "function": lambda _number, _frame: self.deed(),
            "method": self.method,
            "several": self.several,
            "partial": partial(self.more, "word"),
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
    """Be busy, and be signalled."""
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.usefixtures("usr1")
@pytest.mark.parametrize("by", ["scope", "token"])
@pytest.mark.parametrize("way", list(Signalled(print).ways()))
def test_a_signal_handler_is_not_the_body_that_it_interrupts(way: str, by: str) -> None:
    """It comes while the body computes, in its own task; the body ends at its next await, be that ever so short."""

    async def main(loop: Loop) -> list[str]:
        log: list[str] = []
        async with Scope() as scope:
            handler = Signalled(
                lambda: scope.cancel("signal") if by == "scope" else scope.token.cancel("signal")
            )
            signal.signal(signal.SIGUSR1, handler.ways()[way])
            scope.launch(hang(log))
            await turns()
            compute()
            log.append("computed")
            await asyncio.sleep(0)
            log.append("went on")
        assert scope.token.reason == "signal"
        return log

    assert play(main) == ["computed", "child ended"]


@pytest.mark.usefixtures("usr1")
def test_a_signal_after_the_bodys_own_cancel() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            signal.signal(signal.SIGUSR1, lambda _number, _frame: scope.cancel("signal"))
            scope.cancel("by the body")
            compute()
            await asyncio.sleep(0)
            pytest.fail("the body was not interrupted")

    play(main)


@pytest.mark.usefixtures("usr1")
def test_a_signal_that_comes_at_the_end_of_the_block_does_not_come_out_behind_it() -> None:
    async def main(loop: Loop) -> None:
        async with Scope() as scope:
            signal.signal(signal.SIGUSR1, lambda _number, _frame: scope.cancel("signal"))
            compute()
        await turns()
        check_clean(loop)

    play(main)


@pytest.mark.usefixtures("usr1")
@pytest.mark.parametrize("where", ["a child", "a callback"])
def test_a_signal_handler_ends_nobody_in_the_middle_of_something(where: str) -> None:
    """It may have come in between two lines of our own books: everything it wants is done in the next turn."""

    async def main(loop: Loop) -> None:
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
            await turns()
            if where == "a child":
                scope.launch(child())
            else:
                asyncio.get_running_loop().call_soon(compute)
            await hang()
        assert seen == [0]
        assert task.cancelled()

    play(main)


# --- by the token it was given ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["waiting", "joining", "by the body", "deadline"])
def test_a_parents_cancellation_goes_on_as_cancelled(how: str) -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []
        token = CancelToken(timeout_ms=1000 if how == "deadline" else None)
        asyncio.get_running_loop().call_later(1, token.cancel, "from above")
        with pytest.raises(Cancelled, match="a scope was cancelled") as caught:
            async with Scope(token=token) as scope:
                scope.launch(hang(log, "task"))
                scope.consume(Channel[int](), print)
                await turns()
                if how == "by the body":
                    token.cancel("by the body")
                if how != "joining":
                    await hang(log, "body")
        assert caught.value.token == token.number
        assert caught.value.reason == token.reason
        assert "task ended" in log
        assert is_over(scope)
        check_clean(loop)

    play_timed(main)


def test_a_grandparents_cancellation_says_whose_it_is() -> None:
    async def main(loop: Loop) -> None:
        top = CancelToken()
        async with Scope() as outer:
            outer.launch(asyncio.sleep(0))
            with pytest.raises(Cancelled) as caught:
                async with Scope(token=top.child()) as scope:
                    scope.launch(hang())
                    await turns()
                    top.cancel("everything")
                    await hang()
            assert caught.value.token == top.number

    play(main)


def test_a_parents_cancellation_and_the_scopes_own() -> None:
    """The body has cancelled its children, and is at its own work, when the one above is cancelled."""

    async def main(loop: Loop) -> None:
        token = CancelToken()
        log: list[str] = []
        with pytest.raises(Cancelled, match="from above") as caught:
            async with Scope(token=token) as scope:
                scope.launch(hang(log))
                await turns()
                await scope.cancel("own")
                asyncio.get_running_loop().call_soon(token.cancel, "from above")
                await hang(log, "body")
        assert caught.value.token == token.number
        assert log == ["child ended", "body ended"]

    play(main)


def test_errors_go_before_a_parents_cancellation() -> None:
    async def main(loop: Loop) -> None:
        token = CancelToken()

        async def at_cleanup() -> None:
            try:
                await hang()
            finally:
                raise Boom

        with pytest.raises(ExceptionGroup) as caught:
            async with Scope(token=token) as scope:
                scope.launch(at_cleanup())
                await turns()
                token.cancel()
                await hang()
        assert errors_of(caught) == [repr(Boom())]

    play(main)


def test_a_guard_inside() -> None:
    """Both cancel the task: each takes its own back."""

    async def main(loop: Loop) -> None:
        token = CancelToken()
        with pytest.raises(Cancelled, match="a scope was cancelled: from above"):
            async with Scope(token=token) as scope:
                asyncio.get_running_loop().call_soon(token.cancel, "from above")
                async with scope.token.guard():
                    await hang()
        check_clean(loop)

    play(main)


# --- by asyncio -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G116")
@pytest.mark.parametrize("where", ["body", "joining", "draining"])
def test_a_task_that_is_cancelled_ends_its_scope_and_goes_on_so(where: str) -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []

        async def busy(ctx: Context[Any], data: object) -> None:
            await hang(log, "actor")

        async def block() -> None:
            async with Scope() as scope:
                if where != "draining":
                    scope.launch(hang(log))
                else:
                    loop.send(scope.spawn(busy), "go")
                if where == "body":
                    await hang(log, "body")

        task = asyncio.create_task(block())
        await turns()
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError, match="from outside"):
            await task
        assert task.cancelled()
        assert task.cancelling() == 1
        expected = {
            "body": ["body ended", "child ended"],
            "joining": ["child ended"],
            "draining": ["actor ended"],
        }
        assert sorted(log) == expected[where]

    play(main)


@pytest.mark.guarantee("G116")
def test_a_task_that_is_cancelled_again_and_again_still_waits_for_its_children() -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []

        async def slow() -> None:
            try:
                await hang()
            finally:
                await asyncio.sleep(2)
                log.append("cleaned up")

        async def block() -> None:
            async with Scope() as scope:
                scope.launch(slow())
                await hang()

        task = asyncio.create_task(block())
        await turns()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.1)
        assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["cleaned up"]
        assert task.cancelling() == 3

    play_timed(main)


@pytest.mark.guarantee("G116")
@pytest.mark.parametrize("order", ["scope first", "task first", "same turn"])
def test_both_the_scope_and_its_task_are_cancelled(order: str) -> None:
    """asyncio's goes on, whichever came first."""

    async def main(loop: Loop) -> None:
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
        await turns()
        if order != "task first":
            scopes[0].token.cancel("own")
        if order == "scope first":
            await turns()
        task.cancel()
        if order == "task first":
            await turns()
            scopes[0].token.cancel("own")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1

    play_timed(main)


@pytest.mark.guarantee("G116")
def test_errors_go_before_a_cancellation_by_asyncio_and_the_count_stays() -> None:
    """From 3.13 on, as with a TaskGroup, the next await is cancelled."""

    async def main(loop: Loop) -> None:
        async def at_cleanup() -> None:
            try:
                await hang()
            finally:
                raise Boom

        counts: list[int] = []

        async def block() -> None:
            task = asyncio.current_task()
            assert task is not None
            with pytest.raises(ExceptionGroup) as caught:
                async with Scope() as scope:
                    scope.launch(at_cleanup())
                    await hang()
            assert errors_of(caught) == [repr(Boom())]
            counts.append(task.cancelling())
            await asyncio.sleep(0)
            counts.append(task.cancelling())

        task = asyncio.create_task(block())
        await turns()
        task.cancel()
        await asyncio.wait([task])
        assert counts == ([1] if sys.version_info >= (3, 13) else [1, 1])

    play(main)


@pytest.mark.guarantee("G116")
def test_a_body_that_swallows_its_cancellation() -> None:
    """As in a TaskGroup: it goes on, its children do not."""

    async def main(loop: Loop) -> list[str]:
        log: list[str] = []
        async with Scope() as scope:
            scope.launch(hang(log))

            async def canceller() -> None:
                await scope.cancel()

            scope.launch(canceller())
            try:
                await hang()
            except asyncio.CancelledError:
                log.append("swallowed")
            await turns()
            log.append("went on")
        check_clean(loop)
        await turns()
        return log

    assert play(main) == ["child ended", "swallowed", "went on"]


@pytest.mark.guarantee("G116")
def test_a_scope_in_a_task_that_is_being_cancelled_already() -> None:
    async def main(loop: Loop) -> list[str]:
        log: list[str] = []

        async def clean_up() -> None:
            async with Scope() as scope:
                scope.launch(hang(log))

                async def canceller() -> None:
                    await scope.cancel()

                scope.launch(canceller())
                await hang()
            log.append("cleaned up")

        async def block() -> None:
            try:
                await hang()
            finally:
                await clean_up()

        task = asyncio.create_task(block())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelling() == 1
        return log

    assert play(main) == ["child ended", "cleaned up"]


# --- those who do not obey --------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G117")
def test_a_task_that_ignores_its_cancellation_is_left_behind_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(loop: Loop) -> None:
        release = asyncio.Event()
        before = asyncio.get_running_loop().time()
        async with Scope(stop_timeout_ms=2000, name="shop") as scope:
            task = scope.launch(stubborn(release), name="mule")
            await turns()
            assert await scope.cancel() is False
            assert not scope.children
        assert asyncio.get_running_loop().time() - before == pytest.approx(2)
        assert not task.done()
        assert "mule" in caplog.text
        assert "did not end within 2000 ms after scope 'shop' was cancelled, and is abandoned" in caplog.text
        release.set()
        await turns()
        assert task.result() == "released"

    with caplog.at_level(logging.ERROR, "bandstand.scope"):
        play_timed(main)


@pytest.mark.guarantee("G117")
def test_a_task_that_was_left_behind_and_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: Loop) -> None:
        release = asyncio.Event()

        async def mule() -> None:
            await stubborn(release)
            raise Boom("much later")

        async with Scope(stop_timeout_ms=10) as scope:
            scope.launch(mule())
            await turns()
            await scope.cancel()
        release.set()
        await turns()
        assert "had abandoned it" in caplog.text
        assert "much later" in caplog.text

    with caplog.at_level(logging.ERROR, "bandstand.scope"):
        play_timed(main)


@pytest.mark.guarantee("G117")
@pytest.mark.parametrize("kind", ["actor", "consumer"])
def test_an_actor_that_ignores_its_cancellation_is_killed(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(loop: Loop) -> None:
        release = asyncio.Event()
        channel = Channel[int](UNBOUNDED)

        async def process(number: int) -> None:
            await stubborn(release)

        async def behavior(ctx: Context[Any], data: object) -> None:
            await stubborn(release)

        before = asyncio.get_running_loop().time()
        async with Scope(stop_timeout_ms=3000) as scope:
            if kind == "actor":
                loop.send(scope.spawn(behavior), "go")
            else:
                consumer = scope.consume(channel, process)
                await channel.send(1)
            await turns()
            # Killed, it has ended: nobody was left behind, and that it was killed is no error.
            assert await scope.cancel() is True
        assert asyncio.get_running_loop().time() - before == pytest.approx(3)
        assert loop.statistics().alive == 0
        if kind == "consumer":
            assert consumer.outcome is not None
            assert consumer.outcome.ended_by is EndedBy.KILLED
        assert "was killed" in caplog.text
        release.set()
        await turns()

    with caplog.at_level(logging.ERROR, "bandstand.scope"):
        play_timed(main)


@pytest.mark.guarantee("G117")
def test_the_time_runs_from_the_cancellation_on() -> None:
    """Not from the end of the block; and whoever ends in time is not disturbed."""

    async def main(loop: Loop) -> None:
        log: list[str] = []

        async def slow() -> None:
            try:
                await hang()
            finally:
                await asyncio.sleep(4)
                log.append("cleaned up")

        async with Scope() as scope:
            scope.launch(slow())
            await turns()
            scope.token.cancel()
            await asyncio.sleep(3)
        assert log == ["cleaned up"]

    play_timed(main)


@pytest.mark.guarantee("G117")
def test_without_a_timeout_it_waits_for_ever() -> None:
    async def main(loop: Loop) -> None:
        release = asyncio.Event()
        asyncio.get_running_loop().call_later(10_000, release.set)
        async with Scope(stop_timeout_ms=None) as scope:
            task = scope.launch(stubborn(release))
            await turns()
            scope.token.cancel()
        assert task.result() == "released"

    play_timed(main)


@pytest.mark.guarantee("G117")
def test_with_no_time_at_all_those_that_end_at_once_do() -> None:
    async def main(loop: Loop) -> None:
        log: list[str] = []
        async with Scope(stop_timeout_ms=0) as scope:
            scope.launch(hang(log))
            scope.spawn(idle)
            await turns()
            scope.token.cancel()
        assert log == ["child ended"]

    play(main)


@pytest.mark.guarantee("G117")
def test_the_time_is_kept_although_the_loop_has_ended() -> None:
    async def main() -> None:
        release = asyncio.Event()
        clock_of_host = asyncio.get_running_loop().time
        async with Loop(LoopConfig(), clock=clock) as loop:
            scope = Scope(stop_timeout_ms=2000)
            await scope.__aenter__()
            task = scope.launch(stubborn(release))
            consumer = scope.consume(Channel[int](), print)
            await turns()
            before = clock_of_host()
            scope.token.cancel()
            loop.request_stop()
        assert consumer.done
        await scope.__aexit__(None, None, None)
        assert clock_of_host() - before == pytest.approx(2)
        assert not task.done()
        release.set()
        await task

    clock = VirtualClock()
    clock.run(main())


def test_waiting_for_the_end_of_a_cancel_can_be_given_up() -> None:
    async def main(loop: Loop) -> None:
        release = asyncio.Event()
        async with Scope() as scope:
            scope.launch(stubborn(release))
            await turns()
            with pytest.raises(ChannelTimeout):
                await scope.wait_all(10)
            with pytest.raises(ChannelTimeout, match="the end of all children"):
                await scope.cancel(timeout_ms=10)
            with pytest.raises(InvalidArgument, match="timeout_ms"):
                scope.cancel(timeout_ms=-1)
            waiting = scope.cancel()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await waiting
            release.set()
            assert await scope.cancel() is True

    play_timed(main)


# --- the loop ends first ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G120")
def test_actors_that_end_with_their_loop_have_ended() -> None:
    async def main() -> None:
        async with Scope() as scope:
            async with Loop() as loop:
                consumer = consume(Channel[int](), print, scope=scope, loop=loop)
                assert scope.children == (consumer,)
            await turns()
            assert not scope.children

    VirtualClock().run(main())


@pytest.mark.guarantee("G120")
def test_a_loop_that_is_stopped_under_a_scope() -> None:
    async def main() -> None:
        async with Loop(clock=clock) as loop, Scope() as scope:
            consumer = scope.consume(Channel[int](), print)
            actor = scope.spawn(idle)
            await turns()
            loop.request_stop()
        assert consumer.done
        assert not actor.is_alive
        assert clock.now_ns() == before

    clock = VirtualClock()
    before = clock.now_ns()
    clock.run(main())


def test_boom_in_a_cancelled_scope_is_raised() -> None:
    async def main(loop: Loop) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with Scope() as scope:
                scope.launch(boom())
                scope.token.cancel("own")
                try:
                    await turns()
                finally:
                    raise Boom("body")
        assert errors_of(caught) == [repr(Boom("body"))]

    play(main)
