"""What a node says when it has started, and when it could not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw, Struct

from bandstand.bus.contracts.blueprint import Blueprint
from bandstand.bus.contracts.messages import Event
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.errors.formatting import describe_exception, safe_str

__all__ = ("BootSummary", "boot_frame", "said_of", "summarize")


class CapabilitySummary(Struct):
    """A capability, and what it handles."""

    id: str
    handles: list[str]


class TimerSummary(Struct, rename="camel"):
    """What holds for every request that does not say otherwise."""

    default_timeout: int


class BootSummary(Event, type="Sys.BootComplete"):
    """The node has started: what it can do, who listens to what, and where it can be reached."""

    capabilities: list[CapabilitySummary]
    subscriptions: dict[str, list[str]]
    adapters: list[str]
    timers: TimerSummary


def summarize(
    blueprints: Iterable[Blueprint],
    subscriptions: Mapping[str, Iterable[str]],
    adapters: Iterable[str],
    timeout_ms: int,
) -> BootSummary:
    """Put together what has started."""
    return BootSummary(
        [CapabilitySummary(each.id, list(each.handles)) for each in blueprints],
        {name: list(ids) for name, ids in subscriptions.items()},
        list(adapters),
        TimerSummary(timeout_ms),
    )


def boot_frame(summary: BootSummary, ids: IdMaker) -> Frame:
    """The summary as an event."""
    return Frame(
        kind="event",
        type=BootSummary.message_type,
        data=Raw(msgspec.json.encode(summary)),
        metadata=Metadata(ids(), ids.last_ms),
    )


def said_of(error: Exception) -> str:
    """What went wrong, with what it came from if that says more."""
    cause = error.__cause__
    more = (
        f" ({describe_exception(cause)})"
        if cause is not None and safe_str(cause) not in safe_str(error)
        else ""
    )
    return f"{safe_str(error)}{more}"
