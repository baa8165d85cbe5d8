"""An asyncio event loop in virtual time.

asyncio has one place where time passes: the selector's wait. This loop's selector does not wait for time. It looks
whether a descriptor is ready, and if not, moves the clock to where the wait would have ended. What is really outside
(a socket's peer, a thread) is given no virtual time: with nothing scheduled the selector waits for it as usual.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple, final

__all__ = ("VirtualEventLoop",)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# How long a look at the outside world takes while an executor is working, in real seconds.
LOOK = 0.02


@final
class JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting for time to pass."""

    def __init__(self, jump: Callable[[int], bool], is_waited_for: Callable[[], bool]) -> None:
        super().__init__()
        self._jump = jump
        self._is_waited_for = is_waited_for

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self._is_waited_for():
            return super().select(min(timeout, LOOK))
        ready = super().select(0)
        if not ready and not self._jump(-int(-timeout * 1e9 // 1)):
            # A clock that only moves by hand: whoever moves it is in another thread, or nowhere.
            return super().select(min(timeout, LOOK))
        return ready


@final
class VirtualEventLoop(asyncio.SelectorEventLoop):
    """asyncio's own event loop, but for the time. `virtual_time` tells it from a real one."""

    virtual_time = True

    def __init__(self, now_ns: Callable[[], int], jump: Callable[[int], bool]) -> None:
        self._virtual_now = now_ns
        self._working = 0
        super().__init__(JumpingSelector(jump, lambda: self._working > 0))

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._virtual_now() / 1e9

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Run `func` in a thread or process, and let no virtual time pass until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _future: asyncio.Future[Any]) -> None:
        self._working -= 1
