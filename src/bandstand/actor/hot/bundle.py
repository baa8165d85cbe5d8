"""A bundle: what stands in the sender's place while an actor is at several messages at once.

A turn has one sender. Of a batch each message has its own, or none: what the kernel tells the bundle, it tells each of them.
"""

# The hot modules are one mechanism in several files, across both rooms: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.actor.hot.asks import Asked

if TYPE_CHECKING:
    from bandstand.actor.hot.method import Method
    from bandstand.core.ids import ActorId

ReasonNumber: TypeAlias = int


class Bundle(Asked):
    """Whoever waits for one of the messages at hand. `told` are they, in the order of the messages; None for nobody."""

    __slots__ = ("method", "told")

    def __init__(self, method: Method, actor: ActorId, told: list[Any]) -> None:
        super().__init__(actor)
        self.method = method
        self.told = told
        if method.is_ask:
            for each in told:
                # Whoever cancels it, or waits for us, means this incarnation.
                each.actor = actor
                if method.awaits:
                    each.relay = self.reconsider

    def settle(self, answers: Any) -> None:
        """The handler has an answer for each: one that is of a declared exception is raised where it was asked."""
        raises = self.method.raises
        for each, answer in zip(self.told, answers, strict=True):
            each.relay = None
            if len(raises) > 0 and isinstance(answer, raises):
                each.fail(answer)
            else:
                each.answer(answer)

    def answer(self, value: object) -> None:
        """All were handled, and nobody gets anything."""
        for each in self.told:
            if each is not None:
                each.answer(value)

    def fail(self, error: BaseException) -> None:
        """All are answered with the same error."""
        for each in self.told:
            each.relay = None
            each.fail(error)

    def interrupted(
        self, actor: ActorId | None, name: str | None, reason: ReasonNumber, cause: BaseException | None
    ) -> None:
        """The actor has ended in the middle of them."""
        for each in self.told:
            if each is not None:
                each.interrupted(actor, name, reason, cause)

    def is_withdrawn(self) -> bool:
        """Whether nobody is left who waits for an answer."""
        if not self.method.is_ask:
            return False
        for each in self.told:  # noqa: SIM110  # a generator cannot be compiled into a method of C
            if not each.is_withdrawn():
                return False
        return True

    def reconsider(self) -> None:
        """One of them is taken back: if it was the last, the handler is cancelled."""
        cell: Any = self.actor.cell
        if cell is None or cell.driver is None or cell.turn is None:
            return
        if cell.turn.sender is self and self.is_withdrawn():
            cell.driver.cancel()
