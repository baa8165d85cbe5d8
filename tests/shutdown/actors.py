"""Slow actors for the tests of shutdown."""

from __future__ import annotations

import asyncio
from typing import Any

from bandstand.actor import Actor, tell
from bandstand.core import ExitReason
from bandstand.testing import VirtualClock


class Book:
    """What happened, and when, in milliseconds since the book was opened."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._began = clock.now_ns()
        self.entries: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.entries.append((self.now, what))

    @property
    def now(self) -> float:
        return round((self._clock.now_ns() - self._began) / 1e6, 3)

    @property
    def words(self) -> list[str]:
        return [what for _, what in self.entries]


class Worker(Actor):
    """Handles a piece of work in so many milliseconds, and passes it on."""

    def __init__(self, book: Book, name: str = "worker", ms: float = 10, to: Worker | None = None) -> None:
        self.book = book
        self.name = name
        self.ms = ms
        self.to = to

    @tell
    async def work(self, what: str) -> None:
        await asyncio.sleep(self.ms / 1000)
        self.book.note(f"{self.name}: {what}")
        if self.to is not None:
            self.to.work(what)

    @tell
    def fail(self) -> None:
        raise OSError("no paper")

    def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> Any:
        self.book.note(f"{self.name} ends")


class Slow(Actor):
    """Takes so many milliseconds to end."""

    def __init__(self, book: Book, name: str, ms: float) -> None:
        self.book = book
        self.name = name
        self.ms = ms

    @tell
    def work(self, what: str) -> None:
        self.book.note(f"{self.name}: {what}")

    async def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> None:
        self.book.note(f"{self.name} begins to end")
        await asyncio.sleep(self.ms / 1000)
        self.book.note(f"{self.name} ends")


class Stubborn(Actor):
    """Takes no notice of its cancellation, for a long while."""

    def __init__(self, book: Book) -> None:
        self.book = book

    @tell
    async def work(self) -> None:
        for _ in range(8):
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                self.book.note("ignored")


class PingPong(Actor):
    """Sends itself a message for each it gets, for ever, ten milliseconds apart."""

    def __init__(self) -> None:
        self.rounds = 0

    @tell
    async def ping(self) -> None:
        self.rounds += 1
        await asyncio.sleep(0.01)
        self.me.ping()
