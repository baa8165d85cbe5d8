"""Declaring a `MessageActor`: the declared messages are those with a handler; inheritance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

import pytest

from bandstand.actor import Actor, ActorSystem, MessageActor, ask, on, tell
from bandstand.core import ExitReason, Lane
from bandstand.errors import DeclarationError
from tests.actor.accounts import Account, Balance, Bonus, Close, Deposit, Fail, Stranger
from tests.actor.answers import answer
from tests.actor.declaring import nothing

pytestmark = [pytest.mark.guarantee("G58"), pytest.mark.spec("S11")]

T = TypeVar("T")
M = TypeVar("M")


def declaring(messages: Any, *bases: type, **attributes: Any) -> Any:
    """Create a class that declares these messages, as a `class` statement does."""
    written = MessageActor[messages]
    return type("Made", (*bases, MessageActor), {**attributes, "__orig_bases__": (*bases, written)})


def refusal(messages: Any, *bases: type, **attributes: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        declaring(messages, *bases, **attributes)
    return str(caught.value)


def handler(*messages: Any, **options: Any) -> Any:
    """Make a handler for these classes that does nothing."""

    def handle(self: Any, message: Any) -> None: ...

    for message in messages:
        on(message, **options)(handle)
    return handle


# --- declaring ------------------------------------------------------------------------------------------------------------


def test_a_message_without_a_method_is_named() -> None:
    said = refusal(Deposit | Balance, deposit=handler(Deposit))
    assert (
        said == "Made has no method for Balance, one of its declared messages: decorate one with @on(Balance)"
    )
    assert "Made has no method for Deposit" in refusal(Deposit)
    # A handler for the base class is not enough: a class that declares both needs both.
    assert "no method for Bonus" in refusal(Deposit | Bonus, deposit=handler(Deposit))


def test_a_method_for_a_class_that_is_not_declared_is_named() -> None:
    said = refusal(Deposit, deposit=handler(Deposit), close=handler(Close))
    assert said == "Made.close handles Close, which is not one of its declared messages: Deposit"
    assert "Made.bonus handles Bonus" in refusal(Deposit, deposit=handler(Deposit), bonus=handler(Bonus))


def test_two_methods_for_one_class_are_named() -> None:
    said = refusal(Deposit, deposit=handler(Deposit), again=handler(Deposit))
    assert said == "Made has two methods for Deposit: deposit and again"


def test_message_actor_needs_its_messages() -> None:
    bare: Any = MessageActor
    with pytest.raises(
        DeclarationError,
        match=r"Made derives from MessageActor without its messages: write MessageActor\[A \| B\]",
    ):
        type("Made", (bare,), {})


@pytest.mark.parametrize("messages", [Deposit, Union[Deposit, Close], Deposit | Close], ids=str)  # noqa: UP007  # on purpose
def test_messages_may_be_any_form_of_union(messages: Any) -> None:
    declaring(
        messages, deposit=handler(Deposit), **({} if messages is Deposit else {"close": handler(Close)})
    )


@pytest.mark.parametrize("messages", ["Deposit | Close", "Deposit", 5, list, None], ids=str)
def test_messages_must_be_classes(messages: Any) -> None:
    written: Any = MessageActor
    with pytest.raises((DeclarationError, TypeError), match=r"Made|MessageActor|type argument"):
        type("Made", (MessageActor,), {"__orig_bases__": (written[messages],), "deposit": handler(Deposit)})


def test_a_generic_message_is_handled_by_its_class(loop: ActorSystem) -> None:
    @dataclass
    class Envelope(Generic[T]):
        content: T

    class Opener(MessageActor[Envelope[int] | Close]):
        def __init__(self) -> None:
            self.got: list[object] = []

        @on(Envelope)
        def open(self, message: Envelope[Any]) -> None:
            self.got.append(message.content)

        @on(Close)
        def close(self, message: Close) -> None: ...

        @ask
        def all(self) -> list[object]:
            return self.got

    opener = loop.spawn(Opener)
    opener.tell(Envelope(5))
    assert answer(loop, opener.all()) == [5]


def test_invalid_arguments_of_on_are_refused() -> None:
    bad: Any
    for bad in (Deposit(1), "Deposit", None, 5, list[int], Deposit | Close):
        with pytest.raises(DeclarationError, match=r"@on: .* is not a message class"):
            on(bad)
    for bad in (Lane.SYSTEM, 1, None):
        with pytest.raises(DeclarationError, match="lane is "):
            on(Deposit, lane=bad)
    for bad in (BaseException, [KeyError], "KeyError", None):
        with pytest.raises(DeclarationError, match="raises contains "):
            on(Balance, raises=bad)


def test_on_needs_a_class() -> None:
    nobody: Any = on
    with pytest.raises(DeclarationError, match="@on has no message class"):
        nobody()
    with pytest.raises(DeclarationError, match="@on: 5 is not a message class"):
        nobody(Deposit, 5)


def test_on_can_be_stacked(loop: ActorSystem) -> None:
    """Type checkers prefer one decorator with several classes; stacked ones may have different lanes."""
    seen: list[object] = []

    def take(self: object, message: object) -> None:
        seen.append(type(message))

    inner: Any = on(Close, lane=Lane.CONTROL)(take)
    taker = loop.spawn(declaring(Deposit | Close, take=on(Deposit)(inner)))
    taker.tell(Deposit(1))
    taker.tell(Close())
    loop.run(until_idle=True)
    assert seen == [Close, Deposit]


def test_invalid_handlers_are_refused() -> None:
    def generate(self: Any, message: Any) -> Any:
        yield 5

    decorator: Any = on(Deposit)
    for wrong in (generate, staticmethod(generate), 5, tell(nothing)):
        with pytest.raises(DeclarationError):
            decorator(wrong)

    def returning(self: Any, message: Any) -> int:
        return 5

    assert "Made.deposit is one-way but returns int" in refusal(Deposit, deposit=decorator(returning))

    def none(self: object) -> None: ...
    def two(self: object, a: object, b: object) -> None: ...
    def default(self: object, a: object, b: int = 1) -> None: ...
    def named(self: object, *, a: object) -> None: ...
    def rest(self: object, *a: object) -> None: ...

    for function in (none, two, default, named, rest):
        assert (
            refusal(Deposit, deposit=decorator(function))
            == "Made.deposit handles messages: it must take exactly one parameter besides self"
        )


def test_the_names_tell_and_ask_are_reserved() -> None:
    for name in ("tell", "ask", "stop", "on_start"):
        assert f"Made.{name} is " in refusal(Deposit, deposit=handler(Deposit), **{name: tell(nothing)})


def test_on_is_refused_in_other_actor_classes() -> None:
    with pytest.raises(DeclarationError, match=r"Made\.deposit"):
        type("Made", (Actor,), {"deposit": handler(Deposit)})


# --- inheritance ------------------------------------------------------------------------------------------------------------


def test_handlers_are_inherited_and_overridden_with_or_without_on(loop: ActorSystem) -> None:
    lines: list[str] = []

    class Loud(Account):
        def deposit(self, message: Deposit) -> None:
            super().deposit(message)
            self.lines.append("!")

        @on(Close, lane=Lane.DATA)
        def close(self, message: Close) -> None:
            self.lines.append("shut")

    loud = loop.spawn(Loud, lines)
    loud.tell(Deposit(1))
    loud.tell(Close())
    loop.run(until_idle=True)
    assert lines == ["Deposit", "!", "shut"]


@pytest.mark.parametrize("wrong", [None, 5, property(lambda self: 5)], ids=["None", "number", "property"])
def test_an_override_that_is_not_a_method_is_refused(wrong: object) -> None:
    with pytest.raises(DeclarationError, match=r"Made\.deposit"):
        type("Made", (Account,), {"deposit": wrong})


def test_an_override_with_another_signature_is_refused() -> None:
    with pytest.raises(
        DeclarationError, match=r"Made\.deposit handles messages: it must take exactly one parameter"
    ):
        type("Made", (Account,), {"deposit": nothing})


def test_a_derived_class_must_declare_its_additional_messages(loop: ActorSystem) -> None:
    with pytest.raises(
        DeclarationError, match=r"Made\.more handles Stranger, which is not one of its declared messages"
    ):
        type("Made", (Account,), {"more": handler(Stranger)})
    every = Deposit | Bonus | Close | Balance | Fail | Stranger
    wider = loop.spawn(declaring(every, Account, more=handler(Stranger)))
    wider.tell(Stranger())
    wider.tell(Deposit(3))
    assert answer(loop, wider.ask(Balance())) == 3


class Openable(MessageActor[Close | M], Generic[M]):
    """Leaves some of its messages open."""

    def __init__(self) -> None:
        self.is_closed = False

    @on(Close)
    def close(self, message: Close) -> None:
        self.is_closed = True

    @ask
    def closed(self) -> bool:
        return self.is_closed


class Counted(Account, Generic[T]):
    """Has a type variable that is not for its messages."""


def test_a_class_in_between_may_leave_some_of_its_messages_open(loop: ActorSystem) -> None:
    class Made(Openable[Deposit]):
        @on(Deposit)
        def deposit(self, message: Deposit) -> None: ...

    made = loop.spawn(Made)
    made.tell(Deposit(1))
    made.tell(Close())
    assert answer(loop, made.closed())
    openable: Any = Openable[Stranger]
    with pytest.raises(DeclarationError, match="Short has no method for Stranger"):
        type("Short", (Openable,), {"__orig_bases__": (openable,)})


def test_other_type_variables_of_a_class_in_between_are_not_its_messages(loop: ActorSystem) -> None:
    class Texts(Counted[str]):
        pass

    texts = loop.spawn(Texts)
    texts.tell(Deposit(2))
    assert answer(loop, texts.ask(Balance())) == 2
    ended = texts.ended()
    texts.stop()
    assert answer(loop, ended) is ExitReason.NORMAL
