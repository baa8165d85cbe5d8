"""State machines: dispatch by state, the steps of a transition, timeouts, and postponed messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from bandstand.actor import ActorSystem, Machine, Stash, State, ask, child, is_alive, status_of, tell
from bandstand.core.events import RuntimeEvent, Unhandled
from bandstand.errors import (
    ActorFailedError,
    InvalidArgumentError,
    InvalidTransitionError,
    NotInThisStateError,
    StartError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.testing import VirtualClock
from tests.actor.asking import outcome, watch
from tests.actor.players import Book, elsewhere, spin
from tests.actor.workers import one_for_one
from tests.core.support import Boom, settle


class Door(Machine):
    """Closed, opened for 5 s, or locked; a locked door postpones pushes."""

    def __init__(self, book: list[Any]) -> None:
        self.book = book

    @tell
    def push(self, who: str = "somebody") -> None: ...

    @tell
    def turn_key(self) -> None:
        self.book.append(f"key in {self.state.name}")

    @ask
    def look(self) -> str:
        """Look through it."""
        raise NotImplementedError

    @ask
    async def knock(self) -> str:
        return f"knock at {self.state.name}"

    @tell
    def go(self, state: State, *, push: bool = False) -> None:
        self.become(state, push=push)

    @tell
    def back(self) -> None:
        self.unbecome()

    closed = State()
    opened = State(timeout=5.0)
    locked = State(postpones=(push, look), ignores=(turn_key,))

    @closed.on(push)
    def open_it(self, who: str = "somebody") -> None:
        self.become(Door.opened)
        self.book.append(f"{who} opens, now {self.state.name}")

    @opened.on(push)
    async def close_it(self, who: str = "somebody") -> None:
        await asyncio.sleep(0)
        self.book.append(f"{who} closes")
        self.become(Door.closed)

    @opened.on(look)
    def see(self) -> str:
        return "a room"

    @opened.on(knock)
    def answer_plainly(self) -> str:
        return "come in"

    @opened.timeout
    def shut(self) -> None:
        self.book.append("timeout")
        self.become(Door.closed)

    @closed.enter
    def on_closed(self) -> None:
        self.book.append("+closed")

    @closed.leave
    def off_closed(self) -> None:
        self.book.append("-closed")

    @opened.enter
    def on_opened(self) -> None:
        self.book.append("+opened")

    @opened.leave
    def off_opened(self) -> None:
        self.book.append("-opened")


@pytest.fixture
def told(loop: ActorSystem) -> list[RuntimeEvent]:
    events: list[RuntimeEvent] = []
    loop.events.listen(events.append)
    return events


@pytest.mark.guarantee("G238")
def test_a_message_is_handled_by_the_state_or_by_the_declared_method(
    loop: ActorSystem, book: Book, told: list[RuntimeEvent]
) -> None:
    door = loop.spawn(Door, book)
    door.turn_key()
    door.push("Ann")
    door.turn_key()
    settle(loop)
    assert book == [
        "+closed",
        "key in closed",
        "-closed",
        "+opened",
        "Ann opens, now opened",
        "key in opened",
    ]
    door.go(Door.locked)
    door.turn_key()
    settle(loop)
    assert (book[6:], told) == (["-opened"], []), "it is ignored"


@pytest.mark.guarantee("G238")
async def test_asks_and_coroutines_depend_on_the_state(virtual_system: ActorSystem, book: Book) -> None:
    door = virtual_system.spawn(Door, book)
    assert await door.knock() == "knock at closed"
    door.push()
    assert (await door.look(), await door.knock()) == ("a room", "come in")
    door.push(who="Bob")
    assert await door.knock() == "knock at closed"
    assert book[-3:] == ["Bob closes", "-opened", "+closed"]
    assert (await status_of(door)).state == "closed"


@pytest.mark.guarantee("G238")
def test_an_unhandled_message_is_reported(loop: ActorSystem, told: list[RuntimeEvent]) -> None:
    class Wall(Machine):
        @tell
        def hit(self, hard: int) -> None: ...

        @tell
        async def scratch(self) -> None: ...

        @ask
        def height(self, *, unit: str) -> int:
            raise NotImplementedError

        standing = State()

    wall = loop.options(name="wall").spawn(Wall)
    wall.hit(3)
    wall.scratch()
    reply = wall.height(unit="m")
    settle(loop)
    with pytest.raises(NotInThisStateError, match=r"does not answer .*Wall\.height\(\) in state standing"):
        reply.result()
    assert [(event.name, event.data) for event in told if isinstance(event, Unhandled)] == [
        ("wall", 3),
        ("wall", None),
        ("wall", None),
    ]
    assert is_alive(wall)
    assert loop.ask_statistics().unhandled == 3
    assert loop.ask_statistics().failed == 1


@pytest.mark.guarantee("G238")
async def test_a_refusal_of_another_machine_is_not_an_answer_of_this_one(virtual_system: ActorSystem) -> None:
    class Passing(Machine):
        def __init__(self, door: Door) -> None:
            self.door = door

        @ask
        async def look(self) -> str:
            return await self.door.look()

        @ask(raises=NotInThisStateError)
        async def look_bravely(self) -> str:
            return await self.door.look()

        only = State()

    door = virtual_system.spawn(Door, [])
    passing = virtual_system.spawn(Passing, door)
    assert isinstance(await outcome(passing.look_bravely()), NotInThisStateError)
    assert is_alive(passing)
    failed = await outcome(passing.look())
    assert isinstance(failed, TargetEndedError)
    assert isinstance(failed.__cause__, ActorFailedError)


@pytest.mark.guarantee("G239")
@pytest.mark.parametrize("hook", ["enter", "leave"])
def test_a_hook_cannot_start_a_transition(loop: ActorSystem, hook: str) -> None:
    errors: list[str] = []

    class Restless(Machine):
        @tell
        def go(self) -> None:
            self.become(Restless.second)

        first = State()
        second = State()

        def move(self) -> None:
            with pytest.raises(InvalidTransitionError) as caught:
                self.become(Restless.first)
            errors.append(str(caught.value))

        @first.leave
        def leave_first(self) -> None:
            if hook == "leave":
                self.move()

        @second.enter
        def enter_second(self) -> None:
            if hook == "enter":
                self.move()

    restless = loop.spawn(Restless)
    restless.go()
    settle(loop)
    assert is_alive(restless)
    assert "in the middle of a transition" in errors[0]


@pytest.mark.guarantee("G239")
def test_a_state_of_another_class_is_refused(loop: ActorSystem) -> None:
    class Other(Machine):
        closed = State()

    foreign: Any
    for foreign in (Other.closed, State(), "closed", None):
        door = loop.spawn(Door, [])
        door.go(foreign)
        reply = door.knock()
        settle(loop)
        with pytest.raises(
            TargetEndedError, match="is not a state of Door: it has closed, opened, locked"
        ) as caught:
            reply.result()
        assert isinstance(caught.value.__cause__, InvalidArgumentError)


@pytest.mark.guarantee("G240", "G242")
def test_the_numbers_of_pushed_states_and_of_postponed_messages_are_bounded(loop: ActorSystem) -> None:
    class Small(Door, postpone_limit=2):
        pass

    door = loop.spawn(Door, [])
    for _ in range(32):
        door.go(Door.closed, push=True)
    settle(loop)
    assert is_alive(door)
    door.go(Door.closed, push=True)
    settle(loop)
    assert not is_alive(door)
    small = loop.spawn(Small, [])
    small.go(Small.locked)
    for is_room in (True, True, False):
        small.push()
        spin(loop)
        assert is_alive(small) is is_room


@pytest.mark.guarantee("G241")
def test_a_timeout_in_the_mailbox_does_nothing_after_a_transition(
    loop: ActorSystem, clock: VirtualClock, book: Book
) -> None:
    door = loop.spawn(Door, book)
    door.go(Door.opened)
    settle(loop)
    # Ahead of the timeout, which is due and waits in the mailbox.
    door.go(Door.opened)
    clock.advance(5.0)
    settle(loop)
    assert "timeout" not in book
    assert book.count("+opened") == 2
    clock.advance(5.0)
    settle(loop)
    assert book.count("timeout") == 1


@pytest.mark.guarantee("G242")
def test_a_machine_may_also_have_stashes(loop: ActorSystem, book: Book) -> None:
    class Careful(Door):
        def __init__(self, book: list[Any]) -> None:
            super().__init__(book)
            self.aside = Stash(self)

        @Door.closed.on(Door.push)
        def not_yet(self, who: str = "somebody") -> None:
            self.aside.keep()

        @Door.locked.enter
        def let_in(self) -> None:
            book.append(self.aside.release())

    careful = loop.spawn(Careful, book)
    careful.push("Ann")
    careful.go(Careful.locked)
    settle(loop)
    assert book == ["+closed", "-closed", 1]
    # `Door` itself is unchanged.
    other: list[Any] = []
    loop.spawn(Door, other).push("Ann")
    settle(loop)
    assert other[-1] == "Ann opens, now opened"


@pytest.mark.guarantee("G243")
def test_a_restarted_machine_starts_in_the_initial_state(loop: ActorSystem, clock: VirtualClock) -> None:
    book: list[Any] = []
    root = one_for_one(loop, child("door").of(Door, book))
    settle(loop)
    door = root.handle(Door, "door")
    door.push()
    door.go(Door.locked, push=True)
    settle(loop)
    door.back()
    door.back()
    settle(loop)
    assert book[-1] == "+closed"
    door.turn_key()
    settle(loop)
    assert book[-1] == "key in closed"


@pytest.mark.guarantee("G243")
def test_on_start_may_choose_the_initial_state(loop: ActorSystem, book: Book) -> None:
    class Ajar(Door):
        def on_start(self) -> None:
            self.book.append("start")
            self.become(Door.opened)
            assert self.state is Door.opened

    class Last(Door):
        late = State(initial=True)

    loop.spawn(Ajar, book)
    assert book == ["start", "+opened"]
    door = loop.spawn(Last, book)
    door.turn_key()
    settle(loop)
    assert book[2:] == ["key in late"]


@pytest.mark.guarantee("G243")
def test_a_failing_enter_hook_of_the_initial_state_fails_the_start(loop: ActorSystem) -> None:
    class Stuck(Machine):
        only = State()

        @only.enter
        def fail(self) -> None:
            raise Boom("stuck")

    with pytest.raises(StartError) as caught:
        loop.spawn(Stuck)
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.guarantee("G239")
@pytest.mark.parametrize("hook", ["leave", "enter"])
@pytest.mark.parametrize("way", ["declared", "declared_later", "swallowed"])
async def test_a_failing_hook_fails_the_machine(virtual_system: ActorSystem, way: str, hook: str) -> None:
    class Fragile(Machine):
        @ask(raises=LookupError)
        def declared(self) -> None:
            self.become(Fragile.second)

        @ask(raises=LookupError)
        async def declared_later(self) -> None:
            await asyncio.sleep(0)
            self.become(Fragile.second)

        @ask
        def swallowed(self) -> None:
            with suppress(LookupError):
                self.become(Fragile.second)

        @ask
        def held(self) -> None: ...

        first = State(postpones=(held,))
        second = State()

        @first.leave
        def go(self) -> None:
            if hook == "leave":
                raise LookupError("fragile")

        @second.enter
        def come(self) -> None:
            if hook == "enter":
                raise LookupError("fragile")

    fragile = virtual_system.spawn(Fragile)
    held = watch(fragile.held())
    await outcome(getattr(fragile, way)())
    error = await held
    assert isinstance(error, TargetEndedError)
    assert isinstance(error.__cause__, LookupError)
    assert not is_alive(fragile)


@pytest.mark.guarantee("G239")
def test_another_thread_cannot_change_the_state(loop: ActorSystem) -> None:
    machines: list[Machine] = []

    class Loose(Machine):
        first = State()
        second = State()

        def on_start(self) -> None:
            machines.append(self)

    loop.spawn(Loose)
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: machines[0].become(Loose.second))
    assert machines[0].state is Loose.first
