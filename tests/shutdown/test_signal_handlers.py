"""Signals that begin and hurry a shutdown, in this process; `test_signals` has whole programs."""

from __future__ import annotations

import asyncio
import signal

import pytest

from bandstand.actor import Actor, tell
from bandstand.shutdown import GracefulShutdown, PhaseEnd, ShutdownPhase, ShutdownReport
from bandstand.testing import VirtualClock
from tests.shutdown.actors import Book, Stubborn
from tests.shutdown.conftest import LoopMaker


@pytest.mark.guarantee("G265")
def test_three_signals_in_a_row(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)
    interrupted: list[bool] = []

    def interrupt_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            interrupted.append(True)

    async def main() -> ShutdownReport:
        host = asyncio.get_running_loop()
        async with loop:
            loop.spawn(Stubborn, Book(clock)).work()
            with shutdown.on_signals():
                host.call_later(1, signal.raise_signal, signal.SIGTERM)
                host.call_later(2, interrupt_twice)
                return await shutdown.wait()

    report = clock.run(main())
    assert report.reason == "SIGTERM"
    assert report.of(ShutdownPhase.DRAIN).end is PhaseEnd.HURRIED
    assert report.of(ShutdownPhase.DRAIN).duration * 1000 == 1000
    assert interrupted == [True]


class Deaf(Actor):
    """Is interrupted twice in one turn, in which nobody else can do anything."""

    def __init__(self, interrupted: list[bool]) -> None:
        self.interrupted = interrupted

    @tell
    def work(self) -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            self.interrupted.append(True)


@pytest.mark.guarantee("G265")
def test_a_blocking_actor_is_interrupted(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)
    interrupted: list[bool] = []

    async def main() -> ShutdownReport:
        async with loop:
            with shutdown.on_signals():
                loop.spawn(Deaf, interrupted).work()
                return await shutdown.wait()

    report = clock.run(main())
    assert interrupted == [True]
    assert report.reason == "SIGINT"
    assert report.is_clean, "the second one was for the actor, and hurried nobody"
