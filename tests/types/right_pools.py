"""What a user may write with pools and batches: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_type

from bandstand.actor import (
    Actor,
    ActorSystem,
    Implements,
    Interface,
    Reply,
    Tell,
    ask,
    batch,
    batch_ask,
    tell,
)
from bandstand.core import Lane
from bandstand.pool import ByKey, OnDeath, Pool, PoolStatus, Resizing, Routing, WorkerStatus, pooled


class NotThere(Exception):  # noqa: N818 -- it is an answer
    pass


class Renderer(Actor):
    def __init__(self, quality: int, *, fast: bool = False) -> None:
        self.quality = quality

    @tell
    def render(self, page: str) -> None: ...

    @ask
    def count(self) -> int:
        return 1

    @batch(limit=8)
    def store(self, rows: list[tuple[int, str]]) -> None: ...

    @batch(lane=Lane.CONTROL)
    async def store_later(self, rows: Sequence[bytes]) -> None: ...

    @batch_ask(limit=4)
    def find(self, keys: list[str]) -> list[float]:
        return [0.5 for _ in keys]

    @batch_ask(raises=NotThere)
    async def seek(self, keys: list[str]) -> list[int | NotThere]:
        return [NotThere(key) for key in keys]

    @batch_ask(raises=(NotThere,))
    def look(self, keys: list[str]) -> list[int | NotThere]:
        return [NotThere(key) for key in keys]


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...
    @batch(limit=3)
    def put(self, rows: list[int]) -> None: ...


class Counter(Implements[Counting]):
    def add(self, n: int) -> None: ...
    def put(self, rows: list[int]) -> None: ...


def key_of(n: int) -> int:
    return n % 7


async def use(loop: ActorSystem) -> None:
    pool = pooled(loop, 4, routing=Routing.LEAST_LOADED, on_death=OnDeath.REQUEUE_ALL).spawn(
        Renderer, 3, fast=True
    )
    assert_type(pool, Pool[Renderer])
    assert_type(pool.handle, Renderer)
    pool.handle.render("a")
    assert_type(await pool.handle.count(), int)
    assert_type(await pool.handle.count.within(0.01)(), int)
    keyed = pooled(loop, routing=ByKey(key_of)).spawn(Counter)
    assert_type(keyed, Pool[Counting])
    keyed.handle.add(1)
    keyed.handle.put(1)
    status = pool.status()
    assert_type(status, PoolStatus)
    assert_type(status.workers, tuple[WorkerStatus, ...])
    resizing = pool.resize(3)
    await assert_type(resizing, Resizing)
    assert_type(await pool.drain(timeout=None), bool)


async def batches(loop: ActorSystem) -> None:
    renderer = loop.spawn(Renderer, 1)
    assert_type(renderer.store, Tell[[tuple[int, str]]])
    renderer.store((1, "a"))
    assert_type(renderer.store.try_send((1, "a")), bool)
    await renderer.store.when_room((1, "a"))
    renderer.store_later(b"x")
    reply = renderer.find("k")
    await assert_type(reply, Reply[float])
    assert_type(await renderer.find("k"), float)
    assert_type(await renderer.seek("k"), int)
    assert_type(await renderer.look("k"), int)
    assert_type(renderer.seek.blocking("k"), int)
