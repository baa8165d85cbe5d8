"""The seed's own guidelines for testing its actors, by name."""

from __future__ import annotations

import pytest

from bandstand.core import Loop
from bandstand.scope import UNBOUNDED, Channel, EndedBy, Outcome, consume
from tests.scope.support import SlowFunction, filled_channel, wait_until


@pytest.mark.spec("K5")
@pytest.mark.guarantee("G110")
async def test_verify_on_done_is_called_exactly_once() -> None:
    told: list[Outcome] = []
    channel = Channel[int](UNBOUNDED)
    actor = consume(channel, lambda number: None, on_done=told.append)
    channel.try_send(1)
    # Everything that can end it, at the same time and repeatedly.
    waits = [actor.stop(), actor.cancel("also"), actor.stop(), actor.ended()]
    channel.close()
    for wait in waits:
        await wait
    await actor.stop()
    assert told == [actor.outcome]
    actor.on_done(told.append)
    assert told == [actor.outcome] * 2


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G108")
async def test_cancel_while_blocked_in_receive_returns_promptly_and_produces_no_further_callbacks(
    loop: Loop,
) -> None:
    got: list[int] = []
    channel = Channel[int](UNBOUNDED)
    actor = consume(channel, got.append)
    await wait_until(lambda: channel.statistics().receivers == 1)
    before = loop.statistics().ticks
    wait = actor.cancel("while it is blocked in receive")
    for number in range(10):
        channel.try_send(number)
    assert (await wait).ended_by is EndedBy.CANCELLED
    # Promptly: it took no tick, or the one in which callbacks run.
    assert loop.statistics().ticks - before <= 1
    await wait_until(lambda: loop.statistics().ready == 0)
    assert (got, len(channel)) == ([], 10)


@pytest.mark.spec("K4")
@pytest.mark.guarantee("G108")
async def test_stop_without_cancel_drains_no_additional_messages_and_shuts_down_promptly() -> None:
    slow = SlowFunction[int]()
    channel = filled_channel(*range(10))
    actor = consume(channel, slow)
    await wait_until(lambda: slow.begun == [0])
    wait = actor.stop()
    slow.gate.set()
    assert (await wait).ended_by is EndedBy.STOPPED
    assert (slow.ended, slow.cancelled, len(channel)) == ([0], [], 9)
    assert not actor.token.cancelled
