"""The face that all supervisors share: what they can be asked, and asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from bandstand.core import ActorId, ActorStatus
from bandstand.core.lowlevel import check_open, check_thread
from bandstand.errors import BandstandError, ChildState, NoSuchChild
from bandstand.supervision import log as story
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.place import DOWN, STARTING, STOPPING, UP, ChildInfo
from bandstand.supervision.stage import CLOSED, CLOSING
from bandstand.supervision.supervisor_actor import Engine

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.spec import ChildSpec

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

    Every call belongs on the loop's own thread. Calls that change something cannot be made from inside a plain init of one
    of its own children, nor by an observer while it is at work: they raise `ChildState`.
    """

    __slots__ = ()

    # What a supervisor of this kind is made of.
    spec_type: ClassVar[type] = object

    # -- what anybody may know ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def loop(self) -> Loop:
        """The loop it lives on."""
        return self._loop

    def __actor_id__(self) -> ActorId:
        """Its own id, for what takes any kind of actor: `Scope.adopt` for one."""
        return self.actor

    def locate(self, path: Sequence[str]) -> tuple[ActorId, ChildSpec[Any]] | None:
        """The present incarnation of a child and its spec, found by the names on the way to it, through other supervisors.

        None while there is none, or one on the way is not there. From any thread: it only looks.
        """
        overseer: Overseer | None = self
        seat: Seat | None = None
        for name in path:
            seat = None if overseer is None else overseer._seats.get(name)  # noqa: SLF001  # one of us
            if seat is None:
                return None
            overseer = seat.supervisor
        actor = None if seat is None else seat.actor
        return None if seat is None or actor is None or not actor.is_alive else (actor, seat.spec)

    def spec_at(self, path: Sequence[str]) -> ChildSpec[Any] | None:
        """The spec of a child, found by the names on the way to it; None if a supervisor on the way is just not there.

        Raises:
            NoSuchChild: the path leads nowhere, or goes on where there is no supervisor.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        overseer: Overseer = self
        for place, name in enumerate(path):
            seat = overseer._seat(name)
            if place + 1 == len(path):
                return seat.spec
            if not seat.spec.is_supervisor:
                raise NoSuchChild(
                    f"child {name!r} of supervisor {overseer._name!r} is no supervisor: {path[place + 1]!r} cannot be below it"
                )
            if seat.supervisor is None:
                return None
            overseer = seat.supervisor
        return None

    def child(self, name: str) -> ActorId | None:
        """The present incarnation of a child; None while there is none, or it has ended and is about to be dealt with.

        Raises:
            NoSuchChild: there is no child of that name.
        """
        check_thread(self._loop)
        return self._present(self._seat(name))

    def _present(self, seat: Seat) -> ActorId | None:
        actor = seat.actor
        if actor is None or self._loop.status(actor) >= ActorStatus.STOPPING:
            return None
        return actor

    def address(self, name: str) -> ActorId:
        """The present incarnation of a child, to send to.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is down, or being started again; `child` answers None then.
        """
        actor = self.child(name)
        if actor is None:
            if self._stage is CLOSED:
                raise ChildState(f"supervisor {self._name!r} has ended, and child {name!r} with it")
            raise ChildState(
                f"child {name!r} of supervisor {self._name!r} is not running: {self._state_of(name)}"
            )
        return actor

    def _state_of(self, name: str) -> str:
        seat = self._seat(name)
        if seat.phase is UP:
            return "it has just ended, and its supervisor is about to hear of it"
        return f"it is {seat.phase.value}"

    def supervisor(self, name: str, kind: type[Kind]) -> Kind | None:
        """The present incarnation of a child that is a supervisor of that kind; None while there is none.

        Raises:
            NoSuchChild: there is no child of that name, or it is no supervisor of that kind.
        """
        seat = self._seat(name)
        if not isinstance(seat.spec.run, kind.spec_type):
            what = f"; it is {type(seat.supervisor).__name__}" if seat.supervisor is not None else ""
            raise NoSuchChild(f"child {name!r} of supervisor {self._name!r} is no {kind.__name__}{what}")
        below = seat.supervisor if self._present(seat) is not None else None
        assert below is None or isinstance(below, kind)
        return below

    def children(self) -> tuple[ChildInfo, ...]:
        """Every child, in order."""
        check_thread(self._loop)
        return tuple(seat.info(self._present(seat)) for seat in self._seats.values())

    def count_children(self) -> Counts:
        """How many there are."""
        check_thread(self._loop)
        seats = self._seats.values()
        supervisors = sum(seat.spec.is_supervisor for seat in seats)
        active = sum(seat.phase is UP and self._present(seat) is not None for seat in seats)
        return Counts(len(seats), active, supervisors, len(seats) - supervisors)

    # -- what it can be asked to do ----------------------------------------------------------------------------------------

    def stop_child(self, name: str) -> bool:
        """Stop a child and keep it down until `restart_child`; a temporary one is forgotten.

        Its coroutine, if one is in flight, is cancelled and has the child's shutdown time to end; then it is killed.
        If it has failed and waits for its next try, the siblings that were to start with it stay down as well.

        Returns:
            Whether it has ended; else it is on its way.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: called from inside a child's init or a hook, or the supervisor has ended.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        self._enter("stop a child", even_if_ending=True)
        seat = self._seat(name)
        if self._stage is not CLOSING:
            seat.is_held = True
            if self._keeps_failing(seat):
                self._leave_down(seat)
            if seat.phase is STOPPING:
                # On its way already; but it does not come back.
                seat.comes_back = seat.is_again = False
            else:
                self._send_away(seat)
            self._carry_on(seat)
        return seat.actor is None or self._has_ended(seat.actor)

    def _has_ended(self, actor: ActorId) -> bool:
        return self._loop.status(actor) >= ActorStatus.STOPPED

    def restart_child(self, name: str) -> ActorId:
        """Start a child that is down, because it was stopped, was ignored, or has ended and is not started again by itself.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is not down, or the supervisor is ending, or is just stopping and starting a group of children.
            StartFailed: its init failed; it is down as before.
            MaxActors, NoMemory, LoopClosed, WrongThread: as for `start_child`.
        """
        self._enter("start a child")
        seat = self._seat(name)
        if seat.phase is not DOWN:
            raise ChildState(f"child {name!r} of supervisor {self._name!r} is {seat.phase.value}, not down")
        self._refuse_in_sequence("start a child")
        return self._start_on_request(seat)

    def stop(self) -> None:
        """End in good order: the children stop from the last to the first, each in its own time; then the supervisor.

        It ends when the loop has handled the ends of its children; if a coroutine has to be waited for, later. Asking
        again changes nothing. If a supervisor above has it as a permanent child, it will be started again.

        Raises:
            ChildState: called from inside a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        if self._stage is not CLOSED:
            self._enter("stop", even_if_ending=True)
            self._begin_end(None)
            self._carry_on()

    def _start_on_request(self, seat: Seat) -> ActorId:
        seat.was_held, seat.is_held = seat.is_held, False
        seat.is_requested = True
        self._is_busy = True
        try:
            actor = self._start(seat)
            assert actor is not None
            if seat.phase is STARTING and not self._is_loose:
                self._queue_start(seat)
            if self._loop.status(actor) is ActorStatus.FAILED:
                cause = self._why_it_failed(seat)
                del self._by_actor[actor]
                self._vacate(seat)
                raise story.start_failed(self._name, seat.name, cause)
        except BandstandError:
            self._give_back(seat)
            raise
        finally:
            self._is_busy = False
        return actor

    # -- checking ----------------------------------------------------------------------------------------------------------------------

    def _seat(self, name: str) -> Seat:
        seat = self._seats.get(name)
        if seat is None:
            known = ", ".join(map(repr, islice(self._seats, 10))) or "none"
            more = " and others" if len(self._seats) > 10 else ""
            raise NoSuchChild(f"supervisor {self._name!r} has no child {name!r}; it has {known}{more}")
        return seat

    def _enter(self, what: str, *, even_if_ending: bool = False) -> None:
        """Refuse a call that cannot be made from here, or now."""
        check_open(self._loop)
        status = self._loop.status(self.actor)
        if self._is_busy:
            raise ChildState(
                f"supervisor {self._name!r} is just dealing with its children and cannot {what}: an init, or a hook, cannot "
                f"change the supervisor that called it. Do it from a message."
            )
        if status >= ActorStatus.STOPPING or self._stage is CLOSED:
            raise ChildState(f"supervisor {self._name!r} has ended and cannot {what}")
        if self._stage is CLOSING and not even_if_ending:
            raise ChildState(f"supervisor {self._name!r} is ending and cannot {what}")

    def _refuse_in_sequence(self, what: str) -> None:
        """Refuse to start one child in the middle of an order that is being kept."""
        if not self._is_loose and self._is_in_sequence():
            raise ChildState(
                f"supervisor {self._name!r} is just stopping and starting its children in their order and cannot {what}: "
                f"try again when it has"
            )
