"""The run queue: actors with something to do, in the order in which they came to have it.

Linked through the cells themselves, so that making an actor ready allocates nothing. A cell is in the queue at most
once; its `queued` flag, kept by the kernel, sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import interpreted as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell

Count: TypeAlias = int


class RunQueue:
    """First in, first out."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first: Cell | None = None
        self.last: Cell | None = None
        self.count: Count = 0

    @cython.nonecheck(False)
    def push(self, cell: Cell) -> None:
        """Append a cell, unless it is in the queue: a visit that is due serves for everything there is to do."""
        last = self.last
        if cell is last or cell.next_ready is not None:
            return
        if last is None:
            self.first = cell
        else:
            last.next_ready = cell
        self.last = cell
        self.count += 1

    @cython.nonecheck(False)
    def pop(self) -> Cell:
        """Take the cell that has waited longest. Never call it empty."""
        cell = self.first
        assert cell is not None
        self.first = cell.next_ready
        if self.first is None:
            self.last = None
        cell.next_ready = None
        self.count -= 1
        return cell

    def pick(self, position: Count) -> Cell:
        """Take the cell at a position, counted from the one that has waited longest. For shuffled orders; O(n)."""
        if position == 0:
            return self.pop()
        before = self.first
        assert before is not None
        while position > 1:
            position -= 1
            before = before.next_ready
            assert before is not None
        cell = before.next_ready
        assert cell is not None
        before.next_ready = cell.next_ready
        if before.next_ready is None:
            self.last = before
        cell.next_ready = None
        self.count -= 1
        return cell
