"""Messages as classes, for those who prefer them to methods.

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

A handler also takes the messages of classes that derive from its own, unless one of them has a handler itself.
"""

# What an actor keeps for the room under private names, so as not to take a user's, the room may use.
# pyright: reportPrivateUsage=false

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

from bandstand.actor.actor import Actor
from bandstand.actor.declaration import ON, make_port, read_class
from bandstand.actor.decorators import Mark
from bandstand.actor.decorators import ask as ask_mark
from bandstand.actor.facade import RESERVED, facade
from bandstand.actor.faces import Tell
from bandstand.actor.generics import argument_of, is_open
from bandstand.actor.posting import MessageAsk, MessageTell, Request
from bandstand.core import Lane
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.hot.port import Port

__all__ = ("MessageActor", "OnMark", "on")

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
class OnMark(Generic[M]):
    """What `on(...)` gives: the mark for some classes of messages."""

    __slots__ = ("_lane", "_messages", "_raises")

    def __init__(
        self, messages: tuple[type[M], ...], lane: Lane, raises: tuple[type[BaseException], ...]
    ) -> None:
        self._messages = messages
        self._lane = lane
        self._raises = raises

    def __call__(self, function: Callable[[S, M], R], /) -> Callable[[S, M], R]:
        """Mark a method; it stays a plain method."""
        known: list[tuple[type, Mark]] = list(getattr(function, ON, ()))
        for message in self._messages:
            is_ask = issubclass(message, Request)
            known.append((message, Mark(function, self._lane, is_ask=is_ask, raises=self._raises)))
        setattr(function, ON, known)
        return function


@overload
def on(first: type[A], /, *, lane: Lane = ..., raises: Raises = ...) -> OnMark[A]: ...
@overload
def on(first: type[A], second: type[B], /, *, lane: Lane = ..., raises: Raises = ...) -> OnMark[A | B]: ...
@overload
def on(
    first: type[A], second: type[B], third: type[C], /, *, lane: Lane = ..., raises: Raises = ...
) -> OnMark[A | B | C]: ...
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
) -> OnMark[A | B | C | D]: ...
def on(*messages: type[Any], lane: Lane = Lane.DATA, raises: Raises = ()) -> OnMark[Any]:
    """Mark a method of a `MessageActor` that handles messages of a class, or of several. Those that derive from `Request` are answered.

    Args:
        messages: the classes.
        lane: by which lane their messages go.
        raises: exceptions that are answers, as for `@ask`.

    Raises:
        BadDeclaration: one of them has no sense.
    """
    if not messages:
        raise BadDeclaration("@on names no class of messages")
    for message in messages:
        if not isinstance(message, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise BadDeclaration(f"@on: {safe_repr(message)} is no class of messages")
    # The same checks as for an ask; a lane and exceptions mean the same here.
    ask_mark(lane=lane, raises=raises)
    return OnMark(messages, lane, raises if isinstance(raises, tuple) else (raises,))


def _message_ports(cls: type) -> dict[type, Port]:
    ports: dict[type, Port] = {}
    for base in reversed(cls.__mro__):
        taken: dict[type, str] = {}
        for name, value in vars(base).items():
            for message, mark in getattr(value, ON, ()) if callable(value) else ():
                if message in taken:
                    raise BadDeclaration(
                        f"{cls.__qualname__} has two methods for {message.__qualname__}: {taken[message]} and {name}"
                    )
                taken[message] = name
                # Whoever overrides the method means its handler, too.
                function = getattr_static(cls, name)
                if not isfunction(function):
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{name} is {safe_repr(function)}, but it is to handle {message.__qualname__}: make it a plain "
                        f"method"
                    )
                ports[message] = make_port(cls.__qualname__, name, function, mark)
                if ports[message].method.arity != 1:
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{name} handles messages, and so takes one and nothing else"
                    )
    return ports


def _refuse_mismatch(cls: type, ports: Mapping[type, Port]) -> None:
    declared = _declared(cls)
    if declared is None:
        return
    if missing := [message for message in declared if message not in ports]:
        raise BadDeclaration(
            f"{cls.__qualname__} has no method for {missing[0].__qualname__}, which it declares as its message: mark one with "
            f"@on({missing[0].__qualname__})"
        )
    for message, port in ports.items():
        if message not in declared:
            raise BadDeclaration(
                f"{cls.__qualname__}.{port.method.name} is for {message.__qualname__}, which is none of the messages it "
                f"declares: {', '.join(known.__qualname__ for known in declared)}"
            )


def _declared(cls: type) -> tuple[type, ...] | None:
    """The classes of messages that a class declares; None if that is left to those that derive from it."""
    if cls.__module__ == __name__:
        return None
    whole = argument_of(cls, MessageActor)
    if whole is None:
        raise BadDeclaration(
            f"{cls.__qualname__} derives from MessageActor without its messages: write MessageActor[A | B]"
        )
    if is_open(whole):
        return None
    parts = get_args(whole) if get_origin(whole) in (Union, UnionType) else (whole,)
    kinds = tuple(get_origin(part) or part for part in parts)
    for kind in kinds:
        if not isinstance(kind, type):
            raise BadDeclaration(
                f"{cls.__qualname__} declares {safe_repr(kind)} as its message: pass the class itself"
            )
    return kinds


class MessageActor(Actor, Generic[M_contra]):
    """Derive from `MessageActor[Deposit | GetBalance]`, and mark a method for each class with `@on`.

    Raises:
        BadDeclaration: when a class is made that has no method for one of its messages, two for one, or one for a class that
            is none of them.
    """

    @classmethod
    def _bs_declare(cls) -> None:
        face = {**facade(cls), "tell": property(MessageTell), "ask": property(MessageAsk)}
        schema = read_class(cls, RESERVED | {"ask", "tell"}, face, takes_messages=True)
        ports = _message_ports(cls)
        _refuse_mismatch(cls, ports)
        schema.messages.update(ports)
        cls._bs_adopt_schema(schema)

    @property
    def tell(self) -> Tell[[M_contra]]:
        """Send a message: `handle.tell(message)`; `tell.try_send` and `tell.when_room` are its twins.

        Raises:
            UnknownMessage: no method is for messages of this class.
            MailboxFull, NoSuchActor, LoopClosed: as for any one-way call.
        """
        return cast("Tell[[M_contra]]", MessageTell(self._bs_handle()))

    @property
    def ask(self) -> MessageAsk:
        """Send a request, and await its answer: `await handle.ask(message)`; `ask.blocking` and `ask.future` are its twins."""
        return MessageAsk(self._bs_handle())
