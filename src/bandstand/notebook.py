"""Actors in a notebook or an asyncio REPL: a system that runs between cells.

    from bandstand.notebook import start_system, stop_system

    system = await start_system()      # run this cell again to start afresh
    counter = system.spawn(Counter)
    ...
    await stop_system()

In a notebook there is no `async with` around all cells. So the system runs in a task of its own, on the event loop that the notebook runs
its cells on. It cannot run in the task of a cell: that task has ended when the next cell runs, and a supervisor that gives up would cancel it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from bandstand.actor import ActorSystem
from bandstand.core.logs import SafeLogger
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_ms
from bandstand.shutdown import GracefulShutdown

if TYPE_CHECKING:
    from bandstand.core import LoopConfig
    from bandstand.shutdown import ShutdownReport

__all__ = ("start_system", "stop_system")

_logger = SafeLogger("bandstand.notebook")


async def start_system(config: LoopConfig | None = None, *, name: str = "main") -> ActorSystem:
    """Start an actor system that runs until `stop_system`, and return it.

    If a system with this name is running, it is stopped first, so a cell that starts a system can be run again. Handles of the old
    system raise `LoopClosedError`. If the root supervisor of the system gives up, the log has the reason, and the
    system ends; the notebook goes on.

    Args:
        config: the settings of the system.
        name: names the system, for programs with more than one.
    """
    await stop_system(name=name)
    started: asyncio.Future[ActorSystem] = asyncio.get_running_loop().create_future()
    running = _running[name] = _BackgroundSystem(name)
    running.task = asyncio.create_task(running.run(config, started), name=f"bandstand system {name!r}")
    return await started


async def stop_system(
    *, name: str = "main", timeout: Seconds = 10.0
) -> ShutdownReport | None:  # of the shutdown, which kills what is left
    """Stop the system with this name, as `GracefulShutdown` does: its actors handle what they have accepted, and end.

    Args:
        name: the name that was passed to `start_system`.
        timeout: how long that may take. Actors that have not ended by then are killed.

    Returns:
        How the shutdown went. None if no such system is running, or if it had ended before.

    Raises:
        InvalidArgumentError: `timeout` is not a duration.
    """
    timeout_ms = to_ms("timeout", timeout, is_zero_allowed=False)
    running = _running.pop(name, None)
    return None if running is None else await running.stop(timeout_ms)


@final
class _BackgroundSystem:
    """A system that runs in a task of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: asyncio.Task[ShutdownReport | None] | None = None
        self._stop = asyncio.Event()
        self._timeout_ms = 0.0

    async def run(
        self, config: LoopConfig | None, started: asyncio.Future[ActorSystem]
    ) -> ShutdownReport | None:
        try:
            async with ActorSystem(config) as system:
                started.set_result(system)
                await self._stop.wait()
                limit = self._timeout_ms / 1000
                shutdown = GracefulShutdown(system, deadline=limit, stop_timeout=min(10.0, limit))
                return await shutdown.run("the notebook stops the system")
        except Exception:  # there is no caller to raise it to
            _logger.exception("system %s has ended", safe_repr(self.name))
            return None

    async def stop(self, timeout_ms: float) -> ShutdownReport | None:
        self._timeout_ms = timeout_ms
        self._stop.set()
        assert self.task is not None
        # If the cell is interrupted, the system still stops.
        return await asyncio.shield(self.task)


_running: dict[str, _BackgroundSystem] = {}
