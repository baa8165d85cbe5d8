"""What the runtime itself says: the typed payloads of messages on the SYSTEM lane, and a supervisor's word on a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bandstand.core.enums import ExitReason, Readiness
    from bandstand.core.ids import ActorId

__all__ = ("ChildExit", "ChildStart", "ChildSummary", "Down", "Exit", "IoEvent")


class ChildExit(NamedTuple):
    """A child has ended. Sent once for each exit, with tag `SystemTag.CHILD_EXIT`, to the child's supervisor."""

    child: ActorId
    reason: ExitReason
    cause: BaseException | None


class ChildStart(NamedTuple):
    """A child whose init took its time has started. Sent once, with tag `SystemTag.CHILD_START`, to its supervisor."""

    child: ActorId


class Down(NamedTuple):
    """A monitored actor has ended. Sent once for each monitor, with tag `SystemTag.DOWN`, to the watcher."""

    actor: ActorId
    reason: ExitReason
    cause: BaseException | None


class Exit(NamedTuple):
    """A linked actor has ended. Sent once for each link, with tag `SystemTag.EXIT`, to an actor that traps exits."""

    actor: ActorId
    reason: ExitReason
    cause: BaseException | None


class IoEvent(NamedTuple):
    """A watched descriptor is ready. Sent with tag `SystemTag.IO` to its owner: one readiness, one event."""

    fd: int
    readiness: Readiness


class ChildSummary(NamedTuple):
    """A child as its supervisor knows it: what the tree shows of it, though it may not be running."""

    name: str
    actor: ActorId | None
    """The present incarnation; None while there is none."""
    restarts: int
    """How often it was started again."""
    note: str
    """In a few words, what else there is to know: that it waits for its restart, for example."""
