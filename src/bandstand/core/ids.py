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

from bandstand.core.numbers import INDEX_SHIFT, LOOP_SHIFT, MAX_GENERATION, MAX_INDEX, STOPPING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.reach import Reach

# What Python reduces the hash of an int by.
MODULUS = sys.hash_info.modulus

Number: TypeAlias = int
StatusNumber: TypeAlias = int


@cython.freelist(1024)
@cython.cclass
class ActorId:
    """The address of one incarnation of one actor. Opaque: hashable, comparable, `int(id)` is its 64-bit number.

    An id never refers to another actor than the one it was made for. It compares equal to its number, so both find
    the same entry of a dict. It belongs to its loop and cannot be pickled; send `int(id)` where only numbers can go.
    """

    __slots__ = ("cell", "fate", "home", "number", "reason")

    def __init__(self, number: Number, cell: Cell | None, home: Reach | None) -> None:
        self.number = number
        # The living actor; None once it has ended.
        self.cell = cell
        # The loop it belongs to, and, in numbers, the actor's status and the reason of its end.
        self.home = home
        self.fate: StatusNumber = 0
        self.reason: StatusNumber = 0

    @property
    def is_alive(self) -> bool:
        """Whether its actor accepts messages at this moment. From any thread; it may end the next."""
        return self.cell is not None and self.fate < STOPPING

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
