"""Support for tests of coroutines that wait inside the loop: actors that wait, and actors that keep the loop busy.

Only typed actors wait inside the loop. Actors that always have messages, and ticks that visit one actor each, keep an actor in the run queue
long enough for a test to change something.
"""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Callable, Coroutine
from typing import Any

from bandstand.actor import Actor, ActorSystem, Reply, ask, tell
from bandstand.core import ExitReason
from tests.actor.asking import Oracle

Work = Callable[[], Coroutine[Any, Any, Any]]

LONG = 60_000  # ms; longer than any test may wait
CROWDED = {"max_actors_per_tick": 1, "max_msgs_per_actor": 2}


class CoroutineActor(Actor):
    """Awaits a function."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @ask
    async def play(self) -> Any:
        return await self.work()


class StopHookActor(Actor):
    """Awaits a function in `on_stop`."""

    def __init__(self, farewell: Work) -> None:
        self.farewell = farewell

    @tell
    def nothing(self) -> None: ...

    @ask
    async def hold(self) -> None:
        await Event().wait()

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        await self.farewell()


class BusyActor(Actor):
    """Sends itself a number of messages."""

    def __init__(self) -> None:
        self.left = 0

    @tell
    def go(self, count: int) -> None:
        self.left = count
        if count:
            self.me.go(count - 1)

    @ask
    def still(self) -> int:
        return self.left


class Canceller(Oracle):
    """Answers, and cancels an ask of another actor."""

    @tell
    def give_up(self, asks: list[Reply[Any]]) -> None:
        asks[0].cancel()


def spawn_busy(loop: ActorSystem, size: int, count: int) -> list[BusyActor]:
    neighbours = [loop.spawn(BusyActor) for _ in range(size)]
    for neighbour in neighbours:
        neighbour.go(count)
    return neighbours


async def all_done(neighbours: list[BusyActor]) -> bool:
    """Return whether all of them have finished: one that is lost from the run queue never does."""
    await asyncio.sleep(1)
    async with asyncio.timeout(10):
        return [await neighbour.still() for neighbour in neighbours] == [0] * len(neighbours)


async def wait_for(oracle: Oracle, log: list[Any], gate: Event, value: int = 0) -> None:
    try:
        log.append(await oracle.held(gate, value))
    finally:
        log.append("gone")
