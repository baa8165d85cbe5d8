"""What the store has done: counted by an actor that is too simple to fail."""

from __future__ import annotations

from collections import Counter

from bandstand import Actor, ask, tell


class Metrics(Actor):
    """Counts. Whoever counts here does not wait, and does not mind if nobody counts: `metrics.add.try_send("flushed", 3)`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @tell
    def add(self, what: str, n: int) -> None:
        self._counts[what] += n

    @ask
    def read(self) -> dict[str, int]:
        return dict(self._counts)
