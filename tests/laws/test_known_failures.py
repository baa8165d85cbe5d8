"""Failures that other runtimes have had: restarts that leave a zombie, asks that never end, and a loop that spins while it waits."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, tell
from bandstand.core import ActorStatus, Context
from bandstand.errors import RestartLimitError, TargetEndedError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock, run_async


@pytest.fixture(autouse=True, scope="module")
def quiet() -> None:
    """What is logged matters here."""


class Brittle(Actor):
    """Starts once, and fails at every later start."""

    starts = 0

    def __init__(self, where: str) -> None:
        self.where = where
        type(self).starts += 1
        self._fail("constructor")

    def on_start(self) -> Any:
        self._fail("on_start")
        return self._later() if self.where == "async on_start" else None

    async def _later(self) -> None:
        self._fail("async on_start")

    def _fail(self, where: str) -> None:
        if self.where == where and type(self).starts > 1:
            raise RuntimeError(where)


@pytest.mark.guarantee("G47")
@pytest.mark.parametrize("where", ["constructor", "on_start", "async on_start"])
def test_a_failed_restart_counts_as_a_restart_and_is_logged(
    bandstand_loop: ActorSystem, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    Brittle.starts = 0
    loop = bandstand_loop
    spec = SupervisorSpec(children=[child("brittle").of(Brittle, where)], max_restarts=3, period=60.0)
    root = spawn_supervisor(loop, spec, name="root")

    def fail_child(_ctx: Context[None], _data: object) -> None:
        loop.fail_actor(root.address("brittle"), "failed")

    loop.send(loop.spawn_raw(fail_child), None)
    with (
        caplog.at_level(logging.WARNING, logger="bandstand.supervision"),
        pytest.raises(RestartLimitError) as caught,
    ):
        loop.run()
    assert Brittle.starts == 4, "the first start, and three restarts"
    assert loop.statistics().alive == 0
    assert loop.events.counts().escalations == 1
    assert caplog.text.count("restarts child 'brittle'") == 3
    causes: tuple[BaseException, ...] = getattr(caught.value.__cause__, "exceptions", ())
    assert sum(where in repr(error) for error in causes) == 3


class Slow(Actor, ask_timeout=None):
    @ask
    async def serve(self) -> None:
        await asyncio.sleep(1000)

    @tell
    async def ignore_cancellation(self) -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(100)


@pytest.mark.guarantee("G62")
@pytest.mark.parametrize("way", ["stop", "kill", "request_stop", "leave the block"])
def test_asks_that_are_in_flight_end_with_their_target(bandstand_clock: VirtualClock, way: str) -> None:
    async def main() -> None:
        async with ActorSystem(clock=bandstand_clock) as loop:
            slow = loop.spawn(Slow)
            asks = [asyncio.ensure_future(slow.serve()) for _ in range(5)]
            await asyncio.sleep(0.1)
            if way == "request_stop":
                loop.request_stop()
            elif way != "leave the block":
                getattr(slow, way)()
        ends = await asyncio.gather(*asks, return_exceptions=True)
        assert [type(end) for end in ends] == [TargetEndedError] * 5
        assert loop.ask_statistics().pending == 0

    start = bandstand_clock.now_ns()
    run_async(main, clock=bandstand_clock)
    assert bandstand_clock.now_ns() - start < 900e9


@pytest.mark.guarantee("G52")
async def test_nothing_runs_while_a_supervisor_waits_for_a_child(bandstand_system: ActorSystem) -> None:
    loop = bandstand_system
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("slow", shutdown=60.0).of(Slow)]))
    root.handle(Slow, "slow").ignore_cancellation()
    await asyncio.sleep(1)
    before = loop.statistics()
    root.stop()
    await asyncio.sleep(59)
    assert loop.status(root.actor) is ActorStatus.RUNNING, "it waits"
    after = loop.statistics()
    assert max(after.ticks - before.ticks, after.wakeups - before.wakeups) <= 12, "in a minute"
    await asyncio.sleep(2)
    assert loop.status(root.actor) is ActorStatus.STOPPED
