"""Workers that take batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, batch
from bandstand.pool import pooled
from tests.core.support import Boom, settle
from tests.pool.workers import Hand, buried


@pytest.mark.guarantee("G231")
def test_a_worker_gets_full_batches(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 1, ahead=3).spawn(Hand, book)
    for number in range(6):
        pool.handle.collect(number)
    settle(loop)
    assert book[1:] == [(0, [0, 1, 2]), (0, [3, 4, 5])]
    assert pool.status().handled == 6


@pytest.mark.guarantee("G226")
async def test_unhandled_messages_of_a_crashed_worker_form_batches(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 1, ahead=4).spawn(Hand, book)
    gate = asyncio.Event()
    pool.handle.hold(gate)
    for number in range(3):
        pool.handle.collect(number)
    await asyncio.sleep(0.001)
    book.clear()
    actor = pool.status().workers[0].actor
    assert actor is not None
    loop.kill_actor(actor)
    await asyncio.sleep(0.001)
    assert book[-1] == (0, [0, 1, 2])
    status = pool.status()
    assert (status.handled, status.dead) == (3, 1)


@pytest.mark.guarantee("G221", "G233")
def test_a_crash_affects_each_message_of_a_batch(loop: ActorSystem) -> None:
    letters = buried(loop)
    pool = pooled(loop, 1, ahead=3).spawn(Clumsy)
    for number in range(5):
        pool.handle.lift(number)
    settle(loop)
    assert [letter.data for letter in letters] == [0, 1, 2]
    status = pool.status()
    assert (status.handled, status.dead) == (2, 3)


class Clumsy(Actor):
    @batch(limit=3)
    def lift(self, numbers: list[int]) -> None:
        if 0 in numbers:
            raise Boom(numbers)
