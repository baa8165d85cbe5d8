"""Decorators that make a method a message: `@tell`, `@ask`, `@batch`, `@batch_ask`.

A decorated method has three faces. On the class it is a `DeclaredMethod`, which holds the function, its lane and its options.
On the object, inside the actor, it is the plain method. On a handle it sends. Type checkers see the handle's side everywhere,
because a handle has the type of its class: `Tell` for one-way methods, `Ask` for requests. So put code that several handlers
share into an undecorated method.

Batches:

    class Writer(Actor):
        @batch(limit=64)
        def store(self, rows: list[Row]) -> None:
            self.database.insert(rows)

    writer.store(row)  # callers send one row at a time

Problem: some work costs about the same for one item as for many, such as a commit, a request or a write. An actor that handles
one message at a time pays this cost per message. Collecting items inside the actor, with a list and a timer, adds latency and
loses the list when the actor fails.

Choice: the mailbox is the list. When a message of a batch method is handled, the messages of the same method directly behind it
in its lane are handled with it, up to the limit. Nothing waits and nothing is reordered: an idle actor handles each message as it
comes, and a busy one handles more per turn the further it is behind.

Refused: waiting for more messages (an alarm can do that where it is wanted), and taking messages from behind others, which would
reorder a lane. Cost: other methods pay nothing; one batch counts as one message against the turn budget.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from inspect import (
    Parameter,
    isasyncgenfunction,
    iscoroutine,
    isfunction,
    isgeneratorfunction,
    signature,
)
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    Never,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    final,
    get_origin,
    overload,
)

from bandstand.actor.bound_methods import Ask, Tell
from bandstand.actor.introspection import POSITIONAL, evaluated_annotation, parameters_of
from bandstand.core import Lane
from bandstand.errors import DeclarationError
from bandstand.errors.formatting import safe_repr

__all__ = (
    "AskDecorator",
    "BatchAskDecorator",
    "BatchDecorator",
    "DeclaredAsk",
    "DeclaredMethod",
    "DeclaredTell",
    "TellDecorator",
    "ask",
    "batch",
    "batch_ask",
    "check_options",
    "tell",
)

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
X = TypeVar("X", bound=BaseException)

USER_LANES = (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)
MAX_BATCH = 1 << 20


# -- what a decorator leaves in the class ------------------------------------------------------------------------------


class DeclaredMethod:
    """A method that is a message: its function, its lane and its options."""

    def __init__(
        self,
        function: Callable[..., Any],
        lane: Lane,
        *,
        is_ask: bool = False,
        raises: tuple[type[BaseException], ...] = (),
        batch_limit: int = 0,
        is_reentrant: bool = False,
    ) -> None:
        decorator = _decorator_name(is_ask=is_ask, batch_limit=batch_limit)
        if not isfunction(function):
            raise DeclarationError(
                f"@{decorator} is on {safe_repr(function)}, which is not a function: put it on a plain method, def or async def, and not "
                f"above a decorator that returns something else"
            )
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise DeclarationError(
                f"@{decorator} is on {function.__qualname__}, a generator: a handler must return its answer, not yield it"
            )
        self.function = function
        self.lane = lane
        self.is_ask = is_ask
        self.raises = raises
        # The maximum number of messages the function takes at once, as a list; 0 if it takes a single message.
        self.batch_limit = batch_limit
        self.is_reentrant = is_reentrant
        # Name, docstring and signature, for introspection of the class.
        update_wrapper(cast("Callable[..., Any]", self), function)

    @property
    def decorator(self) -> str:
        """The decorator as it is written, without `@`: "tell", "ask(lane=Lane.CONTROL)"."""
        name = _decorator_name(is_ask=self.is_ask, batch_limit=self.batch_limit)
        return name if self.lane is Lane.DATA else f"{name}(lane=Lane.{self.lane.name})"

    @property
    def options(self) -> tuple[object, ...]:
        """Everything but the function: two declarations that differ in this are incompatible."""
        return (self.lane, self.is_ask, self.raises, self.batch_limit, self.is_reentrant)

    def bind(self, instance: object) -> Any:
        """Return the plain method of an actor, to be called inside it. A batch method is called with a single item."""
        return MethodType(_unbatched(self.function) if self.batch_limit else self.function, instance)

    def __repr__(self) -> str:
        kind = f"{'batch ' if self.batch_limit else ''}{'ask' if self.is_ask else 'one-way'}"
        return f"<{kind} method {self.function.__qualname__} on lane {self.lane.name}>"


def _decorator_name(*, is_ask: bool, batch_limit: int) -> str:
    if batch_limit:
        return "batch_ask" if is_ask else "batch"
    return "ask" if is_ask else "tell"


def _unbatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a batch method into one that takes a single item and returns a single answer."""

    def call(instance: object, item: object) -> Any:
        result: Any = function(instance, [item])
        return _await_only_answer(result) if iscoroutine(result) else _only_answer(result)

    return update_wrapper(call, function)


def _only_answer(result: Any) -> Any:
    return result if result is None else result[0]


async def _await_only_answer(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return _only_answer(await coroutine)


@final
class DeclaredTell(DeclaredMethod, Generic[P]):
    """A declared one-way method."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Tell[P]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Tell[P]:
        if instance is None:
            return self
        method: Tell[P] = self.bind(instance)
        return method


@final
class DeclaredAsk(DeclaredMethod, Generic[P, R]):
    """A declared method that answers."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Ask[P, R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Ask[P, R]:
        if instance is None:
            return self
        method: Ask[P, R] = self.bind(instance)
        return method


# -- one-way methods ---------------------------------------------------------------------------------------------------


@final
class TellDecorator:
    """The decorator that `tell(lane=...)` returns."""

    __slots__ = ("_lane",)

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    @overload
    def __call__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /
    ) -> DeclaredTell[P]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], None], /) -> DeclaredTell[P]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredTell[...]:
        """Declare a method."""
        return DeclaredTell(function, self._lane)


@overload
def tell(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]], /) -> DeclaredTell[P]: ...
@overload
def tell(function: Callable[Concatenate[Any, P], None], /) -> DeclaredTell[P]: ...
@overload
def tell(*, lane: Lane = ...) -> TellDecorator: ...
def tell(
    function: Callable[..., Any] | None = None, /, *, lane: Lane = Lane.DATA
) -> DeclaredTell[...] | TellDecorator:
    """Declare a one-way method: `handle.method()` sends a message and returns None at once.

    Args:
        function: the method, `def` or `async def`.
        lane: the lane of the message. An actor handles all CONTROL messages before MANAGEMENT, and those before DATA.

    Raises:
        DeclarationError: the lane is SYSTEM, or not a lane.
    """
    check_options("tell", lane, ())
    if function is None:
        return TellDecorator(lane)
    return DeclaredTell(function, lane)


# -- asks --------------------------------------------------------------------------------------------------------------


@final
class AskDecorator:
    """The decorator that `ask(lane=..., raises=...)` returns."""

    __slots__ = ("_lane", "_raises", "_reentrant")

    def __init__(self, lane: Lane, raises: tuple[type[BaseException], ...], *, reentrant: bool) -> None:
        self._lane = lane
        self._raises = raises
        self._reentrant = reentrant

    @overload
    def __call__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> DeclaredAsk[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> DeclaredAsk[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredAsk[..., Any]:
        """Declare a method."""
        return DeclaredAsk(
            function, self._lane, is_ask=True, raises=self._raises, is_reentrant=self._reentrant
        )


@overload
def ask(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /) -> DeclaredAsk[P, R]: ...
@overload
def ask(function: Callable[Concatenate[Any, P], R], /) -> DeclaredAsk[P, R]: ...
@overload
def ask(
    *,
    lane: Lane = ...,
    raises: type[BaseException] | tuple[type[BaseException], ...] = ...,
    reentrant: bool = ...,
) -> AskDecorator: ...
def ask(
    function: Callable[..., Any] | None = None,
    /,
    *,
    lane: Lane = Lane.DATA,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    reentrant: bool = False,
) -> DeclaredAsk[..., Any] | AskDecorator:
    """Declare a method that answers: `await handle.method()` returns what the method returns.

    Args:
        function: the method, `def` or `async def`.
        lane: the lane of the request; DATA by default.
        raises: exceptions that are answers. They are raised in the caller, and the actor continues. Any other exception fails the
            actor, and the caller gets `TargetEndedError` with that exception as its cause.
        reentrant: whether an ask that would close a cycle (this actor waits, directly or through others, for the caller) is handled
            out of turn, while this actor's current handler stays suspended. Otherwise such an ask is refused with `AskCycleError`.

    Raises:
        DeclarationError: the lane is SYSTEM, or `raises` contains something other than exception classes.
    """
    kinds = check_options("ask", lane, raises)
    if type(reentrant) is not bool:
        raise DeclarationError(f"@ask: reentrant is {safe_repr(reentrant)}: pass True or False")
    if function is None:
        return AskDecorator(lane, kinds, reentrant=reentrant)
    return DeclaredAsk(function, lane, is_ask=True, raises=kinds, is_reentrant=reentrant)


def check_options(
    decorator: str, lane: object, raises: type[BaseException] | tuple[type[BaseException], ...]
) -> tuple[type[BaseException], ...]:
    """Check the lane and the declared exceptions of a decorator, and return the exceptions as a tuple.

    Raises:
        DeclarationError: the lane is not a user lane, or `raises` contains something other than exception classes.
    """
    if type(lane) is not Lane or lane not in USER_LANES:
        raise DeclarationError(
            f"@{decorator}: lane is {safe_repr(lane)}: pass Lane.CONTROL, Lane.MANAGEMENT or Lane.DATA"
        )
    kinds = raises if isinstance(raises, tuple) else (raises,)
    for kind in kinds:
        if not _is_exception_class(kind):
            raise DeclarationError(
                f"@{decorator}: raises contains {safe_repr(kind)}: pass Exception or classes derived from it"
            )
    return kinds


def _is_exception_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


# -- batches -----------------------------------------------------------------------------------------------------------


@final
class BatchDecorator:
    """The decorator that `batch(...)` returns."""

    __slots__ = ("_lane", "_limit")

    def __init__(self, lane: Lane, limit: int) -> None:
        self._lane = lane
        self._limit = limit

    @overload
    def __call__(
        self, function: Callable[[Any, list[T]], Coroutine[Any, Any, None]], /
    ) -> DeclaredTell[[T]]: ...
    @overload
    def __call__(self, function: Callable[[Any, list[T]], None], /) -> DeclaredTell[[T]]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredTell[...]:
        """Declare a method."""
        declared: DeclaredTell[...] = DeclaredTell(function, self._lane, batch_limit=self._limit)
        _check_batch_parameter("batch", function)
        return declared


@final
class BatchAskDecorator(Generic[E]):
    """The decorator that `batch_ask(...)` returns. `E` is the type of the exceptions that may be among the answers."""

    __slots__ = ("_lane", "_limit", "_raises")

    def __init__(self, lane: Lane, limit: int, raises: tuple[type[BaseException], ...]) -> None:
        self._lane = lane
        self._limit = limit
        self._raises = raises

    @overload
    def __call__(
        self, function: Callable[[Any, list[T]], Coroutine[Any, Any, Sequence[R | E]]], /
    ) -> DeclaredAsk[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[Any, list[T]], Sequence[R | E]], /) -> DeclaredAsk[[T], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> DeclaredAsk[..., Any]:
        """Declare a method."""
        declared: DeclaredAsk[..., Any] = DeclaredAsk(
            function, self._lane, is_ask=True, raises=self._raises, batch_limit=self._limit
        )
        _check_batch_parameter("batch_ask", function)
        _check_batch_result(function)
        return declared


def batch(*, limit: int = 64, lane: Lane = Lane.DATA) -> BatchDecorator:
    """Declare a one-way method that takes a list of messages: `@batch(limit=64)` on `def store(self, rows: list[Row]) -> None`.

    Callers send one item at a time: `handle.store(row)`, with `try_send` and `when_room`. The list contains the message whose turn it
    is and those of the same method directly behind it in its lane: at least one, at most `limit`, in the order they were sent. The
    actor does not wait for more. If the actor fails, all messages of the list count as being handled.

    Args:
        limit: the maximum length of the list.
        lane: the lane of the messages.

    Raises:
        DeclarationError: an argument is invalid, or the method does not take exactly one list.
    """
    check_options("batch", lane, ())
    return BatchDecorator(lane, _checked_limit("batch", limit))


@overload
def batch_ask(*, limit: int = ..., lane: Lane = ...) -> BatchAskDecorator[Never]: ...
@overload
def batch_ask(
    *, limit: int = ..., lane: Lane = ..., raises: type[X] | tuple[type[X], ...]
) -> BatchAskDecorator[X]: ...
def batch_ask(
    *,
    limit: int = 64,
    lane: Lane = Lane.DATA,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> BatchAskDecorator[Any]:
    """Declare a batch method that answers: it returns one answer per item, in the same order, and each caller gets its own.

    An ask that is cancelled before the batch starts is not in the list. One that is cancelled later gets no answer, and the handler
    is cancelled once all of its asks are. If an answer is an instance of a declared exception, it is raised in that caller. A
    declared exception that the method raises is the answer to all of the list. Any other exception, or a list of another length,
    fails the actor, and all callers get `TargetEndedError`.

    Args:
        limit: the maximum length of the list.
        lane: the lane of the requests.
        raises: exceptions that are answers.

    Raises:
        DeclarationError: an argument is invalid, or the method does not take exactly one list.
    """
    kinds = check_options("batch_ask", lane, raises)
    return BatchAskDecorator(lane, _checked_limit("batch_ask", limit), kinds)


def _checked_limit(decorator: str, limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_BATCH:
        raise DeclarationError(
            f"@{decorator}: limit is {safe_repr(limit)}: pass the maximum length of a batch, from 1 to {MAX_BATCH}"
        )
    return limit


def _check_batch_parameter(decorator: str, function: Callable[..., Any]) -> None:
    parameters = parameters_of(function)
    if (
        len(parameters) != 1
        or parameters[0].kind not in POSITIONAL
        or parameters[0].default is not Parameter.empty
    ):
        raise DeclarationError(
            f"@{decorator} is on {function.__qualname__}{signature(function)}: a batch method takes one parameter besides self, a list"
        )
    parameter_class = _annotated_class(function, parameters[0].name)
    if parameter_class is not None and not issubclass(list, parameter_class):
        raise DeclarationError(
            f"@{decorator} is on {function.__qualname__}, whose parameter {parameters[0].name} has type {parameter_class.__qualname__}: it "
            f"gets a list"
        )


def _check_batch_result(function: Callable[..., Any]) -> None:
    result_class = _annotated_class(function, "return")
    if (
        result_class is not None
        and not issubclass(list, result_class)
        and not issubclass(result_class, list | tuple)
    ):
        raise DeclarationError(
            f"@batch_ask is on {function.__qualname__}, which returns {result_class.__qualname__}: return a list with one answer per "
            f"item, or use @batch for a one-way method"
        )


def _annotated_class(function: Callable[..., Any], name: str) -> type | None:
    """Return the class an annotation names; None if it names none, or cannot be evaluated."""
    if not isfunction(function) or name not in function.__annotations__:
        return None
    annotation = evaluated_annotation(function, name)
    if annotation is None:
        return type(None)
    found = get_origin(annotation) or annotation
    return found if isinstance(found, type) and found is not Any else None
