"""Asking a pool how it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.pool import pooled
from bandstand.service import Loop, id_of, ping, status_of
from tests.pool.cast import Hand
from tests.service.players import ride


@pytest.mark.guarantee("G248", "G220")
def test_a_pool_answers_as_every_typed_actor_does(loop: Loop) -> None:
    book: list[Any] = []

    async def body() -> None:
        pool = pooled(loop, 2).spawn(Hand, book)
        gate = asyncio.Event()
        for _ in range(4):
            pool.handle.hold(gate)
        await asyncio.sleep(0)
        # Its workers are busy, and it is not.
        await ping(pool.handle, ms=100)
        report = await status_of(pool.handle, ms=100)
        assert (report.actor, report.kind, report.waiting) == (id_of(pool.handle), "Hand", 0)
        assert report.children == tuple(worker.name for worker in pool.status().workers)
        # It is no message of a worker.
        assert pool.status().accepted == 4
        assert loop.events.counts().unhandled == 0
        gate.set()

    ride(loop, body)
