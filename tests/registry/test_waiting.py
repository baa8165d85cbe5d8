"""Waiting for a name: every wait ends."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.actor import ActorSystem
from bandstand.errors import InvalidArgumentError, LoopClosedError, NameTimeoutError
from bandstand.registry import Registry
from bandstand.testing import VirtualClock
from tests.actor.players import turns
from tests.registry.actors import Clerk, Database

pytestmark = pytest.mark.guarantee("G205")


async def test_a_wait_ends_when_the_name_appears(loop: ActorSystem) -> None:
    registry = Registry(loop)
    waits = [asyncio.ensure_future(registry.wait("db", Database, timeout=None)) for _ in range(3)]
    other = asyncio.ensure_future(registry.wait("other", Database, timeout=None))
    await turns()
    database = loop.spawn(Database)
    registry.register("db", database)
    assert await asyncio.gather(*waits) == [database] * 3
    assert await registry.wait("db", Database) is database
    assert not other.done()
    other.cancel()


@pytest.mark.parametrize("ms", [0, 1, 250.5])
async def test_a_wait_ends_at_its_deadline(loop: ActorSystem, clock: VirtualClock, ms: float) -> None:
    registry = Registry(loop)
    before = clock.now_ns()
    with pytest.raises(NameTimeoutError, match=f"no actor registered the name 'db' within {ms:.15g} ms"):
        await registry.wait("db", Database, timeout=ms / 1000)
    with pytest.raises(TimeoutError):
        await registry.wait("db", Database, timeout=ms / 1000)
    assert clock.now_ns() - before >= 2 * ms * 1_000_000


async def test_a_cancelled_wait_leaves_nothing(loop: ActorSystem) -> None:
    registry = Registry(loop)
    wait = asyncio.ensure_future(registry.wait("db", Database, timeout=None))
    await turns()
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    registry.register("db", loop.spawn(Database))


def test_a_wait_ends_with_the_loop(loop: ActorSystem) -> None:
    async def main() -> None:
        async with loop:
            registry = Registry(loop)
            waits = [
                asyncio.ensure_future(registry.wait("db", Database, timeout=timeout))
                for timeout in (None, 1000)
            ]
            await turns()
        for wait in waits:
            with pytest.raises(LoopClosedError, match="'db'"):
                await wait

    with asyncio.Runner(loop_factory=loop.config.loop_factory) as runner:
        runner.run(main())


async def test_a_wait_continues_if_the_name_is_gone_again(loop: ActorSystem) -> None:
    registry = Registry(loop)
    wait = asyncio.ensure_future(registry.wait("db", Database, timeout=None))
    await turns()
    short = loop.spawn(Database)
    registry.register("db", short)
    short.stop()
    await turns()
    assert not wait.done()
    database = loop.spawn(Database)
    registry.register("db", database)
    assert await wait is database


async def test_an_actor_of_another_class_ends_a_wait_with_an_error(loop: ActorSystem) -> None:
    registry = Registry(loop)
    wait = asyncio.ensure_future(registry.wait("db", Database, timeout=None))
    await turns()
    registry.register("db", loop.spawn(Clerk))
    with pytest.raises(InvalidArgumentError, match="'db' is a Clerk, not a Database"):
        await wait
    with pytest.raises(InvalidArgumentError, match=r"timeout is -0\.001"):
        await registry.wait("db", Database, timeout=-0.001)
