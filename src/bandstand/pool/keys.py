"""Which worker a key belongs to, and when a key may move.

The choice: jump consistent hashing over numbered places. When the number changes from n to n + 1, one key in n + 1 moves, and all of those
to the new place; nothing is remembered for it. A key that moves must not overtake itself: while its old worker has messages of it, those
that come for the new one are parked.

Refused: a remainder of a hash, by which nearly all keys move at every resize; keeping a key where it is while it is busy, by which a worker
with one busy key could never leave.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from bandstand.supervise.lowlevel import jump_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bandstand.pool.bench import Bench
    from bandstand.pool.errand import Errand

__all__ = ("Keys",)

Key = str | bytes | int


@final
class Keys:
    """The keys of a pool that workers have something of, and what is parked."""

    __slots__ = ("_busy", "_parked")

    def __init__(self) -> None:
        # For each key that a worker has messages of: whose it is, and how many.
        self._busy: dict[Key, tuple[Bench, int]] = {}
        self._parked: dict[Key, deque[Errand]] = {}

    def route(self, errand: Errand, benches: Sequence[Bench]) -> Bench | None:
        """Whose an errand is; it waits there from now on. None if it is parked, because its key is still busy elsewhere."""
        key = errand.key
        bench = benches[jump_of(key, len(benches))]
        busy = self._busy.get(key)
        if key in self._parked or (busy is not None and busy[0] is not bench):
            self._parked.setdefault(key, deque()).append(errand)
            return None
        bench.waiting.push(errand)
        return bench

    def put_back(self, errand: Errand, benches: Sequence[Bench]) -> Bench | None:
        """The same of one that comes back, before all others of its key."""
        line = self._parked.get(errand.key)
        if line is not None:
            line.appendleft(errand)
            return None
        bench = self.route(errand, benches)
        if bench is not None:
            bench.waiting.discard(errand)
            bench.waiting.push_front(errand)
        return bench

    def begin(self, errand: Errand, bench: Bench) -> None:
        """An errand goes to a worker."""
        _, count = self._busy.get(errand.key, (bench, 0))
        self._busy[errand.key] = (bench, count + 1)

    def end(self, errand: Errand) -> list[Errand]:
        """A worker has an errand no more. What was parked for that, and can be routed now, in order."""
        bench, count = self._busy[errand.key]
        if count > 1:
            self._busy[errand.key] = (bench, count - 1)
            return []
        del self._busy[errand.key]
        return list(self._parked.pop(errand.key, ()))

    def discard(self, errand: Errand) -> bool:
        """Take one out that is parked; whether it was."""
        line = self._parked.get(errand.key)
        if line is None or errand not in line:
            return False
        line.remove(errand)
        if not line:
            del self._parked[errand.key]
        return True

    def clear(self) -> list[Errand]:
        """Take out all that are parked."""
        found = list(self)
        self._parked.clear()
        return found

    def __iter__(self) -> Iterator[Errand]:
        for line in self._parked.values():
            yield from line

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))
