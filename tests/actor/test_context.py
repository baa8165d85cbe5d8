"""Context variables that travel with a message."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from bandstand.actor import ActorSystem
from bandstand.core import LoopConfig
from bandstand.testing import VirtualClock
from tests.actor.context_reader import ContextReader, as_user, envelopes_of_a_send, user
from tests.actor.players import Book, Puppet, elsewhere, turns
from tests.core.support import HostFactory, RecordingObserver, settle

pytestmark = pytest.mark.guarantee("G70")

# --- context variables -----------------------------------------------------------------------------------------------------


def test_a_plain_handler_sees_the_senders_variables_and_the_next_message_does_not(loop: ActorSystem) -> None:
    book: Book = []
    handle = loop.spawn(ContextReader, book)
    handle.look()
    as_user("ann", handle.look)
    as_user("bob", handle.look)
    handle.look()
    settle(loop)
    assert book == ["nobody", "ann", "bob", "nobody"]
    assert user.get() == "nobody"


def test_an_async_handler_sees_them_across_awaits(loop: ActorSystem, book: Book) -> None:
    handle = loop.spawn(ContextReader, book)
    as_user("ann", handle.look_slowly)
    handle.look_slowly()
    as_user("bob", handle.look_slowly)
    loop.run(until_idle=True)
    assert book == [["ann"] * 4, ["nobody"] * 4, ["bob"] * 4]
    assert user.get() == "nobody"


async def test_asks_carry_them_too(loop: ActorSystem) -> None:
    handle = loop.spawn(ContextReader, [])
    token = user.set("ann")
    assert await handle.see() == "ann"
    assert await handle.see_slowly() == ("ann", "ann")
    user.reset(token)
    assert await handle.see() == "nobody"
    assert await handle.see_slowly() == ("nobody", "nobody")


def test_what_a_handler_sets_is_not_seen_by_the_sender_nor_by_the_next_message(loop: ActorSystem) -> None:
    book: Book = []

    def send() -> None:
        handle.change("changed")
        handle.change_slowly("changed slowly")
        handle.look()

    handle = loop.spawn(ContextReader, book)
    as_user("ann", send)
    handle.look()
    loop.run(until_idle=True)
    assert book == ["changed", "changed slowly", "ann", "nobody"]


def test_other_threads_carry_their_context(loop: ActorSystem, book: Book) -> None:
    handle = loop.spawn(ContextReader, book)

    def work(name: str) -> None:
        user.set(name)
        handle.look()
        handle.look_slowly()

    elsewhere(lambda: work("ann"))
    elsewhere(handle.look)
    loop.run(until_idle=True)
    assert book == ["ann", ["ann"] * 4, "nobody"]


async def test_blocking_asks_of_other_threads_carry_their_context(loop: ActorSystem) -> None:
    handle = loop.spawn(ContextReader, [])

    def work() -> str:
        user.set("ann")
        return handle.see.blocking()

    assert await asyncio.to_thread(work) == "ann"
    assert await handle.see() == "nobody"


async def test_when_room_carries_context_variables(loop: ActorSystem, book: Book) -> None:
    handle = loop.options(mailbox=1).spawn(ContextReader, book)
    token = user.set("ann")
    handle.look()
    landing = handle.look.when_room()
    user.reset(token)
    await landing
    await handle.see()
    assert book == ["ann", "ann"]


@pytest.mark.slow
def test_the_context_a_loop_is_made_in_is_its_home_context(clock: VirtualClock) -> None:
    user.set("home")
    try:
        with ActorSystem(clock=clock) as loop:
            book: Book = []
            handle = loop.spawn(ContextReader, book)
            handle.look()
            assert envelopes_of_a_send(loop) == 0
            as_user("ann", handle.look)
            settle(loop)
            assert book == ["home", "ann"]
    finally:
        user.set("nobody")


# --- no envelope without a difference -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_envelope_is_made_if_the_context_does_not_differ(loop: ActorSystem) -> None:
    assert envelopes_of_a_send(loop) == 0
    assert as_user("ann", lambda: envelopes_of_a_send(loop)) == 1
    # Contexts with the same contents compare equal.
    assert copy_context().run(lambda: envelopes_of_a_send(loop)) == 0

    def and_back() -> int:
        token = user.set("ann")
        user.reset(token)
        return envelopes_of_a_send(loop)

    assert copy_context().run(and_back) == 0


@pytest.mark.slow
def test_with_carry_context_off_nothing_travels(clock: VirtualClock, loop_factory: HostFactory) -> None:
    loop = ActorSystem(LoopConfig(loop_factory=loop_factory), clock=clock, carry_context=False)
    with loop:
        book: Book = []
        handle = loop.spawn(ContextReader, book)
        assert as_user("ann", lambda: envelopes_of_a_send(loop)) == 0
        as_user("ann", handle.look)
        as_user("ann", handle.look_slowly)
        loop.run(until_idle=True)
        assert book == ["nobody", ["nobody"] * 4]


def test_a_dead_letter_shows_no_envelope(loop: ActorSystem, diary: RecordingObserver) -> None:
    handle = loop.spawn(ContextReader, [])
    as_user("ann", lambda: handle.change("x"))
    handle.stop()
    assert [letter[2] for letter in diary.dead] == ["x"]


# --- beside messages ----------------------------------------------------------------------------------------------------------


def test_background_work_has_the_context_of_its_starter(loop: ActorSystem, book: Book) -> None:
    async def look() -> str:
        await turns()
        return user.get()

    def begin(me: Puppet) -> None:
        me.background(look(), then=lambda seen: book.append((seen, user.get())))

    handle = loop.spawn(Puppet, book)
    as_user("ann", lambda: handle.do(begin))
    loop.run(until_idle=True)
    assert book == [("ann", "ann")]
