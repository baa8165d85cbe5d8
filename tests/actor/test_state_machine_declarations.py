"""Invalid machine classes are refused when they are created, with an error that names the mistake."""

# Classes that cannot be created stay unused.
# pyright: reportUnusedClass=false

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Machine, State, ask, batch, tell
from bandstand.actor.introspection import is_empty
from bandstand.errors import DeclarationError, InvalidArgumentError
from tests.core.support import settle

pytestmark = pytest.mark.guarantee("G244")


class Base(Machine):
    @tell
    def push(self, hard: int) -> None: ...

    @ask
    def look(self) -> str:
        raise NotImplementedError

    first = State()
    second = State()


def two_handlers() -> None:
    class Bad(Base):
        @Base.first.on(Base.push)
        def one(self, hard: int) -> None: ...

        @Base.first.on(Base.push)
        def other(self, hard: int) -> None: ...


def other_shape() -> None:
    wrong: Any = Base.first.on(Base.push)

    class Bad(Base):
        @wrong  # type: ignore[untyped-decorator]  # that is the test
        def one(self, soft: int) -> None: ...


def other_return() -> None:
    wrong: Any = Base.first.on(Base.look)

    class Bad(Base):
        @wrong  # type: ignore[untyped-decorator]  # that is the test
        def one(self) -> int:
            return 1


def foreign_state() -> None:
    class Other(Machine):
        third = State()

    class Bad(Base):
        @Other.third.on(Base.push)
        def one(self, hard: int) -> None: ...


def foreign_message() -> None:
    class Other(Actor):
        @tell
        def pull(self) -> None: ...

    class Bad(Base):
        @Base.first.on(Other.pull)
        def one(self) -> None: ...


def no_states() -> None:
    class Bad(Machine):
        pass


def two_initial() -> None:
    class Bad(Machine):
        first = State(initial=True)
        second = State(initial=True)


def no_timeout() -> None:
    class Bad(Machine):
        first = State(timeout=0.005)


def no_after() -> None:
    class Bad(Base):
        @Base.first.timeout
        def late(self) -> None: ...


def two_timeouts() -> None:
    class Bad(Machine):
        first = State(timeout=0.005)

        @first.timeout
        def late(self) -> None: ...

        @first.timeout
        def later(self) -> None: ...


def async_hook() -> None:
    class Bad(Base):
        @Base.first.enter
        async def slow(self) -> None: ...


def hook_with_arguments() -> None:
    class Bad(Base):
        @Base.first.leave
        def curious(self, where: str) -> None: ...


def ignored_ask() -> None:
    class Bad(Machine):
        @ask
        def look(self) -> str:
            raise NotImplementedError

        first = State(ignores=(look,))


def handled_and_postponed() -> None:
    class Bad(Machine):
        @tell
        def push(self) -> None: ...

        first = State(postpones=(push,))

        @first.on(push)
        def one(self) -> None: ...


def postponed_and_ignored() -> None:
    class Bad(Machine):
        @tell
        def push(self) -> None: ...

        first = State(postpones=(push,), ignores=(push,))


def postponed_nothing() -> None:
    State(postpones=("push",))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the test


def postponed_foreign() -> None:
    class Bad(Machine):
        first = State(postpones=(Base.push,))


def postponed_list() -> None:
    class Bad(Machine):
        @batch(limit=3)
        def store(self, rows: list[int]) -> None: ...

        first = State(postpones=(store,))


def handled_list() -> None:
    class Bad(Machine):
        first = State()

        @batch(limit=3)
        def store(self, rows: list[int]) -> None: ...

        @first.on(store)
        def stored(self, rows: int) -> None: ...


def taken_name() -> None:
    class Bad(Base):
        def become(self) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # that is the test
            pass


def taken_message() -> None:
    class Bad(Base):
        @ask
        def state(self) -> str:  # type: ignore[override]  # that is the test
            return ""


def state_replaced() -> None:
    class Bad(Base):
        first = 5  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # that is the test


def two_names() -> None:
    class Bad(Machine):
        first = State()
        second = first


def outside_a_class() -> None:
    @Base.first.enter
    def loose(_self: Any) -> None: ...


def on_nothing() -> None:
    wrong: Any = Base.first
    wrong.on("push")


def no_function() -> None:
    class Bad(Base):
        hook = Base.first.enter(print)


def bad_limit() -> None:
    class Bad(Base, postpone_limit=0):
        pass


BAD: list[tuple[Callable[[], None], str]] = [
    (two_handlers, r"two methods for push in state first: one and other"),
    (
        other_shape,
        r"Bad\.one handles push in state first, but has a different signature: .*parameter 1 is soft, not hard",
    ),
    (other_return, r"returns int, but .*look declares str"),
    (
        foreign_state,
        r"Bad\.one is for <state third>, which is not a state of that class: it has first, second",
    ),
    (foreign_message, r"handles <one-way method .*pull on lane DATA>, which is not a message of .*Bad"),
    (no_states, r"a machine without states"),
    (two_initial, r"two initial states: first and second"),
    (no_timeout, r"Bad\.first has a timeout but no timeout method: decorate one with @first\.timeout"),
    (no_after, r"Bad\.first has a timeout method but no timeout"),
    (two_timeouts, r"two methods for timeout in state first: late and later"),
    (async_hook, r"@first\.enter, is async"),
    (hook_with_arguments, r"@first\.leave, has parameters"),
    (ignored_ask, r"ignores look, which is an ask"),
    (handled_and_postponed, r"first postpones push, but also"),
    (postponed_and_ignored, r"first ignores push, but also"),
    (postponed_nothing, r"postpones contains 'push', which is not a message"),
    (postponed_foreign, r"Bad\.first postpones <one-way method .*push"),
    (postponed_list, r"Bad\.first postpones store, which handles batches"),
    (handled_list, r"\.on: .*store.* handles batches, and does so in all states"),
    (taken_name, r"Bad\.become is a name that every machine has"),
    (taken_message, r"Bad\.state is a name that every machine has"),
    (state_replaced, r"Bad\.first is 5, but a state in its base class"),
    (two_names, r"Bad\.second is <state first> under another name"),
    (outside_a_class, r"@enter is used outside of a class"),
    (on_nothing, r"'push' is not a message"),
    (no_function, r"@enter is on <built-in function print>"),
    (bad_limit, r"postpone_limit is 0"),
]


@pytest.mark.parametrize(("make", "words"), BAD, ids=lambda case: getattr(case, "__name__", ""))
def test_an_invalid_class_is_refused_when_it_is_created(make: Callable[[], None], words: str) -> None:
    with pytest.raises((DeclarationError, RuntimeError)) as caught:
        make()
    # Before Python 3.12, an error in __set_name__ is the cause of a RuntimeError.
    error = caught.value if isinstance(caught.value, DeclarationError) else caught.value.__cause__
    assert isinstance(error, DeclarationError)
    assert re.search(words, str(error)), str(error)


def test_a_timeout_must_be_a_duration() -> None:
    with pytest.raises(InvalidArgumentError, match="timeout is -1"):
        State(timeout=-1)


def test_a_class_may_override_a_handler_and_a_message(loop: ActorSystem) -> None:
    book: list[str] = []

    class Below(Base):
        @Base.first.on(Base.push)
        def below(self, hard: int) -> None:
            book.append(f"below {hard}")

    class Above(Below):
        @tell
        def push(self, hard: int) -> None:
            book.append(f"default {hard}")

        @Base.second.on(Base.push)
        def above(self, hard: int) -> None:
            book.append(f"above {hard}")

        third = State()

        @tell
        def go(self, state: State) -> None:
            self.become(state)

    above = loop.spawn(Above)
    for state in (Above.first, Above.second, Above.third):
        above.go(state)
        above.push(7)
    loop.spawn(Below).push(8)
    settle(loop)
    assert book == ["below 7", "above 7", "default 7", "below 8"]


def test_a_machine_may_be_a_dataclass(loop: ActorSystem) -> None:
    @dataclass(slots=True)
    class Neat(Machine, postpone_limit=3):
        book: list[str]

        @tell
        def push(self) -> None: ...

        first = State()

        @first.on(push)
        def pushed(self) -> None:
            self.book.append("pushed")

    book: list[str] = []
    loop.spawn(Neat, book).push()
    settle(loop)
    assert book == ["pushed"]


def _docstring() -> None:
    """Only a docstring."""


def _returns() -> str:
    return "x"


def _calls() -> None:
    State()


def _refuses_with_words() -> None:
    raise NotImplementedError("words")


async def _waits() -> None:
    pass


@pytest.mark.parametrize(
    ("function", "empty"),
    [(_docstring, True), (_waits, True), (_returns, False), (_calls, False), (_refuses_with_words, False)],
)
def test_an_empty_body_is_recognised(function: Callable[..., Any], empty: bool) -> None:
    assert is_empty(function) is empty
