"""What a state machine decides: pure, and apart from what it does.

A `Table` is what a class declares: which state handles which message, and how. A `Course` is where one machine stands: its state, and
those to which it will return. Both are values; the machine asks them, and acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from bandstand.errors import BadTransition

__all__ = ("DEEPEST", "Course", "Table", "Verdict")

DEEPEST = 32
"""How many states a machine remembers to return to."""


class Verdict(Enum):
    """What becomes of a message in a state."""

    HANDLE = 1
    """The state has a handler for it."""
    DEFAULT = 2
    """It has none, but the marked method has a body."""
    POSTPONE = 3
    """It is kept until the state changes."""
    IGNORE = 4
    """Nothing happens, and nobody is told."""
    UNHANDLED = 5
    """Nobody said what to do: that is told."""


@dataclass(frozen=True, slots=True)
class Course:
    """Where a machine stands."""

    state: str
    below: tuple[str, ...] = ()
    """To which states it returns, the last one first."""

    def become(self, state: str, *, push: bool) -> Course:
        """Go to another state, or to the same anew; with `push`, to return one day."""
        if not push:
            return Course(state, self.below)
        if len(self.below) >= DEEPEST:
            raise BadTransition(
                f"{len(self.below)} states wait to be returned to, as many as may: unbecome() before going on, or become() without push"
            )
        return Course(state, (*self.below, self.state))

    def unbecome(self) -> Course:
        """Return to the state that the last `push` has left."""
        if not self.below:
            raise BadTransition(
                f"there is no state to return to from {self.state!r}: nobody has come here with push=True"
            )
        return Course(self.below[-1], self.below[:-1])


@dataclass(frozen=True, slots=True)
class Table:
    """What a class of machines declares, by the names of its states and messages."""

    initial: str
    states: frozenset[str]
    handled: frozenset[tuple[str, str]]
    """State and message, where the state has a handler."""
    postponed: frozenset[tuple[str, str]] = frozenset()
    ignored: frozenset[tuple[str, str]] = frozenset()
    defaults: frozenset[str] = frozenset()
    """Messages whose marked method has a body."""
    after_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """For states with a timeout: how long one may be in them."""

    def verdict(self, state: str, message: str) -> Verdict:
        """What becomes of a message in a state."""
        if (state, message) in self.handled:
            return Verdict.HANDLE
        if (state, message) in self.postponed:
            return Verdict.POSTPONE
        if (state, message) in self.ignored:
            return Verdict.IGNORE
        return Verdict.DEFAULT if message in self.defaults else Verdict.UNHANDLED
