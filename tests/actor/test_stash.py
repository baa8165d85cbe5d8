"""Stashes: stashed messages are not handled until they are released, return in order, and end with their actor."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Stash, ask, batch, batch_ask, id_of, is_alive, tell
from bandstand.core import Lane, Observer, SystemTag
from bandstand.errors import (
    AskTimeoutError,
    InvalidArgumentError,
    LoopBusyError,
    StashFullError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.testing import VirtualClock
from tests.actor.asking import RunSystem, turns, watch
from tests.actor.players import Book, elsewhere
from tests.core.support import settle

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Client(Actor):
    """Stashes everything until it is open."""

    def __init__(self, book: list[Any], limit: int = 100) -> None:
        self.book = book
        self.is_open = False
        self.early = Stash(self, limit)

    @tell
    def note(self, what: object) -> None:
        if not self.is_open:
            self.early.keep()
        self.book.append(what)

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: object) -> None:
        if not self.is_open:
            self.early.keep()
        self.book.append(what)

    @tell
    async def note_slowly(self, what: object) -> None:
        await asyncio.sleep(0)
        if not self.is_open:
            self.early.keep()
        self.book.append((what, WHO.get()))

    @ask
    def fetch(self, key: str) -> str:
        if not self.is_open:
            self.early.keep()
        self.book.append(key)
        return f"{key} for {WHO.get()}"

    @ask
    async def fetch_slowly(self, key: str) -> str:
        await asyncio.sleep(0)
        if not self.is_open:
            self.early.keep()
        await asyncio.sleep(0)
        return f"{key} for {WHO.get()}"

    @tell
    def polite(self, what: object) -> None:
        try:
            self.early.keep()
        except StashFullError:
            self.book.append(("full", what))

    @tell
    def tidy(self, what: object) -> None:
        """`except Exception` does not catch it, and `finally` runs."""
        if self.is_open:
            self.book.append(what)
            return
        try:
            self.early.keep()
        except Exception:  # noqa: BLE001 -- it must not get here
            self.book.append("caught")
        finally:
            self.book.append("tidied up")

    @tell
    def open(self) -> None:
        self.is_open = True
        self.book.append(("released", self.early.release(), len(self.early)))

    @tell
    def crash(self) -> None:
        raise ValueError("crash")

    @tell
    def leave_early(self) -> None:
        self.stop()
        self.early.keep()


@pytest.mark.guarantee("G235")
async def test_stashed_asks_are_answered_in_the_context_of_the_caller(virtual_system: ActorSystem) -> None:
    book: list[Any] = []
    client = virtual_system.spawn(Client, book)
    WHO.set("asker")
    replies = [client.fetch("a"), client.fetch_slowly("b"), client.fetch("c")]
    client.note_slowly("n")
    await turns()
    assert not any(reply.done() for reply in replies)
    WHO.set("somebody else")
    client.open()
    assert [await reply for reply in replies] == ["a for asker", "b for asker", "c for asker"]
    assert await client.fetch("d") == "d for somebody else"
    assert ("n", "asker") in book


@pytest.mark.guarantee("G235")
def test_a_stashed_ask_keeps_its_deadline_and_can_be_cancelled(run_virtual: RunSystem) -> None:
    async def story(loop: ActorSystem) -> None:
        book: list[Any] = []
        client = loop.spawn(Client, book)
        late, gone = watch(client.fetch.within(0.05)("late")), watch(client.fetch("gone"))
        await turns()
        gone.cancel()
        await asyncio.sleep(0.06)
        assert isinstance(await late, AskTimeoutError)
        client.open()
        assert await client.fetch("last") == "last for nobody"
        # A cancelled ask is never handled; one whose deadline has passed is, as if it had waited in the mailbox.
        assert book == [("released", 2, 0), "late", "last"]

    loop = run_virtual(story)
    assert loop.ask_statistics().late == 1


@pytest.mark.guarantee("G235")
def test_keep_ends_the_handler_and_only_the_kernel_catches_it(loop: ActorSystem, book: Book) -> None:
    client = loop.spawn(Client, book)
    client.tidy("x")
    settle(loop)
    assert book == ["tidied up"]
    client.open()
    settle(loop)
    assert book == ["tidied up", ("released", 1, 0), "x"]
    client.note_slowly("n")
    counts = [loop.poll_once() for _ in range(6)]
    assert min(counts) >= 0


@pytest.mark.guarantee("G236")
def test_a_full_stash_fails_the_actor_unless_the_error_is_caught(loop: ActorSystem, book: Book) -> None:
    client = loop.spawn(Client, book, limit=2)
    for number in range(4):
        client.polite(number)
    settle(loop)
    assert book == [("full", 2), ("full", 3)]
    client.note("too much")
    reply = client.fetch("lost")
    settle(loop)
    assert not is_alive(client)
    with pytest.raises(
        TargetEndedError,
        match=r"StashFullError: the stash of .*is full: it has 2 messages and cannot keep Client\.note\(\)",
    ):
        reply.result()


@pytest.mark.guarantee("G236")
def test_released_messages_leave_the_system_slots_free(loop: ActorSystem) -> None:
    class Crowded(Client):
        @tell
        def open_and_listen(self) -> None:
            self.is_open = True
            self.early.release()
            assert outer.kernel.send_system(id_of(self.me), None, SystemTag.SHUTDOWN)

    outer, book = loop, list[Any]()
    client = loop.options(mailbox=3).spawn(Crowded, book)
    for number in range(30):
        client.note(number)
        settle(loop)
    client.open_and_listen()
    settle(loop)
    assert (is_alive(client), book) == (True, list(range(30)))


class Letters(Observer):
    def __init__(self) -> None:
        self.letters: list[object] = []

    def on_dead_letter(self, target: Any, lane: Any, data: object, tag: Any, sender: Any) -> None:
        self.letters.append(data)


@pytest.mark.spec("J4")
@pytest.mark.guarantee("G237")
@pytest.mark.parametrize("end", ["stop", "kill", "crash", "drain"])
def test_stashed_messages_end_with_the_actor_before_waiting_ones(loop: ActorSystem, end: str) -> None:
    letters = Letters()
    loop.set_observer(letters)
    client = loop.spawn(Client, [])
    client.note(1)
    reply = client.fetch("a")
    client.note(2)
    settle(loop)
    if end == "crash":
        client.crash()
        client.note(3)
    elif end == "drain":
        client.stop(drain=True)
    else:
        client.note(3)
        client.stop() if end == "stop" else client.kill()
    settle(loop)
    assert letters.letters == [1, "a", 2, *([] if end == "drain" else [3])]
    with pytest.raises(TargetEndedError):
        reply.result()
    books = loop.statistics()
    assert (books.dead, books.waiting) == (len(letters.letters), 0)


@pytest.mark.guarantee("G235")
def test_keep_needs_a_current_message(loop: ActorSystem, clock: VirtualClock) -> None:
    errors: list[BaseException] = []

    class Hasty(Actor):
        def __init__(self) -> None:
            self.stash = Stash(self)
            self.try_it()

        def try_it(self) -> None:
            try:
                self.stash.keep()
            except LoopBusyError as error:
                errors.append(error)

        def on_start(self) -> None:
            self.try_it()
            self.after(0, self.try_it)

        def on_stop(self, *_: object) -> None:
            self.try_it()

        @tell
        def leave(self) -> None:
            self.stop()
            self.try_it()

    hasty = loop.spawn(Hasty)
    settle(loop)
    clock.advance(0.001)
    settle(loop)
    hasty.leave()
    settle(loop)
    words = [str(error) for error in errors]
    assert "does not run as an actor" in words[0]
    assert "is not handling a message in its turn" in words[1]
    assert any("a call of a timer" in word for word in words)
    assert len(words) == 5


@pytest.mark.guarantee("G235")
def test_a_batch_cannot_be_stashed_and_loses_nothing(loop: ActorSystem, book: Book) -> None:
    class Collector(Actor):
        def __init__(self) -> None:
            self.stash = Stash(self)

        @batch(limit=8)
        def note(self, numbers: list[int]) -> None:
            try:
                self.stash.keep()
            except LoopBusyError as error:
                book.append((numbers, "handles a batch" in str(error)))

        @batch_ask(limit=8, raises=LoopBusyError)
        async def double(self, numbers: list[int]) -> list[int]:
            await asyncio.sleep(0)
            self.stash.keep()

    collector = loop.spawn(Collector)
    for number in range(3):
        collector.note(number)
    replies = [collector.double(number) for number in range(3)]
    for _ in range(5):
        settle(loop)
    assert book == [([0, 1, 2], True)]
    for reply in replies:
        with pytest.raises(LoopBusyError, match="handles a batch"):
            reply.result()
    assert loop.statistics().waiting == 0


@pytest.mark.guarantee("G235")
@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "9", 10**9])
def test_the_limit_must_be_a_number(limit: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="limit is"):
        Client([], limit)


@pytest.mark.guarantee("G235")
def test_a_stash_belongs_to_an_actor_and_its_thread(loop: ActorSystem) -> None:
    stashes: list[Stash] = []

    class Loose(Client):
        def on_start(self) -> None:
            stashes.append(self.early)

    handed: Any = loop.spawn(Loose, [])
    with pytest.raises(InvalidArgumentError, match="a stash belongs to an actor, pass self"):
        Stash(handed)
    for use in (stashes[0].release, stashes[0].keep):
        with pytest.raises(WrongThreadError):
            elsewhere(use)
    assert repr(stashes[0]) == "<Stash with 0 of 100 messages>"
    assert stashes[0].limit == 100


@pytest.mark.guarantee("G235")
def test_two_stashes_are_independent(loop: ActorSystem, book: Book) -> None:
    class Sorter(Actor):
        def __init__(self) -> None:
            self.even, self.odd = Stash(self), Stash(self)
            self.wanted: set[int] = set()

        @tell
        def note(self, number: int) -> None:
            if number % 2 not in self.wanted:
                (self.odd if number % 2 else self.even).keep()
            book.append(number)

        @tell
        def want(self, rest: int) -> None:
            self.wanted.add(rest)
            (self.odd if rest else self.even).release()

    sorter = loop.spawn(Sorter)
    for number in range(6):
        sorter.note(number)
    sorter.want(1)
    sorter.note(7)
    sorter.want(0)
    settle(loop)
    assert book == [1, 3, 5, 7, 0, 2, 4]


@pytest.mark.guarantee("G236")
def test_stashed_messages_do_not_keep_the_loop_busy(loop: ActorSystem) -> None:
    client = loop.spawn(Client, [])
    client.note(1)
    assert not loop.kernel.is_quiet()
    settle(loop)
    # They would never be handled, so `until_idle` does not wait for them.
    assert (loop.kernel.is_quiet(), loop.statistics().waiting) == (True, 1)
    client.open()
    settle(loop)
    assert (loop.kernel.is_quiet(), loop.statistics().waiting) == (True, 0)
