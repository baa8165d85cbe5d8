"""Who plays in the tests of names and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bandstand.actor import Actor, Implements, Interface, Loop, Signal, ask, data, id_of
from bandstand.core import ExitReason, Lane
from bandstand.registry import Change
from tests.core.support import Boom

Book = list[Any]


class Database(Actor):
    def __init__(self, book: Book | None = None) -> None:
        self.book: Book = [] if book is None else book

    @data
    def store(self, row: object) -> None:
        self.book.append(row)

    @data
    def crash(self) -> None:
        raise Boom("crash")

    @ask
    def rows(self) -> int:
        return len(self.book)


class Replica(Database):
    @data
    def store(self, row: object) -> None:
        self.book.append(("replica", row))


class Clerk(Actor):
    @data
    def work(self) -> None: ...


class Counting(Interface, Protocol):
    @data
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

    @data
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


def crash(loop: Loop, handle: Database) -> None:
    """Have an actor end by a failure of its own."""
    handle.crash()
