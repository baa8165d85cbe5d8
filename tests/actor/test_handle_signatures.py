"""`inspect.signature`, `help` and IPython's `?` on the methods of a handle."""

from __future__ import annotations

import inspect
import io
import pydoc
from typing import Protocol

import pytest

from bandstand import Actor, ActorSystem, ask, tell
from bandstand.actor import AskRetry, Implements, Interface, batch
from bandstand.actor.bound_methods import Ask, Tell


class Total(Actor):
    """A sum."""

    @tell
    def add(self, n: int, *, twice: bool = False) -> None:
        """Add a number."""

    @ask
    async def value(self, key: str = "all") -> int:
        """Return the sum.

        The key selects a part.
        """
        return len(key)

    @batch(limit=8)
    def store(self, rows: list[str]) -> None:
        """Store a row."""


class Lamp(Interface, Protocol):
    @ask
    def is_on(self, room: str) -> bool:
        """Return whether the light is on."""
        ...


class DeskLamp(Implements[Lamp]):
    def is_on(self, room: str) -> bool:
        return bool(room)


@pytest.mark.guarantee("G276")
def test_signature_is_that_of_the_method_and_returns_what_the_call_returns() -> None:
    with ActorSystem() as system:
        total = system.spawn(Total)
        assert str(inspect.signature(total.add)) == "(n: 'int', *, twice: 'bool' = False) -> None"
        assert str(inspect.signature(total.value)) == "(key: 'str' = 'all') -> 'Reply[int]'"
        assert str(inspect.signature(total.store)) == "(rows: 'str', /) -> None"
        expected = inspect.signature(total.value)
        assert inspect.signature(total.value.within(1)) == expected
        retried = inspect.signature(total.value.retry(AskRetry()))
        assert retried.parameters == expected.parameters
        assert retried.return_annotation == "Coroutine[Any, Any, int]"
        lamp = system.spawn(DeskLamp)
        assert str(inspect.signature(lamp.is_on)) == "(room: 'str') -> 'Reply[bool]'"
        assert "Return whether the light is on." in (inspect.getdoc(lamp.is_on) or "")


def test_the_classes_of_bound_methods_keep_their_own_signature_and_docstring() -> None:
    assert list(inspect.signature(Tell).parameters) == ["handle", "handle_method"]
    assert inspect.getdoc(Tell) == "A one-way method of a handle."
    assert inspect.getdoc(Ask) == "A method of a handle that answers."


@pytest.mark.guarantee("G276")
def test_help_shows_the_call_and_the_docstring() -> None:
    with ActorSystem() as system:
        total = system.spawn(Total)
        text = io.StringIO()
        pydoc.Helper(output=text).help(total.value)
        assert "value(key: 'str' = 'all') -> 'Reply[int]'" in text.getvalue()
        assert "Return the sum.\n" in text.getvalue()
        assert total.value.__name__ == "value"
        text = io.StringIO()
        pydoc.Helper(output=text).help(total)
        assert "A sum." in text.getvalue()


@pytest.mark.guarantee("G276")
def test_ipython_shows_signature_and_docstring() -> None:
    oinspect = pytest.importorskip("IPython.core.oinspect", reason="IPython is a development tool")
    with ActorSystem() as system:
        shown = oinspect.Inspector(theme_name="nocolor").info(system.spawn(Total).add, "total.add")
    assert shown["definition"] == "total.add(n: 'int', *, twice: 'bool' = False) -> None"
    assert "Add a number." in shown["docstring"]
