"""Classes of all kinds that Python knows can be actors."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest

from bandstand.actor import Actor, Loop, ask, child, data, supervised
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.actor.answers import answer

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
class Slim(Actor, ask_ms=70):
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

    @data
    def set(self, x: int) -> None:
        self.x = x

    @ask
    def value(self) -> int:
        return self.x


def test_a_generic_class_is_one_with_its_arguments_and_without(loop: Loop) -> None:
    assert answer(loop, loop.spawn(Holder, "a").value()) == "a"
    assert answer(loop, loop.spawn(Holder[str], "b").value()) == "b"
    assert answer(loop, loop.options(name="c").spawn(Holder[str], "c").value()) == "c"


def test_a_generic_class_under_a_supervisor(loop: Loop) -> None:
    spec = SupervisorSpec(children=[child("holder").of(Holder[int], 7)])
    handle = supervised(spawn_supervisor(loop, spec), Holder[int], "holder")
    assert answer(loop, handle.value()) == 7


def test_an_abstract_class_cannot_be_made_and_one_that_is_whole_can(loop: Loop) -> None:
    assert answer(loop, loop.spawn(Square).value()) == 4
    with pytest.raises(TypeError, match="abstract"):
        loop.spawn(Shape)
    assert loop.statistics().alive == 1


def test_dataclasses_and_classes_with_slots(loop: Loop) -> None:
    assert answer(loop, loop.spawn(Point).value()) == 3
    assert answer(loop, loop.spawn(Point, x=5).value()) == 5
    assert answer(loop, loop.spawn(Slim).value()) == 3
    assert answer(loop, loop.spawn(Slim, x=5).value()) == 5
    assert answer(loop, loop.spawn(Slotted).value()) == 3
    assert answer(loop, loop.spawn(Slotted, x=5).value()) == 5


def test_what_a_class_says_stays_when_it_is_made_once_more() -> None:
    """`@dataclass(slots=True)` makes the class again."""
    assert Slim.__actor_ask_ms__ == 70
