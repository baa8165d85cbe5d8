"""Methods that take what has arrived as a list: `@batch` and `@batch_ask`.

    class Writer(Actor):
        @batch(limit=64)
        def store(self, rows: list[Row]) -> None:
            self.database.insert(rows)

    writer.store(row)  # callers send one, as always

The problem. Some work costs about the same for one as for many: a commit, a request, a write. An actor that gets a message at a time
pays it for each. Collecting inside the actor, by a list and a timer, waits where nothing need wait, and loses the list with the actor.

The choice. What waits in the mailbox *is* the list. When a message of such a method has its turn, those of the same method that stand
right behind it in its lane come along, up to the limit. So nothing is waited for, nothing overtakes anything, an idle actor handles
each message as it comes, and a busy one handles more at once the further it is behind.

Refused: a time to wait for more (an alarm does that, where it is wanted); taking messages from behind others, which would reorder a
lane. Cost: a method of its own kind costs ordinary ones nothing; the turn of a batch counts as one against the budget of a visit.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from inspect import Parameter, isfunction, signature
from typing import Any, Generic, Never, TypeVar, final, get_origin, overload

from bandstand.actor.decorators import AskMark, TellMark, checked_settings
from bandstand.actor.introspection import BY_POSITION, hint_of, parameters_of
from bandstand.core import Lane
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

__all__ = ("BatchAskMarker", "BatchMarker", "batch", "batch_ask")

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X", bound=BaseException)

MOST = 1 << 20


@final
class BatchMarker:
    """What `batch(...)` gives: the mark with those settings."""

    __slots__ = ("_lane", "_limit")

    def __init__(self, lane: Lane, limit: int) -> None:
        self._lane = lane
        self._limit = limit

    @overload
    def __call__(self, function: Callable[[Any, list[T]], Coroutine[Any, Any, None]], /) -> TellMark[[T]]: ...
    @overload
    def __call__(self, function: Callable[[Any, list[T]], None], /) -> TellMark[[T]]: ...
    def __call__(self, function: Callable[..., Any], /) -> TellMark[...]:
        """Mark a method."""
        mark: TellMark[...] = TellMark(function, self._lane, limit=self._limit)
        _refuse_shape("batch", function)
        return mark


@final
class BatchAskMarker(Generic[E]):
    """What `batch_ask(...)` gives: the mark with those settings. Its type says what answers are raised."""

    __slots__ = ("_lane", "_limit", "_raises")

    def __init__(self, lane: Lane, limit: int, raises: tuple[type[BaseException], ...]) -> None:
        self._lane = lane
        self._limit = limit
        self._raises = raises

    @overload
    def __call__(
        self, function: Callable[[Any, list[T]], Coroutine[Any, Any, Sequence[R | E]]], /
    ) -> AskMark[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[Any, list[T]], Sequence[R | E]], /) -> AskMark[[T], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> AskMark[..., Any]:
        """Mark a method."""
        mark: AskMark[..., Any] = AskMark(
            function, self._lane, is_ask=True, raises=self._raises, limit=self._limit
        )
        _refuse_shape("batch_ask", function)
        _refuse_answer(function)
        return mark


def batch(*, limit: int = 64, lane: Lane = Lane.DATA) -> BatchMarker:
    """Mark a one-way method that takes a list of what has arrived: `@batch(limit=64)` on `def store(self, rows: list[Row]) -> None`.

    On a handle it is a method of one: `handle.store(row)`, with `try_send` and `when_room`. The list has what was sent first, and what
    waited right behind it in its lane for the same method: at least one, never more than `limit`, in the order of sending. Nothing is
    waited for. If the actor ends at it, all of the list were being handled.

    Args:
        limit: how many it takes at once.
        lane: by which lane its messages go.

    Raises:
        BadDeclaration: one of them has no sense, or the method takes something else than one list.
    """
    checked_settings("batch", lane, ())
    return BatchMarker(lane, _checked_limit("batch", limit))


@overload
def batch_ask(*, limit: int = ..., lane: Lane = ...) -> BatchAskMarker[Never]: ...
@overload
def batch_ask(
    *, limit: int = ..., lane: Lane = ..., raises: type[X] | tuple[type[X], ...]
) -> BatchAskMarker[X]: ...
def batch_ask(
    *,
    limit: int = 64,
    lane: Lane = Lane.DATA,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> BatchAskMarker[Any]:
    """The same for a method that answers: it returns a list of as many answers, and each asker gets his own.

    An ask that was taken back before is not in the list; one that is taken back later is not answered, and the handler is cancelled
    when nobody is left. An answer that is an exception of a declared class is raised where it was asked; one that the method raises is
    the answer to all of the list. Any other exception, or a list of another length, is a failure of the actor: all get `TargetEnded`.

    Args:
        limit: how many it takes at once.
        lane: by which lane its messages go.
        raises: exceptions that are answers.

    Raises:
        BadDeclaration: one of them has no sense, or the method takes something else than one list.
    """
    kinds = checked_settings("batch_ask", lane, raises)
    return BatchAskMarker(lane, _checked_limit("batch_ask", limit), kinds)


def _checked_limit(mark: str, limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise BadDeclaration(
            f"@{mark}: limit is {safe_repr(limit)}: pass how many it takes at once, from 1 to {MOST}"
        )
    return limit


def _refuse_shape(mark: str, function: Callable[..., Any]) -> None:
    parameters = parameters_of(function)
    if (
        len(parameters) != 1
        or parameters[0].kind not in BY_POSITION
        or parameters[0].default is not Parameter.empty
    ):
        raise BadDeclaration(
            f"@{mark} is on {function.__qualname__}{signature(function)}: it takes one parameter besides self, the list of what has arrived"
        )
    taken = _class_of(function, parameters[0].name)
    if taken is not None and not issubclass(list, taken):
        raise BadDeclaration(
            f"@{mark} is on {function.__qualname__}, whose {parameters[0].name} is of {taken.__qualname__}: it gets a list"
        )


def _refuse_answer(function: Callable[..., Any]) -> None:
    answered = _class_of(function, "return")
    if answered is not None and not issubclass(list, answered) and not issubclass(answered, list | tuple):
        raise BadDeclaration(
            f"@batch_ask is on {function.__qualname__}, which is to return {answered.__qualname__}: it returns a list of as many answers as it "
            f"was given; mark one that answers nobody with @batch"
        )


def _class_of(function: Callable[..., Any], name: str) -> type | None:
    """The class that an annotation names; None if it names none, or that cannot be told here."""
    if not isfunction(function) or name not in function.__annotations__:
        return None
    hint = hint_of(function, name)
    if hint is None:
        return type(None)
    found = get_origin(hint) or hint
    return found if isinstance(found, type) and found is not Any else None
