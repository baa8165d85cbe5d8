"""Who lives: the way in and the one way out.

However an actor ends (its own verdict, an exception, somebody's stop, an overrun mailbox, the end of the loop), one
function runs, `_exit`, and does the same things in the same order:

 1. status: from here on the id is stale, and a send to it is refused;
 2. if it has children that end with it, they end, the last one first, and their children before them;
 3. its timers are released, with the messages they carry, and its descriptors are watched no more;
 4. its unread messages become dead letters, counted and published, or are kept for its supervisor's next child; whoever
    waits for one of them, or for the one at hand, is answered;
 5. its seat in the table is freed;
 6. the observer is told;
 7. whoever watches is told, in slots reserved beforehand: the supervisor gets its `ChildExit`, each monitor its `Down`,
    and those it is linked with hear of it or share its fate. An abnormal end that no supervisor hears of is reported,
    once, with its traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import (
    FAIL_REASON,
    FAILED,
    INIT,
    NORMAL,
    RUNNING,
    STOPPED,
    STOPPING,
    SYSTEM,
    UNTIMED,
    ExitReason,
    SystemTag,
)
from bandstand.core.hot.post import Hook
from bandstand.core.hot.reach import Reach
from bandstand.core.mailbox import ActorCell
from bandstand.core.messages import ChildExit
from bandstand.errors import ActorFailed, ActorKilled, MailboxOverrun
from bandstand.errors.formatting import safe_str

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.enums import Overflow
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ChildGroup

Count: TypeAlias = int
ReasonNumber: TypeAlias = int

CHILD_EXIT = SystemTag.CHILD_EXIT
REASONS = tuple(ExitReason)

if not cython.compiled:
    # Compiled, this is C, in the .pxd: every end of a child makes one.
    def new_triple(kind: type, first: object, second: object, third: object) -> object:
        """Make a named tuple of three past its own constructor, which is a Python function."""
        return tuple.__new__(kind, (first, second, third))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # made for any tuple


class Life(Reach):
    """Births and ends."""

    __slots__ = ("_current", "_ending", "_on_start", "_on_stop", "_outer", "_reserve", "_spawned", "_stopped")

    def __init__(self, loop_tag: Count, max_actors: Count, reserve: Count) -> None:
        super().__init__(loop_tag, max_actors)
        self._reserve: Count = reserve
        # The actor whose behavior is being called; and those in whose turns it was started, while its init runs.
        self._current: ActorCell | None = None
        self._outer: list[ActorCell] = []
        # While all actors are being ended together: nobody need be told of an end who is about to end himself.
        self._ending = False
        self._spawned: Count = 0
        # How many have ended, by reason.
        self._stopped = [0, 0, 0]
        self._on_start: Hook | None = None
        self._on_stop: Hook | None = None

    def _report_exit(
        self, actor: ActorId, name: str | None, reason: ReasonNumber, cause: BaseException | None, dead: Count
    ) -> None:
        """Report an abnormal end that no supervisor hears of. The loop above overrides it."""

    def _stop_watching(self, cell: ActorCell) -> None:
        """Take back every monitor of an actor that has ended. The monitors' storey above overrides it."""

    def _tell_watchers(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Tell everyone who monitors an actor that has ended. The monitors' storey above overrides it."""

    def _sever(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Tell everyone who is linked with an actor that has ended. The links' storey above overrides it."""

    def _release_timers(self, cell: ActorCell) -> None:
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

    def _release_fds(self, cell: ActorCell) -> None:
        """Stop watching every descriptor of an actor that has ended. The loop above overrides it."""

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
            reason = ActorFailed(safe_str(reason))
        self._end(cell, FAIL_REASON, reason)

    def kill_actor(self, target: ActorId | int) -> None:
        """End an actor without waiting for anything, with reason `FAIL`.

        Where `stop_actor` waits until a coroutine in flight has taken its cancellation, this does not: the coroutine is
        cancelled, and whatever it goes on to do, its actor has ended. So it also ends an actor that is stopping
        already. A behavior that is running at this moment, the caller's own, ends its actor when it returns.

        Raises what `stop_actor` raises, but not for an actor that is stopping.
        """
        self._check_thread()
        actor = None if self._closed else self._local_id(target)
        cell = None if actor is None else actor.cell
        if cell is None:
            raise self._missing(target)
        self._kill(cell, ActorKilled(f"actor {self._called(cell)} was killed"))

    def _kill(self, cell: ActorCell, cause: BaseException) -> None:
        """End an actor now, whatever its coroutine does; if it is running at this moment, as soon as it returns."""
        if self._is_killed(cell, cause):
            self._exit(cell, FAIL_REASON, cause)

    def _is_killed(self, cell: ActorCell, cause: BaseException) -> bool:
        """Do what `_kill` does before the exit; True if the caller has to exit the actor now."""
        driver = cell.driver
        cell.exit_hook = None
        if driver is not None:
            driver.cancel()
        if not self._is_running_now(cell):
            return True
        self._mark_stopping(cell)
        cell.reason = FAIL_REASON
        cell.cause = cause
        return False

    def _create(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: object,
        context: Context | None,
        unborn: bool = False,
        keeps: bool = False,
        estate: ActorCell | None = None,
    ) -> ActorId | None:
        """Make an actor of checked arguments; None if the table is full. `supervisor` is an id or None.

        One that is made unborn stays INIT, and out of the run queue, until it is told that it has started. `keeps` and
        `estate` are about what is left unread: by it, for another, and by another, for it.
        """
        parent = None
        if supervisor is not None:
            parent = self._reach(supervisor)
            if parent is None:
                raise self._missing(supervisor)
        return self._admit(behavior, state, name, cap, overflow, parent, context, unborn, keeps, estate)

    def _admit(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: ActorCell | None,
        context: Context | None,
        unborn: bool,
        keeps: bool,
        estate: ActorCell | None,
    ) -> ActorId | None:
        """Make an actor of checked arguments; None if the table is full."""
        cell = ActorCell.__new__(ActorCell)
        cell.set_cap(cap, self._reserve)
        cell.kernel = self
        cell.behavior = behavior
        cell.state = state
        cell.name = name
        cell.turn = None
        cell.context = context
        cell.driver = None
        cell.message = None
        cell.stashed = None
        cell.supervisor = supervisor
        # While it is unborn it is as if it were being visited: what comes for it waits, and does not make it ready.
        cell.queued = unborn
        cell.next_ready = None
        cell.serial = self._spawned
        cell.status = INIT
        cell.reason = NORMAL
        cell.budget = 0
        cell.speed = UNTIMED
        cell.cause = None
        cell.overflow = overflow
        cell.timers = None
        cell.overdue = None
        cell.fds = 0
        cell.watch = None
        cell.children = None
        cell.exit_hook = None
        cell.keeps_mailbox = keeps
        cell.exit_observed = False
        cell.traps = False
        cell.links = None
        cell.watchers = None
        cell.watching = None
        actor = self._table.admit(cell)
        if actor is None:
            return None
        cell.actor = actor
        if estate is not None:
            cell.take_messages_of(estate)
        self._spawned += 1
        if self._on_start is not None:
            self._tell(self._on_start, (actor, name))
        # The observer may have stopped it already.
        if cell.status == INIT and not unborn:
            cell.status = actor.status = RUNNING
        return actor

    def _end(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """End an actor now; if its behavior is running or in flight, as soon as that has ended."""
        if self._is_ended(cell, reason, cause):
            self._exit(cell, cell.reason, cell.cause)

    @cython.nonecheck(False)
    def _is_ended(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> bool:
        """Do what `_end` does before the exit; True if the caller has to exit the actor now."""
        if cell.status >= STOPPING:
            return False
        driver = cell.driver
        if driver is not None or self._is_running_now(cell):
            self._mark_stopping(cell)
            cell.reason = reason
            cell.cause = cause
            if driver is None:
                return False
            driver.cancel()
            if cell.driver is not None or self._is_running_now(cell):
                return False
            # Its coroutine had not even begun: there is nothing to wait for.
        else:
            cell.reason = reason
            cell.cause = cause
        return cell.exit_hook is None or not self._say_goodbye(cell)

    def _finish(self, cell: ActorCell) -> None:
        """End an actor that is doing nothing now, for the reason it has noted. It may have something left to say."""
        if cell.exit_hook is None or not self._say_goodbye(cell):
            self._exit(cell, cell.reason, cell.cause)

    def _say_goodbye(self, cell: ActorCell) -> bool:
        """Have an actor do what it still has to; True if that takes its time. The births' storey above overrides it."""
        return False

    def _called(self, cell: ActorCell) -> str:
        """How to speak of an actor in an error."""
        return repr(cell.actor) if cell.name is None else f"{cell.actor!r} {cell.name!r}"

    def _is_running_now(self, cell: ActorCell) -> bool:
        """Whether an actor is in the middle of its turn: it can end only when that is over."""
        return cell is self._current or (len(self._outer) > 0 and cell in self._outer)

    @cython.nonecheck(False)
    def _mark_stopping(self, cell: ActorCell) -> None:
        """From here on the actor accepts nothing: it ends when its behavior has returned."""
        cell.status = STOPPING
        actor = cell.actor
        assert actor is not None
        actor.status = STOPPING

    def _exit(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """The one exit path. The module's text says what happens, in which order."""
        self._begin_exit(cell, reason, cause)
        if cell.children is not None:
            self._end_family(cell)
        self._complete_exit(cell)

    @cython.nonecheck(False)
    def _begin_exit(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """The first step of an exit: the id is stale."""
        actor = cell.actor
        assert actor is not None
        # Those whose messages are not handled any more are told why.
        cell.reason = reason
        cell.cause = cause
        cell.exit_hook = None
        cell.status = STOPPED if reason == NORMAL else FAILED
        actor.status = cell.status
        actor.reason = reason
        actor.cell = None

    def _end_family(self, cell: ActorCell) -> None:
        """The second step: end the children, the last one first, and each one's own children before it is gone.

        This walks down and up with a stack of its own. Recursion would limit how deep a tree of actors may be, and where it
        broke off, actors would live on without a parent.
        """
        above: list[tuple[ActorCell, ChildGroup, list[ActorId]]] = [self._disband(cell)]
        self._telling += 1
        try:
            while True:
                ending, family, children = above[len(above) - 1]
                if len(children) > 0:
                    actor = children.pop()
                    child = actor.cell
                    if child is None or not self._is_ended_with(child, family):
                        continue
                    self._begin_exit(child, child.reason, child.cause)
                    if child.children is not None:
                        above.append(self._disband(child))
                    else:
                        self._complete_exit(child)
                    continue
                above.pop()
                if len(above) == 0:
                    return
                self._complete_exit(ending)
        finally:
            self._telling -= 1

    def _disband(self, cell: ActorCell) -> tuple[ActorCell, ChildGroup, list[ActorId]]:
        """Take the family from an actor that has ended; with it, those of its children that end too."""
        family, cell.children = cell.children, None
        assert family is not None
        children: list[ActorId] = []
        self._tell(family.take_all, (children,))
        return (cell, family, children)

    def _is_ended_with(self, cell: ActorCell, family: ChildGroup) -> bool:
        """End a child whose parent has ended; True if the caller has to exit it now."""
        if self._is_ended(cell, NORMAL, None):
            return True
        if cell.status >= STOPPED or self._closed:
            # If the whole loop ends, it waits for all coroutines together.
            return False
        cause = family.kill_cause()
        if cause is None or not self._is_killed(cell, cause):
            return False
        cell.reason = FAIL_REASON
        cell.cause = cause
        return True

    @cython.nonecheck(False)
    def _complete_exit(self, cell: ActorCell) -> None:
        """All other steps of an exit."""
        actor = cell.actor
        assert actor is not None
        name = cell.name
        supervisor = cell.supervisor
        turn = cell.turn
        reason = cell.reason
        cause = cell.cause
        if cell.timers is not None:
            self._release_timers(cell)
        if cell.fds > 0:
            self._release_fds(cell)
        if cell.stashed is not None:
            # What it had kept shares the fate of what waits, and goes first.
            self._put_back(cell, None)
        if (
            cell.keeps_mailbox
            and supervisor is not None
            and supervisor.children is not None
            and not self._ending
        ):
            dead = self._bury_lanes(cell, SYSTEM)
            if not self._tell(supervisor.children.keep, (actor, cell)):
                dead += self._bury(cell)
        else:
            dead = self._bury(cell)
        if turn is not None and isinstance(turn.sender, DeliveryCallback):
            # The message at hand, whose coroutine will not end any more, or not in the name of this actor.
            turn.sender.interrupted(actor, name, reason, cause)
        self._table.release(actor.number)
        self._stopped[reason] += 1
        # What the user gave goes now, not when the last id goes.
        self._look()
        cell.behavior = None
        cell.state = None
        cell.turn = None
        cell.context = None
        if not cell.keeps_mailbox:
            # With its traceback it may hold this cell. (A cell that is kept still has messages whose senders are told.)
            cell.cause = None
        if self._on_stop is not None:
            self._tell(self._on_stop, (actor, REASONS[reason]))
        cell.supervisor = None
        if cell.watching is not None:
            self._stop_watching(cell)
        if self._ending:
            return
        if supervisor is not None and supervisor.status < STOPPING:
            told = new_triple(ChildExit, actor, REASONS[reason], cause)
            supervisor.offer_reserved(told, CHILD_EXIT, 0)
            self._accepted += 1
            if not supervisor.queued:
                self._ready(supervisor)
        elif reason != NORMAL and not cell.exit_observed:
            self._report_exit(actor, name, reason, cause, dead)
        if cell.watchers is not None:
            self._tell_watchers(cell, reason, cause)
        if cell.links is not None:
            self._sever(cell, reason, cause)

    def _post_system(self, target: ActorId | int, data: object, tag: SystemTag) -> bool:
        """Send an unreserved system message to an actor; False, and the actor fails, if there is no free slot."""
        cell = self._reach(target)
        if cell is None:
            raise self._unreachable(target)
        return self._send_system(cell, data, tag)

    def _send_system(self, cell: ActorCell, data: object, tag: SystemTag) -> bool:
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
                f"a system message met the mailbox of {self._called(cell)} full to the last of its {cell.cap} "
                f"slots; the actor was failed. Give it a larger mailbox_cap, or let it handle its messages faster."
            )
            self._end(cell, FAIL_REASON, cause)
        return False
