"""The queue of one subscription, and what its policy drops when it is full. Pure data, no effects.

With a key, a newer event replaces the older one of its key in place. So a key waits no longer than the events in front of it, however often
it changes. Moving it to the back each time would keep the publishing order among keys, but a key that changes often could wait for ever.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Generic, TypeVar, final

__all__ = ("Backlog", "Policy", "PutResult")

T = TypeVar("T")
M = TypeVar("M")


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
