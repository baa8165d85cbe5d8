"""Whose turn it is among workers that are all alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.pool.vocabulary import Routing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandstand.pool.bench import Bench

__all__ = ("Turns",)


@final
class Turns:
    """Goes around the workers of a pool. Those that are down or have all they may are passed over."""

    __slots__ = ("_is_by_load", "_last")

    def __init__(self, routing: Routing) -> None:
        self._is_by_load = routing is Routing.LEAST_LOADED
        self._last = -1

    def pick(self, benches: Sequence[Bench]) -> Bench | None:
        """Who gets the next message; None if nobody can take one."""
        count = len(benches)
        places = [(self._last + step) % count for step in range(1, count + 1)]
        ready = [place for place in places if benches[place].is_ready]
        if not ready:
            return None
        # min() takes the first of equals, and so does going around.
        self._last = min(ready, key=lambda place: len(benches[place].out)) if self._is_by_load else ready[0]
        return benches[self._last]
