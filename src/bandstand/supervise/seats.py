"""The seats of a supervisor: how one child is started, stopped, killed and forgotten. Who and when is decided above.

The lowest of a supervisor's storeys: seats, engine, overseer, and then the kinds of supervisors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context as ContextVars
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bandstand.core import ActorId, ActorStatus, Context, SystemTag
from bandstand.core.lowlevel import (
    Member,
    bury_estate,
    checked_cap,
    end_actor,
    now_ms,
    send_system,
    send_system_after,
    spawn_child,
    tell_restart,
)
from bandstand.errors import ActorKilled, BandstandError, TimerInvalid
from bandstand.supervise.seat import Phase, Seat
from bandstand.supervise.spec import AnySupervisorSpec, DynamicSpec, PartitionSpec, SupervisorSpec
from bandstand.supervise.vocabulary import ChildMode, Mailbox

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervise.overseer import Overseer

__all__ = ("Deadline", "Maker", "Seats", "Shutdown", "Stage")

Maker: TypeAlias = "Callable[[Loop, AnySupervisorSpec, str, ContextVars], Overseer]"
"""What makes a supervisor of a spec: each kind of spec has its own."""


class Stage(Enum):
    """Where a supervisor stands."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"


class Deadline(NamedTuple):
    """A child that was stopped should have ended by now."""

    child: ActorId


class Shutdown(NamedTuple):
    """End, in good order."""


class Seats:
    """A supervisor's children."""

    # Whether a child that is not started again by itself is still known, to be started on request.
    keeps_ended = True

    def __init__(self, loop: Loop, name: str, context: ContextVars, make: Maker) -> None:
        self._loop = loop
        self._name = name
        # Where the context variables of its children's coroutines start from, restarts included.
        self._context = context
        self._make = make
        self._me: ActorId | None = None
        self._stage = Stage.STARTING
        self._seats: dict[str, Seat] = {}
        self._by_actor: dict[ActorId, Seat] = {}
        # Whose init is running at this moment, and what came out of it.
        self._launching: Seat | None = None
        self._init_error: BaseException | None = None
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

    def disband(self) -> None:
        """The supervisor has ended, however: what is left of its children ends with it, the last one first."""
        self._stage = Stage.ENDED
        for seat in reversed(self._seats.values()):
            self._bury(seat)
            if seat.actor is not None:
                end_actor(self._loop, seat.actor)

    def keep(self, actor: ActorId, estate: Any) -> None:
        """Take charge of what a child has left unread."""
        seat = self._by_actor.get(actor, self._launching)
        if seat is None or self._stage is Stage.ENDED:
            bury_estate(self._loop, estate)
        else:
            seat.estate = estate

    def members(self) -> Sequence[Member]:
        """What the tree shows of the children."""
        return [seat.member() for seat in self._seats.values()]

    # -- one seat --------------------------------------------------------------------------------------------------------------------

    def _start(self, seat: Seat) -> None:
        """Start one child; its phase says how it went. Raises if there is no room for it."""
        seat.phase = Phase.STARTING
        self._init_error = None
        estate, seat.estate = seat.estate, None
        self._launching = seat
        try:
            actor = self._launch(seat, estate)
        except BandstandError:
            seat.estate = estate
            seat.phase = Phase.WAITING
            raise
        finally:
            self._launching = None
        # The name points to the new one before anybody is told of it.
        seat.actor = actor
        self._by_actor[actor] = seat
        if self._loop.status(actor) is ActorStatus.RUNNING:
            self._started(seat)

    def _launch(self, seat: Seat, estate: Any) -> ActorId:
        spec = seat.spec
        if isinstance(spec.run, (SupervisorSpec, DynamicSpec, PartitionSpec)):
            below = seat.supervisor = self._make(self._loop, spec.run, seat.name, seat.context)
            below.launch(self.actor, is_root=False)
            self._init_error = below.outcome
            return below.actor
        return spawn_child(
            self._loop,
            spec.run,
            None if spec.init is None else self._run_init,
            name=seat.name,
            cap=checked_cap(self._loop, spec.mailbox_cap),
            supervisor=self._me,
            context=seat.context,
            keeps=spec.mailbox is Mailbox.KEPT,
            estate=estate,
        )

    def _run_init(self, ctx: Context[Any]) -> object:
        """Run the init of the child that is being launched, and remember what comes out of it."""
        assert self._launching is not None
        init: Callable[..., object] | None = self._launching.spec.init
        assert init is not None
        try:
            return init(ctx, *self._launching.arguments)
        except BaseException as error:
            self._init_error = error
            raise

    def _started(self, seat: Seat) -> None:
        seat.phase = Phase.UP
        seat.is_new = False
        seat.started_at = now_ms(self._loop)
        if seat.is_again:
            seat.is_again = False
            assert seat.actor is not None
            tell_restart(self._loop, self.actor, seat.actor, seat.restarts)

    def _send_away(self, seat: Seat) -> None:
        """A child is not wanted any more: one that runs must end, one that waits is down."""
        if seat.phase is Phase.WAITING:
            seat.phase = Phase.DOWN
            self._cancel_timer(seat)
        seat.is_gated = False
        seat.token = 0
        seat.comes_back = False
        seat.is_again = False
        seat.must_end = seat.is_alive
        self._bury(seat)

    def _stop(self, seat: Seat) -> None:
        """Stop one child, in its own time."""
        actor = seat.actor
        assert actor is not None
        patience = seat.spec.patience_ms
        seat.phase = Phase.STOPPING
        if patience == 0:
            self._kill(seat)
        elif not seat.spec.is_supervisor:
            end_actor(self._loop, actor)
        elif self._loop.status(actor) < ActorStatus.STOPPING:
            send_system(self._loop, actor, Shutdown(), SystemTag.SHUTDOWN)
        if self._loop.status(actor) >= ActorStatus.STOPPED and self._settles_at_once():
            # It ended inside that call: no need to wait for the message that says so.
            self._by_actor.pop(actor, None)
            self._vacate(seat)
            self._left(seat)
        elif patience is not None:
            seat.timer = send_system_after(
                self._loop, self.actor, ceil(patience), Deadline(actor), SystemTag.SHUTDOWN
            )

    def _settles_at_once(self) -> bool:
        """Whether an end that we have caused and seen is accounted for at once, before the message that tells of it.

        Not while we end ourselves: then that message would find nobody, and be a dead letter.
        """
        return self._stage is not Stage.ENDING

    def _kill(self, seat: Seat) -> None:
        actor = seat.actor
        assert actor is not None
        end_actor(
            self._loop,
            actor,
            ActorKilled(f"child {seat.name!r} was killed by its supervisor {self._name!r}"),
        )

    def _vacate(self, seat: Seat) -> Phase:
        """The incarnation of a seat has ended; the phase it was in."""
        phase, seat.phase = seat.phase, Phase.DOWN
        seat.actor = None
        seat.supervisor = None
        self._cancel_timer(seat)
        return phase

    def _left(self, seat: Seat) -> None:
        """A child has ended because it was told to."""
        seat.must_end = False
        if seat.comes_back and self._stage is not Stage.ENDING:
            seat.comes_back = False
            seat.phase = Phase.WAITING
            return
        self._bury(seat)
        if seat.spec.mode is ChildMode.TEMPORARY or not self.keeps_ended:
            self._forget(seat)

    def _forget(self, seat: Seat) -> None:
        self._bury(seat)
        self._seats.pop(seat.name, None)

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
