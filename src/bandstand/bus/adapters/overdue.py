"""Lines that were begun and do not end: whoever holds half a line holds what has come of it in our memory, and a connection.

Most lines end at once, so nothing is set up or taken back for each of them: one alarm is set when there is half a line, and when it goes
off it is looked since when there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

__all__ = ("Overdue",)


@final
class Overdue:
    """Watches one client.

    Args:
        event_loop: by whose clock.
        within_s: how long a line may take from its beginning to its end.
        is_read: whether the client is read from now: one that is not cannot end its line.
        give_up: called when it has taken too long.
    """

    __slots__ = ("_alarm", "_event_loop", "_give_up", "_is_read", "_since", "within_s")

    def __init__(
        self,
        event_loop: asyncio.AbstractEventLoop,
        within_s: float,
        *,
        is_read: Callable[[], bool],
        give_up: Callable[[], None],
    ) -> None:
        self.within_s = within_s
        self._event_loop = event_loop
        self._is_read = is_read
        self._give_up = give_up
        # Since when there is half a line; None if there is none.
        self._since: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def see(self, data: bytes) -> None:
        """Some more bytes have come."""
        if data.endswith(b"\n"):
            self._since = None
        elif self._since is None or b"\n" in data:
            self._since = self._event_loop.time()
            if self._alarm is None:
                self._alarm = self._event_loop.call_later(self.within_s, self._look)

    def end(self) -> None:
        """No more will come."""
        self._since = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _look(self) -> None:
        self._alarm = None
        if self._since is None:
            return
        now = self._event_loop.time()
        if not self._is_read():
            self._since = now
        left = self._since + self.within_s - now
        # A clock may be a little early for its own alarm.
        if left > 0.001:
            self._alarm = self._event_loop.call_later(left, self._look)
        else:
            self._since = None
            self._give_up()
