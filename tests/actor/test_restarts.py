"""Handles of supervised actors stay valid over restarts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, id_of, is_alive, tell
from bandstand.core import ActorId, ChildExit, ExitReason
from bandstand.errors import NoSuchActorError, TargetEndedError
from bandstand.supervision import Backoff, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.answers import answer
from tests.actor.players import PATIENCE, Book, elsewhere, spin, turns
from tests.actor.workers import Worker, one_for_one
from tests.core.support import RecordingObserver, settle

pytestmark = [pytest.mark.guarantee("G67"), pytest.mark.spec("J21")]


@pytest.fixture(autouse=True)
def first_incarnation() -> None:
    Worker.born = 0


# --- handles over restarts --------------------------------------------------------------------------------------------------


def test_a_handle_reaches_the_current_incarnation(loop: ActorSystem, book: Book) -> None:
    root = one_for_one(loop, child("worker").of(Worker, book))
    settle(loop)
    handle = root.handle(Worker, "worker")
    ids: list[ActorId] = []
    for turn in range(1, 6):
        handle.note(turn)
        settle(loop)
        ids.append(id_of(handle))
        handle.crash()
        settle(loop)
    assert book == [(turn, turn) for turn in range(1, 6)]
    assert len(set(ids)) == 5


def test_one_way_calls_fail_during_the_backoff_of_a_restart(loop: ActorSystem, clock: VirtualClock) -> None:
    book: Book = []
    root = one_for_one(loop, child("worker", backoff=Backoff(initial=0.1)).of(Worker, book))
    settle(loop)
    handle = root.handle(Worker, "worker")
    handle.crash()
    settle(loop)
    assert not is_alive(handle)
    with pytest.raises(NoSuchActorError, match="'worker' of supervisor 'root' is down"):
        handle.note("lost")
    assert handle.note.try_send("lost") is False
    assert elsewhere(lambda: handle.note.try_send("lost")) is False
    with pytest.raises(NoSuchActorError, match="down"):
        elsewhere(lambda: handle.note("lost"))
    with pytest.raises(NoSuchActorError):
        handle.note.when_room("lost").cancel()
    clock.advance(0.099)
    settle(loop)
    assert handle.note.try_send("lost") is False
    clock.advance(0.002)
    settle(loop)
    assert is_alive(handle)
    handle.note("found")
    settle(loop)
    assert book == [(2, "found")]


def test_a_handle_made_while_the_child_is_down_works_later(loop: ActorSystem, clock: VirtualClock) -> None:
    book: Book = []
    root = one_for_one(loop, child("worker", backoff=Backoff(initial=0.1)).of(Worker, book))
    settle(loop)
    loop.kill_actor(root.address("worker"))
    settle(loop)
    handle = root.handle(Worker, "worker")
    assert not is_alive(handle)
    assert handle.note.try_send("lost") is False
    repr(handle)
    clock.advance(0.101)
    settle(loop)
    handle.note("found")
    settle(loop)
    assert book == [(2, "found")]


def test_a_handle_never_reaches_an_old_incarnation(loop: ActorSystem, book: Book) -> None:
    # A slow exit: the old incarnation is STOPPING while messages are sent.

    class Ending(Worker):
        async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
            await turns(5)
            self.book.append((self.number, "gone"))

    root = one_for_one(loop, child("worker").of(Ending, book))
    spin(loop)
    handle = root.handle(Ending, "worker")
    handle.stop()
    accepted = 0
    for _ in range(40):
        accepted += handle.note.try_send("x")
        loop.poll_once()
    spin(loop)
    assert (1, "gone") in book
    assert (1, "x") not in book
    assert book.count((2, "x")) == accepted > 0


async def test_stop_and_ended_apply_to_the_current_incarnation(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("worker").of(Worker, []))
    handle = root.handle(Worker, "worker")
    for incarnation in range(1, 4):
        assert await handle.incarnation() == incarnation
        wait = handle.ended()
        handle.stop()
        assert await wait is ExitReason.NORMAL
        await turns()
    handle.kill()
    await turns()
    assert await handle.incarnation() == 5


def test_a_handle_of_one_incarnation_ends_with_it(loop: ActorSystem) -> None:
    handles: list[Worker] = []

    class Known(Worker):
        def on_start(self) -> None:
            handles.append(self.me)

    root = one_for_one(loop, child("worker").of(Known, []))
    settle(loop)
    loop.kill_actor(root.address("worker"))
    settle(loop)
    first, second = handles
    assert not is_alive(first)
    with pytest.raises(NoSuchActorError):
        first.note("x")
    second.note("x")


def test_handles_of_the_same_child_stay_equal_over_restarts(loop: ActorSystem) -> None:
    spec = [child(name).of(Worker, []) for name in "ab"]
    root, other = one_for_one(loop, *spec), one_for_one(loop, *spec)
    settle(loop)
    handle = root.handle(Worker, "a")
    known = {handle: "a"}
    handle.crash()
    settle(loop)
    again = root.handle(Worker, "a")
    assert again == handle
    assert known[again] == "a"
    assert id_of(again) == id_of(handle)
    assert handle not in {root.handle(Worker, "b"), other.handle(Worker, "a")}


def test_handles_on_other_threads_survive_restarts(loop: ActorSystem, diary: RecordingObserver) -> None:
    book: Book = []
    spec = child("worker", keep_mailbox=True, mailbox=1 << 15).of(Worker, book)
    root = one_for_one(loop, spec, max_restarts=1_000_000)
    settle(loop)
    handle = root.handle(Worker, "worker")
    accepted: list[list[tuple[int, int]]] = [[] for _ in range(3)]
    begun = threading.Barrier(4)

    def work(me: int) -> None:
        begun.wait(PATIENCE)
        for number in range(1500):
            if handle.note.try_send((me, number)):
                accepted[me].append((me, number))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(PATIENCE)
    for _ in range(20):
        handle.crash.try_send()
        for _ in range(5):
            loop.poll_once()
    for thread in threads:
        thread.join(PATIENCE)
    settle(loop)
    assert Worker.born > 10
    # A message that was in the inbox when its incarnation exited is a dead letter; all others were handled.
    dead = {letter[2] for letter in diary.dead}
    for me in range(3):
        handled = [what for _, what in book if what[0] == me]
        assert handled == [what for what in accepted[me] if what not in dead]
    numbers = [number for number, _ in book]
    assert numbers == sorted(numbers)  # a newer message never reaches an older incarnation


async def test_blocking_asks_of_another_thread_reach_the_current_incarnation(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("worker").of(Worker, []))
    handle = root.handle(Worker, "worker")

    def work() -> list[int]:
        found = [handle.incarnation.blocking()]
        handle.crash()
        while True:
            try:
                found.append(handle.incarnation.blocking())
            except (NoSuchActorError, TargetEndedError):
                continue
            return found

    assert await asyncio.to_thread(work) == [1, 2]


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
def test_a_handle_does_not_reach_a_child_of_another_class(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("pet").of(Cat)]))
    cat = root.handle(Cat, "pet")

    def replace(kind: type[Actor]) -> None:
        root.stop_child("pet")
        root.delete_child("pet")
        root.start_child(child("pet").of(kind))
        settle(loop)

    assert answer(loop, cat.sound()) == "meow of a Cat"
    replace(Dog)
    assert not is_alive(cat)
    with pytest.raises(NoSuchActorError):
        answer(loop, cat.sound())
    assert answer(loop, root.handle(Dog, "pet").sound()) == "woof"
    # The handle means the child of that name, if it is of its class.
    replace(Kitten)
    assert answer(loop, cat.sound()) == "meow of a Kitten"


class Parent(Actor):
    heard: list[Any]

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def on_signal(self, signal: object, /) -> None:
        self.heard.append(signal)

    @tell
    def fail(self) -> None:
        raise ValueError


@pytest.mark.guarantee("G67")
def test_a_supervised_actor_as_supervisor_option_means_its_current_incarnation(loop: ActorSystem) -> None:
    heard: list[Any] = []
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("parent").of(Parent, heard)]))
    parent = root.handle(Parent, "parent")
    options = loop.options(supervisor=parent)
    parent.fail()
    loop.run(until_idle=True)
    options.spawn(Dog).stop()
    loop.run(until_idle=True)
    assert [type(signal) for signal in heard] == [ChildExit]
