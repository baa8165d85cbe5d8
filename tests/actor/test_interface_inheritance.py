"""Interfaces that extend others, implementations that derive from others, and generic classes in between."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, cast

import pytest

from bandstand.actor import ActorSystem, Implements, ask
from bandstand.errors import InvalidArgumentError
from tests.actor.answers import answer
from tests.actor.counting import Counter, Counting, implementing, refusal

pytestmark = [pytest.mark.guarantee("G58"), pytest.mark.spec("S11")]

T = TypeVar("T")


def test_an_interface_may_extend_another(loop: ActorSystem) -> None:
    class Wider(Counting, Protocol):
        @ask
        def twice(self) -> int: ...

    assert "has no method twice, which" in refusal(
        lambda: implementing(Wider, **{name: vars(Counter)[name] for name in ("add", "reset", "value")})
    )

    class Made(Counter, Implements[Wider]):
        def twice(self) -> int:
            return self.double()

    # For type checkers it implements the interface of its first base.
    made = cast("Wider", loop.spawn(Made, 4))
    made.add(1)
    assert answer(loop, made.twice()) == 10


def test_an_implementation_may_be_inherited_and_overridden(loop: ActorSystem) -> None:
    class Louder(Counter):
        def add(self, n: int, *, times: int = 1) -> None:
            super().add(2 * n, times=times)

    louder = loop.spawn(Louder, 1)
    louder.add(2, times=2)
    assert answer(loop, louder.value()) == 9


def test_an_override_of_an_implementation_is_checked_too() -> None:
    def add(self: object, m: int, *, times: int = 1) -> None: ...

    said = refusal(lambda: type("Wrong", (Counter,), {"add": add}))
    assert said.startswith("Wrong.add: parameter 1 is m, not n")
    assert "Wrong.add is " in refusal(lambda: type("Wrong", (Counter,), {"add": 5}))


def test_a_method_may_come_from_a_mixin_or_from_another_protocol(loop: ActorSystem) -> None:
    class Resets:
        total: int

        def reset(self) -> None:
            self.total = -1

    class Closable(Protocol):
        def close(self) -> None: ...

    class Made(Resets, Counter, Closable):
        def close(self) -> None: ...

    made = loop.spawn(Made)
    made.reset()
    assert answer(loop, made.value()) == -1


def test_an_implementation_may_derive_from_the_interface_too(loop: ActorSystem) -> None:
    class Made(Implements[Counting], Counting):
        def add(self, n: int, *, times: int = 1) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride,reportIncompatibleVariableOverride]  # unmarked
        def reset(self) -> None: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride,reportIncompatibleVariableOverride]  # unmarked
        def value(self, of: str = "total") -> int:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride,reportIncompatibleVariableOverride]  # unmarked
            return 4

    assert answer(loop, loop.spawn(Made).value()) == 4
    # Methods of the interface are declarations, not implementations.
    bases = (Implements[Counting], Counting)
    assert "has no method" in refusal(lambda: type("Lazy", (Implements, Counting), {"__orig_bases__": bases}))


I = TypeVar("I")  # noqa: E741  # I for interface


class Between(Implements[I], Generic[I]):
    """Leaves its interface open."""

    def reset(self) -> None:
        self.total = 0


def test_a_class_in_between_may_leave_the_interface_open(loop: ActorSystem) -> None:
    class Made(Between[Counting]):
        def __init__(self) -> None:
            self.total = 5

        def add(self, n: int, *, times: int = 1) -> None: ...
        def value(self, of: str = "total") -> int:
            return self.total

    made = loop.spawn(Made)
    made.reset()
    assert answer(loop, made.value()) == 0
    wrong: Any = Between
    with pytest.raises(InvalidArgumentError, match="is not an actor class"):
        loop.spawn(wrong)
    between: Any = Between[Counting]
    assert "has no method add" in refusal(lambda: type("Short", (Between,), {"__orig_bases__": (between,)}))


class Stored(Counter, Generic[T]):
    """Has a type variable that is not for the interface."""

    def keep(self, thing: T) -> T:
        return thing


class Both(Between[I], Generic[T, I]):
    """Has one that is for the interface, after one that is not."""

    def keep(self, thing: T) -> T:
        return thing


def test_other_type_variables_of_a_class_in_between_are_not_its_interface(loop: ActorSystem) -> None:
    class Texts(Stored[str]):
        pass

    texts = loop.spawn(Texts, 3)
    assert answer(loop, texts.value()) == 3

    class Made(Both[str, Counting]):
        def add(self, n: int, *, times: int = 1) -> None: ...
        def value(self, of: str = "total") -> int:
            return len(self.keep("four"))

    assert answer(loop, loop.spawn(Made).value()) == 4
