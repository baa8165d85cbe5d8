"""Waits for mailbox room: order with due timers, statistics, and cleanup."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import ActorSystem, id_of
from bandstand.errors import NoSuchActorError, TargetEndedError
from bandstand.testing import VirtualClock
from tests.actor.players import Book, Noter, Puppet, ride, turns
from tests.core.support import Boom, RecordingObserver, settle

pytestmark = pytest.mark.guarantee("G59")


def full(loop: ActorSystem, book: Book, slots: int = 2) -> Noter:
    """Return an actor with a full DATA lane."""
    handle = loop.options(mailbox=slots).spawn(Noter, book)
    for number in range(slots):
        handle.note(number)
    return handle


async def test_waiters_are_served_in_order_before_later_sends(loop: ActorSystem, book: Book) -> None:
    handle = full(loop, book)
    landings = [handle.note.when_room(f"w{number}") for number in range(5)]
    assert not any(landing.done() for landing in landings)
    assert handle.note.try_send("too early") is False
    for landing in landings:
        await landing
    handle.note("later")
    await handle.count()
    assert book == [0, 1, "w0", "w1", "w2", "w3", "w4", "later"]


def test_waiters_and_due_timers_share_one_queue(loop: ActorSystem, clock: VirtualClock, book: Book) -> None:
    handle = full(loop, book)
    first = handle.note.when_room("first")
    loop.send_after(id_of(handle), 0.001, "raw")  # a raw message: unhandled, but it takes a slot
    clock.advance(0.002)
    second = handle.note.when_room("second")
    settle(loop)
    assert first.done()
    assert second.done()
    assert book == [0, 1, "first", "second"]
    books = loop.statistics()
    assert (books.timers_set, books.timers_fired, books.timers_pending) == (1, 1, 0)


def test_a_cancelled_wait_sends_nothing(loop: ActorSystem, book: Book) -> None:
    handle = full(loop, book)
    landings = [handle.note.when_room(f"w{number}") for number in range(100)]
    for landing in landings[1:]:
        assert landing.cancel() is True
        assert landing.cancel() is False
    settle(loop)
    assert book == [0, 1, "w0"]
    assert landings[0].cancel() is False
    handle.note("again")
    settle(loop)
    assert book[3:] == ["again"]
    books = loop.ask_statistics()
    assert (books.asked, books.answered, books.cancelled, books.pending) == (0, 0, 0, 0), "they are no asks"


def test_the_end_of_the_loop_ends_every_wait(loop: ActorSystem) -> None:
    landings: list[Any] = []

    async def body() -> None:
        handle = loop.options(mailbox=1).spawn(Puppet, [])
        handle.do_slowly(lambda me: asyncio.Event().wait())
        await turns()
        handle.note(1)
        landings.extend(handle.note.when_room(number) for number in range(3))

    ride(loop, body)
    assert all(landing.done() for landing in landings)


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_the_exit_of_the_actor_ends_waits(
    loop: ActorSystem, diary: RecordingObserver, end: str
) -> None:
    handle = full(loop, [])
    landings = [handle.note.when_room(number) for number in range(3)]
    getattr(handle, end)()
    for landing in landings:
        with pytest.raises(TargetEndedError, match=r"before there was room for Noter\.note\(\)") as caught:
            await landing
        assert "answered" not in str(caught.value)
    with pytest.raises(NoSuchActorError):
        await handle.note.when_room("later")
    assert len(diary.dead) == 2  # a message that was never in the mailbox is not a dead letter


def test_a_wait_that_fails_raises_its_error_and_is_no_failed_ask(loop: ActorSystem, book: Book) -> None:
    landing: Any = full(loop, book).note.when_room("late")
    landing.fail(Boom("no room"))
    with pytest.raises(Boom, match="no room"):
        landing.result()
    settle(loop)
    assert loop.ask_statistics().failed == 0
