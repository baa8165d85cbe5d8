"""The health of a node: what `Syscall.Health` reports, and the periodic event `Sys.HealthTick`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.contracts.messages import Event
from bandstand.bus.entity_host import EntityHealth, EntityHost
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.request import item_name
from bandstand.core import Lane

if TYPE_CHECKING:
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.fanout import EventFanout
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = ("CapabilityHealth", "HealthReport", "HealthTick", "HealthTicker", "health_of")


class CapabilityHealth(Struct, rename="camel", omit_defaults=True):
    """The health of one capability."""

    state: Literal["starting", "running", "unresponsive", "restarting", "unhealthy", "stopped"]
    """`unresponsive`: it runs, but its requests time out, and it has answered none for as long as the timeout of a request."""
    handled: int
    """The number of messages whose handling has started."""
    crashes: int
    restarts: int
    waiting: int
    """The number of messages that wait for its restart."""
    at: str | None = None
    """The type of the message that its handler is processing; of several, the one that began first."""
    busy_since_ms: int | None = None
    """For how many milliseconds its handler has been processing that message."""
    last_fault: str | None = None
    trial_in_ms: int | None = None
    """While it is out of service: the time until its next trial restart."""
    on_trial: bool = False
    """Whether this is a trial restart: one failure puts it out of service again."""
    entities: EntityHealth | None = None
    """The figures of its entities; omitted if it has none."""


class HealthReport(Struct, rename="camel"):
    """The health of a node."""

    status: Literal["healthy", "degraded"]
    """`degraded` if a capability is unhealthy or unresponsive."""
    uptime_ms: int
    capabilities: dict[str, CapabilityHealth]


def health_of(slot: CapabilitySlot) -> CapabilityHealth:
    """Return the health of one capability."""
    oldest = slot.oldest_message
    return CapabilityHealth(
        state="unresponsive" if slot.is_unresponsive else slot.state.value,
        handled=slot.handled,
        crashes=slot.crashes,
        restarts=slot.restarts,
        waiting=len(slot.held),
        at=None if oldest is None else item_name(oldest),
        busy_since_ms=slot.busy_since_ms,
        last_fault=slot.last_fault,
        trial_in_ms=slot.trial_in_ms,
        on_trial=slot.is_on_trial,
        entities=slot.host.health() if isinstance(slot.host, EntityHost) else None,
    )


class HealthTick(Event, type="Sys.HealthTick", rename="camel"):
    """The node is alive. Published at a fixed interval; subscribe to it for periodic work."""

    uptime_ms: int
    in_flight: int
    unhealthy: list[str]


class HealthTicker:
    """Publishes `Sys.HealthTick` at a fixed interval. It is also its own timer message, in the router's CONTROL lane.

    Args:
        router: the router of the node.
        fanout: publishes the event.
        uptime_ms: returns how long the node has run.
        period_ms: the interval; 0 for no ticks.
    """

    __slots__ = ("_fanout", "_period_ms", "_router", "_timer", "_uptime_ms")

    def __init__(
        self, router: Router, fanout: EventFanout, uptime_ms: Callable[[], float], period_ms: int
    ) -> None:
        self._router = router
        self._fanout = fanout
        self._uptime_ms = uptime_ms
        self._period_ms = period_ms
        self._timer: TimerId | None = None

    def start(self) -> None:
        """Start the timer of the next tick."""
        router = self._router
        if self._period_ms:
            self._timer = router.loop.send_after(
                router.actor, self._period_ms / 1000, self, lane=Lane.CONTROL
            )

    def tick(self, _message: HealthTicker) -> None:
        """Publish the event, and start the timer of the next tick."""
        self.start()
        router = self._router
        unhealthy = [slot.id for slot in router.slots.values() if slot.is_out_of_service]
        tick = HealthTick(uptime_ms=int(self._uptime_ms()), in_flight=router.in_flight, unhealthy=unhealthy)
        ids = router.ids
        self._fanout.publish(
            Frame(
                kind="event",
                type=HealthTick.message_type,
                data=Raw(msgspec.json.encode(tick)),
                metadata=Metadata(ids(), ids.last_ms),
            ),
            None,
        )

    def stop(self) -> None:
        """Stop ticking."""
        timer, self._timer = self._timer, None
        if timer is not None and timer.pending:
            self._router.loop.cancel_timer(timer)
