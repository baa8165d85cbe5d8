"""Inside and outside: a handle hides what is the actor's own, and says so; inside, a method is a method."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Self

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.errors import InvalidArgumentError, LoopBusyError
from tests.actor.answers import answer
from tests.actor.players import Noter
from tests.actor.shapes import Shapes

pytestmark = pytest.mark.guarantee("G58")

# --- what a handle does not show ------------------------------------------------------------------------------------------


class Family(Shapes):
    """Has something of everything that is nobody else's business."""

    constant = 5
    annotated: int = 6
    _private = 7

    def on_start(self) -> None:
        self.started = True

    @property
    def size(self) -> int:
        return 8

    @classmethod
    def make(cls) -> None: ...

    @staticmethod
    def free() -> None: ...


OWN = (
    "inner",
    "kind",
    "constant",
    "annotated",
    "_private",
    "size",
    "make",
    "free",
    "on_start",
    "on_stop",
    "on_signal",
)
TOOLS = ("after", "every", "every_after", "background", "spawn", "options")


@pytest.mark.parametrize("name", [*OWN, *TOOLS])
def test_what_is_the_actors_own_is_hidden_with_an_explanation(loop: ActorSystem, name: str) -> None:
    handle = loop.spawn(Family)
    with pytest.raises(
        AttributeError, match=rf"a handle of Family has no '{name}': it belongs to the actor"
    ) as caught:
        getattr(handle, name)
    assert "add a method with @ask" in str(caught.value)
    assert caught.value.name == name
    assert not hasattr(handle, name)


@pytest.mark.parametrize("name", ["got", "started", "misspelt", "putt"])
def test_what_a_handle_does_not_know_is_an_attribute_error(loop: ActorSystem, name: str) -> None:
    handle: Any = loop.spawn(Family)
    with pytest.raises(AttributeError, match=name):
        getattr(handle, name)


@pytest.mark.parametrize("name", ["got", "kind", "put", "new", "me", "stop"])
def test_nothing_can_be_set_on_a_handle(loop: ActorSystem, name: str) -> None:
    handle: Any = loop.spawn(Family)
    with pytest.raises(AttributeError):
        setattr(handle, name, 5)
    with pytest.raises(AttributeError):
        delattr(handle, name)


def test_a_descriptor_that_works_only_on_objects_is_hidden(loop: ActorSystem) -> None:
    class Shy:
        def __get__(self, instance: object, owner: type | None = None) -> int:
            if instance is None:
                raise AttributeError("only on objects")
            return 5

    class Host(Actor):
        shy = Shy()

        @ask
        def look(self) -> int:
            return self.shy

    handle = loop.spawn(Host)
    assert answer(loop, handle.look()) == 5
    with pytest.raises(AttributeError, match="it belongs to the actor"):
        _ = handle.shy


# --- inside -----------------------------------------------------------------------------------------------------------------


class Inside(Actor):
    def __init__(self) -> None:
        self.lines: list[object] = []
        self.refused = ""
        try:
            self.me.note("too early")
        except LoopBusyError as error:
            self.refused = str(error)

    @tell
    def note(self, line: object) -> None:
        self.lines.append(line)

    @ask
    async def late(self) -> int:
        await asyncio.sleep(0)
        return 7

    @ask
    def both_ways(self) -> list[object]:
        self.me.note("sent")
        self.note("called")
        plain: Any = self.note
        plain("called again")
        assert not hasattr(plain, "try_send")
        return list(self.lines)

    @ask
    async def sum(self) -> int:
        # Inside it is a coroutine, not a reply: no deadline, no cycle.
        return 1 + await self.late()

    @ask
    def all(self) -> list[object]:
        return self.lines

    @ask
    def excuse(self) -> str:
        return self.refused


def test_inside_a_method_is_called_and_not_sent(loop: ActorSystem) -> None:
    handle = loop.spawn(Inside)
    assert answer(loop, handle.both_ways()) == ["called", "called again"]
    assert answer(loop, handle.all()) == ["called", "called again", "sent"]
    assert answer(loop, handle.sum()) == 8
    assert loop.ask_statistics().asked == 3


def test_an_object_has_no_handle_before_it_runs_as_an_actor(loop: ActorSystem) -> None:
    assert "has a handle from on_start() on" in answer(loop, loop.spawn(Inside).excuse())
    alone = Inside()
    for use in (
        lambda: alone.me,
        lambda: alone.after(0.001, alone.note, 1),
        lambda: alone.spawn(Inside),
        alone.stop,
        alone.kill,
    ):
        with pytest.raises(LoopBusyError, match="this Inside does not run as an actor"):
            use()


def test_a_call_that_comes_later_gets_its_arguments_whatever_their_names(loop: ActorSystem) -> None:
    class Later(Actor):
        def __init__(self, got: list[object]) -> None:
            self.got = got

        @tell
        def begin(self) -> None:
            self.after(0.001, self.take, ms=2, method=3)
            self.every(0.002, self.take, method=4, ms=5)
            self.every_after(0.003, self.end, ms=6)

        def take(self, ms: int, method: int) -> None:
            self.got.append((ms, method))

        def end(self, ms: int) -> None:
            self.got.append(ms)
            self.stop()

    got: list[object] = []
    later = loop.spawn(Later, got)
    later.begin()
    loop.run(until_idle=True)
    assert got == [(2, 3), (5, 4), 6]


def test_an_actor_cannot_wait_for_its_own_end(loop: ActorSystem) -> None:
    class Waiter(Actor):
        @ask
        def wait(self) -> str:
            with pytest.raises(LoopBusyError, match="cannot wait for its own end"):
                _ = self.ended
            return "went on"

    assert answer(loop, loop.spawn(Waiter).wait()) == "went on"


def test_an_object_is_one_actor_at_most(loop: ActorSystem) -> None:
    class Single(Actor):
        known: ClassVar[list[Any]] = []

        def __new__(cls) -> Self:
            if not cls.known:
                cls.known.append(super().__new__(cls))
            first: Self = cls.known[0]
            return first

        @ask
        def self_of(self) -> object:
            return self.me

    single = loop.spawn(Single)
    with pytest.raises(InvalidArgumentError, match="Single"):
        loop.spawn(Single)
    assert answer(loop, single.self_of()) == single


def test_what_a_class_makes_is_an_actor(loop: ActorSystem) -> None:
    def make(cls: type) -> int:
        return 5

    other: Any = type("Other", (Actor,), {"__new__": make})
    with pytest.raises(InvalidArgumentError, match="Other"):
        loop.spawn(other)


def test_a_constructor_gets_its_arguments_whatever_their_names(loop: ActorSystem) -> None:
    class Made(Actor):
        def __init__(
            self, kind: int, /, name: str = "", *rest: int, supervisor: int = 0, **others: object
        ) -> None:
            self.arguments = (kind, name, rest, supervisor, others)

        @ask
        def all(self) -> object:
            return self.arguments

    every = {
        "loop": 1,
        "mailbox": 2,
        "overflow": 3,
        "ask_ms": 4,
        "args": 5,
        "kwargs": 6,
        "state": 7,
        "behavior": 8,
    }
    expected = (1, "n", (2, 3), 9, every)
    assert answer(loop, loop.spawn(Made, 1, "n", 2, 3, supervisor=9, **every).all()) == expected
    assert (
        answer(loop, loop.options(name="x").spawn(Made, 1, "n", 2, 3, supervisor=9, **every).all())
        == expected
    )
    wrong: Any = loop
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'kind'"):
        wrong.spawn(Made)
    assert loop.statistics().spawned == 2


@pytest.mark.guarantee("G59")
def test_dir_of_a_handle_lists_its_messages_and_members(loop: ActorSystem) -> None:
    handle = loop.spawn(Noter, [])
    assert dir(handle) == sorted(["count", "crash", "ended", "kill", "leave", "me", "note", "stop", "urgent"])
    for name in dir(handle):
        assert getattr(handle, name) is not None
