"""Coroutines in flight: those of behaviors that have suspended, from the kernel's side.

A cell whose coroutine is in flight stands outside the run queue, so that no other message of that actor is begun. It comes back in
two ways: `_go_on`, when what the coroutine waits for is over and it is to be stepped again, and `_resume`, when it has ended.
Who steps it, and in which task's name, is told in `drivers`.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.delivery import StashMessage
from bandstand.core.enums import INIT, NORMAL, STOPPED, STOPPING, Verdict
from bandstand.core.hot.calls import Calls
from bandstand.core.hot.kernel import FINAL
from bandstand.errors import IgnoreChild

if TYPE_CHECKING:
    from bandstand.core.mailbox import ActorCell, CoroutineDriver

OK_VERDICT = Verdict.OK

Count: TypeAlias = int
Nanoseconds: TypeAlias = int


class Flights(Calls):
    """The kernel, for those who step coroutines."""

    __slots__ = ("_home_context", "_may_inline", "_paused", "_ride_context", "_stepper")

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
        # What async behaviors start from if their actor did not bring a context of its own, and where inline ticks run.
        self._home_context = copy_context()
        # In which context the host calls us.
        self._ride_context: Any = self._home_context
        # Whether there is a host, so that whoever waits for an answer outside a tick may run one.
        self._may_inline = False
        # Who steps a coroutine at this moment, and how many wait for something that ends inside the loop.
        self._stepper: Any = None
        self._paused: Count = 0

    def _pause(self) -> Any:
        """Something to wait for that ends inside the loop; None if there is none. The loop above overrides it."""
        return None

    def _suspend(self, cell: ActorCell, driver: CoroutineDriver) -> None:
        """Note that a cell's coroutine has suspended, and who drives it."""
        cell.driver = driver
        self._in_flight += 1

    def _unsuspend(self, cell: ActorCell) -> None:
        """Take that back: it will be driven by another, or by nobody."""
        cell.driver = None
        self._in_flight -= 1

    def _go_on(self, cell: ActorCell) -> None:
        """A coroutine that had paused may go on: its actor has a turn again."""
        self._queue.push(cell)
        self._stir()

    def _go_on_now(self, cell: ActorCell) -> None:
        """The same, in a call of the host: no other is needed to run the tick."""
        self._queue.push(cell)
        if self._awake or self._ticking or not self._may_inline:
            self._stir()
        else:
            self._awake = True
            self._be_called()

    def _be_called(self) -> None:
        """The host has called. The loop above overrides it."""

    def _begin_step(self, cell: ActorCell) -> None:
        """A driver steps the cell's coroutine: until it ends, the actor is the one that is running."""
        self._current = cell
        if self._watching:
            self._message = cell.message
            self._messages += 1

    def _end_step(self) -> None:
        """The step has ended."""
        self._current = None
        if self._watching:
            self._message = None

    def _forget_current(self) -> None:
        """Something of the runtime's own came out of a tick, wherever that was: no behavior runs any more."""
        self._current = None
        self._outer.clear()
        self._stepper = None
        self._message = None

    def _has_ended(self, cell: ActorCell) -> bool:
        """Whether an actor has ended, though its coroutine may not have."""
        return cell.status >= STOPPED

    def _is_stepping(self) -> bool:
        """Whether a behavior is being called or a coroutine stepped at this moment."""
        return self._current is not None

    def _resume(
        self, cell: ActorCell, verdict: object, error: BaseException | None, was_cancelled: bool
    ) -> None:
        """Take a cell back whose coroutine has ended: with a verdict, or with an error that may be a cancellation."""
        cell.driver = None
        message, cell.message = cell.message, None
        self._in_flight -= 1
        # That may have been the last thing that somebody waits for.
        self._look()
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        kind = type(error)
        if issubclass(kind, (KeyboardInterrupt, SystemExit)):
            assert error is not None
            self._leave(error)
        if cell.status >= STOPPED:
            # It was killed, or the loop could not wait any longer and has ended the actor without it.
            return
        if error is None:
            self._forget_sender(cell)
            if cell.status == INIT:
                self._born(cell, verdict)
            elif verdict is not None and verdict is not OK_VERDICT:
                self._judge(cell, verdict, FINAL)
        elif issubclass(kind, (KeyboardInterrupt, SystemExit)):
            pass
        elif cell.status == INIT and issubclass(kind, IgnoreChild):
            # Its init has said that it is not needed.
            self._mark_stopping(cell)
            cell.reason = NORMAL
            cell.cause = error
        elif issubclass(kind, StashMessage) or cell.status < STOPPING:
            # A living cell has a turn once something was in flight.
            self._raised(cell, cell.turn, message, error)  # type: ignore[arg-type]  # see above
        elif not was_cancelled:
            self._complain(f"the behavior of {self._called(cell)} raised while it was being stopped", error)
        self._settle(cell)

    def _abandon(self) -> list[str]:
        """End the actors whose coroutine has not ended in time, without it; what they are called."""
        names: list[str] = []
        for cell in self._table.living():
            if cell.driver is not None:
                names.append(self._called(cell))
                self._exit(cell, cell.reason, cell.cause)
        return names
