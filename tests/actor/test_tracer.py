"""Tracers: called where a message is sent, and around its handler."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from bandstand.actor import ActorSystem, id_of, is_alive
from bandstand.core import ActorId
from bandstand.errors import TargetEndedError
from tests.actor.context_reader import ContextReader, as_user, envelopes_of_a_send, request, user
from tests.actor.players import Book, Puppet, elsewhere, turns
from tests.core.support import Boom, settle

pytestmark = pytest.mark.guarantee("G70")

# --- the tracer ---------------------------------------------------------------------------------------------------------------


class Recorder:
    """A tracer that records every call; the carried value is a number."""

    def __init__(self) -> None:
        self.sent: list[tuple[ActorId, str, int]] = []
        self.entries: list[tuple[Any, ...]] = []

    def sending(self, target: ActorId, method: str) -> int:
        self.sent.append((target, method, threading.get_ident()))
        return len(self.sent)

    def handling(self, target: ActorId, method: str, carried: Any) -> Any:
        return self._around(target, method, carried)

    @contextmanager
    def _around(self, target: ActorId, method: str, carried: Any) -> Generator[None]:
        self.entries.append(("enter", method, carried))
        try:
            yield
        except BaseException as error:
            self.entries.append(("raise", method, type(error).__name__))
            raise
        self.entries.append(("exit", method, carried))


def test_a_tracer_is_called_at_each_send_and_around_each_handler(loop: ActorSystem) -> None:
    tracer = Recorder()
    loop.set_tracer(tracer)
    handle = loop.spawn(ContextReader, [])
    handle.look()
    handle.look_slowly()
    assert [(target, method) for target, method, _ in tracer.sent] == [
        (id_of(handle), "ContextReader.look"),
        (id_of(handle), "ContextReader.look_slowly"),
    ]
    assert tracer.entries == []
    loop.run(until_idle=True)
    assert tracer.entries == [
        ("enter", "ContextReader.look", 1),
        ("exit", "ContextReader.look", 1),
        ("enter", "ContextReader.look_slowly", 2),
        ("exit", "ContextReader.look_slowly", 2),
    ]


async def test_a_tracer_surrounds_a_whole_async_handler(loop: ActorSystem) -> None:
    tracer = Recorder()
    loop.set_tracer(tracer)
    handle = loop.spawn(Puppet, [])

    async def note(me: Puppet) -> None:
        tracer.entries.append(("begin",))
        await turns()
        tracer.entries.append(("end",))

    handle.do_slowly(note)
    assert await handle.entries() == []
    assert [entry[0] for entry in tracer.entries] == ["enter", "begin", "end", "exit", "enter", "exit"]
    reader = loop.spawn(ContextReader, [])
    with pytest.raises(Boom):
        await reader.refuse()
    reader.crash()
    with pytest.raises(TargetEndedError):
        await reader.see()
    assert ("raise", "ContextReader.crash", "Boom") in tracer.entries


def test_a_tracer_is_called_on_the_senders_thread(loop: ActorSystem) -> None:
    tracer = Recorder()
    loop.set_tracer(tracer)
    handle = loop.spawn(ContextReader, [])
    handle.look()
    elsewhere(handle.look)
    settle(loop)
    here, there = [thread for _, _, thread in tracer.sent]
    assert here == threading.get_ident() != there
    assert [entry[0] for entry in tracer.entries] == ["enter", "exit"] * 2


def test_a_tracer_and_a_context_travel_together(loop: ActorSystem, book: Book) -> None:
    class Spanner(Recorder):
        def sending(self, target: ActorId, method: str) -> Any:
            return user.get()

        @contextmanager
        def _around(self, target: ActorId, method: str, carried: Any) -> Generator[None]:
            self.entries.append((carried, user.get()))
            token = request.set(7)
            yield
            request.reset(token)

    tracer = Spanner()
    loop.set_tracer(tracer)
    handle = loop.spawn(Puppet, book)

    def note(me: Puppet) -> None:
        book.append((user.get(), request.get()))

    async def note_slowly(me: Puppet) -> None:
        await turns()
        note(me)

    as_user("ann", lambda: handle.do(note))
    as_user("bob", lambda: handle.do_slowly(note_slowly))
    handle.do(note)
    loop.run(until_idle=True)
    assert tracer.entries == [("ann", "ann"), ("bob", "bob"), ("nobody", "nobody")]
    assert book == [("ann", 7), ("bob", 7), ("nobody", 7)]


@pytest.mark.slow
def test_a_removed_tracer_is_not_called(loop: ActorSystem) -> None:
    tracer = Recorder()
    loop.set_tracer(tracer)
    handle = loop.spawn(ContextReader, [])
    handle.look()
    loop.set_tracer(None)
    handle.look()
    assert len(tracer.sent) == 1
    settle(loop)
    assert [entry[0] for entry in tracer.entries] == ["enter", "exit"]  # for the message that was sent before
    assert envelopes_of_a_send(loop) == 0


def test_a_tracer_that_raises_on_sending_raises_in_the_sender_and_sends_nothing(loop: ActorSystem) -> None:
    class Bad(Recorder):
        def sending(self, target: ActorId, method: str) -> int:
            raise Boom("sending")

    book: Book = []
    handle = loop.spawn(ContextReader, book)
    loop.set_tracer(Bad())
    with pytest.raises(Boom, match="sending"):
        handle.look()
    loop.set_tracer(None)
    settle(loop)
    assert book == []


def test_a_tracer_does_not_affect_background_work_and_timers(loop: ActorSystem, book: Book) -> None:
    loop.set_tracer(Recorder())

    async def seven() -> int:
        await turns()
        return 7

    def begin(me: Puppet) -> None:
        me.background(seven(), then=me.write)
        me.background(seven(), then=me.note)
        me.after(0.001, me.write, "after")

    handle = loop.spawn(Puppet, book)
    handle.do(begin)
    loop.run(until_idle=True)
    assert is_alive(handle)
    assert len(book) == 3
    assert {(7,), 7, ("after",)} == set(book)
