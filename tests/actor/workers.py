"""Helpers for tests of restarts: actors that know which incarnation they are."""

from __future__ import annotations

from typing import Any

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.supervision import ChildSpec, Supervisor, SupervisorSpec, spawn_supervisor
from tests.actor.players import Book
from tests.core.support import Boom


class Worker(Actor):
    """Knows which incarnation it is, and records what each one handled."""

    born = 0

    def __init__(self, book: Book, start: int = 0, *more: Any) -> None:
        type(self).born += 1
        self.number = type(self).born
        self.book = book
        self.start = start
        self.more = more

    @tell
    def note(self, what: object) -> None:
        self.book.append((self.number, what))

    @tell
    def crash(self) -> None:
        raise Boom("crash")

    @ask
    def crash_ask(self) -> int:
        raise Boom("ask")

    @ask
    def arguments(self) -> tuple[Any, ...]:
        return (self.start, *self.more)

    @ask
    def incarnation(self) -> int:
        return self.number


def one_for_one(loop: ActorSystem, *specs: ChildSpec[Any], **fields: Any) -> Supervisor:
    fields.setdefault("max_restarts", 1000)
    return spawn_supervisor(loop, SupervisorSpec(children=specs, **fields), name="root")
