"""Replies: awaited twice, by several, by nobody, and through everything asyncio has."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from asyncio import Event

import pytest

from bandstand.actor import Actor, Loop, ask, data
from bandstand.errors import AskTimeout, TargetEnded, WrongThread
from bandstand.testing import VirtualClock
from tests.actor.asking import (
    Oracle,
    Play,
    ended,
    got,
    in_place,
    in_time,
    is_pending,
    outcome,
    turns,
    watch,
)
from tests.core.stage import HostFactory

pytestmark = pytest.mark.guarantee("G60")


@pytest.fixture(params=["virtual time", "event loop of the lane"])
def play(request: pytest.FixtureRequest, clock: VirtualClock, loop_factory: HostFactory) -> Play:
    return in_time(clock) if request.param == "virtual time" else in_place(loop_factory)


@pytest.fixture
def play_in_time(clock: VirtualClock) -> Play:
    return in_time(clock)


# --- one reply, many awaits -------------------------------------------------------------------------------------------


def test_a_reply_awaited_again_gives_the_same_again(play: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle = loop.spawn(Oracle)
        reply = oracle.plain(5)
        assert [await reply, await reply] == [5, 5]
        failing = oracle.declared(KeyError("x"))
        first, second = await outcome(failing), await outcome(failing)
        assert first is second
        books = loop.ask_statistics()
        assert (books.asked, books.answered, books.failed) == (2, 1, 1)

    play(story)


def test_the_traceback_of_an_error_does_not_grow_with_each_await(play: Play) -> None:
    async def story(loop: Loop) -> None:
        reply = loop.spawn(Oracle).declared(KeyError("x"))
        lengths: list[int] = []
        for _ in range(5):
            error = await outcome(reply)
            assert isinstance(error, KeyError)
            trace, length = error.__traceback__, 0
            while trace is not None:
                trace, length = trace.tb_next, length + 1
            lengths.append(length)
        assert lengths[1:] == lengths[1:2] * 4

    play(story)


def test_several_tasks_wait_for_one_reply(play: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle, gate = loop.spawn(Oracle), Event()
        reply = oracle.held(gate, 3)
        waiting = [watch(reply) for _ in range(4)]
        await turns()
        gate.set()
        assert await asyncio.gather(*waiting) == [3] * 4
        assert ended(loop.ask_statistics()) == {"answered": 1}

    play(story)


@pytest.mark.guarantee("G62")
def test_one_of_two_that_is_cancelled_does_not_take_the_ask_back(play: Play) -> None:
    log: list[str] = []

    async def story(loop: Loop) -> None:
        oracle, gate = loop.spawn(Oracle, log), Event()
        reply = oracle.held(gate, 3)
        one, two = asyncio.ensure_future(got(reply)), asyncio.ensure_future(got(reply))
        await turns()
        one.cancel()
        await turns()
        assert one.cancelled()
        assert is_pending(reply)
        gate.set()
        assert await two == 3
        assert ended(loop.ask_statistics()) == {"answered": 1}

    play(story)
    assert log == ["begins 3", "goes on 3"]


@pytest.mark.guarantee("G62")
def test_the_last_of_two_that_is_cancelled_does(play: Play) -> None:
    log: list[str] = []

    async def story(loop: Loop) -> None:
        reply = loop.spawn(Oracle, log).held(Event(), 3)
        tasks = [asyncio.ensure_future(got(reply)) for _ in range(2)]
        await turns()
        for task in tasks:
            task.cancel()
            await turns()
        assert reply.done()
        assert ended(loop.ask_statistics()) == {"cancelled": 1}

    play(story)
    assert log == ["begins 3", "cancelled 3"]


def test_both_who_wait_hear_of_a_deadline_and_of_a_withdrawal(play_in_time: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle = loop.spawn(Oracle)
        reply = oracle.held.within(10)(Event())
        assert [type(end) for end in await asyncio.gather(watch(reply), watch(reply))] == [AskTimeout] * 2
        reply = loop.spawn(Oracle).held(Event())
        tasks = [watch(reply) for _ in range(2)]
        await turns()
        assert reply.cancel()
        assert not reply.cancel()
        assert [type(end) for end in await asyncio.gather(*tasks)] == [asyncio.CancelledError] * 2

    play_in_time(story)


@pytest.mark.slow
def test_a_reply_that_nobody_awaits_is_answered_all_the_same_and_nobody_is_warned(play: Play) -> None:
    log: list[str] = []

    async def story(loop: Loop) -> None:
        oracle = loop.spawn(Oracle, log)
        oracle.plain(1)  # type: ignore[unused-awaitable]  # that is the point
        oracle.declared(KeyError())  # type: ignore[unused-awaitable]  # likewise
        await turns()
        assert ended(loop.ask_statistics()) == {"answered": 1, "failed": 1}

    play(story)
    gc.collect()
    assert log == ["plain 1"]


def test_a_reply_that_nobody_awaits_has_no_deadline(play_in_time: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle, other, gate = loop.spawn(Oracle), loop.spawn(Oracle), Event()
        reply = oracle.held.within(10)(gate, 1)
        await other.slow(1000)
        assert is_pending(reply)
        gate.set()
        await turns()
        assert reply.done()
        assert await reply == 1

    play_in_time(story)


def test_a_reply_is_awaited_on_the_thread_that_asked(play: Play) -> None:
    async def story(loop: Loop) -> None:
        reply = loop.spawn(Oracle).held(Event())
        ends: list[object] = []
        thread = threading.Thread(target=lambda: ends.append(asyncio.run(outcome(reply))))
        thread.start()
        thread.join(30)
        assert [type(end) for end in ends] == [WrongThread]
        reply.cancel()

    play(story)


@pytest.mark.slow
def test_a_reply_that_has_ended_keeps_nobody_alive(play: Play) -> None:
    class Big:
        """Something that can be watched."""

    async def story(loop: Loop) -> None:
        big = Big()
        known = weakref.ref(big)

        class Keeper(Actor):
            @ask
            async def take(self, thing: Big) -> int:
                return 1

            @data
            def nothing(self) -> None: ...

        keeper = loop.spawn(Keeper)
        assert await keeper.take(big) == 1
        del big
        keeper.nothing()
        await turns()
        gc.collect()
        assert known() is None

    play(story)


# --- asyncio's own tools ----------------------------------------------------------------------------------------------


def test_through_gather_wait_for_timeout_and_a_task_group(play: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle = loop.spawn(Oracle)
        assert list(await asyncio.gather(oracle.plain(1), oracle.quick(2), oracle.plain(3))) == [1, 2, 3]
        assert await asyncio.wait_for(oracle.plain(4), 60) == 4
        assert await asyncio.shield(got(oracle.plain(5))) == 5
        async with asyncio.timeout(60):
            assert await oracle.quick(6) == 6
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(got(oracle.plain(number))) for number in range(7, 10)]
        assert [task.result() for task in tasks] == [7, 8, 9]
        done, pending = await asyncio.wait([asyncio.ensure_future(oracle.plain(1))])
        assert (len(done), len(pending)) == (1, 0)
        assert ended(loop.ask_statistics()) == {"answered": 10}

    play(story)


def test_a_task_group_ends_when_one_of_its_asks_fails(play: Play) -> None:
    async def story(loop: Loop) -> None:
        oracle, doomed, gate = loop.spawn(Oracle), loop.spawn(Oracle), Event()

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(got(oracle.held(gate)))
                group.create_task(got(doomed.broken_later()))

        with pytest.raises(BaseExceptionGroup) as caught:
            await both()
        assert [type(error) for error in caught.value.exceptions] == [TargetEnded]
        assert ended(loop.ask_statistics()) == {"failed": 1, "cancelled": 1}
        assert await oracle.plain(1) == 1

    play(story)
