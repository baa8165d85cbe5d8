"""What once went wrong with lives and ends: starts, ends, children, and who is told."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Event
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, Signal, ask, child, data, is_alive, supervised
from bandstand.core import ChildExit, ExitReason
from bandstand.errors import InvalidArgument, NoSuchActor, TargetEnded
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.abroad import looping, staged
from tests.actor.answers import answer
from tests.actor.asking import CAP, Oracle, Play, got, in_place, in_time, outcome, turns
from tests.actor.players import Book, Noter, ride, spin
from tests.core.stage import Boom, HostFactory, settle


@pytest.fixture
def play(clock: VirtualClock) -> Play:
    return in_time(clock)


# --- askers and ends ----------------------------------------------------------------------------------------------------


class Fragile(Actor):
    """Breaks when asked, and takes its time to end."""

    def __init__(self, log: Book, gate: Event) -> None:
        self.log = log
        self.gate = gate

    @ask
    def broken(self) -> int:
        raise Boom("sync")

    @ask
    async def broken_later(self) -> int:
        await asyncio.sleep(0)
        raise Boom("async")

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        try:
            await self.gate.wait()
        except CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("stopped")


@pytest.mark.guarantee("G65")
@pytest.mark.parametrize("name", ["broken", "broken_later"])
def test_an_asker_that_gives_up_does_not_cancel_an_on_stop(play: Play, name: str) -> None:
    log: Book = []

    async def story(loop: Loop) -> None:
        gate = Event()
        fragile = loop.spawn(Fragile, log, gate)
        reply = getattr(fragile, name)()
        await turns()
        reply.cancel()
        await turns()
        assert log == []
        gate.set()
        assert await fragile.ended() is ExitReason.PANIC

    play(story)
    assert log == ["stopped"]


@pytest.mark.guarantee("G60", "G65")
@pytest.mark.parametrize("name", ["broken", "broken_later"])
def test_an_asker_does_not_wait_for_an_on_stop(play: Play, name: str) -> None:
    log: Book = []

    async def story(loop: Loop) -> None:
        gate = Event()
        fragile = loop.spawn(Fragile, log, gate)
        error = await outcome(getattr(fragile, name)())
        assert isinstance(error, TargetEnded)
        assert isinstance(error.__cause__, Boom)
        assert log == []
        gate.set()

    play(story)
    assert log == ["stopped"]


@pytest.mark.guarantee("G60")
def test_who_waited_for_room_is_told_that_there_was_none_and_not_that_nobody_answered(
    loop_factory: HostFactory,
) -> None:
    async def story(loop: Loop) -> None:
        oracle = loop.options(mailbox_cap=CAP).spawn(Oracle)
        oracle.block(Event())
        await turns()
        while oracle.note.try_send("filler"):
            pass
        landing = oracle.note.when_room("late")
        await turns()
        oracle.kill()
        with pytest.raises(TargetEnded, match=r"before there was room for Oracle\.note\(\)") as caught:
            await landing
        assert "answered" not in str(caught.value)

    in_place(loop_factory)(story)


@pytest.mark.guarantee("G60")
def test_who_waited_for_room_on_another_thread_is_told_the_same(loop_factory: HostFactory) -> None:
    with staged(loop_factory) as stage:
        oracle = stage.do(lambda: stage.loop.options(mailbox_cap=CAP).spawn(Oracle))
        stage.do(lambda: oracle.block(Event()))
        stage.settle()

        def fill() -> None:
            while oracle.note.try_send("filler"):
                pass

        stage.do(fill)

        async def main() -> Any:
            waiting = asyncio.ensure_future(outcome(got(oracle.note.when_room("late"))))
            await turns()
            oracle.kill()
            return await waiting

        error = looping(main)
        assert isinstance(error, TargetEnded)
        assert "before there was room for Oracle.note()" in str(error)
        assert "answered" not in str(error)


# --- starts and ends ----------------------------------------------------------------------------------------------------


class Brief(Noter):
    """Stops before it has begun."""

    def on_start(self) -> Awaitable[None] | None:
        self.book.append("start")
        self.stop()
        return None

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append((reason, cause))


class BriefLater(Brief):
    async def on_start(self) -> None:
        await turns()
        super().on_start()


@pytest.mark.guarantee("G65")
@pytest.mark.parametrize("kind", [Brief, BriefLater])
def test_one_who_stops_in_its_on_start_has_its_on_stop(loop: Loop, kind: type[Brief]) -> None:
    book: Book = []
    handle = loop.spawn(kind, book)
    spin(loop)
    assert book == ["start", (ExitReason.NORMAL, None)]
    assert not is_alive(handle)


@pytest.mark.guarantee("G65")
def test_an_on_stop_may_return_anything_that_can_be_awaited(loop: Loop) -> None:
    book: Book = []

    async def write() -> None:
        await turns()
        book.append("written")

    class Gathering(Actor):
        def on_stop(self, reason: ExitReason, cause: BaseException | None) -> Awaitable[Any]:
            return asyncio.gather(write(), write())

    async def body() -> None:
        handle = loop.spawn(Gathering)
        handle.stop()
        await handle.ended()
        assert book == ["written", "written"]

    ride(loop, body)


class Parent(Noter):
    @ask
    def have(self, kind: Callable[[Book], Noter]) -> bool:
        return is_alive(self.spawn(kind, []))

    def on_signal(self, signal: Signal) -> None:
        self.book.append(signal)


@pytest.mark.guarantee("G66")
def test_the_end_of_a_child_that_stops_in_its_on_start_is_a_signal(loop: Loop) -> None:
    book: Book = []
    parent = loop.spawn(Parent, book)
    assert answer(loop, parent.have(Brief)) is False
    settle(loop)
    (signal,) = book
    assert isinstance(signal, ChildExit)
    assert signal.reason is ExitReason.NORMAL


@pytest.mark.guarantee("G66")
def test_a_child_is_spawned_although_a_field_has_the_name_of_a_tool(loop: Loop) -> None:
    class Configured(Parent):
        def __init__(self, book: Book) -> None:
            super().__init__(book)
            vars(self)["options"] = {"colour": "blue"}

    assert answer(loop, loop.spawn(Configured, []).have(Noter)) is True


@pytest.mark.guarantee("G69")
@pytest.mark.parametrize("work", [5, None, turns], ids=repr)
def test_work_that_cannot_be_awaited_is_refused_where_it_is_given(loop: Loop, work: Any) -> None:
    class Worker(Actor):
        @ask(raises=InvalidArgument)
        def go(self) -> None:
            self.background(work)

    worker = loop.spawn(Worker)
    with pytest.raises(InvalidArgument, match="pass a coroutine"):
        answer(loop, worker.go())
    assert is_alive(worker)


@pytest.mark.guarantee("G65")
def test_one_who_is_drained_accepts_nothing_even_from_itself(loop: Loop) -> None:
    book: Book = []

    class Counter(Actor):
        @data
        def down(self, left: int) -> None:
            book.append((left, self.me.down.try_send(left - 1)))

        @ask(raises=NoSuchActor)
        def again(self) -> None:
            self.me.down(1)

    async def body() -> None:
        counter = loop.spawn(Counter)
        counter.down(3)
        reply = counter.again()
        counter.stop(drain=True)
        with pytest.raises(NoSuchActor):
            await reply
        assert await counter.ended() is ExitReason.NORMAL
        assert book == [(3, False)]

    ride(loop, body)


# --- supervised children ------------------------------------------------------------------------------------------------


class Cat(Actor):
    @ask
    def sound(self) -> str:
        return f"meow of a {type(self).__name__}"


class Kitten(Cat): ...


class Dog(Actor):
    @ask
    def sound(self) -> str:
        return "woof"


@pytest.mark.guarantee("G59", "G67")
def test_a_handle_does_not_reach_a_child_of_another_class_in_the_same_place(loop: Loop) -> None:
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("pet").of(Cat)]))
    cat = supervised(root, Cat, "pet")

    def replace(kind: type[Actor]) -> None:
        root.stop_child("pet")
        root.delete_child("pet")
        root.start_child(child("pet").of(kind))
        settle(loop)

    assert answer(loop, cat.sound()) == "meow of a Cat"
    replace(Dog)
    assert not is_alive(cat)
    with pytest.raises(NoSuchActor):
        answer(loop, cat.sound())
    assert answer(loop, supervised(root, Dog, "pet").sound()) == "woof"
    # It means the place, and whoever is there that is of its class.
    replace(Kitten)
    assert answer(loop, cat.sound()) == "meow of a Kitten"
