"""What a user must not write with pools and batches: both type checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from bandstand.pool import ByKey, Routing, pooled
from bandstand.actor import Actor, ActorSystem, ask, batch, batch_ask, tell


class Renderer(Actor):
    def __init__(self, quality: int) -> None:
        self.quality = quality

    @tell
    def render(self, page: str) -> None: ...

    @ask
    def count(self) -> int:
        return 1

    @batch(limit=8)
    def store(self, rows: list[int]) -> None: ...

    @batch_ask(limit=8)
    def find(self, keys: list[str]) -> list[float]:
        return [0.5 for _ in keys]


class Wrong(Actor):
    @batch(limit=8)  # E:
    def alone(self, row: int) -> None: ...

    @batch()  # E:
    def two(self, rows: list[int], more: int) -> None: ...

    @batch()  # E:
    def returns(self, rows: list[int]) -> list[int]:
        return rows

    @batch_ask()  # E:
    def none(self, rows: list[int]) -> None: ...

    @batch_ask()  # E:
    def one(self, rows: list[int]) -> int:
        return 1


async def use(loop: ActorSystem) -> None:
    pool = pooled(loop, 4).spawn(Renderer, 3)
    pool.handle.render(5)  # E:
    pool.handle.missing()  # E:
    pool.handle.render.try_send()  # E:
    text: str = await pool.handle.count()  # E:
    pooled(loop).spawn(Renderer, "high")  # E:
    pooled(loop).spawn(Renderer)  # E:
    pooled(loop, routing=ByKey(5))  # E:
    pooled(loop, routing=Routing.ROUND_ROBIN).spawn(int)  # E:
    pool.handle = 5  # E:
    renderer = loop.spawn(Renderer, 1)
    renderer.store([1])  # E:
    renderer.store(rows=1)  # E:
    renderer.store.try_send("a")  # E:
    number: int = await renderer.find("a")  # E:
    await renderer.find(["a"])  # E:
