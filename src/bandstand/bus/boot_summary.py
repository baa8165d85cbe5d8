"""The event that a node publishes when it has started: `Sys.BootComplete`.

It is a separate module because `Syscall`, which `node` imports, declares the event as its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from bandstand.bus.contracts.capability import CapabilitySpec
from bandstand.bus.contracts.messages import Event

__all__ = ("BootSummary", "CapabilitySummary", "TimerSummary", "summarize")


class CapabilitySummary(Struct):
    """A capability and the messages that it handles."""

    id: str
    handles: list[str]


class TimerSummary(Struct, rename="camel"):
    """The default timeout of requests."""

    default_timeout: int


class BootSummary(Event, type="Sys.BootComplete"):
    """The node has started. Lists its capabilities, their subscriptions, and the addresses it listens at."""

    capabilities: list[CapabilitySummary]
    subscriptions: dict[str, list[str]]
    adapters: list[str]
    timers: TimerSummary


def summarize(
    specs: Iterable[CapabilitySpec],
    subscriptions: Mapping[str, Iterable[str]],
    adapters: Iterable[str],
    timeout_ms: int,
) -> BootSummary:
    """Return the summary of a node."""
    return BootSummary(
        [CapabilitySummary(each.id, list(each.handles)) for each in specs],
        {name: list(ids) for name, ids in subscriptions.items()},
        list(adapters),
        TimerSummary(timeout_ms),
    )
