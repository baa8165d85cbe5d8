"""Scopes: who can cancel them, how far that goes, and what becomes of those who do not obey."""

# A block may end before its end, by its own cancellation: what is bound in it may not be. Tasks are the scope's to wait for.
# ruff: noqa: PT012  # blocks that raise are what this is about
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import Cancelled, ChannelTimeout, InvalidArgument
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consume import consume
from bandstand.scope.outcome import EndedBy
from bandstand.scope.scope import Scope
from bandstand.scope.token import CancelToken
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
        assert "has not ended 2000 ms after scope 'shop' was cancelled, and is left behind" in caplog.text
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
        assert "had given up, has failed" in caplog.text
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
