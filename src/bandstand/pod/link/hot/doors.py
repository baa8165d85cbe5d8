"""The doors of this end: the roles and methods that the other side addresses by number, and who is behind them now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from bandstand.actor.schema import methods_of
from bandstand.core.ids import ActorId
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.pod.link.hot.receipts import Tally

Place: TypeAlias = int

NOBODY = ActorId(0, None, None)


class Door:
    """One role of ours, as the other side knows it: the names of its methods are in the order of their numbers."""

    __slots__ = ("_find", "_names", "actor", "methods", "role")

    def __init__(self, role: str, names: Sequence[str], find: Callable[[str], Handle | None]) -> None:
        self.role = role
        self._names = list(names)
        self._find = find
        self.actor = NOBODY
        self.methods: list[Method] = []
        self.renew()

    def renew(self) -> bool:
        """Look for who is there now; whether it is another one than before.

        Raises:
            BadMessage: it has other methods than the other side believes.
        """
        handle = self._find(self.role)
        if handle is None:
            return False
        if not self.methods:
            methods = methods_of(handle)
            if [method.name for method in methods] != self._names:
                raise BadMessage(
                    f"the other side knows other methods of role {self.role!r} than there are: not the same program"
                )
            self.methods = methods
        before, self.actor = self.actor, handle.__actor_id__()
        return self.actor is not before and self.actor.is_alive


class Inlet:
    """One method of one of our roles, as the other side knows it. None until somebody was there."""

    __slots__ = ("_place", "door", "method", "tally")

    def __init__(self, door: Door, place: Place, tally: Tally) -> None:
        self.door = door
        self._place: Place = place
        self.tally = tally
        self.method: Method | None = None
        self.resolve()

    def resolve(self) -> Method | None:
        """The method, if anybody is there who has it, or was."""
        if self.door.methods:
            self.method = self.door.methods[self._place]
        return self.method
