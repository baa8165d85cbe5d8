"""Those who watch the rounds of a loop, beside what a pod has called after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

__all__ = ("Rounds",)


@final
class Rounds:
    """Calls what was there before, and then everybody who watches, in the order in which they came.

    Args:
        before: what is called after each round, whoever watches.
        was_looking: whether the loop gave a round to each end without them. Both are put back when the last stops.
    """

    __slots__ = ("_watches", "before", "was_looking")

    def __init__(self, before: Callable[[], object] | None, was_looking: bool) -> None:
        self.before = before
        self.was_looking = was_looking
        # By a mark of their own: one function may watch twice.
        self._watches: dict[object, Callable[[], object]] = {}

    def add(self, function: Callable[[], object]) -> object:
        """Have one more called; the mark by which it is removed."""
        mark = object()
        self._watches[mark] = function
        return mark

    def remove(self, mark: object) -> None:
        """Have it not called any more. The second time nothing happens."""
        self._watches.pop(mark, None)

    def __bool__(self) -> bool:
        return bool(self._watches)

    def __call__(self) -> None:
        """A round is over."""
        if self.before is not None:
            self.before()
        for mark in list(self._watches):
            # One of them may have taken another back.
            function = self._watches.get(mark)
            if function is not None:
                function()
