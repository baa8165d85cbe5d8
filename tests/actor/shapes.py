"""An actor with a method of each signature."""

from __future__ import annotations

from bandstand.actor import Actor, ask, tell


class Shapes(Actor):
    """One method for each kind of signature. They return their arguments."""

    kind = "shapes"

    def __init__(self) -> None:
        self.got: list[object] = []

    @ask
    def nothing(self) -> object:
        return ()

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
    def positional(self, a: object, /, b: object = 2) -> object:
        return a, b

    @ask
    def named(self, *, a: object, b: object = 2) -> object:
        return a, b

    @ask
    def mixed(self, a: object, b: object = 2, *, c: object = 3) -> object:
        return a, b, c

    @ask
    def rest(self, a: object, *rest: object) -> object:
        return a, rest

    @ask
    def others(self, /, a: object = 1, **others: object) -> object:
        return a, others

    @ask
    def all(self, a: object, /, b: object = 2, *rest: object, c: object = 3, **others: object) -> object:
        return a, b, rest, c, others

    @ask
    def homonyms(
        self, /, handle: object, port: object = 0, *, method: object = 0, **others: object
    ) -> object:
        return handle, port, method, others

    @ask
    def aloof(self, /, **others: object) -> object:
        return others

    @ask  # type: ignore[arg-type]  # mypy wants `self` to be positional-only, which is what this tests
    def close(self, **others: object) -> object:
        return others

    @tell
    def put(self, a: object, b: object = 2, *, c: object = 3) -> None:
        self.got.append((a, b, c))

    @ask
    def all_put(self) -> list[object]:
        return self.got

    def inner(self) -> str:
        return "plain"
