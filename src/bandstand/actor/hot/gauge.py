"""A gauge: how full an actor's mailbox is, told up to the moment when what is left in it is buried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.core.ids import ActorId
    from bandstand.core.mailbox import ActorCell

__all__ = ("Gauge", "gauge_of")


class Gauge:
    """How many messages wait for an actor; told also inside its exit, when its id leads nowhere any more, and not after that."""

    __slots__ = ("cell",)

    def __init__(self) -> None:
        self.cell: ActorCell | None = None

    def depth(self) -> int:
        """How many."""
        return 0 if self.cell is None else self.cell.waiting()

    def forget(self) -> None:
        """The actor has ended: what was its cell may be another's."""
        self.cell = None


def gauge_of(actor: ActorId) -> Gauge:
    """The gauge of an actor that has not ended."""
    gauge = Gauge()
    gauge.cell = actor.cell
    return gauge
