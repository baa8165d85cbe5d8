"""Actor ids, and the table that hands them out.

An id is a 64-bit number inside a small object that points to its actor's cell. The number makes an id unique: it consists of the loop's
tag, an index in the loop's actor table, and the generation of that index.

    63         48 47              24 23               0
    | loop tag   | index            | generation      |

The object makes a send fast: converting a Python int to a C integer and looking it up costs about 50 ns per send, following a pointer costs
one. When the actor exits, the kernel clears the pointer, so a stale id is stale by itself, whatever happens to its index in the table.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from bandstand.core.enums import (
    FAILED,
    INDEX_SHIFT,
    LOOP_SHIFT,
    MAX_GENERATION,
    MAX_INDEX,
    STOPPED,
    STOPPING,
    ExitReason,
)
from bandstand.errors.formatting import describe_class

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.kernel import Kernel
    from bandstand.core.mailbox import ActorCell

# Python computes the hash of an int modulo this number.
MODULUS = sys.hash_info.modulus
REASON_NAMES = tuple(reason.name for reason in ExitReason)

Count: TypeAlias = int
Number: TypeAlias = int
StatusNumber: TypeAlias = int


@cython.freelist(1024)
@cython.cclass
class ActorId:
    """The address of one incarnation of one actor. Opaque: hashable, comparable, `int(id)` is its 64-bit number.

    An id never refers to another actor than the one it was made for. It compares equal to its number and has the same hash, so both find
    the same entry of a dict. An id belongs to its loop and cannot be pickled; send `int(id)` instead.
    """

    __slots__ = ("cell", "end_cause", "home", "number", "reason", "status")

    def __init__(self, number: Number, cell: ActorCell | None, home: Kernel | None) -> None:
        self.number = number
        # None once the actor has exited.
        self.cell = cell
        # The loop of the actor.
        self.home = home
        # The numbers of its ActorStatus and, after the exit, of its ExitReason.
        self.status: StatusNumber = 0
        self.reason: StatusNumber = 0
        # After an abnormal exit: the class of its cause, and the text if that is plain; None if there was no cause.
        self.end_cause: tuple[type, str | None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the actor accepts messages now. Safe from any thread; the answer may change at any time."""
        return self.cell is not None and self.status < STOPPING

    def describe_end(self) -> str:
        """Return how the actor has ended, as the end of a sentence: "has ended normally". From any thread."""
        if self.status == STOPPED:
            return "has ended normally"
        if self.status == FAILED:
            cause = self.end_cause
            text = "" if cause is None else f" ({describe_class(cause[0], cause[1])})"
            return f"has ended with reason {REASON_NAMES[self.reason]}{text}"
        return "is stopping" if self.status == STOPPING else "has ended, or never existed"

    def __int__(self) -> int:
        return self.number

    def __index__(self) -> int:
        return self.number

    def __hash__(self) -> int:
        # Equals hash(self.number), without making an int: supervisors and registries look up ids all the time.
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
    """The cells of one loop by index: at most `capacity`, of which `alive` are in use.

    A freed index is used again with the next generation, so an old number never finds the new actor. An index whose generations are used up
    is retired; it does not wrap around.
    """

    __slots__ = ("alive", "capacity", "cells", "free", "generations", "last_generation", "loop_tag", "used")

    def __init__(self, loop_tag: Count, capacity: Count, last_generation: Count = MAX_GENERATION) -> None:
        self.loop_tag: Count = loop_tag
        self.capacity: Count = capacity
        self.last_generation: Count = last_generation
        self.alive: Count = 0
        # Index 0 is never given out: the number 0 means no actor.
        self.cells: list[ActorCell | None] = [None]
        self.generations: list[Count] = [0]
        self.used: Count = 1
        self.free: list[Count] = []

    @cython.boundscheck(False)
    def admit(self, cell: ActorCell) -> ActorId | None:
        """Add a cell and return its new id; None if the table is full. Retired indexes count as taken."""
        if self.alive >= self.capacity:
            return None
        spare = len(self.free)
        index = self.free[spare - 1] if spare > 0 else self.used
        if index > MAX_INDEX:
            return None
        # Everything that allocates comes first, so that a MemoryError changes nothing.
        if spare == 0:
            # A failed attempt may have left one of the two lists longer than the other.
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
        actor.end_cause = None
        self.generations[index] = generation
        self.alive += 1
        if spare == 0:
            self.used += 1
        else:
            self.free.pop()
        self.cells[index] = cell
        return actor

    def release(self, number: Number) -> None:
        """Free the index of an actor that has exited. Its number is never given out again."""
        index = (number >> INDEX_SHIFT) & MAX_INDEX
        self.cells[index] = None
        self.alive -= 1
        generation = self.generations[index]
        if generation < self.last_generation:
            self.free.append(index)

    def living(self) -> list[ActorCell]:
        """Return all cells, the one spawned last first."""
        by_serial: dict[Number, ActorCell] = {}
        for cell in self.cells:
            if cell is not None:
                by_serial[cell.serial] = cell
        return [by_serial[serial] for serial in sorted(by_serial, reverse=True)]

    def find(self, number: Number) -> ActorCell | None:
        """Return the cell with this number of this loop; None if its actor has exited."""
        index = (number >> INDEX_SHIFT) & MAX_INDEX
        if index >= self.used:
            return None
        if self.generations[index] != number & MAX_GENERATION:
            return None
        return self.cells[index]
