"""Which classes can be actors: generic, abstract and frozen ones, dataclasses, classes with slots; and what is a behavior."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, tell
from bandstand.core import Context
from bandstand.errors import InvalidArgumentError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.actor.answers import answer
from tests.actor.asking import Oracle
from tests.actor.players import Book
from tests.core.support import settle

T = TypeVar("T")


class Holder(Actor, Generic[T]):
    def __init__(self, thing: T) -> None:
        self.thing = thing

    @ask
    def value(self) -> T:
        return self.thing


class Shape(Actor, ABC):
    @abstractmethod
    def area(self) -> int: ...

    @ask
    def value(self) -> int:
        return self.area()


class Square(Shape):
    def area(self) -> int:
        return 4


@dataclass
class Point(Actor):
    x: int = 3

    @ask
    def value(self) -> int:
        return self.x


@dataclass(slots=True)
class Slim(Actor, ask_timeout=0.07):
    x: int = 3

    @ask
    def value(self) -> int:
        return self.x

    async def on_start(self) -> None:
        await asyncio.sleep(0)


class Slotted(Actor):
    __slots__ = ("x",)

    def __init__(self, x: int = 3) -> None:
        self.x = x

    @tell
    def set(self, x: int) -> None:
        self.x = x

    @ask
    def value(self) -> int:
        return self.x


def test_a_generic_class_works_with_and_without_type_arguments(loop: ActorSystem) -> None:
    assert answer(loop, loop.spawn(Holder, "a").value()) == "a"
    assert answer(loop, loop.spawn(Holder[str], "b").value()) == "b"
    assert answer(loop, loop.options(name="c").spawn(Holder[str], "c").value()) == "c"
    spec = SupervisorSpec(children=[child("holder").of(Holder[int], 7)])
    handle = spawn_supervisor(loop, spec).handle(Holder[int], "holder")
    assert answer(loop, handle.value()) == 7


def test_an_abstract_class_cannot_be_spawned(loop: ActorSystem) -> None:
    assert answer(loop, loop.spawn(Square).value()) == 4
    with pytest.raises(TypeError, match="abstract"):
        loop.spawn(Shape)
    assert loop.statistics().alive == 1


def test_dataclasses_and_classes_with_slots(loop: ActorSystem) -> None:
    assert answer(loop, loop.spawn(Point).value()) == 3
    assert answer(loop, loop.spawn(Point, x=5).value()) == 5
    assert answer(loop, loop.spawn(Slim).value()) == 3
    assert answer(loop, loop.spawn(Slim, x=5).value()) == 5
    assert answer(loop, loop.spawn(Slotted).value()) == 3
    assert answer(loop, loop.spawn(Slotted, x=5).value()) == 5
    # `@dataclass(slots=True)` creates the class a second time.
    assert Slim.__actor_ask_ms__ == 70


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
def test_a_factory_of_typed_actors_is_not_a_behavior(loop: ActorSystem, name: str) -> None:
    spawn: Any = loop.spawn
    with pytest.raises(InvalidArgumentError, match="pass the class"):
        spawn(FACTORIES[name]())
    assert loop.statistics().spawned == 0


def plain(ctx: Context[Any], message: Book) -> None:
    message.append("plain")


def any_number(*both: Any) -> None:
    both[1].append("any number")


class CallableBehavior:
    def __call__(self, ctx: Context[Any], message: Book) -> None:
        message.append("object")


def test_any_callable_with_a_context_and_a_message_is_a_behavior(loop: ActorSystem) -> None:
    seen: Book = []
    behaviors: list[Any] = [
        plain,
        any_number,
        CallableBehavior(),
        CallableBehavior().__call__,
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
async def test_an_object_that_refuses_attributes_can_be_an_actor(virtual_system: ActorSystem) -> None:
    frozen = virtual_system.spawn(Frozen, 5)
    assert await frozen.value() == 5
    assert await frozen.of_child() == 6
    assert await virtual_system.spawn(ReadOnly).value() == 1
