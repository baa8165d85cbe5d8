"""The asks of a loop: what dispatch needs of one, how many there were, and who waits for whom."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.delivery import DeliveryCallback
from bandstand.core.mailbox import ActorCell

if TYPE_CHECKING:
    from bandstand.actor.hot.method import Method
    from bandstand.core.ids import ActorId

Count: TypeAlias = int


class Asked(DeliveryCallback):
    """What dispatch needs of whatever waits for an answer: on this thread or on another one.

    `actor` is who was asked; when dispatch comes to it, the incarnation that is at it. Where that one only passes the message on,
    `relay` is what it wants called when the asker takes the ask back.
    """

    __slots__ = ("actor", "relay")

    def __init__(self, actor: ActorId) -> None:
        self.actor = actor
        self.relay: Callable[[], object] | None = None

    def answer(self, value: object) -> None:
        """The handler has answered."""

    def fail(self, error: BaseException) -> None:
        """The handler answers with an error, which is no failure of its actor."""

    def is_withdrawn(self) -> bool:
        """Whether the asker has taken the ask back."""
        return False

    def done(self) -> bool:
        """Whether it has ended, one way or the other. Whoever waits for it may not have had his turn since."""
        return False

    def moved(self, actor: ActorId) -> None:
        """The ask has waited for somebody to come, and goes to this actor now."""
        self.actor = actor


class Asks:
    """What a loop knows of its asks: how many there were, and who waits for whom."""

    __slots__ = (
        "afar",
        "answered",
        "asked",
        "cancelled",
        "expired",
        "failed",
        "late",
        "lock",
        "recall",
        "serve",
        "unhandled",
        "waits",
    )

    def __init__(self) -> None:
        self.asked: Count = 0
        self.answered: Count = 0
        self.failed: Count = 0
        self.cancelled: Count = 0
        self.expired: Count = 0
        self.late: Count = 0
        # What other threads count, who must not come in between a look and a store of ours.
        self.afar: dict[str, Count] = dict.fromkeys(
            ("asked", "answered", "failed", "cancelled", "expired", "late"), 0
        )
        self.lock = allocate_lock()
        # Messages that no method of their actor is made for.
        self.unhandled: Count = 0
        # For each actor that waits in its turn: the replies it waits for.
        self.waits: dict[ActorCell, list[Asked]] = {}
        # Has an ask handled out of turn, by the actor that it waits for: whether it is. None where nobody can.
        self.serve: Callable[[Asked, Method], bool] | None = None
        # Ends what handles an ask out of turn, if that is what it is: the deadline has come.
        self.recall: Callable[[ActorId], object] | None = None

    def count_afar(self, what: str, change: Count = 1) -> None:
        """Count something that another thread has done."""
        with self.lock:
            self.afar[what] += change

    def books(self) -> dict[str, Count]:
        """The counters, by name."""
        afar = self.afar
        return {
            "asked": self.asked + afar["asked"],
            "answered": self.answered + afar["answered"],
            "failed": self.failed + afar["failed"],
            "cancelled": self.cancelled + afar["cancelled"],
            "expired": self.expired + afar["expired"],
            "late": self.late + afar["late"],
            "unhandled": self.unhandled,
        }

    def edges(self) -> list[tuple[ActorId | None, str | None, Asked]]:
        """Who waits in his turn, by id and name, and for which reply."""
        return [(cell.actor, cell.name, reply) for cell, replies in self.waits.items() for reply in replies]

    def waits_of(self, actor: ActorId) -> list[Asked]:
        """The replies that an actor waits for in its turn. From any thread."""
        cell = actor.cell
        return [] if cell is None else list(self.waits.get(cell, ()))

    def cycle(self, asker: ActorCell, target: ActorCell | None) -> list[Asked] | None:
        """The replies by which `target` waits for `asker`, in order; None if it does not."""
        if target is asker:
            return []
        if target is None or not self.waits:
            return None
        paths: list[tuple[ActorCell, list[Asked]]] = [(target, [])]
        seen = {target}
        while paths:
            cell, path = paths.pop()
            for reply in self.waits.get(cell, ()):
                if reply.done():
                    # Its asker has only to be given his turn: he waits for nobody.
                    continue
                following = reply.actor.cell
                if following is asker:
                    return [*path, reply]
                if following is not None and following not in seen:
                    seen.add(following)
                    paths.append((following, [*path, reply]))
        return None
