"""How a node and its capabilities are, as `Syscall.Health` tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from bandstand.bus.seat import Seat

__all__ = ("CapabilityHealth", "HealthReport", "health_of")


class CapabilityHealth(Struct, rename="camel", omit_defaults=True):
    """How one capability is."""

    state: Literal["starting", "running", "unresponsive", "restarting", "unhealthy", "stopped"]
    """`unresponsive`: it runs, but its requests time out and it has answered none for as long as a request to it may take."""
    handled: int
    """Messages it has begun with."""
    crashes: int
    restarts: int
    waiting: int
    """Messages that wait for it to be started again."""
    at: str | None = None
    """The type of the message that its handler is at."""
    last_fault: str | None = None
    trial_in_ms: int | None = None
    """While it is out of service: how long it is until it is tried again by itself."""
    on_trial: bool = False
    """Whether it was tried again, and one failure puts it out of service once more."""


class HealthReport(Struct, rename="camel"):
    """How a node is."""

    status: Literal["healthy", "degraded"]
    """Degraded if a capability is unhealthy or unresponsive."""
    uptime_ms: int
    capabilities: dict[str, CapabilityHealth]


def health_of(seat: Seat) -> CapabilityHealth:
    """How one capability is."""
    return CapabilityHealth(
        state="unresponsive" if seat.is_unresponsive else seat.state.value,
        handled=seat.handled,
        crashes=seat.crashes,
        restarts=seat.restarts,
        waiting=len(seat.held),
        at=None if seat.at_hand is None else seat.at_hand.frame.type,
        last_fault=seat.last_fault,
        trial_in_ms=seat.trial_in_ms,
        on_trial=seat.is_on_trial,
    )
