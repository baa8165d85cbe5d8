"""Having something called later, on another thread: on its event loop, or on its loop of actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.actor import Loop

__all__ = ("Later", "LoopLater", "here")


@final
class Later:
    """Has functions called on an event loop, in so many milliseconds. From any thread; if that loop is closed, never."""

    __slots__ = ("_home",)

    def __init__(self, home: asyncio.AbstractEventLoop) -> None:
        self._home = home

    def __call__(self, ms: float, function: Callable[[], object]) -> Callable[[], object]:
        """Have a function called; what takes that back."""
        timers: list[asyncio.TimerHandle] = []

        def begin() -> None:
            timers.append(self._home.call_later(ms / 1000, function))

        def forget() -> None:
            # In the order of the calls: what it takes back has begun.
            self._there(lambda: timers[0].cancel())  # noqa: PLW0108  # it is not there yet

        self._there(begin)
        return forget

    def _there(self, function: Callable[[], object]) -> None:
        # The loop is closed: all is over.
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(function)


@final
class LoopLater:
    """The same on a loop of actors; if that has ended, never."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __call__(self, ms: float, function: Callable[[], object]) -> Callable[[], object]:
        """Have a function called; what takes that back."""
        loop = self._loop
        timers: list[Callable[[], object]] = []

        def begin() -> None:
            if not loop.kernel.is_closed:
                timers.append(loop.kernel.call_later(int(ms) + 1, function))

        def forget() -> None:
            if not loop.kernel.is_closed:
                # In the order of the calls: what it takes back has begun.
                loop.kernel.inbox.call_soon(lambda: timers and timers[0]())

        loop.kernel.inbox.call_soon(begin)
        return forget


def here() -> Later | None:
    """The same on the event loop that this thread runs; None if it runs none."""
    try:
        return Later(asyncio.get_running_loop())
    except RuntimeError:
        return None
