"""Cancel tokens: a request to end that tasks, threads and plain functions can check, wait for and pass on.

asyncio cancels one task, by raising in it at an await: CPU-bound code and other threads do not notice, and
the reason is lost. A token is checked instead, or passed to a wait.

**The problem.** Cancelling a parent cancels its children. But a server creates a child for every request and
drops it: a parent with a list of its children would keep millions of them, and so would a timer wheel with
their deadlines.

**The choice.** The tree is linked upwards. `cancelled` is computed: a walk to the root that also compares
deadlines with the clock. So the answer is correct at once, on every thread, even while the event loop is
blocked. The tree is linked downwards only where there are listeners: a node is registered with its parent,
and its deadline has a timer, exactly while someone waits for its cancellation. A token without listeners is
ordinary garbage.

**Rejected.** Weak references to children: one callback per child, and a deadline still needs its timer. Eager
propagation: the same lists, and `cancelled` would lag behind while the tree is walked.

**Locking.** Critical sections hold `LOCK`, and call nothing foreign. The lock is reentrant, and a finalizer
or a signal handler may run between any two calls and use the same node, so each section checks again what it
relies on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from threading import get_ident
from types import TracebackType
from typing import NoReturn, Protocol, final

from bandstand.core import Loop
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, TokenCancelledError
from bandstand.errors.formatting import describe_exception, safe_repr, safe_str
from bandstand.errors.validation import Seconds
from bandstand.scope._channel import LOCK, checked_ms
from bandstand.scope.deadline import CancelDeadline, running_event_loop, wake_event_loop
from bandstand.scope.event import EventWait

__all__ = ("CancelGuard", "CancelListener", "CancelNode", "CancelToken", "Cancellation")

logger = SafeLogger("bandstand.scope")

_serials = count(1)


class CancelListener(Protocol):
    """An object that is notified of a cancellation. Listeners are dictionary keys: equal ones count once."""

    def on_cancelled(self) -> object:
        """Handle the cancellation. Called once, outside locks, on the thread that cancels."""
        ...


@dataclass(slots=True)
class Cancellation:
    """How a token was cancelled. All tokens below it share the record."""

    reason: str
    """The reason as text."""
    cause: BaseException | None
    """The exception that caused it, if there is one."""
    origin: int
    """The number of the token where it began."""

    def drop_cause(self, errors: list[BaseException]) -> None:
        """Drop the cause if it is one of these: its traceback holds frames, which may hold the token."""
        if any(self.cause is error for error in errors):
            self.cause = None

    @classmethod
    def of_deadline(cls, reason: str, origin: int) -> Cancellation:
        """Make the record for a deadline that has passed."""
        return cls(reason, TimeoutError(reason), origin)

    @classmethod
    def of(cls, reason: str | BaseException | None, origin: int) -> Cancellation:
        """Make the record from the argument of `cancel()`.

        Raises:
            InvalidArgumentError: the reason is not a string, an exception or None.
        """
        if reason is None:
            return cls("no reason was given", None, origin)
        if isinstance(reason, str):
            return cls(safe_str(reason), None, origin)
        if isinstance(reason, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            return cls(describe_exception(reason), reason, origin)
        raise InvalidArgumentError(f"reason is {safe_repr(reason)}: pass a string, an exception, or None")


class CancelNode:
    """A node in the tree of tokens: how a cancellation is found from above, and passed on to listeners below.

    It is the part of `CancelToken` that the waits of this package use. The attributes are those of the tree;
    use the methods.
    """

    __slots__ = ("cancellation", "deadline", "listeners", "parent", "serial")

    def __init__(self, parent: CancelNode | None, serial: int, deadline: CancelDeadline | None) -> None:
        self.parent = parent
        self.serial = serial
        self.deadline = deadline
        # Set once, by the first thread that finds it.
        self.cancellation: Cancellation | None = None
        self.listeners: dict[CancelListener | CancelNode, None] = {}

    # -- listeners

    def add_listener(self, listener: CancelListener) -> None:
        """Call `listener.on_cancelled()` once, when the token is cancelled; now, if it is."""
        if self.find_cancellation() is None:
            with LOCK:
                self.listeners[listener] = None
                changed = self._update_links()
            self._update_timers(changed)
            # It may have been cancelled since the check. The code that removes the listener is the one that
            # calls it.
            if self.find_cancellation() is None or not self.remove_listener(listener):
                return
        listener.on_cancelled()

    def remove_listener(self, listener: CancelListener) -> bool:
        """Remove a listener.

        Return True if it was registered: then it is not called. False if it was called, is being called, or
        was never added.
        """
        with LOCK:
            if listener not in self.listeners:
                return False
            del self.listeners[listener]
            changed = () if self.listeners else self._update_links()
        self._update_timers(changed)
        return True

    def has_listeners(self) -> bool:
        """Whether there are listeners, here or below."""
        return bool(self.listeners)

    def take_listeners(self) -> Iterator[CancelListener | CancelNode]:
        """Remove all listeners; the caller must notify them."""
        empty: dict[CancelListener | CancelNode, None] = {}
        with LOCK:
            # No call between these two statements.
            listeners = self.listeners
            self.listeners = empty
            changed = self._update_links() if listeners else ()
        self._update_timers(changed)
        return iter(listeners)

    # -- state

    def find_cancellation(self) -> Cancellation | None:
        """Return how it was cancelled; None if it was not.

        A cancellation from above has priority over its own deadline if that has passed unnoticed.
        """
        if self.cancellation is not None:
            return self.cancellation
        top: CancelNode | None = None
        node: CancelNode | None = self
        while node is not None:
            if node.cancellation is not None:
                top = node
                break
            if node.deadline is not None and node.deadline.has_passed:
                top = node
            node = node.parent
        return None if top is None else self._record_from(top)

    def remaining_ms(self) -> float | None:
        """Return the time until the next deadline, here or above; None if there is none.

        For threads, which check it themselves.
        """
        soonest: float | None = None
        node: CancelNode | None = self
        while node is not None:
            if node.deadline is not None:
                left = node.deadline.remaining_ms
                soonest = left if soonest is None else min(soonest, left)
            node = node.parent
        return soonest

    def drop_cause(self, errors: list[BaseException]) -> None:
        """Keep the reason as text, but none of these exceptions.

        For code that raises them: no reference cycle remains.
        """
        cancellation = self.find_cancellation()
        if cancellation is not None:
            cancellation.drop_cause(errors)

    def expire(self, reason: str) -> None:
        """Cancel it: its deadline has passed, or the loop that kept it has ended."""
        self.cancel_with(Cancellation.of_deadline(reason, self.serial))

    def cancel_with(self, cancellation: Cancellation) -> bool:
        """Cancel it and notify all listeners; return False if it was cancelled before."""
        with LOCK:
            self.find_cancellation()
            # No call between this check and the assignment, so no finalizer and no signal handler can run in
            # between.
            is_first = self.cancellation is None
            if is_first:
                self.cancellation = cancellation
        self._notify()
        return is_first

    # -- the tree

    def _record_from(self, top: CancelNode) -> Cancellation:
        """Record the cancellation of a node above, or of this one, in all nodes on the way that have none."""
        path: list[CancelNode] = [self]
        while path[-1] is not top:
            parent = path[-1].parent
            assert parent is not None
            path.append(parent)
        cancellation = top.cancellation
        if cancellation is None:
            assert top.deadline is not None
            cancellation = Cancellation.of_deadline(top.deadline.reason, top.serial)
        with LOCK:
            for node in reversed(path):
                if node.cancellation is None:
                    node.cancellation = cancellation
                cancellation = node.cancellation
        return cancellation

    def _notify(self) -> None:
        """Notify all listeners, here and below, in the order in which they were added.

        Iterative: trees may be deep.
        """
        error: BaseException | None = None
        pending = [self.take_listeners()]
        while pending:
            listener = next(pending[-1], None)
            if listener is None:
                pending.pop()
            elif isinstance(listener, CancelNode):
                listener.find_cancellation()
                pending.append(listener.take_listeners())
            else:
                try:
                    listener.on_cancelled()
                except Exception:
                    logger.exception(
                        "listener %r of %r raised; the other listeners are notified", listener, self
                    )
                except BaseException as first:  # noqa: BLE001  # Ctrl-C: raised after all listeners are notified
                    error = error or first
        if error is not None:
            raise error

    def _update_links(self) -> list[CancelNode]:
        """Register with the parent if there are listeners, deregister if not, and so on upwards.

        The caller holds LOCK.

        Each step repeats until it is right: a finalizer may change the listeners meanwhile.

        Returns:
            The nodes whose timers must be updated.
        """
        changed: list[CancelNode] = []
        node: CancelNode = self
        while True:
            if node.deadline is not None:
                changed.append(node)
            parent = node.parent
            if parent is None:
                return changed
            was_right = True
            while (node in parent.listeners) != bool(node.listeners):
                was_right = False
                if node.listeners:
                    parent.listeners[node] = None
                else:
                    parent.listeners.pop(node, None)
            if was_right:
                return changed
            node = parent

    @staticmethod
    def _update_timers(changed: Iterable[CancelNode]) -> None:
        for node in changed:
            assert node.deadline is not None
            node.deadline.update_timer(node.has_listeners, node.expire)


@final
class CancelToken(CancelNode):
    """A request to end.

    It is cancelled once, and all its children with it; cancelling a child does not affect its parent.

        token = CancelToken(timeout=0.5)
        order = await orders.receive(token=token)       # raises Cancelled if the token is cancelled

    All methods can be called from any thread, and from plain functions. A token without listeners is ordinary
    garbage, its deadline included, even while its parent is in use.

    Args:
        parent: a token that cancels this one.
        timeout: how long until it is cancelled automatically; 0 for at once, None for never.
        loop: the loop whose clock is used; if None, the loop attached to the running event loop, else the
            running event loop. Children that are created where there is neither use it too.

    Raises:
        InvalidArgumentError: an argument is invalid, or there is no clock for the timeout.
        LoopClosedError: the loop was asked to stop.
    """

    __slots__ = ("__weakref__", "loop")

    def __init__(
        self, parent: CancelToken | None = None, *, timeout: Seconds | None = None, loop: Loop | None = None
    ) -> None:
        if hasattr(self, "loop"):
            # A second parent could be a descendant of this token, and a walk to the root would not end.
            raise InvalidArgumentError(f"{self!r} was already initialised: create a new token")
        if parent is not None and not isinstance(parent, CancelToken):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"parent is {safe_repr(parent)}: pass a CancelToken, or None")
        if loop is not None and not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgumentError(f"loop is {safe_repr(loop)}: pass a Loop, or None for the current one")
        self.loop: Loop | None = loop
        """The loop that keeps the deadlines of children that are created where there is no event loop."""
        if loop is None and parent is not None:
            self.loop = parent.loop
        deadline = None if timeout is None else CancelDeadline(checked_ms(timeout), loop, self.loop)
        super().__init__(parent, next(_serials), deadline)

    def child(self, timeout: Seconds | None = None) -> CancelToken:
        """Create a token that is cancelled with this one, and can be cancelled on its own.

        Raises:
            InvalidArgumentError, LoopClosedError: as for a new token.
        """
        return CancelToken(self, timeout=timeout)

    # -- state

    @property
    def number(self) -> int:
        """Its serial number in this process, from 1."""
        return self.serial

    @property
    def cancelled(self) -> bool:
        """Whether it is cancelled: by `cancel()`, by its deadline, or by a parent.

        Correct at once, on every thread.
        """
        return self.find_cancellation() is not None

    @property
    def reason(self) -> str | None:
        """Why it was cancelled, as text; None if it was not. It never changes."""
        cancellation = self.find_cancellation()
        return None if cancellation is None else cancellation.reason

    @property
    def cause(self) -> BaseException | None:
        """The exception it was cancelled with; a `TimeoutError` for a deadline; None if there is none.

        The token of a scope has the error that cancelled the scope only until the scope ends: its block
        raises the error then.
        """
        cancellation = self.find_cancellation()
        return None if cancellation is None else cancellation.cause

    @property
    def origin(self) -> int | None:
        """The number of the token where the cancellation began, this one or one above; None if not cancelled."""
        cancellation = self.find_cancellation()
        return None if cancellation is None else cancellation.origin

    def raise_if_cancelled(self) -> None:
        """Raise if it is cancelled. For loops in CPU-bound code.

        Raises:
            Cancelled: it is.
        """
        if self.find_cancellation() is not None:
            raise self.error("the work")

    def error(self, what: str) -> TokenCancelledError:
        """Return the error that says that `what` was cancelled, to be raised.

        Its `__cause__` is the token's `cause`.

        Raises:
            InvalidArgumentError: the token is not cancelled.
        """
        cancellation = self.find_cancellation()
        if cancellation is None:
            raise InvalidArgumentError(f"{self!r} is not cancelled: there is no error to raise")
        error = TokenCancelledError.of(what, cancellation.reason, cancellation.origin)
        error.__cause__ = cancellation.cause
        return error

    # -- cancelling

    def cancel(self, reason: str | BaseException | None = None) -> bool:
        """Cancel it and all its children.

        Listeners have been notified when this returns True. Safe in signal handlers.

        Args:
            reason: why, as text, or the exception that is the cause.

        Returns:
            True if this call cancelled it; False if it was cancelled before: the first reason stays.

        Raises:
            InvalidArgumentError: the reason is not a string, an exception or None.
        """
        is_first = self.cancel_with(Cancellation.of(reason, self.serial))
        if is_first:
            wake_event_loop()
        return is_first

    # -- waiting

    def on_cancel(self, callback: Callable[[CancelToken], object]) -> Callable[[], bool]:
        """Call `callback(token)` exactly once, on the thread that cancels the token; now, if it is cancelled.

        Callbacks run in the order in which they were added, outside locks. Their exceptions are logged; a
        `BaseException` that is no `Exception`, such as KeyboardInterrupt or asyncio's CancelledError, is
        raised to the caller of `cancel()` after all callbacks have run.

        Returns:
            A function that removes the callback: True if it will not be called, False if it is too late.

        Raises:
            InvalidArgumentError: it is not callable.
        """
        if not callable(callback):
            raise InvalidArgumentError(f"callback is {safe_repr(callback)}: pass a function of the token")
        listener = CallbackListener(self, callback)
        self.add_listener(listener)
        return listener.remove

    def wait(self, *, timeout: Seconds | None = None, token: CancelToken | None = None) -> EventWait[str]:
        """Wait for the cancellation: `await token.wait()`, or `token.wait().blocking()` on a plain thread.

        Returns the reason.

        Args:
            timeout: how long to wait at most; 0 to not wait, None for no limit.
            token: another token, which cancels the wait.

        Raises:
            ChannelTimeoutError: it was not cancelled in time.
            Cancelled: the other token was cancelled.
            LoopBusyError: `blocking()` was called on a thread that runs an event loop.
            InvalidArgumentError: an argument is invalid.
        """
        return EventWait(CancellationSource(self), timeout, token, None)

    def guard(self, *, timeout: Seconds | None = None) -> CancelGuard:
        """Cancel asyncio's own waits with the token: `async with token.guard() as inner:`.

        If the token is cancelled, or its child `inner`, the task is cancelled at its current await, and the
        block raises `TokenCancelledError`; the task can await normally after it. If the task itself is cancelled,
        `inner` is cancelled, and CancelledError propagates, even if the token is cancelled too. When the
        block ends normally, `inner` is cancelled.

        Args:
            timeout: how long until `inner` is cancelled automatically.

        Raises:
            Cancelled: the token was cancelled while the block ran; or before, then the block is not entered.
            InvalidArgumentError: no task runs here, the guard was already entered, or an argument is invalid.
        """
        return CancelGuard(self, timeout)

    def __repr__(self) -> str:
        cancellation = self.find_cancellation()
        state = "open" if cancellation is None else f"cancelled: {cancellation.reason}"
        return f"<CancelToken {self.serial} {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to this process: it cannot be pickled or copied")


@final
class CallbackListener:
    """A listener that calls a function."""

    __slots__ = ("_callback", "_token")

    def __init__(self, token: CancelToken, callback: Callable[[CancelToken], object]) -> None:
        self._token = token
        self._callback = callback

    def on_cancelled(self) -> None:
        """Call the function. An exception is logged; any other BaseException propagates."""
        try:
            self._callback(self._token)
        except Exception:
            logger.exception(
                "callback %r for the cancellation of %r raised; the other callbacks are called",
                self._callback,
                self._token,
            )

    def remove(self) -> bool:
        """Remove the callback; return False if it is too late."""
        return self._token.remove_listener(self)


@final
class CancellationSource:
    """The cancellation of a token as the event of one wait. It listens to the token only during the wait."""

    __slots__ = ("_token", "_wait")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._wait: EventWait[str] | None = None

    @property
    def description(self) -> str:
        """What happens, for errors."""
        return f"the cancellation of <CancelToken {self._token.number}>"

    @property
    def is_set(self) -> bool:
        """Whether the token is cancelled."""
        return self._token.cancelled

    @property
    def value(self) -> str | None:
        """The reason."""
        return self._token.reason

    def add_wait(self, wait: EventWait[str]) -> bool:
        """Wake the wait when the token is cancelled; now, if it is."""
        self._wait = wait
        self._token.add_listener(self)
        return True

    def remove_wait(self, wait: EventWait[str]) -> None:  # noqa: ARG002  # there is only one
        """Stop listening."""
        self._token.remove_listener(self)
        # The wait holds this object: no reference cycle.
        self._wait = None

    def on_cancelled(self) -> None:
        """Wake the wait."""
        wait, self._wait = self._wait, None
        if wait is None:
            # It was removed at the same moment, by another thread.
            return
        with LOCK:
            was_waiting = wait.complete_locked()
        if was_waiting:
            wait.wake()


@final
class CancelGuard:
    """The block of `async with token.guard() as inner:`. It can be entered once.

    It counts as asyncio.timeout does: each `cancel()` of the guard is undone by one `uncancel()`, and the
    cancellation was the guard's alone only if no request is left that was not there before. One difference: a
    request that was made before the block, but not raised yet, counts as one made meanwhile. asyncio.timeout
    takes it for its own, and loses it.
    """

    __slots__ = (
        "_before",
        "_has_cancelled",
        "_host",
        "_inner",
        "_is_over",
        "_task",
        "_thread_id",
        "_timeout",
        "_token",
    )

    def __init__(self, token: CancelToken, timeout: Seconds | None) -> None:
        self._token = token
        self._timeout = timeout
        self._inner: CancelToken | None = None
        self._is_over = False
        # Whether the guard has cancelled the task.
        self._has_cancelled = False

    async def __aenter__(self) -> CancelToken:
        """Enter the block; return the child token to use in it.

        Raises:
            Cancelled: the token is cancelled.
            InvalidArgumentError: no task runs here, or the guard was already entered.
        """
        if self._inner is not None:
            raise InvalidArgumentError("a guard can be entered only once: call guard() again")
        host = running_event_loop()
        task = None if host is None else asyncio.current_task(host)
        if host is None or task is None:
            raise InvalidArgumentError(
                "a guard needs a task to cancel, but no task runs here: enter it in a task"
            )
        if self._token.cancelled:
            raise self._token.error("the block")
        self._task = task
        self._host = host
        self._thread_id = get_ident()
        # A request that was not raised yet will be raised in the block or after it: like one made meanwhile,
        # it is not the guard's. Before Python 3.13 it is raised even if it was undone.
        self._before = max(0, task.cancelling() - getattr(task, "_must_cancel", False))
        inner = self._inner = self._token.child(self._timeout)
        inner.add_listener(self)
        return inner

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the block: the guard's own cancellation becomes `TokenCancelledError`, any other propagates.

        Raises:
            Cancelled: the token has ended the block.
        """
        inner = self._inner
        assert inner is not None
        # From now on the task is not cancelled any more.
        self._is_over = True
        error = raised
        is_own = self._has_cancelled and self._task.uncancel() <= self._before
        if is_own and getattr(self._task, "_must_cancel", False):
            error = await self._absorb_pending(error)
            is_own = self._task.cancelling() <= self._before
        was_cancelled = isinstance(error, asyncio.CancelledError)
        result = inner.error("the block") if is_own and was_cancelled else None
        inner.cancel("the task was cancelled" if was_cancelled else "the block is over")
        try:
            if result is not None:
                raise result from result.__cause__ or error
            if error is not None and error is not raised:
                raise error
        finally:
            # No reference cycle of error, traceback and frame.
            del result, error, raised

    async def _absorb_pending(self, error: BaseException | None) -> BaseException | None:
        """Let a pending cancellation be raised here.

        The block has awaited nothing since the request, so it would be raised at the next await, after the
        block.

        Before Python 3.13, uncancel() does not remove it.

        Returns:
            The error of the block; or a cancellation by others that came with it.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as late:
            if self._task.cancelling() > self._before:
                return late
        return error

    def on_cancelled(self) -> None:
        """Cancel the task: the token was cancelled. From any thread."""
        if get_ident() == self._thread_id:
            self._cancel_task()
            return
        with suppress(RuntimeError):  # the event loop was closed: there is no task to cancel
            self._host.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        """Cancel the task, if it is still in the block. Called once, because a listener is notified once."""
        if self._is_over:
            return
        self._has_cancelled = True
        assert self._inner is not None
        self._task.cancel(f"its token was cancelled: {self._inner.reason}")
