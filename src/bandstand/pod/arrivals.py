"""Arrivals: a pod runs for the troupe when everybody who is there can reach it.

Within a process that is so at once. Between processes it takes a moment until a link is up at both ends; whoever hears that a pod runs,
and sends to it without waiting, must not find that it is down. So it is told a moment later, and never much later: one whose
thread is stuck does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.pod.exchange import Exchange
    from bandstand.pod.stages import Stage

__all__ = ("Arrivals",)

# How long it takes at most, in seconds.
LATEST_S = 1.0


@final
class Arrivals:
    """Those who run, and whom not everybody can reach yet. On the kubelet's thread.

    Args:
        exchange: who knows whom.
        tell: called once with each that has arrived.
    """

    def __init__(self, exchange: Exchange, tell: Callable[[Stage], object]) -> None:
        self._exchange = exchange
        self._tell = tell
        self._pending: dict[Stage, asyncio.TimerHandle] = {}

    def add(self, stage: Stage) -> None:
        """One runs."""
        self._exchange.open(stage)
        self._pending[stage] = asyncio.get_running_loop().call_later(LATEST_S, self.finish, stage)
        self._look_at(stage)

    def know(self, stage: Stage, peer: str) -> None:
        """One can reach the actors of a pod, by their link."""
        self._exchange.know(stage, peer)
        other = self._exchange.stages.get(peer)
        self._look_at(stage)
        if other is not None:
            self._look_at(other)

    def finish(self, stage: Stage) -> None:
        """Wait no longer for those who cannot reach it: tell. Nothing if it was told."""
        timer = self._pending.pop(stage, None)
        if timer is not None:
            timer.cancel()
            self._tell(stage)

    def look(self) -> None:
        """Tell of those who have arrived. Somebody may have gone for whom just they have waited."""
        for stage in list(self._pending):
            self._look_at(stage)

    def _look_at(self, stage: Stage) -> None:
        if stage in self._pending and self._exchange.is_known(stage):
            self.finish(stage)
