"""A scope: a block that owns what was started in it. When the block is over, so is all of that.

The problem. Tasks, actors and channel actors that somebody has started and forgotten run on, fail unheard, and hold what they hold.

The choice. They belong to a block, as in asyncio's TaskGroup and in trio's nursery: whoever leaves it has waited for all of
them, and has heard of every error. How that ends is told in `lifetime`; what a cancellation means to the body's task, which is
asyncio's own way of it, in `body`; who belongs to the scope, and when they have left, in `children`.
"""

from __future__ import annotations

from asyncio import Task, iscoroutine
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

from bandstand.core import ActorId, Behavior, Loop
from bandstand.errors import InvalidArgument, NoSuchActor, ScopeClosed
from bandstand.errors.formatting import safe_repr
from bandstand.scope.child import ActorChild, TaskChild
from bandstand.scope.consume import consume
from bandstand.scope.lifetime import Lifetime
from bandstand.scope.token import CancelToken

if TYPE_CHECKING:
    from bandstand.scope.channel import Channel
    from bandstand.scope.channelactor import ChannelActor
    from bandstand.scope.child import Handle, HasActorId
    from bandstand.scope.consumer import Process
    from bandstand.scope.latch import Wait
    from bandstand.scope.outcome import Outcome

__all__ = ("Scope",)

T = TypeVar("T")
State = TypeVar("State")


@final
class Scope(Lifetime):
    """Owns tasks, channel actors and actors: `async with Scope() as scope:`. The block ends when all of them have ended.

    If the body ends normally, tasks and channel actors are waited for; then the actors finish what is in their mailboxes, the
    youngest first, each before the next. If the body or a child fails, or the scope is cancelled, all of them are cancelled and
    waited for. Errors, the body's among them, are raised together as an `ExceptionGroup`; a KeyboardInterrupt or SystemExit bare.

    A cancellation goes as far as what was cancelled: that of the scope itself, by `cancel()`, ends at the end of its block. One
    from the token it was given goes on as `Cancelled`. One of asyncio goes on as CancelledError, and wins over the former.

    Its token, `cancel()` and `wait_all()` can be used from any thread; everything else belongs on its own event loop.

    Args:
        token: with whom it is cancelled as well.
        loop: where its actors live; None for the one that rides the running event loop, if there is just one.
        stop_timeout_ms: how long those that were cancelled may take to end. Then actors are killed, and tasks are left behind,
            which the log says. None for ever.
        name: for people.

    Raises:
        InvalidArgument: an argument has no sense.
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        *,
        token: CancelToken | None = None,
        loop: Loop | None = None,
        stop_timeout_ms: float | None = 5000,
        name: str | None = None,
    ) -> None:
        super().__init__(token, loop, stop_timeout_ms, name)

    @property
    def loop(self) -> Loop | None:
        """Where its actors live; None if that was not said, and none or several loops ride here."""
        return self._loop

    @property
    def children(self) -> tuple[Handle, ...]:
        """Those that have not ended, the oldest first: tasks, channel actors, and the ids of actors."""
        return self._children.handles()

    # -- taking in -----------------------------------------------------------------------------------------------------

    def launch(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> Task[T]:
        """Start a task. What it returns can be awaited; what it raises fails the scope, whether it is awaited or not.

        Raises:
            Cancelled: the scope is cancelled. The coroutine was closed, and never began; so it is with every refusal.
            ScopeClosed: it is over, or was not entered.
            InvalidArgument: that is no coroutine.
            WrongThread: this is not the scope's own event loop.
        """
        if not iscoroutine(coroutine):
            raise InvalidArgument(
                f"coroutine is {safe_repr(coroutine)}: call an `async def` function and pass what it returns"
            )
        try:
            body = self._check_open()
        except Exception:
            coroutine.close()
            raise
        task = body.host.create_task(coroutine, name=name)
        self._own(TaskChild(task, self._children.ended))
        return task

    def consume(
        self,
        channel: Channel[T],
        process: Process[T],
        *,
        token: CancelToken | None = None,
        on_done: Callable[[Outcome], object] | None = None,
        loop: Loop | None = None,
        name: str | None = None,
    ) -> ChannelActor[T]:
        """Start an actor that consumes a channel: `consume(channel, process, scope=scope)` does the same, and says what."""
        return consume(channel, process, token=token, on_done=on_done, scope=self, loop=loop, name=name)

    def spawn(
        self,
        behavior: Behavior[State],
        state: State = None,  # type: ignore[assignment]  # without a state, State is None
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
    ) -> ActorId:
        """Make an actor, as `Loop.spawn` does. It lives as long as the scope, unless it ends before.

        Raises:
            Cancelled, ScopeClosed: as for `launch`.
            InvalidArgument: that is a class; the scope knows no loop, or not which; or as for `Loop.spawn`.
            MaxActors, NoMemory, LoopClosed, WrongThread: as for `Loop.spawn`.
        """
        self._check_open()
        if isinstance(behavior, type) or hasattr(behavior, "__origin__"):
            raise InvalidArgument(
                f"behavior is {safe_repr(behavior)}, a class: start it with loop.spawn(...), and give the handle to scope.adopt()"
            )
        actor = self._home.spawn(behavior, state, name=name, mailbox_cap=mailbox_cap)
        if actor.is_alive:
            # If not, the observer has ended it, and it was never anybody's.
            self.adopt(actor)
        return actor

    def adopt(self, actor: ActorId | HasActorId) -> None:
        """Take in an actor that lives already: from now on it ends with the scope, and its failure is the scope's.

        Args:
            actor: its id, or what stands for it: a typed handle, as `loop.spawn(SomeClass)` returns it, or a supervisor, as
                `spawn_supervisor` does. Of a supervised tree, adopt the supervisor: if it gives up, that does not fail its loop then.

        Raises:
            Cancelled, ScopeClosed: as for `launch`.
            NoSuchActor: it has ended.
            ActorNotLocal, InvalidArgument, WrongThread: it is no actor of the scope's loop.
        """
        body = self._check_open()
        if hasattr(type(actor), "__actor_id__"):
            actor = cast("HasActorId", actor).__actor_id__()
        if not isinstance(actor, ActorId):
            raise InvalidArgument(
                f"actor is {safe_repr(actor)}: pass an ActorId, a typed handle or a supervisor, as it was returned when it was started"
            )
        loop = self._home
        loop.status(actor)
        if not actor.is_alive:
            raise NoSuchActor(f"{safe_repr(actor)} has ended: there is nothing to adopt")
        if actor not in self._children:
            self._own(ActorChild(loop, actor, body.host, self._children.ended))

    @property
    def _home(self) -> Loop:
        if self._loop is None:
            raise InvalidArgument(
                f"{self._called} knows no loop for actors: enter it inside `async with Loop():`, or pass loop= if several ride here"
            )
        return self._loop

    # -- ending and waiting --------------------------------------------------------------------------------------------

    def cancel(
        self, reason: str | BaseException | None = None, *, timeout_ms: float | None = None
    ) -> Wait[bool]:
        """Cancel all children, and the body, unless it is the body that asks. That is asked at once; from any thread.

        A body that has asked is free to make an end, until somebody else calls this as well, or a child fails: that interrupts it
        where it waits. Somebody else is also an actor whose turn it is inside the body's task, and a signal handler, whatever it has
        interrupted: it is known by the frame that Python hands to it, as long as it is a Python function that has kept it.

        What is returned can be awaited, or waited for with `.blocking()` on a plain thread, until all children have ended: True,
        or False if tasks were left behind. A child does not wait for itself: there it is False, at once.

        Args:
            reason: why, for people; or an exception, which will be the `__cause__` of every `Cancelled`.
            timeout_ms: how long to wait at most, None for ever: `ChannelTimeout`. The request stands.

        Raises:
            ScopeClosed: the scope was not entered.
            InvalidArgument: an argument has no sense.
        """
        if self._body is None:
            raise ScopeClosed(f"{self._called} was not entered: there is nothing to cancel")
        waiting = self._children.joined.wait(
            timeout_ms=timeout_ms,
            at_once=False if self._is_asked_by_child() else None,
            is_request=True,
        )
        self.token.cancel(reason)
        if not self._body.is_asking():
            # The first who asked may have been the body.
            self._body.interrupt()
        return waiting

    def wait_all(self, timeout_ms: float | None = None) -> Wait[bool]:
        """Wait until no task and no channel actor is left: `await scope.wait_all()`, or `.blocking()` on a plain thread.

        Actors are not waited for: they are there for the others. The scope stays open.

        Args:
            timeout_ms: how long to wait at most; 0 for not at all, None for ever.

        Raises:
            ChannelTimeout: some are left. When awaited.
            InvalidArgument: a child asks, which would wait for itself; or the time has no sense.
        """
        if self._is_asked_by_child():
            raise InvalidArgument(
                f"a child of {self._called} would wait for itself: wait for the others, or in the body"
            )
        return self._children.idle.wait(timeout_ms=timeout_ms)

    def _is_asked_by_child(self) -> bool:
        body = self._body
        if body is None or not body.is_home():
            return False
        return body.current_task() in self._children or self._children.has_current_actor()
