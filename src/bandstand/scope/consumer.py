"""Channel actors: actors that receive from a channel and call a function with each element.

`consume` starts one and returns its handle, a `ChannelActor`. A `Consumer` is the same work as a child
specification for a supervisor. The part that runs for every element is in the compiled `_consumer`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, final

from bandstand.core import ActorId, Behavior, Context, ExitReason, Loop, Verdict
from bandstand.errors import ActorKilledError, InvalidArgumentError, LoopBusyError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.scope._channel import WaitState, check_token
from bandstand.scope._consumer import ActorReceive, ConsumerState, consumer_behavior
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.scope.deadline import current_open_loops
from bandstand.scope.event import EventWait, OneShotEvent

if TYPE_CHECKING:
    from bandstand.scope.scope import Scope

__all__ = (
    "ChannelActor",
    "Consumer",
    "ConsumerEnded",
    "EndedBy",
    "Outcome",
    "Process",
    "check_consume_arguments",
    "consume",
    "start_consumer",
)

T = TypeVar("T")

Process: TypeAlias = Callable[[T], Verdict | None] | Callable[[T], Coroutine[Any, Any, Verdict | None]]
"""What is called with each element: a function or a coroutine function.

It returns what a behavior returns.
"""

ConsumerEnded: TypeAlias = Callable[[ActorReceive, ExitReason, BaseException | None], object]


# -- how it ended ----------------------------------------------------------------------------------------------


class EndedBy(Enum):
    """What ended a channel actor."""

    CLOSED = "closed"
    """The channel was closed and empty."""
    STOPPED = "stopped"
    """It was stopped: by `stop()`, by its id, by its supervisor, or with its loop."""
    CANCELLED = "cancelled"
    """Its token was cancelled."""
    RETURNED = "returned"
    """Its function returned STOP."""
    FAILED = "failed"
    """Its function raised, returned FAIL or an invalid verdict; or the actor was failed from outside."""
    KILLED = "killed"
    """It was killed, without waiting for the current element."""
    NOT_YET = "not yet"
    """It has not ended. This is the answer to its own function, which cannot wait for its own end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a channel actor ended."""

    reason: ExitReason
    """The exit reason, as its supervisor gets it."""
    cause: BaseException | None
    """The exception that its function raised, or another cause of the failure; None if there is none."""
    ended_by: EndedBy
    """What ended it."""


NOT_ENDED = Outcome(ExitReason.NORMAL, None, EndedBy.NOT_YET)


def _ended_by(receive: ActorReceive, reason: ExitReason, cause: BaseException | None) -> EndedBy:
    if reason is not ExitReason.NORMAL:
        return EndedBy.KILLED if isinstance(cause, ActorKilledError) else EndedBy.FAILED
    if receive.is_cancelled:
        return EndedBy.CANCELLED
    if receive.has_reached_end:
        return EndedBy.CLOSED
    return EndedBy.RETURNED if receive.has_returned_stop else EndedBy.STOPPED


# -- the work --------------------------------------------------------------------------------------------------


def check_work(channel: object, process: object) -> None:
    """Check what every consumer needs.

    Raises:
        InvalidArgumentError: one of them is invalid.
    """
    if not isinstance(channel, Channel):
        raise InvalidArgumentError(f"channel is {safe_repr(channel)}: pass a Channel")
    if not callable(process):
        raise InvalidArgumentError(f"process is {safe_repr(process)}: pass a function of one element")


@final
class Consumer(Generic[T]):
    """A consumer as a supervised child.

        work = Consumer(orders, handle)
        ChildSpec("orders", run=work.run, init=work.init, restart=RestartPolicy.ON_FAILURE)

    Every incarnation continues with the next element. The element at which an incarnation failed was
    received, and is not processed again. The end of the channel, or of the token, is a normal exit: a
    child with `ON_FAILURE` is not restarted after it. With `ALWAYS` it would be restarted, and end again at
    once, until its supervisor gives up.

    Args:
        channel: the channel to consume. Several consumers may share one: each element goes to one of them.
        process: called with each element.
        token: a token that ends it at once.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    __slots__ = ("_process", "_token", "channel")

    def __init__(self, channel: Channel[T], process: Process[T], *, token: CancelToken | None = None) -> None:
        check_work(channel, process)
        if token is not None:
            check_token(token)
        self.channel = channel
        self._process = process
        self._token = token

    @property
    def run(self) -> Behavior[ConsumerState]:
        """The behavior: `ChildSpec(run=...)`."""
        return cast("Behavior[ConsumerState]", consumer_behavior)

    def init(self, ctx: Context[ConsumerState], *_arguments: object) -> ConsumerState:
        """Make the state of one incarnation: `ChildSpec(init=...)`.

        Arguments of a dynamic supervisor are ignored.
        """
        return ConsumerState(self.begin(ctx.loop, ctx.self_id, None))

    def begin(self, loop: Loop, actor: ActorId, on_exit: ConsumerEnded | None) -> ActorReceive:
        """Begin one incarnation. `on_exit` is called inside the actor's exit, and must not raise."""
        receive = ActorReceive(self.channel, self._process, loop.kernel, actor)
        token = self._token

        def exited(reason: ExitReason, cause: BaseException | None) -> None:
            receive.detach()
            if token is not None:
                token.remove_listener(receive)
            if on_exit is not None:
                on_exit(receive, reason, cause)

        loop.kernel.actors.on_exit(actor, exited)
        # One element per turn: then the other actors run.
        loop.kernel.set_budget(actor, 1)
        receive.schedule()
        if token is not None and actor.is_alive:
            # Last, because the token may be cancelled already: then the actor ends here.
            token.add_listener(receive)
        return receive


# -- the handle ------------------------------------------------------------------------------------------------


@final
class ChannelActor(Generic[T]):
    """The handle of an actor that consumes a channel; `consume` returns it.

    It can be used from any thread.
    """

    __slots__ = ("_ended", "_outcome", "_receive", "channel", "loop", "name", "token")

    def __init__(self, channel: Channel[T], loop: Loop, name: str | None, token: CancelToken) -> None:
        self.channel = channel
        """The channel it consumes."""
        self.loop = loop
        """The loop it runs on."""
        self.name = name
        """Its name in the actor tree and in the log."""
        self.token = token
        """Its own token, a child of the one it was started with: cancelling it ends this actor only."""
        self._receive: ActorReceive | None = None
        self._outcome: Outcome | None = None
        self._ended: OneShotEvent[Outcome] = OneShotEvent(f"the end of {self._label}")

    @property
    def id(self) -> ActorId:
        """Its actor id. Messages sent to it are ignored, and counted in `strays`."""
        return self._begun.actor

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None before."""
        return self._ended.value

    @property
    def processed(self) -> int:
        """How many elements its function was called with."""
        return self._begun.processed

    @property
    def strays(self) -> int:
        """How many messages were sent to its id. They are ignored."""
        return self._begun.strays

    def on_done(self, callback: Callable[[Outcome], object]) -> None:
        """Call a function with the outcome once, when it has ended, on the loop's thread; now, if it has.

        Exceptions of the function are logged.
        """
        self._ended.add_callback(callback)

    def stop(self, *, timeout: Seconds | None = None) -> EventWait[Outcome]:
        """Stop it: it finishes the current element, and takes no further one.

        The request takes effect at once.

        The result can be awaited, or used with `.blocking()` on a plain thread; it returns the outcome. In
        the actor's own function it does not wait, and returns an outcome with `NOT_YET`.

        Args:
            timeout: how long to wait at most; None for no limit. After `ChannelTimeoutError` the request still
                stands.
        """
        self._begun.stop()
        return self._wait(timeout, None, is_request=True)

    def cancel(
        self, reason: str | BaseException | None = None, *, timeout: Seconds | None = None
    ) -> EventWait[Outcome]:
        """Cancel its token: it ends now, and a coroutine that processes an element is cancelled.

        The request takes effect at once.

        The result is as for `stop`.
        """
        self.token.cancel(reason)
        return self._wait(timeout, None, is_request=True)

    def ended(
        self, *, timeout: Seconds | None = None, token: CancelToken | None = None
    ) -> EventWait[Outcome]:
        """Wait until it has ended, without asking it to. The result is as for `stop`."""
        return self._wait(timeout, token, is_request=False)

    def _wait(
        self, timeout: Seconds | None, token: CancelToken | None, *, is_request: bool
    ) -> EventWait[Outcome]:
        if self._outcome is not None and self._begun.is_on_loop_thread():
            # The loop may not be running, and then the posted call in `_on_exit` would not run.
            self._ended.set(self._outcome)
        return ConsumerEndWait(self._ended, self._begun, timeout, token, is_request=is_request)

    def __repr__(self) -> str:
        state = (
            "not begun"
            if self._receive is None
            else "running"
            if self._outcome is None
            else self._outcome.ended_by.value
        )
        return f"<{self._label} of {self.channel!r}: {state}>"

    @property
    def _label(self) -> str:
        return "ChannelActor" if self.name is None else f"ChannelActor {self.name!r}"

    # -- for start_consumer()

    @property
    def _begun(self) -> ActorReceive:
        assert self._receive is not None
        return self._receive

    @property
    def has_begun(self) -> bool:
        """Whether it has begun."""
        return self._receive is not None

    def begin(self, work: Consumer[T], actor: ActorId) -> ConsumerState:
        """Begin, and return the state of the actor."""
        self._receive = work.begin(self.loop, actor, self._on_exit)
        return ConsumerState(self._receive)

    def _on_exit(self, receive: ActorReceive, reason: ExitReason, cause: BaseException | None) -> None:
        """Record the outcome.

        This runs inside the actor's exit, so the event, whose callbacks may do anything, is set afterwards.
        """
        outcome = self._outcome = Outcome(reason, cause, _ended_by(receive, reason, cause))
        self.loop.kernel.inbox.call_soon(lambda: self._ended.set(outcome))


@final
class ConsumerEndWait(EventWait[Outcome]):
    """A wait for the end of a channel actor. The actor itself, and the thread of its loop, may use it too."""

    __slots__ = ("_receive",)

    def __init__(
        self,
        event: OneShotEvent[Outcome],
        receive: ActorReceive,
        timeout: Seconds | None,
        token: Any,
        *,
        is_request: bool,
    ) -> None:
        super().__init__(event, timeout, token, None, is_request=is_request)
        self._receive = receive

    def try_now(self) -> bool:
        """Complete it if the actor has ended, or is the caller: it cannot wait for itself."""
        if not self._source.is_set and self._receive.is_current():
            self._immediate = NOT_ENDED
        return super().try_now()

    def blocking(self) -> Outcome:
        """Wait on a plain thread.

        Raises:
            LoopBusyError: this thread runs an event loop; or it is the thread of the actor's loop, which could not
                run meanwhile.
        """
        if self.state == WaitState.FRESH and not self._source.is_set and self._receive.is_on_loop_thread():
            self._may_be_ignored = True
            if self.try_now():
                # The actor's own function: it does not wait.
                return cast("Outcome", self.result())
            raise LoopBusyError(
                f"blocking() would wait for {self._source.description} on the thread of its loop, which could not run meanwhile: "
                f"run the loop, or wait on another thread"
            )
        return super().blocking()


# -- starting one ----------------------------------------------------------------------------------------------


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
    """Start an actor that receives from a channel and calls a function with each element, one at a time.

    After each element the other actors that are ready run, so two busy consumers alternate. While the channel
    is empty the actor costs nothing. It ends when the channel is closed and empty, when it is stopped or
    cancelled, and by what the function returns or raises: None and OK continue, STOP ends it, FAIL and an
    exception fail it.

    If it ends before it processed an element that was handed to it, the element returns to the front of the
    channel.

    Args:
        channel: the channel to consume. Several consumers may share one: each element goes to one of them.
        process: called with each element: a function or a coroutine function.
        token: a token that ends it. If the token is cancelled already, it processes no element.
        on_done: called with the outcome when it has ended: see `ChannelActor.on_done`.
        scope: the scope that owns it: it ends with the scope.
        loop: the loop it runs on; None for that of the scope, else for the one attached to the running event
            loop.
        name: its name in the actor tree and in the log; None for the channel's.

    Raises:
        InvalidArgumentError: an argument is invalid; or there is no loop here, or more than one.
        Cancelled, ScopeClosedError: the scope is cancelled or over.
        MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `Loop.spawn`.
    """
    check_consume_arguments(channel, process, token, on_done, loop, name)
    if scope is not None:
        if not hasattr(scope, "consume"):
            raise InvalidArgumentError(f"scope is {safe_repr(scope)}: pass a Scope, or None")
        return scope.consume(channel, process, token=token, on_done=on_done, loop=loop, name=name)
    actor = start_consumer(channel, process, token, _current_loop() if loop is None else loop, name)
    if on_done is not None:
        actor.on_done(on_done)
    return actor


def check_consume_arguments(
    channel: object, process: object, token: object, on_done: object, loop: object, name: object
) -> None:
    """Check the arguments of `consume`.

    Raises:
        InvalidArgumentError: one of them is invalid.
    """
    if name is not None and not isinstance(name, str):
        raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string")
    if on_done is not None and not callable(on_done):
        raise InvalidArgumentError(f"on_done is {safe_repr(on_done)}: pass a function of the outcome")
    if token is not None:
        check_token(token)
    check_work(channel, process)
    if loop is not None and not isinstance(loop, Loop):
        raise InvalidArgumentError(f"loop is {safe_repr(loop)}: pass a Loop, or None for the current one")


def start_consumer(
    channel: Channel[T], process: Process[T], parent: CancelToken | None, loop: Loop, name: str | None
) -> ChannelActor[T]:
    """Start a channel actor on a loop. The arguments must be checked.

    Raises:
        MaxActorsError, OutOfMemoryError, LoopClosedError, WrongThreadError: as for `Loop.spawn`.
    """
    token = CancelToken() if parent is None else parent.child()
    work = Consumer(channel, process, token=token)
    actor = ChannelActor(channel, loop, channel.name if name is None else name, token)

    def init(ctx: Context[ConsumerState]) -> ConsumerState:
        return actor.begin(work, ctx.self_id)

    spawned = loop.kernel.actors.spawn_child(
        work.run,
        init,
        name=actor.name,
        cap=loop.kernel.actors.checked_cap(None),
        supervisor=None,
        context=copy_context(),
    )
    error = loop.kernel.actors.take_init_error()
    if error is not None:
        raise error
    if not actor.has_begun:
        # An observer ended the actor before its init. Its end must still be reported.
        actor.begin(work, spawned)
    return actor


def _current_loop() -> Loop:
    loops = current_open_loops()
    if len(loops) != 1:
        found = "no loop is" if not loops else f"{len(loops)} loops are"
        raise InvalidArgumentError(
            f"{found} attached to the running event loop: call consume() inside `async with Loop():`, or pass loop="
        )
    return loops[0]
