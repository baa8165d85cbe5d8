"""Running a loop: connecting its kernel to an asyncio event loop, stopping it and destroying it.

A loop is *open* until `request_stop()`, then *closed*; `destroy()` releases what it holds. It is driven in one of three ways,
never two at a time: `run()` owns the thread and blocks, `async with loop:` uses the event loop that is running, and
`poll_once()` runs a single tick for a program that drives the loop by hand.

Stopping is the same in all of them. The current message is finished and no other is begun. Every actor is ended, the youngest
first, and those under a supervisor together with it, the last child first. A suspended coroutine is cancelled and waited for,
and so are exit hooks, all together for at most `LoopConfig.stop_timeout`. Actors that have not ended by then are ended without their
coroutine, and the log says so; their coroutines are cancelled once more and get a few turns of the event loop. Then whatever
other threads have sent too late becomes dead letters. The loop leaves nothing on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from bandstand.core.asyncio_host import AsyncioHost, StopSignals, TickHooks, new_event_loop
from bandstand.core.enums import MAX_INLINE_TICKS
from bandstand.core.logs import SafeLogger
from bandstand.core.watchdog import Watchdog
from bandstand.errors import LoopBusyError, LoopClosedError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import to_seconds

if TYPE_CHECKING:
    import asyncio

    from bandstand.core.config import LoopConfig
    from bandstand.core.kernel import Kernel

__all__ = ("LoopRunner",)

logger = SafeLogger("bandstand.core")


@final
class LoopRunner:
    """Drives one kernel. `Loop` documents what programs call."""

    __slots__ = (
        "_config",
        "_end_callbacks",
        "_guest_host",
        "_kernel",
        "_leftover_tasks",
        "_own_host",
        "_past_wakeups",
        "_stop_deadline",
        "_watchdog",
        "is_destroyed",
    )

    def __init__(self, kernel: Kernel, config: LoopConfig) -> None:
        self._kernel = kernel
        self._config = config
        # The event loop made for run() and poll_once(), and the one that `async with` borrows.
        self._own_host: AsyncioHost | None = None
        self._guest_host: AsyncioHost | None = None
        self._watchdog: Watchdog | None = None
        self._past_wakeups = 0
        # When a stop that has begun must be over, on the host's clock.
        self._stop_deadline: float | None = None
        # Tasks on a borrowed event loop that nothing has waited for yet.
        self._leftover_tasks: list[Any] = []
        self._end_callbacks: dict[object, Callable[[], object]] = {}
        self.is_destroyed = False

    # -- driving ----------------------------------------------------------------------------------------------------

    def run(self, *, until_idle: bool, handle_signals: bool, request_stop: Callable[[], None]) -> None:
        """Run the loop on this thread. `Loop.run` says how it ends. A signal calls `request_stop`."""
        kernel = self._kernel
        self._check_not_closed("run")
        self._check_not_driven("run()")
        AsyncioHost.refuse_running()
        host = self._make_own_host()
        with StopSignals(request_stop, is_on=handle_signals):
            kernel.claim_thread()
            self._attach_or_leave(host)
            kernel.until_idle = until_idle
            kernel.notify_idle = kernel.notify_idle or until_idle
            try:
                host.call_soon()
                host.run()
            except (
                BaseException
            ):  # Ctrl-C in the event loop itself: no behavior runs, the actors end as in any stop
                self._close_kernel()
                raise
            finally:
                self._detach()
                if kernel.is_closed:
                    self._shut_down()
                    host.close(self._time_left(host))
        self._raise_failure()

    def request_stop(self) -> None:
        """Ask the loop to stop. From any thread."""
        self._close_kernel()
        host = self._kernel.host
        if host is not None:
            host.call_soon_threadsafe()

    def stop_within(self, ms: float) -> None:
        """Ask the loop to stop, and have it wait at most that long for cancelled coroutines, not `stop_timeout`."""
        host = self._kernel.host
        if host is not None:
            self._stop_deadline = host.loop.time() + ms / 1000
        self.request_stop()

    def poll_once(self) -> int:
        """Run one tick. `Loop.poll_once` says what it raises."""
        kernel = self._kernel
        kernel.check_thread()
        self._check_not_closed("be polled")
        if kernel.is_inside() or self._is_running():
            raise LoopBusyError(
                "poll_once() cannot be called from a behavior or a hook, nor while run() is running"
            )
        before = kernel.counters.handled
        if kernel.host is not None:
            # A task of the program is the current one: no coroutine may be stepped in its place.
            kernel.is_polled = True
            try:
                kernel.host_call()
            finally:
                kernel.is_polled = False
        elif kernel.coroutines.pool is None and not kernel.coroutines.has_unstarted():
            kernel.run_tick(None)
        else:
            AsyncioHost.refuse_running()
            host = self._make_own_host()
            self._attach_or_leave(host)
            kernel.is_polled = True
            try:
                host.run_pass()
            finally:
                kernel.is_polled = False
                self._detach()
        if kernel.host is None:
            if kernel.is_closed:
                self._shut_down()
            self._raise_failure()
        # A message that was begun earlier may be stashed after all.
        return max(0, kernel.counters.handled - before)

    def enter(self) -> None:
        """Use the event loop that is running, until `leave`."""
        self._check_not_closed("run")
        self._check_not_driven("async with")
        self._kernel.claim_thread()
        host = self._guest_host = AsyncioHost.borrow(self._kernel.host_call)
        self._attach_or_leave(host)
        host.call_soon()

    async def leave(self) -> None:
        """End every actor, leave the event loop as it was found, and destroy the loop."""
        kernel = self._kernel
        host = self._guest_host
        self._close_kernel()
        self._detach()
        try:
            if host is not None and not kernel.is_down:
                self._end_actors()
                pool = kernel.coroutines.pool
                if pool is not None:
                    await pool.wait_busy(host, self._time_left)
                    self._leftover_tasks += self._end_coroutines(has_waited=True)
            if host is not None:
                # Tasks that end at once; after a destroy() inside the block also those it did not wait for.
                await host.wait(self._leftover_tasks, self._time_left(host))
        finally:
            self.destroy()
        if host is not None:
            host.uncancel_body()
        self._raise_failure()

    def destroy(self) -> None:
        """End every actor and release what the loop holds. `Loop.destroy` says what it raises."""
        if self.is_destroyed:
            return
        kernel = self._kernel
        if not kernel.owner_thread.is_alive():
            kernel.claim_thread()
        kernel.check_thread()
        if kernel.is_inside() or self._is_running():
            raise LoopBusyError(
                "destroy() cannot be called from a behavior or a hook, nor while run() is running"
            )
        self._close_kernel()
        self._detach()
        self._shut_down()
        if self._own_host is not None:
            self._own_host.close(self._time_left(self._own_host))
        self.is_destroyed = True

    # -- what other parts ask ---------------------------------------------------------------------------------------

    def wake_threadsafe(self) -> None:
        """Wake the loop for its inbox. From any thread."""
        if host := self._kernel.host or (self._guest_host if self._kernel.is_closed else None):
            # Without a host no tick comes: the inbox is emptied directly.
            host.call_soon_threadsafe(None if self._kernel.host else self._kernel.inbox.drain)

    def event_loop_for_tasks(self) -> asyncio.AbstractEventLoop:
        """Return the event loop on which coroutines of actors run."""
        host = self._kernel.host or self._guest_host or self._make_own_host()
        return host.loop

    def owns(self, event_loop: asyncio.AbstractEventLoop) -> bool:
        """Return True if an event loop was made for run() and poll_once(), and is closed when the loop ends."""
        return self._own_host is not None and self._own_host.loop is event_loop

    def unclosed_event_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop made for run() if it is neither running nor closed."""
        host = self._own_host
        return host.loop if host is not None and host.is_open() else None

    def wakeups(self) -> int:
        """Return how often the event loop has called the loop."""
        host = self._kernel.host
        return self._past_wakeups + (0 if host is None else host.wakeups)

    def on_end(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function once when the loop has ended its actors; return what cancels that. What it raises is logged."""
        key = object()
        self._end_callbacks[key] = callback

        def cancel() -> None:
            self._end_callbacks.pop(key, None)

        return cancel

    def set_tick_hook(self, hook: Callable[[], object] | None) -> None:
        """Call a function after each tick; None for none. What it raises ends the loop."""
        before = self._kernel.on_tick_end
        if isinstance(before, TickHooks):
            before.before = hook
        else:
            self._kernel.on_tick_end = hook

    def watch_ticks(self, function: Callable[[], object]) -> Callable[[], None]:
        """Call a function after each tick, and run a tick whenever something has ended; return what cancels that.

        So code that waits for the loop to be quiet need not poll. What the function raises ends the loop.
        """
        kernel = self._kernel
        current = kernel.on_tick_end
        hooks = current if isinstance(current, TickHooks) else TickHooks(current, kernel.notify_idle)
        key = hooks.add(function)
        kernel.on_tick_end = hooks
        kernel.notify_idle = True

        def cancel() -> None:
            hooks.remove(key)
            if not hooks and kernel.on_tick_end is hooks:
                kernel.on_tick_end = hooks.before
                kernel.notify_idle = hooks.was_looking

        return cancel

    def leave_host(self, host: AsyncioHost) -> None:
        """The loop is closed: have `run` return, or leave a borrowed event loop on the spot."""
        kernel = self._kernel
        if host.owned:
            host.stop()
            return
        self._detach()
        if not kernel.is_down:
            # Coroutines are cancelled now, and waited for when the block ends.
            self._end_actors()
        if kernel.coroutines.pool is None:
            self._shut_down()
        if kernel.exit_error is not None:
            # As from any callback, the event loop passes it on.
            self._raise_failure()
        if kernel.failure is not None and not kernel.is_polled:
            # `poll_once` raises it to its own caller.
            host.cancel_body()

    # -- hosts ------------------------------------------------------------------------------------------------------

    def _make_own_host(self) -> AsyncioHost:
        if self._own_host is None:
            self._own_host = AsyncioHost.own(
                self._config.loop_factory or new_event_loop, self._kernel.host_call
            )
        return self._own_host

    def _attach_or_leave(self, host: AsyncioHost) -> None:
        """Attach a host, or leave it if that fails: a host that stays would keep the loop busy for ever."""
        try:
            self._attach(host)
        except BaseException:  # such as a thread that cannot be started
            self._detach()
            raise

    def _attach(self, host: AsyncioHost) -> None:
        kernel = self._kernel
        coroutines = kernel.coroutines
        if coroutines.pool is not None and coroutines.pool.host is not host.loop:
            if coroutines.is_bound_to_pool():
                raise LoopBusyError(
                    "async behaviors of this loop are suspended on another event loop: finish them there"
                )
            # Only parked tasks are left there; they end with that event loop.
            coroutines.pool.close()
            coroutines.pool = None
        host.attach(kernel)
        kernel.host = host
        coroutines.host_context = host.context
        kernel.until_idle = False
        kernel.notify_idle = kernel.on_idle is not None
        kernel.is_awake = True
        coroutines.may_inline = True
        kernel.inline_left = MAX_INLINE_TICKS
        if coroutines.has_unstarted():
            coroutines.start_unstarted()
        if self._config.stall_timeout is not None:
            stall_timeout = to_seconds("stall_timeout", self._config.stall_timeout)
            kernel.watches_messages = True
            self._watchdog = Watchdog(
                kernel.current_message, stall_timeout, logger, kernel.reporter.report_stall
            )
        kernel.fds.attach(host)

    def _detach(self) -> None:
        """Leave the host, with nothing scheduled there."""
        kernel = self._kernel
        host = kernel.host
        if host is not None:
            kernel.fds.detach(host)
        kernel.coroutines.may_inline = False
        if host is not None:
            host.detach()
            kernel.is_host_armed = False
            self._past_wakeups += host.wakeups
            host.wakeups = 0
            kernel.host = None
        kernel.notify_idle = False
        if self._watchdog is not None:
            kernel.watches_messages = False
            self._watchdog.stop()
            self._watchdog = None
        kernel.is_awake = True

    def _is_running(self) -> bool:
        host = self._kernel.host
        return host is not None and host.owned

    def _check_not_closed(self, what: str) -> None:
        kernel = self._kernel
        if kernel.exit_error is not None or kernel.failure is not None:
            # A hook raised KeyboardInterrupt or SystemExit, or the last supervisor gave up, while nothing drove the
            # loop: this call raises it.
            self._shut_down()
            self._raise_failure()
        if kernel.is_closed:
            raise LoopClosedError(
                f"the loop is closed: it was asked to stop, or was destroyed, and cannot {what} again"
            )

    def _check_not_driven(self, what: str) -> None:
        if self._kernel.is_inside() or self._kernel.host is not None:
            raise LoopBusyError(
                f"the loop is being run already: {what} cannot be used in a behavior or a hook, nor twice"
            )

    # -- stopping ---------------------------------------------------------------------------------------------------

    def _close_kernel(self) -> None:
        self._kernel.halt()
        self._kernel.is_closed = True

    def _shut_down(self) -> None:
        """End every actor, once, and wait for suspended coroutines where that is possible."""
        kernel = self._kernel
        if kernel.is_down:
            return
        try:
            self._end_actors()
            host = self._own_host
            pool = kernel.coroutines.pool
            if pool is not None and host is not None and pool.host is host.loop:
                host.loop.run_until_complete(pool.wait_busy(host, self._time_left))
                host.run_wait(self._end_coroutines(has_waited=True), 0)
        finally:
            self._leftover_tasks += self._end_coroutines(has_waited=False)
            kernel.inbox.drain()
            # The hooks go before the loop is down: from then on other threads may make dead letters of their own
            # messages, and hooks are called on the loop's thread only.
            kernel.reporter.close()
            kernel.is_down = True
            kernel.inbox.drain()
            kernel.reporter.report_counts(is_last=True)
            kernel.fds.close()

    def _time_left(self, host: AsyncioHost) -> float:
        """Return the seconds until the stop must be over, counted from the first call."""
        now = host.loop.time()
        if self._stop_deadline is None:
            self._stop_deadline = now + to_seconds("stop_timeout", self._config.stop_timeout)
        return max(0.0, self._stop_deadline - now)

    def _end_actors(self) -> None:
        kernel = self._kernel
        coroutines = kernel.coroutines
        kernel.is_ticking = True
        try:
            if coroutines.pool is not None:
                coroutines.pool.begin_closing()
            kernel.actors.end_all()
            # Asynchronous exit hooks run, if need be on an event loop made for them.
            if coroutines.has_unstarted() and (
                self._guest_host or self._own_host or not AsyncioHost.is_any_running()
            ):
                coroutines.start_exit_hooks()
        finally:
            kernel.is_ticking = False
        while self._end_callbacks:
            callback = self._end_callbacks.pop(next(iter(self._end_callbacks)))
            try:
                callback()
            except Exception as error:  # noqa: BLE001  # whatever it is, the other callbacks run as well
                kernel.reporter.error(f"{safe_repr(callback)}, called at the end of the loop, raised", error)

    def _end_coroutines(self, *, has_waited: bool) -> list[Any]:
        """End actors whose coroutine has not finished in time; return the tasks that are still to be waited for."""
        unfinished = self._kernel.actors.end_suspended()
        if unfinished and has_waited:
            logger.error(
                "%d actors were ended although their async behavior had not finished %g s after it was cancelled: %s",
                len(unfinished),
                self._config.stop_timeout,
                ", ".join(unfinished[:10]),
            )
        elif unfinished:
            logger.warning(
                "%d actors were ended without waiting for their async behavior, which was cancelled: a loop on a borrowed "
                "event loop can wait only at the end of its `async with` block",
                len(unfinished),
            )
        coroutines = self._kernel.coroutines
        coroutines.close_unstarted()
        pool, coroutines.pool = coroutines.pool, None
        return [] if pool is None else pool.close()

    def _raise_failure(self) -> None:
        """Raise what the loop must end with, once."""
        kernel = self._kernel
        if kernel.exit_error is not None:
            exit_error, kernel.exit_error = kernel.exit_error, None
            raise exit_error
        if kernel.failure is not None:
            failure, kernel.failure = kernel.failure, None
            raise failure
