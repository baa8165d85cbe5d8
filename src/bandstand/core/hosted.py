"""A kernel with a host: being driven, stopped and destroyed.

A loop is *open* until `request_stop()`, then *closed*; `destroy()` releases what it holds. It is driven in one of three
ways, never two at a time: `run()` owns the thread and blocks, `async with loop:` rides somebody's running event loop, and
`poll_once()` runs a single tick for whoever wants to drive it by hand.

Stopping is the same in all of them. The message at hand is finished and no other begun. Every actor is ended, the
youngest first, and those under a supervisor together with it, the last child first; one whose coroutine is in flight has it
cancelled and is waited for, as is what actors do at their end, all together for at most `stop_timeout_ms`. Those that have not
ended by then are ended without it, loudly; their coroutines are cancelled once more and given a few turns of the host. Then
whatever other threads have sent too late becomes dead letters. Nothing of the loop is left in the host that would end.
"""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, Self

from bandstand.core.asyncio_host import AsyncioHost, StopSignals
from bandstand.core.logs import SafeLogger
from bandstand.core.pumped import Pumped
from bandstand.errors import LoopBusy, LoopClosed

__all__ = ("Hosted",)

logger = SafeLogger("bandstand.core")


class Hosted(Pumped):
    """The kernel's life. `Loop` is what to use."""

    def run(self, *, until_idle: bool = False, handle_signals: bool = False) -> None:
        """Run actors on this thread until `request_stop()`; then every actor is ended (G26).

        With `until_idle` it returns as soon as nothing is ready, no timer is pending, no async behavior is in flight
        and no descriptor is watched. It leaves the actors alive, and may be called again.

        With `handle_signals`, which needs the main thread, the first SIGINT or SIGTERM asks the loop to stop, and a
        second SIGINT raises KeyboardInterrupt at once, wherever the program is. Otherwise signals are left alone.

        Raises:
            LoopClosed: the loop was stopped or destroyed.
            LoopBusy: it is running already, or this thread is running another event loop.
            InvalidArgument: signals cannot be handled on this thread.
            InternalError: the runtime itself, or the clock it was given, is broken.
            GaveUp, StartFailed: a supervisor with nobody above it has given up, or did not start.
            KeyboardInterrupt, SystemExit: a behavior raised it, or the user pressed Ctrl-C. The actors were ended.
        """
        self._refuse_closed("run")
        self._refuse_driven("run()")
        AsyncioHost.refuse_running()
        host = self._owned()
        with StopSignals(self.request_stop, is_on=handle_signals):
            self._take_thread()
            self._mount(host)
            self._until_idle = until_idle
            self._looking = self._looking or until_idle
            try:
                host.call_soon()
                host.run()
            except (
                BaseException
            ):  # Ctrl-C in the host itself: no behavior runs, the actors end as in any stop
                self._closed = True
                self._halt()
                raise
            finally:
                self._detach()
                if self._closed:
                    self._shut_down()
                    host.close(self._time_left(host))
        self._raise_failure()

    def request_stop(self) -> None:
        """Ask the loop to stop. Safe from any thread and from a behavior; asking again changes nothing.

        From now on running, sending and spawning are `LoopClosed`. The message at hand is finished, no other is begun,
        and whoever drives the loop ends every actor; if nobody does, `destroy()` will.
        """
        self._halt()
        self._closed = True
        host = self._host
        if host is not None:
            host.call_soon_threadsafe()

    def poll_once(self) -> int:
        """Run one tick, without waiting for anything; how many messages were handled.

        Async behaviors that are in flight are given a chance to go on.

        Raises:
            LoopClosed: the loop was stopped or destroyed.
            LoopBusy: called from a behavior or a hook, or while `run()` is running.
            WrongThread: called off the loop's thread.
            GaveUp, StartFailed, InternalError, KeyboardInterrupt, SystemExit: as for `run`.
        """
        self._check_thread()
        self._refuse_closed("be polled")
        if self._is_inside() or self._is_running():
            raise LoopBusy(
                "poll_once() cannot be called from a behavior or a hook, nor while run() is running"
            )
        before = self._handled
        if self._host is not None:
            # Somebody's task is the current one: nothing of ours may be stepped in its place.
            self._is_by_hand = True
            try:
                self._pump()
            finally:
                self._is_by_hand = False
        elif self._drivers is None and not self._unbegun:
            self._work(None)
        else:
            AsyncioHost.refuse_running()
            host = self._owned()
            self._mount(host)
            self._is_by_hand = True
            try:
                host.run_pass()
            finally:
                self._is_by_hand = False
                self._detach()
        if self._host is None:
            if self._closed:
                self._shut_down()
            self._raise_failure()
        return max(0, self._handled - before)  # one that had begun earlier may be set aside after all

    async def __aenter__(self) -> Self:
        """Ride the running event loop until the block ends. The thread becomes the owner."""
        self._refuse_closed("run")
        self._refuse_driven("async with")
        self._take_thread()
        host = self._guest_host = AsyncioHost.borrow(self._pump)
        self._mount(host)
        host.call_soon()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every actor, leave the event loop as it was found, and destroy the loop.

        Raises:
            GaveUp, StartFailed, InternalError: what the loop has ended with, in place of the body's cancellation.
        """
        host = self._guest_host
        self._closed = True
        self._halt()
        self._detach()
        try:
            if host is not None and not self._down:
                self._end_actors()
                if self._drivers is not None:
                    await self._drivers.wait_busy(host, self._time_left)
                    self._leftover += self._end_drivers(has_waited=True)
            if host is not None:
                # Those that end at once; after a destroy() inside the block also those it did not wait for.
                await host.wait(self._leftover, self._time_left(host))
        finally:
            self.destroy()
        if host is not None:
            host.uncancel_body()
        self._raise_failure()

    def __enter__(self) -> Self:
        """Enter a block at whose end the loop is destroyed; it is driven by `run()` or `poll_once()` inside."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Destroy the loop."""
        self.destroy()

    def destroy(self) -> None:
        """End every actor and release what the loop holds. No callback runs after it; a second time changes nothing.

        A loop that has run and is dropped without it is a ResourceWarning. Its descriptors are closed then, but its actors do
        not end: neither their epilogues nor anything else of them runs.

        Raises:
            LoopBusy: called from a behavior or a hook, or while `run()` is running.
            WrongThread: called off the owner's thread, unless that thread has ended.
        """
        if self._is_destroyed:
            return
        if not self._owner_thread.is_alive():
            self._take_thread()
        self._check_thread()
        if self._is_inside() or self._is_running():
            raise LoopBusy("destroy() cannot be called from a behavior or a hook, nor while run() is running")
        self._closed = True
        self._halt()
        self._detach()
        self._shut_down()
        if self._own_host is not None:
            self._own_host.close(self._time_left(self._own_host))
        self._is_destroyed = True

    def _mount(self, host: AsyncioHost) -> None:
        """Attach a host, or leave it if that fails: a host that stays would keep the loop busy for ever."""
        try:
            self._attach(host)
        except BaseException:  # such as a thread that cannot be started
            self._detach()
            raise

    def __del__(self) -> None:
        host: AsyncioHost | None = getattr(self, "_own_host", None)
        if host is None or not host.is_open():
            return
        warnings.warn(
            f"{self!r} was dropped and not destroyed: call destroy(), or use it in a `with` block",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        # As asyncio does: its descriptors are closed, and no code of actors runs any more.
        host.loop.close()

    def _refuse_closed(self, what: str) -> None:
        if self._leaving is not None or self._broken is not None:
            # A hook raised KeyboardInterrupt or SystemExit, or the last supervisor gave up, while nobody drove the
            # loop: this is the way out.
            self._shut_down()
            self._raise_failure()
        if self._closed:
            raise LoopClosed(
                f"the loop is closed: it was asked to stop, or was destroyed, and cannot {what} again"
            )

    def _is_inside(self) -> bool:
        """Whether the caller is a behavior, a coroutine of one, or a hook."""
        return self._ticking or self._telling > 0 or self._is_stepping()

    def _refuse_driven(self, what: str) -> None:
        if self._is_inside() or self._host is not None:
            raise LoopBusy(
                f"the loop is being run already: {what} cannot be used in a behavior or a hook, nor twice"
            )

    def _shut_down(self) -> None:
        """End every actor, once, waiting for those in flight where we can. The text above says how."""
        if self._down:
            return
        try:
            self._end_actors()
            host = self._own_host
            if self._drivers is not None and host is not None and self._drivers.host is host.loop:
                host.loop.run_until_complete(self._drivers.wait_busy(host, self._time_left))
                host.run_wait(self._end_drivers(has_waited=True), 0)
        finally:
            self._leftover += self._end_drivers(has_waited=False)
            self._drain()
            # The hooks go before the loop is down: from then on other threads may be burying what came too late, and
            # hooks are called on the loop's thread only.
            self._set_hooks(None, None, None, None, None)
            self._forget_hooks()
            self._down = True
            self._drain()
            self._gossip(is_last=True)
            self._release()

    def _time_left(self, host: AsyncioHost) -> float:
        """Seconds until the stop must be over, on the host's clock, counted from the first time somebody asks."""
        now = host.loop.time()
        if self._stop_by is None:
            self._stop_by = now + self.config.stop_timeout_ms / 1000
        return max(0.0, self._stop_by - now)

    def _end_actors(self) -> None:
        self._ticking = True
        try:
            if self._drivers is not None:
                self._drivers.begin_closing()
            self._end_all()
            self._begin_epilogues()
        finally:
            self._ticking = False

    def _end_drivers(self, *, has_waited: bool) -> list[Any]:
        """End without their coroutines what has not ended in time; the tasks that are still to be waited for."""
        stragglers = self._abandon()
        if stragglers and has_waited:
            logger.error(
                "%d actors were ended although their async behavior had not ended %g ms after it was cancelled: %s",
                len(stragglers),
                self.config.stop_timeout_ms,
                ", ".join(stragglers[:10]),
            )
        elif stragglers:
            logger.warning(
                "%d actors were ended without waiting for their async behavior, which was cancelled: a loop that rides "
                "an event loop can only wait at the end of its `async with` block",
                len(stragglers),
            )
        self._close_unbegun()
        drivers, self._drivers = self._drivers, None
        return [] if drivers is None else drivers.close()

    def _forget_hooks(self) -> None:
        """Forget the hooks of the storeys above, which override it."""

    def _release(self) -> None:
        """Give back what the rest of the loop holds. The storeys above override it."""

    def _end_ride(self, host: AsyncioHost) -> None:
        """The loop is closed: have `run` return, or leave somebody's event loop on the spot."""
        if host.owned:
            host.stop()
            return
        self._detach()
        if not self._down:
            # Coroutines are cancelled now and waited for when the block ends.
            self._end_actors()
        if self._drivers is None:
            self._shut_down()
        if self._leaving is not None:
            # As from any callback of the event loop: it is the event loop's to pass on.
            self._raise_failure()
        if self._broken is not None and not self._is_by_hand:
            # Somebody who polls by hand is told in his own stack.
            host.cancel_body()
