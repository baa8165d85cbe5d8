"""Loops of typed actors in virtual time, driven in the two ways that a loop can be shut down in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from bandstand.actor import ActorSystem
from bandstand.shutdown import GracefulShutdown, ShutdownReport
from bandstand.testing import VirtualClock
from tests.core.support import HostFactory
from tests.loops import clock, loops_of

__all__ = ("clock", "drive", "make_loop")

LoopMaker = Callable[..., ActorSystem]
Drive = Callable[[ActorSystem, GracefulShutdown], ShutdownReport]


@pytest.fixture
def make_loop(clock: VirtualClock) -> Iterator[LoopMaker]:
    """Make loops whose `run()` is in virtual time, too."""
    factory: HostFactory = clock.new_event_loop
    with loops_of(ActorSystem, clock, factory) as make:
        yield make


@pytest.fixture(params=["run", "async with"])
def drive(request: pytest.FixtureRequest, clock: VirtualClock) -> Drive:
    """Drive a loop until somebody has shut it down; how that went."""

    def run(loop: ActorSystem, shutdown: GracefulShutdown) -> ShutdownReport:
        loop.run()
        assert shutdown.report is not None
        return shutdown.report

    async def main(loop: ActorSystem, waited: Callable[[], Awaitable[ShutdownReport]]) -> ShutdownReport:
        async with loop:
            return await waited()

    def ride(loop: ActorSystem, shutdown: GracefulShutdown) -> ShutdownReport:
        report: Any = clock.run(main(loop, shutdown.wait))
        assert isinstance(report, ShutdownReport)
        return report

    return run if request.param == "run" else ride
