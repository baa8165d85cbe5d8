"""Actor classes derived from others: what can be inherited, overridden and mixed in, and what cannot."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core import Lane
from bandstand.errors import DeclarationError
from tests.actor.answers import answer
from tests.actor.declaring import Book, class_with, nothing

pytestmark = pytest.mark.guarantee("G58")


def test_messages_are_inherited_and_overridden_with_their_decorators(loop: ActorSystem) -> None:
    lines: list[object] = []

    class Loud(Book):
        @tell
        def low(self, line: object = "loud") -> None:
            super().low(line)
            self.lines.append("!")

        @ask
        def low_ask(self) -> int:
            # Inside the actor it is a plain call, although type checkers see an ask.
            inherited: Any = super().low_ask()
            return -int(inherited)

    class Urgent(Book):
        @tell(lane=Lane.CONTROL)
        def low(self, line: object = "urgent") -> None:
            super().low(line)

    loud = loop.spawn(Loud, lines)
    loud.low()
    loud.middle()
    assert answer(loop, loud.low_ask()) == -4
    assert lines == ["middle", "loud", "!", "low ask"]
    lines.clear()
    urgent = loop.spawn(Urgent, lines)
    urgent.middle()
    urgent.low()
    loop.run(until_idle=True)
    assert lines == ["urgent", "middle"]


@pytest.mark.parametrize("override", [nothing, None, 5, property(nothing), staticmethod(nothing)], ids=repr)
def test_an_override_without_a_decorator_is_refused(override: object) -> None:
    with pytest.raises(
        DeclarationError,
        match=r"Made\.high overrides .*Book\.high on lane CONTROL.* without a decorator: add @tell\(lane=Lane\.CONTROL\)",
    ):
        class_with("high", override, Book)
    with pytest.raises(DeclarationError, match=r"Made\.low_ask overrides .* without a decorator: add @ask"):
        class_with("low_ask", override, Book)


def test_an_override_stays_one_way_or_an_ask() -> None:
    """Otherwise a handle typed as the base class would not do what its type says."""
    with pytest.raises(DeclarationError, match=r"Made\.low\b.*ask"):
        class_with("low", ask(nothing), Book)
    with pytest.raises(DeclarationError, match=r"Made\.low_ask\b.*ask"):
        class_with("low_ask", tell(nothing), Book)


class Mixin:
    """Not an actor itself, but declares a message."""

    lines: list[object]

    @tell(lane=Lane.CONTROL)
    def mixed(self) -> None:
        self.lines.append("mixed")


def test_a_mixin_can_declare_messages(loop: ActorSystem) -> None:
    lines: list[object] = []

    class Both(Mixin, Book):
        pass

    both = loop.spawn(Both, lines)
    both.low()
    both.mixed()
    loop.run(until_idle=True)
    assert lines == ["mixed", "low"]


def test_a_mixin_must_not_hide_a_message() -> None:
    class Cover:
        def low(self, line: object = "covered") -> None: ...

    with pytest.raises(DeclarationError, match=r"Covered\.low overrides .* without a decorator"):
        type("Covered", (Cover, Book), {})
    # After the class in the MRO it hides nothing.
    type("Behind", (Book, Cover), {})


def test_a_class_may_be_a_dataclass_be_abstract_or_have_its_own_options(loop: ActorSystem) -> None:
    options: list[object] = []

    class Optional:
        def __init_subclass__(cls, *, color: str, **others: Any) -> None:
            super().__init_subclass__(**others)
            options.append(color)

    @dataclass
    class Point(Actor, Optional, ABC, color="red", ask_timeout=0.007):
        x: int
        y: int = 2

        @ask
        def both(self) -> tuple[int, int]:
            return self.x, self.y

    assert answer(loop, loop.spawn(Point, 1).both()) == (1, 2)
    assert options == ["red"]
