"""The way of a restart: the end of a child is heard, judged, and the child is started again.

It is the lowest storey of a supervisor, under its seats. What is rare is left to the storeys above: this one calls it by
name, and they fill it in. Compiled, because a child that fails as fast as it can be started is started a hundred thousand
times a second and more; as Python the way from its end to its next start took longer than the ending and the starting.
"""

# What it asks of the loop is the kernel's own, which nobody else is shown.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from logging import WARNING
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core import ChildExit
from bandstand.core.numbers import RUNNING, STOPPED, SYSTEM
from bandstand.errors import BandstandError, ChildState, IgnoreChild
from bandstand.supervision.hot.history import History
from bandstand.supervision.hot.planning import plan_restart
from bandstand.supervision.log import CAUSES_TOLD, is_heard, log_restart
from bandstand.supervision.place import DOWN, STARTING, UP, WAITING
from bandstand.supervision.restart import RESTART
from bandstand.supervision.stage import CLOSED, CLOSING, OPENING
from bandstand.supervision.vocabulary import Strategy

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.hot.turn import Turn
    from bandstand.supervision.hot.seat import Seat
    from bandstand.supervision.intensity import Intensity
    from bandstand.supervision.log import Failure
    from bandstand.supervision.restart import Fate
    from bandstand.supervision.stage import Stage

Milliseconds: TypeAlias = float

ONE_FOR_ONE = Strategy.ONE_FOR_ONE
# When a child started that has not: it has lived for less than any time.
NEVER: Milliseconds = inf


class Rebirth:
    """How a supervisor starts a child, for the first time and again."""

    __slots__ = (
        "_by_actor",
        "_failures",
        "_history",
        "_init_error",
        "_intensity",
        "_is_busy",
        "_is_loose",
        "_launching",
        "_loop",
        "_me",
        "_name",
        "_stage",
        "_strategy",
    )

    def __init__(self, loop: Loop, name: str, intensity: Intensity) -> None:
        self._loop = loop
        self._name = name
        self._me: ActorId | None = None
        self._stage: Stage = OPENING
        self._strategy: Strategy = ONE_FOR_ONE
        self._intensity = intensity
        self._history = History()
        # The last failures, for the story: no more than it takes to give up, because with its traceback an exception
        # keeps alive what the behavior had in its hands.
        self._failures: deque[Failure] = deque(maxlen=min(CAUSES_TOLD, intensity.limit + 1))
        self._by_actor: dict[ActorId, Seat] = {}
        # Whose init is running at this moment; and what came out of the last one that did not start its child at once.
        self._launching: Seat | None = None
        self._init_error: BaseException | None = None
        # Every seat goes its own way: there is no order to be kept, now that all have started.
        self._is_loose = False
        # A message is being handled, or a call made.
        self._is_busy = False

    # -- what the storeys above fill in --------------------------------------------------------------------------------------

    def _wonder(self, data: object) -> None:
        """Somebody who is not the system has sent something."""

    def _on_news(self, data: object) -> None:
        """The system has sent something else than the end of a child."""

    def _on_rare_exit(self, seat: Seat | None, exit: ChildExit) -> None:  # noqa: A002  # what it is
        """A child has ended that was not simply running, all by itself; None if its end was accounted for already."""

    def _let_go(self, seat: Seat, failure: Failure, fate: Fate) -> None:
        """A child has ended for good."""

    def _give_up(self, failure: Failure) -> None:
        """This restart is one too many."""

    def _mark_siblings(self, seat: Seat) -> Sequence[str]:
        """Note who is started again together with a child that is; their names."""
        raise NotImplementedError

    def _wait(self, seat: Seat, ms: Milliseconds, error: BandstandError | None = None) -> None:
        """Wait before a restart."""

    def _reconcile(self) -> None:
        """Do what can be done now towards what is wanted."""

    def _cap_of(self, seat: Seat) -> int:
        """The slots of a child's mailbox, on this loop."""
        raise NotImplementedError

    def _launch_supervisor(self, seat: Seat) -> ActorId:
        """Start a child that is a supervisor."""
        raise NotImplementedError

    def _no_start(self, seat: Seat, error: BandstandError) -> None:
        """There is no room for a child, or no supervisor any more."""

    def _end_with_us(self, actor: ActorId) -> None:
        """End a child of a supervisor that has ended."""

    def _queue_start(self, seat: Seat) -> None:
        """Have a child that waits started when its turn comes."""

    def _ignore(self, seat: Seat, why: BaseException) -> None:
        """A child does not run, because its init has said so."""

    # -- hearing of an end ----------------------------------------------------------------------------------------------------

    def __call__(self, ctx: Any, data: object) -> None:
        """Handle one message. It is the actor's behavior, and nobody else's business."""
        self._hear(ctx, data)

    def _hear(self, turn: Turn, data: object) -> None:
        if turn.lane_number != SYSTEM:
            self._wonder(data)
            return
        self._is_busy = True
        try:
            if type(data) is ChildExit:
                self._on_exit(data)
            else:
                self._on_news(data)
        finally:
            self._is_busy = False

    def _on_exit(self, exit: ChildExit) -> None:  # noqa: A002  # what it is
        child, reason, cause = exit
        seat = self._by_actor.pop(child, None)
        if seat is None or not self._is_loose or seat.phase is not UP or seat.must_end:
            self._on_rare_exit(seat, exit)
            return
        # By far the most common case: one child, all by itself, and no timer to think of.
        seat.actor = None
        seat.supervisor = None
        seat.phase = DOWN
        self._judge(seat, (seat.name, reason, cause))
        if self._stage is CLOSING:
            # That was the last straw, or a significant child.
            self._reconcile()

    # -- judging it ------------------------------------------------------------------------------------------------------------

    def _judge(self, seat: Seat, failure: Failure) -> None:
        """Decide about a child that has ended by itself, and put the decision into the seats."""
        reason = failure[1]
        fate = seat.fates[reason]
        if fate is not RESTART:
            self._let_go(seat, failure, fate)
            return
        backoff = seat.backoff
        now = self._loop._now_ms()
        chance = random.random() if backoff is not None and backoff.jitter_ms else 0.5  # noqa: S311  # jitter
        plan = plan_restart(
            self._intensity,
            self._history,
            now,
            backoff,
            reason,
            seat.stored_ms,
            now - seat.started_at,
            chance,
        )
        self._history = plan.history
        self._failures.append(failure)
        while len(self._failures) > self._history.count:
            # Older than the period: no part of any story.
            self._failures.popleft()
        if plan.gives_up:
            self._give_up(failure)
            return
        seat.stored_ms = plan.stored_ms
        seat.phase = WAITING
        seat.restarts += 1
        seat.is_again = True
        if not self._is_loose:
            self._queue_start(seat)
        siblings = () if self._strategy is ONE_FOR_ONE else self._mark_siblings(seat)
        if is_heard(WARNING):
            log_restart(self._loop, self._name, failure, seat.restarts, plan.delay_ms, siblings)
        if plan.delay_ms > 0:
            self._wait(seat, plan.delay_ms)
        elif self._is_loose:
            self._start(seat)

    # -- starting ----------------------------------------------------------------------------------------------------------------

    def _start(self, seat: Seat) -> ActorId | None:
        """Start one child: its id, if there is one; its phase says how it went. If there is no room for it, `_no_start` decides."""
        seat.phase = STARTING
        seat.started_at = NEVER
        estate = seat.estate
        seat.estate = None
        self._launching = seat
        try:
            if seat.is_supervisor:
                actor = self._launch_supervisor(seat)
            else:
                if not seat.cap:
                    seat.cap = self._cap_of(seat)
                actor = self._loop._spawn_child(
                    seat.run, seat.init, seat.name, seat.cap, self._me, seat.context, seat.keeps, estate
                )
        except BandstandError as error:
            self._launching = seat.supervisor = None
            seat.estate = estate
            seat.phase = WAITING
            self._no_start(seat, error)
            return None
        self._launching = None
        if self._stage is CLOSED:
            # We were ended from inside its init, and it was not among those who ended with us.
            self._end_with_us(actor)
            seat.phase = WAITING
            self._no_start(
                seat,
                ChildState(f"supervisor {self._name!r} was ended while child {seat.name!r} was starting"),
            )
            return None
        # The name points to the new one before anybody is told of it.
        seat.actor = actor
        self._by_actor[actor] = seat
        if seat.is_temporary:
            # It is never started again: nobody needs its init, nor the arguments that go with it.
            seat.init = None
        if seat.followers is not None:
            seat.announce()
        if actor.fate == RUNNING:
            self._started(seat, actor)
        else:
            raised = self._loop._init_error
            self._loop._init_error = None
            if isinstance(raised, IgnoreChild) and actor.fate == STOPPED:
                del self._by_actor[actor]
                self._ignore(seat, raised)
            else:
                self._init_error = raised
        return actor

    def _started(self, seat: Seat, actor: ActorId) -> None:
        """A child is up."""
        seat.phase = UP
        seat.has_run = True
        seat.is_requested = seat.is_added = False
        seat.started_at = self._loop._now_ms()
        if seat.is_again:
            seat.is_again = False
            assert self._me is not None
            self._loop._tell_restart(self._me, actor, seat.restarts)
