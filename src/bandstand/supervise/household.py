"""What the loop asks of a supervisor about its children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from bandstand.core import ActorId
from bandstand.core.lowlevel import Member

if TYPE_CHECKING:
    from bandstand.supervise.seats import Seats

__all__ = ("Household",)


@final
class Household:
    """A supervisor's children, for the loop to ask about: not on the supervisor itself, where a user might call it."""

    __slots__ = ("_seats",)

    def __init__(self, seats: Seats) -> None:
        self._seats = seats

    def disband(self) -> None:
        """The supervisor has ended."""
        self._seats._disband()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # made for this

    def keep(self, actor: ActorId, estate: Any) -> None:
        """Take charge of what a child has left unread."""
        self._seats._keep(actor, estate)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # likewise

    def members(self) -> Sequence[Member]:
        """What the tree shows."""
        return self._seats._members()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # likewise
