"""File descriptors watched for actors: a ready descriptor becomes an `IoEvent` in its owner's mailbox.

`FdWatcher` knows the owners and sends the events. `FdPoller` is a private epoll, registered with the event loop.

The problem. If every descriptor were registered with the event loop, the result of closing a watched descriptor would depend on the event
loop; one of them aborts the process. And a level-triggered event loop reports the same readiness again and again until the data
is read.

The choice. A loop has one epoll of its own, and only the epoll's descriptor is registered with the event loop. Each watch is one-shot: after
an event it is silent until it is armed again, which happens when its owner has handled the event. Arming a closed descriptor fails with
EBADF or ENOENT. Linux silently drops a closed descriptor from an epoll, so a slow sweep finds the ones that were closed while armed.

A descriptor number that was closed and opened again refers to another file. Each watch stores the identity (device, inode, type) of
its file, and compares it before an event is delivered and in the sweep. Eventfds, terminals and some others share an inode or reuse it.
For those the sweep finds that the epoll has dropped the number, but an event that is already queued cannot be distinguished.

Only Linux has epoll. On other systems watching raises `IoRegistrationError`; everything else works.
"""

from __future__ import annotations

import os
import select
import stat
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import TYPE_CHECKING, SupportsInt, TypeAlias, final

from bandstand.core.enums import Interest, Readiness
from bandstand.core.messages import IoEvent
from bandstand.errors import InvalidArgumentError, IoNotWatchedError, IoRegistrationError, LoopClosedError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel
    from bandstand.core.timer_wheel import Timer

__all__ = (
    "FdPoller",
    "FdWatch",
    "FdWatcher",
)


Identity: TypeAlias = tuple[int, int, int]

# How many events one poll returns, and how many watches one sweep checks.
MAX_EVENTS = 1024
SWEEP_SIZE = 256
# The epoll gets a descriptor number from here on, if the limits of the process allow it.
HIGH_FD = 512


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
            raise InvalidArgumentError(
                f"interest is {safe_repr(interest)}: pass Interest.READ, Interest.WRITE or both"
            )
        if kernel.is_closed:
            raise LoopClosedError(
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
            raise IoNotWatchedError(f"descriptor {fd} is not being watched")
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
                raise IoRegistrationError(f"descriptor {fd} is being watched already, for {watch.actor!r}")
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
        raise InvalidArgumentError(
            f"fd is {safe_repr(fd)}: pass the number of an open descriptor, as from fileno()"
        )


# -- the epoll -------------------------------------------------------------------------------------------------------


@final
class FdWatch:
    """One descriptor that is watched for one actor."""

    __slots__ = ("actor", "fd", "identity", "is_armed", "is_broken", "is_wanted", "mask")

    def __init__(self, actor: ActorId, fd: int, identity: Identity, mask: int) -> None:
        self.actor = actor
        self.fd = fd
        self.identity = identity
        self.mask = mask
        # False while an event is being handled.
        self.is_armed = True
        # The descriptor was found closed; the owner has been notified.
        self.is_broken = False
        # False after `unwatch_fd`: events that wait in the owner's mailbox are then discarded.
        self.is_wanted = True

    def is_same(self) -> bool:
        """Return whether the descriptor still refers to the file it referred to when the watch was made."""
        return identify(self.fd) == self.identity


def identify(fd: int) -> Identity | None:
    """Return the identity of the file that a descriptor refers to; None if it is not open."""
    try:
        found = os.fstat(fd)
    except (OSError, OverflowError):
        return None
    return (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))


@final
class FdPoller:
    """All watched descriptors of one loop."""

    __slots__ = ("_by_actor", "_epoll", "_unswept", "_watches")

    def __init__(self) -> None:
        if not hasattr(select, "epoll"):
            raise IoRegistrationError("watching descriptors needs epoll, which this platform does not have")
        self._epoll = make_epoll()
        self._watches: dict[int, FdWatch] = {}
        self._by_actor: dict[ActorId, dict[int, FdWatch]] = {}
        self._unswept: list[FdWatch] = []

    def fileno(self) -> int:
        """Return the descriptor of the epoll: it is readable while an event waits."""
        return self._epoll.fileno()

    def find(self, fd: int) -> FdWatch | None:
        """Return the watch of a descriptor, even if it is broken; None if there is none."""
        return self._watches.get(fd)

    def add(self, fd: int, actor: ActorId, interest: Interest) -> FdWatch:
        """Add and return a watch for a descriptor that is not watched.

        Raises:
            IoRegistrationError: the descriptor is not open, or its kind cannot be watched (a regular file).
        """
        mask = select.EPOLLONESHOT
        if Interest.READ in interest:
            mask |= select.EPOLLIN
        if Interest.WRITE in interest:
            mask |= select.EPOLLOUT
        identity = identify(fd)
        if identity is None:
            raise IoRegistrationError(f"descriptor {fd} cannot be watched: it is not open")
        try:
            self._epoll.register(fd, mask)
        except FileExistsError:
            # An old registration: its descriptor was closed, but a duplicate keeps the file open.
            self._epoll.modify(fd, mask)
        except OSError as error:
            raise IoRegistrationError(
                f"descriptor {fd} cannot be watched: {os.strerror(error.errno or 0)}; pipes, sockets, terminals and "
                f"eventfds can, regular files cannot"
            ) from error
        watch = self._watches[fd] = FdWatch(actor, fd, identity, mask)
        self._by_actor.setdefault(actor, {})[fd] = watch
        return watch

    def remove(self, watch: FdWatch) -> bool:
        """Remove a watch, and discard its events that wait in a mailbox.

        Returns:
            False if the descriptor was closed without `unwatch_fd`: the epoll must then be rebuilt.
        """
        watch.is_wanted = False
        self.forget(watch)
        if watch.is_broken:
            return True
        if not watch.is_same():
            return False
        try:
            self._epoll.unregister(watch.fd)
        except OSError:
            return False
        return True

    def forget(self, watch: FdWatch) -> None:
        """Remove a watch from the tables; its events that wait in a mailbox are still delivered."""
        del self._watches[watch.fd]
        siblings = self._by_actor[watch.actor]
        del siblings[watch.fd]
        if not siblings:
            del self._by_actor[watch.actor]

    def of(self, actor: ActorId) -> list[FdWatch]:
        """Return all watches of one actor."""
        return list(self._by_actor.get(actor, {}).values())

    def poll(self) -> list[tuple[FdWatch, Readiness | None]]:
        """Return the watches that are ready, without waiting. Each is silent until it is armed again.

        The readiness is None if the descriptor was closed without `unwatch_fd`.
        """
        ready: list[tuple[FdWatch, Readiness | None]] = []
        for fd, mask in self._epoll.poll(0, MAX_EVENTS):
            watch = self._watches.get(fd)
            if watch is None or watch.is_broken or not watch.is_armed:
                continue
            watch.is_armed = False
            ready.append((watch, readiness_of(mask, watch.mask) if watch.is_same() else None))
        return ready

    def arm(self, watch: FdWatch) -> bool:
        """Report the next readiness of a watch; return False if its descriptor was closed in the meantime."""
        if not watch.is_same():
            return False
        try:
            self._epoll.modify(watch.fd, watch.mask)
        except OSError:
            return False
        watch.is_armed = True
        return True

    def sweep(self) -> list[FdWatch]:
        """Return watches whose descriptor was closed without `unwatch_fd`.

        Each call checks the next part of all watches, so that ten thousand connections do not stall the loop.
        """
        if not self._unswept:
            self._unswept = list(self._watches.values())
        slice_, self._unswept = self._unswept[-SWEEP_SIZE:], self._unswept[:-SWEEP_SIZE]
        live = [watch for watch in slice_ if watch.is_wanted and not watch.is_broken]
        # Arming an armed watch again changes nothing, but fails if the epoll has dropped it. That also detects a number that was reopened
        # on the same file, whose identity is equal.
        return [watch for watch in live if not (self.arm(watch) if watch.is_armed else watch.is_same())]

    def rebuild(self) -> select.epoll | None:
        """Move the intact watches to a new epoll; return the old one, which the caller closes.

        If a descriptor is closed while a duplicate keeps its file open, the epoll keeps reporting events under the closed number and the entry
        cannot be removed: the next file with that number would get them. Closing by mistake is rare, so the epoll is simply replaced.
        Returns None if the process has no free descriptor: then the old epoll stays, and the caller tries again later.
        """
        try:
            fresh = make_epoll()
        except IoRegistrationError:
            return None
        for watch in self._watches.values():
            if watch.is_broken or not (self.arm(watch) if watch.is_armed else watch.is_same()):
                # Closed as well, and perhaps reopened as another file: the sweep will find it.
                continue
            fresh.register(watch.fd, watch.mask if watch.is_armed else select.EPOLLONESHOT)
        old, self._epoll = self._epoll, fresh
        return old

    def close(self) -> None:
        """Close the epoll. The watched descriptors stay open."""
        self._epoll.close()


def readiness_of(mask: int, wanted: int) -> Readiness:
    """Convert an epoll event. A hang-up counts as readable or writable, as watched: the next read or write reports it."""
    readiness = Readiness(0)
    if mask & select.EPOLLIN:
        readiness |= Readiness.READ
    if mask & select.EPOLLOUT:
        readiness |= Readiness.WRITE
    if mask & (select.EPOLLHUP | select.EPOLLERR):
        if wanted & select.EPOLLIN:
            readiness |= Readiness.READ
        if wanted & select.EPOLLOUT:
            readiness |= Readiness.WRITE
    if mask & select.EPOLLERR:
        readiness |= Readiness.ERROR
    return readiness


def make_epoll() -> select.epoll:
    """Make an epoll, with a high descriptor number if possible.

    Code that closes a descriptor twice by mistake closes what has got its number in the meantime, and an event loop may abort the
    process if its own descriptor is closed. High numbers are rarely hit.

    Raises:
        IoRegistrationError: the process has no free descriptor.
    """
    try:
        low = select.epoll()
    except OSError as error:
        raise IoRegistrationError(f"no descriptor can be watched: {error.strerror}") from error
    try:
        high = fcntl(low.fileno(), F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError:
        # The limits of the process do not allow numbers that high.
        return low
    low.close()
    return select.epoll.fromfd(high)
