"""The actors of the ingest example, one by one: what they do while a thread of theirs is at work, or while another actor is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, cast

import pytest

from bandstand import ActorSystem
from bandstand.errors import NoSuchActorError
from bandstand.testing import VirtualClock
from examples.ingest.disk import Disk
from examples.ingest.feeder import PATIENCE_MS, RETRY_MS, Feeder
from examples.ingest.head import Head
from examples.ingest.metrics import Metrics
from examples.ingest.points import Point
from examples.ingest.recover import recover

if TYPE_CHECKING:
    from collections.abc import Awaitable

pytestmark = [pytest.mark.once, pytest.mark.spec("J22")]

POINTS = [Point(number, number / 2) for number in range(1, 31)]
PATIENCE_S = 20


class Gate(Disk):
    """Does not sync before it is told to; what came of it then."""

    def __init__(self) -> None:
        self.is_reached = Event()
        self.is_open = Event()
        self.outcomes: list[str] = []

    def sync(self, descriptor: int) -> None:
        self.is_reached.set()
        assert self.is_open.wait(PATIENCE_S)
        try:
            super().sync(descriptor)
        except OSError as error:
            self.outcomes.append(str(error))
            raise
        self.outcomes.append("synced")


async def is_early(end: Awaitable[object]) -> bool:
    """Whether something has ended that should wait."""
    done, _ = await asyncio.wait([asyncio.ensure_future(end)], timeout=0.05)
    return bool(done)


async def stop_at(head: Head, disk: Gate) -> None:
    """Stop a head whose thread is held up at the disk: it has not ended before the disk lets go."""
    assert await asyncio.to_thread(disk.is_reached.wait, PATIENCE_S)
    head.stop()
    end = asyncio.ensure_future(head.ended())
    is_over = await is_early(asyncio.shield(end))
    disk.is_open.set()
    await end
    assert not is_over


@pytest.mark.real_time(reason="a thread")
async def test_a_head_that_is_stopped_waits_for_the_thread_that_writes(tmp_path: Path) -> None:
    disk = Gate()
    async with ActorSystem() as loop:
        metrics = loop.spawn(Metrics)
        feeder = loop.spawn(Feeder, "s", cast("Head", Down()), 1, lambda _series, _number: None, lambda: None)
        head = loop.spawn(Head, "s", tmp_path, disk, metrics, 1)
        head.append(POINTS[:5], feeder)
        await stop_at(head, disk)
    assert disk.outcomes == ["synced"]
    assert recover(tmp_path).points == POINTS[:5]


class Down:
    """A head that is not there; how often somebody has tried."""

    def __init__(self) -> None:
        self.tries = 0

    def last(self) -> int:
        self.tries += 1
        raise NoSuchActorError("it is down")


async def test_a_feeder_asks_a_head_that_is_down_once_at_a_time() -> None:
    head = Down()
    clock = VirtualClock()
    async with ActorSystem(clock=clock) as loop:
        loop.spawn(Feeder, "s", cast("Head", head), 1, lambda _series, _number: None, lambda: None)
        for _ in range(4 * PATIENCE_MS // RETRY_MS):
            clock.advance(RETRY_MS / 1000)
            await asyncio.sleep(0)
    assert 1 < head.tries <= 1 + 4 * PATIENCE_MS // RETRY_MS
