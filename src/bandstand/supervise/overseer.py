"""The face that all supervisors share: what they can be asked, and asked to do."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from bandstand.core import ActorId, ActorStatus
from bandstand.errors import BandstandError, ChildState, NoSuchChild
from bandstand.supervise import story
from bandstand.supervise.engine import Engine
from bandstand.supervise.seat import ChildInfo, Phase, Seat
from bandstand.supervise.seats import Stage

__all__ = ("Counts", "Overseer")

Kind = TypeVar("Kind", bound="Overseer")


class Counts(NamedTuple):
    """How many children a supervisor has, in all and of each kind."""

    specs: int
    active: int
    """Those that are running."""
    supervisors: int
    workers: int


class Overseer(Engine):
    """What every kind of supervisor can be asked.

    Every call belongs on the loop's own thread. Calls that change something cannot be made from inside one of its own
    children's init, nor by an observer while it is at work: they raise `ChildState`.
    """

    # -- what anybody may know ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def child(self, name: str) -> ActorId | None:
        """The present incarnation of a child; None while there is none, or it has ended and is about to be dealt with.

        Raises:
            NoSuchChild: there is no child of that name.
        """
        actor = self._seat(name).actor
        if actor is None or self._loop.status(actor) >= ActorStatus.STOPPING:
            return None
        return actor

    def supervisor(self, name: str, kind: type[Kind]) -> Kind | None:
        """The present incarnation of a child that is a supervisor of that kind; None while there is none.

        Raises:
            NoSuchChild: there is no child of that name, or it is no supervisor of that kind.
        """
        below = self._seat(name).supervisor if self.child(name) is not None else None
        if below is None and self._seat(name).spec.is_supervisor:
            return None
        if not isinstance(below, kind):
            raise NoSuchChild(
                f"child {name!r} of supervisor {self._name!r} is no {kind.__name__}; it is {type(below).__name__}"
                if below is not None
                else f"child {name!r} of supervisor {self._name!r} is no supervisor"
            )
        return below

    def children(self) -> tuple[ChildInfo, ...]:
        """Every child, in order."""
        return tuple(seat.info() for seat in self._seats.values())

    def count_children(self) -> Counts:
        """How many there are."""
        seats = self._seats.values()
        supervisors = sum(seat.spec.is_supervisor for seat in seats)
        active = sum(seat.phase is Phase.UP for seat in seats)
        return Counts(len(seats), active, supervisors, len(seats) - supervisors)

    # -- what it can be asked to do ----------------------------------------------------------------------------------------

    def stop_child(self, name: str) -> bool:
        """Stop a child and keep it down until `restart_child`; a temporary one is forgotten.

        Its coroutine, if one is in flight, is cancelled and has the child's shutdown time to end; then it is killed.

        Returns:
            Whether it has ended; else it is on its way.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: called from inside a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        self._enter("stop a child", even_if_ending=True)
        seat = self._seat(name)
        if self._stage is not Stage.ENDING:
            seat.is_held = True
            if seat.phase is not Phase.STOPPING:
                self._send_away(seat)
            self._carry_on(seat)
        return not seat.is_alive

    def stop(self) -> None:
        """End in good order: the children stop from the last to the first, each in its own time; then the supervisor.

        It may have ended when this returns; if a coroutine has to be waited for, it ends later. Asking again changes
        nothing. If a supervisor above has it as a permanent child, it will be started again.

        Raises:
            ChildState: called from inside a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        if self._stage is not Stage.ENDED:
            self._enter("stop", even_if_ending=True)
            self._begin_end(None)
            self._carry_on()

    def _start_on_request(self, seat: Seat) -> ActorId:
        was_new = seat.is_new
        self._is_busy = True
        try:
            self._start(seat)
        except BandstandError:
            self._give_back(seat, was_new=was_new)
            raise
        finally:
            self._is_busy = False
        actor = seat.actor
        assert actor is not None
        if self._loop.status(actor) is ActorStatus.FAILED:
            del self._by_actor[actor]
            self._vacate(seat)
            self._give_back(seat, was_new=was_new)
            raise story.start_failed(self._name, seat.name, self._init_error)
        return actor

    def _give_back(self, seat: Seat, *, was_new: bool) -> None:
        """A start that was asked for has failed: everything is as it was before."""
        seat.phase = Phase.DOWN
        if was_new:
            self._forget(seat)

    # -- checking ----------------------------------------------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        seat = self._seats.get(name)
        if seat is None:
            known = ", ".join(map(repr, self._seats)) or "none"
            raise NoSuchChild(f"supervisor {self._name!r} has no child {name!r}; it has {known}")
        return seat

    def _enter(self, what: str, *, even_if_ending: bool = False) -> None:
        """Refuse a call that cannot be made from here, or now."""
        status = self._loop.status(self.actor)
        if self._is_busy:
            raise ChildState(
                f"supervisor {self._name!r} is just dealing with its children and cannot {what}: an init, or a hook, cannot "
                f"change the supervisor that called it. Do it from a message."
            )
        if status >= ActorStatus.STOPPING or self._stage is Stage.ENDED:
            raise ChildState(f"supervisor {self._name!r} has ended and cannot {what}")
        if self._stage is Stage.ENDING and not even_if_ending:
            raise ChildState(f"supervisor {self._name!r} is ending and cannot {what}")

    def _refuse_in_sequence(self, what: str) -> None:
        """Refuse to start one child in the middle of an order that is being kept."""
        if self._is_one_by_one():
            return
        if any(seat.phase is not Phase.UP and seat.phase is not Phase.DOWN for seat in self._seats.values()):
            raise ChildState(
                f"supervisor {self._name!r} is just stopping and starting its children in their order and cannot {what}: "
                f"try again when it has"
            )
