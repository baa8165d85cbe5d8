"""A waiter: one task that sleeps until it is woken or its time is up.

The loop's timer wheel measures the time, so that it is virtual where the loop's clock is. After the loop has ended, the event loop does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("ShutdownWaiter",)


@final
class ShutdownWaiter:
    """Lets one task on the loop's thread wait until it is woken or its time is up."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def wake(self, _what: object = None) -> None:
        """Wake the task. Loop thread only."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, ms: float) -> None:
        """Wait until `wake` is called, the loop ends, or `ms` milliseconds have passed."""
        host = asyncio.get_running_loop()
        self._future = host.create_future()
        cancel: Callable[[], object]
        if not self._loop.kernel.is_closed:
            cancel = self._loop.kernel.call_later(ceil(ms), self.wake, self.wake)
        else:
            cancel = host.call_later(ms / 1000, self.wake).cancel
        try:
            await self._future
        finally:
            self._future = None
            cancel()
