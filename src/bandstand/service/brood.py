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

    __slots__ = ("_loop", "_members", "_silent")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._members: dict[ActorId, str] = {}
        self._silent: set[ActorId] = set()

    def add(self, actor: ActorId, name: str) -> None:
        """A child has been started."""
        self._members[actor] = name

    def silence(self, actor: ActorId) -> None:
        """Of this child's end nobody need hear: it is a piece of work, or did not even start."""
        self._silent.add(actor)

    def note_end(self, actor: ActorId) -> bool:
        """Take note of a child's end; whether anybody need hear of it."""
        self._members.pop(actor, None)
        if actor not in self._silent:
            return True
        self._silent.remove(actor)
        return False

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
