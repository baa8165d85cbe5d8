"""The compiled part of channel actors: a receive operation that belongs to an actor instead of a task.

An actor without work waits in the channel's queue of receivers, as a task would. Completing its operation
*schedules* the actor: it gets one system message, in a reserved slot, that carries nothing. An element leaves
the channel when the actor is about to process it, or is given to it while it waits in the queue; if the actor
ends first, that element returns to the front of the channel.

After each element the actor schedules itself behind all other actors that are ready, and queues again only if
it then finds the channel empty. At most one such message is on its way (`is_scheduled`). A coroutine that
processes an element runs inside an `ItemCoroutine`, which sees its return value: only there can a function
that returned STOP be distinguished from a stop by someone else.
"""

# PyThread_get_thread_ident and step_coroutine are defined either here or in the .pxd; the checker sees only one
# of the two.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bandstand.core.context import ActorContext
from bandstand.core.coroutines import is_coroutine
from bandstand.core.enums import SystemTag, Verdict
from bandstand.core.kernel import Kernel
from bandstand.errors import InvalidVerdictError
from bandstand.errors.formatting import safe_repr
from bandstand.scope._channel import ChannelCore, ChannelOp, WaitState

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is a C function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId

Count: TypeAlias = int
State: TypeAlias = int

FRESH: State = WaitState.FRESH.value
DONE: State = WaitState.DONE.value
CLOSED: State = WaitState.CLOSED.value
LEFT: State = WaitState.LEFT.value
NO_TIMEOUT = -1.0
RECEIVE = False
ELEMENT = SystemTag.ELEMENT
OK_VERDICT = Verdict.OK
STOP_VERDICT = Verdict.STOP
FAIL_VERDICT = Verdict.FAIL


class ActorReceive(ChannelOp):
    """The receive operation of one incarnation of a channel actor, used again for every element."""

    __slots__ = (
        "actor",
        "has_reached_end",
        "has_returned_stop",
        "is_busy",
        "is_cancelled",
        "is_scheduled",
        "is_stopping",
        "kernel",
        "process",
        "processed",
        "strays",
    )

    def __init__(
        self, channel: ChannelCore, process: Callable[[Any], Any], kernel: Kernel, actor: ActorId
    ) -> None:
        self.prepare(channel, RECEIVE, None, NO_TIMEOUT, None)
        self.process = process
        self.kernel = kernel
        self.actor = actor
        # Whether an element is being processed.
        self.is_busy = False
        # Whether a message is on its way that makes the actor look at the channel.
        self.is_scheduled = False
        # Whether the actor takes no further element; and whether the current one is cancelled. Set from any
        # thread.
        self.is_stopping = False
        self.is_cancelled = False
        # Whether the channel was closed and empty; and whether the function returned STOP.
        self.has_reached_end = False
        self.has_returned_stop = False
        self.processed: Count = 0
        # Messages sent to the actor's id. They are ignored.
        self.strays: Count = 0

    # -- processing

    def run(self, ctx: ActorContext) -> Any:
        """Process one element, or queue: the behavior of the actor."""
        if ctx.tag is not ELEMENT:
            self.strays += 1
            return None
        self.is_scheduled = False
        if self.is_stopping:
            return STOP_VERDICT
        if self.state == FRESH and not self.try_now() and not self.enqueue():
            return None
        if self.state == CLOSED:
            self.has_reached_end = True
            return STOP_VERDICT
        if self.state != DONE:
            # A spurious message: it is still in the queue.
            return None
        item, self.item = self.item, None
        self.state = FRESH
        self.processed += 1
        self.is_busy = True
        verdict = self.process(item)
        if verdict is not None and verdict is not OK_VERDICT and is_coroutine(verdict):
            wrapped = ItemCoroutine.__new__(ItemCoroutine)
            wrapped.receive = self
            wrapped.coroutine = verdict
            return wrapped
        return self.finish_item(verdict)

    def finish_item(self, verdict: Any) -> Any:
        """Return the verdict for the kernel, after an element was processed.

        Raises:
            InvalidVerdictError: the function did not return a verdict.
        """
        if verdict is None or verdict is OK_VERDICT:
            self.is_busy = False
            if self.is_stopping:
                return STOP_VERDICT
            self.schedule()
            return None
        if verdict is STOP_VERDICT:
            self.has_returned_stop = True
        elif verdict is not FAIL_VERDICT:
            what = getattr(self.process, "__qualname__", self.process)
            raise InvalidVerdictError(
                f"{what} returned {safe_repr(verdict)} for an element of {self.channel!r}: return None to continue, STOP to end, or FAIL to fail"
            )
        return verdict

    def schedule(self) -> None:
        """Make the actor look at its channel. On the thread of its loop."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self.kernel.notify_channel(self.actor)

    def wake(self) -> None:
        """Make the actor look at its channel: the operation was completed. From any thread."""
        if self.is_unreachable():
            # The actor will never run again: give the element to another receiver.
            self.abandon()
        elif PyThread_get_thread_ident() == self.kernel.owner:
            self.schedule()
        else:
            self.kernel.inbox.call_soon(self.schedule)

    def is_unreachable(self) -> bool:
        """Whether the event loop of the actor's loop was closed while the loop used it."""
        return self.kernel.is_host_closed()

    # -- ending

    def stop(self) -> None:
        """Take no further element, and end the actor after the current one. From any thread."""
        self.is_stopping = True
        self.request_end()

    def on_cancelled(self) -> None:
        """End the actor now, and cancel the coroutine that processes an element: the token was cancelled.

        From any thread.
        """
        self.is_cancelled = True
        self.is_stopping = True
        self.request_end()

    def request_end(self) -> None:
        """Call `end_actor` on the thread of the loop."""
        if PyThread_get_thread_ident() == self.kernel.owner:
            self.end_actor()
        else:
            self.kernel.inbox.call_soon(self.end_actor)

    def end_actor(self) -> None:
        """End the actor, unless it must finish an element first.

        On the thread of its loop, or on any if the loop has ended.
        """
        if self.actor.cell is not None and (self.is_cancelled or not self.is_busy):
            self.kernel.actors.stop_or_kill(self.actor, None)

    def detach(self) -> None:
        """Leave the queue, and return an element that was not processed: the actor has ended."""
        self.abandon()
        if self.state == FRESH:
            self.state = LEFT

    # -- the caller

    def is_on_loop_thread(self) -> bool:
        """Whether the caller is on the thread of the actor's loop."""
        return PyThread_get_thread_ident() == self.kernel.owner

    def is_current(self) -> bool:
        """Whether the caller is the actor itself. From any thread."""
        return PyThread_get_thread_ident() == self.kernel.owner and self.kernel.is_current(self.actor)


class ItemCoroutine:
    """Wraps the coroutine that processes an element, to see its return value.

    It behaves like that coroutine.
    """

    __slots__ = ("coroutine", "is_done", "receive")

    def __init__(self, receive: ActorReceive, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.receive = receive
        self.coroutine = coroutine
        self.is_done = False

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Resume the coroutine."""
        value = step_coroutine(self, None)
        if not self.is_done:
            return value
        value = self.receive.finish_item(value)
        if value is None:
            raise StopIteration
        raise StopIteration(value)

    def send(self, value: Any) -> Any:
        """Resume the coroutine with a value."""
        value = step_coroutine(self, value)
        if not self.is_done:
            return value
        raise StopIteration(self.receive.finish_item(value))

    def throw(self, *error: Any) -> Any:
        """Resume the coroutine with an error."""
        try:
            return self.coroutine.throw(*error)
        except StopIteration as stop:
            value = stop.value
        finally:
            # The traceback of an error that propagates holds this frame: no reference cycle.
            del error
        raise StopIteration(self.receive.finish_item(value))

    def close(self) -> None:
        """Close the coroutine."""
        self.coroutine.close()


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def step_coroutine(wrapped: ItemCoroutine, value: Any) -> Any:
        """Resume a coroutine; return what it yields or, if `is_done` is set, what it returned."""
        wrapped.is_done = False
        try:
            return wrapped.coroutine.send(value)
        except StopIteration as stop:
            wrapped.is_done = True
            return stop.value


class ConsumerState:
    """The state of a channel actor.

    A wrapper, because the kernel would await a bare `ActorReceive` as an asynchronous init.
    """

    __slots__ = ("receive",)

    def __init__(self, receive: ActorReceive) -> None:
        self.receive = receive


def consumer_behavior(ctx: ActorContext, _data: object) -> Any:
    """The behavior of every channel actor. The state belongs to one incarnation."""
    state: Any = ctx.state
    return state.receive.run(ctx)
