"""What the runtime tells of itself: one closed set of events, each a frozen record.

They are told where they happen, on the loop's own thread, to whoever listens to `Loop.events`. They hold what there was (a letter,
an id, a name), so that whoever hears of one can act on it; an id in one may be stale already. They are counted whether or not
anybody listens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bandstand.core.hot.ids import ActorId
    from bandstand.core.vocabulary import Lane

__all__ = (
    "DeadLetter",
    "Dropped",
    "Escalated",
    "EventCounts",
    "Lagged",
    "Restarted",
    "RuntimeEvent",
    "Stalled",
    "Unhandled",
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An accepted message was not handled: its actor ended first, or a pool or a stash has given it up.

    A signal of the system that finds nobody, a `Down` for one, is none: nobody has lost anything by it.
    """

    target: ActorId
    """Whose it was; stale already."""
    lane: Lane
    data: object
    """The message as it was sent: of a typed actor, its arguments."""
    what: str
    """For people: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Unhandled:
    """A message reached an actor that has no method for it, or none in its present state."""

    actor: ActorId
    name: str | None
    data: object
    what: str
    """For people: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message was given up by the overflow policy of a full mailbox.

    Told of each, but for those that other threads send faster than the loop takes them in: those are only counted.
    """

    target: ActorId
    lane: Lane
    data: object
    what: str
    """For people: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A supervisor has started a child again."""

    supervisor: ActorId
    child: ActorId
    """The new incarnation."""
    attempt: int
    """Counted from 1."""


@dataclass(frozen=True, slots=True)
class Escalated:
    """A supervisor has given up."""

    supervisor: ActorId


@dataclass(frozen=True, slots=True)
class Lagged:
    """A subscriber was too slow, and has missed something: told when it begins to, and then at most once a second."""

    source: str
    """What it is subscribed to: a topic's or a group's name."""
    subscriber: str
    """Who: for people."""
    missed: int
    """How many it has missed since it was last told."""
    is_cut_off: bool
    """Whether its subscription has ended by that."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """An actor has blocked the loop's thread with one message for longer than `LoopConfig.stall_ms`.

    The watchdog says so in the log while it lasts, from a thread of its own; this is told afterwards, once, on the loop's own.
    """

    actor: ActorId
    name: str | None
    what: str
    """For people: the type of the message, or the method."""
    ms: float
    """The threshold that it has passed."""


RuntimeEvent: TypeAlias = DeadLetter | Dropped | Escalated | Lagged | Restarted | Stalled | Unhandled
"""Whatever the runtime tells of itself."""


@dataclass(frozen=True, slots=True)
class EventCounts:
    """How often each event has happened since the loop was made. `loop.events.counts()` makes one."""

    dead_letters: int
    """`DeadLetter`. Of the loop's own, these are `Statistics.dead` without the signals of the system."""
    unhandled: int
    """`Unhandled`."""
    dropped: int
    """`Dropped`, and what other threads sent too fast. `Statistics.dropped` without events of descriptors that are not watched any more."""
    restarts: int
    """`Restarted`."""
    escalations: int
    """`Escalated`."""
    lagged: int
    """`Lagged`: how often it was told, not how much was missed."""
    stalls: int
    """`Stalled`."""
    untold: int
    """Those of all these that listeners were not told of, because they have caused too many themselves. 0, or something is wrong with one."""
