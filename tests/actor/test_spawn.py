"""Spawning typed actors: options, errors, and large numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Implements, Signal, child, id_of
from bandstand.core import ChildExit, ExitReason, Overflow
from bandstand.errors import (
    InvalidArgumentError,
    LoopClosedError,
    NoSuchActorError,
    WrongThreadError,
)
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.actor.players import Book, Lively, Noter, Slow, elsewhere, spin
from tests.core.support import RecordingObserver, record, settle

LoopMaker = Callable[..., ActorSystem]


@pytest.mark.parametrize("kind", [Noter, Lively, Slow])
@pytest.mark.parametrize(
    ("overflow", "kept"),
    [(Overflow.DROP_OLDEST, [8, 9]), (Overflow.DROP_NEWEST, [0, 1]), (Overflow.CONFLATE, [0, 9])],
)
def test_overflow_applies_to_every_kind_of_class(
    loop: ActorSystem, diary: RecordingObserver, kind: type[Noter], overflow: Overflow, kept: list[int]
) -> None:
    book: Book = []
    handle = loop.options(mailbox=2, overflow=overflow).spawn(kind, book)
    for number in range(10):
        handle.note(number)
    spin(loop)
    assert [entry for entry in book if isinstance(entry, int)] == kept
    assert len(diary.dropped) == 8


class Above(Actor):
    def __init__(self, book: Book) -> None:
        self.book = book

    def on_signal(self, signal: Signal) -> None:
        self.book.append(signal)


@pytest.mark.guarantee("G66")
@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize("kind", [Noter, Lively])
def test_a_supervisor_option_gets_child_exits(loop: ActorSystem, kind: type[Noter], is_typed: bool) -> None:
    """A typed actor gets it in its on_signal."""
    book: Book = []
    above: Any = loop.spawn(Above, book) if is_typed else loop.spawn_raw(record, book)
    handle = loop.options(supervisor=above).spawn(kind, [])
    handle.crash()
    settle(loop)
    (told,) = book if is_typed else [message.data for message in book]
    assert (type(told), told.child, told.reason) == (ChildExit, id_of(handle), ExitReason.PANIC)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": 7}, "name is 7"),
    "mailbox": ({"mailbox": -1}, "mailbox is -1"),
    "mailbox of a wrong type": ({"mailbox": "9"}, "mailbox is '9'"),
    "overflow": ({"overflow": "drop"}, "overflow is 'drop'"),
    "ask_timeout": ({"ask_timeout": -2}, "ask_timeout is -2"),
    "ask_timeout that is no number": ({"ask_timeout": float("nan")}, "ask_timeout is nan"),
    "ask_timeout that is a bool": ({"ask_timeout": True}, "ask_timeout is True"),
    "supervisor": ({"supervisor": "root"}, "supervisor is 'root'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_options_are_refused_before_anything_starts(loop: ActorSystem, what: str) -> None:
    options, words = REFUSED[what]
    with pytest.raises(InvalidArgumentError, match=words):
        loop.options(**options)
    assert loop.statistics().spawned == 0


@pytest.mark.parametrize("kind", [int, Actor.__init__, object, "Noter", Implements])
def test_something_that_is_not_an_actor_class_is_refused(loop: ActorSystem, kind: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        loop.options().spawn(kind)
    assert loop.statistics().spawned == 0


def test_a_supervisor_that_starts_its_children_itself_is_refused(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("one").of(Noter, [])]))
    with pytest.raises(InvalidArgumentError, match=r"child\(\.\.\.\)\.of"):
        loop.options(supervisor=root.actor)


def test_a_supervisor_that_has_ended_is_refused(loop: ActorSystem) -> None:
    above = loop.spawn(Noter, [])
    above.stop()
    for kind in (Noter, Lively):
        with pytest.raises(NoSuchActorError):
            loop.options(supervisor=above).spawn(kind, [])
    assert loop.statistics().alive == 0


@pytest.mark.parametrize("kind", [Noter, Lively])
def test_a_spawn_needs_the_loops_thread_and_an_open_loop(make_loop: LoopMaker, kind: type[Noter]) -> None:
    loop = make_loop()
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: loop.spawn(kind, []))
    loop.destroy()
    book: Book = []
    with pytest.raises(LoopClosedError):
        loop.spawn(kind, book)
    assert book == []


def test_a_system_names_its_class() -> None:
    system = ActorSystem()
    assert repr(system).startswith("<ActorSystem open at 0x")
    system.destroy()
    assert repr(system).startswith("<ActorSystem destroyed at 0x")
