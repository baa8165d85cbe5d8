"""Exceptions whose `str` or `repr` raises are handled like any other, wherever a typed actor raises them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, batch, batch_ask, child, is_alive, tell
from bandstand.core import ExitReason
from bandstand.errors import StartError, TargetEndedError
from bandstand.testing import VirtualClock
from tests.actor.players import Book, ride, spin, turns
from tests.actor.workers import one_for_one
from tests.hostile import HOW, hostile

pytestmark = [pytest.mark.guarantee("G282"), pytest.mark.parametrize("how", HOW)]


class Raiser(Actor):
    """Raises a given exception, in every place it can."""

    def __init__(self, book: Book, ends_with: str | None = None) -> None:
        self.book = book
        self.ends_with = ends_with
        book.append("made")

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        if self.ends_with is not None:
            raise hostile(self.ends_with)

    @tell
    def handle(self, how: str) -> None:
        raise hostile(how)

    @tell
    async def handle_async(self, how: str) -> None:
        await asyncio.sleep(0)
        raise hostile(how)

    @batch()
    def handle_list(self, how: list[str]) -> None:
        raise hostile(how[0])

    @ask
    def answer(self, how: str) -> int:
        raise hostile(how)

    @ask
    async def answer_async(self, how: str) -> int:
        await asyncio.sleep(0)
        raise hostile(how)

    @batch_ask()
    def answer_list(self, how: list[str]) -> list[int]:
        raise hostile(how[0])

    @ask(raises=Exception)
    def declared(self, how: str) -> int:
        raise hostile(how)

    @tell
    def timer(self, how: str) -> None:
        self.after(0.001, self.fire, how)

    @tell
    def work(self, how: str) -> None:
        self.background(self.job(how))

    def fire(self, how: str) -> None:
        raise hostile(how)

    async def job(self, how: str) -> None:
        await asyncio.sleep(0)
        raise hostile(how)

    @ask
    def ping(self) -> str:
        return "pong"


@pytest.mark.parametrize("place", ["handle", "handle_async", "handle_list", "timer", "work"])
async def test_a_handler_raises_it(loop: ActorSystem, clock: VirtualClock, how: str, place: str) -> None:
    book: Book = []
    root = one_for_one(loop, child("raiser").of(Raiser, book))
    handle: Any = root.handle(Raiser, "raiser")
    getattr(handle, place)(how)
    await turns(30)
    clock.advance(0.01)
    await turns(30)
    assert book == ["made", "made"]
    assert await handle.ping() == "pong"


@pytest.mark.parametrize("place", ["answer", "answer_async", "answer_list"])
async def test_an_ask_that_raises_it_ends(loop: ActorSystem, how: str, place: str, book: Book) -> None:
    root = one_for_one(loop, child("raiser").of(Raiser, book))
    handle: Any = root.handle(Raiser, "raiser")
    with pytest.raises(TargetEndedError) as caught:
        await getattr(handle, place)(how)
    assert type(caught.value.__cause__) is type(hostile(how))
    assert len(str(caught.value)) < 2_000
    assert await handle.ping() == "pong"
    assert book == ["made", "made"]


async def test_a_declared_one_is_an_answer(loop: ActorSystem, how: str) -> None:
    handle = loop.spawn(Raiser, [])
    with pytest.raises(type(hostile(how))):
        await handle.declared(how)
    assert is_alive(handle)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_supervised", [False, True])
def test_a_start_raises_it(loop: ActorSystem, how: str, is_async: bool, is_supervised: bool) -> None:
    class Stillborn(Actor):
        def on_start(self) -> Any:
            if is_async:
                return self.start()
            raise hostile(how)

        async def start(self) -> None:
            await asyncio.sleep(0)
            raise hostile(how)

        @ask
        def ping(self) -> str:
            return "pong"

    def begin() -> None:
        if is_supervised:
            one_for_one(loop, child("stillborn").of(Stillborn))
            spin(loop)
        else:
            ride(loop, lambda: wait_for(loop.spawn(Stillborn)))

    async def wait_for(handle: Stillborn) -> None:
        await handle.ping()

    with pytest.raises((StartError, TargetEndedError)) as caught:
        begin()
    assert len(str(caught.value)) < 4_000


async def test_an_on_stop_that_raises_it_does_not_prevent_the_exit(loop: ActorSystem, how: str) -> None:
    book: Book = []
    root = one_for_one(loop, child("raiser").of(Raiser, book, how))
    handle = root.handle(Raiser, "raiser")
    handle.handle(how)
    await turns(30)
    assert await handle.ping() == "pong"
    assert book == ["made", "made"]
    alone = loop.spawn(Raiser, book, how)
    alone.stop()
    await alone.ended()
    assert not is_alive(alone)
