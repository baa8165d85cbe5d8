"""A hosted kernel that watches descriptors: `watch_fd`, `unwatch_fd`, and what they bring about."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsInt

from bandstand.core.enums import Interest, Readiness
from bandstand.core.fd_poller import FdPoller, FdWatch
from bandstand.core.hosted import Hosted
from bandstand.core.messages import IoEvent
from bandstand.errors import InvalidArgument, IoNotWatched, IoRegistrationFailed, LoopClosed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost
    from bandstand.core.clock import Clock
    from bandstand.core.config import LoopConfig
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell
    from bandstand.core.timer_wheel import Timer

__all__ = ("Watching",)


class Watching(Hosted):
    """Descriptors and their owners. `Loop` is what to use."""

    def __init__(self, loop_tag: int, config: LoopConfig, clock: Clock) -> None:
        super().__init__(loop_tag, config, clock)
        self._poller: FdPoller | None = None
        self._sweep_timer: Timer | None = None
        # A descriptor was closed behind our back: before anything is polled, the poller is to be built anew.
        self._has_ghosts = False

    def watch_fd(self, fd: int, owner: ActorId | int, interest: Interest) -> None:
        """Tell `owner` when a descriptor is ready, by an `IoEvent` with tag `SystemTag.IO` on its SYSTEM lane.

        One readiness, one event: the next is looked for when the owner has handled this one. It never meets a full
        mailbox. Pipes, sockets, terminals and eventfds can be watched. The owner's end ends the watch; the runtime
        never closes a descriptor. One that is closed while it is watched gives one event with `Readiness.ERROR`.

        Raises:
            InvalidArgument: `fd` is no descriptor's number, or `interest` is empty.
            NoSuchActor, ActorNotLocal: the owner is not there.
            IoRegistrationFailed: it is watched already, is not open, or is of a kind that cannot be watched.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        self._check_fd(fd)
        if not interest or not isinstance(interest, Interest):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(
                f"interest is {safe_repr(interest)}: pass Interest.READ, Interest.WRITE or both"
            )
        if self._closed:
            raise LoopClosed(
                "the loop is closed: it was asked to stop, or was destroyed, and watches nothing any more"
            )
        actor = self._begin_watch(owner)
        try:
            poller = self._make_poller()
            self._make_room(poller, fd)
            poller.add(fd, actor, interest)
        except BaseException:  # whatever went wrong, nothing is watched, and the books must not say so
            self._end_watch(actor)
            self._watched_fds -= 1
            raise
        if self._sweep_timer is None:
            self._sweep_timer = self._call_after(self.config.fd_sweep_ms, self._sweep)

    def unwatch_fd(self, fd: int) -> None:
        """FdWatch a descriptor no more. An event of it that has not been handled yet is dropped.

        Raises:
            IoNotWatched: it is not being watched.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        self._check_fd(fd)
        watch = None if self._poller is None else self._poller.find(fd)
        if watch is None:
            raise IoNotWatched(f"descriptor {fd} is not being watched")
        self._unwatch_one(watch)

    @staticmethod
    def _check_fd(fd: SupportsInt) -> None:
        if type(fd) is not int or fd < 0:
            raise InvalidArgument(
                f"fd is {safe_repr(fd)}: pass the number of an open descriptor, as from fileno()"
            )

    def _make_poller(self) -> FdPoller:
        if self._poller is None:
            self._poller = FdPoller()
            if self._host is not None:
                self._host.add_reader(self._poller.fileno())
        return self._poller

    def _make_room(self, poller: FdPoller, fd: int) -> None:
        """Refuse a descriptor that is watched; forget a watch whose descriptor was closed, telling its owner."""
        watch = poller.find(fd)
        if watch is None:
            return
        if not watch.is_broken:
            if watch.is_same():
                raise IoRegistrationFailed(f"descriptor {fd} is being watched already, for {watch.actor!r}")
            self._break_off(watch)
        # Its owner's event, if it still waits, is to be delivered: so this is no unwatching.
        poller.forget(watch)
        self._end_watch(watch.actor)

    def _unwatch_one(self, watch: FdWatch) -> None:
        assert self._poller is not None
        if not self._poller.remove(watch):
            self._has_ghosts = True
        self._end_watch(watch.actor)
        if not watch.is_broken:
            self._watched_fds -= 1
        self._rest()

    def _break_off(self, watch: FdWatch) -> None:
        """A descriptor was closed behind our back: tell its owner, once."""
        if not watch.is_broken:
            self._give_up(watch)
            self._send_io(watch.actor, IoEvent(watch.fd, Readiness.ERROR), watch)

    def _give_up(self, watch: FdWatch) -> None:
        """FdWatch a descriptor no more that is not what it was, and make sure that its number speaks for nobody else."""
        watch.is_broken = True
        self._watched_fds -= 1
        self._has_ghosts = True
        self._rest()

    def _rebuild(self, poller: FdPoller) -> None:
        old = poller.rebuild()
        if old is None:
            self._has_ghosts = True
            return
        if self._host is not None:
            self._host.remove_reader(old.fileno())
            self._host.add_reader(poller.fileno())
        old.close()

    def _rest(self) -> None:
        """Sweep no more while nothing is watched."""
        if self._watched_fds == 0 and self._sweep_timer is not None:
            self._cancel_call(self._sweep_timer)
            self._sweep_timer = None

    def _sweep(self) -> None:
        self._sweep_timer = None
        assert self._poller is not None
        for watch in self._poller.sweep():
            self._break_off(watch)
        if self._watched_fds > 0:
            self._sweep_timer = self._call_after(self.config.fd_sweep_ms, self._sweep)

    # -- what the kernel asks for --------------------------------------------------------------------------------------

    def _poll_io(self) -> None:
        assert self._poller is not None
        if self._has_ghosts:
            self._has_ghosts = False
            self._rebuild(self._poller)
        for watch, readiness in self._poller.poll():
            if readiness is None:
                self._break_off(watch)
            else:
                self._send_io(watch.actor, IoEvent(watch.fd, readiness), watch)

    def _rearm_io(self, watch: object) -> None:
        assert isinstance(watch, FdWatch)
        assert self._poller is not None
        if watch.is_wanted and not watch.is_broken and not self._poller.arm(watch):
            self._break_off(watch)

    def _check_io(self, watch: object, event: object) -> object:
        assert isinstance(watch, FdWatch)
        assert isinstance(event, IoEvent)
        if not watch.is_wanted:
            return None
        if watch.is_broken:
            # All that is still to be said of it is that it was closed; what waited before that is of another time.
            return event if event.readiness is Readiness.ERROR else None
        if watch.is_same():
            return event
        # It was closed while its event waited. Its number may be somebody else's by now: say so, and nothing more.
        self._give_up(watch)
        return IoEvent(watch.fd, Readiness.ERROR)

    def _release_fds(self, cell: ActorCell) -> None:
        assert self._poller is not None
        actor = self._actor_of(cell)
        for watch in self._poller.of(actor):
            self._unwatch_one(watch)

    # -- the host ------------------------------------------------------------------------------------------------------

    def _attach(self, host: AsyncioHost) -> None:
        super()._attach(host)
        if self._poller is not None:
            host.add_reader(self._poller.fileno())

    def _detach(self) -> None:
        if self._poller is not None and self._host is not None:
            self._host.remove_reader(self._poller.fileno())
        super()._detach()

    def _release(self) -> None:
        if self._poller is not None:
            self._poller.close()
            self._poller = None
