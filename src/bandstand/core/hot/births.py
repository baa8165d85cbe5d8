"""Children: how a supervisor starts one, and what it is asked about those it has.

A child has an *init*, a function of its context that gives it its state. It is called inside the call that starts the
child, so most children have started, or have failed to, when that call returns. An init may also be a coroutine function.
Then the actor stays INIT while it is in flight, messages wait, and its supervisor gets a `ChildStart` when it has ended.
An init that raises is a panic like any other: the actor ends by the one exit path, and its supervisor hears of it once. With an
`IgnoreChild` it says that the child is not needed: that end is normal, with the error as its cause.

What a child left unread can be kept: its cell is then not emptied at its end but handed to the supervisor's family (the
*estate*), and the next incarnation inherits it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.enums import DATA, FAR, INIT, NORMAL, PANIC, RUNNING, STOPPING, SYSTEM, SystemTag
from bandstand.core.hot.kernel import Kernel, is_coroutine
from bandstand.core.hot.life import REASONS
from bandstand.core.hot.post import Hook
from bandstand.core.mailbox import ActorCell
from bandstand.core.messages import ChildStart
from bandstand.errors import BandstandError, IgnoreChild, InvalidArgument, MaxActors, NoMemory
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.context import ActorContext
    from bandstand.core.enums import ExitReason, Overflow
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ChildGroup
    from bandstand.core.timer_wheel import Timer

Count: TypeAlias = int
Milliseconds: TypeAlias = int
Nanoseconds: TypeAlias = int

CHILD_START = SystemTag.CHILD_START
UNBORN = True
# What an init answers that goes on by messages: a supervisor's, which waits for its children.
NOT_YET = object()


class Births(Kernel):
    """What supervisors ask of the kernel."""

    __slots__ = ("_escalations", "_init_error", "_on_escalate", "_on_restart", "_restarts")

    def __init__(
        self,
        loop_tag: Count,
        max_actors: Count,
        reserve: Count,
        max_msgs_per_actor: Count,
        max_actors_per_tick: Count,
        max_tick: Nanoseconds,
        now: Callable[[], int],
    ) -> None:
        super().__init__(
            loop_tag, max_actors, reserve, max_msgs_per_actor, max_actors_per_tick, max_tick, now
        )
        # What the last init that failed inside the call that started it has raised.
        self._init_error: BaseException | None = None
        self._on_restart: Hook | None = None
        self._on_escalate: Hook | None = None
        # How many children were started again, and how many supervisors have given up.
        self._restarts: Count = 0
        self._escalations: Count = 0

    def _perform_later(
        self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None
    ) -> None:
        """Have a coroutine begun by the host, in a task of its own. The loop above overrides it."""

    def _no_seat(self) -> BandstandError:
        """The error for a table that is full. The loop above overrides it."""
        return MaxActors("as many actors live as may")

    def _spawn_child(
        self,
        behavior: Callable[..., Any],
        init: Callable[[ActorContext], Any] | None,
        name: str | None,
        cap: Count,
        supervisor: ActorId | int | None,
        context: Context | None,
        keeps: bool,
        estate: ActorCell | None,
        overflow: Overflow | None = None,
    ) -> ActorId:
        """Make an actor of checked arguments and run its init.

        Its status says how it went: RUNNING, INIT if it is still at it, or an end, which its supervisor hears of.
        """
        self._check_thread()
        if self._closed:
            raise self._missing(0)
        self._init_error = None
        try:
            actor = self._create(
                behavior, None, name, cap, overflow, supervisor, context, UNBORN, keeps, estate
            )
        except MemoryError as error:
            raise NoMemory("there is no memory for one more actor") from error
        if actor is None:
            raise self._no_seat()
        cell = actor.cell
        if cell is None:
            # The observer has stopped it already.
            return actor
        if init is None:
            self._begin(cell)
        else:
            self._run_init(cell, init)
        return actor

    def _run_init(self, cell: ActorCell, init: Callable[[ActorContext], Any]) -> None:
        """Call an actor's init. It may be called from within another actor's turn, which goes on afterwards."""
        turn = self._make_turn(cell)
        # There is no message.
        turn.tag = 0
        turn.sender = 0
        turn.lane_number = DATA
        before = self._current
        if before is not None:
            self._outer.append(before)
        self._current = cell
        try:
            state = init(turn)
        except (KeyboardInterrupt, SystemExit) as error:
            self._leave(error)
            if cell.status >= STOPPING:
                self._exit(cell, cell.reason, cell.cause)
            return
        except BaseException as error:  # noqa: BLE001  # a panic is whatever an init raises
            self._init_error = error
            if cell.status < STOPPING:
                cell.reason = NORMAL if issubclass(type(error), IgnoreChild) else PANIC
                cell.cause = error
            self._exit(cell, cell.reason, cell.cause)
            return
        finally:
            self._current = before
            if before is not None:
                self._outer.pop()
        if cell.status >= STOPPING:
            # It wished to end, and has ended now.
            self._init_error = cell.cause
            if is_coroutine(state):
                state.close()
            self._finish(cell)
        elif is_coroutine(state):
            self._perform_later(cell, state, cell.context)
        elif state is NOT_YET:
            self._settle(cell)
        else:
            turn.state = state
            self._begin(cell)

    def _say_goodbye(self, cell: ActorCell) -> bool:
        """Have an actor do what it still has to, as its last turn; True if that is a coroutine, to be waited for."""
        epilogue, cell.exit_hook = cell.exit_hook, None
        self._mark_stopping(cell)
        turn = cell.turn
        if turn is not None and isinstance(turn.sender, DeliveryCallback):
            # Whoever waits for the message at hand need not wait for what comes now, nor interrupt it.
            receipt = turn.sender
            turn.sender = 0
            receipt.interrupted(cell.actor, cell.name, cell.reason, cell.cause)
        before = self._current
        if before is not None:
            self._outer.append(before)
        self._current = cell
        last: object = None
        try:
            last = epilogue(REASONS[cell.reason], cell.cause)  # type: ignore[misc]  # _finish has looked
        except (KeyboardInterrupt, SystemExit) as error:
            self._leave(error)
        except BaseException as error:  # noqa: BLE001  # whatever it raises: the actor ends as it was going to
            self._complain(f"the end of {self._called(cell)} raised", error)
        finally:
            self._current = before
            if before is not None:
                self._outer.pop()
        if not is_coroutine(last):
            return False
        self._perform_later(cell, last, cell.context)
        return True

    def _set_epilogue(
        self, target: ActorId, epilogue: Callable[[ExitReason, BaseException | None], object]
    ) -> None:
        """Give an actor something to do when it ends, unless it is killed."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is not None:
            cell.exit_hook = epilogue

    def _set_budget(self, target: ActorId, budget: Count) -> None:
        """Say how many messages an actor handles a visit; 0 for the loop's own number."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is not None:
            cell.budget = budget

    def _set_heard(self, target: ActorId) -> None:
        """Note that somebody hears of an actor's end."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is not None:
            cell.exit_observed = True

    def _is_heard(self, target: ActorId) -> bool:
        """Whether somebody hears of an actor's end; of one that has ended nobody does any more."""
        actor = self._own_id(target)
        cell = actor.cell
        return cell is not None and cell.exit_observed

    def _close_mailbox(self, target: ActorId) -> None:
        """Have an actor accept nothing any more, handle what it has, and end."""
        cell = self._reach(target)
        if cell is None:
            raise self._missing(target)
        cell.close()
        if not cell.queued and cell.driver is None and cell.status == RUNNING and not cell.is_expecting():
            self._end(cell, NORMAL, None)

    def _begin(self, cell: ActorCell) -> None:
        """An actor has started."""
        actor = cell.actor
        assert actor is not None
        cell.status = actor.status = RUNNING
        self._settle(cell)

    def _born(self, cell: ActorCell, state: object) -> None:
        """An init that took its time has ended well: the actor has started, and its supervisor is told."""
        turn = cell.turn
        actor = cell.actor
        assert turn is not None
        assert actor is not None
        turn.state = state
        cell.status = actor.status = RUNNING
        supervisor = cell.supervisor
        if supervisor is not None and supervisor.status < STOPPING:
            supervisor.offer_reserved(ChildStart(actor), CHILD_START, 0)
            self._accepted += 1
            if not supervisor.queued:
                self._ready(supervisor)

    def _own_id(self, target: object) -> ActorId:
        """The id that a caller means, which must be one of this loop's; its actor may have ended."""
        self._check_thread()
        actor = self._local_id(target)
        if actor is None:
            raise self._missing(target)
        return actor

    def _has_family(self, target: object) -> bool:
        """Whether an actor, if there is one, is a supervisor."""
        actor = self._local_id(target)
        cell = None if actor is None else actor.cell
        return cell is not None and cell.children is not None

    def _declare_born(self, target: ActorId, state: object) -> None:
        """The same, for an actor whose init has answered NOT_YET."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is not None and cell.status == INIT:
            self._born(cell, state)

    def _set_family(self, target: ActorId, family: ChildGroup) -> None:
        """Make an actor a supervisor: `family` is asked about its children from now on, and ended with it."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is not None:
            cell.children = family

    def _bury_estate(self, estate: ActorCell) -> None:
        """There is no next incarnation: what was kept for it becomes dead letters."""
        if type(estate) is not ActorCell:
            raise InvalidArgument(f"estate is {safe_repr(estate)}: pass what ChildGroup.keep was given")
        self._bury(estate)

    def _kill_quietly(self, target: ActorId, cause: BaseException | None) -> None:
        """End an actor, if it has not ended: killed, if there is a cause, else stopped."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is None:
            return
        if cause is not None:
            self._kill(cell, cause)
        else:
            self._end(cell, 0, None)

    def _post_system_after(
        self, target: ActorId, ms: Milliseconds, data: object, tag: SystemTag
    ) -> Timer | None:
        """Set a timer that comes on the SYSTEM lane; None if the actor has ended."""
        actor = self._own_id(target)
        cell = actor.cell
        if cell is None:
            return None
        return self._start_timer(cell, ms, SYSTEM, data, tag, 0)

    def _post_later(self, target: ActorId, ms: float, lane: Count, data: object, tag: object) -> Timer:
        """Set a timer for a message of the rooms above, whose tag may be any object of theirs."""
        whole = self._checked_delay(ms)
        cell = self._reach(target)
        if cell is None:
            raise self._missing(target)
        return self._start_timer(cell, whole, lane, data, tag, 0)

    def _post_at(self, target: ActorId, at_ms: Milliseconds, lane: Count, data: object, tag: object) -> Timer:
        """The same at a moment: so many milliseconds after the loop was made."""
        cell = self._reach(target)
        if cell is None:
            raise self._missing(target)
        if at_ms >= FAR:
            raise InvalidArgument(
                f"a timer is set for {at_ms} ms: that is beyond the 139 years a loop can reckon with"
            )
        return self._start_timer_at(cell, at_ms, lane, data, tag, 0)

    def _now_ms(self) -> float:
        """Milliseconds since the loop was made."""
        # By a float: compiled, these are C integers, whose quotient is one too.
        return self._elapsed() / 1e6

    def _tell_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """Count that a child was started again, and tell whoever listens."""
        self._restarts += 1
        if self._on_restart is not None:
            self._tell(self._on_restart, (supervisor, child, attempt))

    def _tell_escalation(self, supervisor: ActorId) -> None:
        """Count that a supervisor has given up, and tell whoever listens."""
        self._escalations += 1
        if self._on_escalate is not None:
            self._tell(self._on_escalate, (supervisor,))

    def _rows(self) -> list[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]]:
        """Every living actor, the oldest first: id, name, supervisor's id, status, messages waiting, family."""
        rows: list[tuple[ActorId, str | None, ActorId | None, int, int, ChildGroup | None]] = []
        for cell in self._table.living():
            actor = cell.actor
            assert actor is not None
            parent = None if cell.supervisor is None else cell.supervisor.actor
            rows.append((actor, cell.name, parent, cell.status, cell.waiting(), cell.children))
        rows.reverse()
        return rows
