"""The counters of a pool, and a frozen record of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.core import ActorId

__all__ = ("JobOutcome", "PoolCounters", "PoolStatus", "WorkerStatus")


class JobOutcome(Enum):
    """How a message of a pool ends: exactly one of these."""

    HANDLED = "handled"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker of a pool."""

    name: str
    """Its name under the pool's supervisor; it survives restarts."""
    actor: ActorId | None
    """The current incarnation; None while the worker is down."""
    outstanding: int
    """How many messages the worker has, including the one it is handling."""
    is_leaving: bool
    """Whether the worker takes no new messages and ends after those it has."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The state of a pool. Always `accepted == handled + failed + withdrawn + dead + waiting + outstanding`.

    Each worker's copy of a broadcast counts.
    """

    workers: tuple[WorkerStatus, ...]
    """In their order; workers that leave come last."""
    accepted: int
    """How many messages the pool has accepted."""
    waiting: int
    """How many messages wait for a worker."""
    outstanding: int
    """How many messages the workers have."""
    handled: int
    failed: int
    """How many asks were answered with an error: one that their method declares, or one about their routing."""
    withdrawn: int
    """How many asks their askers took back."""
    dead: int
    """How many messages became dead letters, because a worker died or the pool ended."""
    requeued: int
    """How often a message was queued again after its worker's death. This is not an outcome."""

    @property
    def size(self) -> int:
        """How many workers the pool has, without those that leave."""
        return sum(not worker.is_leaving for worker in self.workers)


@final
class PoolCounters:
    """Counts the messages of a pool."""

    __slots__ = ("accepted", "outcomes", "requeued")

    def __init__(self) -> None:
        self.accepted = 0
        self.requeued = 0
        self.outcomes = dict.fromkeys(JobOutcome, 0)

    def write_off(self, count: int) -> None:
        """Count messages that were in the mailbox when the pool ended."""
        self.accepted += count
        self.outcomes[JobOutcome.DEAD] += count
