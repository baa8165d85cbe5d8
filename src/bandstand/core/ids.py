"""Actor ids: 64 bits of identity in a small object that knows its own cell.

The number is what identity asks for: loop tag, index, generation, so that a stale id never reaches another
actor. The object is what the speed asks for: turning a 64-bit Python int back into a C integer and looking it up costs
about 50 ns a send, following a pointer costs one. So the id carries its cell, and at the actor's end the cell is taken
away: a stale id is stale by itself, whatever became of its slot in the table.

    63         48 47              24 23               0
    | loop tag   | index            | generation      |
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from bandstand.core.enums import INDEX_SHIFT, LOOP_SHIFT, MAX_GENERATION, MAX_INDEX, STOPPING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.reach import Reach
    from bandstand.core.mailbox import ActorCell

# What Python reduces the hash of an int by.
MODULUS = sys.hash_info.modulus

Count: TypeAlias = int
Number: TypeAlias = int
StatusNumber: TypeAlias = int


@cython.freelist(1024)
@cython.cclass
class ActorId:
    """The address of one incarnation of one actor. Opaque: hashable, comparable, `int(id)` is its 64-bit number.

    An id never refers to another actor than the one it was made for. It compares equal to its number, so both find
    the same entry of a dict. It belongs to its loop and cannot be pickled; send `int(id)` where only numbers can go.
    """

    __slots__ = ("cell", "home", "number", "reason", "status")

    def __init__(self, number: Number, cell: ActorCell | None, home: Reach | None) -> None:
        self.number = number
        # The living actor; None once it has ended.
        self.cell = cell
        # The loop it belongs to, and, in numbers, the actor's status and the reason of its end.
        self.home = home
        self.status: StatusNumber = 0
        self.reason: StatusNumber = 0

    @property
    def is_alive(self) -> bool:
        """Whether its actor accepts messages at this moment. From any thread; it may end the next."""
        return self.cell is not None and self.status < STOPPING

    def __int__(self) -> int:
        return self.number

    def __index__(self) -> int:
        return self.number

    def __hash__(self) -> int:
        # What hash(self.number) is, without an int to be made for it: supervisors and registries look ids up all the time.
        return self.number % MODULUS

    def __bool__(self) -> Literal[True]:
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ActorId, int)):
            return self.number == int(other)
        return NotImplemented

    def __lt__(self, other: object) -> bool:
        if isinstance(other, (ActorId, int)):
            return self.number < int(other)
        return NotImplemented

    def __le__(self, other: object) -> bool:
        if isinstance(other, (ActorId, int)):
            return self.number <= int(other)
        return NotImplemented

    def __gt__(self, other: object) -> bool:
        if isinstance(other, (ActorId, int)):
            return self.number > int(other)
        return NotImplemented

    def __ge__(self, other: object) -> bool:
        if isinstance(other, (ActorId, int)):
            return self.number >= int(other)
        return NotImplemented

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to its loop and cannot be pickled or copied; send int(id) instead")

    def __repr__(self) -> str:
        loop_tag = self.number >> LOOP_SHIFT
        index = (self.number >> INDEX_SHIFT) & MAX_INDEX
        generation = self.number & MAX_GENERATION
        return f"<ActorId {loop_tag}.{index}.{generation}>"


class ActorTable:
    """At most `capacity` cells of the loop with tag `loop_tag`; `alive` are in it."""

    __slots__ = ("alive", "capacity", "cells", "free", "generations", "last_generation", "loop_tag", "used")

    def __init__(self, loop_tag: Count, capacity: Count, last_generation: Count = MAX_GENERATION) -> None:
        self.loop_tag: Count = loop_tag
        self.capacity: Count = capacity
        self.last_generation: Count = last_generation
        self.alive: Count = 0
        # Index 0 is nobody's: a number of 0 is never an actor.
        self.cells: list[ActorCell | None] = [None]
        self.generations: list[Count] = [0]
        self.used: Count = 1
        self.free: list[Count] = []

    @cython.boundscheck(False)
    def admit(self, cell: ActorCell) -> ActorId | None:
        """Seat a cell and give it its id; None if the table is full, retired indexes counted."""
        if self.alive >= self.capacity:
            return None
        spare = len(self.free)
        index = self.free[spare - 1] if spare > 0 else self.used
        if index > MAX_INDEX:
            return None
        # All that needs memory comes first: if there is none, nothing has changed.
        if spare == 0:
            # One of the two may be longer by what a failed attempt has left there.
            if len(self.cells) == self.used:
                self.cells.append(None)
            if len(self.generations) == self.used:
                self.generations.append(0)
        generation = self.generations[index] + 1
        actor = ActorId.__new__(ActorId)
        actor.number = (self.loop_tag << LOOP_SHIFT) | (index << INDEX_SHIFT) | generation
        actor.cell = cell
        actor.home = cell.kernel
        actor.status = 0
        actor.reason = 0
        self.generations[index] = generation
        self.alive += 1
        if spare == 0:
            self.used += 1
        else:
            self.free.pop()
        self.cells[index] = cell
        return actor

    def release(self, number: Number) -> None:
        """Empty the seat of an actor that has ended. Its number will never be given out again."""
        index = (number >> INDEX_SHIFT) & MAX_INDEX
        self.cells[index] = None
        self.alive -= 1
        generation = self.generations[index]
        if generation < self.last_generation:
            self.free.append(index)

    def living(self) -> list[ActorCell]:
        """All cells, the youngest first."""
        by_serial: dict[Number, ActorCell] = {}
        for cell in self.cells:
            if cell is not None:
                by_serial[cell.serial] = cell
        return [by_serial[serial] for serial in sorted(by_serial, reverse=True)]

    def find(self, number: Number) -> ActorCell | None:
        """The living cell with this number, of this loop."""
        index = (number >> INDEX_SHIFT) & MAX_INDEX
        if index >= self.used:
            return None
        if self.generations[index] != number & MAX_GENERATION:
            return None
        return self.cells[index]
