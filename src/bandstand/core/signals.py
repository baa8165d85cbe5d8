"""What the runtime itself says to an actor: the typed payloads of messages on the SYSTEM lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.vocabulary import ExitReason, Readiness

__all__ = ("ChildExit", "Down", "IoEvent")


class ChildExit(NamedTuple):
    """A child has ended. Sent once for each exit, with tag `SystemTag.CHILD_EXIT`, to the child's supervisor."""

    child: ActorId
    reason: ExitReason
    cause: BaseException | None


class Down(NamedTuple):
    """A monitored actor has ended. Sent once for each monitor, with tag `SystemTag.DOWN`, to the watcher."""

    actor: ActorId
    reason: ExitReason
    cause: BaseException | None


class IoEvent(NamedTuple):
    """A watched descriptor is ready. Sent with tag `SystemTag.IO` to its owner: one readiness, one event."""

    fd: int
    readiness: Readiness
