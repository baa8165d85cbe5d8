"""Lag: that somebody has missed something, counted, and told without becoming a flood itself.

The first miss is told at once. After that there is a second in which nothing is said, and at its end what was missed meanwhile is
told as one; if nothing was, it is over, and the next miss is told at once again. What has not been told when everything ends is told
then. So the numbers that were told add up to all that was missed, and between two of them is a second, but for the last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.core import Lagged
from bandstand.core.lowlevel import call_after
from bandstand.service import is_alive
from bandstand.service.lowlevel import parts_of

if TYPE_CHECKING:
    from bandstand.core import Loop
    from bandstand.service import Tell

__all__ = ("Lag",)

PAUSE_MS = 1000

logger = logging.getLogger("bandstand.topic")


@final
class Lag:
    """What one subscriber has missed. Loop thread only.

    Args:
        loop: whose events tell of it.
        source: what it is subscribed to.
        subscriber: who it is, for people.
        told: a one-way method that is told as well; None for nobody. If it does not take it, it is told more the next time.
    """

    __slots__ = (
        "_cancel",
        "_loop",
        "_owed",
        "_source",
        "_stumbles",
        "_subscriber",
        "_told",
        "_untold",
        "missed",
    )

    def __init__(self, loop: Loop, source: str, subscriber: str, told: Tell[[Lagged]] | None = None) -> None:
        self._loop = loop
        self._source = source
        self._subscriber = subscriber
        self._told = told
        self._cancel: Callable[[], None] | None = None
        # All of it; what the events have not told yet; and what `told` has not taken yet.
        self.missed = 0
        self._untold = 0
        self._owed = 0
        self._stumbles = 0

    def stumble(self, error: BaseException) -> None:
        """One is going to be missed because of an error: logged the first time, and then each time their number has doubled."""
        self._stumbles += 1
        if self._stumbles & (self._stumbles - 1) == 0:
            logger.error(
                "%s could not be given an event of %r, and has missed it; %d such in all",
                self._subscriber,
                self._source,
                self._stumbles,
                exc_info=error,
            )

    def miss(self) -> None:
        """One more was missed."""
        self.lose(1)
        if self._cancel is None:
            self._wait()
            self._speak(is_cut_off=False)

    def lose(self, count: int) -> None:
        """So many more were missed: it is told at the end, which comes now."""
        self.missed += count
        self._untold += count
        self._owed += count

    def end(self, *, is_cut_off: bool = False) -> None:
        """Nothing more can be missed: tell what is left to tell."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        if self._untold or self._owed or is_cut_off:
            self._speak(is_cut_off=is_cut_off)

    def _wait(self) -> None:
        # Always before anything is said: whoever hears of it may have more missed, or end it all.
        self._cancel = call_after(self._loop, PAUSE_MS, self._pause_over, self._loop_over)

    def _pause_over(self) -> None:
        self._cancel = None
        if self._untold or self._owed:
            self._wait()
            self._speak(is_cut_off=False)

    def _loop_over(self) -> None:
        self._cancel = None
        self.end()

    def _speak(self, *, is_cut_off: bool) -> None:
        count, self._untold = self._untold, 0
        if count or is_cut_off:
            self._loop.events.tell(Lagged(self._source, self._subscriber, count, is_cut_off))
        if self._told is None:
            self._owed = 0
        elif self._owed or is_cut_off:
            owed, self._owed = self._owed, 0
            is_taken = self._told.try_send(Lagged(self._source, self._subscriber, owed, is_cut_off))
            if not is_taken and is_alive(parts_of(self._told)[0]):
                self._owed += owed
