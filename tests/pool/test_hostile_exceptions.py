"""A worker that raises an exception which cannot be shown is started again, as after any other."""

from __future__ import annotations

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.errors import TargetEndedError
from bandstand.pool import pooled
from tests.actor.players import turns
from tests.hostile import HOW, hostile


class Raiser(Actor):
    @tell
    def crash(self, how: str) -> None:
        raise hostile(how)

    @ask
    def answer(self, how: str) -> int:
        raise hostile(how)

    @ask
    def ping(self) -> str:
        return "pong"


@pytest.mark.guarantee("G282")
@pytest.mark.parametrize("how", HOW)
async def test_the_pool_goes_on(loop: ActorSystem, how: str) -> None:
    pool = pooled(loop, 2).spawn(Raiser)
    pool.handle.crash(how)
    with pytest.raises(TargetEndedError) as caught:
        await pool.handle.answer(how)
    assert len(str(caught.value)) < 2_000
    await turns(30)
    assert [await pool.handle.ping() for _ in range(4)] == ["pong"] * 4
    assert all(worker.actor is not None for worker in pool.status().workers)
