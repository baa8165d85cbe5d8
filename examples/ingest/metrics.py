"""Counters of the store, in an actor that is too simple to fail."""

from __future__ import annotations

from collections import Counter

from bandstand import Actor, ask, tell


class Metrics(Actor):
    """Counts. Senders use `metrics.add.try_send("flushed", 3)`: they do not wait, and may lose a count."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @tell
    def add(self, what: str, n: int) -> None:
        self._counts[what] += n

    @ask
    def read(self) -> dict[str, int]:
        return dict(self._counts)
