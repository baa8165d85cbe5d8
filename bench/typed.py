"""bandstand's typed actors: the same loop with classes for actors, run until idle or beside code that awaits.

`raw.drain` and `raw.settle` are good for it too: underneath, it is the same loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bandstand.actor import ActorSystem
from bandstand.core import LoopConfig
from bandstand.core.asyncio_host import new_event_loop
from bench.case import Outcome, WrongResultError


def make(config: LoopConfig | None = None) -> ActorSystem:
    """Make a loop whose host is there already, as `raw.make` does."""
    loop = ActorSystem(config)
    loop.run(until_idle=True)
    return loop


def beside(body: Callable[[ActorSystem], Awaitable[Outcome]]) -> Outcome:
    """Run a coroutine that uses a loop from outside, in the event loop that `run()` would take by default."""

    async def live() -> Outcome:
        async with ActorSystem() as loop:
            return await body(loop)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(live())


def settle_asks(loop: ActorSystem, asks: int) -> None:
    """Check the books of a loop's asks.

    Raises:
        WrongResultError: other asks were counted than the case asked, or one was not answered.
    """
    books = loop.ask_statistics()
    if books.asked != asks or books.answered != asks or books.late:
        raise WrongResultError(f"the case asked {asks} times; the loop says {books}")
