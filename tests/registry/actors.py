"""Actors for the tests of names and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bandstand.actor import Actor, ActorSystem, Implements, Interface, Signal, ask, id_of, tell
from bandstand.core import ExitReason, Lane
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


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...


class Counter(Implements[Counting]):
    def __init__(self, book: Book) -> None:
        self.book = book

    def add(self, n: int) -> None:
        self.book.append(n)


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


class Usher:
    """An observer that does something as soon as it hears of an end, or of what it has left."""

    def __init__(self, then: Callable[[], object], book: Book) -> None:
        self.then = then
        self.book = book

    def on_actor_stop(self, id: object, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        self.book.append(("stop", self.then()))

    def on_dead_letter(self, target: object, lane: Lane, data: object, tag: object, sender: object) -> None:
        self.book.append(("dead", self.then()))


def crash(loop: ActorSystem, handle: Database) -> None:
    """Have an actor end by a failure of its own."""
    handle.crash()
