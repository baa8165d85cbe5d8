"""The engine of a supervisor: an actor that starts children, hears of their ends, and does what its spec says.

How it works. Each child has a *seat*, which outlives its incarnations. Everything that happens comes as a message on the
SYSTEM lane: a child has ended (`ChildExit`), an init that took its time has ended well (`ChildStart`), a backoff is over
(`Restart`), a child was stopped and did not end in its time (`Deadline`), somebody wants us to end (`Shutdown`). A message
changes what is wanted of some seats; then `_reconcile` does the next thing that can be done: stop whoever must end, from the
last seat to the first and one at a time, then start whoever waits, from the first to the last. When the next thing needs
time (a coroutine that is being cancelled, an init in flight, a backoff) it returns, and the message that tells of it comes
back here. So a request to stop is never starved, not even by a child that fails as fast as it can be started: its failed
restart is one more message, behind those that wait already.

What follows from an end is decided by the pure functions of `decision`. Under ONE_FOR_ONE seats have nothing to do with each
other once all have started, and a restart touches one seat only: no walk over the others.

Refused: a queue of steps, which must be patched whenever a child dies in the middle of it; asking by messages to start and
stop children (a call on the loop's own thread can answer at once); a task for each child.
"""

from __future__ import annotations

from contextvars import Context as ContextVars
from heapq import heappop
from typing import TYPE_CHECKING, Any

from bandstand.core import ActorId, ActorStatus, ChildExit, ChildStart, Context, ExitReason
from bandstand.core.lifelines import is_answered_for
from bandstand.core.lowlevel import (
    NOT_YET,
    checked_cap,
    declare_started,
    end_actor,
    fail_loop,
    set_family,
    spawn_child,
)
from bandstand.errors import IgnoreChild, NoSuchActor
from bandstand.supervision import log as story
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.household import Household
from bandstand.supervision.intensity import Intensity
from bandstand.supervision.judge import Judge, Restart
from bandstand.supervision.place import DOWN, STARTING, STOPPING, WAITING
from bandstand.supervision.seats import Maker
from bandstand.supervision.stage import CLOSED, CLOSING, OPEN, OPENING, Deadline, End
from bandstand.supervision.vocabulary import Strategy

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("Engine",)


class Engine(Judge):
    """A supervisor as an actor."""

    __slots__ = (
        "_has_wondered",
        "_is_in_init",
        "_is_told",
        "_parent",
    )

    # Whether children are stopped all at once when the supervisor ends: those of one shape do not build on each other.
    stops_together = False

    def __init__(
        self, loop: Loop, name: str, context: ContextVars, make: Maker, intensity: Intensity
    ) -> None:
        super().__init__(loop, name, context, make, intensity)
        self._parent: ActorId | int | None = None
        # Whoever started us knows already why that failed.
        self._is_told = False
        self._has_wondered = False
        self._is_in_init = False

    # -- being an actor ------------------------------------------------------------------------------------------------------

    def launch(self, parent: ActorId | int | None, *, depth: int = 1) -> None:
        """Make the actor and start the children. `spawn_supervisor` and a supervisor above call it, once."""
        self._parent = parent
        self._depth = depth
        cap = checked_cap(self._loop, None)
        self._me = spawn_child(
            self._loop, self, self._init, name=self._name, cap=cap, supervisor=parent, context=self._context
        )

    def raise_failed_start(self) -> None:
        """Raise what is known by now of a start that failed. Whoever started us is told so: it need not end the loop."""
        if self._outcome is not None:
            self._is_told = True
            raise self._outcome

    def _first_seats(self) -> list[Seat]:
        """The children to begin with. The kinds of supervisors override it."""
        return []

    def _init(self, ctx: Context[Any]) -> object:
        self._me = ctx.self_id
        set_family(self._loop, self._me, Household(self))
        for seat in self._first_seats():
            seat.phase = WAITING
            self._add(seat)
            self._queue_start(seat)
        self._is_busy = self._is_in_init = True
        try:
            self._reconcile()
        finally:
            self._is_busy = self._is_in_init = False
        return None if self._stage in {OPEN, CLOSED} else NOT_YET

    # -- what happens ----------------------------------------------------------------------------------------------------------

    def _wonder(self, data: object) -> None:
        if not self._has_wondered:
            self._has_wondered = True
            story.log_stray(self._name, data)

    def _on_news(self, data: object) -> None:
        if type(data) is Restart:
            self._on_restart(data)
        elif type(data) is ChildStart:
            self._on_start(data.child)
        elif type(data) is Deadline:
            self._on_deadline(data.child)
        elif type(data) is End:
            self._begin_end(None)
            self._reconcile()

    def _on_rare_exit(self, seat: Seat | None, exit: ChildExit) -> None:  # noqa: A002  # what it is
        child, reason, cause = exit
        if seat is None:
            # Its end was accounted for when it happened.
            if self._untold:
                self._tell(child, reason, cause)
            return
        phase = seat.phase
        self._vacate(seat)
        if phase is STOPPING or seat.must_end or self._stage is CLOSING:
            # Told to end, or about to be; if it failed by itself, nobody else would say so.
            self._untold[child] = seat.name
            self._tell(child, reason, cause)
            self._left(seat)
        elif (
            phase is STARTING
            and cause is not None
            and issubclass(type(cause), IgnoreChild)
            and reason is ExitReason.NORMAL
        ):
            self._ignore(seat, cause)
        elif (
            phase is STARTING
            and self._stage is OPENING
            and not seat.is_again
            and reason is not ExitReason.NORMAL
        ):
            self._start_failed(seat, cause)
        elif seat.is_requested and reason is not ExitReason.NORMAL:
            story.log_end(self._name, (seat.name, reason, cause), "could not start")
            self._give_back(seat)
        else:
            seat.is_requested = seat.is_added = False
            self._judge(seat, (seat.name, reason, cause))
        self._reconcile()

    def _give_back(self, seat: Seat) -> None:
        """A start that somebody asked for has failed: everything is as it was before."""
        seat.phase = DOWN
        self._bury(seat)
        seat.is_requested = False
        seat.is_held = seat.was_held
        if seat.is_added:
            self._forget(seat)

    def _on_start(self, child: ActorId) -> None:
        seat = self._by_actor.get(child)
        if seat is not None and seat.phase is STARTING:
            self._started(seat, child)
            self._reconcile()

    def _on_restart(self, restart: Restart) -> None:
        seat = restart.seat
        if self._gate is not None and self._gate.token == restart.token:
            self._gate = None
            self._reconcile()
        elif seat.token == restart.token and seat.is_gated:
            seat.is_gated = False
            seat.timer = None
            if restart.error is None:
                if not self._is_loose:
                    self._queue_start(seat)
                self._start_again(seat)
            else:
                self._judge(seat, (seat.name, ExitReason.FAIL, restart.error))
            self._reconcile()

    def _on_deadline(self, child: ActorId) -> None:
        seat = self._by_actor.get(child)
        if seat is None or seat.phase is not STOPPING:
            return
        patience = seat.spec.patience_ms or 0.0
        story.log_kill(self._name, seat.name, patience)
        seat.timer = None
        self._kill(seat)
        self._reconcile()

    # -- doing it ------------------------------------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Do what can be done now towards what is wanted. The module's text says how."""
        if self._is_loose:
            return
        if not self._stop_next():
            return
        if self._stage is CLOSING:
            self._conclude()
        elif self._gate is None and self._stage is not CLOSED:
            self._start_next()

    def _carry_on(self, seat: Seat | None = None) -> None:
        """After a request, perhaps about one child: do what it wants, as after a message."""
        self._is_busy = True
        try:
            if seat is not None and seat.must_end and seat.phase is not STOPPING and self._is_loose:
                self._stop(seat)
            self._reconcile()
        finally:
            self._is_busy = False

    def _stop_next(self) -> bool:
        """Stop whoever must end, from the last to the first; False while somebody is still at it."""
        if self.stops_together:
            return self._stop_together()
        heap = self._to_stop
        while heap:
            seat = heap[0][1]
            if seat.must_end and seat.phase is not STOPPING:
                self._stop(seat)
                if self._stage is CLOSED:
                    # A hook has ended us in the middle of it, and everybody with us.
                    return False
            if seat.phase is STOPPING:
                return False
            if heap and heap[0][1] is seat:
                heappop(heap)
        return True

    def _stop_together(self) -> bool:
        """Stop everybody at once; False while somebody is still at it."""
        while self._to_stop:
            seat = heappop(self._to_stop)[1]
            if seat.must_end and seat.phase is not STOPPING:
                self._stop(seat)
                if self._stage is CLOSED:
                    return False
        return not self._by_actor

    def _start_next(self) -> None:
        """Start whoever waits, from the first to the last, until one takes its time."""
        heap = self._to_start
        while heap:
            seat = heap[0][1]
            if seat.can_start:
                self._start_again(seat)
                if self._stage is CLOSING:
                    # It did not start.
                    self._reconcile()
                    return
                if seat.can_start:
                    # We are being ended ourselves.
                    return
            if seat.phase is STARTING or (seat.is_gated and self._strategy is not Strategy.ONE_FOR_ONE):
                return
            if heap and heap[0][1] is seat:
                heappop(heap)
        if self._stage is OPENING:
            self._stage = OPEN
            self._is_loose = self._strategy is Strategy.ONE_FOR_ONE
            if not self._is_in_init:
                declare_started(self._loop, self.actor)

    def _settles_at_once(self) -> bool:
        # A start that failed at once is undone at once: whoever asked for it is told.
        return self._is_in_init or super()._settles_at_once()

    def _conclude(self) -> None:
        """Everybody has ended: so do we."""
        self._stage = CLOSED
        if self._outcome is not None and self._is_alone() and not self._is_in_init:
            fail_loop(self._loop, self._outcome)
        end_actor(self._loop, self.actor, self._outcome)

    def _is_alone(self) -> bool:
        """Whether nobody would hear of a bad end: nobody above, nor who asked for a start that failed, nor who answers for us."""
        if self._is_told or is_answered_for(self._loop, self.actor):
            return False
        if self._parent is None:
            return True
        try:
            return self._loop.status(self._parent) >= ActorStatus.STOPPING
        except NoSuchActor:  # it was named by its number, which names nobody any more
            return True
