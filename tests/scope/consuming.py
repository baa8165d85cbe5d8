"""What the tests of channel actors play with: a loop that rides the lane's event loop, and functions that note what they got."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from bandstand.core import Loop, Verdict
from bandstand.scope import UNBOUNDED, Channel, EndedBy, Outcome
from bandstand.testing import VirtualClock

T = TypeVar("T")
R = TypeVar("R")


def host_factory(clock: VirtualClock) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of the lane. On uvloop only the wheel's time is virtual."""
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return clock.new_event_loop


def ride(main: Callable[[Loop], Coroutine[Any, Any, R]], clock: VirtualClock | None = None) -> R:
    """Run a coroutine function on the lane's event loop, with the loop that rides on it, in virtual time."""
    time = VirtualClock() if clock is None else clock

    async def ridden() -> R:
        async with Loop(clock=time) as loop:
            return await asyncio.wait_for(main(loop), 50)

    with asyncio.Runner(loop_factory=host_factory(time)) as runner:
        return runner.run(ridden())


def filled(*items: T) -> Channel[T]:
    """A channel with elements in it."""
    channel = Channel[T](UNBOUNDED)
    for item in items:
        assert channel.try_send(item)
    return channel


class Desk(Generic[T]):
    """Where the outcomes of one actor arrive."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def __call__(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    @property
    def ended_by(self) -> EndedBy:
        """By what it has ended: once."""
        (outcome,) = self.outcomes
        return outcome.ended_by


class Slow(Generic[T]):
    """An async function of elements that waits until it is let go; it notes what began, what ended, and what was cancelled."""

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.verdict = verdict
        self.begun: list[T] = []
        self.ended: list[T] = []
        self.cancelled: list[T] = []
        self.gate = asyncio.Event()

    async def __call__(self, item: T) -> Verdict | None:
        self.begun.append(item)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        self.ended.append(item)
        return self.verdict


async def pause(loop: Loop, clock: VirtualClock, ms: float) -> None:
    """Let virtual time pass, on every lane: also where a coroutine in flight keeps the clock from jumping."""
    clock.advance(ms)
    loop.poll_once()
    for _ in range(10):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let all others have their turn until it is so."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to that")
