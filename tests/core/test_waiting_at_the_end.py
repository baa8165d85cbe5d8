"""Coroutines that wait inside the loop when it ends: their waits end at once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bandstand.actor import ActorSystem, Reply
from bandstand.core import ExitReason
from bandstand.errors import BandstandError
from bandstand.testing import VirtualClock
from tests.actor.asking import Oracle, RunSystem, turns
from tests.core.waiting_actors import CROWDED, LONG, CoroutineActor, StopHookActor, Work, spawn_busy


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def last_words(log: list[Any], oracle: Oracle, slow: StopHookActor) -> Work:
    async def farewell() -> None:
        try:
            log.append(await oracle.plain(1))
        except BandstandError as error:
            log.append(type(error).__name__)
        log.append(await slow.ended())

    return farewell


async def a_while() -> None:
    await asyncio.sleep(0.05)


def check_end(log: list[Any], took: int, caplog: pytest.LogCaptureFixture) -> None:
    """An actor that ended with the loop was told at once that one had ended, and waited for the other."""
    assert len(log) == 2, log
    assert log[0] in {1, "NoSuchActorError", "TargetEndedError", "LoopClosedError"}
    assert log[1] is ExitReason.NORMAL
    assert took < 1_000_000_000
    assert complaints(caplog) == []


@pytest.mark.guarantee("G65")
@pytest.mark.parametrize("where", ["on_stop", "finally", "before"])
def test_waits_in_on_stop_end(
    run_virtual: RunSystem, clock: VirtualClock, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    log: list[Any] = []
    began: list[int] = []

    async def story(loop: ActorSystem) -> None:
        oracle = loop.spawn(Oracle)
        slow = loop.spawn(StopHookActor, a_while)
        farewell = last_words(log, oracle, slow)

        async def work() -> None:
            try:
                await asyncio.sleep(LONG)
            finally:
                await farewell()

        if where == "finally":
            reply = loop.spawn(CoroutineActor, work).play()
            assert not reply.done()
        else:
            player = loop.spawn(StopHookActor, farewell)
            if where == "before":
                # It waits already when the loop ends.
                player.stop()
        await turns()
        assert len(log) == (where == "before")
        began.append(clock.now_ns())

    run_virtual(story, stop_timeout=LONG)
    check_end(log, clock.now_ns() - began[0], caplog)


@pytest.mark.guarantee("G65")
def test_a_ready_waiter(
    run_virtual: RunSystem, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[Any] = []
    asked: list[Reply[int]] = []
    before = clock.now_ns()

    async def story(loop: ActorSystem) -> None:
        oracle = loop.spawn(Oracle)

        async def farewell() -> None:
            asked.append(oracle.plain(1))
            log.append(await asked[0])
            await turns()
            log.append("goes on")

        loop.spawn(StopHookActor, farewell).stop()
        spawn_busy(loop, 20, 100)
        for _ in range(1000):
            if asked and asked[0].done():
                break
            await asyncio.sleep(0)
        # Answered, and in the run queue behind the others.
        assert asked[0].done()
        assert log == []

    run_virtual(story, stop_timeout=LONG, **CROWDED)
    assert log == [1, "goes on"]
    assert clock.now_ns() == before
    assert complaints(caplog) == []
