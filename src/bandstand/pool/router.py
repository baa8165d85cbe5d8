"""The router: the actor behind a pool's handle. What it is sent, it passes on, and keeps the books of it.

The problem. A pool is to be one actor for whoever uses it: the same methods and types, asks, deadlines, a full mailbox that says so. And
each message is to have one fate, whatever its worker's.

The choice. The handle's actor is this one. A message that comes is an *errand*, which keeps its slot of the router's mailbox until it has
its fate: so the mailbox's cap bounds all that a pool has, those that wait for room get it in their order, and a router whose mailbox is
closed ends by itself when the last errand has. An errand goes to a worker by a plain post, with itself in the sender's place. What a worker
that is done gets next, the router decides in a turn of its own, when the other workers have had theirs: or the first would take all.

A worker's messages survive it in the mailbox that its supervisor keeps; nothing is copied, and the order holds. What it was at, the
kernel tells apart from what it had not begun (`Receipt.cut_off`).

Refused: workers that pull (a message more for each message); a list of the pool's own beside the mailbox, with a bound of its own; more
than one message at a time where what was at hand goes back, since it would come after those behind it.
Cost: one object and one more turn for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from bandstand.core import ChildExit, ExitReason, Lane
from bandstand.core.events import Unhandled
from bandstand.core.lifelines import hold_slot
from bandstand.errors import InvalidArgument
from bandstand.pool.dispatch import Dispatch
from bandstand.pool.errand import Errand, Share
from bandstand.pool.status import Fate
from bandstand.pool.vocabulary import ByKey, OnDeath, Routing
from bandstand.service.lowlevel import Asked, Method, arguments_of, methods_of
from bandstand.supervise.lowlevel import jump_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.core import Context
    from bandstand.pool.bench import Bench
    from bandstand.service import Loop

__all__ = ("Router",)


@final
class Router(Dispatch):
    """The pool's actor."""

    __slots__ = ("_methods", "_name", "_retire")

    def __init__(
        self,
        loop: Loop,
        kind: type[Any],
        name: str,
        routing: Routing | ByKey,
        on_death: OnDeath,
        max_tries: int,
        retire: Callable[[Bench], None],
    ) -> None:
        super().__init__(loop, routing, on_death, max_tries)
        self._name = name
        self._methods = frozenset(methods_of(kind))
        # Has a worker end that leaves and has nothing left to do.
        self._retire = retire

    def __call__(self, ctx: Context[Any], data: object) -> None:
        """The behavior of the pool's actor."""
        # Of typed messages, it is a method; and the sender, if somebody waits, an Asked.
        tag: object = ctx.tag
        if isinstance(tag, Method) and tag in self._methods:
            sender: object = ctx.sender
            self._accept(tag, data, sender if isinstance(sender, Asked) else None)
        elif isinstance(data, ChildExit):
            # Its workers' supervisor has given up, or somebody has ended it.
            if data.reason is ExitReason.NORMAL:
                self._loop.stop_actor(self.actor)
            else:
                self._loop.fail_actor(self.actor, data.cause)
        elif ctx.lane is Lane.SYSTEM:
            self.is_prodded = False
            self.pump()
            for bench in [bench for bench in self.leaving if bench.is_done]:
                self._retire(bench)
        else:
            what = type(data).__name__
            self._loop.events.tell(Unhandled(self.actor, self._name, data, what))

    def _accept(self, method: Method, data: object, asked: Asked | None) -> None:
        hold_slot(self._loop, self.actor, method.lane)
        if self._routing is Routing.BROADCAST and not method.is_ask:
            self._broadcast(method, data, asked)
            return
        errand = Errand(self, self.actor, method, data, asked)
        self.books.accepted += 1
        if self._routing is Routing.BROADCAST:
            errand.fail(
                InvalidArgument(
                    f"{method.owner}.{method.name}() was asked of the pool {self._name!r}, which broadcasts: there would be an answer from each "
                    f"worker. Make it one-way, or ask another pool."
                )
            )
        elif errand.is_recalled():
            self.settle(errand, Fate.WITHDRAWN)
        elif not isinstance(self._routing, ByKey):
            self._common.push(errand)
            self.pump()
        elif self._set_key(errand, self._routing):
            self._route(errand)

    def _broadcast(self, method: Method, data: object, asked: Asked | None) -> None:
        share = Share(len(self.benches), asked)
        for bench in self.benches:
            bench.waiting.push(Errand(self, self.actor, method, data, None, share))
            self.books.accepted += 1
        for bench in self.benches:
            self._serve(bench)

    def _set_key(self, errand: Errand, routing: ByKey) -> bool:
        """Find the key of an errand; False, and it is over, if it has none."""
        try:
            errand.key = routing.of(*arguments_of(errand.method, errand.arguments))
            jump_of(errand.key, 1)
        except Exception as error:  # noqa: BLE001  # whatever a user's function raises
            wrong = InvalidArgument(
                f"the key of {errand.method.owner}.{errand.method.name}() cannot be told: {error!r}; the pool {self._name!r} has not passed it on"
            )
            wrong.__cause__ = error
            if errand.method.is_ask:
                errand.fail(wrong)
            else:
                self._loop._complain(str(wrong), error)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one voice
                self.bury(errand, (self.actor, self._name, ExitReason.FAIL.value, wrong))
            return False
        return True
