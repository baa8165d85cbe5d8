"""What can be done to an actor from outside, through its handle, from any thread."""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast, final

from bandstand.actor import far
from bandstand.actor.hot.handle import Handle, stop_at_once
from bandstand.actor.hot.port import is_afar
from bandstand.actor.hot.waits import end_of
from bandstand.core.lowlevel import call_afar, close_mailbox
from bandstand.errors import (
    ActorNotLocal,
    InvalidArgument,
    LoopClosed,
    NoSuchActor,
    WrongThread,
)
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.faces import Reply
    from bandstand.core import ActorId, ExitReason, Loop

__all__ = ("End", "Hidden", "id_of", "is_alive", "kill", "loop_of", "stop")


def stop(handle: Handle, *, drain: bool = False) -> None:
    """Stop the actor of a handle."""
    if not drain and stop_at_once(handle):
        return
    # It has ended, or another has come after it, or we are on another thread: the long way.
    loop = loop_of(handle)
    _do(handle, partial(close_mailbox, loop) if drain else loop.stop_actor)


def kill(handle: Handle) -> None:
    """Kill the actor of a handle."""
    _do(handle, loop_of(handle).kill_actor)


def _do(handle: Handle, deed: Callable[[ActorId], None]) -> None:
    if is_afar(handle):
        call_afar(loop_of(handle), partial(_quietly, handle, deed))
    else:
        _quietly(handle, deed)


def _quietly(handle: Handle, deed: Callable[[ActorId], None]) -> None:
    handle._bs_refresh()
    # That it has ended, or is ending, is what was wished for. On another thread we are only if the loop has ended.
    with suppress(NoSuchActor, LoopClosed, ActorNotLocal, WrongThread):
        deed(handle._bs_actor)


@final
class End:
    """The end of an actor, to be waited for: what `handle.ended` is."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self) -> Reply[ExitReason]:
        """A wait for the end; it gives the reason. At once, if it has ended."""
        handle = self._handle
        if is_afar(handle):
            far.refuse_plain_thread("ended")
            return cast("Reply[ExitReason]", asyncio.wrap_future(self.future()))
        handle._bs_refresh()
        return end_of(handle._bs_loop, handle._bs_actor, handle._bs_name, handle._bs_asks)

    def future(self) -> Future[ExitReason]:
        """The same, from a plain thread."""
        future: Future[ExitReason] = Future()
        call_afar(loop_of(self._handle), partial(self._watch, future))
        return future

    def blocking(self) -> ExitReason:
        """Wait on a plain thread."""
        far.refuse_loop_thread(self._handle, "ended")
        return self.future().result()

    def __repr__(self) -> str:
        return f"<the end of {self._handle!r}>"

    def _watch(self, future: Future[ExitReason]) -> None:
        handle = self._handle
        handle._bs_refresh()
        ending = end_of(handle._bs_loop, handle._bs_actor, handle._bs_name, handle._bs_asks)
        ending.add_waiter(_Bridge(future, ending))
        future.add_done_callback(partial(self._unwatch, ending))

    def _unwatch(self, ending: Any, future: Future[ExitReason]) -> None:
        if future.cancelled():
            call_afar(loop_of(self._handle), ending.cancel)


@final
class _Bridge:
    """Takes an end over to a future of another thread."""

    __slots__ = ("_ending", "_future")

    def __init__(self, future: Future[ExitReason], ending: Any) -> None:
        self._future = future
        self._ending = ending

    def done(self) -> bool:
        return self._future.done()

    def set_result(self, _nothing: None) -> None:
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(self._ending.result())


@final
class Hidden:
    """Stands on a handle class for what is the actor's own: says so."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: str, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, handle: Handle | None, owner: object = None) -> NoReturn:
        raise AttributeError(
            f"a handle of {self._owner} has no {self._name!r}: that is the actor's own, and from outside only its messages can be "
            f"used. To read something, add a method with @ask.",
            name=self._name,
            obj=handle,
        )


def checked(handle: object) -> Handle:
    """A handle, or an error.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(handle, Handle):
        raise InvalidArgument(f"{safe_repr(handle)} is no handle: pass what spawn() returned")
    return handle


def id_of(handle: object) -> ActorId:
    """The id of the actor behind a handle: of its present incarnation, if it is a supervisor's child. From any thread.

    Raises:
        InvalidArgument: it is no handle.
    """
    return checked(handle).__actor_id__()


def loop_of(handle: object) -> Loop:
    """The loop on which the actor behind a handle lives.

    Raises:
        InvalidArgument: it is no handle.
    """
    # The hot modules know it by a lower storey's name.
    return cast("Loop", checked(handle)._bs_loop)


def is_alive(handle: object) -> bool:
    """Whether the actor behind a handle accepts messages at this moment. From any thread; it may end the next.

    Raises:
        InvalidArgument: it is no handle.
    """
    return checked(handle)._bs_refresh()
