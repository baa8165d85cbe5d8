"""Dead and dropped messages in the log: never silent, never a flood.

The books count every one. The log gets at most one line a second for each kind, which says how many there were since
the last line, so nothing goes unmentioned and a loop under overload does not also drown its log.
"""

from __future__ import annotations

from logging import Logger
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.core.clock import Clock

__all__ = ("Gossip",)

PAUSE_NS = 1_000_000_000


@final
class Gossip:
    """Speaks of growing counters, at most once a second each."""

    __slots__ = ("_clock", "_dead", "_dropped", "_logger", "_next_dead", "_next_dropped")

    def __init__(self, logger: Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._dead = 0
        self._dropped = 0
        self._next_dead = 0
        self._next_dropped = 0

    def speak(self, dead: int, dropped: int, *, is_last: bool = False) -> None:
        """Mention what has been counted since last time, unless that was less than a second ago.

        With `is_last` it is mentioned in any case: there will be no next time.
        """
        if dead == self._dead and dropped == self._dropped:
            return
        now = 0 if is_last else self._clock.now_ns()
        if dead > self._dead and (is_last or now >= self._next_dead):
            self._logger.warning(
                "%d dead letters (%d in all): messages whose actors ended before they were handled",
                dead - self._dead,
                dead,
            )
            self._dead = dead
            self._next_dead = now + PAUSE_NS
        if dropped > self._dropped and (is_last or now >= self._next_dropped):
            self._logger.warning(
                "%d messages dropped (%d in all) by the overflow policy of a full mailbox",
                dropped - self._dropped,
                dropped,
            )
            self._dropped = dropped
            self._next_dropped = now + PAUSE_NS
