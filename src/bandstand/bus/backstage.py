"""What the capabilities of the runtime's own may see: the parts of the node that everybody else only sees the outside of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.bus.contracts.blueprint import Blueprint
    from bandstand.bus.fanout import Fanout
    from bandstand.bus.gate import Client, Gate
    from bandstand.bus.router import Router
    from bandstand.bus.schedule import Schedule
    from bandstand.bus.ward import Ward
    from bandstand.bus.watching import Watcher

__all__ = ("Backstage",)


@dataclass(slots=True)
class Backstage:
    """The parts of a node."""

    router: Router
    fanout: Fanout
    gate: Gate
    schedule: Schedule
    ward: Ward
    uptime_ms: Callable[[], float]
    blueprints: tuple[Blueprint, ...] = ()
    watchers: dict[Client, Watcher] = field(default_factory=dict["Client", "Watcher"])
    """Who is shown what passes. Here, and not in the capability: that may be started again."""
