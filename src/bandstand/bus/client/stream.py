"""Streams: what comes by itself, waits here for whoever reads it, and says where something is missing.

A stream is bounded. When as much waits as may, what comes next is dropped, and a `Gap` stands in its place: whoever reads on
comes to it exactly where something is missing. So nobody takes a part for the whole without having been told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Literal, TypeAlias, TypeVar, final

from msgspec import Struct

from bandstand.errors import LoopBusy

__all__ = ("Gap", "Stream")

T = TypeVar("T")

Why: TypeAlias = Literal["lagged", "overflow", "reconnected"]


@final
class Gap(Struct, frozen=True):
    """Here something is missing."""

    why: Why
    """`lagged`: the node had to drop it, because this connection did not keep up. `overflow`: whoever reads did not keep up. `reconnected`:
    it was said while there was no connection."""
    missed: int | None = None
    """How many; None if nobody can know."""


class _Hole:
    """A gap that may still grow."""

    __slots__ = ("missed", "why")

    def __init__(self, gap: Gap) -> None:
        self.why: Why = gap.why
        self.missed = gap.missed

    def grow(self, by: int | None) -> None:
        """Some more is missing, in the same place."""
        self.missed = None if self.missed is None or by is None else self.missed + by


@final
class Stream(Generic[T]):
    """A bounded queue with one reader, all of it on one event loop."""

    __slots__ = ("_error", "_held", "_is_over", "_items", "_waiter", "limit", "missed")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many items may wait."""
        self._items: deque[T | _Hole] = deque()
        # How many of them are items, and not gaps.
        self._held = 0
        self._is_over = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.missed = 0
        """How many items were dropped here, because as many waited as may."""

    def __len__(self) -> int:
        return self._held

    def put(self, item: T) -> None:
        """Add one; if as many wait as may it is dropped, and there is a gap in its place."""
        if self._is_over:
            return
        if self._held >= self.limit:
            self.missed += 1
            self.skip(Gap("overflow", 1))
            return
        self._items.append(item)
        self._held += 1
        self._wake()

    def skip(self, gap: Gap) -> None:
        """Something is missing here."""
        if self._is_over:
            return
        for last in reversed(self._items):
            # However long nobody reads, there are no two gaps of one kind between two items.
            if not isinstance(last, _Hole):
                break
            if last.why == gap.why:
                last.grow(gap.missed)
                return
        self._items.append(_Hole(gap))
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come: what waits is read, then it is over, or the error is raised."""
        if not self._is_over:
            self._is_over = True
            self._error = error
            self._wake()

    async def take(self) -> T | Gap:
        """The next one.

        Raises:
            StopAsyncIteration: it is over.
            LoopBusy: somebody else is reading it.
        """
        if self._waiter is not None:
            raise LoopBusy("two read one subscription at once: let each have one of its own")
        while not self._items:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._items.popleft()
        if isinstance(item, _Hole):
            return Gap(item.why, item.missed)
        self._held -= 1
        return item

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
