"""Asks from other threads.

The message goes through the loop's inbox for other threads, and the answer comes back through a `concurrent.futures.Future`.
The caller waits by its own clock: a thread in `Future.result`, a coroutine of another event loop by a timer of that event loop.
So both return in time even if the actor's loop is stuck. Only the deadline of a bare future, which nothing may be waiting for,
is on the timer wheel of the actor's loop.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Generator
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from functools import partial
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast, final

from bandstand.actor.handle import on_other_thread, post_when_room, send_off_thread, stop_waiting
from bandstand.actor.reply import Reply, ReplyCallback, cancel_handler, mailbox_depth
from bandstand.actor.task_steps import TaskSteps, thrown
from bandstand.actor.wait_graph import add_cross_loop_wait
from bandstand.core import ExitReason
from bandstand.errors import AskTimeoutError, LoopBusyError, MessageDroppedError, TargetEndedError

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId, Loop, TimerId

__all__ = (
    "CrossThreadCallback",
    "CrossThreadEnd",
    "CrossThreadReply",
    "ask",
    "ask_blocking",
    "ask_future",
    "is_plain_thread",
    "require_event_loop",
    "require_plain_thread",
    "tell_when_room",
)


@final
class CrossThreadCallback(ReplyCallback):
    """Completes a future of another thread with the result of an ask, or of a wait for mailbox room.

    Args:
        handle: the handle it was sent with.
        method: the method that was called.
        ms: how long it may take; negative for no limit.
        is_bare: whether the caller may not be waiting, so that the actor's loop must watch the deadline.
        is_ask: whether it is an ask. A wait for room does not change the counters.
    """

    def __init__(
        self, handle: Handle, method: Method, ms: int = -1, *, is_bare: bool = False, is_ask: bool = True
    ) -> None:
        super().__init__(handle.__handle_actor__)
        self.handle = handle
        self.method = method
        self.ms = ms
        self.is_bare = is_bare
        self.is_ask = is_ask
        self.asked_at = monotonic()
        # The first thread to end it takes this lock, and it is never released.
        self._claim = Lock()
        # What waits in the target's mailbox, for a wait for room.
        self._waiter: TimerId | None = None
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._ended)

    @property
    def loop(self) -> Loop:
        """The loop of the actor that was asked."""
        kernel: Any = self.actor.home
        return cast("Loop", kernel.loop)

    @property
    def left_ms(self) -> float:
        """How many milliseconds are left; infinite without a limit."""
        return max(0.0, self.ms - (monotonic() - self.asked_at) * 1000) if self.ms >= 0 else float("inf")

    def redirect(self, actor: ActorId) -> None:
        """Note that the message was held back, and now goes to this actor."""
        self.actor = actor
        self.set_deadline()

    def set_deadline(self) -> None:
        """Start the timer of a bare ask on the actor's loop."""
        if self.is_bare and self.ms >= 0:
            self.loop.kernel.inbox.call_soon(self._start_timer)

    def _start_timer(self) -> None:
        if self.future.done():
            return
        loop = self.loop
        # In whole milliseconds, rounded up: never early.
        cancel = loop.kernel.call_later(-int(-self.left_ms // 1), partial(self.expire, self.ms / 1000))
        self.future.add_done_callback(lambda _future: loop.kernel.inbox.call_soon(cancel))

    def post_when_room(self, data: object, context: Context) -> None:
        """Send a one-way message as soon as there is room, as if sent in that context. Loop thread only."""
        if self.is_cancelled():
            return
        loop = self.loop
        # So that the message carries the context.
        was_abroad, loop.kernel.is_context_foreign = loop.kernel.is_context_foreign, True
        try:
            self._waiter = context.run(post_when_room, self.handle, self.method, data, self)
        except Exception as error:  # noqa: BLE001  # raised in the sender
            self.fail(error)
        finally:
            loop.kernel.is_context_foreign = was_abroad

    # -- results -------------------------------------------------------------------------------------------------------

    def answer(self, value: object) -> None:
        """Take the handler's answer."""
        if self._claim_result():
            self._count("answered")
            self.future.set_result(value)
        else:
            self._count("late")

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        self._waiter = None
        if self._claim_result():
            self._count("failed")
            self.future.set_exception(error)
        else:
            self._count("late")

    def accepted(self) -> None:
        """Take note that the message has its room in the mailbox."""
        self._waiter = None
        if self._claim_result():
            self.future.set_result(None)

    def may_go_to_next(self) -> bool:
        """Return whether this is an ask that has not ended."""
        return self.is_ask and not self.future.done()

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # the handle has it
        name: str | None,  # noqa: ARG002  # same
        reason: int,
        cause: BaseException | None,
    ) -> None:
        """Take note that the target has exited."""
        if not self.future.done():
            then = "without answering" if self.is_ask else "before there was room for"
            self.fail(
                TargetEndedError.of(repr(self.handle), self._what(), ExitReason(reason).name, cause, then)
            )

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # the handle has it
        """Take note that the target's overflow policy has dropped the message."""
        if not self.future.done():
            self.fail(
                MessageDroppedError(
                    f"{self._what()}, asked of {self.handle!r}, was dropped by the overflow policy of its full mailbox"
                )
            )

    def expire(self, waited: float | None = None) -> None:
        """End at the deadline. `waited` is how many seconds it has waited; None for the real time. Thread-safe."""
        if self._claim_result():
            self._count("expired")
            seconds = monotonic() - self.asked_at if waited is None else waited
            error = AskTimeoutError.of(repr(self.handle), self._what(), seconds, mailbox_depth(self.actor))
            self.future.set_exception(error)

    def cancel(self) -> bool:
        """Cancel. Return False if it has already ended."""
        return self.future.cancel()

    def is_cancelled(self) -> bool:
        """Return whether the asker has cancelled."""
        return self.future.cancelled()

    def done(self) -> bool:
        """Return whether it has ended."""
        return self.future.done()

    def wait_info(self) -> tuple[ActorId, str | None, str, float]:
        """Return the target, its name, what it was asked for, and when in seconds of the system's clock."""
        return (self.actor, self.handle.__handle_name__, self._what(), self.asked_at)

    def _claim_result(self) -> bool:
        """Return whether this is the first result."""
        return self._claim.acquire(blocking=False) and self.future.set_running_or_notify_cancel()

    def _count(self, name: str) -> None:
        if self.is_ask:
            self.handle.__handle_asks__.count_other_thread(name)

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            self._count("cancelled")
            self.loop.kernel.inbox.call_soon(self._withdraw)

    def _withdraw(self) -> None:
        if self.is_ask:
            cancel_handler(self.actor, self)
        elif self._waiter is not None:
            stop_waiting(self.handle, self._waiter)

    def _what(self) -> str:
        return f"{self.method.owner}.{self.method.name}()"


class OtherThreadReply(Reply[Any]):
    """A reply that is not compiled, as the coroutine of a task."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = TaskSteps()

    def send(self, value: Any, /) -> Any:
        """Step the current task's await."""
        return self._steps.send(self, value)

    def throw(
        self,
        error: type[BaseException] | BaseException,
        value: object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        """Raise an error in the current task's await; if that has not begun, cancel the ask and raise the error."""
        return self._steps.throw(self, thrown(error, value, traceback))

    def close(self) -> None:
        """End the current task's await; if that has not begun, cancel the ask."""
        self._steps.close(self)

    @abstractmethod
    def cancel_unless_awaited(self) -> None:
        """Cancel the ask, unless a coroutine awaits the reply."""

    def __bool__(self) -> NoReturn:
        raise TypeError("a reply is not the answer and would always be true: await it")


@final
class CrossThreadReply(OtherThreadReply):
    """A reply from another thread's loop, awaited on the event loop that asked."""

    __slots__ = ("_callback", "_waiting")

    def __init__(self, callback: CrossThreadCallback) -> None:
        super().__init__()
        self._callback = callback
        self._waiting = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the result. If several coroutines wait, cancelling the last of them cancels the ask."""
        callback = self._callback
        if callback.future.done():
            return _result(callback.future)
        host = asyncio.get_running_loop()
        waiter = host.create_future()
        callback.future.add_done_callback(partial(_wake, host, waiter))
        wait = add_cross_loop_wait(callback, callback.method)
        timer: asyncio.TimerHandle | None = None
        if callback.ms >= 0:
            timer = host.call_later(callback.left_ms / 1000, callback.expire)
        self._waiting += 1
        try:
            yield from waiter
        except BaseException:  # a cancellation, or the event loop is closing
            if self._waiting == 1:
                self.cancel()
            raise
        finally:
            self._waiting -= 1
            if wait is not None:
                wait.end()
            if timer is not None:
                timer.cancel()
        return _result(callback.future)

    def cancel_unless_awaited(self) -> None:
        """Cancel the ask, unless a coroutine awaits the reply."""
        if self._waiting == 0:
            self.cancel()

    def result(self) -> Any:
        """Return the answer, or raise the error that the reply ended with."""
        if not self._callback.future.done():
            raise LoopBusyError(f"{self._callback.handle!r} has not answered yet: await the reply")
        return _result(self._callback.future)

    def cancel(self) -> bool:
        """Cancel the ask. Return False if the reply has already ended."""
        return self._callback.cancel()

    def done(self) -> bool:
        """Return whether the reply has ended."""
        return self._callback.done()


@final
class CrossThreadEnd(OtherThreadReply):
    """The exit of another thread's actor, awaited on the event loop that asked for it."""

    __slots__ = ("_future", "_handle")

    def __init__(self, handle: Handle, future: Future[ExitReason]) -> None:
        super().__init__()
        self._handle = handle
        self._future = asyncio.wrap_future(future)

    def __await__(self) -> Generator[Any, Any, ExitReason]:
        """Wait for the exit."""
        return self._future.__await__()

    def cancel_unless_awaited(self) -> None:
        """Do nothing: a wait for an exit holds nothing."""

    def result(self) -> ExitReason:
        """Return the exit reason."""
        if not self._future.done():
            raise LoopBusyError(f"{self._handle!r} has not exited yet: await the reply")
        return self._future.result()

    def cancel(self) -> bool:
        """Cancel the wait. Return False if it has already ended."""
        return self._future.cancel()

    def done(self) -> bool:
        """Return whether the wait has ended."""
        return self._future.done()


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except CancelledError:
        raise asyncio.CancelledError from None


def _wake(host: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _future: Future[Any]) -> None:
    try:
        host.call_soon_threadsafe(_release, waiter)
    except RuntimeError:
        # If that event loop was closed meanwhile, nothing waits there.
        if not host.is_closed():
            raise


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


# -- asking ------------------------------------------------------------------------------------------------------------


def ask(handle: Handle, method: Method, data: object, ms: int) -> CrossThreadReply:
    """Ask from a thread that runs another event loop.

    Raises:
        LoopBusyError: this thread runs no event loop.
        MailboxFullError, NoSuchActorError, LoopClosedError, PodDownError: nothing was sent.
    """
    require_event_loop(method.name)
    return CrossThreadReply(_send(handle, method, data, ms))


def ask_future(handle: Handle, method: Method, data: object, ms: int) -> Future[Any]:
    """Ask from any thread, and return a future."""
    callback = _send(handle, method, data, ms, is_bare=True)
    # If the message is held, `redirect` sets the deadline.
    if callback.actor.is_alive:
        callback.set_deadline()
    return callback.future


def ask_blocking(handle: Handle, method: Method, data: object, ms: int) -> Any:
    """Ask from a plain thread, and block it until the answer arrives.

    Raises:
        LoopBusyError: this thread runs an event loop, or is the thread of the actor's loop.
    """
    require_plain_thread(handle, method.name)
    callback = _send(handle, method, data, ms, may_wait=True)
    try:
        # Sending may have taken a part of the time.
        return callback.future.result(None if ms < 0 else callback.left_ms / 1000)
    except TimeoutError:
        # From the wait, or the answer itself. If a result has arrived meanwhile, it counts.
        callback.expire()
        return callback.future.result()
    except BaseException:  # Ctrl-C
        callback.future.cancel()
        raise


def tell_when_room(handle: Handle, method: Method, data: object) -> CrossThreadReply:
    """Send a one-way message from another event loop as soon as there is room."""
    require_event_loop(f"{method.name}.when_room")
    callback = CrossThreadCallback(handle, method, is_ask=False)
    callback.loop.kernel.inbox.call_soon(partial(callback.post_when_room, data, copy_context()))
    return CrossThreadReply(callback)


def _send(
    handle: Handle, method: Method, data: object, ms: int, *, may_wait: bool = False, is_bare: bool = False
) -> CrossThreadCallback:
    callback = CrossThreadCallback(handle, method, ms, is_bare=is_bare)
    # Counted first: the answer may arrive before this returns.
    handle.__handle_asks__.count_other_thread("asked")
    try:
        send_off_thread(handle, method, data, callback, may_wait)
    except BaseException:  # nothing was sent
        handle.__handle_asks__.count_other_thread("asked", -1)
        raise
    # Another incarnation may have taken it. If the message is held, `redirect` names the actor.
    if handle.__handle_actor__.is_alive:
        callback.actor = handle.__handle_actor__
    return callback


# -- threads -----------------------------------------------------------------------------------------------------------


def is_plain_thread() -> bool:
    """Return whether this thread runs no event loop, and so may be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def require_event_loop(name: str) -> None:
    """Refuse to return an awaitable where there is no event loop.

    Raises:
        LoopBusyError: this thread runs no event loop.
    """
    if is_plain_thread():
        raise LoopBusyError(
            f"{name}() must be awaited, and this thread runs no event loop: use {name}.blocking(...) or {name}.future(...) here"
        )


def require_plain_thread(handle: Handle, name: str) -> None:
    """Refuse to block a thread that has a loop to run.

    Raises:
        LoopBusyError: this thread runs an event loop, or is the thread of the actor's loop.
    """
    # A closed loop has no thread: its thread may have ended, and this one may have its number. The same holds while a StableRef
    # holds messages.
    ref = handle.__handle_ref__
    has_no_thread = handle.__handle_kernel__.is_closed or (
        ref is not None and ref.holds_messages and not handle.__handle_actor__.is_alive
    )
    if not is_plain_thread() or not (has_no_thread or on_other_thread(handle)):
        raise LoopBusyError(
            f"{name}.blocking() would block a thread that has a loop to run, and could deadlock: use "
            f"`await handle.{name}(...)` here"
        )
