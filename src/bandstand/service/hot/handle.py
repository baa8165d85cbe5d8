"""A handle: what one holds of a typed actor. Each class of actors has a handle class of its own, made with the class.

A handle is the id of an actor with its methods in front. It is cheap, hashable, comparable and good on every thread. One
that belongs to a supervisor's child has a *place*, and finds the present incarnation there when the one it knows has ended;
while nothing ended, it never looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from bandstand.core.hot.desk import Desk
from bandstand.core.hot.ids import ActorId

if TYPE_CHECKING:
    from bandstand.service.hot.reply import Asks

Milliseconds: TypeAlias = int


class Place(Protocol):
    """Where an actor is to be found that is started again after its end."""

    def find(self) -> ActorId | None:
        """The present incarnation; None while there is none. From any thread."""
        ...

    def describe(self) -> str:
        """How to speak of it, and why nobody is there."""
        ...


class Handle:
    """The base of all handles."""

    __slots__ = ("actor", "ask_ms", "asks", "loop", "name", "place")

    def __init__(
        self,
        loop: Desk,
        actor: ActorId,
        name: str | None,
        asks: Asks,
        ask_ms: Milliseconds,
        place: Place | None,
    ) -> None:
        # Where its actors live, all its incarnations: kept here so that a send need not look.
        self.loop = loop
        self.actor = actor
        self.name = name
        self.asks = asks
        # How long an ask through this handle waits; below 0 for ever.
        self.ask_ms = ask_ms
        self.place = place

    def renew(self) -> bool:
        """Look for another incarnation than the one known; whether there is one."""
        place = self.place
        if place is None:
            return False
        actor = place.find()
        if actor is None or actor is self.actor:
            return False
        self.actor = actor
        return True

    def refresh(self) -> bool:
        """Whether somebody accepts messages behind it; looks for another incarnation if the one known does not."""
        return self.actor.is_alive or (self.renew() and self.actor.is_alive)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.key() == other.key())

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> Any:
        """What makes it the handle it is: its place, or, without one, its actor."""
        return self.actor if self.place is None else self.place

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to its loop and cannot be pickled or copied")

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        kind: str = getattr(type(self), "kind_name", "Handle")
        return f"<{kind}{name} {self.actor!r}>"
