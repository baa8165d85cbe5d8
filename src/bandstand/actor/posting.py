"""The faces of a handle that sends messages by their class: `handle.tell` and `handle.ask`."""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar, final

from bandstand.actor import far
from bandstand.actor.faces import Reply, checked_ask_ms
from bandstand.actor.hot.port import ask, is_afar, land, tell, try_tell
from bandstand.actor.spawning import UNSET_MS
from bandstand.errors import UnknownMessage
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method
    from bandstand.actor.hot.port import Port

__all__ = ("MessageAsk", "MessageTell", "Request")

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """The base of messages that are answered: `class GetBalance(Request[int])` is answered with an int."""

    __slots__ = ()


def _port_for(handle: Handle, message: object) -> Port:
    messages: dict[type, Port] = getattr(handle, "_bs_messages")  # noqa: B009  # every handle class has them
    kind = type(message)
    port = messages.get(kind)
    if port is None:
        port = next((messages[base] for base in kind.__mro__ if base in messages), None)
        if port is None:
            known = ", ".join(sorted(one.__qualname__ for one in messages))
            raise UnknownMessage(
                f"{safe_repr(handle)} has no method for messages of {kind.__qualname__}; it has some for {known}"
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


@final
class MessageAsk:
    """Asking by messages of whatever class an actor takes: what `handle.ask` is.

    Each form takes a deadline in milliseconds, `within`; None for none, and the actor's own if nothing is said.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, message: Request[R], /, *, within: float | None = UNSET_MS) -> Reply[R]:
        """Ask, and await the reply.

        Raises:
            UnknownMessage: no method is for messages of this class.
            MailboxFull, NoSuchActor, LoopClosed, LoopBusy: as for any ask.
        """
        method, ms = self._known(message, within)
        reply = None if is_afar(self._handle) else ask(self._handle, method, message, ms)
        return far.ask(self._handle, method, message, ms) if reply is None else reply

    def blocking(self, message: Request[R], /, *, within: float | None = UNSET_MS) -> R:
        """Ask from a plain thread, and wait there."""
        method, ms = self._known(message, within)
        answer: R = far.block(self._handle, method, message, ms)
        return answer

    def future(self, message: Request[R], /, *, within: float | None = UNSET_MS) -> Future[R]:
        """Ask from a plain thread, and get a future."""
        method, ms = self._known(message, within)
        return far.submit(self._handle, method, message, ms)

    def _known(self, message: object, within: float | None) -> tuple[Method, int]:
        method = _port_for(self._handle, message).method
        if not method.is_ask:
            raise UnknownMessage(
                f"{type(message).__qualname__} is no Request, so nobody answers it: use handle.tell(...), or derive it from Request"
            )
        return method, self._handle._bs_ask_ms if within == UNSET_MS else checked_ask_ms("within", within)
