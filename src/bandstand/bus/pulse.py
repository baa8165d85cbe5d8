"""The pulse of a node: a `Sys.HealthTick` every so often, for whatever has to be done every so often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.syscall import HealthTick
from bandstand.core import Lane

if TYPE_CHECKING:
    from bandstand.bus.backstage import Backstage
    from bandstand.core import TimerId

__all__ = ("Pulse",)


class Pulse:
    """Ticks by the router's own lane, ahead of what users say. It is its own message."""

    __slots__ = ("_backstage", "_period_ms", "_timer")

    def __init__(self, backstage: Backstage, period_ms: int) -> None:
        self._backstage = backstage
        self._period_ms = period_ms
        self._timer: TimerId | None = None

    def begin(self) -> None:
        """Begin to tick."""
        router = self._backstage.router
        if self._period_ms:
            self._timer = router.loop.send_after(router.actor, self._period_ms, self, lane=Lane.CONTROL)

    def beat(self, _tick: Pulse) -> None:
        """One tick: tell, and set the next."""
        self.begin()
        backstage = self._backstage
        router = backstage.router
        sick = [seat.id for seat in router.seats.values() if seat.is_out_of_service]
        tick = HealthTick(uptime_ms=int(backstage.uptime_ms()), in_flight=router.in_flight, unhealthy=sick)
        ids = router.ids
        backstage.fanout.pass_on(
            Frame(
                kind="event",
                type=HealthTick.message_type,
                data=Raw(msgspec.json.encode(tick)),
                metadata=Metadata(ids(), ids.last_ms),
            ),
            None,
        )

    def end(self) -> None:
        """Tick no more."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.pending:
            self._backstage.router.loop.cancel_timer(timer)
