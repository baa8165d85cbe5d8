"""Watching descriptors for actors: from a ready descriptor to an `IoEvent` in its owner's mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsInt, final

from bandstand.core.enums import Interest, Readiness
from bandstand.core.fd_poller import FdPoller, FdWatch
from bandstand.core.messages import IoEvent
from bandstand.errors import InvalidArgument, IoNotWatched, IoRegistrationFailed, LoopClosed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel
    from bandstand.core.timer_wheel import Timer

__all__ = ("FdWatcher",)


@final
class FdWatcher:
    """The watched descriptors of one loop and their owners. `Loop.watch_fd` says what watching guarantees."""

    __slots__ = ("_kernel", "_needs_rebuild", "_poller", "_sweep_ms", "_sweep_timer")

    def __init__(self, kernel: Kernel, sweep_ms: int) -> None:
        self._kernel = kernel
        self._sweep_ms = sweep_ms
        self._poller: FdPoller | None = None
        self._sweep_timer: Timer | None = None
        # A watched descriptor was closed: the poller must be rebuilt before it is polled again.
        self._needs_rebuild = False

    # -- what programs call -----------------------------------------------------------------------------------------

    def watch(self, fd: int, owner: ActorId | int, interest: Interest) -> None:
        """Start watching a descriptor. `Loop.watch_fd` says what it raises."""
        kernel = self._kernel
        kernel.check_thread()
        _check_fd(fd)
        if not interest or not isinstance(interest, Interest):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(
                f"interest is {safe_repr(interest)}: pass Interest.READ, Interest.WRITE or both"
            )
        if kernel.is_closed:
            raise LoopClosed(
                "the loop is closed: it was asked to stop, or was destroyed, and watches no descriptors any more"
            )
        actor = kernel.begin_fd_watch(owner)
        try:
            poller = self._make_poller()
            self._make_room(poller, fd)
            poller.add(fd, actor, interest)
        except BaseException:  # whatever went wrong, nothing is watched, and the counters must not say so
            kernel.end_fd_watch(actor)
            kernel.watched_fds -= 1
            raise
        if self._sweep_timer is None:
            self._sweep_timer = kernel.timers.call_after(self._sweep_ms, self._sweep)

    def unwatch(self, fd: int) -> None:
        """Stop watching a descriptor. `Loop.unwatch_fd` says what it raises."""
        self._kernel.check_thread()
        _check_fd(fd)
        watch = None if self._poller is None else self._poller.find(fd)
        if watch is None:
            raise IoNotWatched(f"descriptor {fd} is not being watched")
        self._unwatch_one(watch)

    # -- what the kernel calls --------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Send an event for each ready descriptor."""
        assert self._poller is not None
        if self._needs_rebuild:
            self._needs_rebuild = False
            self._rebuild(self._poller)
        for watch, readiness in self._poller.poll():
            if readiness is None:
                self._report_closed(watch)
            else:
                self._kernel.send_io(watch.actor, IoEvent(watch.fd, readiness), watch)

    def rearm(self, watch: object) -> None:
        """Watch a descriptor again after its event was handled."""
        assert isinstance(watch, FdWatch)
        assert self._poller is not None
        if watch.is_wanted and not watch.is_broken and not self._poller.arm(watch):
            self._report_closed(watch)

    def check(self, watch: object, event: object) -> object:
        """Return the event to deliver for one that was taken from a mailbox; None for none."""
        assert isinstance(watch, FdWatch)
        assert isinstance(event, IoEvent)
        if not watch.is_wanted:
            return None
        if watch.is_broken:
            # The only news of a closed descriptor is that it was closed; earlier events are out of date.
            return event if event.readiness is Readiness.ERROR else None
        if watch.is_same():
            return event
        # It was closed while its event waited. Its number may belong to another file by now.
        self._mark_closed(watch)
        return IoEvent(watch.fd, Readiness.ERROR)

    def release(self, actor: ActorId) -> None:
        """Stop watching every descriptor of an actor that has exited."""
        assert self._poller is not None
        for watch in self._poller.of(actor):
            self._unwatch_one(watch)

    # -- what the runner calls --------------------------------------------------------------------------------------

    def attach(self, host: AsyncioHost) -> None:
        """Have a host watch the poller."""
        if self._poller is not None:
            host.add_reader(self._poller.fileno())

    def detach(self, host: AsyncioHost) -> None:
        """Have a host watch the poller no longer."""
        if self._poller is not None:
            host.remove_reader(self._poller.fileno())

    def close(self) -> None:
        """Close the poller. The watched descriptors stay open."""
        if self._poller is not None:
            self._poller.close()
            self._poller = None

    # ---------------------------------------------------------------------------------------------------------------

    def _make_poller(self) -> FdPoller:
        if self._poller is None:
            self._poller = FdPoller()
            if self._kernel.host is not None:
                self.attach(self._kernel.host)
        return self._poller

    def _make_room(self, poller: FdPoller, fd: int) -> None:
        """Raise if a descriptor is watched already; forget a watch whose descriptor was closed."""
        watch = poller.find(fd)
        if watch is None:
            return
        if not watch.is_broken:
            if watch.is_same():
                raise IoRegistrationFailed(f"descriptor {fd} is being watched already, for {watch.actor!r}")
            self._report_closed(watch)
        # An event that still waits in its owner's mailbox must be delivered, so this does not unwatch.
        poller.forget(watch)
        self._kernel.end_fd_watch(watch.actor)

    def _unwatch_one(self, watch: FdWatch) -> None:
        assert self._poller is not None
        if not self._poller.remove(watch):
            self._needs_rebuild = True
        self._kernel.end_fd_watch(watch.actor)
        if not watch.is_broken:
            self._kernel.watched_fds -= 1
        self._stop_idle_sweep()

    def _report_closed(self, watch: FdWatch) -> None:
        """Tell the owner, once, that its descriptor was closed while it was watched."""
        if not watch.is_broken:
            self._mark_closed(watch)
            self._kernel.send_io(watch.actor, IoEvent(watch.fd, Readiness.ERROR), watch)

    def _mark_closed(self, watch: FdWatch) -> None:
        watch.is_broken = True
        self._kernel.watched_fds -= 1
        self._needs_rebuild = True
        self._stop_idle_sweep()

    def _rebuild(self, poller: FdPoller) -> None:
        old = poller.rebuild()
        if old is None:
            self._needs_rebuild = True
            return
        host = self._kernel.host
        if host is not None:
            host.remove_reader(old.fileno())
            host.add_reader(poller.fileno())
        old.close()

    def _stop_idle_sweep(self) -> None:
        """Cancel the sweep while nothing is watched."""
        if self._kernel.watched_fds == 0 and self._sweep_timer is not None:
            self._kernel.timers.cancel_call(self._sweep_timer)
            self._sweep_timer = None

    def _sweep(self) -> None:
        """Find descriptors that were closed while they were watched."""
        self._sweep_timer = None
        assert self._poller is not None
        for watch in self._poller.sweep():
            self._report_closed(watch)
        if self._kernel.watched_fds > 0:
            self._sweep_timer = self._kernel.timers.call_after(self._sweep_ms, self._sweep)


def _check_fd(fd: SupportsInt) -> None:
    if type(fd) is not int or fd < 0:
        raise InvalidArgument(
            f"fd is {safe_repr(fd)}: pass the number of an open descriptor, as from fileno()"
        )
