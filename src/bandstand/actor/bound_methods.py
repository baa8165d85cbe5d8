"""The faces of a handle's methods: what `handle.add` is when it is not called at once.

`handle.add(5)` sends. `handle.add.try_send(5)` answers whether it could. `await handle.add.when_room(5)` waits until it can.
`await handle.value()` asks; `handle.value.within(100)()` asks with another deadline; `handle.value.blocking()` and
`handle.value.future()` ask from a thread that has no event loop.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, cast, final

from bandstand.actor import far
from bandstand.actor.hot.port import ask, is_afar, land, tell, try_tell
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.port import Port

__all__ = ("Ask", "Reply", "Tell")

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# A hundred years, as for timers.
LONGEST_MS = 100 * 366 * 24 * 3600 * 1000


class Reply(Protocol[R_co]):
    """The answer to one ask, to be awaited; the same each time it is.

    The ask was sent when the method was called, not when the reply is awaited: several can be under way. It ends exactly
    once: with the answer, with an exception that the method declares (`@ask(raises=...)`), with `TargetEnded` when the actor
    ends first, with `AskTimeout` at its deadline, or cancelled. The deadline holds while somebody waits, and is counted from
    the ask. To await it is to be on the thread that asked.
    """

    def __await__(self) -> Generator[Any, Any, R_co]:
        """Wait for the answer."""
        ...

    def __bool__(self) -> NoReturn:
        """Refused: a reply is no answer, and would always be true.

        Raises:
            TypeError: always.
        """
        ...

    def result(self) -> R_co:
        """What it has ended with: the answer, or what is raised in its place.

        Raises:
            LoopBusy: it has not ended.
        """
        ...

    def cancel(self) -> bool:
        """Take the ask back; False if it has ended. Its handler never begins, or is cancelled at its next await."""
        ...

    def done(self) -> bool:
        """Whether it has ended."""
        ...


@final
class Tell(Generic[P]):
    """A one-way method of a handle."""

    __slots__ = ("_handle", "_port")

    def __init__(self, handle: Handle, port: Port) -> None:
        self._handle = handle
        self._port = port

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Send. It is accepted, and then handled exactly once unless its actor ends first, or this raises.

        From the loop's own thread or any other.

        Raises:
            MailboxFull: its lane has no room.
            NoSuchActor: the actor has ended, or, under a supervisor, is just not there.
            LoopClosed: the loop was asked to stop.
            TypeError: these are not its arguments.
        """
        tell(self._handle, self._port.method, self._port.binder(None, *args, **kwargs))

    def try_send(self, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Send, but answer False where a call would raise because of the state of things; wrong arguments still raise."""
        return try_tell(self._handle, self._port.method, self._port.binder(None, *args, **kwargs))

    def when_room(self, /, *args: P.args, **kwargs: P.kwargs) -> Reply[None]:
        """Send as soon as there is room: to be awaited, on whatever event loop. Those who wait get in in their order.

        It ends when the message is in, with `TargetEnded` when the actor ends first, with `AskCycle` if that actor waits
        for this one, or when it is cancelled, and then nothing is sent.

        Raises:
            NoSuchActor, LoopClosed, TypeError: as for a call.
        """
        data = self._port.binder(None, *args, **kwargs)
        if is_afar(self._handle):
            return far.land(self._handle, self._port.method, data)
        return land(self._handle, self._port.method, data)

    def __repr__(self) -> str:
        return f"<{self._port.method.name} of {self._handle!r}>"


@final
class Ask(Generic[P, R]):
    """A method of a handle that answers."""

    __slots__ = ("_handle", "_ms", "_port")

    def __init__(self, handle: Handle, port: Port, ms: int | None = None) -> None:
        self._handle = handle
        self._port = port
        self._ms = handle._bs_ask_ms if ms is None else ms

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Reply[R]:
        """Ask: `await` the reply for the answer. From the loop's own thread, or from another event loop's.

        Raises:
            MailboxFull, NoSuchActor, LoopClosed, TypeError: nothing was sent, as for a one-way call.
            LoopBusy: there is no event loop here to await anything in; use `blocking` or `future`.
        """
        data = self._port.binder(None, *args, **kwargs)
        reply = None if is_afar(self._handle) else ask(self._handle, self._port.method, data, self._ms)
        return cast("Reply[R]", self._ask_afar(data)) if reply is None else reply

    def _ask_afar(self, data: object) -> Reply[Any]:
        """The same from another thread, of arguments that are bound."""
        return far.ask(self._handle, self._port.method, data, self._ms)

    def within(self, ms: float | None) -> Ask[P, R]:
        """The same method with another deadline, in milliseconds; None for none at all.

        Raises:
            InvalidArgument: it is negative, or no number.
        """
        return Ask(self._handle, self._port, checked_ask_ms("ms", ms))

    def blocking(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask from a plain thread, and wait there for the answer. Ctrl-C ends the wait.

        Raises:
            LoopBusy: this is a thread that runs an event loop, or owns the actor's loop: it would wait for itself.
            AskTimeout, TargetEnded, MailboxFull, NoSuchActor, LoopClosed, TypeError: as when it is awaited.
        """
        answer: R = far.block(
            self._handle, self._port.method, self._port.binder(None, *args, **kwargs), self._ms
        )
        return answer

    def future(self, /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Ask from a plain thread, and get a future of `concurrent.futures`. Cancelling it takes the ask back.

        Raises what a call raises; what the ask ends with is in the future.
        """
        return far.submit(self._handle, self._port.method, self._port.binder(None, *args, **kwargs), self._ms)

    def __repr__(self) -> str:
        return f"<{self._port.method.name} of {self._handle!r}>"


def checked_ask_ms(field: str, ms: float | None) -> int:
    """A deadline in whole milliseconds, rounded up; -1 for None, which is none.

    Raises:
        InvalidArgument: it is negative, no number, or beyond a hundred years.
    """
    if ms is None:
        return -1
    if type(ms) not in {int, float} or not 0 <= ms <= LONGEST_MS:
        raise InvalidArgument(
            f"{field} is {safe_repr(ms)}: pass milliseconds, from 0 to a hundred years, or None for no deadline"
        )
    return -int(-ms // 1)
