"""The actors of a loop: starting them, stopping them, and the one way they exit.

**The exit path.** However an actor ends (its verdict, an exception, a stop, a kill, an overrun mailbox, the end of the loop),
`exit_actor` runs the same steps in the same order:

 1. status: from here on the id is stale, and sends to it are refused;
 2. its children end, the last one first, and their children before them;
 3. its timers are released, and its descriptors are no longer watched;
 4. its unread messages become dead letters, or go to its supervisor for the next child of its name; delivery callbacks of
    these messages, and of the message being handled, run;
 5. its slot in the actor table is freed;
 6. the observer's hook runs;
 7. its supervisor gets a `ChildExit` and each monitor a `Down`, in reserved slots; linked actors get an `Exit`, or exit too.
    An abnormal exit without a supervisor is logged once, with its traceback.

**Starting a child.** A child has an *init*, a function of its context that returns its state. It runs inside `spawn_child`,
so most children have started, or failed, when that returns. An init may be a coroutine function: then the actor stays INIT
while it runs, messages wait, and the supervisor gets a `ChildStart` when it has finished. An init that raises is a panic; one
that raises `IgnoreChild` is a normal exit.
"""

# new_triple comes from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.coroutines import is_coroutine
from bandstand.core.delivery import DeliveryCallback, ExitCallback
from bandstand.core.enums import (
    DATA,
    FAIL_REASON,
    FAILED,
    INIT,
    KEEPS_ASKS,
    KEEPS_NOTHING,
    NORMAL,
    PANIC,
    RUNNING,
    STOPPED,
    STOPPING,
    SYSTEM,
    UNTIMED,
    ExitReason,
    Overflow,
    SystemTag,
)
from bandstand.core.ids import ActorId, ActorTable
from bandstand.core.mailbox import ActorCell
from bandstand.core.messages import ChildExit, ChildStart
from bandstand.errors import (
    ActorFailedError,
    ActorKilledError,
    IgnoreChild,
    InvalidArgumentError,
    MaxActorsError,
    OutOfMemoryError,
)
from bandstand.errors.formatting import safe_repr, safe_str

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.kernel import Kernel
    from bandstand.core.mailbox import ChildGroup
    from bandstand.core.timer_wheel import Timer

Count: TypeAlias = int
ReasonNumber: TypeAlias = int

LARGEST_CAP = 1 << 30
REASONS = tuple(ExitReason)
REJECT = Overflow.REJECT
CHILD_EXIT = SystemTag.CHILD_EXIT
CHILD_START = SystemTag.CHILD_START
# For `_create`: whether the actor stays INIT until its init has finished.
WITH_INIT = True
WITHOUT_INIT = False
# What an init returns that goes on by messages, such as a supervisor's, which waits for its children.
NOT_YET = object()
ARGS_OF = BaseException.__dict__["args"].__get__
MAX_REMEMBERED = 200

if not cython.compiled:
    # Compiled, this is C code of the .pxd.
    def new_triple(kind: type, first: object, second: object, third: object) -> object:
        """Make a named tuple of three without its constructor, which is a Python function."""
        return tuple.__new__(kind, (first, second, third))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # made for any tuple


def brief_cause(cause: BaseException) -> tuple[type, str | None]:
    """Return what an id remembers of the cause of an exit: its class, and its text if it is one short string.

    The exception itself would keep its traceback, and with it the actor's objects, alive as long as the id.
    """
    # Not cause.args: the class may override it.
    args = ARGS_OF(cause)
    if len(args) == 1 and type(args[0]) is str and len(args[0]) <= MAX_REMEMBERED:
        return (type(cause), args[0])
    return (type(cause), None)


class Actors:
    """Starts and ends the actors of one loop. `table` has those that are alive."""

    __slots__ = (
        "_kernel",
        "_reserve",
        "default_cap",
        "ended",
        "init_error",
        "is_ending_all",
        "spawned",
        "table",
    )

    def __init__(
        self, kernel: Kernel, loop_tag: Count, max_actors: Count, reserve: Count, default_cap: Count
    ) -> None:
        self._kernel = kernel
        self.table = ActorTable(loop_tag, max_actors)
        self.default_cap: Count = default_cap
        self._reserve: Count = reserve
        # How many actors were started, and how many have ended, by reason.
        self.spawned: Count = 0
        self.ended = [0, 0, 0]
        # True while all actors are being ended together: exits are not reported.
        self.is_ending_all = False
        # What the last init raised that failed inside the call that started it.
        self.init_error: BaseException | None = None

    # -- starting ---------------------------------------------------------------------------------------------------

    def checked_cap(self, mailbox_cap: int | None) -> Count:
        """Return a valid mailbox cap, the loop's default for None or 0.

        Raises:
            InvalidArgumentError: it is not above the loop's reserve.
        """
        if mailbox_cap is None or mailbox_cap == 0:
            return self.default_cap
        if type(mailbox_cap) is not int or mailbox_cap > LARGEST_CAP:
            raise InvalidArgumentError(
                f"mailbox_cap is {safe_repr(mailbox_cap)}: pass an int, or None for the default"
            )
        # A number far below 0 would not fit into a C integer.
        cap = max(0, mailbox_cap)
        if cap <= self._reserve:
            raise InvalidArgumentError(
                f"mailbox_cap is {mailbox_cap} and sys_reserved is {self._reserve}: the cap must be above the "
                f"reserve, or no user message ever fits"
            )
        return cap

    def cap_for(self, mailbox: int | None) -> Count:
        """Return the mailbox cap with room for so many user messages, the loop's default for None.

        A cap counts the slots that are reserved for system messages too. Typed options are in user messages, and this is the one
        place that converts them.

        Raises:
            InvalidArgumentError: it is not an int from 1 on.
        """
        if mailbox is None:
            return self.default_cap
        if type(mailbox) is not int or not 1 <= mailbox <= LARGEST_CAP:
            raise InvalidArgumentError(
                f"mailbox is {safe_repr(mailbox)}: pass how many messages may wait, an int from 1 on, or None for the default"
            )
        return min(mailbox + self._reserve, LARGEST_CAP)

    def spawn(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: ActorId | int | None,
        context: Context | None,
    ) -> ActorId:
        """Start an actor with checked arguments and no init.

        Raises:
            MaxActorsError, OutOfMemoryError: there is no room for it.
            NoSuchActorError, ActorNotLocalError, InvalidArgumentError: the supervisor does not exist, or is no id.
        """
        try:
            actor = self._create(
                behavior, state, name, cap, overflow, supervisor, context, WITHOUT_INIT, KEEPS_NOTHING, None
            )
        except MemoryError as error:
            raise OutOfMemoryError("there is no memory for one more actor") from error
        if actor is None:
            raise self._max_actors_error()
        return actor

    def spawn_child(
        self,
        behavior: Callable[..., Any],
        init: Callable[[Any], Any] | None,
        name: str | None,
        cap: Count,
        supervisor: ActorId | int | None,
        context: Context | None,
        keeps: Count = 0,
        kept_mailbox: ActorCell | None = None,
        overflow: Overflow | None = None,
    ) -> ActorId:
        """Start an actor and run its init.

        Its status says how that went: RUNNING, INIT if the init has not finished, or an end, of which its supervisor is
        notified. `init_error` then has what the init raised.

        Args:
            behavior: `behavior(ctx, data)`, as for `Loop.spawn`.
            init: called with the context; returns the state, `NOT_YET`, or a coroutine. None for no init.
            name: for logs, errors and the tree.
            cap: its mailbox cap, from `checked_cap`.
            supervisor: the actor that gets its `ChildStart` and `ChildExit`.
            context: where the context variables of its coroutines start from.
            keeps: which of its unread messages go to the supervisor's `ChildGroup.keep` instead of the dead letters: KEEPS_NOTHING, KEEPS_ASKS or
                KEEPS_ALL.
            kept_mailbox: what an earlier incarnation left unread; it is handled first.
            overflow: what a full lane does with one more message; None is `Overflow.REJECT`.

        Raises:
            MaxActorsError, OutOfMemoryError: there is no room for it.
            NoSuchActorError, ActorNotLocalError, InvalidArgumentError: the supervisor does not exist, or is no id.
            LoopClosedError, WrongThreadError: as for `Loop.spawn`.
        """
        self._kernel.check_thread()
        if self._kernel.is_closed:
            raise self._kernel.missing_error(0)
        self.init_error = None
        policy = None if overflow is REJECT else overflow
        try:
            actor = self._create(
                behavior, None, name, cap, policy, supervisor, context, WITH_INIT, keeps, kept_mailbox
            )
        except MemoryError as error:
            raise OutOfMemoryError("there is no memory for one more actor") from error
        if actor is None:
            raise self._max_actors_error()
        cell = actor.cell
        if cell is None:
            # The observer's hook has stopped it already.
            return actor
        if init is None:
            self._mark_running(cell)
        else:
            self._run_init(cell, init)
        return actor

    def take_init_error(self) -> BaseException | None:
        """Return what the init of the last child raised that failed inside `spawn_child`; None the second time."""
        error, self.init_error = self.init_error, None
        return error

    def _max_actors_error(self) -> MaxActorsError:
        return MaxActorsError(
            f"{self.table.capacity} actors are alive, as many as max_actors allows: stop some, or raise "
            f"LoopConfig.max_actors"
        )

    def _create(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: Count,
        overflow: Overflow | None,
        supervisor: object,
        context: Context | None,
        with_init: bool,
        keeps: Count,
        kept_mailbox: ActorCell | None,
    ) -> ActorId | None:
        """Make an actor; None if the table is full. With an init it stays INIT and outside the run queue."""
        parent = None
        if supervisor is not None:
            parent = self._kernel.reach(supervisor)
            if parent is None:
                raise self._kernel.missing_error(supervisor)
        cell = ActorCell.__new__(ActorCell)
        cell.set_cap(cap, self._reserve)
        cell.kernel = self._kernel
        cell.behavior = behavior
        cell.state = state
        cell.name = name
        cell.ctx = None
        cell.context = context
        cell.driver = None
        cell.message = None
        cell.failed_message = None
        cell.stashed = None
        cell.supervisor = parent
        # Until its init has finished it counts as being visited: messages wait and do not make it ready.
        cell.queued = with_init
        cell.next_ready = None
        cell.serial = self.spawned
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
        actor = self.table.admit(cell)
        if actor is None:
            return None
        cell.actor = actor
        if kept_mailbox is not None:
            cell.take_messages_of(kept_mailbox)
        self.spawned += 1
        if self._kernel.on_actor_start is not None:
            self._kernel.call_hook(self._kernel.on_actor_start, (actor, name))
        # The hook may have stopped it already.
        if cell.status == INIT and not with_init:
            cell.status = actor.status = RUNNING
        return actor

    def _run_init(self, cell: ActorCell, init: Callable[[Any], Any]) -> None:
        """Call an actor's init. The caller may be inside another actor's turn, which goes on afterwards."""
        ctx = self._kernel.make_context(cell)
        # There is no message.
        ctx.tag = 0
        ctx.sender = 0
        ctx.lane_number = DATA
        before = self._kernel.current
        if before is not None:
            self._kernel.outer.append(before)
        self._kernel.current = cell
        try:
            state = init(ctx)
        except (KeyboardInterrupt, SystemExit) as error:
            self._kernel.exit_with(error)
            if cell.status >= STOPPING:
                self.exit_actor(cell, cell.reason, cell.cause)
            return
        except BaseException as error:  # noqa: BLE001  # a panic is anything an init raises
            self.init_error = error
            if cell.status < STOPPING:
                cell.reason = NORMAL if issubclass(type(error), IgnoreChild) else PANIC
                cell.cause = error
            self.exit_actor(cell, cell.reason, cell.cause)
            return
        finally:
            self._kernel.current = before
            if before is not None:
                self._kernel.outer.pop()
        if cell.status >= STOPPING:
            # It was stopped during its init, and ends now.
            self.init_error = cell.cause
            if is_coroutine(state):
                state.close()
            self.finish(cell)
        elif is_coroutine(state):
            self._kernel.coroutines.start_later(cell, state, cell.context)
        elif state is NOT_YET:
            self._kernel.settle(cell)
        else:
            ctx.state = state
            self._mark_running(cell)

    def _mark_running(self, cell: ActorCell) -> None:
        """An actor has started."""
        actor = cell.actor
        assert actor is not None
        cell.status = actor.status = RUNNING
        self._kernel.settle(cell)

    def init_finished(self, cell: ActorCell, state: object) -> None:
        """An asynchronous init has finished: the actor has started, and its supervisor gets a `ChildStart`."""
        ctx = cell.ctx
        actor = cell.actor
        assert ctx is not None
        assert actor is not None
        ctx.state = state
        cell.status = actor.status = RUNNING
        supervisor = cell.supervisor
        if supervisor is not None and supervisor.status < STOPPING:
            self._kernel.send_reserved(supervisor, ChildStart(actor), CHILD_START, 0)

    def declare_started(self, target: ActorId) -> None:
        """Say that an actor whose init returned `NOT_YET` has started: its supervisor gets a `ChildStart`."""
        actor = self._kernel.require_id(target)
        cell = actor.cell
        if cell is not None and cell.status == INIT:
            self.init_finished(cell, None)

    # -- ending actors ----------------------------------------------------------------------------------------------

    def stop_actor(self, target: ActorId | int) -> None:
        """End an actor with reason NORMAL. `Loop.stop_actor` says what it raises."""
        cell = self._kernel.reach(target)
        if cell is None:
            raise self._kernel.missing_error(target)
        self.end_actor(cell, NORMAL, None)

    def fail_actor(self, target: ActorId | int, reason: BaseException | str | None) -> None:
        """End an actor with reason FAIL. `Loop.fail_actor` says what it raises."""
        cell = self._kernel.reach(target)
        if cell is None:
            raise self._kernel.missing_error(target)
        if reason is not None and not isinstance(reason, BaseException):
            reason = ActorFailedError(safe_str(reason))
        self.end_actor(cell, FAIL_REASON, reason)

    def kill_actor(self, target: ActorId | int) -> None:
        """Kill an actor. `Loop.kill_actor` says what it raises."""
        self._kernel.check_thread()
        actor = None if self._kernel.is_closed else self._kernel.local_id(target)
        cell = None if actor is None else actor.cell
        if cell is None:
            raise self._kernel.missing_error(target)
        self.kill(cell, ActorKilledError(f"actor {self._kernel.label(cell)} was killed"))

    def stop_or_kill(self, target: ActorId, cause: BaseException | None = None) -> None:
        """End an actor unless it has exited: kill it if there is a cause, else stop it."""
        actor = self._kernel.require_id(target)
        cell = actor.cell
        if cell is None:
            return
        if cause is not None:
            self.kill(cell, cause)
        else:
            self.end_actor(cell, NORMAL, None)

    def panic(self, actor: ActorId, cause: BaseException | None) -> None:
        """End an actor, if it is alive, as if its own behavior had raised."""
        cell = actor.cell
        if cell is not None:
            self.end_actor(cell, PANIC, cause)

    def close_mailbox(self, target: ActorId) -> None:
        """Have an actor accept no more user messages, handle those it has, and then end with reason NORMAL.

        Raises:
            NoSuchActorError, ActorNotLocalError, LoopClosedError, WrongThreadError: as for `Loop.stop_actor`.
        """
        cell = self._kernel.reach(target)
        if cell is None:
            raise self._kernel.missing_error(target)
        cell.close()
        if not cell.queued and cell.driver is None and cell.status == RUNNING and not cell.is_expecting():
            self.end_actor(cell, NORMAL, None)

    def end_all(self) -> None:
        """End every living actor, the youngest first, and a supervisor's children in reverse order.

        Supervisors and monitors end as well, so they are not notified.
        """
        self.is_ending_all = True
        for cell in self.table.living():
            if cell.supervisor is None or cell.supervisor.children is None:
                self.end_actor(cell, NORMAL, None)
        # Children that their supervisors have left.
        for cell in self.table.living():
            self.end_actor(cell, NORMAL, None)
        # No tick comes any more: messages of other threads are dead, and pending calls of theirs run now.
        self._kernel.inbox.drain()
        self._kernel.timers.end_calls()
        while self._kernel.run_queue.count > 0:
            self._kernel.run_queue.pop()

    def end_suspended(self) -> list[str]:
        """End the actors whose coroutine has not finished in time, without it; return their labels."""
        labels: list[str] = []
        for cell in self.table.living():
            if cell.driver is not None:
                labels.append(self._kernel.label(cell))
                self.exit_actor(cell, cell.reason, cell.cause)
        return labels

    def end_actor(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """End an actor now; if its behavior runs or is suspended, as soon as that has finished."""
        if self._prepare_end(cell, reason, cause):
            self.exit_actor(cell, cell.reason, cell.cause)

    @cython.nonecheck(False)
    def _prepare_end(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> bool:
        """Do everything of `end_actor` before the exit; return True if the caller has to call `exit_actor` now."""
        if cell.status >= STOPPING:
            return False
        driver = cell.driver
        if driver is not None or self.is_running(cell):
            self.mark_stopping(cell)
            cell.reason = reason
            cell.cause = cause
            if driver is None:
                return False
            driver.cancel()
            if cell.driver is not None or self.is_running(cell):
                return False
            # Its coroutine had not even begun: there is nothing to wait for.
        else:
            cell.reason = reason
            cell.cause = cause
        return cell.exit_hook is None or not self._run_exit_hook(cell)

    def kill(self, cell: ActorCell, cause: BaseException) -> None:
        """End an actor now, whatever its coroutine does; if its behavior runs, as soon as it returns."""
        if self._prepare_kill(cell, cause):
            self.exit_actor(cell, FAIL_REASON, cause)

    def _prepare_kill(self, cell: ActorCell, cause: BaseException) -> bool:
        """Do everything of `kill` before the exit; return True if the caller has to call `exit_actor` now."""
        driver = cell.driver
        cell.exit_hook = None
        if driver is not None:
            driver.cancel()
        if not self.is_running(cell):
            return True
        self.mark_stopping(cell)
        cell.reason = FAIL_REASON
        cell.cause = cause
        return False

    def finish(self, cell: ActorCell) -> None:
        """Run the exit hook of an actor that is doing nothing, and exit it for the reason it has noted."""
        if cell.exit_hook is None or not self._run_exit_hook(cell):
            self.exit_actor(cell, cell.reason, cell.cause)

    def _run_exit_hook(self, cell: ActorCell) -> bool:
        """Run the exit hook, as the actor's last turn; return True if it is asynchronous."""
        exit_hook, cell.exit_hook = cell.exit_hook, None
        self.mark_stopping(cell)
        ctx = cell.ctx
        if ctx is not None and isinstance(ctx.sender, DeliveryCallback):
            # The sender of the current message need not wait for the exit hook, nor interrupt it.
            callback = ctx.sender
            ctx.sender = 0
            callback.interrupted(cell.actor, cell.name, cell.reason, cell.cause)
        before = self._kernel.current
        if before is not None:
            self._kernel.outer.append(before)
        self._kernel.current = cell
        result: object = None
        try:
            result = exit_hook(REASONS[cell.reason], cell.cause)  # type: ignore[misc]  # the caller has checked
        except (KeyboardInterrupt, SystemExit) as error:
            self._kernel.exit_with(error)
        except BaseException as error:  # noqa: BLE001  # whatever it raises, the actor ends
            self._kernel.reporter.error(f"the exit hook of {self._kernel.label(cell)} raised", error)
        finally:
            self._kernel.current = before
            if before is not None:
                self._kernel.outer.pop()
        if not is_coroutine(result):
            return False
        self._kernel.coroutines.start_later(cell, result, cell.context)
        return True

    def is_running(self, cell: ActorCell) -> bool:
        """Return True if an actor is in the middle of its turn: it can end only when that is over."""
        return cell is self._kernel.current or (len(self._kernel.outer) > 0 and cell in self._kernel.outer)

    @cython.nonecheck(False)
    def mark_stopping(self, cell: ActorCell) -> None:
        """Accept no message any more: the actor ends when its behavior has returned."""
        cell.status = STOPPING
        actor = cell.actor
        assert actor is not None
        actor.status = STOPPING

    def exit_actor(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Run the exit path. The module docstring lists its steps."""
        self._begin_exit(cell, reason, cause)
        if cell.children is not None:
            self._exit_children(cell)
        self._complete_exit(cell)

    @cython.nonecheck(False)
    def _begin_exit(self, cell: ActorCell, reason: ReasonNumber, cause: BaseException | None) -> None:
        """Step 1: the id is stale."""
        actor = cell.actor
        assert actor is not None
        # Delivery callbacks of its messages pass these on.
        cell.reason = reason
        cell.cause = cause
        cell.exit_hook = None
        cell.status = STOPPED if reason == NORMAL else FAILED
        actor.status = cell.status
        actor.reason = reason
        actor.cell = None

    def _exit_children(self, cell: ActorCell) -> None:
        """Step 2: end the children, the last one first, and each one's own children before it.

        It walks the tree with a stack of its own. Recursion would limit how deep a tree of actors may be, and where it
        broke off, actors would live on without a parent.
        """
        stack: list[tuple[ActorCell, ChildGroup, list[ActorId]]] = [self._take_children(cell)]
        self._kernel.hook_depth += 1
        try:
            while True:
                ending, family, children = stack[len(stack) - 1]
                if len(children) > 0:
                    actor = children.pop()
                    child = actor.cell
                    if child is None or not self._prepare_child_end(child, family):
                        continue
                    self._begin_exit(child, child.reason, child.cause)
                    if child.children is not None:
                        stack.append(self._take_children(child))
                    else:
                        self._complete_exit(child)
                    continue
                stack.pop()
                if len(stack) == 0:
                    return
                self._complete_exit(ending)
        finally:
            self._kernel.hook_depth -= 1

    def _take_children(self, cell: ActorCell) -> tuple[ActorCell, ChildGroup, list[ActorId]]:
        """Take the family from an actor that has exited, with the children that end with it."""
        family, cell.children = cell.children, None
        assert family is not None
        children: list[ActorId] = []
        self._kernel.call_hook(family.take_all, (children,))
        return (cell, family, children)

    def _prepare_child_end(self, cell: ActorCell, family: ChildGroup) -> bool:
        """End a child whose parent has exited; return True if the caller has to exit it now."""
        if self._prepare_end(cell, NORMAL, None):
            return True
        if cell.status >= STOPPED or self._kernel.is_closed:
            # When the whole loop ends, it waits for all coroutines together.
            return False
        cause = family.kill_cause()
        if cause is None or not self._prepare_kill(cell, cause):
            return False
        cell.reason = FAIL_REASON
        cell.cause = cause
        return True

    @cython.nonecheck(False)
    def _complete_exit(self, cell: ActorCell) -> None:
        """Steps 3 to 7."""
        actor = cell.actor
        assert actor is not None
        name = cell.name
        supervisor = cell.supervisor
        ctx = cell.ctx
        reason = cell.reason
        cause = cell.cause
        if cell.timers is not None:
            self._kernel.timers.release_all(cell)
        if cell.fds > 0:
            self._kernel.fds.release(actor)
        if cell.stashed is not None:
            # Stashed messages share the outcome of waiting ones, and go first.
            self._kernel.unstash_cell(cell, None)
        if (
            cell.keeps_mailbox != KEEPS_NOTHING
            and supervisor is not None
            and supervisor.children is not None
            and not self.is_ending_all
        ):
            if cell.keeps_mailbox == KEEPS_ASKS:
                dead = self._kernel.discard_all_but_asks(cell)
                if cell.waiting() == 0:
                    cell.keeps_mailbox = KEEPS_NOTHING
            else:
                dead = self._kernel.discard_lanes(cell, SYSTEM)
            if cell.keeps_mailbox != KEEPS_NOTHING and not self._kernel.call_hook(
                supervisor.children.keep, (actor, cell)
            ):
                dead += self._kernel.discard_messages(cell)
        else:
            dead = self._kernel.discard_messages(cell)
        if ctx is not None and isinstance(ctx.sender, DeliveryCallback):
            # The current message: its coroutine will not finish any more, or not for this actor.
            ctx.sender.interrupted(actor, name, reason, cause)
        self.table.release(actor.number)
        self.ended[reason] += 1
        self._kernel.check_idle()
        # The place of a sender, which is 0 if there is none.
        facts: Any = 0
        if reason != NORMAL and not self.is_ending_all:
            # Whatever logs the crash needs these.
            facts = (cell.behavior, cell.state if ctx is None else ctx.state, cell.failed_message)
            cell.failed_message = None
            if cause is not None:
                actor.end_cause = brief_cause(cause)
        # Release the program's objects now, not when the last id goes.
        cell.behavior = None
        cell.state = None
        cell.ctx = None
        cell.context = None
        if cell.keeps_mailbox == KEEPS_NOTHING:
            # Its traceback may hold this cell. A cell that is kept still has messages whose callbacks need the cause.
            cell.cause = None
        if self._kernel.on_actor_stop is not None:
            self._kernel.call_hook(self._kernel.on_actor_stop, (actor, REASONS[reason]))
        cell.supervisor = None
        if cell.watching is not None:
            self._kernel.links.remove_monitors_of(cell)
        if self.is_ending_all:
            return
        if supervisor is not None and supervisor.status < STOPPING:
            child_exit = new_triple(ChildExit, actor, REASONS[reason], cause)
            # Only a supervisor logs a crash. For any other actor the message has no sender.
            supervisor.offer_reserved(child_exit, CHILD_EXIT, facts if supervisor.children is not None else 0)
            self._kernel.counters.accepted += 1
            if not supervisor.queued:
                self._kernel.make_ready(supervisor)
        elif reason != NORMAL and not cell.exit_observed:
            self._kernel.reporter.actor_crashed(actor, name, reason, cause, dead, facts)
        if cell.watchers is not None:
            self._kernel.links.notify_monitors(cell, reason, cause)
        if cell.links is not None:
            self._kernel.links.notify_links(cell, reason, cause)

    # -- settings ---------------------------------------------------------------------------------------------------

    def set_child_group(self, target: ActorId, children: ChildGroup) -> None:
        """Make an actor a supervisor: `children` knows its children, which end with it."""
        actor = self._kernel.require_id(target)
        cell = actor.cell
        if cell is not None:
            cell.children = children

    def is_supervisor(self, target: object) -> bool:
        """Return True if an actor is alive and a supervisor."""
        actor = self._kernel.local_id(target)
        cell = None if actor is None else actor.cell
        return cell is not None and cell.children is not None

    def group_around(self, actor: ActorId) -> ChildGroup | None:
        """Return the children that an actor belongs to, as its supervisor gave them; None if it has exited or has no supervisor."""
        cell = actor.cell
        above = None if cell is None else cell.supervisor
        return None if above is None else above.children

    def set_exit_hook(
        self, target: ActorId, exit_hook: Callable[[ExitReason, BaseException | None], object]
    ) -> None:
        """Have an actor run `exit_hook(reason, cause)` as its last turn, unless it is killed.

        The hook may return a coroutine: then the actor is STOPPING until that has finished. What it raises is logged.
        """
        actor = self._kernel.require_id(target)
        cell = actor.cell
        if cell is not None:
            cell.exit_hook = exit_hook

    def set_exit_handled(self, target: ActorId) -> None:
        """Say that something other than a supervisor handles an actor's abnormal exit: then it is not logged."""
        actor = self._kernel.require_id(target)
        cell = actor.cell
        if cell is not None:
            cell.exit_observed = True

    def is_exit_handled(self, target: ActorId) -> bool:
        """Return True if `set_exit_handled` was called for an actor that is alive."""
        actor = self._kernel.require_id(target)
        cell = actor.cell
        return cell is not None and cell.exit_observed

    def watch_exit(self, actor: ActorId, callback: DeliveryCallback) -> Timer | None:
        """Call `callback.lost` when an actor exits, or now if it has; return what `stop_watching_exit` takes."""
        cell = actor.cell
        if cell is None:
            callback.lost(actor, None, actor.reason, None)
            return None
        return self._kernel.timers.watch_exit(cell, callback)

    def on_exit(
        self, actor: ActorId, callback: Callable[[ExitReason, BaseException | None], object]
    ) -> Callable[[], None]:
        """Call a function when an actor exits, or now if it has; return what cancels that.

        It is called inside the exit, when sends to the actor are refused already and before the observer, the supervisor,
        monitors and links are notified. It must not raise.
        """
        timer = self.watch_exit(actor, ExitCallback(callback))
        timers = self._kernel.timers

        def cancel() -> None:
            if timer is not None:
                timers.stop_waiting(timer)

        return cancel
