"""Replies: awaited twice, by several tasks, never, and through the tools of asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from asyncio import Event

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.errors import AskTimeoutError, WrongThreadError
from tests.actor.answers import answer
from tests.actor.asking import Oracle, ended, got, is_pending, outcome, refuse_truth, turns, watch

pytestmark = pytest.mark.guarantee("G60")


# --- one reply, many awaits -------------------------------------------------------------------------------------------


async def test_the_traceback_of_an_error_does_not_grow_with_each_await(system: ActorSystem) -> None:
    reply = system.spawn(Oracle).declared(KeyError("x"))
    lengths: list[int] = []
    for _ in range(5):
        error = await outcome(reply)
        assert isinstance(error, KeyError)
        trace, length = error.__traceback__, 0
        while trace is not None:
            trace, length = trace.tb_next, length + 1
        lengths.append(length)
    assert lengths[1:] == lengths[1:2] * 4


@pytest.mark.guarantee("G62")
async def test_cancelling_the_last_waiter_cancels_the_ask(system: ActorSystem, log: list[str]) -> None:
    reply = system.spawn(Oracle, log).held(Event(), 3)
    tasks = [asyncio.ensure_future(got(reply)) for _ in range(2)]
    await turns()
    for task in tasks:
        task.cancel()
        await turns()
    assert reply.done()
    assert ended(system.ask_statistics()) == {"cancelled": 1}
    assert log == ["begins 3", "cancelled 3"]


async def test_all_waiters_learn_of_a_deadline_and_of_a_cancellation(virtual_system: ActorSystem) -> None:
    oracle = virtual_system.spawn(Oracle)
    reply = oracle.held.within(0.01)(Event())
    assert [type(end) for end in await asyncio.gather(watch(reply), watch(reply))] == [AskTimeoutError] * 2
    reply = virtual_system.spawn(Oracle).held(Event())
    tasks = [watch(reply) for _ in range(2)]
    await turns()
    assert reply.cancel()
    assert not reply.cancel()
    assert [type(end) for end in await asyncio.gather(*tasks)] == [asyncio.CancelledError] * 2


async def test_a_reply_that_is_never_awaited_has_no_deadline(virtual_system: ActorSystem) -> None:
    oracle, gate = virtual_system.spawn(Oracle), Event()
    reply = oracle.held.within(0.01)(gate, 1)
    await virtual_system.spawn(Oracle).slow(1000)
    assert is_pending(reply)
    gate.set()
    await turns()
    assert reply.done()
    assert await reply == 1


async def test_a_reply_can_be_awaited_only_on_the_thread_that_asked(system: ActorSystem) -> None:
    reply = system.spawn(Oracle).held(Event())
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(asyncio.run(outcome(reply))))
    thread.start()
    thread.join(30)
    assert [type(end) for end in ends] == [WrongThreadError]
    reply.cancel()


@pytest.mark.slow
async def test_a_reply_that_has_ended_keeps_no_references(system: ActorSystem) -> None:
    class Big:
        """Can be weakly referenced."""

    big = Big()
    known = weakref.ref(big)

    class Keeper(Actor):
        @ask
        async def take(self, thing: Big) -> int:
            return 1

        @tell
        def nothing(self) -> None: ...

    keeper = system.spawn(Keeper)
    assert await keeper.take(big) == 1
    del big
    keeper.nothing()
    await turns()
    gc.collect()
    assert known() is None


# --- tools of asyncio -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G60")
def test_a_reply_has_no_truth_value(loop: ActorSystem) -> None:
    oracle = loop.spawn(Oracle)
    reply = oracle.plain(1)
    refuse_truth(reply)
    assert answer(loop, reply) == 1
    refuse_truth(reply)
    refuse_truth(oracle.ended())
