"""Counts the events that a subscriber missed, and reports them at a limited rate.

The first miss is reported at once. Then a pause of one second begins; at its end the misses of that second are reported together, and a new
pause begins. After a second without a miss the next one is reported at once again. What has not been reported when the subscription ends is
reported then. So the reported counts add up to all misses, and between two reports is a second, except before the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.actor import is_alive
from bandstand.core import Lagged
from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.actor import Tell
    from bandstand.core import Loop

__all__ = ("Lag",)

PAUSE_MS = 1000

logger = SafeLogger("bandstand.topic")


@final
class Lag:
    """What one subscriber missed. Loop thread only.

    Args:
        loop: the loop whose events get the `Lagged` reports.
        source: the name of what the subscriber is subscribed to.
        subscriber: the name of the subscriber.
        on_lag: a one-way method that gets the reports as well, or None. If it refuses one, the next report includes its count.
    """

    __slots__ = (
        "_cancel",
        "_errors",
        "_loop",
        "_on_lag",
        "_owed",
        "_source",
        "_subscriber",
        "_unreported",
        "missed",
    )

    def __init__(
        self, loop: Loop, source: str, subscriber: str, on_lag: Tell[[Lagged]] | None = None
    ) -> None:
        self._loop = loop
        self._source = source
        self._subscriber = subscriber
        self._on_lag = on_lag
        self._cancel: Callable[[], None] | None = None
        # All misses; those not yet reported to the loop's events; and those not yet accepted by `on_lag`.
        self.missed = 0
        self._unreported = 0
        self._owed = 0
        self._errors = 0

    def log_error(self, error: BaseException) -> None:
        """Log an error that makes the subscriber miss an event: the first one, and then each time their number has doubled."""
        self._errors += 1
        if self._errors & (self._errors - 1) == 0:
            logger.error(
                "%s missed an event of %r because of an error; %d such errors in all",
                self._subscriber,
                self._source,
                self._errors,
                exc_info=error,
            )

    def miss(self) -> None:
        """Count one miss, and report it unless a pause is running."""
        self.add(1)
        if self._cancel is None:
            self._start_pause()
            self._report(is_cut_off=False)

    def add(self, count: int) -> None:
        """Count misses without a report; `end` must follow."""
        self.missed += count
        self._unreported += count
        self._owed += count

    def end(self, *, is_cut_off: bool = False) -> None:
        """Report what is left to report: the subscription has ended."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        if self._unreported or self._owed or is_cut_off:
            self._report(is_cut_off=is_cut_off)

    def _start_pause(self) -> None:
        # Always before a report: a listener that gets it may cause more misses, or end the subscription.
        self._cancel = self._loop.kernel.call_later(PAUSE_MS, self._pause_over, self._loop_over)

    def _pause_over(self) -> None:
        self._cancel = None
        if self._unreported or self._owed:
            self._start_pause()
            self._report(is_cut_off=False)

    def _loop_over(self) -> None:
        self._cancel = None
        self.end()

    def _report(self, *, is_cut_off: bool) -> None:
        count, self._unreported = self._unreported, 0
        if count or is_cut_off:
            self._loop.events.tell(Lagged(self._source, self._subscriber, count, is_cut_off))
        if self._on_lag is None:
            self._owed = 0
        elif self._owed or is_cut_off:
            owed, self._owed = self._owed, 0
            is_taken = self._on_lag.try_send(Lagged(self._source, self._subscriber, owed, is_cut_off))
            if not is_taken and is_alive(self._on_lag.handle):
                self._owed += owed
