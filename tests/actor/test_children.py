"""Children that an actor starts itself: they end with it, and their exits are signals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bandstand.actor import Actor, ActorSystem, Signal, ask, child, id_of, is_alive, tell
from bandstand.core import ChildExit, Down, ExitReason
from bandstand.errors import (
    ChildFailedError,
    LoopBusyError,
    NoSuchActorError,
    StartError,
    TargetEndedError,
)
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.actor.answers import answer
from tests.actor.players import Book, Noter, Slow, spin, turns
from tests.core.support import Boom, settle

pytestmark = pytest.mark.guarantee("G66")


class Named(Actor):
    """A child that records its end."""

    def __init__(self, book: Book, name: str) -> None:
        self.book = book
        self.name = name

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append(f"-{self.name} {reason.name}")

    @tell
    def crash(self) -> None:
        raise Boom(self.name)

    @tell
    def leave(self) -> None:
        self.stop()

    @ask
    def who(self) -> str:
        return self.name


class Parent(Actor):
    """Starts children with the given names."""

    def __init__(self, book: Book, *names: str) -> None:
        self.book = book
        self.names = names
        self.children: dict[str, Named] = {}

    def on_start(self) -> None:
        for name in self.names:
            self.children[name] = self.options(name=name).spawn(Named, self.book, name)

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append(f"-parent {reason.name}")

    @tell
    def add(self, name: str) -> None:
        self.children[name] = self.options(name=name).spawn(Named, self.book, name)

    @tell
    def crash(self) -> None:
        raise Boom("parent")

    @ask
    def child(self, name: str) -> Named:
        return self.children[name]

    @ask
    async def ask_child(self, name: str) -> str:
        return await self.children[name].who()


class Watching(Parent):
    """The same with an on_signal."""

    def on_signal(self, signal: Signal) -> None:
        self.book.append(signal)


def child_of(loop: ActorSystem, parent: Parent, name: str) -> Named:
    """Get the handle of a child without an event loop."""
    answers: list[Named] = []

    class Once(Actor):
        @tell
        async def go(self) -> None:
            answers.append(await parent.child(name))
            self.stop()

    loop.spawn(Once).go()
    spin(loop)
    return answers[0]


# --- ends ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stop", "drain", "crash", "kill"])
def test_children_end_with_their_parent_the_last_one_first(loop: ActorSystem, end: str, book: Book) -> None:
    parent = loop.spawn(Parent, book, "a", "b", "c")
    if end == "drain":
        parent.stop(drain=True)
    else:
        getattr(parent, end)()
    settle(loop)
    own = {"crash": ["-parent PANIC"], "kill": []}.get(end, ["-parent NORMAL"])
    assert book == [*own, "-c NORMAL", "-b NORMAL", "-a NORMAL"]
    assert loop.statistics().alive == 0


def test_grandchildren_end_before_their_parents_siblings(loop: ActorSystem, book: Book) -> None:
    class Grand(Parent):
        def on_start(self) -> None:
            self.spawn(Named, self.book, "first")
            self.spawn(Parent, self.book, "x", "y")
            self.spawn(Slow, self.book)

    parent = loop.spawn(Grand, book)
    spin(loop)
    assert book == ["starting", "started"]
    parent.stop()
    spin(loop)
    others = ["-parent NORMAL", "-parent NORMAL", "-y NORMAL", "-x NORMAL", "-first NORMAL"]
    assert [entry for entry in book[2:] if entry in others] == others
    assert book[2:].index(("stopping", "NORMAL", None)) < book[2:].index("stopped")
    assert loop.statistics().alive == 0


def test_children_of_a_supervised_parent_come_and_go_with_each_incarnation(loop: ActorSystem) -> None:
    book: Book = []
    spec = child("parent").of(Parent, book, "a")
    root = spawn_supervisor(loop, SupervisorSpec(children=[spec]))
    settle(loop)
    parent = root.handle(Parent, "parent")
    for _ in range(3):
        book.clear()
        parent.crash()
        settle(loop)
        assert book == ["-parent PANIC", "-a NORMAL"]
        assert loop.statistics().alive == 3


# --- signals ------------------------------------------------------------------------------------------------------------


async def test_a_failing_child_fails_its_parent(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    book: Book = []
    parent = loop.spawn(Parent, book, "a", "b")
    (await parent.child("a")).crash()
    reply = parent.child("a")
    with pytest.raises(TargetEndedError) as caught:
        await reply
    failed = caught.value.__cause__
    assert isinstance(failed, ChildFailedError)
    assert "reason PANIC" in str(failed)
    assert isinstance(failed.__cause__, Boom)
    assert book == ["-a PANIC", "-parent PANIC", "-b NORMAL"]
    assert "ChildFailedError" in caplog.text


def test_a_child_that_ends_normally_does_not_fail_its_parent(loop: ActorSystem, book: Book) -> None:
    parent = loop.spawn(Parent, book, "a", "b")
    child_of(loop, parent, "a").leave()
    settle(loop)
    assert book == ["-a NORMAL"]
    assert is_alive(parent)
    parent.stop()
    settle(loop)
    assert book[1:] == ["-parent NORMAL", "-b NORMAL"]  # and a is not ended twice


@pytest.mark.parametrize("is_async", [False, True])
def test_on_signal_decides_about_the_exit_of_a_child(loop: ActorSystem, is_async: bool, book: Book) -> None:
    class Slowly(Parent):
        async def on_signal(self, signal: Signal) -> None:
            await turns()
            self.book.append(signal)

    parent = loop.spawn(Slowly if is_async else Watching, book, "a", "b")
    failing = child_of(loop, parent, "a")
    failing.crash()
    spin(loop)
    assert is_alive(parent)
    (signal,) = [entry for entry in book if not isinstance(entry, str)]
    assert isinstance(signal, ChildExit)
    assert (signal.child, signal.reason) == (id_of(failing), ExitReason.PANIC)
    assert isinstance(signal.cause, Boom)


# --- starts -------------------------------------------------------------------------------------------------------------


class Hiring(Actor):
    def __init__(self, book: Book) -> None:
        self.book = book

    @tell
    def hire(self, kind: type[Noter]) -> None:
        try:
            self.spawn(kind, self.book)
        except StartError as error:
            self.book.append(error)


class Unready(Noter):
    def on_start(self) -> None:
        raise Boom("start")


class UnreadySlowly(Noter):
    async def on_start(self) -> None:
        await turns()
        raise Boom("start")


@pytest.mark.parametrize("kind", [Unready, UnreadySlowly])
def test_a_child_whose_start_fails(loop: ActorSystem, kind: type[Noter], book: Book) -> None:
    """A plain start fails in the caller, and the exit is not reported a second time. An async one is a signal."""
    parent = loop.spawn(Hiring, book)
    parent.hire(kind)
    spin(loop)
    if kind is Unready:
        (error,) = book
        assert isinstance(error, StartError)
        assert isinstance(error.__cause__, Boom)
    assert is_alive(parent) is (kind is Unready)
    assert loop.statistics().alive == int(kind is Unready)


def test_children_need_a_parent_that_runs(loop: ActorSystem, book: Book) -> None:
    class Strict(Noter):
        def __init__(self, book: Book) -> None:
            super().__init__(book)
            for start in (lambda: self.spawn(Noter, book), lambda: self.options(name="x")):
                with pytest.raises(LoopBusyError):
                    start()

        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            with pytest.raises(NoSuchActorError):
                self.spawn(Noter, self.book)
            self.book.append("refused")

    loop.spawn(Strict, book).stop()
    settle(loop)
    assert book == ["refused"]
    assert loop.statistics().spawned == 1


# --- monitors and links ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Watching, Noter])
def test_a_down_is_a_signal_for_an_actor_with_an_on_signal(
    loop: ActorSystem, kind: type[Noter | Watching], book: Book
) -> None:
    watcher, other = loop.spawn(kind, book), loop.spawn(Noter, [])
    loop.monitor(id_of(watcher), id_of(other))
    other.crash()
    settle(loop)
    assert is_alive(watcher)
    assert [(type(entry), entry.reason) for entry in book] == (
        [(Down, ExitReason.PANIC)] if kind is Watching else []
    )


# --- many ---------------------------------------------------------------------------------------------------------------


async def test_a_parent_forgets_children_that_have_ended(loop: ActorSystem) -> None:
    parent = loop.spawn(Parent, [])
    for number in range(300):
        parent.add(str(number))
        one = await parent.child(str(number))
        one.leave()
        await one.ended()
    assert loop.statistics().alive == 1
    assert await parent.child("7") is not None  # in a later turn: it has received all exits by now
    assert [node.children for node in loop.tree()] == [()]


class SignalLog(Noter):
    @ask
    def have(self, kind: Callable[[Book], Noter]) -> bool:
        return is_alive(self.spawn(kind, []))

    def on_signal(self, signal: Signal) -> None:
        self.book.append(signal)


@pytest.mark.guarantee("G66")
def test_spawn_works_if_an_attribute_is_named_options(loop: ActorSystem) -> None:
    class Configured(SignalLog):
        def __init__(self, book: Book) -> None:
            super().__init__(book)
            vars(self)["options"] = {"colour": "blue"}

    assert answer(loop, loop.spawn(Configured, []).have(Noter)) is True
