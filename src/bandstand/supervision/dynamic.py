"""A supervisor of many children of one shape, which come and go: a connection each, a session each, a job each.

All children are made from one spec; what makes each of them itself are the arguments it is started with, which its init
gets after the context, at every restart again. They have no order and do not build on each other, so each is restarted by
itself, and all stop together.
"""

from __future__ import annotations

from contextvars import Context as ContextVars
from contextvars import copy_context
from itertools import count
from typing import TYPE_CHECKING, final

from bandstand.core import ActorId, ActorStatus, ExitReason
from bandstand.errors import InvalidArgument, MaxChildren, NoSuchChild
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.overseer import Overseer
from bandstand.supervision.restart import Fate
from bandstand.supervision.spec import DynamicSpec

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.seats import Maker

__all__ = ("DynamicSupervisor", "restart_if_start_fails")


@final
class DynamicSupervisor(Overseer):
    """A running supervisor of same-shaped children. `spawn_supervisor` makes one of a `DynamicSpec`.

    A child that ends and is not started again is forgotten; so is one that is stopped.
    """

    keeps_ended = False
    stops_together = True

    __slots__ = ("_serials", "_spec")

    spec_type = DynamicSpec

    def __init__(self, loop: Loop, spec: DynamicSpec, name: str, context: ContextVars, make: Maker) -> None:
        super().__init__(loop, name, context, make, spec.restarts)
        self._spec = spec
        self._serials = count(1)

    def start_child(self, *arguments: object) -> ActorId:
        """Start one child more; `arguments` go to its init, after the context.

        Its name is the spec's with a number: "session-1", "session-2" and so on; it stays the same over restarts.
        If its init raises `IgnoreChild`, no child is added, and the id that is returned is that of an actor that has ended.

        Raises:
            MaxChildren: there are as many as the spec allows. One that has ended for good does not count, from the moment of
                its end.
            InvalidArgument: there are arguments, and the spec has no init that could get them.
            StartFailed: its init failed; it was not added.
            MaxActors, NoMemory: there is no room for it; it was not added.
            ChildState: the supervisor is ending, or this is called from inside a child's init or a hook.
            LoopClosed, WrongThread: as for `Loop.spawn`.
        """
        self._enter("start a child")
        if arguments and self._spec.child.init is None:
            raise InvalidArgument(
                f"child {self._spec.child.name!r} of supervisor {self._name!r} has no init, so {safe_repr(arguments[0])} would be lost: "
                f"give its ChildSpec an init of (ctx, ...)"
            )
        limit = self._spec.max_children
        if limit is not None and self._is_full(limit):
            raise MaxChildren(
                f"supervisor {self._name!r} has {limit} {'child' if limit == 1 else 'children'}, as many as its max_children "
                f"allows: stop some, or raise DynamicSpec.max_children"
            )
        name = f"{self._spec.child.name}-{next(self._serials)}"
        seat = Seat(name, self._spec.child, copy_context(), arguments)
        seat.is_added = True
        self._add(seat)
        return self._start_on_request(seat)

    def stop_child(self, name: str | ActorId) -> bool:
        """Stop a child, named by its name or by the id it has at present, and forget it. As every supervisor's `stop_child`."""
        return super().stop_child(self.name_of(name) if isinstance(name, ActorId) else name)

    def _expect(self, actor: ActorId) -> None:
        seat = self._by_actor.get(actor)
        if seat is not None:
            seat.is_requested = seat.is_added = False

    def _is_full(self, limit: int) -> bool:
        """Whether there is no place left. One that has ended for good has none, though we may not have heard of it yet."""
        count = len(self._seats)
        return count >= limit and count - sum(map(self._is_gone, self._seats.values())) >= limit

    def _is_gone(self, seat: Seat) -> bool:
        status = ActorStatus.RUNNING if seat.actor is None else self._loop.status(seat.actor)
        if status < ActorStatus.STOPPED:
            return False
        reason = ExitReason.NORMAL if status is ActorStatus.STOPPED else ExitReason.FAIL
        return seat.fates[reason] is not Fate.RESTART

    def name_of(self, actor: ActorId) -> str:
        """The name of a child, which stays the same over its restarts.

        Raises:
            NoSuchChild: the actor is no child of this supervisor, or has ended.
        """
        seat = self._by_actor.get(actor)
        if seat is None:
            raise NoSuchChild(f"{safe_repr(actor)} is no child of supervisor {self._name!r}, or has ended")
        return seat.name


def restart_if_start_fails(supervisor: DynamicSupervisor, actor: ActorId) -> None:
    """Restart a child that was just added also if its asynchronous start fails.

    Otherwise the supervisor forgets such a child, as it does one whose `start_child` raises. Both are for callers that look after the child
    themselves. A caller that depends on the child calls this: the failure then counts as any other end of the child does.
    """
    supervisor._expect(actor)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # not for users of supervisors
