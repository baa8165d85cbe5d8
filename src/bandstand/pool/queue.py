"""What waits in a pool: a line for each lane, the highest first."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bandstand.pool.errand import Errand

__all__ = ("Queue",)

LANES = 4


@final
class Queue:
    """Errands that wait, in their order. How many there may be is the business of the pool's mailbox."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: tuple[deque[Errand], ...] = tuple(deque() for _ in range(LANES))

    def push(self, errand: Errand) -> None:
        """One more, as the last of its lane."""
        self._lines[errand.method.lane].append(errand)

    def push_front(self, errand: Errand) -> None:
        """One that comes back, as the first of its lane."""
        self._lines[errand.method.lane].appendleft(errand)

    def pop(self) -> Errand:
        """The next one. Never call it empty."""
        return next(line for line in self._lines if line).popleft()

    def discard(self, errand: Errand) -> bool:
        """Take one out, wherever it stands; whether it was there."""
        line = self._lines[errand.method.lane]
        if errand not in line:
            return False
        line.remove(errand)
        return True

    def clear(self) -> list[Errand]:
        """Take all of them out, in their order."""
        found = list(self)
        for line in self._lines:
            line.clear()
        return found

    def __iter__(self) -> Iterator[Errand]:
        for line in self._lines:
            yield from line

    def __len__(self) -> int:
        return sum(map(len, self._lines))
