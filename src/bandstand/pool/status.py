"""How a pool stands: its books, and a frozen picture of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.core import ActorId

__all__ = ("Books", "Fate", "PoolStatus", "WorkerStatus")


class Fate(Enum):
    """What becomes of a message of a pool: exactly one of these."""

    HANDLED = "handled"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker of a pool."""

    name: str
    """Its name under the pool's supervisor; the same over restarts."""
    actor: ActorId | None
    """The present incarnation; None while it is down."""
    outstanding: int
    """How many messages it has, the one at hand included."""
    is_leaving: bool
    """Whether it takes nothing new, and ends when it has handled what it has."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A picture of a pool. `accepted == handled + failed + withdrawn + dead + waiting + outstanding`, always.

    Of a broadcast each worker's copy is counted.
    """

    workers: tuple[WorkerStatus, ...]
    """In their order; those that leave are last."""
    accepted: int
    """How many messages have come in."""
    waiting: int
    """How many no worker has yet."""
    outstanding: int
    """How many workers have, all together."""
    handled: int
    failed: int
    """How many asks were answered with an error: one that their method declares, or that they cannot be routed."""
    withdrawn: int
    """How many asks were taken back."""
    dead: int
    """How many were given up, because a worker died or the pool ended."""
    requeued: int
    """How often a message went back after its worker's death; not a fate."""

    @property
    def size(self) -> int:
        """How many workers it has, but for those that leave."""
        return sum(not worker.is_leaving for worker in self.workers)


@final
class Books:
    """The counters of a pool."""

    __slots__ = ("accepted", "fates", "requeued")

    def __init__(self) -> None:
        self.accepted = 0
        self.requeued = 0
        self.fates = dict.fromkeys(Fate, 0)

    def write_off(self, count: int) -> None:
        """So many had come in, and are dead before the pool has looked at them."""
        self.accepted += count
        self.fates[Fate.DEAD] += count
