"""Messages as classes, for code that prefers them to methods.

    @dataclass
    class Deposit:
        amount: int

    @dataclass
    class GetBalance(Request[int]):
        pass

    class Account(MessageActor[Deposit | GetBalance]):
        @on(Deposit)
        def deposit(self, message: Deposit) -> None: ...

        @on(GetBalance)
        def balance(self, message: GetBalance) -> int: ...

    account.tell(Deposit(5))
    await account.ask(GetBalance())

A handler also receives messages of derived classes, unless those have a handler of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getattr_static, isfunction
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    final,
    get_args,
    get_origin,
    overload,
)

from bandstand.actor.actor import Actor, own_handle
from bandstand.actor.bound_methods import MessageAsk, MessageTell, Request, Tell
from bandstand.actor.declaration import MESSAGE_CLASSES, ActorSchema, make_handle_method, read_class
from bandstand.actor.decorators import DeclaredMethod, check_options
from bandstand.actor.introspection import has_type_variable, type_argument
from bandstand.core import Lane
from bandstand.errors import DeclarationError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.handle import HandleMethod

__all__ = ("MessageActor", "OnDecorator", "on")

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
S = TypeVar("S")

Raises: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


@final
class OnDecorator(Generic[M]):
    """The decorator that `on(...)` returns."""

    __slots__ = ("_lane", "_messages", "_raises")

    def __init__(
        self, messages: tuple[type[M], ...], lane: Lane, raises: tuple[type[BaseException], ...]
    ) -> None:
        self._messages = messages
        self._lane = lane
        self._raises = raises

    def __call__(self, function: Callable[[S, M], R], /) -> Callable[[S, M], R]:
        """Declare a handler; it remains a plain method."""
        known: list[tuple[type, DeclaredMethod]] = list(getattr(function, MESSAGE_CLASSES, ()))
        for message in self._messages:
            is_ask = issubclass(message, Request)
            known.append((message, DeclaredMethod(function, self._lane, is_ask=is_ask, raises=self._raises)))
        setattr(function, MESSAGE_CLASSES, known)
        return function


@overload
def on(first: type[A], /, *, lane: Lane = ..., raises: Raises = ...) -> OnDecorator[A]: ...
@overload
def on(
    first: type[A], second: type[B], /, *, lane: Lane = ..., raises: Raises = ...
) -> OnDecorator[A | B]: ...
@overload
def on(
    first: type[A], second: type[B], third: type[C], /, *, lane: Lane = ..., raises: Raises = ...
) -> OnDecorator[A | B | C]: ...
@overload
def on(
    first: type[A],
    second: type[B],
    third: type[C],
    fourth: type[D],
    /,
    *,
    lane: Lane = ...,
    raises: Raises = ...,
) -> OnDecorator[A | B | C | D]: ...
def on(*messages: type[Any], lane: Lane = Lane.DATA, raises: Raises = ()) -> OnDecorator[Any]:
    """Declare a method of a `MessageActor` as the handler of one or more message classes. Those derived from `Request` are answered.

    Args:
        messages: the classes.
        lane: the lane of their messages.
        raises: exceptions that are answers, as for `@ask`.

    Raises:
        DeclarationError: an argument is invalid.
    """
    if not messages:
        raise DeclarationError("@on has no message class: pass at least one")
    for message in messages:
        if not isinstance(message, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
            raise DeclarationError(f"@on: {safe_repr(message)} is not a message class")
    return OnDecorator(messages, lane, check_options("on", lane, raises))


def _read_handlers(cls: type) -> dict[type, HandleMethod]:
    handle_methods: dict[type, HandleMethod] = {}
    for base in reversed(cls.__mro__):
        taken: dict[type, str] = {}
        for name, value in vars(base).items():
            for message, declared in getattr(value, MESSAGE_CLASSES, ()) if callable(value) else ():
                if message in taken:
                    raise DeclarationError(
                        f"{cls.__qualname__} has two methods for {message.__qualname__}: {taken[message]} and {name}"
                    )
                taken[message] = name
                # A derived class that overrides the method also overrides the handler.
                function = getattr_static(cls, name)
                if not isfunction(function):
                    raise DeclarationError(
                        f"{cls.__qualname__}.{name} is {safe_repr(function)}, but it handles {message.__qualname__}: make it a plain method"
                    )
                handle_methods[message] = make_handle_method(cls.__qualname__, name, function, declared)
                if handle_methods[message].method.arity != 1:
                    raise DeclarationError(
                        f"{cls.__qualname__}.{name} handles messages: it must take exactly one parameter besides self"
                    )
    return handle_methods


def _check_declared(cls: type, handle_methods: Mapping[type, HandleMethod]) -> None:
    """Check that the message classes with a handler are exactly those the class declares."""
    declared = _message_classes(cls)
    if declared is None:
        return
    if missing := [message for message in declared if message not in handle_methods]:
        raise DeclarationError(
            f"{cls.__qualname__} has no method for {missing[0].__qualname__}, one of its declared messages: decorate one with "
            f"@on({missing[0].__qualname__})"
        )
    for message, handle_method in handle_methods.items():
        if message not in declared:
            raise DeclarationError(
                f"{cls.__qualname__}.{handle_method.method.name} handles {message.__qualname__}, which is not one of its declared messages: "
                f"{', '.join(known.__qualname__ for known in declared)}"
            )


def _message_classes(cls: type) -> tuple[type, ...] | None:
    """Return the message classes a class declares; None if a generic class leaves them to derived classes."""
    if cls.__module__ == __name__:
        return None
    argument = type_argument(cls, MessageActor)
    if argument is None:
        raise DeclarationError(
            f"{cls.__qualname__} derives from MessageActor without its messages: write MessageActor[A | B]"
        )
    if has_type_variable(argument):
        return None
    parts = get_args(argument) if get_origin(argument) in (Union, UnionType) else (argument,)
    classes = tuple(get_origin(part) or part for part in parts)
    for message in classes:
        if not isinstance(message, type):
            raise DeclarationError(
                f"{cls.__qualname__} declares {safe_repr(message)} as its message: pass the class itself"
            )
    return classes


class MessageActor(Actor, Generic[M_contra]):
    """Derive from `MessageActor[Deposit | GetBalance]`, and decorate a method for each class with `@on`.

    Raises:
        DeclarationError: when a class is created that has no method for one of its message classes, two for the same, or one for a
            class it does not declare.
    """

    @classmethod
    def __actor_declare__(cls) -> ActorSchema | None:
        schema = read_class(
            cls,
            reserved=("ask", "tell"),
            members={"tell": property(MessageTell), "ask": property(MessageAsk)},
            accepts_message_classes=True,
        )
        handle_methods = _read_handlers(cls)
        _check_declared(cls, handle_methods)
        schema.messages.update(handle_methods)
        return schema

    @property
    def tell(self) -> Tell[[M_contra]]:
        """Send a message: `handle.tell(message)`. Also `tell.try_send` and `tell.when_room`.

        Raises:
            UnknownMessageError: no method handles messages of this class.
            MailboxFullError, NoSuchActorError, LoopClosedError: as for any one-way call.
        """
        return cast("Tell[[M_contra]]", MessageTell(own_handle(self)))

    @property
    def ask(self) -> MessageAsk:
        """Send a request and wait for its answer: `await handle.ask(message)`. Also `ask.blocking` and `ask.future`."""
        return MessageAsk(own_handle(self))
