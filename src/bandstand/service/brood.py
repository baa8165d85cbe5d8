"""The children that an actor has started by itself. They end with it, the last one first."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, final

from bandstand.core.lowlevel import Member, end_actor
from bandstand.errors import BandstandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandstand.core import ActorId, Loop

__all__ = ("Brood",)


@final
class Brood:
    """One actor's children, as the loop asks about them."""

    __slots__ = ("_loop", "_members")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._members: dict[ActorId, str] = {}

    def add(self, actor: ActorId, name: str) -> None:
        """A child has been started."""
        self._members[actor] = name

    def remove(self, actor: ActorId) -> bool:
        """A child has ended; False if it was none of ours, or did not even start."""
        return self._members.pop(actor, None) is not None

    def disband(self) -> None:
        """End every child, the last one first: the parent has ended."""
        for actor in reversed(list(self._members)):
            with suppress(BandstandError):
                end_actor(self._loop, actor)
        self._members.clear()

    def keep(self, actor: ActorId, estate: object) -> None:
        """Never asked: nobody starts these children again, so nothing of theirs is kept."""

    def members(self) -> Sequence[Member]:
        """The children, for the tree."""
        return [Member(name, actor, 0, "") for actor, name in self._members.items()]
