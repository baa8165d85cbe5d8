"""One growing number in the log: never silent, never a flood.

The books count every one. The log gets at most one line a second, which says how many there were since the last line, so nothing
goes unmentioned, and a loop under overload does not also drown its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.core.clock import Clock

__all__ = ("Gossip",)

PAUSE_NS = 1_000_000_000


@final
class Gossip:
    """Speaks of one kind of event, at most once a second.

    Args:
        logger: where.
        clock: what a second is.
        words: the line, with a `%d` for how many there were since the last one, a `%d` for how many in all, and a `%s` for the
            latest if there is something to say of it.
    """

    __slots__ = ("_clock", "_logger", "_next", "_words", "said")

    def __init__(self, logger: SafeLogger, clock: Clock, words: str) -> None:
        self._logger = logger
        self._clock = clock
        self._words = words
        self._next = 0
        self.said = 0
        """How many have been mentioned."""

    def speak(self, count: int, *latest: str, is_last: bool = False) -> bool:
        """Mention what has been counted since last time, unless that was less than a second ago; whether none is owed now.

        With `is_last` it is mentioned in any case: there will be no next time.
        """
        if count == self.said:
            return True
        now = 0 if is_last else self._clock.now_ns()
        if not is_last and now < self._next:
            return False
        self._logger.warning(self._words, count - self.said, count, *latest)
        self.said = count
        self._next = now + PAUSE_NS
        return True
