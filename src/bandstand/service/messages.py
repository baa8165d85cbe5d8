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
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast, final, get_args, get_origin

from bandstand.core import Lane
from bandstand.errors import BadDeclaration, UnknownMessage
from bandstand.service import far
from bandstand.service.actor import RESERVED, Actor, facade
from bandstand.service.declare import make_port, read_class
from bandstand.service.faces import Reply, Tell, checked_ask_ms
from bandstand.service.hot.port import ask, is_afar, land, tell, try_tell
from bandstand.service.marks import Mark
from bandstand.service.marks import ask as ask_mark
from bandstand.service.spawning import UNSET_MS

if TYPE_CHECKING:
    from bandstand.service.hot.handle import Handle
    from bandstand.service.hot.port import Port

__all__ = ("MessageActor", "OnMark", "Request", "on")

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MARK = "__bandstand_on__"


class Request(Generic[R_co]):
    """The base of messages that are answered: `class GetBalance(Request[int])` is answered with an int."""

    __slots__ = ()


@final
class OnMark(Generic[M]):
    """What `on(...)` gives: the mark for one class of messages."""

    __slots__ = ("_lane", "_message", "_raises")

    def __init__(self, message: type[M], lane: Lane, raises: tuple[type[BaseException], ...]) -> None:
        self._message = message
        self._lane = lane
        self._raises = raises

    def __call__(self, function: Callable[[Any, M], R], /) -> Callable[[Any, M], R]:
        """Mark a method; it stays a plain method."""
        is_ask = issubclass(self._message, Request)
        mark = Mark(function, self._lane, is_ask=is_ask, raises=self._raises)
        known: list[tuple[type, Mark]] = getattr(function, MARK, [])
        setattr(function, MARK, [*known, (self._message, mark)])
        return function


def on(
    message: type[M],
    /,
    *,
    lane: Lane = Lane.DATA,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> OnMark[M]:
    """Mark a method of a `MessageActor` that handles messages of one class. Those that derive from `Request` are answered.

    Args:
        message: the class. A method can have several such marks.
        lane: by which lane its messages go.
        raises: exceptions that are answers, as for `@ask`.

    Raises:
        BadDeclaration: one of them has no sense.
    """
    if not isinstance(message, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise BadDeclaration(f"@on: {message!r} is no class of messages")
    # The same checks as for an ask; a lane and exceptions mean the same here.
    ask_mark(lane=lane, raises=raises)
    return OnMark(message, lane, raises if isinstance(raises, tuple) else (raises,))


def _message_ports(cls: type) -> dict[type, Port]:
    ports: dict[type, Port] = {}
    for base in reversed(cls.__mro__):
        taken: dict[type, str] = {}
        for name, value in vars(base).items():
            for message, mark in getattr(value, MARK, ()) if callable(value) else ():
                if message in taken:
                    raise BadDeclaration(
                        f"{cls.__qualname__} has two methods for {message.__qualname__}: {taken[message]} and {name}"
                    )
                taken[message] = name
                # Whoever overrides the method means its handler, too.
                function = getattr(cls, name)
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
    for base in cls.__mro__:
        for written in vars(base).get("__orig_bases__", ()):
            origin = get_origin(written)
            if isinstance(origin, type) and issubclass(origin, MessageActor):
                whole = get_args(written)[0]
                if isinstance(whole, TypeVar):
                    return None
                parts = get_args(whole) if get_origin(whole) in (Union, UnionType) else (whole,)
                return tuple(get_origin(part) or part for part in parts)
    raise BadDeclaration(
        f"{cls.__qualname__} derives from MessageActor without its messages: write MessageActor[A | B]"
    )


def _port_for(handle: Handle, message: object) -> Port:
    messages: dict[type, Port] = getattr(handle, "messages")  # noqa: B009  # every handle class has them
    kind = type(message)
    port = messages.get(kind)
    if port is None:
        port = next((messages[base] for base in kind.__mro__ if base in messages), None)
        if port is None:
            known = ", ".join(sorted(one.__qualname__ for one in messages))
            raise UnknownMessage(
                f"{handle!r} has no method for messages of {kind.__qualname__}; it has some for {known}"
            )
        messages[kind] = port
    return port


@final
class MessageTell:
    """Sending messages of whatever class an actor takes: what `handle.tell` is."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, message: object) -> None:
        """Send a message."""
        tell(self._handle, _one_way(self._handle, message).method, message)

    def try_send(self, message: object) -> bool:
        """Send a message; False if it is not accepted."""
        return try_tell(self._handle, _one_way(self._handle, message).method, message)

    def when_room(self, message: object) -> Reply[None]:
        """Send a message as soon as there is room."""
        port = _one_way(self._handle, message)
        if is_afar(self._handle):
            return far.land(self._handle, port.method, message)
        return land(self._handle, port.method, message)


def _one_way(handle: Handle, message: object) -> Port:
    port = _port_for(handle, message)
    if port.method.is_ask:
        raise UnknownMessage(
            f"{type(message).__qualname__} is a Request, which is answered: use `await handle.ask(...)`"
        )
    return port


def ask_message(handle: Handle, message: Request[R], /, *, within: float | None = UNSET_MS) -> Reply[R]:
    """Ask by a message."""
    port = _port_for(handle, message)
    if not port.method.is_ask:
        raise UnknownMessage(
            f"{type(message).__qualname__} is no Request, so nobody answers it: use handle.tell(...), or derive it from Request"
        )
    ms = handle.ask_ms if within == UNSET_MS else checked_ask_ms("within", within)
    if is_afar(handle):
        return far.ask(handle, port.method, message, ms)
    return ask(handle, port.method, message, ms)


class MessageActor(Actor, Generic[M_contra]):
    """Derive from `MessageActor[Deposit | GetBalance]`, and mark a method for each class with `@on`.

    Raises:
        BadDeclaration: when a class is made that has no method for one of its messages, two for one, or one for a class that
            is none of them.
    """

    @classmethod
    def _declare(cls) -> None:
        face = {**facade(cls), "tell": property(MessageTell), "ask": ask_message}
        schema = read_class(cls, RESERVED | {"ask"}, face)
        ports = _message_ports(cls)
        _refuse_mismatch(cls, ports)
        schema.messages.update(ports)
        cls._adopt_schema(schema)

    @property
    def tell(self) -> Tell[[M_contra]]:
        """Send a message: `handle.tell(message)`; `tell.try_send` and `tell.when_room` are its twins.

        Raises:
            UnknownMessage: no method is for messages of this class.
            MailboxFull, NoSuchActor, LoopClosed: as for any one-way call.
        """
        return cast("Tell[[M_contra]]", MessageTell(self._handle()))

    def ask(self, message: Request[R], /, *, within: float | None = UNSET_MS) -> Reply[R]:
        """Send a request, and await its answer: `await handle.ask(message)`.

        Args:
            message: what to ask.
            within: the deadline in milliseconds; None for none, and the actor's own if nothing is said.

        Raises:
            UnknownMessage: no method is for messages of this class.
            MailboxFull, NoSuchActor, LoopClosed: as for any ask.
        """
        return ask_message(self._handle(), message, within=within)
