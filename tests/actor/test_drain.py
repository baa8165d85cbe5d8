"""`stop(drain=True)`: messages accepted before are handled in order, later ones are refused."""

from __future__ import annotations

import threading

import pytest

from bandstand.actor import ActorSystem, is_alive, tell
from bandstand.core import ExitReason, Overflow
from bandstand.errors import NoSuchActorError
from tests.actor.players import PATIENCE, Book, Lively, Noter, Slow, elsewhere, spin
from tests.core.support import RecordingObserver, settle

pytestmark = pytest.mark.guarantee("G65")


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_everything_that_was_accepted_is_handled_in_order_and_then_it_ends(
    loop: ActorSystem, diary: RecordingObserver, is_elsewhere: bool, book: Book
) -> None:
    """Messages of another thread are in the loop's inbox, with reserved slots, and not in the mailbox yet."""
    handle = loop.spawn(Lively, book)

    def send() -> None:
        for number in range(200):
            handle.note(number)

    elsewhere(send) if is_elsewhere else send()
    handle.stop(drain=True)
    assert is_alive(handle)
    settle(loop)
    assert book == ["start", *range(200), ("stop", "NORMAL", None)]
    assert diary.dead == []
    assert not is_alive(handle)


def test_later_sends_are_refused_with_a_clear_error(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    handle = loop.options(name="closing").spawn(Noter, book)
    handle.note("before")
    handle.stop(drain=True)
    with pytest.raises(NoSuchActorError, match=r"closing.*stopping.*accepts no more"):
        handle.note("after")
    with pytest.raises(NoSuchActorError, match="closing"):
        handle.urgent("after")
    with pytest.raises(NoSuchActorError, match="closing"):
        handle.count().cancel()
    assert handle.note.try_send("after") is False
    with pytest.raises(NoSuchActorError):
        elsewhere(lambda: handle.note("after"))
    assert elsewhere(lambda: handle.note.try_send("after")) is False
    settle(loop)
    assert book == ["before"]
    assert diary.full == []  # it is not full, it is closed


def test_a_drain_from_inside(loop: ActorSystem, book: Book) -> None:
    class Closing(Lively):
        @tell
        def close(self) -> None:
            self.stop(drain=True)
            with pytest.raises(NoSuchActorError):
                self.me.note("to itself, too late")
            self.book.append("closed")

    handle = loop.spawn(Closing, book)
    handle.note(1)
    handle.close()
    handle.note(2)
    settle(loop)
    assert book == ["start", 1, "closed", 2, ("stop", "NORMAL", None)]


def test_a_drain_lets_an_async_handler_in_flight_end(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    handle = loop.spawn(Slow, book)
    handle.slowly(1)
    handle.slowly(2)
    for _ in range(20):
        loop.poll_once()
        if ("begin", 1) in book:
            break
    assert ("end", 1) not in book
    handle.stop(drain=True)
    spin(loop, 60)
    done = [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]
    assert book == ["starting", "started", *done, ("stopping", "NORMAL", None), "stopped"]
    assert [why for _, why in diary.stopped] == [ExitReason.NORMAL]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_message", [False, True])
def test_a_drain_during_its_start(loop: ActorSystem, has_message: bool, is_async: bool, book: Book) -> None:
    class Brief(Lively):
        def on_start(self) -> None:
            if has_message:
                self.me.note(1)
            self.stop(drain=True)

    if is_async:
        handle = loop.spawn(Slow, book)
        loop.poll_once()
        if has_message:
            handle.note(1)
        handle.stop(drain=True)
        with pytest.raises(NoSuchActorError):
            handle.note("too late")
    else:
        loop.spawn(Brief, book)
    spin(loop, 60)
    messages = [1] if has_message else []
    if is_async:
        assert book == ["starting", "started", *messages, ("stopping", "NORMAL", None), "stopped"]
    else:
        assert book == [*messages, ("stop", "NORMAL", None)]


@pytest.mark.parametrize("end", ["panic", "stop"])
def test_another_end_while_draining(loop: ActorSystem, diary: RecordingObserver, end: str) -> None:
    book: Book = []
    handle = loop.spawn(Lively, book)
    if end == "panic":
        handle.crash()
    handle.note("dead letter")
    handle.stop(drain=True)
    handle.stop(drain=True)
    if end == "stop":
        handle.stop()
    settle(loop)
    assert book == ["start", ("stop", "PANIC", "Boom") if end == "panic" else ("stop", "NORMAL", None)]
    assert len(diary.dead) == 1
    assert len(diary.stopped) == 1


@pytest.mark.parametrize("overflow", list(Overflow))
def test_an_overflow_policy_gives_nothing_up_for_a_message_that_comes_too_late(
    loop: ActorSystem, diary: RecordingObserver, overflow: Overflow, book: Book
) -> None:
    handle = loop.options(mailbox=2, overflow=overflow).spawn(Noter, book)
    handle.note(1)
    handle.note(2)
    handle.stop(drain=True)
    for _ in range(10):
        with pytest.raises(NoSuchActorError):
            handle.note("late")
        with pytest.raises(NoSuchActorError):
            elsewhere(lambda: handle.note("late"))
    settle(loop)
    assert book == [1, 2]
    assert diary.dropped == []


def test_nothing_is_lost_to_threads_that_race_with_a_drain(
    loop: ActorSystem, diary: RecordingObserver, book: Book
) -> None:
    handle = loop.options(mailbox=1 << 16).spawn(Noter, book)
    accepted: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    begun = threading.Barrier(5)

    def work(me: int) -> None:
        begun.wait(PATIENCE)
        for number in range(3000):
            if not handle.note.try_send((me, number)):
                break
            accepted[me].append((me, number))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(PATIENCE)
    for _ in range(20):
        loop.poll_once()
    handle.stop(drain=True)
    while any(thread.is_alive() for thread in threads):
        loop.poll_once()
    settle(loop)
    for thread in threads:
        thread.join(PATIENCE)
    for me in range(4):
        assert [entry for entry in book if entry[0] == me] == accepted[me]
    assert diary.dead == []


def test_a_drain_with_timers_and_a_ticker_ends(loop: ActorSystem, book: Book) -> None:
    class Ticking(Noter):
        def on_start(self) -> None:
            self.every(0.001, self.tick)
            self.after(1000.0, self.tick)

        def tick(self) -> None:
            self.book.append("tick")

    handle = loop.spawn(Ticking, book)
    handle.note(1)
    handle.stop(drain=True)
    loop.run(until_idle=True)
    assert book == [1]
    assert loop.statistics().timers_pending == 0
