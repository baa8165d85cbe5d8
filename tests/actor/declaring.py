"""Helpers for tests of declarations: an actor with a message for every lane, and classes created at run time.

Classes that type checkers would refuse are created with untyped versions of the decorators.
"""

from __future__ import annotations

from typing import Any

from bandstand.actor import Actor, ask, tell
from bandstand.core import Lane

# The decorators without their types.
LOOSE: dict[str, Any] = {
    "tell": tell,
    "control": tell(lane=Lane.CONTROL),
    "management": tell(lane=Lane.MANAGEMENT),
    "ask": ask,
}
loose_tell: Any = tell
loose_ask: Any = ask


def nothing(self: object) -> None:
    """Do nothing."""


def class_with(name: str, value: object, *bases: type, **options: Any) -> Any:
    """Create an actor class with one attribute, as a `class` statement does."""
    return type("Made", bases or (Actor,), {name: value}, **options)


class Book(Actor):
    """Records the messages of every lane."""

    def __init__(self, lines: list[object] | None = None) -> None:
        self.lines: list[object] = [] if lines is None else lines

    @tell
    def low(self, line: object = "low") -> None:
        self.lines.append(line)

    @tell(lane=Lane.MANAGEMENT)
    def middle(self, line: object = "middle") -> None:
        self.lines.append(line)

    @tell(lane=Lane.CONTROL)
    def high(self, line: object = "high") -> None:
        self.lines.append(line)

    @ask
    def low_ask(self) -> int:
        self.lines.append("low ask")
        return len(self.lines)

    @ask(lane=Lane.MANAGEMENT)
    def middle_ask(self) -> int:
        self.lines.append("middle ask")
        return len(self.lines)

    @ask(lane=Lane.CONTROL)
    async def high_ask(self) -> int:
        self.lines.append("high ask")
        return len(self.lines)
