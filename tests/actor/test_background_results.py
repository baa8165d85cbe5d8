"""Results of background work wait for room, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.actor import ActorSystem, Work
from tests.actor.players import Book, Puppet, turns
from tests.core.support import RecordingObserver

pytestmark = pytest.mark.guarantee("G69")


class Held:
    """Start an actor with a full mailbox and a handler that does not end, whose work ends meanwhile."""

    def __init__(self, loop: ActorSystem, book: Book) -> None:
        self.handle = loop.options(mailbox=2).spawn(Puppet, book)
        self.gate = asyncio.Event()
        self.work: list[Work] = []
        self._result = asyncio.Event()

    async def fill(self) -> None:
        self.handle.do_slowly(self._hold)
        await turns()
        self.handle.note(1)
        self.handle.note(2)
        assert self.handle.note.try_send(3) is False
        self._result.set()
        await turns(10)

    async def _hold(self, me: Puppet) -> None:
        async def work() -> int:
            await self._result.wait()
            return 7

        self.work.append(me.background(work(), then=me.write))
        await self.gate.wait()


async def test_a_result_waits_for_room_in_a_full_mailbox(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    held = Held(loop, book)
    await held.fill()
    assert book == []
    held.gate.set()
    await turns(10)
    assert book == [1, 2, (7,)]
    assert diary.dead == []


def test_many_results_wait_for_room_and_none_is_lost(loop: ActorSystem, book: Book) -> None:
    def begin(me: Puppet) -> None:
        for number in range(50):
            me.background(_number(number), then=me.write)

    loop.options(mailbox=2).spawn(Puppet, book).do(begin)
    loop.run(until_idle=True)
    assert sorted(book) == [(number,) for number in range(50)]


async def _number(number: int) -> int:
    await turns(number % 5)
    return number


async def test_a_result_that_waits_for_room_ends_with_its_actor(loop: ActorSystem, book: Book) -> None:
    held = Held(loop, book)
    await held.fill()
    held.handle.kill()
    await turns(10)
    assert loop.statistics().alive == 0
    assert book == []


async def test_work_cancelled_while_its_result_waits_for_room_sends_nothing(loop: ActorSystem) -> None:
    book: Book = []
    held = Held(loop, book)
    await held.fill()
    assert held.work[0].cancel() is True
    held.gate.set()
    await turns(10)
    assert book == [1, 2]
