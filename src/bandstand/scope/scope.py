"""Scopes: a block that owns the tasks, actors and channel actors that were started in it.

**The problem.** Tasks and actors that were started and forgotten keep running, fail unnoticed, and hold their
resources.

**The choice.** They belong to a block, as in asyncio's TaskGroup and trio's nursery: leaving the block waits
for all of them, and raises every error.

Three things end a scope before its body ends: a child fails (its error is collected, and the scope's token
cancelled), the scope's token is cancelled, or the token it was given is cancelled, or one above that. Each of
them cancels the children at once, and the body in a later iteration of the event loop; except if the body
itself cancelled the scope: then the body continues until a child fails or something else cancels the scope
too.

A `Scope` has a `BodyTask` (the task that runs the block, with asyncio's cancellation counting),
`ScopeChildren` (what it owns) and an `ErrorCollector` (what the block raises).
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import AbstractEventLoop, CancelledError, Future, Task, iscoroutine
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_VARARGS
from threading import get_ident, main_thread
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, cast, final

from bandstand.core import ActorId, Behavior, ExitReason, Loop
from bandstand.core.asyncio_host import running_loops
from bandstand.core.logs import SafeLogger
from bandstand.errors import (
    ActorKilledError,
    ChildFailedError,
    InvalidArgumentError,
    LoopClosedError,
    NoSuchActorError,
    ScopeClosedError,
    TokenCancelledError,
    WrongThreadError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.scope._channel import check_token, checked_ms
from bandstand.scope.cancel import CancelToken
from bandstand.scope.consumer import ChannelActor, check_consume_arguments, start_consumer
from bandstand.scope.deadline import DelayedCall, current_open_loops
from bandstand.scope.event import OneShotEvent

if TYPE_CHECKING:
    from bandstand.scope.channel import Channel
    from bandstand.scope.consumer import Outcome, Process
    from bandstand.scope.event import EventWait

__all__ = ("HasActorId", "Scope")

T = TypeVar("T")
State = TypeVar("State")

logger = SafeLogger("bandstand.scope")

# What the user has of a child: its task, its ChannelActor, or its id.
ChildHandle: TypeAlias = "Task[Any] | ChannelActor[Any] | ActorId"


class HasActorId(Protocol):
    """An object that stands for an actor: a typed handle, or a supervisor.

    They are defined in packages above this one.
    """

    def __actor_id__(self) -> ActorId:
        """Return the id of the actor; after a restart, of its current incarnation."""
        ...


class ScopePhase(Enum):
    """The phases of a scope."""

    NEW = "not entered"
    OPEN = "open"
    JOINING = "joining"
    OVER = "over"


@final
class Scope:
    """Owns tasks, channel actors and actors: `async with Scope() as scope:`.

    The block ends when all of them have ended.

    If the body ends normally, the scope waits for tasks and channel actors. Then the actors process what is
    in their mailboxes and end, the youngest first, one after the other. If the body or a child fails, or the
    scope is cancelled, all children are cancelled and waited for. All errors, the body's included, are raised
    as one `ExceptionGroup`; a KeyboardInterrupt or SystemExit is raised bare.

    A cancellation reaches as far as what was cancelled. That of the scope itself, by `cancel()`, ends with
    its block. That of the token it was given propagates as `TokenCancelledError`. That of asyncio propagates as
    CancelledError, and has priority.

    The token, `cancel()` and `wait_all()` can be used from any thread; everything else only on the scope's
    event loop.

    Args:
        token: a token that cancels the scope.
        loop: the loop for its actors; None for the one attached to the running event loop, if there is
            exactly one.
        stop_timeout: how long cancelled children may take to end. After that, actors are killed, and tasks
            are left running, which is logged. None for no limit.
        name: shown in errors and in the log.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_children",
        "_errors",
        "_is_cancelling",
        "_loop",
        "_parent_token",
        "_phase",
        "_remove_callbacks",
        "_stop_timeout_ms",
        "_stop_timer",
        "name",
        "token",
    )

    def __init__(
        self,
        *,
        token: CancelToken | None = None,
        loop: Loop | None = None,
        stop_timeout: Seconds | None = 5.0,
        name: str | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string")
        if token is not None:
            check_token(token)
        self.name = name
        """Its name in errors and in the log."""
        self.token = CancelToken(token, loop=loop)
        """Its own token, a child of the one it was given.

        It is cancelled with the scope, and at the end of the scope.
        """
        self._parent_token = token
        self._loop = loop
        self._stop_timeout_ms = None if stop_timeout is None else checked_ms(stop_timeout, "stop_timeout")
        self._phase = ScopePhase.NEW
        self._body: BodyTask | None = None
        self._children = ScopeChildren(self._label, self._on_child_error)
        self._errors = ErrorCollector(self._label, self.token, token)
        self._stop_timer: DelayedCall | None = None
        self._remove_callbacks: list[Callable[[], bool]] = []
        # Whether the children are being cancelled.
        self._is_cancelling = False

    @property
    def loop(self) -> Loop | None:
        """The loop for its actors; None if none was given, and none or several are attached here."""
        return self._loop

    @property
    def children(self) -> tuple[ChildHandle, ...]:
        """The children that have not ended, oldest first: tasks, channel actors, and ids of actors."""
        return self._children.handles()

    @property
    def _label(self) -> str:
        return "a scope" if self.name is None else f"scope {self.name!r}"

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        state = "ending" if self._is_cancelling and self._phase is not ScopePhase.OVER else self._phase.value
        return f"<Scope{name} {state}: {len(self._children)} in it>"

    # -- entering

    async def __aenter__(self) -> Self:
        """Enter the block. The current task runs the body, on the current event loop.

        Raises:
            Cancelled: the token is cancelled already: the body does not run.
            InvalidArgumentError: the scope was entered before, no task runs here, or its loop is not attached to
                this event loop.
        """
        if self._phase is not ScopePhase.NEW:
            raise InvalidArgumentError(
                f"{self._label} was already entered: a scope is for one block, create a new one"
            )
        body = BodyTask.current(self._label)
        loops = current_open_loops()
        if self._loop is None:
            self._loop = loops[0] if len(loops) == 1 else None
        elif self._loop not in loops:
            raise InvalidArgumentError(
                f"loop is {safe_repr(self._loop)}, which is not attached to the running event loop: use `async with loop:`"
            )
        if self.token.cancelled:
            raise self.token.error(self._label)
        self._body = body
        self._phase = ScopePhase.OPEN
        # The parent first: when the children are cancelled, it is known already that the cancellation came
        # from there.
        if self._parent_token is not None:
            self._remove_callbacks.append(self._parent_token.on_cancel(self._on_parent_cancelled))
        self._remove_callbacks.append(self.token.on_cancel(self._on_cancelled))
        if self.token.origin is not None:
            # Another thread cancelled it after the check above. `on_cancel` then called us in the task of the
            # body, which looks as if the body had cancelled the scope.
            body.cancel_soon()
        return self

    def _check_open(self) -> BodyTask:
        """Check that children can be started here.

        Raises:
            Cancelled, ScopeClosedError, WrongThreadError: they cannot.
        """
        body = self._body
        if body is None or self._phase is ScopePhase.OVER:
            raise ScopeClosedError(f"{self._label} is {self._phase.value}: it accepts no children")
        if not body.is_on_event_loop():
            raise WrongThreadError(
                f"{self._label} belongs to another event loop or thread: start its children there"
            )
        if self.token.cancelled:
            error = self.token.error(self._label)
            error.args = (f"{self._label} is cancelled ({error.reason}): it accepts no more children",)
            raise error
        return body

    def _require_loop(self) -> Loop:
        if self._loop is None:
            raise InvalidArgumentError(
                f"{self._label} has no loop for actors: enter it inside `async with Loop():`, or pass loop= if there are several"
            )
        return self._loop

    # -- starting children

    def launch(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> Task[T]:
        """Start a task. Its result can be awaited; its error fails the scope, whether it is awaited or not.

        Raises:
            Cancelled: the scope is cancelled. The coroutine is closed and never runs, as with all errors here
                but InvalidArgumentError.
            ScopeClosedError: the scope is over, or was not entered.
            InvalidArgumentError: it is not a coroutine.
            WrongThreadError: this is not the scope's event loop.
        """
        if not iscoroutine(coroutine):
            raise InvalidArgumentError(
                f"coroutine is {safe_repr(coroutine)}: call an `async def` function and pass what it returns"
            )
        try:
            body = self._check_open()
        except Exception:
            coroutine.close()
            raise
        task = body.host.create_task(coroutine, name=name)
        self._add_child(TaskChild(task, self._children.on_ended))
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
        """Start an actor that consumes a channel.

        The same as `consume(channel, process, scope=scope)`, which documents it.
        """
        check_consume_arguments(channel, process, token, on_done, loop, name)
        body = self._check_open()
        actor = start_consumer(channel, process, self.token, loop or self._require_loop(), name)
        self._add_child(ConsumerChild(actor, body.host, self._children.on_ended))
        if token is not None:
            # A token has one parent, the scope's. The other one cancels it by a callback.
            unlink = token.on_cancel(lambda other: actor.token.cancel(other.cause or other.reason))
            actor.on_done(lambda _outcome: unlink())
        if on_done is not None:
            actor.on_done(on_done)
        return actor

    def spawn(
        self,
        behavior: Behavior[State],
        state: State = None,  # type: ignore[assignment]  # without a state, State is None
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
    ) -> ActorId:
        """Start an actor whose behavior is a function, as `bandstand.core.Loop.spawn` does. It ends with the scope, if not before.

        Raises:
            Cancelled, ScopeClosedError: as for `launch`.
            InvalidArgumentError: the behavior is a class; the scope has no loop; or as for `Loop.spawn`.
            MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `Loop.spawn`.
        """
        self._check_open()
        if isinstance(behavior, type) or hasattr(behavior, "__origin__"):
            raise InvalidArgumentError(
                f"behavior is {safe_repr(behavior)}, a class: start it with loop.spawn(...), and pass the handle to scope.adopt()"
            )
        actor = self._require_loop().spawn(behavior, state, name=name, mailbox_cap=mailbox_cap)
        if actor.is_alive:
            # If not, an observer has ended it already.
            self.adopt(actor)
        return actor

    def adopt(self, actor: ActorId | HasActorId) -> None:
        """Take over a running actor: from now on it ends with the scope, and its failure fails the scope.

        Args:
            actor: its id, or an object that stands for it: a typed handle from `loop.spawn(SomeClass)`, or a
                supervisor from `spawn_supervisor`. Adopt the supervisor of a supervised tree: if it gives up,
                the scope fails instead of its loop.

        Raises:
            Cancelled, ScopeClosedError: as for `launch`.
            NoSuchActorError: the actor has ended.
            ActorNotLocalError, InvalidArgumentError, WrongThreadError: it is not an actor of the scope's loop.
        """
        body = self._check_open()
        if hasattr(type(actor), "__actor_id__"):
            actor = cast("HasActorId", actor).__actor_id__()
        if not isinstance(actor, ActorId):
            raise InvalidArgumentError(
                f"actor is {safe_repr(actor)}: pass the ActorId, typed handle or supervisor that was returned when it was started"
            )
        loop = self._require_loop()
        loop.status(actor)
        if not actor.is_alive:
            raise NoSuchActorError(f"{safe_repr(actor)} has ended: it cannot be adopted")
        if actor not in self._children:
            self._add_child(ActorChild(loop, actor, body.host, self._children.on_ended))

    def _add_child(self, child: ScopeChild) -> None:
        """Own a child. It is cancelled at once if the scope is being cancelled."""
        self._children.add(child)
        child.watch()
        if self._is_cancelling and not child.has_ended:
            child.cancel(self._cancel_message)

    # -- cancelling and waiting

    def cancel(
        self, reason: str | BaseException | None = None, *, timeout: Seconds | None = None
    ) -> EventWait[bool]:
        """Cancel all children, and the body, unless the body itself calls this.

        The request takes effect at once. From any thread.

        A body that calls it can finish its work, until something else calls this too, or a child fails: that
        cancels it at its next await. Calls by an actor that runs inside the body's task, and by a signal
        handler, do not count as the body's. A signal handler is recognised by the frame that Python passes to
        it: it must be a Python function that still holds it.

        The result can be awaited, or used with `.blocking()` on a plain thread, to wait until all children
        have ended. It returns True, or False if tasks were left running. A child does not wait for itself: it
        gets False, at once.

        Args:
            reason: why, as text; or an exception, which becomes the `__cause__` of every `TokenCancelledError`.
            timeout: how long to wait at most; None for no limit. After `ChannelTimeoutError` the request still
                stands.

        Raises:
            ScopeClosedError: the scope was not entered.
            InvalidArgumentError: an argument is invalid.
        """
        if self._body is None:
            raise ScopeClosedError(f"{self._label} was not entered: there is nothing to cancel")
        wait = self._children.joined.wait(
            timeout=timeout,
            immediate=False if self._is_called_by_child() else None,
            is_request=True,
        )
        self.token.cancel(reason)
        if not self._body.is_caller():
            # The token may have been cancelled before, by the body.
            self._body.cancel_soon()
        return wait

    def wait_all(self, timeout: Seconds | None = None) -> EventWait[bool]:
        """Wait until all tasks and channel actors have ended.

        Use `await scope.wait_all()`, or `scope.wait_all().blocking()` on a plain thread. It does not wait for
        actors, which serve the others. The scope stays open.

        Args:
            timeout: how long to wait at most; 0 to not wait, None for no limit.

        Raises:
            ChannelTimeoutError: some have not ended. Raised when awaited.
            InvalidArgumentError: the caller is a child, which would wait for itself; or the timeout is invalid.
        """
        if self._is_called_by_child():
            raise InvalidArgumentError(
                f"a child of {self._label} would wait for itself: wait for the other children, or call it in the body"
            )
        return self._children.idle.wait(timeout=timeout)

    def _is_called_by_child(self) -> bool:
        body = self._body
        if body is None or not body.is_on_event_loop():
            return False
        return body.current_task() in self._children or self._children.has_current_actor()

    # -- why it ends

    def _on_child_error(self, error: BaseException) -> None:
        assert self._body is not None
        rest = self._errors.add(error)
        if self._phase is ScopePhase.OVER and rest is not None:
            self._errors.log_all()
        elif rest is not None:
            # Even if the body has cancelled the scope itself.
            self._body.cancel_soon()
            self.token.cancel(rest)

    def _on_cancelled(self, _token: CancelToken) -> None:
        """Cancel everything: the scope's own token was cancelled. On any thread."""
        assert self._body is not None
        if not self._body.is_caller():
            self._body.cancel_soon()
        if not self._body.call_on_event_loop(self._cancel_children):
            # The event loop is closed, so the children will never run again: end the waits for them.
            self._children.joined.set(False)  # the result of the wait

    def _on_parent_cancelled(self, _token: CancelToken) -> None:
        """Note that the token it was given was cancelled. On any thread."""
        assert self._body is not None
        self._errors.parent_was_cancelled = True
        self._body.cancel_soon()

    @property
    def _cancel_message(self) -> str:
        return f"{self._label} was cancelled: {self.token.reason}"

    def _cancel_children(self) -> None:
        """Cancel the children, and start the stop timeout. Called once, because a token calls back once."""
        self._is_cancelling = True
        if self._stop_timeout_ms is not None:
            self._stop_timer = DelayedCall(self._stop_timeout_ms, self._on_stop_timeout)
        self._children.cancel(self._cancel_message)

    def _on_stop_timeout(self) -> None:
        assert self._stop_timeout_ms is not None
        self._children.kill_all(self._stop_timeout_ms)

    # -- leaving

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Leave the block: wait for all children, and raise the errors.

        Raises:
            ExceptionGroup, BaseExceptionGroup: the errors of the body and of the children.
            Cancelled: the token that the scope was given was cancelled.
        """
        body = self._body
        assert body is not None
        self._phase = ScopePhase.JOINING
        foreign = body.leave(error)
        if error is not None:
            is_end = isinstance(error, (CancelledError, GeneratorExit))
            self.token.cancel((None if is_end else self._errors.add(error)) or "its body was cancelled")
        try:
            # A coroutine that was dropped must not await any more; a generator that is closed inside its task
            # may.
            if not isinstance(error, GeneratorExit) or body.current_task() is body.task:
                foreign = await self._join(body, foreign)
        finally:
            self._close()
        try:
            return self._raise_errors(body, error, foreign)
        finally:
            # An error holds the frames it passed through, so they must not hold the error.
            del error, foreign

    async def _join(self, body: BodyTask, foreign: CancelledError | None) -> CancelledError | None:
        """Wait until all children have ended; return the foreign cancellation to propagate, if there is one."""
        while self._children:
            self._children.drain()
            late = await body.wait(self._children.next_change(body.host))
            if late is not None:
                foreign = foreign or late
                self.token.cancel("its body was cancelled")
            del late
        self._phase = ScopePhase.OVER
        try:
            return foreign if foreign is None else await body.separate(foreign)
        finally:
            del foreign

    def _close(self) -> None:
        self._phase = ScopePhase.OVER
        # Drop everything that holds a bound method of the scope: a scope that is over is in no reference
        # cycle.
        callbacks, self._remove_callbacks = self._remove_callbacks, []
        for remove in callbacks:
            remove()
        if self._stop_timer is not None and not self._children:
            self._stop_timer.cancel()
            self._stop_timer = None
        self.token.cancel("the scope is over")
        self._children.set_joined()
        self._children.close()

    def _raise_errors(
        self, body: BodyTask, error: BaseException | None, foreign: CancelledError | None
    ) -> bool:
        """Raise the error of the block; or return whether the error of the body is suppressed."""
        errors = self._errors.take()
        final_error: BaseException | None = None
        try:
            final_error = self._errors.final_error(errors, error, foreign)
            if final_error is None or final_error is error:
                return final_error is None
            if errors:
                body.repeat_cancellation()
            raise final_error
        finally:
            # The caller has the errors now. If the scope kept one, its traceback would keep the scope.
            self.token.drop_cause(errors)
            body.release_task()
            del errors, final_error, error, foreign


# -- errors ----------------------------------------------------------------------------------------------------


@final
class ErrorCollector:
    """Collects the errors of the body and the children, and decides what the block raises."""

    __slots__ = ("_errors", "_label", "_parent_token", "_token", "parent_was_cancelled")

    def __init__(self, label: str, token: CancelToken, parent_token: CancelToken | None) -> None:
        self._label = label
        self._token = token
        self._parent_token = parent_token
        self._errors: list[BaseException] = []
        self.parent_was_cancelled = False
        """Whether the token that the scope was given is known to be cancelled."""

    def add(self, error: BaseException) -> BaseException | None:
        """Add an error, and return what was added: None if it only says that this scope was cancelled.

        Of a group, the part that says something else is added.
        """
        rest = self._without_own_cancellation(error)
        if rest is not None:
            self._errors.append(rest)
        return rest

    def _without_own_cancellation(self, error: BaseException) -> BaseException | None:
        if not isinstance(error, BaseExceptionGroup):
            return None if self._is_own_cancellation(error) else error
        group = cast("BaseExceptionGroup[BaseException]", error)
        if not self._contains_own_cancellation(group):
            return group
        try:
            # Before 3.13 `split` accepts functions only, no bound methods.
            return group.split(lambda one: self._is_own_cancellation(one))[1]  # noqa: PLW0108
        except RecursionError:
            # Nested too deeply to be split. Keep all of it.
            return group

    def _contains_own_cancellation(self, group: BaseExceptionGroup[BaseException]) -> bool:
        """Whether a part of a group only says that this scope was cancelled.

        Iterative: groups of nested scopes may be thousands deep.
        """
        if not self._token.cancelled:
            return False
        found = False
        pending: list[BaseException] = [group]
        while pending:
            error = pending.pop()
            if isinstance(error, BaseExceptionGroup):
                pending.extend(cast("BaseExceptionGroup[BaseException]", error).exceptions)
            elif self._is_own_cancellation(error):
                found = True
        return found

    def _is_own_cancellation(self, error: BaseException) -> bool:
        if not isinstance(error, TokenCancelledError):
            return False
        parent_origin = None if self._parent_token is None else self._parent_token.origin
        if error.token == parent_origin:
            # The child may have seen the deadline of the parent before the parent's listeners were notified.
            self.parent_was_cancelled = True
        return error.token in {self._token.origin, parent_origin}

    def take(self) -> list[BaseException]:
        """Return the errors, and keep none."""
        errors, self._errors = self._errors, []
        return errors

    def log_all(self) -> None:
        """Log the errors: the block has ended and cannot raise them."""
        for error in self.take():
            logger.error("a child of %s failed after the scope had ended", self._label, exc_info=error)

    def final_error(
        self, errors: list[BaseException], error: BaseException | None, foreign: CancelledError | None
    ) -> BaseException | None:
        """Return what the block raises; None for nothing.

        Args:
            errors: the collected errors.
            error: what the body ended with.
            foreign: a cancellation of the task that is not the scope's.
        """
        for one in errors:
            if isinstance(one, (KeyboardInterrupt, SystemExit)):
                return one
        result: BaseException
        if errors:
            result = BaseExceptionGroup(f"errors in {self._label}", errors)
        elif foreign is not None or isinstance(error, GeneratorExit):
            return foreign or error
        elif self.parent_was_cancelled and self._parent_token is not None:
            if isinstance(error, TokenCancelledError):
                return error
            result = self._parent_token.error(self._label)
        else:
            return None
        # The context is in the group already, or is the CancelledError with which the scope has cancelled the
        # body.
        result.__suppress_context__ = True
        return result


# -- the body --------------------------------------------------------------------------------------------------

# From 3.13 on, uncancel() also removes a request that was not raised yet, so one can be left for the next
# await.
CAN_REMOVE_PENDING_CANCEL = sys.version_info >= (3, 13)
# The most iterations of the event loop that anyio takes to cancel a task again that is still in its cancel
# scope.
ANYIO_ITERATIONS = 2


def current_actors() -> set[ActorId]:
    """Return the actors that run now: at most one of each loop attached to the running event loop."""
    found = (loop.kernel.current_actor() for loop in running_loops())
    return {actor for actor in found if actor is not None}


@final
class BodyTask:
    """The task that runs the body of a scope, which the scope may cancel and uncancel.

    asyncio counts the requests to cancel a task. Code that makes one and handles it removes it with
    `uncancel()`. If the count is then as before, the CancelledError was its own, and is consumed. If not, a
    timeout or a group around the block has made another one, and it propagates.

    The scope only cancels the task from a callback of the event loop, and never after the block has ended. A
    task that is cancelled during its own step raises at its next await, which may be after the block; and
    before 3.13 that cannot be undone.
    """

    __slots__ = ("_actors", "_before", "_has_left", "_is_cancelled", "_message", "host", "task")

    def __init__(self, host: AbstractEventLoop, task: Task[Any], label: str) -> None:
        self.host = host
        # None after the block.
        self.task: Task[Any] | None = task
        # The requests to cancel the task before the block.
        self._before = task.cancelling()
        # The actors that ran when the block began, if it is in an actor's coroutine.
        self._actors = current_actors()
        self._message = f"{label} was cancelled"
        self._is_cancelled = False
        self._has_left = False

    @classmethod
    def current(cls, label: str) -> Self:
        """Return the body for the current task.

        Raises:
            InvalidArgumentError: no task runs here.
        """
        task = asyncio.current_task()
        if task is None:
            raise InvalidArgumentError(
                f"{label} is entered where no task runs: enter it in a coroutine that a task or an actor runs"
            )
        return cls(asyncio.get_running_loop(), task, label)

    # -- the caller

    def is_on_event_loop(self) -> bool:
        """Whether the caller runs on the event loop of the body."""
        try:
            return asyncio.get_running_loop() is self.host
        except RuntimeError:
            return False

    def current_task(self) -> Task[Any] | None:
        """Return the current task, if the caller runs on the event loop of the body."""
        return asyncio.current_task() if self.is_on_event_loop() else None

    def is_caller(self) -> bool:
        """Whether the body is the caller: its task runs, and no signal handler or actor is in between.

        A loop may run actors inside a task that awaits an answer, or starts an actor.
        """
        if self.task is None or self.current_task() is not self.task or is_in_signal_handler():
            return False
        return current_actors() <= self._actors

    def call_on_event_loop(self, function: Callable[[], object]) -> bool:
        """Call a function on the event loop of the body; return False if that is closed.

        It is called now if this is the event loop, except in a signal handler, which may have interrupted
        anything.
        """
        if not self.is_on_event_loop() or is_in_signal_handler():
            return self._call_soon(function)
        function()
        return True

    def _call_soon(self, function: Callable[[], object]) -> bool:
        try:
            self.host.call_soon_threadsafe(function)
        except RuntimeError:
            if not self.host.is_closed():
                raise
            return False
        return True

    # -- cancelling

    def cancel_soon(self) -> None:
        """Cancel the task in a later iteration of the event loop, if it is still in its block then.

        Once. From any thread.
        """
        if not self._has_left and not self._is_cancelled:
            self._call_soon(self._cancel)

    def _cancel(self) -> None:
        if not self._has_left and not self._is_cancelled:
            assert self.task is not None
            self._is_cancelled = self.task.cancel(self._message)

    def leave(self, error: BaseException | None) -> CancelledError | None:
        """End the block, which raised `error` or nothing; return a cancellation that is not the scope's.

        The scope's own request is removed from the task.
        """
        self._has_left = True
        assert self.task is not None
        is_foreign = not self._is_cancelled or self.task.uncancel() > self._before
        return error if isinstance(error, CancelledError) and is_foreign else None

    async def wait(self, future: Future[None]) -> CancelledError | None:
        """Wait for a future after the block; return a cancellation that comes meanwhile, which is foreign."""
        try:
            await future
        except CancelledError as error:
            return error
        finally:
            # The future holds the error, which holds this frame.
            del future
        return None

    async def separate(self, foreign: CancelledError) -> CancelledError:
        """Return the cancellation to propagate, of two that were raised as one.

        If others cancelled the task in the same iteration as the scope, asyncio raises one error for both,
        which may carry the scope's message. anyio recognises its own by their message, and repeats them: wait
        for that.
        """
        if self._is_cancelled and foreign.args == (self._message,):
            for _ in range(ANYIO_ITERATIONS):
                try:
                    await asyncio.sleep(0)
                except CancelledError as error:
                    return error
        return foreign

    def repeat_cancellation(self) -> None:
        """Cancel the next await, where possible: an error was raised in place of a foreign cancellation."""
        if CAN_REMOVE_PENDING_CANCEL and self.task is not None and self.task.cancelling() > self._before:
            self.task.uncancel()
            self.task.cancel()

    def release_task(self) -> None:
        """Drop the task.

        One that ends with an error holds the frames of its traceback, and they may hold the scope.
        """
        self.task = None


# -- the children ----------------------------------------------------------------------------------------------


class ScopeChild(Protocol):
    """A child of a scope.

    It reports its end to the scope exactly once, from a callback of the event loop: never inside the exit of
    an actor.
    """

    ends_by_itself: ClassVar[bool]
    """Whether the end of the block waits until it ends; if not, it is asked to end."""

    @property
    def handle(self) -> ChildHandle:
        """What the user has of it."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it has ended. It may not be reported yet."""
        ...

    def watch(self) -> None:
        """Report its end from now on; at once, if it has ended."""
        ...

    def cancel(self, reason: str) -> None:
        """Make it end soon. Calling it again changes nothing."""
        ...

    def drain(self) -> None:
        """Let it process what it has, and end."""
        ...

    def kill(self) -> bool:
        """End it at once; return False if that is not possible."""
        ...


OnEnded: TypeAlias = Callable[[ScopeChild, BaseException | None], object]


@final
class TaskChild:
    """A task. The exception that it raises is its error; a cancellation is none."""

    __slots__ = ("_on_ended", "handle")

    ends_by_itself: ClassVar[bool] = True

    def __init__(self, task: Task[Any], on_ended: OnEnded) -> None:
        self.handle = task
        self._on_ended = on_ended

    def watch(self) -> None:
        """Report its end; at once, if it started eagerly and has ended."""
        if self.handle.done():
            self._done(self.handle)
        else:
            self.handle.add_done_callback(self._done)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.handle.done()

    def cancel(self, reason: str) -> None:
        """Cancel the task."""
        self.handle.cancel(reason)

    def drain(self) -> None:
        """Do nothing: it ends by itself."""

    def kill(self) -> bool:
        """Return False: a task that ignores its cancellation cannot be ended."""
        return False

    def _done(self, task: Task[Any]) -> None:
        self._on_ended(self, None if task.cancelled() else task.exception())


class ActorChild:
    """An actor. The cause of an abnormal exit is its error, unless the scope has killed it."""

    __slots__ = ("_host", "_is_killed", "_loop", "_on_ended", "actor", "has_ended")

    ends_by_itself: ClassVar[bool] = False

    def __init__(self, loop: Loop, actor: ActorId, host: AbstractEventLoop, on_ended: OnEnded) -> None:
        self._loop = loop
        self.actor = actor
        self._host = host
        self._on_ended = on_ended
        self._is_killed = False
        self.has_ended = False

    def watch(self) -> None:
        """Report its end."""
        self._loop.kernel.actors.set_exit_handled(self.actor)
        self._loop.kernel.actors.on_exit(self.actor, self._on_exit)

    @property
    def handle(self) -> ChildHandle:
        """Its id."""
        return self.actor

    def is_caller(self) -> bool:
        """Whether the caller is the actor itself."""
        return self._loop.kernel.is_current(self.actor)

    def cancel(self, reason: str) -> None:  # noqa: ARG002  # an actor gets no reason
        """Stop it."""
        self._loop.kernel.actors.stop_or_kill(self.actor)

    def drain(self) -> None:
        """Let it process its mailbox, and end. The children of a supervisor end with it."""
        # A loop that was asked to stop ends it anyway.
        with suppress(NoSuchActorError, LoopClosedError):
            self._loop.kernel.actors.close_mailbox(self.actor)

    def kill(self) -> bool:
        """End it without waiting for its current message."""
        self._is_killed = True
        self._loop.kernel.actors.stop_or_kill(
            self.actor, ActorKilledError("its scope was cancelled, and it did not end in time")
        )
        return True

    def _on_exit(self, reason: ExitReason, cause: BaseException | None) -> None:
        """Report the end in the next iteration of the event loop: this runs inside the actor's exit.

        A channel actor has registered its own callback before, so waits for its end are woken before the
        scope is notified.
        """
        self.has_ended = True
        # If the event loop is closed, nothing waits for the scope.
        with suppress(RuntimeError):
            self._host.call_soon(self._on_ended, self, self._error(reason, cause))

    def _error(self, reason: ExitReason, cause: BaseException | None) -> BaseException | None:
        if reason is ExitReason.NORMAL or self._is_killed:
            return None
        return cause or ChildFailedError(f"{self.handle!r} ended with reason {reason.name}")


@final
class ConsumerChild(ActorChild):
    """A channel actor: it ends with its channel."""

    __slots__ = ("_consumer",)

    ends_by_itself: ClassVar[bool] = True

    def __init__(self, consumer: ChannelActor[Any], host: AbstractEventLoop, on_ended: OnEnded) -> None:
        super().__init__(consumer.loop, consumer.id, host, on_ended)
        self._consumer = consumer

    @property
    def handle(self) -> ChildHandle:
        """Its handle."""
        return self._consumer

    def cancel(self, reason: str) -> None:
        """Do nothing: its token is a child of the scope's, and is cancelled already."""

    def drain(self) -> None:
        """Do nothing: it ends by itself."""


def _ignore_error(_error: BaseException) -> None:
    """Replaces the error callback when no child is left."""


@final
class ScopeChildren:
    """The children of one scope. Used on the scope's thread only, but for the two events.

    A child is listed from its start until its end is reported, or until it is abandoned, which is logged.
    """

    __slots__ = (
        "_actors",
        "_all",
        "_change",
        "_has_abandoned",
        "_is_cancelled",
        "_is_closed",
        "_label",
        "_on_error",
        "_workers",
        "idle",
        "joined",
    )

    def __init__(self, label: str, on_error: Callable[[BaseException], object]) -> None:
        self._label = label
        self._on_error = on_error
        self._all: dict[ChildHandle, ScopeChild] = {}
        # The actors among them, channel actors included.
        self._actors: set[ActorId] = set()
        # How many of them end by themselves.
        self._workers = 0
        self._is_cancelled = False
        self._is_closed = False
        self._has_abandoned = False
        self._change: Future[None] | None = None
        self.idle: OneShotEvent[bool] = OneShotEvent(f"the end of all tasks and channel actors of {label}")
        """Set while there is no child that ends by itself; replaced when there is one again."""
        self.idle.set(True)  # the result of a wait
        self.joined: OneShotEvent[bool] = OneShotEvent(f"the end of all children of {label}")
        """Set when the scope was cancelled and no child is left. The value is False if one was abandoned."""

    def handles(self) -> tuple[ChildHandle, ...]:
        """Return the handles of the children that have not ended, oldest first."""
        return tuple(handle for handle, child in self._all.items() if not child.has_ended)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, handle: object) -> bool:
        return handle in self._all or handle in self._actors

    def has_current_actor(self) -> bool:
        """Whether the caller is an actor of the scope."""
        return any(isinstance(child, ActorChild) and child.is_caller() for child in self._all.values())

    def add(self, child: ScopeChild) -> None:
        """Add a child."""
        self._all[child.handle] = child
        if isinstance(child, ActorChild):
            self._actors.add(child.actor)
        if child.ends_by_itself:
            self._workers += 1
            if self.idle.is_set:
                self.idle = OneShotEvent(self.idle.description)
        self._signal_change()

    def on_ended(self, child: ScopeChild, error: BaseException | None) -> None:
        """Remove a child that has ended, with an error or without."""
        if self._all.get(child.handle) is not child:
            if error is not None:
                logger.error("%r failed after %s had abandoned it", child.handle, self._label, exc_info=error)
            return
        try:
            if error is not None:
                # First: what is woken by the removal must find the error.
                self._on_error(error)
        finally:
            self._remove(child)

    def _remove(self, child: ScopeChild) -> None:
        del self._all[child.handle]
        if isinstance(child, ActorChild):
            self._actors.discard(child.actor)
        if child.ends_by_itself:
            self._workers -= 1
            if self._workers == 0:
                self.idle.set(True)  # the result of a wait
        if self._is_cancelled and not self._all:
            self.set_joined()
        if self._is_closed:
            self.close()
        self._signal_change()

    # -- ending

    def cancel(self, reason: str) -> None:
        """Cancel all children, the youngest first."""
        self._is_cancelled = True
        for child in reversed(list(self._all.values())):
            if not child.has_ended:
                child.cancel(reason)
        if not self._all:
            self.set_joined()

    def drain(self) -> None:
        """If only actors are left, let the youngest process its mailbox and end. It may need the others."""
        if self._workers or self._is_cancelled:
            return
        for child in reversed(list(self._all.values())):
            if not child.has_ended:
                child.drain()
            if not child.has_ended:
                return

    def kill_all(self, ms: float) -> None:
        """Kill the children that have not ended in time, and abandon those that cannot be killed.

        Both are logged.
        """
        for child in list(self._all.values()):
            if child.has_ended:
                continue
            is_killed = child.kill()
            logger.error(
                "%r did not end within %g ms after %s was cancelled, and %s",
                child.handle,
                ms,
                self._label,
                "was killed"
                if is_killed
                else "is abandoned: it ignores its cancellation, or its cleanup takes too long",
            )
            if not is_killed:
                self._has_abandoned = True
                self._remove(child)

    def close(self) -> None:
        """End the scope: drop the error callback as soon as no child is left."""
        self._is_closed = True
        if not self._all:
            # It is a bound method of the scope, which holds this object.
            self._on_error = _ignore_error

    def set_joined(self) -> None:
        """Set `joined`: no child is left, or none is waited for."""
        self.joined.set(not self._has_abandoned and not self._all)

    # -- waiting

    def next_change(self, host: AbstractEventLoop) -> Future[None]:
        """Return a future for the next change at which no child is left that ends by itself."""
        self._change = host.create_future()
        return self._change

    def _signal_change(self) -> None:
        if self._workers > 0 or self._change is None:
            return
        change, self._change = self._change, None
        if not change.done():
            change.set_result(None)


# -- signal handlers -------------------------------------------------------------------------------------------

# A handler is no coroutine, and is not called by one: what is below a coroutine was interrupted, or does not
# matter here.
COROUTINE_FLAGS = CO_COROUTINE | CO_ASYNC_GENERATOR
# The module in which asyncio calls callbacks: what is below belongs to asyncio.
CALLBACK_RUNNER = "asyncio.events"
# The number of the signal, and the frame.
HANDLER_ARGUMENTS = 2


def is_in_signal_handler() -> bool:
    """Whether the caller was called by a signal handler, not by the code that the handler interrupted.

    Python calls a signal handler between any two instructions of the main thread: in any task, in the middle
    of anything. The only sign is that a handler gets the frame that it has interrupted, which is the one
    below its own. So this looks for a function whose arguments contain the frame below it. A handler that is
    not written in Python, or has dropped that frame, is not recognised.
    """
    if get_ident() != main_thread().ident:
        return False
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # there is no other way
    while frame is not None and not frame.f_code.co_flags & COROUTINE_FLAGS:
        if frame.f_globals.get("__name__") == CALLBACK_RUNNER:
            return False
        below = frame.f_back
        if below is not None and _has_argument(frame, below):
            return True
        frame = below
    return False


def _has_argument(frame: FrameType, value: FrameType) -> bool:
    """Whether one of the arguments of a function is a frame."""
    code = frame.f_code
    has_varargs = bool(code.co_flags & CO_VARARGS)
    if code.co_argcount < HANDLER_ARGUMENTS and not has_varargs:
        return False
    values = frame.f_locals
    if any(values.get(name) is value for name in code.co_varnames[: code.co_argcount]):
        return True
    varargs: object = (
        values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if has_varargs else None
    )
    return isinstance(varargs, tuple) and any(one is value for one in cast("tuple[object, ...]", varargs))
