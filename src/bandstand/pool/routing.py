"""Which worker gets a message.

`ByKey` uses jump consistent hashing over the workers' positions. When a pool of n workers grows by one, one key in n + 1 moves, and always to
the new worker; no table of keys is kept. The messages of a key must stay in order when it moves: while the old worker has messages of it,
new ones are parked.

Refused: the remainder of a hash, with which nearly all keys move at every resize; and leaving a key where it is while it is busy, with which a
worker with one busy key could never leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.supervision.supervisor import consistent_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized

    from bandstand.pool.dispatcher import Job, WorkerSlot

__all__ = ("ByKey", "Key", "KeyRouter", "OnDeath", "Routing", "Slot", "WorkerPicker")

Key = str | bytes | int


class Slot(Protocol):
    """The place of a worker, as far as choosing one needs to know it."""

    @property
    def is_ready(self) -> bool:
        """Whether the worker may get another message."""
        ...

    @property
    def jobs(self) -> Sized:
        """The messages that the worker has."""
        ...


S = TypeVar("S", bound=Slot)


class Routing(Enum):
    """Which worker gets a message. Workers that are down or have as many messages as they may are skipped."""

    ROUND_ROBIN = "round_robin"
    """The next one in turn."""
    LEAST_LOADED = "least_loaded"
    """The one with the fewest messages; among equals the next one in turn."""
    BROADCAST = "broadcast"
    """All of them; those that are down get it after their restart. One-way methods only: an ask is answered with `InvalidArgumentError`."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """All messages of one key go to one worker, which handles them in the order of their lane, over deaths and resizes too.

    The worker of a key depends only on the key and the size of the pool, so it is the same in the next run. When a pool of n grows by one, one
    key in n + 1 moves, to the new worker; when it shrinks, only the keys of the last worker move. A key that moves waits until its old worker
    has finished the messages of it that it has.

    Raises:
        InvalidArgumentError: the key is not callable.
    """

    key: Callable[..., str | bytes | int]
    """Called with the arguments of each message, on the loop's thread. It should be fast."""

    def __post_init__(self) -> None:
        if not callable(self.key):
            raise InvalidArgumentError(
                f"ByKey: key is {safe_repr(self.key)}: pass a function of a message's arguments that returns a str, bytes or an int"
            )

    def of(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> str | bytes | int:
        """Return the key of a message."""
        return self.key(*arguments, **named)


class OnDeath(Enum):
    """What happens to a worker's messages when it ends before it has handled them."""

    REQUEUE_WAITING = "requeue_waiting"
    """Messages that it had not started wait for its next incarnation, in order; the one it was handling is a dead letter. At most once."""
    REQUEUE_ALL = "requeue_all"
    """The message it was handling goes back to the front, up to `max_tries` times: at least once. A worker has one message at a time."""
    DEAD_LETTER = "dead_letter"
    """All of them become dead letters; messages that wait in the pool stay."""


@final
class WorkerPicker:
    """Picks a worker where every worker can handle every message: in turn, or by load."""

    __slots__ = ("_is_by_load", "_last")

    def __init__(self, routing: Routing) -> None:
        self._is_by_load = routing is Routing.LEAST_LOADED
        self._last = -1

    def pick(self, slots: Sequence[S]) -> S | None:
        """Return the worker that gets the next message, or None if no worker can take one."""
        count = len(slots)
        in_turn = [(self._last + step) % count for step in range(1, count + 1)]
        ready = [position for position in in_turn if slots[position].is_ready]
        if not ready:
            return None
        # min() returns the first of equals, so equals take turns.
        self._last = (
            min(ready, key=lambda position: len(slots[position].jobs)) if self._is_by_load else ready[0]
        )
        return slots[self._last]


@final
class KeyRouter:
    """Routes jobs by key, and parks those whose key is still busy on another worker."""

    __slots__ = ("_busy", "_parked")

    def __init__(self) -> None:
        # For each key that a worker has jobs of: the worker, and how many jobs.
        self._busy: dict[Key, tuple[WorkerSlot, int]] = {}
        self._parked: dict[Key, deque[Job]] = {}

    def route(self, job: Job, slots: Sequence[WorkerSlot]) -> WorkerSlot | None:
        """Queue a job for the worker of its key and return the worker, or park the job and return None."""
        key = job.key
        slot = slots[consistent_hash(key, len(slots))]
        busy = self._busy.get(key)
        if key in self._parked or (busy is not None and busy[0] is not slot):
            self._parked.setdefault(key, deque()).append(job)
            return None
        slot.waiting.push(job)
        return slot

    def put_back(self, job: Job, slots: Sequence[WorkerSlot]) -> WorkerSlot | None:
        """Route a job that was started before, in front of all others of its key."""
        parked = self._parked.get(job.key)
        if parked is not None:
            parked.appendleft(job)
            return None
        slot = self.route(job, slots)
        if slot is not None:
            slot.waiting.discard(job)
            slot.waiting.push_front(job)
        return slot

    def begin(self, job: Job, slot: WorkerSlot) -> None:
        """Note that a worker has a job."""
        _, count = self._busy.get(job.key, (slot, 0))
        self._busy[job.key] = (slot, count + 1)

    def end(self, job: Job) -> list[Job]:
        """Note that a worker no longer has a job. Return the parked jobs that can be routed now, in order."""
        slot, count = self._busy[job.key]
        if count > 1:
            self._busy[job.key] = (slot, count - 1)
            return []
        del self._busy[job.key]
        return list(self._parked.pop(job.key, ()))

    def discard(self, job: Job) -> bool:
        """Remove a parked job; return whether it was parked."""
        parked = self._parked.get(job.key)
        if parked is None or job not in parked:
            return False
        parked.remove(job)
        if not parked:
            del self._parked[job.key]
        return True

    def clear(self) -> list[Job]:
        """Remove and return all parked jobs."""
        found = list(self)
        self._parked.clear()
        return found

    def __iter__(self) -> Iterator[Job]:
        for parked in self._parked.values():
            yield from parked

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))
