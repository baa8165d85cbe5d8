"""The children that an actor has started by itself. They end with it, the last one first."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.core.messages import ChildSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandstand.core import ActorId

__all__ = ("Brood",)


@final
class Brood:
    """One actor's children, as the loop asks about them."""

    __slots__ = ("_members", "_silent")

    def __init__(self) -> None:
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

    def take_all(self, children: list[ActorId]) -> None:
        """The parent has ended: all of its children end with it."""
        children.extend(self._members)
        self._members.clear()

    def kill_cause(self) -> None:
        """None: a child whose coroutine is in flight has the time it needs to take its cancellation."""

    def keep(self, actor: ActorId, estate: object) -> None:
        """Never asked: nobody starts these children again, so nothing of theirs is kept."""

    def members(self) -> Sequence[ChildSummary]:
        """The children, for the tree."""
        return [ChildSummary(name, actor, 0, "") for actor, name in self._members.items()]
