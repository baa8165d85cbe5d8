"""What the runtime tells of itself: one closed set of events, each a frozen record.

They are told where they happen, on the loop's own thread, to whoever listens to `Loop.events`. They hold what there was (a letter,
an id, a name), so that whoever hears of one can act on it; an id in one may be stale already. They are counted whether or not
anybody listens.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.enums import Lane
from bandstand.core.logs import CrashLimiter, RateLimitedLog
from bandstand.errors import InvalidArgument, LoopClosed
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.clock import Clock
    from bandstand.core.ids import ActorId
    from bandstand.core.logs import SafeLogger
    from bandstand.core.loop import Loop

__all__ = (
    "DeadLetter",
    "Dropped",
    "Escalated",
    "EventCounts",
    "EventSubscription",
    "Lagged",
    "Listener",
    "Restarted",
    "RuntimeEvent",
    "RuntimeEvents",
    "Stalled",
    "Unhandled",
)

# How many events that listeners have caused are told in one go, before the loop goes on with its work.
MAX_IN_A_ROW = 64
# How many may wait to be told.
MAX_WAITING = 10_000


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


Listener: TypeAlias = Callable[[RuntimeEvent], object]
"""What is called with each event."""


@final
class EventLogger:
    """The lines of one loop."""

    __slots__ = (
        "_dead",
        "_dropped",
        "_lagged",
        "_missed",
        "_owes",
        "_unhandled",
        "_unlogged",
        "_untold",
        "_what",
        "crashes",
        "lagged",
        "unhandled",
        "untold",
    )

    def __init__(self, logger: SafeLogger, clock: Clock) -> None:
        self.unhandled = 0
        self.lagged = 0
        self.untold = 0
        """Events that were counted and not told to those who listen."""
        self.crashes = CrashLimiter(clock)
        """Which crashes have a line of their own."""
        # Whether one of those has a line to come; and what to say of the latest.
        self._owes = False
        self._what = ""
        self._missed = ""
        self._dead = RateLimitedLog(
            logger, clock, "%d dead letters (%d in all): messages whose actors ended before they were handled"
        )
        self._dropped = RateLimitedLog(
            logger, clock, "%d messages dropped (%d in all) by the overflow policy of a full mailbox"
        )
        self._unhandled = RateLimitedLog(
            logger, clock, "%d messages (%d in all) that their actors have no method for, or not now; %s"
        )
        self._lagged = RateLimitedLog(logger, clock, "%d times (%d in all) a subscriber was too slow; %s")
        self._untold = RateLimitedLog(
            logger, clock, "%d events (%d in all) were counted, but not told: those who listen cause too many"
        )

        self._unlogged = RateLimitedLog(
            logger,
            clock,
            "%d crashes (%d in all) have no line of their own: they are like others that were logged",
        )

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """How a crash is to be logged, as `CrashLimiter.admit` says."""
        count = self.crashes.admit(place, error)
        self._owes = self._owes or count == 0
        return count

    def note(self, event: RuntimeEvent) -> None:
        """Something was told: have it mentioned, if it is of a kind that has its line here."""
        if isinstance(event, Unhandled):
            self.unhandled += 1
            self._what = f"the last: {event.what}, for {event.actor!r} {event.name or '(unnamed)'}"
            self._owes = True
        elif isinstance(event, Lagged):
            self.lagged += 1
            end = ", and is cut off" if event.is_cut_off else ""
            self._missed = f"the last: {event.subscriber} has missed {event.missed} of {event.source}{end}"
            self._owes = True

    def give_up(self, count: int) -> None:
        """So many events will not be told."""
        self.untold += count
        self._owes = self._owes or count > 0

    def speak(self, dead: int, dropped: int, *, is_last: bool = False) -> bool:
        """Say what is due; with `is_last`, all that was not said. Whether nothing is left to say."""
        is_all = self._dead.speak(dead, is_last=is_last)
        is_all = self._dropped.speak(dropped, is_last=is_last) and is_all
        if self._owes:
            are_said = (
                self._unhandled.speak(self.unhandled, self._what, is_last=is_last),
                self._lagged.speak(self.lagged, self._missed, is_last=is_last),
                self._untold.speak(self.untold, is_last=is_last),
                self._unlogged.speak(self.crashes.unlogged, is_last=is_last),
            )
            self._owes = not all(are_said)
        return is_all and not self._owes


@final
class EventSubscription:
    """That somebody listens. Keep it to end it."""

    __slots__ = ("_hear", "_newsroom")

    def __init__(self, newsroom: RuntimeEvents, listener: Listener) -> None:
        self._newsroom = newsroom
        self._hear: Listener | None = listener

    def cancel(self) -> bool:
        """Listen no more, not even to what has happened already and waits to be told; False if it was over already.

        Raises:
            WrongThread: called off the loop's thread.
        """
        return self._newsroom._forget(self)  # noqa: SLF001  # one mechanism


@final
class RuntimeEvents:
    """The events of one loop: `loop.events`. Everything belongs on the loop's own thread, and raises `WrongThread` elsewhere."""

    __slots__ = (
        "_bulletin",
        "_is_closed",
        "_is_due",
        "_is_telling",
        "_listenings",
        "_loop",
        "_told",
        "_waiting",
    )

    def __init__(self, loop: Loop, logger: SafeLogger, clock: Clock) -> None:
        self._loop = loop
        self._listenings: tuple[EventSubscription, ...] = ()
        # What was told by others than the kernel, which counts for itself.
        self._told: dict[type, int] = dict.fromkeys(
            (DeadLetter, Dropped, Escalated, Lagged, Restarted, Stalled, Unhandled), 0
        )
        # What has happened, and to whom it is to be told: those who listened then.
        self._waiting: deque[tuple[RuntimeEvent, tuple[EventSubscription, ...]]] = deque()
        self._is_telling = False
        self._is_due = False
        self._is_closed = False
        self._bulletin = EventLogger(logger, clock)

    # -- what a program uses -----------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> EventSubscription:
        """Have `listener(event)` called for each event from now on: on the loop's thread, inside what it tells of, and quickly.

        Two exceptions. What a listener causes itself is told after the event at hand, at the latest at a later tick. A stall is
        told when it is over. What it raises is logged. Several are called in the order they came; one that comes while an
        event is being told hears the next.

        Raises:
            InvalidArgument: it cannot be called, or is a coroutine function, which nobody would await.
            LoopClosed: the loop has ended.
            WrongThread: called off the loop's thread.
        """
        self._loop._check_thread()  # noqa: SLF001
        is_callable = callable(listener)  # callers without types
        if not is_callable or iscoroutinefunction(listener):
            raise InvalidArgument(
                f"listener is {safe_repr(listener)}: pass a plain function of one event; to await something, have it send to an actor"
            )
        if self._is_closed:
            raise LoopClosed("the loop has ended: it tells of nothing any more")
        listening = EventSubscription(self, listener)
        self._listenings = (*self._listenings, listening)
        if len(self._listenings) == 1:
            self._loop._wire()  # noqa: SLF001
        return listening

    def tell(self, event: RuntimeEvent) -> None:
        """Something has happened: count it, tell whoever listens, and see that the log has a line. It raises nothing else.

        Raises:
            InvalidArgument: it is no event of the runtime.
            WrongThread: called off the loop's thread.
        """
        self._loop._check_thread()  # noqa: SLF001
        kind = type(event)
        if kind not in self._told:
            raise InvalidArgument(
                f"event is {safe_repr(event)}: pass one of {', '.join(sorted(map(_name, self._told)))}"
            )
        self._told[kind] += 1
        self._bulletin.note(event)
        self._loop._mentioned = -1  # noqa: SLF001
        self._publish(event)

    def counts(self) -> EventCounts:
        """How often each has happened since the loop was made, whether or not anybody listened.

        Raises:
            WrongThread: called off the loop's thread.
        """
        loop = self._loop
        loop._check_thread()  # noqa: SLF001
        told = self._told
        return EventCounts(
            dead_letters=loop._dead - loop._dead_system + told[DeadLetter],  # noqa: SLF001
            unhandled=told[Unhandled],
            dropped=loop._dropped - loop._dropped_system + told[Dropped],  # noqa: SLF001
            restarts=loop._restarts + told[Restarted],  # noqa: SLF001
            escalations=loop._escalations + told[Escalated],  # noqa: SLF001
            lagged=told[Lagged],
            stalls=told[Stalled],
            untold=self._bulletin.untold,
        )

    # -- what the loop uses ----------------------------------------------------------------------------------------------

    def hooks(self) -> dict[str, Callable[..., object]]:
        """What the kernel is to call, by the names of `Observer`: nothing while nobody listens."""
        if not self._listenings:
            return {}
        return {
            "on_dead_letter": self._hear_dead_letter,
            "on_dropped": self._hear_dropped,
            "on_actor_restart": self._hear_restart,
            "on_supervisor_escalate": self._hear_escalation,
        }

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """How a crash is to be logged: 1 with its traceback, more in a line, as that many of its kind, and 0 not at all."""
        count = self._bulletin.admit_crash(place, error)
        if count == 0:
            self._loop._mentioned = -1  # noqa: SLF001
        return count

    def speak(self, dead: int, dropped: int, *, is_last: bool = False) -> bool:
        """Say in the log what is due: each kind once a second at most, and all of it at the end; whether nothing is left to say."""
        told = self._told
        return self._bulletin.speak(dead + told[DeadLetter], dropped + told[Dropped], is_last=is_last)

    def close(self) -> None:
        """The loop ends. Whoever listens is told what waits, and then hears no more."""
        self._tell_waiting(len(self._waiting))
        self._bulletin.give_up(len(self._waiting))
        self._waiting.clear()
        for listening in self._listenings:
            listening._hear = None  # noqa: SLF001  # one mechanism
        self._listenings = ()
        self._is_closed = True

    def _hear_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object
    ) -> None:
        # What the system had to say to somebody who has ended is nothing that anybody has lost.
        if lane is not Lane.SYSTEM:
            self._publish(DeadLetter(target, lane, data, self._loop._what(data, tag)))  # noqa: SLF001

    def _hear_dropped(self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object) -> None:
        self._publish(Dropped(target, lane, data, self._loop._what(data, tag)))  # noqa: SLF001

    def _hear_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        self._publish(Restarted(supervisor, child, attempt))

    def _hear_escalation(self, supervisor: ActorId) -> None:
        self._publish(Escalated(supervisor))

    def _publish(self, event: RuntimeEvent) -> None:
        """Tell whoever listens, after what waits already."""
        if not self._listenings:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._bulletin.give_up(1)
            self._loop._mentioned = -1  # noqa: SLF001
            return
        self._waiting.append((event, self._listenings))
        if not self._is_telling:
            self._tell_waiting(MAX_IN_A_ROW)

    def _tell_waiting(self, most: int) -> None:
        """Tell so many of those that wait, and the rest at the next tick."""
        waiting = self._waiting
        self._is_telling = True
        try:
            while waiting and most > 0:
                most -= 1
                event, listenings = waiting.popleft()
                for listening in listenings:
                    hear = listening._hear  # noqa: SLF001  # one mechanism
                    if hear is not None:
                        self._tell_one(hear, event)
        finally:
            self._is_telling = False
        if waiting and not self._is_due:
            self._is_due = True
            self._loop._call_afar(self._go_on)  # noqa: SLF001

    def _tell_one(self, hear: Listener, event: RuntimeEvent) -> None:
        try:
            hear(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # whoever listens never hurts the loop
            self._loop._complain(f"a listener of the loop's events raised at {type(event).__name__}", error)  # noqa: SLF001

    def _go_on(self) -> None:
        self._is_due = False
        if not self._is_telling:
            self._tell_waiting(MAX_IN_A_ROW)

    def _forget(self, listening: EventSubscription) -> bool:
        self._loop._check_thread()  # noqa: SLF001
        if listening._hear is None:  # noqa: SLF001  # one mechanism
            return False
        listening._hear = None  # noqa: SLF001  # same
        self._listenings = tuple(each for each in self._listenings if each is not listening)
        if not self._listenings:
            self._loop._wire()  # noqa: SLF001
        return True


def _name(kind: type) -> str:
    return kind.__name__
