"""Actors for the tests of names and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bandstand.actor import Actor, ActorSystem, Signal, ask, id_of, tell
from bandstand.core import ExitReason
from bandstand.registry import Change
from tests.core.support import Boom

Book = list[Any]


class Database(Actor):
    def __init__(self, book: Book | None = None) -> None:
        self.book: Book = [] if book is None else book

    @tell
    def store(self, row: object) -> None:
        self.book.append(row)

    @tell
    def crash(self) -> None:
        raise Boom("crash")

    @ask
    def rows(self) -> int:
        return len(self.book)


class Replica(Database):
    @tell
    def store(self, row: object) -> None:
        self.book.append(("replica", row))


class Clerk(Actor):
    @tell
    def work(self) -> None: ...


class Slow(Database):
    """Takes its time to end."""

    def __init__(self, gate: Any) -> None:
        super().__init__()
        self.gate = gate

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        await self.gate.wait()


class Witness(Actor):
    """Does something as soon as it hears of an end."""

    def __init__(self, then: Callable[[], object], book: Book) -> None:
        self.then = then
        self.book = book

    def on_signal(self, signal: Signal) -> None:
        self.book.append((type(signal).__name__, self.then()))

    @tell
    def changed(self, change: Change[Database]) -> None:
        self.book.append((change.has_joined, id_of(change.member)))


def crash(loop: ActorSystem, handle: Database) -> None:
    """Have an actor end by a failure of its own."""
    handle.crash()
