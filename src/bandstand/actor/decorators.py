"""The marks that make a method a message: `@control`, `@management`, `@data`, `@ask`.

On the class, a mark keeps the function and says by which lane its messages go. On the object, inside the actor, it is the
plain method. On a handle it is a port, which sends. Type checkers see the handle's side everywhere, since a handle has the
type of its class: `Tell` for one-way methods, `Ask` for requests. So code that several handlers share belongs in a method
without a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from inspect import isasyncgenfunction, iscoroutine, isfunction, isgeneratorfunction
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, final, overload

from bandstand.actor.faces import Ask, Tell
from bandstand.core import Lane
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

__all__ = ("AskMark", "AskMarker", "Mark", "TellMark", "ask", "control", "data", "management")

P = ParamSpec("P")
R = TypeVar("R")


USER_LANES = (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)


def is_exception(kind: object) -> bool:
    """Whether something is a class of ordinary exceptions."""
    return isinstance(kind, type) and issubclass(kind, Exception)


def single(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes a list, for one."""

    def call(instance: object, item: object) -> Any:
        result: Any = function(instance, [item])
        return _only(result) if iscoroutine(result) else _first(result)

    return update_wrapper(call, function)


def _first(result: Any) -> Any:
    return result if result is None else result[0]


async def _only(work: Coroutine[Any, Any, Any]) -> Any:
    return _first(await work)


class Mark:
    """A function that is a message, and how it goes."""

    def __init__(
        self,
        function: Callable[..., Any],
        lane: Lane,
        *,
        is_ask: bool = False,
        raises: tuple[type[BaseException], ...] = (),
        limit: int = 0,
        is_reentrant: bool = False,
    ) -> None:
        mark = self.word_of(lane, is_ask=is_ask, limit=limit)
        if not isfunction(function):
            raise BadDeclaration(
                f"@{mark} is on {safe_repr(function)}, which is no function: put it on a plain method, def or async def, above no other "
                f"decorator that makes something else of it"
            )
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise BadDeclaration(
                f"@{mark} is on {function.__qualname__}, a generator: a handler returns its answer, it does not yield"
            )
        self.function = function
        self.lane = lane
        self.is_ask = is_ask
        self.raises = raises
        # How many messages it takes at once, as a list; 0 if it takes one, by itself.
        self.limit = limit
        self.is_reentrant = is_reentrant
        # For people who look at the class: name, text and signature are the method's own.
        update_wrapper(cast("Callable[..., Any]", self), function)

    @staticmethod
    def word_of(lane: Lane, *, is_ask: bool, limit: int) -> str:
        """What the mark is called."""
        if limit:
            return "batch_ask" if is_ask else "batch"
        return "ask" if is_ask else lane.name.lower()

    @property
    def word(self) -> str:
        """What it is called."""
        return self.word_of(self.lane, is_ask=self.is_ask, limit=self.limit)

    @property
    def manner(self) -> tuple[object, ...]:
        """How its messages go: two marks that differ in this are two different promises."""
        return (self.lane, self.is_ask, self.raises, self.limit, self.is_reentrant)

    def plain(self, instance: object) -> Any:
        """The method of an actor itself, as it is inside: called, not sent. One that takes a list is called with one, as it is sent."""
        return MethodType(single(self.function) if self.limit else self.function, instance)

    def __repr__(self) -> str:
        kind = f"{'batching ' if self.limit else ''}{'ask' if self.is_ask else 'one-way'}"
        return f"<{kind} method {self.function.__qualname__} by {self.lane.name}>"


@final
class TellMark(Mark, Generic[P]):
    """A one-way method."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Tell[P]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Tell[P]:
        if instance is None:
            return self
        plain: Tell[P] = self.plain(instance)
        return plain


@final
class AskMark(Mark, Generic[P, R]):
    """A method that answers."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Ask[P, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Ask[P, R]:
        if instance is None:
            return self
        plain: Ask[P, R] = self.plain(instance)
        return plain


@overload
def control(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /) -> TellMark[P]: ...
@overload
def control(function: Callable[Concatenate[Any, P], None], /) -> TellMark[P]: ...
def control(function: Callable[..., Any], /) -> TellMark[...]:
    """Mark a one-way method whose messages go by the CONTROL lane, before all others of users."""
    return TellMark(function, Lane.CONTROL)


@overload
def management(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /) -> TellMark[P]: ...
@overload
def management(function: Callable[Concatenate[Any, P], None], /) -> TellMark[P]: ...
def management(function: Callable[..., Any], /) -> TellMark[...]:
    """Mark a one-way method whose messages go by the MANAGEMENT lane: after CONTROL, before DATA."""
    return TellMark(function, Lane.MANAGEMENT)


@overload
def data(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /) -> TellMark[P]: ...
@overload
def data(function: Callable[Concatenate[Any, P], None], /) -> TellMark[P]: ...
def data(function: Callable[..., Any], /) -> TellMark[...]:
    """Mark a one-way method whose messages go by the DATA lane."""
    return TellMark(function, Lane.DATA)


def checked_settings(
    mark: str, lane: object, raises: type[BaseException] | tuple[type[BaseException], ...]
) -> tuple[type[BaseException], ...]:
    """What a mark may raise, as a tuple; a wrong one, or a wrong lane, is refused.

    Raises:
        BadDeclaration: so it is.
    """
    if type(lane) is not Lane or lane not in USER_LANES:
        raise BadDeclaration(
            f"@{mark}: lane is {safe_repr(lane)}: pass Lane.CONTROL, Lane.MANAGEMENT or Lane.DATA"
        )
    kinds = raises if isinstance(raises, tuple) else (raises,)
    for kind in kinds:
        if not is_exception(kind):
            raise BadDeclaration(
                f"@{mark}: raises has {safe_repr(kind)}: pass exception classes, none of them above Exception"
            )
    return kinds


@final
class AskMarker:
    """What `ask(lane=..., raises=...)` gives: the mark with those settings."""

    __slots__ = ("_lane", "_raises", "_reentrant")

    def __init__(self, lane: Lane, raises: tuple[type[BaseException], ...], *, reentrant: bool) -> None:
        self._lane = lane
        self._raises = raises
        self._reentrant = reentrant

    @overload
    def __call__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> AskMark[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> AskMark[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> AskMark[..., Any]:
        """Mark a method."""
        return AskMark(function, self._lane, is_ask=True, raises=self._raises, is_reentrant=self._reentrant)


@overload
def ask(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> AskMark[P, R]: ...
@overload
def ask(function: Callable[Concatenate[Any, P], R], /) -> AskMark[P, R]: ...
@overload
def ask(
    *,
    lane: Lane = ...,
    raises: type[BaseException] | tuple[type[BaseException], ...] = ...,
    reentrant: bool = ...,
) -> AskMarker: ...
def ask(
    function: Callable[..., Any] | None = None,
    /,
    *,
    lane: Lane = Lane.DATA,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    reentrant: bool = False,
) -> AskMark[..., Any] | AskMarker:
    """Mark a method that answers: `await handle.method()` gives what it returns.

    Args:
        function: the method, `def` or `async def`.
        lane: by which lane the request goes; DATA if nothing is said.
        raises: exceptions that are answers. The asker gets them as they are, and the actor lives on. Any other exception is a
            failure of the actor; the asker gets `TargetEnded`, with the exception as its cause.
        reentrant: whether an ask that would close a cycle (its actor waits, directly or through others, for the asker) is handled
            out of turn, while the actor's own handler stays suspended, instead of being refused with `AskCycle`.

    Raises:
        BadDeclaration: the lane is the system's, or `raises` has something that is no exception class.
    """
    kinds = checked_settings("ask", lane, raises)
    if type(reentrant) is not bool:
        raise BadDeclaration(f"@ask: reentrant is {safe_repr(reentrant)}: pass True or False")
    if function is None:
        return AskMarker(lane, kinds, reentrant=reentrant)
    return AskMark(function, lane, is_ask=True, raises=kinds, is_reentrant=reentrant)
