"""A bench: the place of one worker in a pool, through all its incarnations."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from bandstand.pool.queue import Queue
from bandstand.pool.status import WorkerStatus
from bandstand.scope import Channel

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.pool.errand import Errand

__all__ = ("Bench",)


@final
class Bench:
    """What a pool knows of one worker."""

    __slots__ = ("actor", "ahead", "gone", "is_leaving", "is_shut", "name", "out", "waiting")

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        # What its supervisor calls it.
        self.name = ""
        self.actor: ActorId | None = None
        # It is about to end, though it has not yet.
        self.is_shut = False
        self.is_leaving = False
        # What the worker has, and what waits for this one alone: of its keys, or copies of what all get.
        self.out: dict[Errand, None] = {}
        self.waiting = Queue()
        # Closed when the worker has left for good.
        self.gone: Channel[None] = Channel()

    @property
    def is_ready(self) -> bool:
        """Whether it may have one message more."""
        return self.actor is not None and not self.is_shut and len(self.out) < self.ahead

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left for it to do."""
        return not self.out and not self.waiting

    def come(self, actor: ActorId) -> None:
        """An incarnation is there: what its predecessor had not begun is its own now."""
        self.actor = actor
        self.is_shut = False
        for errand in self.out:
            errand.moved(actor)

    def status(self) -> WorkerStatus:
        """A picture of it."""
        return WorkerStatus(self.name, self.actor, len(self.out), self.is_leaving)
