"""What a supervisor makes of a child's end: the decisions of `decision`, put into its seats and its timers."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context as ContextVars
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from bandstand.core import ActorId, ActorStatus, ExitReason, SystemTag
from bandstand.core.lowlevel import clock_of, send_system_after, tell_escalation
from bandstand.errors import ActorKilled, BandstandError, MaxActors, NoMemory
from bandstand.supervision import log as story
from bandstand.supervision.hot.history import History
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.intensity import Intensity
from bandstand.supervision.place import DOWN, STARTING, WAITING
from bandstand.supervision.restart import Fate, ends_supervisor, who_restarts
from bandstand.supervision.seats import Maker, Seats
from bandstand.supervision.stage import CLOSED, CLOSING, OPENING
from bandstand.supervision.vocabulary import AutoShutdown, ChildMode, Strategy

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("Judge", "Restart")

ONE_FOR_ONE = Strategy.ONE_FOR_ONE
# How long to wait before a restart for which there was no room is tried again: others may end in the meantime.
NO_ROOM_MS = 1


class Restart(NamedTuple):
    """A backoff is over. Stale unless the token is the one that was given out last."""

    seat: Seat
    token: int
    error: BandstandError | None = None
    """There was no room for the child, so there was no actor whose exit could have been heard: it is heard now."""


class Judge(Seats):
    """A supervisor's judgement."""

    __slots__ = (
        "_auto_shutdown",
        "_gate",
        "_now",
        "_tokens",
    )

    def __init__(
        self, loop: Loop, name: str, context: ContextVars, make: Maker, intensity: Intensity
    ) -> None:
        super().__init__(loop, name, context, make, intensity)
        self._now = clock_of(loop)
        self._auto_shutdown: AutoShutdown = AutoShutdown.NEVER
        # While a group waits for the failed child's backoff: the restart that ends the waiting.
        self._gate: Restart | None = None
        self._tokens = count(1)

    def spend_restarts(self) -> None:
        """Count as many restarts as are allowed, as made just now: one failure within the period, and it gives up."""
        self._history = History((self._now(),) * self._intensity.limit)

    def _left(self, seat: Seat) -> None:
        self._forgive(seat)
        super()._left(seat)

    def _forgive(self, seat: Seat) -> None:
        """A child's backoff begins anew after a stable period, however that has ended."""
        if seat.stored_ms and self._now() - seat.started_at >= self._intensity.period_ms:
            seat.stored_ms = 0.0

    def _let_go(self, seat: Seat, failure: story.Failure, fate: Fate) -> None:
        """A child has ended for good."""
        self._forgive(seat)
        if failure[1] is not ExitReason.NORMAL:
            story.log_end(self._name, failure, "does not restart")
        self._bury(seat)
        if fate is Fate.FORGET or not self.keeps_ended:
            self._forget(seat)
        if seat.spec.significant:
            others = [
                other.phase is not DOWN
                for other in self._seats.values()
                if other is not seat and other.spec.significant
            ]
            if ends_supervisor(self._auto_shutdown, others):
                self._begin_end(None)

    def _tell(self, child: ActorId, reason: ExitReason, cause: BaseException | None) -> None:
        """Say that a child has failed that was being stopped anyway, unless we have killed it."""
        name = self._untold.pop(child, None)
        if name is not None and reason is not ExitReason.NORMAL and not issubclass(type(cause), ActorKilled):
            story.log_end(self._name, (name, reason, cause), "was just stopping")

    def _mark_siblings(self, seat: Seat) -> Sequence[str]:
        """Note who is started again together with a child that is, and who must end for it; the names of the former."""
        # If the group waits already, for the backoff of an earlier failure: the latest one decides.
        self._close_gate()
        seats = list(self._seats.values())
        siblings: list[str] = []
        for place in who_restarts(self._strategy, seats.index(seat), len(seats)):
            other = seats[place]
            if other is seat or other.is_held:
                continue
            if other.is_alive:
                self._want_end(other)
                other.comes_back = other.spec.mode is not ChildMode.TEMPORARY
            else:
                self._cancel_timer(other)
                other.is_gated = False
                other.token = 0
                other.phase = WAITING
                self._queue_start(other)
            if other.has_run and not other.is_again and other.spec.mode is not ChildMode.TEMPORARY:
                other.is_again = True
                other.restarts += 1
                siblings.append(other.name)
        return siblings

    def _keeps_failing(self, seat: Seat) -> bool:
        """Whether a child has failed, and is waiting to be tried again, or its last try has just failed."""
        if self._strategy is ONE_FOR_ONE or self._stage is OPENING:
            return False
        if seat.is_gated or (self._gate is not None and self._gate.seat is seat):
            return True
        actor = seat.actor
        if actor is None or seat.phase is not STARTING or not seat.is_again:
            return False
        return self._loop.status(actor) is ActorStatus.FAILED

    def _leave_down(self, seat: Seat) -> None:
        """A child that keeps failing is being stopped on request: those that were to start with it stay down."""
        self._close_gate()
        seats = list(self._seats.values())
        for place in who_restarts(self._strategy, seats.index(seat), len(seats)):
            other = seats[place]
            if other is seat:
                continue
            if other.must_end:
                other.comes_back = other.is_again = False
            elif other.phase is WAITING:
                self._send_away(other)

    def _give_up(self, failure: story.Failure) -> None:
        error = story.gave_up(self._name, self._failures, len(self._history), self._intensity)
        story.log_give_up(self._name, failure, error)
        tell_escalation(self._loop, self.actor)
        self._begin_end(error)

    def _start_failed(self, seat: Seat, cause: BaseException | None) -> None:
        self._begin_end(story.start_failed(self._name, seat.name, cause))

    def _begin_end(self, outcome: BandstandError | None) -> None:
        """From here on children only stop."""
        if self._stage in {CLOSING, CLOSED}:
            return
        self._stage = CLOSING
        self._is_loose = False
        self._outcome = outcome
        self._close_gate()
        self._to_start.clear()
        for seat in list(self._seats.values()):
            self._send_away(seat)

    def _start_again(self, seat: Seat) -> None:
        """Start a child of our own accord. If that fails at once, its exit is on its way to us, behind what waits already.

        Except while we open: then whoever opens us is to know at once.
        """
        self._start(seat)
        if self._stage is OPENING and seat.phase is STARTING and not seat.is_again:
            actor = seat.actor
            assert actor is not None
            if self._loop.status(actor) is ActorStatus.FAILED:
                del self._by_actor[actor]
                cause = self._why_it_failed(seat)
                self._vacate(seat)
                self._start_failed(seat, cause)

    def _no_start(self, seat: Seat, error: BandstandError) -> None:
        if seat.is_requested:
            # Whoever asked for it is told.
            raise error
        if not isinstance(error, (MaxActors, NoMemory)):
            # We are being ended ourselves, from inside an init.
            return
        if self._stage is OPENING and not seat.is_again:
            self._start_failed(seat, error)
        else:
            # There is no actor whose exit could come: the message that says so does.
            self._wait(seat, NO_ROOM_MS, error)

    def _wait(self, seat: Seat, ms: float, error: BandstandError | None = None) -> None:
        """Wait before a restart: for the seat alone, or for the whole group."""
        restart = Restart(seat, next(self._tokens), error)
        seat.token = restart.token
        if self._strategy is ONE_FOR_ONE or error is not None:
            seat.is_gated = True
        else:
            self._close_gate()
            self._gate = restart
        seat.timer = send_system_after(self._loop, self.actor, ceil(ms), restart, SystemTag.CHILD_RESTART)

    def _close_gate(self) -> None:
        if self._gate is not None:
            self._cancel_timer(self._gate.seat)
            self._gate = None
