"""A supervisor that shards one hot child: several copies of it, and a key that says which one to talk to.

A child that everybody talks to handles one message at a time. If what it does can be divided by a key, a user, a device, a
file, then as many copies as are useful share the load, and all that belongs to one key still goes through one actor, in
order. The place of a key depends on the key and the number of partitions alone: it is the same in the next run of the program.
"""

from __future__ import annotations

from contextvars import Context as ContextVars
from typing import TYPE_CHECKING, final

from bandstand.core import ActorId
from bandstand.supervision.hot.seat import Seat
from bandstand.supervision.keys import place_of
from bandstand.supervision.overseer import Overseer
from bandstand.supervision.spec import PartitionSpec

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.supervision.seats import Maker

__all__ = ("PartitionSupervisor",)


@final
class PartitionSupervisor(Overseer):
    """A running supervisor of the partitions of one child. `spawn_supervisor` makes one of a `PartitionSpec`."""

    __slots__ = ("_spec",)

    spec_type = PartitionSpec

    def __init__(self, loop: Loop, spec: PartitionSpec, name: str, context: ContextVars, make: Maker) -> None:
        super().__init__(loop, name, context, make, spec.restarts)
        self._spec = spec

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self._spec.partitions

    def route(self, key: str | bytes | int) -> ActorId | None:
        """The actor that has to do with a key; None while that partition is down, being restarted, or gone for good.

        Raises:
            InvalidArgument: the key is no str, bytes or int.
        """
        seat = self._seats.get(self._name_of(place_of(key, self._spec.partitions)))
        return None if seat is None else self._present(seat)

    def _name_of(self, place: int) -> str:
        return f"{self._spec.child.name}-{place}"

    def _first_seats(self) -> list[Seat]:
        return [
            Seat(self._name_of(place), self._spec.child, self._context, (place,))
            for place in range(self._spec.partitions)
        ]
