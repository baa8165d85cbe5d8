"""The supervisor of OTP: children of all kinds, in an order, under one strategy."""

from __future__ import annotations

from contextvars import Context as ContextVars
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, final

from bandstand.core import ActorId
from bandstand.errors import ChildState, InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.caps import check_caps
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.overseer import Overseer
from bandstand.supervision.place import DOWN
from bandstand.supervision.spec import DEEPEST, ChildSpec, SupervisorSpec, depth_of, is_supervisor_spec
from bandstand.supervision.vocabulary import AutoShutdown

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.seats import Maker

__all__ = ("Supervisor",)


@final
class Supervisor(Overseer):
    """A running supervisor: ask it about its children, have it start and stop them. `spawn_supervisor` makes one."""

    __slots__ = ("_spec",)

    spec_type = SupervisorSpec

    def __init__(
        self, loop: Loop, spec: SupervisorSpec, name: str, context: ContextVars, make: Maker
    ) -> None:
        super().__init__(loop, name, context, make, spec.restarts)
        self._spec = spec
        self._strategy = spec.strategy
        self._auto_shutdown = spec.auto_shutdown

    def start_child(self, spec: ChildSpec[Any]) -> ActorId:
        """Add a child at the end, and start it.

        A child whose init is a coroutine function is on its way when this returns. If that init fails, the child is
        taken out again, and that is logged. If it raises `IgnoreChild`, the child is added and stays down, and the id that is returned
        is that of an actor that has ended; a temporary child is not added then.

        Raises:
            StartFailed: its init failed; it was not added.
            InvalidArgument: there is a child of that name, or the spec does not go with this supervisor's.
            MaxActors, NoMemory: there is no room for it; it was not added.
            ChildState: the supervisor is ending, or is just stopping and starting a group of children.
            LoopClosed, WrongThread: as for `Loop.spawn`.
        """
        self._enter("start a child")
        if not isinstance(spec, ChildSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"spec is {safe_repr(spec)}: pass a ChildSpec")
        if spec.name in self._seats:
            raise InvalidArgument(
                f"supervisor {self._name!r} has a child {spec.name!r} already: names are unique among siblings"
            )
        if spec.significant and self._auto_shutdown is AutoShutdown.NEVER:
            raise InvalidArgument(
                f"child {spec.name!r} has significant True and auto_shutdown of supervisor {self._name!r} is NEVER: nobody "
                f"would take notice"
            )
        check_caps(self._loop, spec)
        if is_supervisor_spec(spec.run) and self._depth + depth_of(spec.run) > DEEPEST:
            raise InvalidArgument(
                f"child {spec.name!r} would make a tree of supervisors more than {DEEPEST} deep: no tree needs that, and its end "
                f"would exhaust the stack"
            )
        self._refuse_in_sequence("start a child")
        seat = Seat(spec.name, spec, copy_context())
        seat.is_added = True
        self._add(seat)
        return self._start_on_request(seat)

    def delete_child(self, name: str) -> None:
        """Forget a child that is down.

        Raises:
            NoSuchChild: there is no child of that name.
            ChildState: it is not down; the supervisor is ending, or has ended; or this is called from inside a child's init
                or a hook.
            LoopClosed, WrongThread: as for `Loop.stop_actor`.
        """
        self._enter("delete a child")
        seat = self._seat(name)
        if seat.phase is not DOWN:
            raise ChildState(
                f"child {name!r} of supervisor {self._name!r} is {seat.phase.value}: stop it before it is deleted"
            )
        self._forget(seat)

    def _first_seats(self) -> list[Seat]:
        return [Seat(spec.name, spec, self._context) for spec in self._spec.children]
