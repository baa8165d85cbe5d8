"""Retries: requests that have failed, and wait for their next attempt.

It is the same request all the time, with the same id, credit and deadline, and nobody is told of the failures in between. The delays are the
supervisors' arithmetic. An attempt that would come after the deadline is not waited for: then the last error is the answer.
"""

from __future__ import annotations

from math import ceil
from random import random
from typing import TYPE_CHECKING

from bandstand.bus.numbers import ROUTED
from bandstand.errors import BadMessage

if TYPE_CHECKING:
    from bandstand.bus.endings import Endings
    from bandstand.bus.frame import Frame
    from bandstand.bus.hot.pending import Pending
    from bandstand.core import TimerId

__all__ = ("Again", "Retries")


class Again:
    """The time for the next attempt of a request has come."""

    __slots__ = ("pending",)

    def __init__(self, pending: Pending) -> None:
        self.pending = pending


class Retries:
    """All that wait for their next attempt on one node."""

    __slots__ = ("_router", "_waiting")

    def __init__(self, router: Endings) -> None:
        self._router = router
        self._waiting: dict[Pending, TimerId] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, pending: Pending) -> bool:
        return pending in self._waiting

    def plan(self, pending: Pending, fault: Frame) -> bool:
        """Have a request that has failed tried again. False if it is not to be: its type does not say so, or its time is over."""
        router, route = self._router, pending.route
        retry = None if route is None else route.retry
        if retry is None or fault.type not in retry.on or pending.retries + 1 >= retry.attempts:
            return False
        wait_ms = ceil(retry.delay_ms(pending.retries, random()))  # noqa: S311  # it is no secret
        if router.now_ms() + wait_ms >= router.due_ms(pending):
            return False
        pending.retries += 1
        router.books.retries += 1
        pending.is_begun = pending.is_answered = False
        # It has a slot in the router's mailbox, in which nothing of it lies now.
        self._waiting[pending] = router.loop.send_after(router.actor, wait_ms, Again(pending))
        return True

    def fire(self, again: Again) -> None:
        """Try one again."""
        router, pending = self._router, again.pending
        if self._waiting.pop(pending, None) is None or pending.stage != ROUTED:
            return
        route = pending.route
        assert route is not None
        try:
            # Anew: a handler may have changed what it was given.
            pending.payload = route.read(pending.frame.data)
        except BadMessage as problem:
            router.fail_unread(pending, problem)
            return
        seat = route.seat
        if seat.actor is None or seat.held or not router.loop.try_send(seat.actor, pending):
            router.dispatch_otherwise(seat, pending)

    def cancel(self, pending: Pending) -> None:
        """It is over, and not tried again."""
        timer = self._waiting.pop(pending, None)
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)
