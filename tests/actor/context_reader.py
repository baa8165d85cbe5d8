"""Helpers for tests of context variables: an actor that reads them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.actor.context_vars import Envelope
from tests.actor.players import Book, turns
from tests.core.support import Boom

user: ContextVar[str] = ContextVar("user", default="nobody")
request: ContextVar[int] = ContextVar("request", default=0)


class ContextReader(Actor):
    """Reads context variables, in every way a handler can."""

    def __init__(self, book: Book, other: ContextReader | None = None) -> None:
        self.book = book
        self.other = other

    @tell
    def look(self) -> None:
        self.book.append(user.get())

    @tell
    async def look_slowly(self) -> None:
        seen = [user.get()]
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(user.get())
        self.book.append(seen)

    @tell
    def change(self, name: str) -> None:
        user.set(name)
        self.book.append(user.get())

    @tell
    async def change_slowly(self, name: str) -> None:
        user.set(name)
        await turns()
        self.book.append(user.get())

    @ask
    def see(self) -> str:
        return user.get()

    @ask
    async def see_slowly(self) -> tuple[str, str]:
        before = user.get()
        await turns()
        return before, user.get()

    @tell
    def pass_on(self) -> None:
        assert self.other is not None
        self.other.look()

    @tell
    async def pass_on_slowly(self) -> None:
        assert self.other is not None
        await turns()
        self.other.look()

    @ask
    async def in_a_task(self) -> str:
        async def inner() -> str:
            await turns()
            return user.get()

        return await asyncio.create_task(inner())

    @ask
    async def with_timeout(self) -> str:
        async with asyncio.timeout(1000):
            await turns()
        return user.get()

    @ask
    async def cancelled(self) -> str:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0)
        except TimeoutError:
            return user.get()
        return "not cancelled"

    @ask(raises=Boom)
    async def refuse(self) -> None:
        await turns()
        raise Boom(user.get())

    @tell
    def crash(self) -> None:
        raise Boom(user.get())


def as_user(name: str, function: Callable[[], Any]) -> Any:
    """Call a function in a context in which the variable is set."""

    def inside() -> Any:
        user.set(name)
        return function()

    return copy_context().run(inside)


def envelopes_of_a_send(loop: ActorSystem) -> int:
    """Return how many envelopes a message needs that is sent here."""
    twin = loop.spawn(ContextReader, [])
    before = _envelopes()
    twin.change("x")
    try:
        return _envelopes() - before
    finally:
        twin.kill()


def _envelopes() -> int:
    return sum(type(one) is Envelope for one in gc.get_objects())
