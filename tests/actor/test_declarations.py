"""Declaring an actor class: decorators and lanes, one-way methods, deadlines, hooks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Never, NoReturn

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, tell
from bandstand.actor.decorators import DeclaredMethod
from bandstand.core import ExitReason, Lane, Verdict
from bandstand.errors import DeclarationError, InvalidArgumentError, InvalidVerdictError, TargetEndedError
from tests.actor.answers import answer, outcome
from tests.actor.declaring import LOOSE, Book, class_with, loose_ask, loose_tell, nothing

pytestmark = pytest.mark.guarantee("G58")

every_decorator = pytest.mark.parametrize("decorator", LOOSE.values(), ids=LOOSE)


# --- decorators and lanes ---------------------------------------------------------------------------------------------


@pytest.mark.spec("S4", "S11")
def test_the_decorator_sets_the_lane_of_a_message(loop: ActorSystem) -> None:
    lines: list[object] = []
    book = loop.spawn(Book, lines)
    low, middle = book.low_ask(), book.middle_ask()
    book.low()
    book.middle()
    high = book.high_ask()
    book.high()
    loop.run(until_idle=True)
    assert lines == ["high ask", "high", "middle ask", "middle", "low ask", "low"]
    assert [outcome(reply) for reply in (high, middle, low)] == [1, 3, 5]


def test_a_full_lane_leaves_room_in_the_others(loop: ActorSystem) -> None:
    book = loop.options(mailbox=4).spawn(Book)
    while book.low.try_send():
        pass
    assert book.high.try_send()
    assert book.middle.try_send()
    assert not book.low.try_send()


def test_an_ask_must_use_a_user_lane() -> None:
    bad: Any
    for bad in (Lane.SYSTEM, 1, "control", None):
        with pytest.raises(DeclarationError, match=r"@ask: lane is .*: pass Lane\.CONTROL"):
            ask(lane=bad)


def test_raises_must_contain_exception_classes() -> None:
    bad: Any
    for bad in (BaseException, KeyboardInterrupt, KeyError("x"), [KeyError], (KeyError, "x"), int, None):
        with pytest.raises(DeclarationError, match=r"raises contains .*: pass Exception or classes"):
            ask(raises=bad)


def test_a_declared_method_keeps_its_name_and_docstring() -> None:
    def add(self: object, n: int) -> None:
        """Add a number."""

    declared = tell(add)
    assert isinstance(declared, DeclaredMethod)
    assert declared.__doc__ == "Add a number."
    assert declared.function is add
    assert re.match(r"<one-way method .*add on lane DATA>", repr(declared))
    assert re.match(r"<ask method .*add on lane DATA>", repr(ask(add)))
    assert class_with("add", declared).add is declared


@every_decorator
def test_a_decorator_must_be_on_a_plain_method(decorator: Any) -> None:
    def generate(self: object) -> Iterator[int]:
        yield 1

    async def generate_later(self: object) -> Any:
        yield 1

    wrong: Any
    covered: list[Any] = [f(nothing) for f in (staticmethod, classmethod, property, functools.cache)]
    for wrong in covered:
        with pytest.raises(
            DeclarationError, match=r"@\w+ is on .*, which is not a function: put it on a plain method"
        ):
            decorator(wrong)
    for wrong in (
        5,
        "text" if decorator in (LOOSE["ask"], LOOSE["tell"]) else None,
        Book,
        functools.partial(nothing),
        tell(nothing),
    ):
        with pytest.raises(DeclarationError, match="which is not a function"):
            decorator(wrong)
    for wrong in (generate, generate_later):
        with pytest.raises(
            DeclarationError, match=r"generate\w*, a generator: a handler must return its answer"
        ):
            decorator(wrong)


@pytest.mark.parametrize("above", [staticmethod, classmethod, property])
@every_decorator
def test_a_decorator_below_another_one_is_refused(above: Any, decorator: Any) -> None:
    with pytest.raises(DeclarationError, match="covered"):
        class_with("covered", above(decorator(nothing)))


def test_a_lambda_can_be_declared(loop: ActorSystem) -> None:
    add: Any = eval("lambda self, a, b=2: a + b")  # type checkers would see no types
    adder = loop.spawn(class_with("add", loose_ask(add)))
    assert answer(loop, adder.add(1)) == 3
    assert answer(loop, adder.add(1, b=5)) == 6
    with pytest.raises(TypeError, match=r"add\(\) missing 1 required positional argument: 'a'"):
        adder.add()


def test_a_message_must_have_self() -> None:
    def lost() -> None: ...
    def packed(*args: object) -> None: ...
    def named(**kwargs: object) -> None: ...

    for function in (lost, packed, named):
        with pytest.raises(DeclarationError, match=f"{function.__name__} has no self parameter"):
            class_with("message", loose_tell(function))


# --- one-way methods ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorator", [tell, tell(lane=Lane.CONTROL), tell(lane=Lane.MANAGEMENT)])
@pytest.mark.parametrize("returned", [int, "int", "int | None", "Verdict", Any])
def test_a_one_way_method_must_not_declare_a_return_type(decorator: Any, returned: object) -> None:
    def send(self: object) -> None: ...

    send.__annotations__["return"] = returned
    with pytest.raises(
        DeclarationError, match=r"Made\.send is one-way but returns .*: use @ask, or return None"
    ):
        class_with("send", decorator(send))


@pytest.mark.parametrize(
    "returned", [None, type(None), "None", NoReturn, Never, "NoReturn", "Never", "'None'"]
)
def test_a_one_way_method_may_declare_that_it_returns_none(returned: object) -> None:
    def send(self: object) -> None: ...

    send.__annotations__["return"] = returned
    class_with("send", tell(send))


FIVE: Any = 5
STOP: Any = Verdict.STOP


async def late_five(self: object) -> None:
    return FIVE  # type: ignore[no-any-return]  # against its word


async def late_stop(self: object) -> None:
    return STOP  # type: ignore[no-any-return]  # against its word


def five(self: object) -> None:
    return FIVE  # type: ignore[no-any-return]  # against its word


def stop(self: object) -> None:
    return STOP  # type: ignore[no-any-return]  # against its word


RETURNING: dict[str, Any] = {
    "a number": five,
    "a verdict": stop,
    "a number, later": late_five,
    "a verdict, later": late_stop,
}


@pytest.mark.parametrize("function", RETURNING.values(), ids=RETURNING)
def test_a_one_way_method_that_returns_something_fails_and_is_named(loop: ActorSystem, function: Any) -> None:
    sender = loop.spawn(class_with("send", loose_tell(function)))
    ended: Reply[ExitReason] = sender.ended()
    sender.send()
    assert answer(loop, ended) is ExitReason.PANIC
    with pytest.raises(Exception, match="has ended"):
        sender.send()


def test_the_error_of_a_method_that_returns_something_names_it(loop: ActorSystem) -> None:
    for function in (RETURNING["a number"], late_five):
        sender = loop.spawn(class_with("send", loose_tell(function), Book))
        sender.send()
        with pytest.raises(TargetEndedError) as ended:
            answer(loop, sender.low_ask())
        assert isinstance(ended.value.__cause__, InvalidVerdictError)
        assert "Made.send() returned 5, but it is one-way" in str(ended.value.__cause__)


# --- deadlines of a class -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1, -1.0, -2, float("nan"), float("inf"), "5", True, 1e18])
def test_the_deadline_of_a_class_must_be_a_number_of_milliseconds(bad: object) -> None:
    with pytest.raises((InvalidArgumentError, DeclarationError), match=r"Made.*ask_timeout is "):
        class_with("message", tell(nothing), ask_timeout=bad)


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
def test_a_hook_with_the_wrong_parameters_is_refused(name: str, hook: Callable[..., Any]) -> None:
    with pytest.raises(DeclarationError, match=name):
        type("Wrong", (Actor,), {name: hook})


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("hook", [with_any, with_more])
def test_a_hook_may_have_optional_parameters(name: str, hook: Callable[..., Any]) -> None:
    type("Right", (Actor,), {name: hook})
