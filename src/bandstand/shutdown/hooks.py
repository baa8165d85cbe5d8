"""What a program does in the phases of a shutdown: functions, called one after the other, each within its time.

A hook that raises, or takes too long, is logged and named in the report, and the next one is called: a connection that does not
close must not keep a program from closing the rest. A coroutine that is cancelled and goes on all the same is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.vocabulary import ShutdownPhase
from bandstand.shutdown.waiter import Waiter

__all__ = ("BACKWARDS", "Hook", "Hooks", "call", "name_of")

logger = SafeLogger("bandstand.shutdown")

Hook: TypeAlias = Callable[[], object]
"""A function or a coroutine function without arguments."""

# How long a hook that was cancelled may take to end.
CANCEL_MS = 100.0
# Those of these phases are called when the phase's own work is done, the last one first, as one cleans up.
BACKWARDS = frozenset({ShutdownPhase.STOP, ShutdownPhase.KILL})


@final
class Hooks:
    """The hooks of all phases."""

    __slots__ = ("_hooks",)

    def __init__(self) -> None:
        self._hooks: dict[ShutdownPhase, list[Hook]] = {phase: [] for phase in ShutdownPhase}

    def add(self, phase: ShutdownPhase, hook: Hook) -> None:
        """Add one to a phase."""
        is_callable = callable(hook)  # callers without types
        if not is_callable:
            raise InvalidArgument(f"the hook is {safe_repr(hook)}: pass a function without arguments")
        self._hooks[phase].append(hook)

    def of(self, phase: ShutdownPhase) -> list[Hook]:
        """Those of a phase, in the order in which they are called."""
        hooks = self._hooks[phase]
        return hooks[::-1] if phase in BACKWARDS else hooks[:]


def name_of(hook: Hook) -> str:
    """A hook, for people."""
    name: str = getattr(hook, "__qualname__", "") or safe_repr(hook)
    return name.rpartition("<locals>.")[2]


async def call(
    hook: Hook, phase: ShutdownPhase, waiter: Waiter, left_ms: Callable[[], float], now: Callable[[], float]
) -> bool:
    """Call a hook, and wait for it for so long as `left_ms` says, which may become less; whether it has done its work."""
    name = name_of(hook)
    began = now()
    if left_ms() <= 0 and iscoroutinefunction(hook):
        logger.error("shutdown, %s: there is no time left for the hook %s", phase.value, name)
        return False
    try:
        result = hook()
    except (Exception, asyncio.CancelledError):
        # A plain function is not cancelled: it has looked at a task that was.
        logger.exception("shutdown, %s: the hook %s raised", phase.value, name)
        return False
    if not isawaitable(result):
        return True
    task = asyncio.ensure_future(_as_coroutine(result))
    task.add_done_callback(waiter.wake)
    is_late = await _wait(task, waiter, left_ms)
    if is_late:
        task.cancel()
        until = now() + CANCEL_MS
        await _wait(task, waiter, lambda: until - now())
        end = "was cancelled" if task.done() else "was cancelled, goes on all the same and is left behind"
        logger.error("shutdown, %s: the hook %s had %.0f ms, and %s", phase.value, name, now() - began, end)
        task.add_done_callback(_look_at)
        return False
    if task.cancelled() or task.exception() is not None:
        error = None if task.cancelled() else task.exception()
        logger.error("shutdown, %s: the hook %s raised", phase.value, name, exc_info=error)
        return False
    return True


async def _wait(task: asyncio.Future[Any], waiter: Waiter, left_ms: Callable[[], float]) -> bool:
    """Wait for a task; whether it was not done in time."""
    try:
        while not task.done():
            left = left_ms()
            if left <= 0:
                return True
            await waiter.wait(left)
    except asyncio.CancelledError:
        task.cancel()
        raise
    return False


async def _as_coroutine(work: Awaitable[object]) -> None:
    await work


def _look_at(task: asyncio.Future[Any]) -> None:
    # What it raises when nobody waits any more has been spoken of.
    if not task.cancelled():
        task.exception()
