"""Monitors: hearing of another actor's end, whoever its supervisor is.

A monitor is between two actors of one loop and speaks once, by a `Down` in a slot of its own. It goes when it has spoken,
when it is taken back, and with its watcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from bandstand.core.enums import SystemTag
from bandstand.core.hot.life import REASONS, Life
from bandstand.core.messages import Down
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell

ReasonNumber: TypeAlias = int

DOWN = SystemTag.DOWN


class Monitor:
    """One actor's wish to hear of another's end. Its identity is the public `MonitorId`."""

    __slots__ = ("target", "watcher")

    def __init__(self) -> None:
        # Both are None once the monitor has spoken or was taken back.
        self.watcher: ActorCell | None = None
        self.target: ActorCell | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a monitor belongs to its loop, and cannot be pickled or copied")


class Monitors(Life):
    """Who watches whom."""

    __slots__ = ()

    def monitor(self, watcher: ActorId | int, target: ActorId | int) -> Monitor:
        """Have `watcher` told of the end of `target`: one `Down` on its SYSTEM lane, whatever else fills its mailbox.

        A target that has ended already is reported at once. Each call is a monitor
        of its own; the one that is returned can be given to `demonitor`.

        Raises:
            NoSuchActor, ActorNotLocal: the watcher is not there, or the target was never an actor of this loop.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        watching = self._reach(watcher)
        if watching is None:
            raise self._missing(watcher)
        watched = self._local_id(target)
        if watched is None:
            raise self._missing(target)
        return self._watch(watching, watched)

    def demonitor(self, monitor: Monitor) -> bool:
        """Take a monitor back. False if its `Down` has been sent already, or its watcher has ended.

        Raises:
            InvalidArgument: it is no monitor, or another loop's.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        if type(monitor) is not Monitor or not self._owns(monitor):
            raise InvalidArgument(
                f"monitor is {safe_repr(monitor)}: pass what monitor() of this loop returned"
            )
        return self._unwatch(monitor)

    def _watch(self, watcher: ActorCell, actor: ActorId) -> Monitor:
        """Have `watcher` told, once, of the end of `actor`; at once, if it has ended."""
        monitor = Monitor.__new__(Monitor)
        monitor.watcher = None
        monitor.target = None
        target = actor.cell
        if target is None:
            self._send_down(watcher, Down(actor, REASONS[actor.reason], None))
            return monitor
        monitor.watcher = watcher
        monitor.target = target
        if target.watchers is None:
            target.watchers = {}
        target.watchers[monitor] = None
        if watcher.watching is None:
            watcher.watching = {}
        watcher.watching[monitor] = None
        return monitor

    def _owns(self, monitor: Monitor) -> bool:
        """Whether a monitor is this loop's, or is spent."""
        watcher = monitor.watcher
        return watcher is None or watcher.kernel is self

    def _unwatch(self, monitor: Monitor) -> bool:
        """Take a monitor back; False if it has spoken already or was taken back."""
        watcher = monitor.watcher
        target = monitor.target
        if watcher is None or target is None:
            return False
        assert watcher.watching is not None
        assert target.watchers is not None
        del watcher.watching[monitor]
        del target.watchers[monitor]
        monitor.watcher = None
        monitor.target = None
        return True

    def _stop_watching(self, cell: ActorCell) -> None:
        """Take back every monitor of an actor that has ended."""
        assert cell.watching is not None
        for monitor in list(cell.watching):
            self._unwatch(monitor)

    def _tell_watchers(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Give every watcher its `Down`, in the slot it reserved."""
        watchers = cell.watchers
        actor = cell.actor
        assert watchers is not None
        assert actor is not None
        cell.watchers = None
        for monitor in watchers:
            watcher = monitor.watcher
            assert watcher is not None
            assert watcher.watching is not None
            del watcher.watching[monitor]
            monitor.watcher = None
            monitor.target = None
            self._send_down(watcher, Down(actor, REASONS[reason], cause))

    def _send_down(self, watcher: ActorCell, down: Down) -> None:
        """Put a `Down` into the slot that its monitor has reserved."""
        watcher.offer_reserved(down, DOWN, 0)
        self._accepted += 1
        if not watcher.queued:
            self._ready(watcher)
