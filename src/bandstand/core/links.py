"""Links and monitors: how an actor learns of another actor's exit.

A *monitor* is one-way. When the target exits, the watcher receives one `Down` in a reserved slot. The monitor then ends;
`demonitor` or the watcher's own exit ends it earlier.

A *link* is symmetrical. When one of two linked actors exits abnormally, the other exits too, for the same reason; a normal
exit only removes the link. An actor that *traps exits* does not exit: it receives an `Exit` message in a reserved slot, for
normal exits as well. There is at most one link between two actors.

A chain of ten thousand linked actors exits one by one. That is a loop over a list, not a recursion: actors that must exit
are appended to `_pending`, and the outermost call empties it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from bandstand.core.enums import NORMAL, STOPPED, STOPPING, ExitReason, SystemTag
from bandstand.core.messages import Down, Exit
from bandstand.errors import LinkBrokenError

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel
    from bandstand.core.mailbox import ActorCell

ReasonNumber: TypeAlias = int

REASONS = tuple(ExitReason)
DOWN = SystemTag.DOWN
EXIT = SystemTag.EXIT


class Monitor:
    """One actor's subscription to the exit of another. Programs know it as `MonitorId`."""

    __slots__ = ("target", "watcher")

    def __init__(self) -> None:
        # Both are None once the `Down` was sent or the monitor was removed.
        self.watcher: ActorCell | None = None
        self.target: ActorCell | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a monitor belongs to its loop: it cannot be pickled or copied")


class Links:
    """The links and monitors between the actors of one loop."""

    __slots__ = ("_is_ending", "_kernel", "_pending")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        # Actors that must exit because a linked actor did: cell, reason, and the error that says why.
        self._pending: list[Any] = []
        # True while a call further up the stack empties `_pending`.
        self._is_ending = False

    # -- monitors ---------------------------------------------------------------------------------------------------

    def monitor(self, watcher: ActorCell, actor: ActorId) -> Monitor:
        """Send `watcher` one `Down` when `actor` exits; now, if it has exited already."""
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

    def owns(self, monitor: Monitor) -> bool:
        """Return True if a monitor belongs to this loop, or is used up."""
        watcher = monitor.watcher
        return watcher is None or watcher.kernel is self._kernel

    def demonitor(self, monitor: Monitor) -> bool:
        """Remove a monitor; return False if it is used up or was removed before."""
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

    def remove_monitors_of(self, cell: ActorCell) -> None:
        """Remove every monitor of a watcher that has exited."""
        assert cell.watching is not None
        for monitor in list(cell.watching):
            self.demonitor(monitor)

    def notify_monitors(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Send every watcher of an actor that has exited its `Down`."""
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
        self._kernel.send_reserved(watcher, down, DOWN, 0)

    # -- links ------------------------------------------------------------------------------------------------------

    def link(self, cell: ActorCell, actor: ActorId) -> None:
        """Link an actor with another one. If that one has exited, this is like an exit right now."""
        peer = actor.cell
        if peer is None:
            self._propagate(cell, actor, actor.reason, None)
            self._end_pending()
            return
        if cell.links is None:
            cell.links = {}
        if peer.links is None:
            peer.links = {}
        cell.links[peer] = None
        peer.links[cell] = None

    def unlink(self, cell: ActorCell | None, peer: ActorCell | None) -> bool:
        """Remove a link; return False if there is none or one of the two has exited."""
        if cell is None or peer is None or cell.links is None or peer not in cell.links:
            return False
        assert peer.links is not None
        del cell.links[peer]
        del peer.links[cell]
        return True

    def notify_links(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Propagate the exit of an actor to every actor it was linked with."""
        links = cell.links
        actor = cell.actor
        assert links is not None
        assert actor is not None
        cell.links = None
        for peer in links:
            assert peer.links is not None
            del peer.links[cell]
            self._propagate(peer, actor, reason, cause)
        self._end_pending()

    def _propagate(
        self, cell: ActorCell, exited: ActorId, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """Send `cell` an `Exit` if it traps exits; else note that it must exit, if the reason is abnormal."""
        if cell.status >= STOPPED:
            return
        if cell.traps:
            self._kernel.send_reserved(cell, Exit(exited, REASONS[reason], cause), EXIT, 0)
        elif reason != NORMAL:
            error = LinkBrokenError(
                f"actor {self._kernel.label(cell)} was linked with {exited!r}, which ended with reason {REASONS[reason].name}"
            )
            # Keep the first cause only, not a chain as long as the row of linked actors.
            if cause is not None and issubclass(type(cause), LinkBrokenError):
                cause = cause.__cause__
            error.__cause__ = cause
            self._pending.append((cell, reason, error))

    def _end_pending(self) -> None:
        """End the actors that must exit, and those that this takes along."""
        if self._is_ending:
            return
        self._is_ending = True
        try:
            while len(self._pending) > 0:
                pending, self._pending = self._pending, []
                for cell, reason, error in pending:
                    self._end_one(cell, reason, error)
        finally:
            self._is_ending = False

    def _end_one(self, cell: ActorCell, reason: ReasonNumber, error: BaseException) -> None:
        if cell.status < STOPPING:
            self._kernel.actors.end_actor(cell, reason, error)
