"""An errand: one message on its way through a pool.

It stands in the sender's place when the message goes to a worker. So the pool hears what became of it, and whoever waits for an answer
hears the same: an answer, an error, the worker's end. It takes the way back as well: an ask that is taken back reaches the worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from bandstand.pool.status import Fate
from bandstand.service.lowlevel import Asked, Method, Parcel, interrupt_handler

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.pool.bench import Bench

__all__ = ("Counter", "Ending", "Errand", "Share")

Ending = tuple["ActorId | None", "str | None", int, BaseException | None]


class Counter(Protocol):
    """Whom an errand tells what became of it."""

    def settle(self, errand: Errand, fate: Fate) -> None:
        """It has its fate."""
        ...

    def worker_lost(self, errand: Errand, ending: Ending, *, was_begun: bool) -> None:
        """Its worker has ended."""
        ...

    def recall(self, errand: Errand) -> None:
        """Its asker has taken it back while it waits in the pool."""
        ...


@final
class Share:
    """What the copies of a broadcast have in common: the sender, and the slot of the one message."""

    __slots__ = ("asked", "ending", "left")

    def __init__(self, count: int, asked: Asked | None) -> None:
        self.left = count
        self.asked = asked
        self.ending: Ending | None = None

    def settle(self, ending: Ending | None) -> bool:
        """One copy has its fate; whether it was the last one. Then the sender is told: of a loss, if there was one."""
        self.left -= 1
        self.ending = self.ending or ending
        if self.left:
            return False
        if self.asked is not None:
            if self.ending is None:
                self.asked.answer(None)
            else:
                self.asked.lost(*self.ending)
        return True


@final
class Errand(Asked):
    """One message: waiting in the pool (`bench` is None), with a worker, or over."""

    __slots__ = (
        "_counter",
        "asked",
        "bench",
        "data",
        "is_over",
        "key",
        "method",
        "share",
        "tries",
        "was_told",
    )

    def __init__(
        self,
        counter: Counter,
        actor: ActorId,
        method: Method,
        data: object,
        asked: Asked | None,
        share: Share | None = None,
    ) -> None:
        super().__init__(actor)
        self._counter = counter
        self.method = method
        self.data = data
        self.asked = asked
        self.share = share
        self.key: str | bytes | int = 0
        self.bench: Bench | None = None
        # How often a worker has died at it.
        self.tries = 0
        self.is_over = False
        # Whether the loop has told of it as a dead letter.
        self.was_told = False
        if asked is not None:
            asked.relay = self.take_back

    @property
    def arguments(self) -> object:
        """The message as it was sent, without what travelled along."""
        return self.data.data if isinstance(self.data, Parcel) else self.data

    def moved(self, actor: ActorId) -> None:
        """It goes to this actor now: whoever waits for an answer waits for that one."""
        self.actor = actor
        if self.asked is not None:
            self.asked.actor = actor

    # -- what becomes of it ------------------------------------------------------------------------------------------------

    def answer(self, value: object) -> None:
        """The worker has handled it."""
        if self.is_over:
            return
        if self.asked is not None:
            self.asked.relay = None
            self.asked.answer(value)
        self._counter.settle(self, Fate.HANDLED)

    def fail(self, error: BaseException) -> None:
        """The answer is an error, which is no failure of the worker."""
        if self.is_over:
            return
        if self.asked is not None:
            self.asked.relay = None
            self.asked.fail(error)
        self._counter.settle(self, Fate.FAILED)

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        """The worker has ended, and had not begun."""
        if not self.is_over:
            self._counter.worker_lost(self, (actor, name, reason, cause), was_begun=False)

    def cut_off(
        self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None
    ) -> None:
        """The worker has ended in the middle of it."""
        if not self.is_over:
            self._counter.worker_lost(self, (actor, name, reason, cause), was_begun=True)

    def is_withdrawn(self) -> bool:
        """Whether the asker has taken it back. The worker looks when it comes to it, and then never begins: so this is its end."""
        if not self.is_recalled():
            return False
        self._counter.settle(self, Fate.WITHDRAWN)
        return True

    def is_recalled(self) -> bool:
        """The same, only looked at."""
        return self.method.is_ask and self.asked is not None and self.asked.is_withdrawn()

    def take_back(self) -> None:
        """The asker takes it back: it never begins, or its handler is cancelled at its next await."""
        if self.is_over:
            return
        if self.bench is None:
            self._counter.recall(self)
        else:
            interrupt_handler(self.actor, self)

    def give_up(self, ending: Ending) -> None:
        """Nobody handles it any more: tell whoever waits."""
        if self.asked is not None and self.share is None:
            self.asked.relay = None
            self.asked.lost(*ending)
