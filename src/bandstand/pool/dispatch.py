"""Who has which message of a pool: sharing out, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.core import ActorId, Lane
from bandstand.core.events import DeadLetter
from bandstand.core.lifelines import free_slots, prod
from bandstand.pool.errand import Ending, Errand
from bandstand.pool.keys import Keys
from bandstand.pool.queue import Queue
from bandstand.pool.sharing import Turns
from bandstand.pool.status import Books, Fate
from bandstand.pool.vocabulary import ByKey, OnDeath, Routing
from bandstand.service.lowlevel import AWAY, land_at

if TYPE_CHECKING:
    from bandstand.pool.bench import Bench
    from bandstand.service import Loop

__all__ = ("Dispatch",)

LANES = tuple(Lane)


class Dispatch:
    """The errands of a pool and its workers. `actor` is the pool's own id, set when that is spawned."""

    __slots__ = (
        "_common",
        "_keys",
        "_loop",
        "_max_tries",
        "_on_death",
        "_routing",
        "_turns",
        "actor",
        "benches",
        "books",
        "is_bereft",
        "is_open",
        "is_prodded",
        "leaving",
    )

    actor: ActorId

    def __init__(self, loop: Loop, routing: Routing | ByKey, on_death: OnDeath, max_tries: int) -> None:
        self._loop = loop
        self._routing = routing
        self._on_death = on_death
        self._max_tries = max_tries
        self._turns = Turns(routing) if isinstance(routing, Routing) else None
        self._keys = Keys()
        self._common = Queue()
        self.benches: list[Bench] = []
        self.leaving: list[Bench] = []
        self.books = Books()
        self.is_open = True
        # Whether it will look what there is to do in a turn of its own.
        self.is_prodded = False
        # Whether its workers' supervisor has ended.
        self.is_bereft = False

    @property
    def signals(self) -> int:
        """How many of the messages in its mailbox are the system's."""
        return int(self.is_prodded) + int(self.is_bereft)

    @property
    def waiting(self) -> int:
        """How many errands no worker has yet."""
        return len(self._common) + len(self._keys) + sum(len(bench.waiting) for bench in self.everyone)

    @property
    def everyone(self) -> list[Bench]:
        """All workers, those that leave last."""
        return [*self.benches, *self.leaving]

    # -- sharing out -----------------------------------------------------------------------------------------------------------

    def _route(self, errand: Errand) -> None:
        bench = self._keys.route(errand, self.benches)
        if bench is not None:
            self._serve(bench)

    def pump(self) -> None:
        """Share out what can be."""
        while self._common and self.is_open:
            bench = None if self._turns is None else self._turns.pick(self.benches)
            if bench is None:
                return
            # One that is just ending is passed over the next time.
            self._hand(bench, self._common.pop(), self._common)

    def _serve(self, bench: Bench) -> None:
        """Give a worker what waits for it alone."""
        while bench.waiting and bench.is_ready and self.is_open:
            if not self._hand(bench, bench.waiting.pop(), bench.waiting):
                return

    def _hand(self, bench: Bench, errand: Errand, origin: Queue) -> bool:
        """Give an errand to a worker; False, and it waits as before, if the worker is just ending."""
        assert bench.actor is not None
        before = errand.actor
        bench.out[errand] = None
        errand.bench = bench
        errand.was_told = False
        errand.moved(bench.actor)
        if isinstance(self._routing, ByKey):
            self._keys.begin(errand, bench)
        if land_at(bench.actor, errand.method, errand.data, errand) != AWAY:
            return True
        bench.is_shut = True
        self._release(errand)
        errand.moved(before)
        origin.push_front(errand)
        return False

    def _release(self, errand: Errand) -> list[Errand]:
        """A worker has an errand no more; what may be routed now that was parked for that."""
        bench, errand.bench = errand.bench, None
        if bench is None:
            return []
        bench.out.pop(errand)
        return self._keys.end(errand) if isinstance(self._routing, ByKey) else []

    def came(self, bench: Bench, actor: ActorId) -> None:
        """A worker has been started, or started again."""
        bench.come(actor)
        self._attend(bench)

    def _attend(self, bench: Bench) -> None:
        self._serve(bench)
        has_work = bench.is_done if bench.is_leaving else bool(self._common)
        if has_work and self.is_open and not self.is_prodded:
            # In a turn of our own: this may be the worker's.
            self.is_prodded = True
            prod(self._loop, self.actor)

    def rearrange(self) -> None:
        """The workers are others than before: what waits for one alone may be another's now."""
        if isinstance(self._routing, ByKey):
            for errand in [errand for bench in self.everyone for errand in bench.waiting.clear()]:
                self._keys.route(errand, self.benches)
        for bench in self.everyone:
            self._attend(bench)

    # -- what became of it -----------------------------------------------------------------------------------------------------

    def settle(self, errand: Errand, fate: Fate, ending: Ending | None = None) -> None:
        """An errand has its fate."""
        if errand.is_over:
            return
        errand.is_over = True
        self.books.fates[fate] += 1
        bench = errand.bench
        parked = self._release(errand)
        if errand.share is None or errand.share.settle(ending):
            free_slots(self._loop, self.actor, errand.method.lane, 1)
        for following in parked:
            self._route(following)
        if bench is not None:
            self._attend(bench)

    def recall(self, errand: Errand) -> None:
        """An asker has taken an errand back that waits."""
        found = self._common.discard(errand) or self._keys.discard(errand)
        if found or any(bench.waiting.discard(errand) for bench in self.everyone):
            self.settle(errand, Fate.WITHDRAWN)

    def worker_lost(self, errand: Errand, ending: Ending, *, was_begun: bool) -> None:
        """A worker has ended that had an errand. What it had not begun comes here only if its mailbox was not kept."""
        errand.was_told = not was_begun
        may_return = self.is_open and self._on_death is not OnDeath.DEAD_LETTER
        if was_begun:
            errand.tries += 1
            may_return = (
                may_return and self._on_death is OnDeath.REQUEUE_ALL and errand.tries < self._max_tries
            )
        if errand.is_recalled():
            self.settle(errand, Fate.WITHDRAWN)
        elif may_return:
            self._requeue(errand)
        else:
            self.bury(errand, ending)

    def _requeue(self, errand: Errand) -> None:
        self.books.requeued += 1
        owner = errand.bench
        parked = self._release(errand)
        errand.moved(self.actor)
        if isinstance(self._routing, ByKey):
            # Before whatever was parked behind it.
            bench = self._keys.put_back(errand, self.benches)
            for following in parked:
                self._keys.route(following, self.benches)
            if bench is not None:
                self._serve(bench)
        elif errand.share is not None and owner is not None:
            owner.waiting.push_front(errand)
        else:
            self._common.push_front(errand)
            self.pump()

    def bury(self, errand: Errand, ending: Ending) -> None:
        """Nobody handles an errand any more."""
        if not errand.was_told:
            method = errand.method
            what = f"{method.owner}.{method.name}()"
            target = errand.actor
            self._loop.events.tell(DeadLetter(target, LANES[method.lane], errand.arguments, what))
        errand.give_up(ending)
        self.settle(errand, Fate.DEAD, ending)

    def close(self, ending: Ending) -> None:
        """The pool has ended: what waits is dead. What workers have, their end decides."""
        self.is_open = False
        waiting = [*self._common.clear(), *self._keys.clear()]
        for bench in self.everyone:
            waiting += bench.waiting.clear()
        for errand in waiting:
            self.bury(errand, ending)
