"""The queue of one subscription, what its policy drops when it is full, and the count of the events it missed.

With a key, a newer event replaces the older one of its key in place. So a key waits no longer than the events in front of it, however often
it changes. Moving it to the back each time would keep the publishing order among keys, but a key that changes often could wait for ever.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar, final

from bandstand.actor import is_alive
from bandstand.core import Lagged
from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.actor import Tell
    from bandstand.core import Loop

__all__ = (
    "Backlog",
    "Lag",
    "Policy",
    "PutResult",
)

T = TypeVar("T")
M = TypeVar("M")


logger = SafeLogger("bandstand.topic")

# The shortest time between two reports of missed events.
PAUSE_MS = 1000


class Policy(Enum):
    """What a subscription does with a new event when its queue is full. No policy makes the publisher wait."""

    DROP_NEWEST = "drop-newest"
    """Drop the new event."""
    DROP_OLDEST = "drop-oldest"
    """Drop the oldest event that waits."""
    CONFLATE = "conflate"
    """Keep only the latest event, or, with a `key`, the latest of each key, in the position of the one it replaces."""
    CUT_OFF = "cut-off"
    """End the subscription and report it to the subscriber."""


class PutResult(Enum):
    """The result of putting an event into a backlog."""

    TAKEN = "taken"
    REPLACED = "replaced"
    """The new event waits; an older one was dropped for it."""
    REFUSED = "refused"
    """The new event was dropped."""
    CUT_OFF = "cut-off"
    """There is no room, and the policy is to end the subscription."""


@final
class Backlog(Generic[T, M]):
    """A queue of events with a policy. `T` is the type of an event, `M` the type of what is stored for it.

    Args:
        policy: what to do when there is no room.
        key: with CONFLATE, a function that returns an event's key; None if all events have one key.
    """

    __slots__ = ("_key", "_latest", "_policy", "_queue")

    def __init__(self, policy: Policy, key: Callable[[T], Hashable] | None) -> None:
        self._policy = policy
        self._key = key
        # CONFLATE uses `_latest`, the other policies `_queue`.
        self._queue: deque[M] = deque()
        self._latest: OrderedDict[Hashable, M] = OrderedDict()

    def put(self, event: T, stored: M, room: int) -> PutResult:
        """Add an event to a backlog of at most `room` events. If `key` raises, the backlog is unchanged and the exception propagates."""
        if self._policy is Policy.CONFLATE:
            return self._conflate(None if self._key is None else self._key(event), stored, room)
        if len(self._queue) < room:
            self._queue.append(stored)
            return PutResult.TAKEN
        if self._policy is Policy.CUT_OFF:
            return PutResult.CUT_OFF
        if self._policy is Policy.DROP_NEWEST or not self._queue:
            return PutResult.REFUSED
        self._queue.popleft()
        self._queue.append(stored)
        return PutResult.REPLACED

    def _conflate(self, key: Hashable, stored: M, room: int) -> PutResult:
        latest = self._latest
        if key in latest:
            latest[key] = stored
            return PutResult.REPLACED
        if len(latest) < room:
            latest[key] = stored
            return PutResult.TAKEN
        if not latest:
            return PutResult.REFUSED
        latest.popitem(last=False)
        latest[key] = stored
        return PutResult.REPLACED

    def take(self) -> M:
        """Remove and return the oldest."""
        return self._latest.popitem(last=False)[1] if self._latest else self._queue.popleft()

    def clear(self) -> list[M]:
        """Remove and return everything."""
        stored = list(self)
        self._queue.clear()
        self._latest.clear()
        return stored

    def __iter__(self) -> Iterator[M]:
        return iter([*self._latest.values(), *self._queue])

    def __len__(self) -> int:
        return len(self._queue) + len(self._latest)


@final
class Lag:
    """Counts the events that a subscriber missed, and reports them at a limited rate. Loop thread only.

    The first miss is reported at once. Then a pause of one second begins; at its end the misses of that second are reported together, and
    a new pause begins. After a second without a miss the next one is reported at once again. What has not been reported when the
    subscription ends is reported then. So the reported counts add up to all misses, and between two reports is a second, except before
    the last.

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
