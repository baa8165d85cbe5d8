"""The actor table: which cell sits at which index, and how often the index has been given out.

An index is used again with the next generation, so an old number never finds the new tenant. When an index has used up
its generations it is retired for good rather than wrapped around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.core.hot.ids import ActorId
from bandstand.core.numbers import INDEX_SHIFT, LOOP_SHIFT, MAX_GENERATION, MAX_INDEX

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell

Count: TypeAlias = int
Number: TypeAlias = int


class Table:
    """At most `capacity` cells of the loop with tag `loop_tag`; `alive` are in it."""

    __slots__ = ("alive", "capacity", "cells", "free", "generations", "last_generation", "loop_tag", "used")

    def __init__(self, loop_tag: Count, capacity: Count, last_generation: Count = MAX_GENERATION) -> None:
        self.loop_tag: Count = loop_tag
        self.capacity: Count = capacity
        self.last_generation: Count = last_generation
        self.alive: Count = 0
        # Index 0 is nobody's: a number of 0 is never an actor.
        self.cells: list[Cell | None] = [None]
        self.generations: list[Count] = [0]
        self.used: Count = 1
        self.free: list[Count] = []

    @cython.boundscheck(False)
    def admit(self, cell: Cell) -> ActorId | None:
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
        actor.fate = 0
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

    def living(self) -> list[Cell]:
        """All cells, the youngest first."""
        by_birth: dict[Number, Cell] = {}
        for cell in self.cells:
            if cell is not None:
                by_birth[cell.birth] = cell
        return [by_birth[birth] for birth in sorted(by_birth, reverse=True)]

    def find(self, number: Number) -> Cell | None:
        """The living cell with this number, of this loop."""
        index = (number >> INDEX_SHIFT) & MAX_INDEX
        if index >= self.used:
            return None
        if self.generations[index] != number & MAX_GENERATION:
            return None
        return self.cells[index]
