"""What once went wrong with classes, declarations and what callers see."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pytest

from bandstand.actor import Actor, Loop, Reply, ask, is_alive
from bandstand.core import Context
from bandstand.errors import BadDeclaration, InvalidArgument
from bandstand.testing import VirtualClock
from tests.actor.abroad import looping, staged
from tests.actor.answers import answer
from tests.actor.asking import Oracle, Play, in_time, outcome, turns
from tests.actor.players import Book, Noter
from tests.core.stage import HostFactory, settle

T = TypeVar("T")


@pytest.fixture
def play(clock: VirtualClock) -> Play:
    return in_time(clock)


# --- what can be spawned ------------------------------------------------------------------------------------------------


def no_arguments() -> Oracle:
    return Oracle()


def one_argument(log: list[str]) -> Oracle:
    return Oracle(log)


FACTORIES: dict[str, Callable[[], Any]] = {
    "function": lambda: no_arguments,
    "function of one": lambda: one_argument,
    "lambda": lambda: lambda: Oracle([]),
    "partial": lambda: partial(Oracle, []),
    "object": Oracle,
}


@pytest.mark.guarantee("G58")
@pytest.mark.parametrize("name", FACTORIES)
def test_what_makes_an_actor_is_no_behavior(loop: Loop, name: str) -> None:
    spawn: Any = loop.spawn
    with pytest.raises(InvalidArgument, match="pass the class"):
        spawn(FACTORIES[name]())
    assert loop.statistics().spawned == 0


def plain(ctx: Context[Any], message: Book) -> None:
    message.append("plain")


def any_number(*both: Any) -> None:
    both[1].append("any number")


class Performing:
    def __call__(self, ctx: Context[Any], message: Book) -> None:
        message.append("object")


def test_whatever_takes_a_context_and_a_message_still_is_one(loop: Loop) -> None:
    seen: Book = []
    behaviors: list[Any] = [
        plain,
        any_number,
        Performing(),
        Performing().__call__,
        partial(plain),
    ]
    for behavior in behaviors:
        loop.send(loop.spawn(behavior), seen)
    settle(loop)
    assert seen == ["plain", "any number", "object", "object", "plain"]


@dataclass(frozen=True)
class Frozen(Actor):
    start: int = 3

    @ask
    def value(self) -> int:
        return self.start

    @ask
    async def of_child(self) -> int:
        return await self.spawn(Frozen, self.start + 1).value()


class ReadOnly(Actor):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is read only")

    @ask
    def value(self) -> int:
        return 1


@pytest.mark.guarantee("G58")
def test_an_object_that_refuses_attributes_can_be_an_actor_and_have_children(play: Play) -> None:
    async def story(loop: Loop) -> None:
        frozen = loop.spawn(Frozen, 5)
        assert await frozen.value() == 5
        assert await frozen.of_child() == 6
        assert await loop.spawn(ReadOnly).value() == 1

    play(story)


class Box(Actor, Generic[T]):
    def __init__(self, thing: T) -> None:
        self.thing = thing

    @ask
    def value(self) -> T:
        return self.thing


@pytest.mark.guarantee("G58")
def test_a_generic_class_is_spawned_with_its_arguments_or_without(loop: Loop) -> None:
    boxes = [loop.spawn(Box[int], 4), loop.options(name="box").spawn(Box[int], 4), loop.spawn(Box, 4)]
    assert [answer(loop, box.value()) for box in boxes] == [4, 4, 4]


# --- what can be declared -----------------------------------------------------------------------------------------------


def without_arguments(self: Any) -> None: ...


def with_one(self: Any, first: Any) -> None: ...


def with_two(self: Any, first: Any, second: Any) -> None: ...


def with_three(self: Any, first: Any, second: Any, third: Any) -> None: ...


def with_named(self: Any, *, reason: Any, cause: Any) -> None: ...


def with_any(self: Any, *others: Any) -> None: ...


def with_more(self: Any, first: Any = None, second: Any = None, third: Any = None) -> None: ...


WRONG = {
    "on_start": (with_one, with_two, with_named),
    "on_stop": (without_arguments, with_one, with_three, with_named),
    "on_signal": (without_arguments, with_two, with_named),
}


@pytest.mark.guarantee("G65")
@pytest.mark.parametrize(("name", "hook"), [(name, hook) for name, hooks in WRONG.items() for hook in hooks])
def test_a_hook_that_could_not_be_called_is_refused_with_its_class(
    name: str, hook: Callable[..., Any]
) -> None:
    with pytest.raises(BadDeclaration, match=name):
        type("Wrong", (Actor,), {name: hook})


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("hook", [with_any, with_more])
def test_a_hook_that_takes_more_than_it_needs_is_none_of_our_business(
    name: str, hook: Callable[..., Any]
) -> None:
    type("Right", (Actor,), {name: hook})


# --- what callers see ---------------------------------------------------------------------------------------------------


class Wrapped(Actor):
    """Its plain methods return coroutines, as those do that a careless decorator has wrapped."""

    def __init__(self, gate: Event | None = None) -> None:
        self.gate = gate
        self.log: Book = []

    async def _work(self, value: int) -> int:
        if self.gate is not None:
            try:
                await self.gate.wait()
            finally:
                self.log.append("gone")
        if value < 0:
            raise LookupError(value)
        return value

    @ask
    def value(self, value: int) -> int:
        work: Any = self._work(value)
        return work  # type: ignore[no-any-return]  # what checkers would refuse

    @ask(raises=LookupError)
    def declared(self, value: int) -> int:
        work: Any = self._work(value)
        return work  # type: ignore[no-any-return]  # likewise

    @ask
    def seen(self) -> Book:
        return self.log


@pytest.mark.guarantee("G60")
def test_a_coroutine_that_a_plain_handler_returns_is_performed_and_not_the_answer(play: Play) -> None:
    async def story(loop: Loop) -> None:
        wrapped = loop.spawn(Wrapped)
        assert await wrapped.value(7) == 7
        assert await wrapped.declared(8) == 8
        error = await outcome(wrapped.declared(-1))
        assert isinstance(error, LookupError)
        assert is_alive(wrapped)

        gate = Event()
        waiting = loop.spawn(Wrapped, gate)
        reply = waiting.value(9)
        await turns()
        assert not reply.done()
        reply.cancel()
        assert await waiting.seen() == ["gone"]

    play(story)


def refuse_truth(reply: Reply[Any]) -> None:
    truth: Callable[[object], bool] = bool
    with pytest.raises(TypeError, match="await it"):
        truth(reply)


@pytest.mark.guarantee("G60")
def test_a_reply_is_neither_true_nor_false(loop: Loop) -> None:
    oracle = loop.spawn(Oracle)
    reply = oracle.plain(1)
    refuse_truth(reply)
    assert answer(loop, reply) == 1
    refuse_truth(reply)
    refuse_truth(oracle.ended())


@pytest.mark.guarantee("G60")
def test_a_reply_on_another_thread_is_neither_true_nor_false(loop_factory: HostFactory) -> None:
    with staged(loop_factory) as stage:
        oracle = stage.do(lambda: stage.loop.spawn(Oracle))

        async def main() -> int:
            reply = oracle.plain(2)
            refuse_truth(reply)
            return await reply

        assert looping(main) == 2


@pytest.mark.guarantee("G59")
def test_a_handle_lists_what_can_be_used_on_it(loop: Loop) -> None:
    handle = loop.spawn(Noter, [])
    assert dir(handle) == sorted(["count", "crash", "ended", "kill", "leave", "me", "note", "stop", "urgent"])
    for name in dir(handle):
        assert getattr(handle, name) is not None
