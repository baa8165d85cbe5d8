"""The payloads of system messages, and what a supervisor reports about a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bandstand.core.enums import ExitReason, Readiness
    from bandstand.core.ids import ActorId

__all__ = ("ChildExit", "ChildStart", "ChildSummary", "Down", "Exit", "IoEvent")


class ChildExit(NamedTuple):
    """A child has exited. Sent once per exit, with tag `SystemTag.CHILD_EXIT`, to the supervisor."""

    child: ActorId
    reason: ExitReason
    cause: BaseException | None


class ChildStart(NamedTuple):
    """A child with an asynchronous init has started. Sent once, with tag `SystemTag.CHILD_START`, to the supervisor."""

    child: ActorId


class Down(NamedTuple):
    """A monitored actor has exited. Sent once per monitor, with tag `SystemTag.DOWN`, to the actor that monitors it."""

    actor: ActorId
    reason: ExitReason
    cause: BaseException | None


class Exit(NamedTuple):
    """A linked actor has exited. Sent once per link, with tag `SystemTag.EXIT`, to an actor that traps exits."""

    actor: ActorId
    reason: ExitReason
    cause: BaseException | None


class IoEvent(NamedTuple):
    """A watched descriptor is ready. Sent once per readiness, with tag `SystemTag.IO`, to the owner of the watch."""

    fd: int
    readiness: Readiness


class ChildSummary(NamedTuple):
    """A child as its supervisor describes it for the tree, whether or not the child is running."""

    name: str
    actor: ActorId | None
    """The current incarnation; None while the child is not running."""
    restarts: int
    """How often the child was restarted."""
    note: str
    """A few words for people, for example that a restart is pending. Often empty."""
