"""Any object can be shown in limited space, whatever its `repr()` does."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import Any

import pytest

from bandstand.errors.formatting import (
    REASON_LIMIT,
    TRACEBACK_LIMIT,
    describe_exception,
    safe_repr,
    safe_str,
    safe_traceback,
    type_name,
)

pytestmark = [pytest.mark.once, pytest.mark.guarantee("G282")]
# What is left out is said in a few more characters.
NOTE = 60


class Raises:
    """Raises what it was given, at each attempt to show it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error

    __str__ = __repr__


class ReturnsNoText:
    """Its repr is no text."""

    def __repr__(self) -> Any:
        return 17

    __str__ = __repr__


class Endless:
    """Its repr calls itself."""

    def __repr__(self) -> str:
        return repr(self)

    __str__ = __repr__


class BrokenText(str):
    """Text that can do nothing that text can."""

    __slots__ = ()

    def _fail(self, *_: object) -> Any:
        raise ValueError("no")

    __len__ = __getitem__ = __repr__ = __str__ = __format__ = encode = __iter__ = _fail  # type: ignore[assignment]


class ReturnsBrokenText:
    """Its repr is text that can do nothing that text can."""

    def __repr__(self) -> str:
        return BrokenText("words")

    __str__ = __repr__


class NamelessMeta(type):
    """Classes of it have no name, and are no keys."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError("no name")


class Nameless(metaclass=NamelessMeta):
    """One of such a class."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


HOSTILE = [
    Raises(ValueError("no")),
    Raises(KeyboardInterrupt()),
    Raises(SystemExit(3)),
    Raises(GeneratorExit()),
    Raises(asyncio.CancelledError()),
    Raises(MemoryError()),
    Raises(RecursionError()),
    ReturnsNoText(),
    Endless(),
    ReturnsBrokenText(),
    Nameless(),
    BrokenText("words"),
]


@pytest.mark.parametrize("thing", HOSTILE, ids=type_name)
def test_shows_whatever_it_is_given(thing: Any) -> None:
    for text in (
        safe_repr(thing),
        safe_str(thing),
        safe_repr([thing, {"key": (thing,)}]),
        safe_repr(ValueError(thing)),
        safe_str(ValueError(thing)),
        describe_exception(ValueError(thing)),
        describe_exception(KeyError(thing)),
        describe_exception(ExceptionGroup("group", [ValueError(thing)])),
        safe_traceback(ValueError(thing)),
        safe_traceback(ExceptionGroup("group", [ValueError(thing), KeyError(thing)])),
    ):
        assert type(text) is str
        assert 0 < len(text) <= TRACEBACK_LIMIT
        text.encode()


ORDINARY: list[Any] = [
    None,
    1.5,
    "it's",
    b"bytes",
    bytearray(b"more"),
    [],
    [1, [2, [3]]],
    (),
    (1,),
    (1, 2),
    set(),
    {1},
    frozenset(),
    frozenset({1}),
    {},
    {"a": [1], 2: ("b",)},
    ValueError(),
    ValueError("a"),
    ValueError("a", 2),
    KeyError("a"),
    OSError(2, "no such file"),
    ExceptionGroup("several", [ValueError("a")]),
]


@pytest.mark.parametrize("value", ORDINARY, ids=repr)
def test_shows_ordinary_values_as_python_does(value: Any) -> None:
    assert safe_repr(value) == repr(value)
    assert safe_str(value) == str(value)


def test_says_what_went_wrong_and_shows_the_rest() -> None:
    broken = Raises(ValueError("no"))
    assert safe_repr(broken) == "<Raises: its repr() raised ValueError>"
    assert safe_repr([1, broken, 2]) == "[1, <Raises: its repr() raised ValueError>, 2]"
    assert safe_repr(ValueError(1, broken)) == "ValueError(1, <Raises: its repr() raised ValueError>)"
    assert describe_exception(ValueError(broken)) == "ValueError: <ValueError: its str() raised ValueError>"
    assert safe_repr(Nameless()) == "<Nameless: its repr() raised ValueError>"
    assert type_name(Nameless()) == "Nameless", "though its metaclass hides the name"
    assert type_name(ReturnsNoText(), qualified=True) == "ReturnsNoText"
    assert describe_exception(ValueError()) == "ValueError"
    assert describe_exception(ValueError("a")) == "ValueError: a"
    assert safe_str("a\udc80b") == "a\\udc80b", "lone surrogates are written as escapes"
    assert describe_exception(ValueError("a\udc80b")) == "ValueError: a\\udc80b"
    safe_traceback(ValueError("a\udc80b")).encode()
    circle: list[Any] = []
    circle.extend([circle, {"me": circle}])
    assert len(safe_repr(circle)) <= REASON_LIMIT + NOTE


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        b"\x00" * 10_000_000,
        ["x" * 10_000_000] * 1_000,
        list(range(1_000_000)),
        dict.fromkeys(range(1_000_000)),
        ValueError("x" * 10_000_000),
        ValueError(*(["x" * 10_000_000] * 3)),
        KeyError("x" * 10_000_000),
        ExceptionGroup("x" * 1_000_000, [ValueError("x" * 1_000_000)] * 1_000),
    ],
    ids=type_name,
)
def test_keeps_to_its_room(value: Any) -> None:
    assert len(safe_repr(value)) <= REASON_LIMIT + NOTE
    assert len(safe_str(value)) <= REASON_LIMIT + NOTE
    assert len(safe_repr(value, 50)) <= 50 + NOTE
    assert "in all)" in safe_str(value)
    if isinstance(value, BaseException):
        assert len(describe_exception(value)) <= REASON_LIMIT + NOTE + len("ExceptionGroup: ")
        assert len(safe_traceback(value)) <= TRACEBACK_LIMIT + NOTE


def test_a_traceback_is_as_python_prints_it() -> None:
    def fail() -> None:
        try:
            int("inner")
        except ValueError as error:
            error.add_note("a note")
            raise TypeError("outer") from error

    with pytest.raises(TypeError, match="outer") as caught:
        fail()
    assert safe_traceback(caught.value) == "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "name", ["__cause__", "__context__", "__notes__", "__suppress_context__", "__traceback__"]
)
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), RecursionError()], ids=repr)
def test_a_traceback_survives_attributes_that_raise(name: str, error: BaseException) -> None:
    def get(_self: object) -> Any:
        raise error

    kind = type("Hostile", (ValueError,), {name: property(get)})

    def fail() -> None:
        raise kind("the message")

    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its class is made above
        fail()
    text = safe_traceback(caught.value)
    assert "Hostile: the message" in text
    assert "in fail" in text


def test_a_traceback_survives_notes_that_cannot_be_shown() -> None:
    error = ValueError("the message")
    error.__notes__ = [Raises(ValueError("no")), "a note"]  # type: ignore[list-item]
    assert "a note" in safe_traceback(error)
    error.__notes__ = Raises(KeyboardInterrupt())  # type: ignore[assignment]
    assert "the message" in safe_traceback(error)


def test_a_traceback_with_very_many_causes_names_the_first_ones() -> None:
    error = ValueError("the first")
    for number in range(5_000):
        follows = ValueError(str(number))
        follows.__cause__ = error
        error = follows
    text = safe_traceback(error)
    assert text.startswith("ValueError: 4999\ncaused by ValueError: 4998\n")
    assert len(text) <= TRACEBACK_LIMIT + NOTE


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    text = safe_traceback(ExceptionGroup("outermost", [ValueError("x" * 100_000), ValueError("the last")]))
    assert "outermost" in text
    assert "the last" in text
    assert "characters are left out" in text
    assert len(text) <= TRACEBACK_LIMIT + NOTE


def test_shows_something_with_almost_no_stack_left() -> None:
    seen: list[str] = []

    def dive(error: BaseException) -> None:
        try:
            dive(error)
        except RecursionError:
            # Entering may fail, here, near the end of the stack; what was entered must return text.
            seen.extend(show(error) for show in (safe_repr, safe_str, describe_exception, safe_traceback))

    # A thread of its own: the test's own stack is of any depth.
    thread = threading.Thread(target=dive, args=(ValueError([1, 2]),))
    thread.start()
    thread.join()
    assert len(seen) >= 4
    assert all(type(text) is str for text in seen)
