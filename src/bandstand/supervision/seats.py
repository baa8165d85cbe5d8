"""The seats of a supervisor: how one child is stopped, killed and forgotten. Who and when is decided above.

The storeys of a supervisor: how a child is started (`hot.rebirth`), seats, judge, engine, overseer, and then the kinds of
supervisors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Context as ContextVars
from heapq import heappop, heappush
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, TypeAlias, cast

from bandstand.core import ActorId, ActorStatus, SystemTag
from bandstand.core.lowlevel import (
    bury_estate,
    checked_cap,
    end_actor,
    is_open,
    send_system,
    send_system_after,
)
from bandstand.errors import ActorKilled, BandstandError, TimerInvalid
from bandstand.supervision import log as story
from bandstand.supervision.hot.rebirth import Rebirth
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.intensity import Intensity
from bandstand.supervision.place import DOWN, STOPPING, UP, WAITING
from bandstand.supervision.spec import AnySupervisorSpec
from bandstand.supervision.stage import CLOSED, CLOSING, Deadline, End
from bandstand.supervision.vocabulary import ChildMode

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.overseer import Overseer

__all__ = ("Maker", "Seats")

Maker: TypeAlias = "Callable[[Loop, AnySupervisorSpec, str, ContextVars], Overseer]"
"""What makes a supervisor of a spec: each kind of spec has its own."""


class Seats(Rebirth):
    """A supervisor's children.

    It and the storeys above have slots: with so many attributes Python's own way of keeping them becomes slow.
    """

    __slots__ = (
        "__weakref__",
        "_context",
        "_depth",
        "_make",
        "_outcome",
        "_places",
        "_seats",
        "_to_start",
        "_to_stop",
        "_untold",
    )

    # Whether a child that is not started again by itself is still known, to be started on request.
    keeps_ended = True

    def __init__(
        self, loop: Loop, name: str, context: ContextVars, make: Maker, intensity: Intensity
    ) -> None:
        super().__init__(loop, name, intensity)
        # Where the context variables of its children's coroutines start from, restarts included.
        self._context = context
        self._make = make
        self._seats: dict[str, Seat] = {}
        self._places = count()
        # Heaps of those that wait for their turn while there is an order to keep: the first place on top, and the last place. So the
        # next one is found without a walk over all. A seat that has nothing to wait for any more is taken out when it is met.
        self._to_start: list[tuple[int, Seat]] = []
        self._to_stop: list[tuple[int, Seat]] = []
        # Those who ended by themselves and were accounted for before their exit was heard, with their names.
        self._untold: dict[ActorId, str] = {}
        # How many supervisors there are from the root down to this one.
        self._depth = 1
        # Why it ends, if that is no good end.
        self._outcome: BandstandError | None = None

    @property
    def actor(self) -> ActorId:
        """Its own id: monitor it to hear of its end."""
        assert self._me is not None, "it has not been launched yet"
        return self._me

    @property
    def outcome(self) -> BandstandError | None:
        """Why it has ended, or is ending, if that is no good end."""
        return self._outcome

    # -- what the loop asks ------------------------------------------------------------------------------------------------

    def _disband(self, children: list[ActorId]) -> None:
        """The supervisor has ended, however: the loop ends what is left of its children with it."""
        self._stage = CLOSED
        children.extend(seat.actor for seat in self._seats.values() if seat.actor is not None)
        for seat in reversed(self._seats.values()):
            self._bury(seat)
            seat.actor, seat.phase = None, DOWN
            seat.must_end = False
            seat.announce()

    def _killed_with_us(self) -> ActorKilled:
        return ActorKilled(f"supervisor {self._name!r} has ended, and its children with it")

    def _end_with_us(self, actor: ActorId) -> None:
        end_actor(self._loop, actor)
        # Nobody is left to wait for a coroutine that takes its time; unless the whole loop ends, which does.
        if is_open(self._loop) and self._loop.status(actor) < ActorStatus.STOPPED:
            end_actor(self._loop, actor, self._killed_with_us())

    # -- one seat --------------------------------------------------------------------------------------------------------------------

    def _add(self, seat: Seat) -> None:
        """Take in a child, behind all others."""
        seat.place = next(self._places)
        self._seats[seat.name] = seat

    def _queue_start(self, seat: Seat) -> None:
        heappush(self._to_start, (seat.place, seat))

    def _want_end(self, seat: Seat) -> None:
        """Have a child stopped, when its turn comes; nothing if it does not run."""
        seat.must_end = seat.is_alive
        if seat.is_alive and not self._is_loose:
            heappush(self._to_stop, (-seat.place, seat))

    def _is_in_sequence(self) -> bool:
        """Whether children are being stopped or started in their order."""
        heaps = (self._to_start, self._to_stop)
        for heap in heaps:
            while heap and heap[0][1].phase in {UP, DOWN} and not heap[0][1].must_end:
                heappop(heap)
        return any(heaps)

    def _cap_of(self, seat: Seat) -> int:
        return checked_cap(self._loop, seat.spec.mailbox_cap)

    def _launch_supervisor(self, seat: Seat) -> ActorId:
        spec = cast("AnySupervisorSpec", seat.spec.run)
        below = seat.supervisor = self._make(self._loop, spec, seat.name, seat.context)
        below.launch(self.actor, depth=self._depth + 1)
        return below.actor

    def _why_it_failed(self, seat: Seat) -> BaseException | None:
        """What went wrong with a child that died inside the call that started it."""
        outcome = None if seat.supervisor is None else seat.supervisor.outcome
        error, self._init_error = self._init_error, None
        return outcome or error

    def _send_away(self, seat: Seat) -> None:
        """A child is not wanted any more: one that runs must end, one that waits is down."""
        if seat.phase is WAITING:
            seat.phase = DOWN
            self._cancel_timer(seat)
        seat.is_gated = seat.comes_back = seat.is_again = False
        seat.token = 0
        self._want_end(seat)
        self._bury(seat)
        if not seat.is_alive and (seat.spec.mode is ChildMode.TEMPORARY or not self.keeps_ended):
            self._forget(seat)

    def _stop(self, seat: Seat) -> None:
        """Stop one child, in its own time."""
        actor = seat.actor
        assert actor is not None
        patience = seat.spec.patience_ms
        was = self._loop.status(actor)
        seat.phase = STOPPING
        if patience == 0:
            self._kill(seat)
        elif not seat.spec.is_supervisor:
            end_actor(self._loop, actor)
        elif was < ActorStatus.STOPPING and is_open(self._loop):
            # If the loop was asked to stop just now, it ends everybody itself.
            send_system(self._loop, actor, End(), SystemTag.SHUTDOWN)
        if self._loop.status(actor) < ActorStatus.STOPPED:
            if patience is not None:
                seat.timer = send_system_after(
                    self._loop, self.actor, ceil(patience), Deadline(actor), SystemTag.SHUTDOWN
                )
        elif self._settles_at_once():
            # It ended inside that call: no need to wait for the message that says so. If it had ended before, all by
            # itself, that message has a cause to tell.
            if was >= ActorStatus.STOPPED:
                self._untold[actor] = seat.name
            self._by_actor.pop(actor, None)
            self._vacate(seat)
            self._left(seat)

    def _settles_at_once(self) -> bool:
        """Whether an end that we have caused and seen is accounted for at once, before the message that tells of it.

        Not while we end ourselves: then that message would find nobody, and be a dead letter.
        """
        return self._stage is not CLOSING

    def _kill(self, seat: Seat) -> None:
        actor = seat.actor
        assert actor is not None
        end_actor(
            self._loop,
            actor,
            ActorKilled(f"child {seat.name!r} was killed by its supervisor {self._name!r}"),
        )

    def _vacate(self, seat: Seat) -> None:
        """The incarnation of a seat has ended."""
        seat.phase = DOWN
        seat.actor = seat.supervisor = None
        self._cancel_timer(seat)

    def _left(self, seat: Seat) -> None:
        """A child has ended because it was told to."""
        seat.must_end = seat.is_requested = seat.is_added = False
        if seat.comes_back:
            seat.comes_back = False
            seat.phase = WAITING
            self._queue_start(seat)
            return
        self._bury(seat)
        if seat.spec.mode is ChildMode.TEMPORARY or not self.keeps_ended:
            self._forget(seat)

    def _ignore(self, seat: Seat, why: BaseException) -> None:
        self._vacate(seat)
        seat.is_again = seat.is_requested = seat.is_added = False
        story.log_ignored(self._name, seat.name, why)
        self._bury(seat)
        if seat.is_temporary or not self.keeps_ended:
            self._forget(seat)

    def _forget(self, seat: Seat) -> None:
        self._bury(seat)
        self._seats.pop(seat.name, None)
        seat.announce()

    def _bury(self, seat: Seat) -> None:
        """There will be no next incarnation: what was kept for it goes to the dead letters."""
        if seat.estate is not None:
            estate, seat.estate = seat.estate, None
            bury_estate(self._loop, estate)

    def _cancel_timer(self, seat: Seat) -> None:
        timer, seat.timer = seat.timer, None
        if timer is not None:
            # It may have fired: what it sent is stale then.
            with suppress(TimerInvalid):
                self._loop.cancel_timer(timer)
