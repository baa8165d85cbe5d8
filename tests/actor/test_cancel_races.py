"""Cancellation of asks and the cancellation counts of asyncio: timeouts, `uncancel`, and races."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Event
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask
from tests.actor.asking import Oracle, got, outcome, turns

pytestmark = pytest.mark.guarantee("G62")


def task_of(reply: Reply[Any]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(got(reply))


# --- the cancellation counts of asyncio -------------------------------------------------------------------------------


class Timekeeper(Actor):
    """Uses asyncio timeouts in its handlers."""

    @ask
    async def pending_cancellations(self) -> int:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    @ask
    async def own_timeout(self, ms: float) -> str:
        try:
            async with asyncio.timeout(ms / 1000):
                await Event().wait()
        except TimeoutError:
            return "timed out"
        return "never"

    @ask
    async def refuse(self) -> None:
        try:
            await Event().wait()
        except CancelledError:
            # A second, ordinary timeout after the cleanup.
            await self.own_timeout(1)


async def test_no_cancellation_is_left_for_the_next_message(system: ActorSystem) -> None:
    keeper = system.spawn(Timekeeper)
    for _ in range(20):
        asker = task_of(keeper.own_timeout(10**9))
        await turns(3)
        asker.cancel()
        assert await keeper.pending_cancellations() == 0


async def test_a_timeout_in_a_handler_is_not_mistaken_for_a_cancellation(virtual_system: ActorSystem) -> None:
    keeper = virtual_system.spawn(Timekeeper)
    assert await keeper.own_timeout(20) == "timed out"
    asker = task_of(keeper.refuse())
    await turns()
    asker.cancel()
    await turns()
    assert await keeper.own_timeout(20) == "timed out"
    assert await keeper.pending_cancellations() == 0
    # `refuse` has returned None, late.
    assert virtual_system.ask_statistics().late == 1


async def test_an_asker_that_uncancels_itself_continues(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)

    async def insist() -> int:
        try:
            return await oracle.held(Event(), 1)
        except CancelledError:
            mine = asyncio.current_task()
            assert mine is not None
            assert mine.uncancel() == 0
            return await oracle.plain(2)

    asker = asyncio.ensure_future(insist())
    await turns()
    asker.cancel()
    assert await asker == 2


# --- races ------------------------------------------------------------------------------------------------------------


async def test_an_answer_and_a_cancellation_in_one_turn_end_the_ask_once(system: ActorSystem) -> None:
    oracle, gate = system.spawn(Oracle), Event()
    for pauses in range(6):
        gate.clear()
        asker = task_of(oracle.held(gate, 1))
        await turns()
        gate.set()
        await turns(pauses)
        asker.cancel()
        assert type(await outcome(asker)) in {int, CancelledError}
        await turns()
        assert await oracle.quick(pauses) == pauses
    books = system.ask_statistics()
    assert books.asked == books.answered + books.cancelled == 12
