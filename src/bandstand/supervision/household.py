"""What the loop asks of a supervisor about its children."""

# It is part of the supervisor, and apart from it only so that no user meets these calls there.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from bandstand.core import ActorId
from bandstand.core.lowlevel import bury_estate
from bandstand.core.messages import ChildSummary
from bandstand.errors import ActorKilled
from bandstand.supervision.stage import CLOSED

if TYPE_CHECKING:
    from bandstand.supervision.seats import Seats

__all__ = ("Household",)


@final
class Household:
    """A supervisor's children, for the loop to ask about: not on the supervisor itself, where a user might call it."""

    __slots__ = ("_of",)

    def __init__(self, of: Seats) -> None:
        self._of = of

    def take_all(self, children: list[ActorId]) -> None:
        """The supervisor has ended: so do its children."""
        self._of._disband(children)  # noqa: SLF001

    def kill_cause(self) -> ActorKilled:
        """A child that does not end at once is killed: its supervisor has ended and cannot wait for it."""
        return self._of._killed_with_us()  # noqa: SLF001

    def keep(self, actor: ActorId, estate: Any) -> None:
        """Take charge of what a child has left unread, perhaps one whose init is still running."""
        of = self._of
        seat = of._by_actor.get(actor, of._launching)  # noqa: SLF001
        if seat is None or of._stage is CLOSED:  # noqa: SLF001
            bury_estate(of._loop, estate)  # noqa: SLF001
        else:
            seat.estate = estate

    def members(self) -> Sequence[ChildSummary]:
        """What the tree shows of the children."""
        return [seat.member() for seat in self._of._seats.values()]  # noqa: SLF001
