"""An interface, an implementation of it, and helpers that create invalid implementations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from bandstand.actor import Implements, Interface, ask, tell
from bandstand.core import Lane
from bandstand.errors import DeclarationError


class Counting(Interface, Protocol):
    """An interface of counters."""

    @tell
    def add(self, n: int, *, times: int = 1) -> None: ...
    @tell(lane=Lane.CONTROL)
    def reset(self) -> None: ...
    @ask(raises=LookupError)
    def value(self, of: str = "total") -> int: ...


class Counter(Implements[Counting]):
    def __init__(self, start: int = 0, lines: list[str] | None = None) -> None:
        self.total = start
        self.lines: list[str] = [] if lines is None else lines

    def add(self, n: int, *, times: int = 1) -> None:
        self.lines.append("add")
        self.total += n * times

    def reset(self) -> None:
        self.lines.append("reset")
        self.total = 0

    def value(self, of: str = "total") -> int:
        if of == "failure":
            raise ValueError(of)
        if of != "total":
            raise LookupError(of)
        return self.double() // 2

    def double(self) -> int:
        return self.total * 2


def implementing(interface: Any, **attributes: Any) -> Any:
    """Create a class that implements an interface, as a `class` statement does."""
    return type("Made", (Implements,), {**attributes, "__orig_bases__": (Implements[interface],)})


def without_decorators(**changed: Any) -> Any:
    """Create an implementation of `Counting` with changes; None removes a method."""
    methods = {"add": vars(Counter)["add"], "reset": vars(Counter)["reset"], "value": vars(Counter)["value"]}
    methods.update(changed)
    return implementing(Counting, **{name: method for name, method in methods.items() if method is not None})


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(DeclarationError) as caught:
        make()
    return str(caught.value)
