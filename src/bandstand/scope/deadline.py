"""Deadlines: delayed calls for waits, and the deadline of a cancel token.

Both use the timer wheel of the `Loop` attached to the running event loop, and fall back to the event loop's
own timers if there is none. A wheel timer costs about a tenth of an asyncio timer, and a cancelled one leaves
nothing behind. If the loop ends first, the event loop takes over the remaining time, so every wait ends.

A `DelayedCall` belongs to the thread that made it. A `CancelDeadline` can be read from any thread; it has a
timer only while its token has listeners, and that timer is set and cancelled on the thread of the loop that
keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import ceil
from threading import current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.asyncio_host import running_loops
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, LoopBusyError, LoopClosedError, WrongThreadError

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = (
    "CancelDeadline",
    "DelayedCall",
    "check_may_block",
    "current_open_loops",
    "running_event_loop",
    "wake_event_loop",
)

logger = SafeLogger("bandstand.scope")

HasListeners: TypeAlias = Callable[[], bool]
# Called with a reason. Afterwards the token has no listeners.
Expire: TypeAlias = Callable[[str], object]


def current_open_loops() -> list[Loop]:
    """Return the loops attached to the running event loop that were not asked to stop."""
    return [loop for loop in running_loops() if (not loop.kernel.is_closed)]


def running_event_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on this thread, or None."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def wake_event_loop() -> None:
    """Wake this thread's event loop if it sleeps: a Python signal handler alone does not end its sleep."""
    host = running_event_loop()
    if host is not None and current_thread() is main_thread() and asyncio.current_task(host) is None:
        host.call_soon_threadsafe(_do_nothing)


def _do_nothing() -> None:
    pass


def check_may_block() -> None:
    """Check that this thread may block.

    Raises:
        LoopBusyError: an event loop runs on this thread.
    """
    if running_event_loop() is not None:
        raise LoopBusyError(
            "blocking() would block a thread that runs an event loop, and could deadlock: use `await` here"
        )


def _first_open_loop() -> Loop | None:
    for loop in running_loops():
        if not loop.kernel.is_closed:
            return loop
    return None


@final
class DelayedCall:
    """Call a function once, after `ms` milliseconds, on this thread. Never earlier by the clock that is used.

    Requires a running event loop.
    """

    __slots__ = ("_callback", "_cancel", "_due", "_host")

    def __init__(self, ms: float, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._host = asyncio.get_running_loop()
        self._due = self._host.time() + ms / 1000
        loop = _first_open_loop()
        self._cancel: Callable[[], object]
        if loop is None:
            self._cancel = self._host.call_at(self._due, callback).cancel
        else:
            self._cancel = loop.kernel.call_later(ceil(ms), callback, self._move_to_host)

    def cancel(self) -> None:
        """Cancel the call. Does nothing if it was made already."""
        self._cancel()

    def _move_to_host(self) -> None:
        # The loop has ended. The event loop may not run at the moment; then the wait does not either.
        if not self._host.is_closed():
            self._cancel = self._host.call_at(self._due, self._callback).cancel


@final
class CancelDeadline:
    """The deadline of a cancel token: `ms` milliseconds from now.

    The clock is that of `loop`; if None, of the first open loop attached to the running event loop; else of
    the running event loop; else of `fallback`.

    Raises:
        InvalidArgumentError: there is neither a loop nor a running event loop.
        LoopClosedError: the loop was asked to stop.
    """

    __slots__ = (
        "_cancel",
        "_due",
        "_host",
        "_host_ends_with_loop",
        "_is_posted",
        "_is_updating",
        "_loop",
        "_ms",
        "_now",
    )

    def __init__(self, ms: float, loop: Loop | None, fallback: Loop | None) -> None:
        host = running_event_loop()
        if loop is None:
            loop = _first_open_loop()
            if loop is None and host is None:
                loop = fallback
        if loop is not None and loop.kernel.is_closed:
            raise LoopClosedError(
                "the loop that would keep the deadline is closed: it was asked to stop, or was destroyed"
            )
        if loop is not None:
            self._now = loop.kernel.timers.elapsed_ms
        elif host is not None:
            self._now = _clock_of_event_loop(host)
        else:
            raise InvalidArgumentError(
                f"timeout is {ms / 1000:g}, but there is no clock here: pass loop=, or create the token inside a running event loop"
            )
        self._ms = ms
        self._due = self._now() + ms
        self._loop = loop
        self._host = host
        self._host_ends_with_loop = loop is not None and host is not None and loop.runner.owns(host)
        # Cancels the timer; None while there is no timer. Changed on the keeper's thread only, read from any
        # thread.
        self._cancel: Callable[[], object] | None = None
        self._is_updating = False
        self._is_posted = False

    @property
    def has_passed(self) -> bool:
        """Whether the deadline has passed, by the clock.

        Correct on any thread, even while the loop is busy.
        """
        return self._now() >= self._due

    @property
    def remaining_ms(self) -> float:
        """The time until the deadline; negative if it has passed."""
        return self._due - self._now()

    @property
    def reason(self) -> str:
        """The reason of the cancellation that it causes."""
        return f"its deadline of {self._ms:g} ms has passed"

    def update_timer(self, has_listeners: HasListeners, expire: Expire) -> None:
        """Set the timer if the token has listeners, cancel it if not.

        Call it from any thread after any change of that.

        Other threads and finalizers may change the listeners meanwhile, so this repeats until timer and
        listeners agree. A caller that finds an update in progress can rely on it to look again.
        """
        if self._loop is None and self._host is not None and self._host.is_closed():
            # A closed event loop drops its timers.
            self._cancel = None
        while not self._is_updating and (self._cancel is not None) != has_listeners():
            loop = self._loop
            if loop is not None and loop.kernel.is_closed:
                if self._cancel is not None:
                    # The loop calls `_on_loop_exit`, which updates the timer.
                    return
                self._loop = None
            if not self._is_on_keeper_thread() and self._post_update(has_listeners, expire):
                return
            self._is_updating = True
            try:
                if self._cancel is None:
                    self._cancel = self._set_timer(has_listeners, expire)
                else:
                    cancel, self._cancel = self._cancel, None
                    cancel()
            finally:
                self._is_updating = False

    def _set_timer(self, has_listeners: HasListeners, expire: Expire) -> Callable[[], object] | None:
        # Rounded to nanoseconds, or float error would turn exactly 50 ms into 51.
        left = max(0, ceil(round(self._due - self._now(), 6)))
        loop = self._loop
        if loop is not None:
            return loop.kernel.call_later(
                left, partial(self._on_timer, expire), partial(self._on_loop_exit, has_listeners, expire)
            )
        if self._host is not None and running_event_loop() is self._host:
            return self._host.call_later(left / 1000, self._on_host_timer, has_listeners, expire).cancel
        expire("the loop that kept its deadline has ended")
        return None

    def _on_timer(self, expire: Expire) -> None:
        self._cancel = None
        expire(self.reason)

    def _on_host_timer(self, has_listeners: HasListeners, expire: Expire) -> None:
        """Expire, unless the timer was early: uvloop counts whole milliseconds, from the one in which a timer was set."""
        if round(self.remaining_ms, 6) <= 0:
            self._on_timer(expire)
        else:
            self._cancel = None
            self.update_timer(has_listeners, expire)

    def _on_loop_exit(self, has_listeners: HasListeners, expire: Expire) -> None:
        """Continue on the event loop. The ending loop calls this, so nothing may be raised."""
        self._cancel = None
        self._loop = None
        try:
            self.update_timer(has_listeners, expire)
        except BaseException:  # a listener may raise anything, and must not prevent the loop from ending
            logger.exception("%r raised while the loop that kept a deadline ended", expire)

    def _is_on_keeper_thread(self) -> bool:
        """Whether this is the thread of the loop, or event loop, that keeps the timer."""
        loop = self._loop
        if loop is None:
            return running_event_loop() is self._host
        try:
            loop.kernel.check_thread()
        except WrongThreadError:
            return False
        return True

    def _post_update(self, has_listeners: HasListeners, expire: Expire) -> bool:
        """Schedule `update_timer` on the keeper's thread; return False if no keeper is left."""
        loop, host = self._loop, self._host
        if loop is None and (
            host is None or host.is_closed() or (self._host_ends_with_loop and not host.is_running())
        ):
            return False
        if self._is_posted:
            return True
        self._is_posted = True
        update = partial(self._run_posted_update, has_listeners, expire)
        if loop is not None:
            loop.kernel.inbox.call_soon(update)
            return True
        assert host is not None
        try:
            host.call_soon_threadsafe(update)
        except RuntimeError:
            # The event loop was closed after the check above.
            self._is_posted = False
            return False
        return True

    def _run_posted_update(self, has_listeners: HasListeners, expire: Expire) -> None:
        self._is_posted = False
        self.update_timer(has_listeners, expire)


def _clock_of_event_loop(host: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return a clock of the event loop in milliseconds that works on any thread, even after it is closed.

    Event loops that use the monotonic clock are bypassed: uvloop's `time()` rounds down, and updates the
    event loop's cached time.
    """
    kind = type(host)
    if (
        getattr(kind, "time", None) is asyncio.BaseEventLoop.time
        or kind.__module__.partition(".")[0] == "uvloop"
    ):
        return lambda: monotonic() * 1000
    return lambda: host.time() * 1000
