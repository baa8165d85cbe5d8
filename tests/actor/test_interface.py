"""Interfaces apart from their implementations: handles are typed as the interface, and a class that does not fit is refused.

Each error names the class, the method and the difference.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Optional, Protocol

import pytest

from bandstand import core
from bandstand.actor import ActorSystem, Implements, Interface, ask, is_alive, tell
from bandstand.actor.declaration import RESERVED_NAMES
from bandstand.core import Lane
from bandstand.errors import InvalidArgumentError, TargetEndedError
from tests.actor.answers import answer
from tests.actor.counting import Counter, Counting, implementing, refusal, without_decorators
from tests.actor.declaring import nothing

pytestmark = [pytest.mark.guarantee("G58"), pytest.mark.spec("S11")]


# --- valid implementations ------------------------------------------------------------------------------------------------


@pytest.mark.spec("S4")
def test_a_handle_has_what_the_interface_declares(loop: ActorSystem) -> None:
    lines: list[str] = []
    counter = loop.spawn(Counter, 5, lines)
    counter.add(2)
    counter.add(n=1, times=3)
    assert answer(loop, counter.value()) == 10
    lines.clear()
    counter.add(1)
    counter.reset()
    assert counter.add.try_send(1)
    loop.run(until_idle=True)
    # The interface sets the lane of a message.
    assert lines == ["reset", "add", "add"]
    assert answer(loop, counter.value(of="total")) == 2


def test_exceptions_declared_by_the_interface_are_answers(loop: ActorSystem) -> None:
    counter = loop.spawn(Counter)
    with pytest.raises(LookupError, match="mean"):
        answer(loop, counter.value("mean"))
    assert is_alive(counter)
    with pytest.raises(TargetEndedError) as ended:
        answer(loop, counter.value("failure"))
    assert isinstance(ended.value.__cause__, ValueError)


def test_arguments_are_checked_against_the_interface(loop: ActorSystem) -> None:
    counter: Any = loop.spawn(Counter)
    mistakes: list[Callable[[], object]] = [
        lambda: counter.add(1, 2),
        lambda: counter.add(n=1, m=2),
        lambda: counter.reset(1),
        lambda: counter.value(x=1),
    ]
    for wrong in mistakes:
        with pytest.raises(TypeError, match=r"(add|reset|value)\(\) "):
            wrong()
    assert loop.statistics().sent == 0


def test_a_sync_declaration_may_have_an_async_implementation(loop: ActorSystem) -> None:
    class Either(Interface, Protocol):
        @tell
        def note(self, line: str) -> None: ...
        @ask
        def early(self) -> list[str]: ...
        @ask
        async def late(self) -> list[str]: ...

    class Made(Implements[Either]):
        def __init__(self) -> None:
            self.lines: list[str] = []

        async def note(self, line: str) -> None:
            self.lines.append(line)

        async def early(self) -> list[str]:
            return [*self.lines, "early"]

        def late(self) -> list[str]:
            return [*self.lines, "late"]

    made = loop.spawn(Made)
    made.note("x")
    assert answer(loop, made.early()) == ["x", "early"]
    assert answer(loop, made.late()) == ["x", "late"]


def test_an_implementation_may_repeat_the_decorators(loop: ActorSystem) -> None:
    made = without_decorators(
        add=tell(vars(Counter)["add"]), reset=tell(lane=Lane.CONTROL)(vars(Counter)["reset"])
    )
    loop.spawn(made).reset.try_send()


def test_an_implementation_sets_the_deadline_of_its_asks() -> None:
    class Patient(Counter, ask_timeout=None):
        pass

    assert issubclass(Patient, Counter)
    with pytest.raises(InvalidArgumentError, match="ask_timeout is -5"):
        type("Made", (Counter,), {}, ask_timeout=-5)


def test_defaults_come_from_the_interface(loop: ActorSystem) -> None:
    class Greeting(Interface, Protocol):
        @ask
        def greet(self, name: str = "you") -> str: ...

    class Greeter(Implements[Greeting]):
        def greet(self, name: str = "nobody") -> str:
            return name

    assert answer(loop, loop.spawn(Greeter).greet()) == "you"


def test_missing_or_equivalent_annotations_match() -> None:
    class Wide(Interface, Protocol):
        @ask
        def find(self, key: Optional[int], kind: Lane, names: list[str]) -> Optional[Lane]: ...  # noqa: UP045  # on purpose

    def bare(self, key, kind, names): ...  # type: ignore[no-untyped-def]  # on purpose
    def modern(self: object, key: int | None, kind: core.Lane, names: "list[str]") -> "Lane | None": ...  # noqa: UP037

    def evaluated(self: object, key: object, kind: object, names: object) -> object: ...

    evaluated.__annotations__ = {
        "key": int | None,
        "kind": Lane,
        "names": list[str],
        "return": Optional[Lane],  # noqa: UP045  # on purpose
    }
    methods: list[Any] = [bare, modern, evaluated]
    for method in methods:
        implementing(Wide, find=method)


def test_an_annotation_that_cannot_be_evaluated_matches_any() -> None:
    """Its text does not decide: another name may be the same class."""

    class Local:
        pass

    class Taking(Interface, Protocol):
        @tell
        def take(self, thing: Local) -> None: ...

    def same(self: object, thing: Local) -> None: ...
    def otherwise(self: object, thing: object) -> None: ...

    otherwise.__annotations__["thing"] = "SomeAliasOfLocal"

    implementing(Taking, take=same)
    implementing(Taking, take=otherwise)


# --- invalid implementations ----------------------------------------------------------------------------------------------


def test_a_missing_method_is_named() -> None:
    assert (
        refusal(lambda: without_decorators(reset=None)) == "Made has no method reset, which Counting declares"
    )
    said = refusal(lambda: without_decorators(value=None, valu=vars(Counter)["value"]))
    assert said == "Made has no method value, which Counting declares (did you mean valu?)"


def test_a_message_that_the_interface_lacks_is_named() -> None:
    extra: Any = tell(nothing)
    said = refusal(lambda: without_decorators(clear=extra))
    assert said.startswith("Made.clear is declared as a message, but Counting has no such message: ")
    said = refusal(lambda: without_decorators(rest=extra))
    assert "Counting has no such message (did you mean reset?)" in said
    # Without a decorator it is a private method.
    without_decorators(clear=nothing)


def test_a_decorator_with_another_lane_or_kind_is_refused() -> None:
    add, value = vars(Counter)["add"], vars(Counter)["value"]
    cases: list[tuple[str, Any, str]] = [
        ("add", tell(lane=Lane.CONTROL)(add), "on lane CONTROL"),
        ("add", tell(lane=Lane.MANAGEMENT)(add), "on lane MANAGEMENT"),
        ("add", ask(add), "ask method"),
        ("value", ask(lane=Lane.CONTROL)(value), "on lane CONTROL"),
    ]
    for name, declared, what in cases:
        said = refusal(functools.partial(without_decorators, **{name: declared}))
        assert re.match(
            rf"Made\.{name} is <.*{what}.*>, but Counting declares <.*Counting\.{name} on lane DATA>", said
        ), said


def test_a_decorator_with_other_exceptions_is_refused() -> None:
    """Otherwise an exception would be an answer in one place and fail the actor in the other."""
    value = vars(Counter)["value"]
    without_decorators(value=ask(raises=LookupError)(value))
    for raises in (ValueError, (LookupError, ValueError), ()):
        said = refusal(functools.partial(without_decorators, value=ask(raises=raises)(value)))
        assert "Made.value" in said
        assert "Counting" in said


class Shape(Interface, Protocol):
    @ask
    def call(self, /, a: int, b: str = "x", *rest: int, c: float, d: int = 4, **others: int) -> int: ...


def shape(source: str) -> Any:
    """Make a function with this signature."""
    namespace: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef call{source}: ...", namespace)  # a table of signatures
    return namespace["call"]


SAME = "(self, a: int, b: str = 'x', *rest: int, c: float, d: int = 4, **others: int) -> int"

DIFFERENCES = {
    "another name": (SAME.replace("a: int,", "z: int,", 1), "parameter 1 is z, not a"),
    "names swapped": ("(self, b: str, a: int)", "parameter 1 is b, not a"),
    "keyword-only": ("(self, *, a: int)", r"parameter 1 (a) is keyword-only, not positional or keyword"),
    "positional-only": (
        "(self, a: int, /)",
        r"parameter 1 (a) is positional-only, not positional or keyword",
    ),
    "no default": (SAME.replace("b: str = 'x'", "b: str"), "parameter 2 (b) has no default"),
    "a default": (SAME.replace("a: int,", "a: int = 1,", 1), "parameter 1 (a) has a default"),
    "a keyword's default": (SAME.replace("c: float", "c: float = 1"), "parameter 4 (c) has a default"),
    "another type": (SAME.replace("a: int", "a: str", 1), "parameter 1 (a) is str, not int"),
    "another type of the rest": (
        SAME.replace("*rest: int", "*rest: str"),
        "parameter 3 (rest) is str, not int",
    ),
    "the rest missing": (
        "(self, a: int, b: str = 'x', *, c: float, d: int = 4)",
        "parameter 3 is c, not rest",
    ),
    "the last missing": (SAME.replace(", **others: int", ""), "lacks the parameter others"),
    "two missing": (SAME.replace(", d: int = 4, **others: int", ""), "lacks the parameters d, others"),
    "another result": (SAME.replace("-> int", "-> str"), "returns str, but Shape.call declares int"),
    "no result": (SAME.replace("-> int", "-> None"), "returns None, but Shape.call declares int"),
}


@pytest.mark.parametrize(("source", "difference"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_method_with_another_signature_is_refused(source: str, difference: str) -> None:
    said = refusal(lambda: implementing(Shape, call=shape(source)))
    assert said.startswith("Made.call")
    assert difference in said
    assert "Shape.call" in said
    # The error also shows the whole declaration.
    assert (
        "returns" in said
        or "(a: 'int', b: 'str' = 'x', *rest: 'int'" in said
        or "(a: int, b: str = 'x', *rest" in said
    )


def test_the_same_signature_is_accepted() -> None:
    implementing(Shape, call=shape(SAME))
    implementing(Shape, call=shape(SAME.replace("(self", "(this")))


def test_an_extra_parameter_is_refused() -> None:
    def reset(self: object, hard: bool = False) -> None: ...

    said = refusal(lambda: without_decorators(reset=reset))
    assert said.startswith("Made.reset has the extra parameter hard, unlike Counting.reset()")


def test_a_method_of_an_interface_must_have_self() -> None:
    assert "has no self parameter" in refusal(lambda: without_decorators(reset=lambda: None))


NO_METHODS: list[Any] = [
    *(cover(nothing) for cover in (property, staticmethod, classmethod)), functools.partial(print), 5, int
]  # fmt: skip


@pytest.mark.parametrize(
    "wrong", NO_METHODS, ids=["property", "staticmethod", "classmethod", "partial", "number", "class"]
)
def test_an_implementation_that_is_not_a_method_is_refused(wrong: Any) -> None:
    said = refusal(lambda: without_decorators(value=wrong))
    assert re.match(r"Made\.value is .*, but Counting declares a method: make it a plain method", said), said


def test_a_one_way_method_must_return_none() -> None:
    class Loose(Interface, Protocol):
        @tell
        def send(self): ...  # type: ignore[no-untyped-def]  # without a return annotation

    def send(self: object) -> int:
        return 5

    said = refusal(lambda: implementing(Loose, send=send))
    assert "send is one-way but returns int" in said


def test_a_generator_cannot_implement_a_method() -> None:
    def value(self: object, of: str = "total") -> Any:
        yield 5

    assert "Made.value" in refusal(lambda: without_decorators(value=value))


def test_an_interface_must_declare_methods() -> None:
    class Empty(Interface, Protocol):
        def add(self, n: int) -> None: ...

    assert refusal(lambda: implementing(Empty)).startswith(
        "test_an_interface_must_declare_methods.<locals>.Empty is not an interface"
    )
    assert "int is not an interface" in refusal(lambda: implementing(int))
    assert "pass the class itself" in refusal(lambda: implementing("Counting"))


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_an_interface_must_not_use_reserved_names(name: str) -> None:
    interface = type("Taken", (Interface,), {name: tell(nothing)})
    assert f"Taken.{name} is declared as a message, but every actor has its own {name}" in refusal(
        lambda: implementing(interface)
    )


def test_implements_needs_an_interface() -> None:
    bare: Any = Implements
    assert "without an interface: write Implements[TheInterface]" in refusal(
        lambda: type("Made", (bare,), {})
    )


def test_an_interface_is_not_an_actor_class(loop: ActorSystem) -> None:
    wrong: Any
    for wrong in (Counting, Interface):
        with pytest.raises(InvalidArgumentError, match="is not an actor class"):
            loop.spawn(wrong)
