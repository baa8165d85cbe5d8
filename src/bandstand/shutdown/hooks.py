"""Hooks: functions of the program that a shutdown calls in its phases, one after the other, each with a time limit.

A hook that raises or takes too long is logged and named in the report, and the next one is called: a connection that does not close must not
keep the program from closing the others. A coroutine that ignores its cancellation is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.shutdown.report import ShutdownPhase
from bandstand.shutdown.waiter import ShutdownWaiter

__all__ = ("REVERSED_PHASES", "Hook", "Hooks", "call_hook", "name_of")

logger = SafeLogger("bandstand.shutdown")

Hook: TypeAlias = Callable[[], object]
"""A function or a coroutine function without arguments."""

# How long a hook that was cancelled may take to end.
CANCEL_MS = 100.0
# Hooks of these phases clean up: they run after the phase's own work, the last one first.
REVERSED_PHASES = frozenset({ShutdownPhase.STOP, ShutdownPhase.KILL})


@final
class Hooks:
    """The hooks of all phases."""

    __slots__ = ("_hooks",)

    def __init__(self) -> None:
        self._hooks: dict[ShutdownPhase, list[Hook]] = {phase: [] for phase in ShutdownPhase}

    def add(self, phase: ShutdownPhase, hook: Hook) -> None:
        """Add a hook to a phase."""
        is_callable = callable(hook)  # callers without types
        if not is_callable:
            raise InvalidArgument(f"the hook is {safe_repr(hook)}: pass a function without arguments")
        self._hooks[phase].append(hook)

    def of(self, phase: ShutdownPhase) -> list[Hook]:
        """Return the hooks of a phase in the order of their calls."""
        hooks = self._hooks[phase]
        return hooks[::-1] if phase in REVERSED_PHASES else hooks[:]


def name_of(hook: Hook) -> str:
    """Return the name of a hook for logs and reports."""
    name: str = getattr(hook, "__qualname__", "") or safe_repr(hook)
    return name.rpartition("<locals>.")[2]


async def call_hook(
    hook: Hook,
    phase: ShutdownPhase,
    waiter: ShutdownWaiter,
    left_ms: Callable[[], float],
    now: Callable[[], float],
) -> bool:
    """Call a hook and wait for it as long as `left_ms()` is above 0. Return whether it finished without an error."""
    name = name_of(hook)
    began = now()
    if left_ms() <= 0 and iscoroutinefunction(hook):
        logger.error("shutdown, %s: no time left for the hook %s", phase.value, name)
        return False
    try:
        result = hook()
    except (Exception, asyncio.CancelledError):
        # A plain function cannot be cancelled; it may raise the CancelledError of a task that it looked at.
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
        end = "was cancelled" if task.done() else "was cancelled, but goes on and is left behind"
        logger.error("shutdown, %s: the hook %s took %.0f ms and %s", phase.value, name, now() - began, end)
        task.add_done_callback(_retrieve_exception)
        return False
    if task.cancelled() or task.exception() is not None:
        error = None if task.cancelled() else task.exception()
        logger.error("shutdown, %s: the hook %s raised", phase.value, name, exc_info=error)
        return False
    return True


async def _wait(task: asyncio.Future[Any], waiter: ShutdownWaiter, left_ms: Callable[[], float]) -> bool:
    """Wait for a task; return whether its time was up first."""
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


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    # asyncio would log the exception as never retrieved; the hook is reported already.
    if not task.cancelled():
        task.exception()
