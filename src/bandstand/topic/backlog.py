"""The events of one subscription that wait, and what is given up when there is no room. Nothing but arithmetic.

With a key, a newer event takes the place of the older one of its key. So no key waits longer than it takes to hand over what was
before it, however often it changes; to send it to the back each time would keep the publishing order among keys, and would let one
that always changes before its turn wait for ever.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Generic, TypeVar, final

from bandstand.topic.policy import Policy

__all__ = ("Backlog", "Fate")

T = TypeVar("T")
M = TypeVar("M")


class Fate(Enum):
    """What became of one event."""

    TAKEN = "taken"
    TRADED = "traded"
    """It waits, and an older one was given up for it."""
    REFUSED = "refused"
    """It was given up itself."""
    CUT = "cut"
    """There is no room, and that is the end."""


@final
class Backlog(Generic[T, M]):
    """What waits, in order. `T` is an event, `M` what is kept of it.

    Args:
        policy: what to do when there is no room.
        key: of CONFLATE, what makes two events of one kind; None if all are.
    """

    __slots__ = ("_key", "_latest", "_line", "_policy")

    def __init__(self, policy: Policy, key: Callable[[T], Hashable] | None) -> None:
        self._policy = policy
        self._key = key
        self._line: deque[M] = deque()
        self._latest: OrderedDict[Hashable, M] = OrderedDict()

    def put(self, event: T, kept: M, room: int) -> Fate:
        """One event more, where at most `room` may wait. What `key` raises comes out here, and nothing has changed."""
        if self._policy is Policy.CONFLATE:
            return self._conflate(None if self._key is None else self._key(event), kept, room)
        if len(self._line) < room:
            self._line.append(kept)
            return Fate.TAKEN
        if self._policy is Policy.CUT_OFF:
            return Fate.CUT
        if self._policy is Policy.DROP_NEWEST or not self._line:
            return Fate.REFUSED
        self._line.popleft()
        self._line.append(kept)
        return Fate.TRADED

    def _conflate(self, key: Hashable, kept: M, room: int) -> Fate:
        latest = self._latest
        if key in latest:
            latest[key] = kept
            return Fate.TRADED
        if len(latest) < room:
            latest[key] = kept
            return Fate.TAKEN
        if not latest:
            return Fate.REFUSED
        latest.popitem(last=False)
        latest[key] = kept
        return Fate.TRADED

    def take(self) -> M:
        """The one that has waited longest; it waits no more."""
        return self._latest.popitem(last=False)[1] if self._latest else self._line.popleft()

    def clear(self) -> list[M]:
        """Everything that waits, which waits no more."""
        kept = list(self)
        self._line.clear()
        self._latest.clear()
        return kept

    def __iter__(self) -> Iterator[M]:
        return iter([*self._latest.values(), *self._line])

    def __len__(self) -> int:
        return len(self._line) + len(self._latest)
