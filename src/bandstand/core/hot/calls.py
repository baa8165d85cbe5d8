"""Direct calls: a message that is handled inside the turn of the actor that sends it; and slots kept for what was passed on.

Through the run queue a message costs a push, a pop and a visit. Between two actors of one pod, that share a thread and are
restarted together, a call is enough, and what it finds in the processor's caches is still warm. It is made only where the
difference cannot be seen but by the time: the target is idle and nothing waits for it, so nobody is overtaken; its failure
ends it, and never the caller; nobody is ever called into a turn of his own that is not over; and no more than a few are inside
each other, because the stack has an end. A coroutine is never called so: neither as the target, which would need a task of its own,
nor from within, where the context variables are the coroutine's.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.enums import CONTROL, DATA, MANAGEMENT, NORMAL, PANIC, RUNNING, STOPPING, SYSTEM, Verdict
from bandstand.core.hot.births import Births
from bandstand.core.hot.kernel import MAY_PERFORM

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.delivery import StashCounter
    from bandstand.core.ids import ActorId

Count: TypeAlias = int
LaneNumber: TypeAlias = int
Nanoseconds: TypeAlias = int

OK_VERDICT = Verdict.OK
ZERO = 0
# How many actors may be inside each other's turns.
DEEPEST: Count = 16


class Calls(Births):
    """The kernel, with a shorter way between its actors."""

    __slots__ = ("_direct",)

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
        # Whether what an actor sends may be handled inside its turn.
        self._direct = False

    def _call_directly(
        self, actor: ActorId, lane: LaneNumber, data: object, tag: object, sender: object
    ) -> bool:
        """Have an idle actor handle a message inside the turn of the one that sends it; False if it waits for a turn of its own.

        Only where nobody can tell the difference but by the time: the sender is a plain function in its turn, the target does
        nothing and has nothing to do, and no more than a few are inside each other. What the target raises is its own failure.
        """
        current = self._current
        cell = actor.cell
        if (
            current is None
            or cell is None
            or self._halted
            or actor.home is not self
            or PyThread_get_thread_ident() != self._owner
        ):
            return False
        if (
            cell.queued
            or cell.status != RUNNING
            or cell.limit <= 0
            or cell.overdue is not None
            or cell.is_expecting()
            or len(self._outer) >= DEEPEST
        ):
            return False
        turn = cell.turn
        if turn is None:
            turn = self._make_turn(cell)
        behavior = cell.behavior
        turn.lane_number = lane
        turn.tag = tag
        turn.sender = sender
        # As if it were visited: what is sent to it meanwhile waits.
        cell.queued = True
        self._accepted += 1
        self._handled += 1
        self._outer.append(current)
        self._current = cell
        before = self._message
        if self._watching:
            self._message = data
            self._messages += 1
        try:
            verdict = behavior(turn, data)  # type: ignore[misc]  # a living cell has a behavior
            if verdict is not None and verdict is not OK_VERDICT:
                self._judge(cell, verdict, MAY_PERFORM)
            if turn.sender is not ZERO and cell.driver is None:
                turn.sender = 0
        except (KeyboardInterrupt, SystemExit) as error:
            self._leave(error)
        except BaseException as error:  # noqa: BLE001  # a panic is whatever a behavior raises
            self._raised(cell, turn, data, error)
        self._outer.pop()
        self._current = current
        self._message = before
        if cell.driver is None:
            self._settle(cell)
        else:
            cell.message = data
            if cell.status >= STOPPING:
                cell.driver.cancel()
        return True

    def _hold_slot(self, actor: ActorId, lane: LaneNumber) -> None:
        """Count a message that has left an actor's mailbox as if it were still there, until `_free_slots`."""
        cell = actor.cell
        if cell is not None:
            cell.add_coming(lane, 1)

    def _free_slots(self, actor: ActorId, lane: LaneNumber, count: Count) -> None:
        """Count so many such messages no more: whoever waits for room may have it."""
        cell = actor.cell
        if cell is None:
            return
        cell.add_coming(lane, -count)
        if cell.overdue is not None:
            self._land_overdue(cell)
        if cell.closing and not cell.queued and cell.waiting() == 0 and not cell.is_expecting():
            self._end(cell, NORMAL, None)

    def _take_back(self, actor: ActorId, shelf: StashCounter | None) -> Count:
        """Put what an actor has kept on a shelf before what waits for it; how many messages that were."""
        cell = actor.cell
        count = 0 if cell is None else self._put_back(cell, shelf)
        if cell is not None and count > 0 and not cell.queued:
            self._ready(cell)
        return count

    def _holds(self, actor: ActorId, lane: LaneNumber, sender: object) -> bool:
        """Whether the message of one sender waits in a lane of an actor."""
        cell = actor.cell
        return cell is not None and cell.depth(lane) > 0 and cell.lane(lane).has(sender)

    def _move(self, actor: ActorId, lane: LaneNumber, sender: object, to: ActorId) -> bool:
        """Move the message of one sender, if it waits in an actor's mailbox, into that of another; whether it did."""
        cell = actor.cell
        other = to.cell
        if cell is None or other is None:
            return False
        letter = cell.take_out(lane, sender)
        if letter is None:
            return False
        other.put_back(lane, letter[0], letter[1], letter[2])
        if cell.overdue is not None:
            self._land_overdue(cell)
        if not other.queued:
            self._ready(other)
        return True

    def _insight(self, actor: ActorId) -> tuple[Count, Count, Count, Count, Count, bool, object] | None:
        """How an actor stands: what waits in each lane, from SYSTEM to DATA, how many it has kept, and the tag it is suspended in."""
        cell = actor.cell
        if cell is None:
            return None
        turn = cell.turn
        is_suspended = cell.driver is not None
        return (
            cell.depth(SYSTEM),
            cell.depth(CONTROL),
            cell.depth(MANAGEMENT),
            cell.depth(DATA),
            0 if cell.stashed is None else len(cell.stashed),
            is_suspended,
            turn.tag if turn is not None and is_suspended else None,
        )

    def _tag_at_hand(self, actor: ActorId) -> object:
        """The tag of the message that an actor handles at this moment; None if it is not its turn, or it is ending."""
        cell = actor.cell
        if cell is None or cell is not self._current or cell.status >= STOPPING or cell.turn is None:
            return None
        return cell.turn.tag

    def _fail_like(self, actor: ActorId, cause: BaseException | None) -> None:
        """End an actor, if it lives, as if its own behavior had raised: another has, in its name."""
        cell = actor.cell
        if cell is not None:
            self._end(cell, PANIC, cause)

    def _lineage(self, actor: ActorId) -> Context | None:
        """Where the context variables of an actor's coroutines start from; None for the loop's own."""
        cell = actor.cell
        return None if cell is None else cell.context

    def _state_of(self, actor: ActorId) -> object:
        """What an actor remembers; None if it has ended."""
        cell = actor.cell
        if cell is None:
            return None
        return cell.state if cell.turn is None else cell.turn.state
