"""Actors as people write them with asyncio alone: a task with an unbounded Queue for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias, TypeVar

from bench import stopwatch
from bench.case import Setting

Queue: TypeAlias = "asyncio.Queue[Any]"
Handler: TypeAlias = Callable[[None, Any], object]
Result = TypeVar("Result")


def run(setting: Setting, body: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the setting's event loop."""
    with asyncio.Runner(loop_factory=setting.loop_factory) as runner:
        return runner.run(body)


async def serve(queue: Queue, handler: Handler, messages: int) -> None:
    """Be an actor for so many messages. Knowing how many spares the handler a look for the last."""
    get = queue.get
    for _ in range(messages):
        handler(None, await get())


async def drain(actors: Iterable[Coroutine[Any, Any, None]], begin: Callable[[], object]) -> int:
    """Start the actors, call `begin` to send what comes first, wait for their ends; the nanoseconds it took.

    The clock starts when every actor waits for its first message, as it does in bandstand.
    """
    tasks = [asyncio.ensure_future(actor) for actor in actors]
    await asyncio.sleep(0)
    start = stopwatch.start()
    begin()
    await asyncio.gather(*tasks)
    return stopwatch.since(start)
