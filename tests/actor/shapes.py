"""An actor with methods of several signatures."""

from __future__ import annotations

from bandstand.actor import Actor, ask, tell


class Shapes(Actor):
    """Its methods return their arguments."""

    kind = "shapes"

    def __init__(self) -> None:
        self.got: list[object] = []

    @ask
    def one(self, a: object) -> object:
        return a

    @ask
    def two(self, a: object, b: object = "b") -> object:
        return a, b

    @ask
    def defaults(self, a: object = None, b: list[int] = []) -> object:  # noqa: B006  # the same object must arrive
        return a, b

    @ask
    def mixed(self, a: object, b: object = 2, *, c: object = 3) -> object:
        return a, b, c

    @tell
    def put(self, a: object, b: object = 2, *, c: object = 3) -> None:
        self.got.append((a, b, c))

    @ask
    def all_put(self) -> list[object]:
        return self.got

    def inner(self) -> str:
        return "plain"
