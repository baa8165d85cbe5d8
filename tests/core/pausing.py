"""Who plays in the tests of pauses: actors that wait inside the loop, and neighbours that keep it busy.

Only typed actors pause. Neighbours that always have something to do, and ticks that visit one actor each, keep an actor
in the run queue for as long as it takes to do something to it there.
"""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Callable, Coroutine
from typing import Any

from bandstand.actor import Actor, Loop, Reply, ask, data
from bandstand.core import ExitReason
from tests.actor.asking import Oracle

Work = Callable[[], Coroutine[Any, Any, Any]]

LONG = 60_000  # ms; nothing here may wait for so long
CROWDED = {"max_actors_per_tick": 1, "max_msgs_per_actor": 2}


class Player(Actor):
    """Does what it was made for."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @ask
    async def play(self) -> Any:
        return await self.work()


class Leaver(Actor):
    """Does what it was made for at its end."""

    def __init__(self, farewell: Work) -> None:
        self.farewell = farewell

    @data
    def nothing(self) -> None: ...

    @ask
    async def hold(self) -> None:
        await Event().wait()

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        await self.farewell()


class Neighbour(Actor):
    """Is busy for so many turns."""

    def __init__(self) -> None:
        self.left = 0

    @data
    def go(self, count: int) -> None:
        self.left = count
        if count:
            self.me.go(count - 1)

    @ask
    def still(self) -> int:
        return self.left


class Canceller(Oracle):
    """Answers, and gives up somebody's ask."""

    @data
    def give_up(self, asks: list[Reply[Any]]) -> None:
        asks[0].cancel()


def crowd(loop: Loop, size: int, count: int) -> list[Neighbour]:
    neighbours = [loop.spawn(Neighbour) for _ in range(size)]
    for neighbour in neighbours:
        neighbour.go(count)
    return neighbours


async def all_done(neighbours: list[Neighbour]) -> bool:
    """Whether each of them has come to its end: one that got lost in the run queue never does."""
    await asyncio.sleep(1)
    async with asyncio.timeout(10):
        return [await neighbour.still() for neighbour in neighbours] == [0] * len(neighbours)


async def wait_for(oracle: Oracle, log: list[Any], gate: Event, value: int = 0) -> None:
    try:
        log.append(await oracle.held(gate, value))
    finally:
        log.append("gone")
