"""Waiting without looking now and then: one who waits, and everybody who may wake him.

The time is kept by the loop's own wheel, so that it is virtual where the loop's is; when the loop has ended, by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, final

from bandstand.core.lowlevel import call_after, is_open

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("Waiter",)


@final
class Waiter:
    """One task that waits on the thread of a loop, for a while or until it is woken."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def wake(self, _what: object = None) -> None:
        """Have it look again. Loop thread only."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, ms: float) -> None:
        """Wait until somebody wakes us, the loop ends, or so many milliseconds have passed."""
        host = asyncio.get_running_loop()
        self._future = host.create_future()
        cancel: Callable[[], object]
        if is_open(self._loop):
            cancel = call_after(self._loop, ceil(ms), self.wake, self.wake)
        else:
            cancel = host.call_later(ms / 1000, self.wake).cancel
        try:
            await self._future
        finally:
            self._future = None
            cancel()
