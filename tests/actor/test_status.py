"""`ping`, `status_of` and `peek`."""

from __future__ import annotations

import asyncio
from asyncio import Event
from dataclasses import dataclass
from typing import Any

import pytest

from bandstand.actor import (
    Actor,
    ActorSystem,
    Implements,
    Interface,
    Machine,
    MessageActor,
    Stash,
    State,
    ask,
    on,
    peek,
    ping,
    status_of,
    tell,
)
from bandstand.core import ActorStatus, Context, Lane
from bandstand.errors import (
    AskTimeoutError,
    InvalidArgumentError,
    NoSuchActorError,
    TargetEndedError,
    WrongThreadError,
)
from tests.actor.asking import outcome, turns, watch
from tests.actor.players import Book, elsewhere
from tests.core.support import settle


class Busy(Actor):
    def __init__(self, book: list[Any] | None = None) -> None:
        self.book: list[Any] = [] if book is None else book
        self.aside = Stash(self)

    @tell
    def note(self, what: object) -> None:
        self.book.append(what)

    @tell(lane=Lane.MANAGEMENT)
    def manage(self, what: object) -> None:
        self.book.append(what)

    @tell
    def keep(self) -> None:
        self.aside.keep()

    @tell
    async def hold(self, gate: Event) -> None:
        await gate.wait()

    @ask
    async def wait_for(self, other: Busy, gate: Event) -> None:
        await other.held(gate)

    @ask
    async def held(self, gate: Event) -> None:
        await gate.wait()

    @tell
    def work(self, gate: Event) -> None:
        self.background(gate.wait())


class Named(Interface):
    @ask
    def name(self) -> str: ...  # type: ignore[empty-body]  # an interface


class Quiet(Implements[Named]):
    def name(self) -> str:
        return "quiet"


@dataclass
class Word:
    text: str


class Talker(MessageActor[Word]):
    @on(Word)
    def hear(self, word: Word) -> None: ...


class Lamp(Machine):
    off = State()


@pytest.mark.guarantee("G248")
@pytest.mark.parametrize("kind", [Busy, Quiet, Talker, Lamp])
async def test_every_kind_of_typed_actor_answers(virtual_system: ActorSystem, kind: type[Any]) -> None:
    handle: Any = virtual_system.options(name="one").spawn(kind)
    await ping(handle)
    report = await status_of(handle)
    assert (report.name, report.kind, report.status) == ("one", kind.__qualname__, ActorStatus.RUNNING)
    assert report.state == ("off" if kind is Lamp else None)
    assert (report.waiting, report.kept, report.handling, report.waits_for, report.children) == (
        0,
        0,
        None,
        (),
        (),
    )


@pytest.mark.guarantee("G248")
def test_inquiries_use_the_management_lane(loop: ActorSystem, book: Book) -> None:
    busy = loop.spawn(Busy, book)
    busy.note(1)
    busy.note(2)
    busy.keep()
    busy.manage("first")
    reply = status_of(busy)
    settle(loop)
    report = reply.result()
    # Before DATA, in the order of its own lane; nothing else had been handled.
    assert (report.waiting_data, report.waiting_management, report.waiting, report.kept) == (3, 0, 3, 0)
    again = status_of(busy)
    settle(loop)
    assert again.result().kept == 1


@pytest.mark.guarantee("G248")
async def test_a_stuck_actor_does_not_answer_and_is_named(virtual_system: ActorSystem) -> None:
    busy = virtual_system.options(name="stuck one", ask_timeout=None).spawn(Busy)
    gate = Event()
    busy.hold(gate)
    await turns()
    error = await outcome(ping(busy, timeout=0.03))
    assert isinstance(error, AskTimeoutError)
    assert "'stuck one'" in str(error)
    assert "actor.ping()" in str(error)
    # Also if asks of the class have no deadline.
    assert isinstance(await outcome(status_of(busy)), AskTimeoutError)
    gate.set()
    await ping(busy)


@pytest.mark.guarantee("G248")
async def test_an_inquiry_ends_with_its_actor(virtual_system: ActorSystem) -> None:
    busy = virtual_system.spawn(Busy)
    busy.hold(Event())
    await turns()
    reply = watch(ping(busy))
    await turns()
    busy.stop()
    assert isinstance(await reply, TargetEndedError)
    with pytest.raises(NoSuchActorError):
        await ping(busy)


@pytest.mark.guarantee("G248")
async def test_inquiries_from_another_thread(loop: ActorSystem) -> None:
    busy = loop.options(name="far").spawn(Busy)
    loop_of_host = asyncio.get_running_loop()
    await loop_of_host.run_in_executor(None, ping.blocking, busy)
    report = await loop_of_host.run_in_executor(None, status_of.blocking, busy)
    assert report.name == "far"
    future = await loop_of_host.run_in_executor(None, status_of.future, busy)
    assert (await asyncio.wrap_future(future)).kind == "Busy"


@pytest.mark.guarantee("G248")
@pytest.mark.parametrize("what", [ping, status_of, ping.blocking, ping.future, peek])
def test_a_raw_actor_cannot_be_asked(loop: ActorSystem, what: Any) -> None:
    def raw(_ctx: Context[None], _data: object) -> None: ...

    with pytest.raises(InvalidArgumentError, match="is not the handle of a typed actor"):
        what(loop.spawn_raw(raw))
    assert repr(ping) == "<ping, an ask that every typed actor answers>"


@pytest.mark.guarantee("G249")
async def test_peek_shows_what_a_suspended_actor_is_doing(virtual_system: ActorSystem) -> None:
    a, b = (virtual_system.options(name=name).spawn(Busy) for name in "ab")
    gate = Event()
    a.work(gate)
    reply = watch(a.wait_for(b, gate))
    a.note("later")
    await asyncio.sleep(0.25)
    report = peek(a)
    assert report.handling == "Busy.wait_for()"
    assert [str(wait) for wait in report.waits_for] == ["a waits for b: Busy.held(), 250 ms"]
    assert report.waiting_data == 1
    assert len(report.children) == 1
    assert report.children[0].startswith("background")
    gate.set()
    await reply
    assert peek(a).handling is None


@pytest.mark.guarantee("G249")
def test_peek_at_an_ended_actor_or_from_another_thread_is_refused(loop: ActorSystem) -> None:
    busy = loop.spawn(Busy)
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: peek(busy))
    busy.kill()
    with pytest.raises(NoSuchActorError):
        peek(busy)
