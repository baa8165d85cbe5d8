"""The fourth of the seed's testing guidelines: "Scope cancellation propagates to actors created within the scope"."""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consumer import ChannelActor, EndedBy, Outcome, consume
from bandstand.scope.scope import Scope
from tests.scope.support import hang, iterate

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G113", "G115")]


async def test_scope_cancellation_propagates_to_actors_created_within_the_scope() -> None:
    """Idle, with a full channel, and in the middle of an element: all of them end; actors outside do not."""
    told: list[tuple[str, Outcome]] = []
    seen: list[int] = []
    full = Channel[int](UNBOUNDED)
    single = Channel[int](UNBOUNDED)

    async def slowly(number: int) -> None:
        seen.append(number)
        await hang()

    def teller(name: str) -> Callable[[Outcome], None]:
        def tell(outcome: Outcome) -> None:
            told.append((name, outcome))

        return tell

    outside = consume(Channel[int](), seen.append)
    async with Scope() as scope:
        actors: dict[str, ChannelActor[int]] = {
            "idle": scope.consume(Channel[int](), seen.append),
            "full": scope.consume(full, slowly),
            "single": consume(single, slowly, scope=scope),
        }
        for name, actor in actors.items():
            actor.on_done(teller(name))
        for number in range(10):
            await full.send(number)
        await single.send(100)
        await iterate()
        assert sorted(seen) == [0, 100]
        assert await scope.cancel("the scope's own") is True
        # All have ended by now, and nothing more is processed.
        assert not scope.children
        assert [actor.done for actor in actors.values()] == [True] * 3
    assert sorted(seen) == [0, 100]
    assert full.statistics().buffered == 9
    assert sorted(name for name, _ in told) == ["full", "idle", "single"]
    assert {outcome.ended_by for _, outcome in told} == {EndedBy.CANCELLED}
    assert all(actor.token.reason == "the scope's own" for actor in actors.values())
    assert not outside.done
    await outside.stop()


async def test_an_actor_that_has_ended_is_removed_from_its_scope() -> None:
    """kc_scope_wait_all waits for the remaining ones."""
    first, second = Channel[int](), Channel[int]()
    async with Scope() as scope:
        one = scope.consume(first, print)
        two = scope.consume(second, print)
        first.close()
        await one.ended()
        assert scope.children == (two,)
        asyncio.get_running_loop().call_soon(second.close)
        await scope.wait_all()
        assert two.done
        assert not scope.children
