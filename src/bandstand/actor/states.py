"""States of a machine, as they are written in its class.

    class Door(Machine):
        @data
        def push(self) -> None: ...

        closed = State()
        opened = State(after_ms=5_000)

        @closed.on(push)
        def open(self) -> None:
            self.become(Door.opened)

`closed.on(push)` takes a handler of the very signature that `push` has: type checkers see that, and so does the class when it is made.
What a decorator has seen is noted in the body of the class that is being made, and not on the state: a class that derives from `Door`
says what *it* does in `Door.closed`, and `Door` is none the wiser.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable
from inspect import isfunction
from typing import Any, Concatenate, Generic, Literal, NamedTuple, ParamSpec, TypeVar, final, overload

from bandstand.actor.decorators import AskMark, Mark, TellMark
from bandstand.actor.faces import checked_ask_ms
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

__all__ = ("NOTED", "HandlerMark", "Note", "State")

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

NOTED = "__bandstand_states__"
"""Where the body of a class keeps what its states' decorators have seen."""

Role = Literal["enter", "leave", "on", "timeout"]


class Note(NamedTuple):
    """What one decorator has seen."""

    state: State
    role: Role
    mark: Mark | None
    function: Callable[..., Any]


def _note(depth: int, state: State, role: Role, mark: Mark | None, function: Callable[..., Any]) -> None:
    # The body of a class is a frame, whose locals become the class.
    body = sys._getframe(depth).f_locals  # pyright: ignore[reportPrivateUsage]  # see above
    if "__qualname__" not in body or "__module__" not in body:
        raise BadDeclaration(
            f"{safe_repr(state)}: @{role} is used in the body of a class of machines, and nowhere else"
        )
    if not isfunction(function):
        raise BadDeclaration(
            f"{safe_repr(state)}: @{role} is on {safe_repr(function)}, which is no plain method"
        )
    body.setdefault(NOTED, []).append(Note(state, role, mark, function))


@final
class HandlerMark(Generic[P, R]):
    """What `state.on(message)` gives: the mark of a handler in that state."""

    __slots__ = ("_mark", "_state")

    def __init__(self, state: State, mark: Mark) -> None:
        self._state = state
        self._mark = mark

    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], /
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[S, P], R], /) -> Callable[Concatenate[S, P], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Mark a handler; it stays a plain method."""
        _note(2, self._state, "on", self._mark, function)
        return function


@final
class State:
    """One state of a `Machine`. The first that a class declares is where its machines begin, unless another is `initial`.

    Args:
        initial: whether machines begin here.
        after_ms: how long a machine may stay before `@state.timeout` is called; None for as long as it likes.
        postpones: messages that are kept while a machine is in this state, and come back at the next transition.
        ignores: one-way messages to which nothing happens in this state.

    Raises:
        BadDeclaration: one of them has no sense.
    """

    __slots__ = ("after_ms", "ignores", "initial", "name", "postpones")

    def __init__(
        self,
        *,
        initial: bool = False,
        after_ms: float | None = None,
        postpones: Iterable[Mark] = (),
        ignores: Iterable[Mark] = (),
    ) -> None:
        self.name = ""
        """How the class calls it."""
        self.initial = initial
        if after_ms is not None:
            checked_ask_ms("State: after_ms", after_ms)
        self.after_ms = after_ms
        self.postpones = tuple(postpones)
        self.ignores = tuple(ignores)
        for word, marks in (("postpones", self.postpones), ("ignores", self.ignores)):
            for mark in marks:
                if not isinstance(mark, Mark):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                    raise BadDeclaration(
                        f"State: {word} has {safe_repr(mark)}, which is no message: pass marked methods, (push,)"
                    )

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name and self.name != name:
            raise BadDeclaration(f"{owner.__qualname__}.{name} is {self!r} by another name: a state has one")
        self.name = name

    @overload
    def on(self, message: TellMark[P], /) -> HandlerMark[P, None]: ...
    @overload
    def on(self, message: AskMark[P, R], /) -> HandlerMark[P, R]: ...
    def on(self, message: Any, /) -> HandlerMark[..., Any]:
        """Mark the method that handles a message in this state: `@closed.on(push)`.

        Raises:
            BadDeclaration: that is no message, or takes a list.
        """
        if not isinstance(message, Mark):
            raise BadDeclaration(f"{self!r}.on: {safe_repr(message)} is no message: pass a marked method")
        if message.limit:
            raise BadDeclaration(
                f"{self!r}.on: {safe_repr(message)} takes a list, which is handled alike in all states: look at self.state there"
            )
        return HandlerMark(self, message)

    def timeout(self, function: F, /) -> F:
        """Mark the method, `def` or `async def`, that is called when a machine has been here for `after_ms` without leaving."""
        _note(2, self, "timeout", None, function)
        return function

    def enter(self, function: F, /) -> F:
        """Mark the method that is called when a machine comes here: a plain one, in the turn of the transition."""
        _note(2, self, "enter", None, function)
        return function

    def leave(self, function: F, /) -> F:
        """Mark the method that is called when a machine goes from here: a plain one, in the turn of the transition."""
        _note(2, self, "leave", None, function)
        return function

    def __repr__(self) -> str:
        return f"<state {self.name or '(not named yet)'}>"
