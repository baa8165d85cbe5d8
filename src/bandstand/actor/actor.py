"""Actors as classes.

    class Counter(Actor):
        def __init__(self, start: int = 0) -> None:
            self.total = start

        @data
        def add(self, n: int) -> None:
            self.total += n

        @ask
        def value(self) -> int:
            return self.total

An object of the class is the actor's state, and belongs to it alone. Nobody outside gets hold of it: `loop.spawn(Counter, 10)`
returns a *handle*, which has the marked methods and the few of `Actor` that make sense from outside, and sends where the
object would be called.
"""

from __future__ import annotations

from bandstand.actor.declare import read_class
from bandstand.actor.facade import RESERVED, facade
from bandstand.actor.performer import Performer

__all__ = ("Actor",)


class Actor(Performer):
    """Derive from this, and mark the methods that are messages: `@data`, `@control`, `@management`, `@ask`.

    `class Slow(Actor, ask_ms=30_000)` gives asks of it another deadline than 5 s; None for none.

    Raises:
        BadDeclaration: when a class is made that contradicts itself.
    """

    @classmethod
    def _bs_declare(cls) -> None:
        cls._bs_adopt_schema(read_class(cls, RESERVED, facade(cls)))
