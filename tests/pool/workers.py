"""Workers for the tests of pools."""

from __future__ import annotations

import asyncio
from typing import Any

from bandstand.actor import Actor, ActorSystem, ask, batch, tell
from bandstand.core import Lane
from bandstand.core.events import DeadLetter
from bandstand.pool import Pool
from tests.core.support import Boom

__all__ = ("Calm", "Hand", "balanced", "buried")


class Calm(Exception):  # noqa: N818 -- it is an answer
    """What a worker declines with."""


class Hand(Actor):
    """Notes who has handled what: its own number, by the order in which workers are made."""

    def __init__(self, book: list[Any]) -> None:
        self.book = book
        self.number = book.count("made")
        book.append("made")

    @tell
    def note(self, what: object) -> None:
        self.book.append((self.number, what))

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: object) -> None:
        self.book.append((self.number, what))

    @tell
    def crash(self, what: object) -> None:
        self.book.append((self.number, what))
        raise Boom(what)

    @tell
    async def hold(self, gate: asyncio.Event) -> None:
        self.book.append((self.number, "hold"))
        await gate.wait()
        self.book.append((self.number, "held"))

    @ask
    async def slowly(self, what: int, gate: asyncio.Event) -> int:
        self.book.append((self.number, what))
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.book.append((self.number, "cancelled"))
            raise
        return what

    @ask(raises=Calm)
    def half(self, what: int) -> int:
        if what % 2:
            raise Calm(what)
        return what // 2

    @ask
    def broken(self) -> int:
        raise Boom("broken")

    @batch(limit=3)
    def collect(self, whats: list[int]) -> None:
        self.book.append((self.number, whats))

    @tell
    def name_it(self, *, key: str, value: int = 0) -> None:
        self.book.append((self.number, key, value))


def balanced(pool: Pool[Any]) -> None:
    status = pool.status()
    ended = status.handled + status.failed + status.withdrawn + status.dead
    assert status.accepted == ended + status.waiting + status.outstanding


def buried(loop: ActorSystem) -> list[DeadLetter]:
    """What is told as dead letters from now on."""
    letters: list[DeadLetter] = []
    loop.events.listen(lambda event: letters.append(event) if isinstance(event, DeadLetter) else None)
    return letters
