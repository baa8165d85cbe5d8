"""Changing the size of a running pool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.errors import InvalidArgumentError, StartError
from bandstand.pool import ByKey, pooled
from bandstand.supervision.supervisor import consistent_hash
from tests.core.support import Boom, settle
from tests.pool.workers import Hand, balanced

pytestmark = pytest.mark.guarantee("G228")


@pytest.mark.guarantee("G223")
@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (1, 5), (5, 1)])
async def test_a_key_that_moves_never_overtakes_itself(loop: ActorSystem, before: int, after: int) -> None:
    book: list[Any] = []
    moving = next(
        f"k{n}" for n in range(1000) if consistent_hash(f"k{n}", before) != consistent_hash(f"k{n}", after)
    )
    gate = asyncio.Event()
    pool = pooled(loop, before, ahead=2, routing=ByKey(lambda *_: moving)).spawn(Hand, book)
    asked = pool.handle.slowly(0, gate)
    for number in range(1, 4):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    resizing = pool.resize(after)
    for number in range(4, 6):
        pool.handle.note(number)
    await asyncio.sleep(0.001)
    assert [what for entry in book if entry != "made" for what in entry[1:]] == [0]
    balanced(pool)
    gate.set()
    assert await asked == 0
    await resizing
    await asyncio.sleep(0.001)
    done = [entry for entry in book if entry != "made"]
    assert [number for _, number in done] == list(range(6))
    assert pool.status().handled == 6


class Picky(Hand):
    """There can be two of it."""

    def __init__(self, book: list[Any]) -> None:
        super().__init__(book)
        if self.number >= 2:
            raise Boom("one too many")


def test_a_resize_reports_a_worker_that_does_not_start(loop: ActorSystem) -> None:
    book: list[Any] = []
    pool = pooled(loop, 1).spawn(Picky, book)
    with pytest.raises(StartError):
        _ = pool.resize(4)
    assert pool.status().size == 2
    pool.handle.note("a")
    pool.handle.note("b")
    settle(loop)
    assert [entry for entry in book if entry != "made"] == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("size", [0, -1, 10_001, True, "2"])
def test_a_size_has_bounds(loop: ActorSystem, size: Any) -> None:
    pool = pooled(loop, 1).spawn(Hand, [])
    with pytest.raises(InvalidArgumentError, match="size is"):
        _ = pool.resize(size)
    assert pool.status().size == 1
