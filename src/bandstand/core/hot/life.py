"""Who lives: the way in and the one way out.

However an actor ends (its own verdict, an exception, somebody's stop, an overrun mailbox, the end of the loop), one
function runs, `_exit`, and does the same things in the same order:

 1. status: from here on the id is stale, and a send to it is refused;
 2. its timers are released, with the messages they carry, and its descriptors are watched no more;
 3. its unread messages become dead letters, counted and published;
 4. its seat in the table is freed;
 5. the observer is told;
 6. whoever watches is told: the supervisor gets its `ChildExit`, each monitor its `Down`, in slots reserved beforehand;
 7. an abnormal end that no supervisor hears of is reported, once, with its traceback.

Step 6 and 7 come for the supervisor first, then for the monitors.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.hot.cell import Cell
from bandstand.core.hot.ids import ActorId
from bandstand.core.hot.post import Hook, Post
from bandstand.core.hot.table import Table
from bandstand.core.numbers import (
    FAIL_REASON,
    FAILED,
    INIT,
    LOOP_SHIFT,
    NORMAL,
    RUNNING,
    STOPPED,
    STOPPING,
)
from bandstand.core.signals import ChildExit, Down
from bandstand.core.vocabulary import ActorStatus, ExitReason, SystemTag
from bandstand.errors import (
    ActorFailed,
    ActorNotLocal,
    BandstandError,
    InvalidArgument,
    LoopClosed,
    MailboxOverrun,
    NoSuchActor,
    WrongThread,
)

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd: the check is made by every send and must cost nothing.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.vocabulary import Overflow

Count: TypeAlias = int
Number: TypeAlias = int
ReasonNumber: TypeAlias = int

CHILD_EXIT = SystemTag.CHILD_EXIT
DOWN = SystemTag.DOWN
REASONS = tuple(ExitReason)
STATUSES = tuple(ActorStatus)


class Monitor:
    """One actor's wish to hear of another's end. Its identity is the public `MonitorId`."""

    __slots__ = ("target", "watcher")

    def __init__(self) -> None:
        # Both are None once the monitor has spoken or was taken back.
        self.watcher: Cell | None = None
        self.target: Cell | None = None


class Life(Post):
    """The table of actors, their births and their ends."""

    __slots__ = (
        "_closed",
        "_current",
        "_ending",
        "_on_start",
        "_on_stop",
        "_owner",
        "_reserve",
        "_spawned",
        "_stopped",
        "_table",
    )

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count) -> None:
        super().__init__()
        self._table = Table(loop_tag, max_actors)
        self._owner: Number = PyThread_get_thread_ident()
        # From the request to stop on: nothing is sent, spawned or run any more.
        self._closed = False
        # While all actors are being ended together: nobody need be told of an end who is about to end himself.
        self._ending = False
        self._reserve: Count = reserve
        self._current: Cell | None = None
        self._spawned: Count = 0
        # How many have ended, by reason.
        self._stopped = [0, 0, 0]
        self._on_start: Hook | None = None
        self._on_stop: Hook | None = None

    def _report_exit(
        self, actor: ActorId, name: str | None, reason: ReasonNumber, cause: BaseException | None, dead: Count
    ) -> None:
        """Report an abnormal end that no supervisor hears of. The loop above overrides it."""

    def _release_timers(self, cell: Cell) -> None:
        """Release every timer of a cell. The timers' storey above overrides it."""

    def _set_hooks(
        self,
        on_start: Hook | None,
        on_stop: Hook | None,
        on_full: Hook | None,
        on_dead_letter: Hook | None,
        on_dropped: Hook | None,
    ) -> None:
        """Install the observer's hooks, each on its own: what nobody listens to costs one comparison with None."""
        self._on_start = on_start
        self._on_stop = on_stop
        self._on_full = on_full
        self._on_dead_letter = on_dead_letter
        self._on_dropped = on_dropped

    def _release_fds(self, cell: Cell) -> None:
        """Stop watching every descriptor of an actor that has ended. The loop above overrides it."""

    def _claim(self) -> None:
        """Make the calling thread the owner."""
        self._owner = PyThread_get_thread_ident()

    def _check_thread(self) -> None:
        """Raise `WrongThread` unless the calling thread is the owner."""
        if PyThread_get_thread_ident() != self._owner:
            raise WrongThread(self._wrong_thread())

    def _wrong_thread(self) -> str:
        """The sentence that names both threads. The loop above overrides it."""
        return "this call belongs on the loop's own thread"

    def _reach(self, target: object) -> Cell | None:
        """The living cell that `target` names on this loop, None if a send to it must be refused.

        Raises `WrongThread` off the owner's thread and `InvalidArgument` for what cannot be an id at all.
        """
        if PyThread_get_thread_ident() != self._owner:
            raise WrongThread(self._wrong_thread())
        return self._find(target)

    def _find(self, target: object) -> Cell | None:
        """The same, from any thread: it only reads."""
        if self._closed:
            return None
        if type(target) is ActorId:
            actor = target
            cell = actor.cell
            if cell is None or cell.status >= STOPPING or actor.home is not self:
                return None
            return cell
        if isinstance(target, int):
            return self._reach_number(target)
        raise InvalidArgument(f"{target!r} is no actor id: pass what spawn() returned, or its number")

    def _reach_number(self, number: Number) -> Cell | None:
        """The same, for a bare number: the slow way, through the table."""
        if not 0 < number < 1 << 64 or number >> LOOP_SHIFT != self._table.loop_tag:
            return None
        cell = self._table.find(number)
        if cell is None or cell.status >= STOPPING:
            return None
        return cell

    def _unreachable(self, target: object) -> BandstandError:
        """Say why `_reach` found nobody for a message, and count the refusal."""
        self._refused += 1
        return self._missing(target)

    def stop_actor(self, target: ActorId | int) -> None:
        """End an actor with reason `NORMAL`. Nothing is drained: what it has not handled becomes dead letters.

        It ends inside this call; if it is the one that is calling, as soon as its behavior has returned.

        Raises:
            NoSuchActor, ActorNotLocal: the target has ended already, never was, or lives on another loop.
            LoopClosed: the loop was asked to stop.
            WrongThread: called off the loop's thread.
        """
        cell = self._reach(target)
        if cell is None:
            raise self._missing(target)
        self._end(cell, NORMAL, None)

    def fail_actor(self, target: ActorId | int, reason: BaseException | str | None = None) -> None:
        """End an actor with reason `FAIL`, as if its behavior had said so. `reason` becomes the cause that is reported.

        Raises what `stop_actor` raises.
        """
        cell = self._reach(target)
        if cell is None:
            raise self._missing(target)
        if reason is not None and not isinstance(reason, BaseException):
            reason = ActorFailed(str(reason))
        self._end(cell, FAIL_REASON, reason)

    def status(self, target: ActorId | int) -> ActorStatus:
        """Where an actor stands in its life. An `ActorId` remembers how its actor ended; a bare number does not.

        Raises:
            NoSuchActor: a number that names nobody any more.
            ActorNotLocal: the id is another loop's.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        actor = self._local_id(target)
        if actor is None:
            raise self._missing(target)
        return STATUSES[actor.fate]

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
            raise InvalidArgument(f"monitor is {monitor!r}: pass what monitor() of this loop returned")
        return self._unwatch(monitor)

    def _missing(self, target: object) -> BandstandError:
        """Say why `_reach` found nobody, for a call that is no send."""
        if self._closed:
            return LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
        if self._is_foreign(target):
            return ActorNotLocal(
                f"actor {target!r} belongs to another loop: an id is good only on the loop it came from"
            )
        return NoSuchActor(f"there is no actor {target!r}: it has ended, or never was")

    def _create(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: object,
        context: Context | None,
    ) -> ActorId | None:
        """Make an actor of checked arguments; None if the table is full. `supervisor` is an id or None."""
        parent = None
        if supervisor is not None:
            parent = self._reach(supervisor)
            if parent is None:
                raise self._missing(supervisor)
        return self._admit(behavior, state, name, cap, overflow, parent, context)

    def _is_foreign(self, target: object) -> bool:
        """Whether an id, or a number that could be one, is another loop's."""
        if type(target) is ActorId:
            actor = target
            return actor.home is not self
        number = int(target)  # type: ignore[call-overload]  # _find has seen to it that it is an id or an int
        return 0 < number < 1 << 64 and number >> LOOP_SHIFT not in {0, self._table.loop_tag}

    def _admit(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: Cell | None,
        context: Context | None,
    ) -> ActorId | None:
        """Make an actor of checked arguments; None if the table is full."""
        cell = Cell.__new__(Cell)
        cell.set_cap(cap, self._reserve)
        cell.kernel = self
        cell.behavior = behavior
        cell.state = state
        cell.name = name
        cell.turn = None
        cell.context = context
        cell.driver = None
        cell.supervisor = supervisor
        cell.queued = False
        cell.next_ready = None
        cell.birth = self._spawned
        cell.status = INIT
        cell.reason = NORMAL
        cell.cause = None
        cell.overflow = overflow
        cell.timers = None
        cell.overdue = None
        cell.fds = 0
        cell.watch = None
        cell.watchers = None
        cell.watching = None
        actor = self._table.admit(cell)
        if actor is None:
            return None
        cell.actor = actor
        self._spawned += 1
        if self._on_start is not None:
            self._tell(self._on_start, (actor, name))
        # The observer may have stopped it already.
        if cell.status == INIT:
            cell.status = actor.fate = RUNNING
        return actor

    def _end(self, cell: Cell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """End an actor now; if its behavior is running or in flight, as soon as that has ended."""
        if cell.status >= STOPPING:
            return
        driver = cell.driver
        if cell is not self._current and driver is None:
            self._exit(cell, reason, cause)
            return
        self._mark_stopping(cell)
        cell.reason = reason
        cell.cause = cause
        if driver is not None:
            driver.cancel()

    def _mark_stopping(self, cell: Cell) -> None:
        """From here on the actor accepts nothing: it ends when its behavior has returned."""
        cell.status = STOPPING
        actor = cell.actor
        assert actor is not None
        actor.fate = STOPPING

    def _exit(self, cell: Cell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """The one exit path. The module's text says what happens, in which order."""
        actor = cell.actor
        assert actor is not None
        name = cell.name
        supervisor = cell.supervisor
        cell.status = STOPPED if reason == NORMAL else FAILED
        actor.fate = cell.status
        actor.reason = reason
        actor.cell = None
        if cell.timers is not None:
            self._release_timers(cell)
        if cell.fds > 0:
            self._release_fds(cell)
        dead = self._bury(cell)
        self._table.release(actor.number)
        self._stopped[reason] += 1
        # What the user gave goes now, not when the last id goes.
        cell.behavior = None
        cell.state = None
        cell.turn = None
        cell.context = None
        if self._on_stop is not None:
            self._tell(self._on_stop, (actor, REASONS[reason]))
        cell.supervisor = None
        if cell.watching is not None:
            self._stop_watching(cell)
        if self._ending:
            return
        if supervisor is not None and supervisor.status < STOPPING:
            supervisor.offer_reserved(ChildExit(actor, REASONS[reason], cause), CHILD_EXIT, 0)
            self._accepted += 1
            if not supervisor.queued:
                self._ready(supervisor)
        elif reason != NORMAL:
            self._report_exit(actor, name, reason, cause, dead)
        if cell.watchers is not None:
            self._tell_watchers(cell, reason, cause)

    def _local_id(self, target: object) -> ActorId | None:
        """The id that `target` is or names, of this loop; an id may be stale, a number may not."""
        if type(target) is ActorId:
            actor = target
            return actor if actor.home is self else None
        if not isinstance(target, int):
            raise InvalidArgument(f"{target!r} is no actor id: pass what spawn() returned, or its number")
        cell = self._reach_number(target)
        return None if cell is None else cell.actor

    def _watch(self, watcher: Cell, actor: ActorId) -> Monitor:
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

    def _stop_watching(self, cell: Cell) -> None:
        """Take back every monitor of an actor that has ended."""
        assert cell.watching is not None
        for monitor in list(cell.watching):
            self._unwatch(monitor)

    def _tell_watchers(self, cell: Cell, reason: ReasonNumber, cause: BaseException | None) -> None:
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

    def _send_down(self, watcher: Cell, down: Down) -> None:
        """Put a `Down` into the slot that its monitor has reserved."""
        watcher.offer_reserved(down, DOWN, 0)
        self._accepted += 1
        if not watcher.queued:
            self._ready(watcher)

    def _post_system(self, target: ActorId | int, data: object, tag: SystemTag) -> bool:
        """Send an unreserved system message to an actor; False, and the actor fails, if there is no free slot."""
        cell = self._reach(target)
        if cell is None:
            raise self._unreachable(target)
        return self._send_system(cell, data, tag)

    def _send_system(self, cell: Cell, data: object, tag: SystemTag) -> bool:
        """Send an unreserved system message. If there is not one free slot, the target fails and False is returned."""
        if cell.offer_system(data, tag, 0):
            self._accepted += 1
            if not cell.queued:
                self._ready(cell)
            return True
        self._refused += 1
        if self._on_full is not None:
            self._tell(self._on_full, (cell.actor,))
        # The observer may have ended it.
        if cell.status < STOPPING:
            cause = MailboxOverrun(
                f"a system message met the mailbox of {cell.actor!r} {cell.name or ''} full to the last of its {cell.cap} "
                f"slots; the actor was failed. Give it a larger mailbox_cap, or let it handle its messages faster."
            )
            self._end(cell, FAIL_REASON, cause)
        return False
