"""Starting a channel actor."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from bandstand.core import Context, Loop
from bandstand.core.lifelines import current_loops
from bandstand.core.lowlevel import checked_cap, is_open, spawn_child, take_init_error
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.scope.channel import Channel
from bandstand.scope.channelactor import ChannelActor
from bandstand.scope.checks import check_token
from bandstand.scope.consumer import Consumer, Process, check_work
from bandstand.scope.hot.feeding import Fed
from bandstand.scope.token import CancelToken

if TYPE_CHECKING:
    from bandstand.scope.outcome import Outcome
    from bandstand.scope.scope import Scope

__all__ = ("consume",)

T = TypeVar("T")


def consume(
    channel: Channel[T],
    process: Process[T],
    *,
    token: CancelToken | None = None,
    on_done: Callable[[Outcome], object] | None = None,
    scope: Scope | None = None,
    loop: Loop | None = None,
    name: str | None = None,
) -> ChannelActor[T]:
    """Start an actor that receives from a channel and calls a function, once for each element, one at a time.

    After each element it is the turn of whoever else is ready: two that have plenty to do alternate. While there is no element
    it costs nothing. It ends when the channel is closed and nothing is left in it, when it is stopped or cancelled, and by what
    the function returns or raises: None and OK go on, STOP ends it, FAIL and an exception fail it.

    If it ends before it has begun with an element that was handed to it, the element goes back to the front of the channel.

    Args:
        channel: what to consume. Several may consume the same one: each element goes to one of them.
        process: what to do with each element: a function, or a coroutine function.
        token: what ends it when it is cancelled. One that is cancelled already ends it before its first element.
        on_done: called with the outcome when it has ended: see `ChannelActor.on_done`.
        scope: what it belongs to: it ends with it.
        loop: where it lives; None for that of the scope, else the one that rides the running event loop.
        name: for people; None for the channel's.

    Raises:
        InvalidArgument: an argument has no sense; or there is no loop to be found, or more than one.
        Cancelled, ScopeClosed: the scope takes nothing in any more.
        MaxActors, NoMemory, LoopClosed, WrongThread: as for `Loop.spawn`.
    """
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgument(f"name is {safe_repr(name)}: pass a string")
    if on_done is not None and not callable(on_done):
        raise InvalidArgument(f"on_done is {safe_repr(on_done)}: pass a function of the outcome")
    if token is not None:
        check_token(token)
    check_work(channel, process)
    if loop is not None and not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgument(f"loop is {safe_repr(loop)}: pass a Loop, or None for the one that rides here")
    if scope is not None and not hasattr(scope, "_take_actor"):
        raise InvalidArgument(f"scope is {safe_repr(scope)}: pass a Scope, or None")
    if scope is None:
        home = _loop_here() if loop is None else loop
        actor = _start(channel, process, token, home, name)
    else:
        scope._check_open()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the two of them are one mechanism
        home = loop or scope._home  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as above
        actor = _start(channel, process, scope.token, home, name)
        scope._take_actor(actor)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as above
        if token is not None:
            # It has two masters.
            unlink = token.on_cancel(lambda master: actor.token.cancel(master.cause or master.reason))
            actor.on_done(lambda _outcome: unlink())
    if on_done is not None:
        actor.on_done(on_done)
    return actor


def _start(
    channel: Channel[T], process: Process[T], parent: CancelToken | None, loop: Loop, name: str | None
) -> ChannelActor[T]:
    token = CancelToken() if parent is None else parent.child()
    work = Consumer(channel, process, token=token)
    actor = ChannelActor(channel, loop, channel.name if name is None else name, token)

    def init(ctx: Context[Fed]) -> Fed:
        return actor.begin(work, ctx.self_id)

    born = spawn_child(
        loop,
        work.run,
        init,
        name=actor.name,
        cap=checked_cap(loop, None),
        supervisor=None,
        context=copy_context(),
    )
    error = take_init_error(loop)
    if error is not None:
        raise error
    if not actor.has_begun:
        # The observer has ended it before its init: its end is told all the same.
        actor.begin(work, born)
    return actor


def _loop_here() -> Loop:
    loops = [loop for loop in current_loops() if is_open(loop)]
    if len(loops) != 1:
        found = "there is no loop" if not loops else f"{len(loops)} loops ride the event loop"
        raise InvalidArgument(
            f"{found} here for the actor to live on: call consume() inside `async with Loop():`, or say which with loop="
        )
    return loops[0]
