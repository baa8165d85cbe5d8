"""Runtime events: what a loop reports about its actors, to listeners, to the log and to an observer.

Each event is a frozen record. The loop publishes it on its own thread, where it happens. An event contains the objects it is about (a message, an
id, a name), so that a listener can act on them; an id may be stale already. Events are counted whether or not there are listeners.

The kernel counts dead letters, drops, restarts and escalations itself, so that an ordinary message pays nothing for events. Its hooks are
installed only while there are listeners. All other events are published here by the packages above. `RuntimeEvents` knows the sum of both.

A listener runs in the middle of the loop's work. Its exceptions are logged and go no further. It may itself cause events: those are
delivered after the current one, in order, so that nothing recurses. After a number of them the loop continues its work, and delivers
the rest in the next tick. The number of waiting events is bounded too; the excess is counted as `untold` and logged.

Refused: events as messages to an actor, which would cost an actor per loop and could find a full mailbox; events from other threads, which
would make every listener a multi-threaded program. A stall is seen by another thread, and published afterwards on the loop's thread.

An `Observer` is called directly, without a record, and also for each start and exit. A hook that is not overridden is not called and costs
nothing. An exception in a hook is logged and does not affect the loop. Hooks run on the loop's thread, at the moment of the event, and
should be fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias, final

from bandstand.core.enums import Lane
from bandstand.core.logs import CrashLimiter, RateLimitedLog
from bandstand.errors import InvalidArgumentError, LoopClosedError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.core.config import Clock
    from bandstand.core.enums import ExitReason
    from bandstand.core.ids import ActorId
    from bandstand.core.kernel import Kernel
    from bandstand.core.logs import SafeLogger

__all__ = (
    "DeadLetter",
    "Dropped",
    "Escalated",
    "EventCounts",
    "EventSubscription",
    "Lagged",
    "Listener",
    "Observer",
    "Restarted",
    "RuntimeEvent",
    "RuntimeEvents",
    "Stalled",
    "Unhandled",
)

# How many events caused by listeners are delivered at once before the loop continues its work.
MAX_IN_A_ROW = 64
# How many events may wait for delivery.
MAX_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An accepted message was not handled: its actor exited first, or a pool or a stash gave it up.

    A system message, such as a `Down`, to an actor that has exited is not a dead letter.
    """

    target: ActorId
    """The actor it was sent to; the id is stale already."""
    lane: Lane
    data: object
    """The message as it was sent; for a typed actor, the arguments."""
    what: str
    """A description: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Unhandled:
    """A message reached an actor that has no method for it, or none in its current state."""

    actor: ActorId
    name: str | None
    data: object
    what: str
    """A description: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The overflow policy of a full mailbox dropped a message.

    Messages that other threads send faster than the loop accepts them are only counted, without an event.
    """

    target: ActorId
    lane: Lane
    data: object
    what: str
    """A description: the method, or the type of a raw message."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A supervisor has restarted a child."""

    supervisor: ActorId
    child: ActorId
    """The new incarnation."""
    attempt: int
    """Counted from 1."""


@dataclass(frozen=True, slots=True)
class Escalated:
    """A supervisor has exceeded its restart limit and has stopped."""

    supervisor: ActorId


@dataclass(frozen=True, slots=True)
class Lagged:
    """A subscriber was too slow and missed messages: reported at the first one, and then at most once per second."""

    source: str
    """The name of the topic or group that it is subscribed to."""
    subscriber: str
    """A description of the subscriber."""
    missed: int
    """How many messages it missed since the last report."""
    is_cut_off: bool
    """Whether its subscription ended because of that."""


@dataclass(frozen=True, slots=True)
class Stalled:
    """An actor has blocked the loop's thread with one message for longer than `LoopConfig.stall_timeout`.

    The watchdog logs it from its own thread while it lasts; this event follows on the loop's thread when it is over.
    """

    actor: ActorId
    name: str | None
    what: str
    """A description: the method, or the type of a raw message."""
    timeout: float
    """The threshold that was exceeded, in seconds."""


RuntimeEvent: TypeAlias = DeadLetter | Dropped | Escalated | Lagged | Restarted | Stalled | Unhandled
"""Any event of the runtime."""


@dataclass(frozen=True, slots=True)
class EventCounts:
    """How often each event has happened since the loop was made. Returned by `loop.events.counts()`."""

    dead_letters: int
    """`DeadLetter`. The loop's own ones are `Statistics.dead` without system messages."""
    unhandled: int
    """`Unhandled`."""
    dropped: int
    """`Dropped`, and messages that other threads sent too fast. `Statistics.dropped` without events of descriptors that are no longer watched."""
    restarts: int
    """`Restarted`."""
    escalations: int
    """`Escalated`."""
    lagged: int
    """`Lagged`: the number of reports, not of missed messages."""
    stalls: int
    """`Stalled`."""
    untold: int
    """Events that were not delivered because listeners caused too many. Above 0 it shows a defective listener."""


Listener: TypeAlias = Callable[[RuntimeEvent], object]
"""A function that is called with each event."""


@final
class EventLogger:
    """Logs the events of one loop: one line per kind, at most once per second, and the rest at the end.

    Restarts and escalations are not included: supervisors log each of them with its cause. Stalls are logged by the watchdog.
    """

    __slots__ = (
        "_dead",
        "_dropped",
        "_lagged",
        "_last_lagged",
        "_is_behind",
        "_unhandled",
        "_unlogged",
        "_untold",
        "_last_unhandled",
        "crashes",
        "lagged",
        "unhandled",
        "untold",
    )

    def __init__(self, logger: SafeLogger, clock: Clock) -> None:
        self.unhandled = 0
        self.lagged = 0
        self.untold = 0
        """Events that were counted but not delivered to listeners."""
        self.crashes = CrashLimiter(clock)
        """Decides which crashes get a line of their own."""
        # Whether one of these counts is not logged yet; and the description of the latest event.
        self._is_behind = False
        self._last_unhandled = ""
        self._last_lagged = ""
        self._dead = RateLimitedLog(
            logger,
            clock,
            "%d dead letters (%d in all): messages whose actors exited before they handled them",
        )
        self._dropped = RateLimitedLog(
            logger, clock, "%d messages dropped (%d in all) by the overflow policy of a full mailbox"
        )
        self._unhandled = RateLimitedLog(
            logger,
            clock,
            "%d messages (%d in all) for which their actors have no method, or not in their state; %s",
        )
        self._lagged = RateLimitedLog(logger, clock, "%d times (%d in all) a subscriber was too slow; %s")
        self._untold = RateLimitedLog(
            logger,
            clock,
            "%d events (%d in all) were counted but not delivered: listeners cause too many events",
        )

        self._unlogged = RateLimitedLog(
            logger,
            clock,
            "%d crashes (%d in all) were not logged: earlier ones of the same kind were",
        )

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """Return how to log a crash, as `CrashLimiter.admit` does."""
        count = self.crashes.admit(place, error)
        self._is_behind = self._is_behind or count == 0
        return count

    def record(self, event: RuntimeEvent) -> None:
        """Count an event, if its kind is logged here."""
        if isinstance(event, Unhandled):
            self.unhandled += 1
            self._last_unhandled = f"the last: {event.what}, for {event.actor!r} {event.name or '(unnamed)'}"
            self._is_behind = True
        elif isinstance(event, Lagged):
            self.lagged += 1
            end = " and was unsubscribed" if event.is_cut_off else ""
            self._last_lagged = f"the last: {event.subscriber} missed {event.missed} of {event.source}{end}"
            self._is_behind = True

    def record_untold(self, count: int) -> None:
        """Count events that will not be delivered."""
        self.untold += count
        self._is_behind = self._is_behind or count > 0

    def update(self, dead: int, dropped: int, *, force: bool = False) -> bool:
        """Log the counts that have grown and are due; all that have grown if `force`. Return whether the log is up to date."""
        is_current = self._dead.update(dead, force=force)
        is_current = self._dropped.update(dropped, force=force) and is_current
        if self._is_behind:
            are_current = (
                self._unhandled.update(self.unhandled, self._last_unhandled, force=force),
                self._lagged.update(self.lagged, self._last_lagged, force=force),
                self._untold.update(self.untold, force=force),
                self._unlogged.update(self.crashes.unlogged, force=force),
            )
            self._is_behind = not all(are_current)
        return is_current and not self._is_behind


@final
class EventSubscription:
    """The subscription of one listener, returned by `RuntimeEvents.listen`."""

    __slots__ = ("_events", "listener")

    def __init__(self, events: RuntimeEvents, listener: Listener) -> None:
        self._events = events
        self.listener: Listener | None = listener
        """None after the subscription has ended."""

    def cancel(self) -> bool:
        """End the subscription; events that wait for delivery are not delivered to it either.

        Returns:
            False if the subscription had ended already.

        Raises:
            WrongThreadError: called off the loop's thread.
        """
        return self._events.unsubscribe(self)


@final
class RuntimeEvents:
    """The events of one loop: `loop.events`. All methods raise `WrongThreadError` off the loop's thread."""

    __slots__ = (
        "_counts",
        "_is_closed",
        "_is_delivering",
        "_is_scheduled",
        "_logger",
        "_kernel",
        "_subscriptions",
        "_waiting",
    )

    def __init__(self, kernel: Kernel, logger: SafeLogger, clock: Clock) -> None:
        self._kernel = kernel
        self._subscriptions: tuple[EventSubscription, ...] = ()
        # The events published by `tell`; the kernel counts its own.
        self._counts: dict[type, int] = dict.fromkeys(
            (DeadLetter, Dropped, Escalated, Lagged, Restarted, Stalled, Unhandled), 0
        )
        # Events to deliver, each with the subscriptions at the time it happened.
        self._waiting: deque[tuple[RuntimeEvent, tuple[EventSubscription, ...]]] = deque()
        self._is_delivering = False
        # Whether a call is scheduled that delivers the rest.
        self._is_scheduled = False
        self._is_closed = False
        self._logger = EventLogger(logger, clock)

    # -- for programs ------------------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> EventSubscription:
        """Call `listener(event)` for each event from now on: on the loop's thread, at the moment of the event. It should be fast.

        There are two exceptions: an event that a listener causes is delivered after the current one, at the latest in a later tick, and a
        stall is reported when it is over. Exceptions of a listener are logged. Listeners are called in the order of their
        subscription; one that subscribes during an event gets the next.

        Raises:
            InvalidArgumentError: the listener is not callable, or is a coroutine function.
            LoopClosedError: the loop has ended.
            WrongThreadError: called off the loop's thread.
        """
        self._kernel.check_thread()
        is_callable = callable(listener)  # callers without types
        if not is_callable or iscoroutinefunction(listener):
            raise InvalidArgumentError(
                f"listener is {safe_repr(listener)}: pass a plain function of one event; to await something, send a message to an actor"
            )
        if self._is_closed:
            raise LoopClosedError("the loop has ended: there are no events any more")
        subscription = EventSubscription(self, listener)
        self._subscriptions = (*self._subscriptions, subscription)
        if len(self._subscriptions) == 1:
            self._kernel.reporter.install_hooks()
        return subscription

    def tell(self, event: RuntimeEvent) -> None:
        """Publish an event: count it, log it and deliver it to the listeners.

        Raises:
            InvalidArgumentError: it is not an event of the runtime.
            WrongThreadError: called off the loop's thread.
        """
        self._kernel.check_thread()
        kind = type(event)
        if kind not in self._counts:
            raise InvalidArgumentError(
                f"event is {safe_repr(event)}: pass one of {', '.join(sorted(map(_name, self._counts)))}"
            )
        self._counts[kind] += 1
        self._logger.record(event)
        self._kernel.reported = -1
        self._publish(event)

    def counts(self) -> EventCounts:
        """Return how often each event has happened since the loop was made, with or without listeners.

        Raises:
            WrongThreadError: called off the loop's thread.
        """
        kernel = self._kernel
        kernel.check_thread()
        counters = kernel.counters
        counts = self._counts
        return EventCounts(
            dead_letters=counters.dead - counters.dead_system + counts[DeadLetter],
            unhandled=counts[Unhandled],
            dropped=counters.dropped - counters.dropped_system + counts[Dropped],
            restarts=kernel.restarts + counts[Restarted],
            escalations=kernel.escalations + counts[Escalated],
            lagged=counts[Lagged],
            stalls=counts[Stalled],
            untold=self._logger.untold,
        )

    # -- for the loop ------------------------------------------------------------------------------------------------------

    def hooks(self) -> dict[str, Callable[..., object]]:
        """Return the hooks for the kernel, by the names of `Observer`; none without listeners."""
        if not self._subscriptions:
            return {}
        return {
            "on_dead_letter": self._on_dead_letter,
            "on_dropped": self._on_dropped,
            "on_actor_restart": self._on_restart,
            "on_supervisor_escalate": self._on_escalation,
        }

    def admit_crash(self, place: str, error: BaseException | None) -> int:
        """Return how to log a crash, as `CrashLimiter.admit` does."""
        count = self._logger.admit_crash(place, error)
        if count == 0:
            self._kernel.reported = -1
        return count

    def update_log(self, dead: int, dropped: int, *, force: bool = False) -> bool:
        """Log the events that are due: each kind at most once per second, or all of them if `force`.

        Args:
            dead: the dead letters that the kernel has counted.
            dropped: the dropped messages that the kernel has counted.
            force: log all, because the loop ends.

        Returns:
            True if the log is up to date.
        """
        counts = self._counts
        return self._logger.update(dead + counts[DeadLetter], dropped + counts[Dropped], force=force)

    def close(self) -> None:
        """Deliver the events that wait, and end all subscriptions: the loop ends."""
        self._deliver(len(self._waiting))
        self._logger.record_untold(len(self._waiting))
        self._waiting.clear()
        for subscription in self._subscriptions:
            subscription.listener = None
        self._subscriptions = ()
        self._is_closed = True

    def _on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object
    ) -> None:
        # No one loses anything by a system message to an actor that has exited.
        if lane is not Lane.SYSTEM:
            self._publish(DeadLetter(target, lane, data, self._kernel.reporter.describe(data, tag)))

    def _on_dropped(self, target: ActorId, lane: Lane, data: object, tag: object, _sender: object) -> None:
        self._publish(Dropped(target, lane, data, self._kernel.reporter.describe(data, tag)))

    def _on_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        self._publish(Restarted(supervisor, child, attempt))

    def _on_escalation(self, supervisor: ActorId) -> None:
        self._publish(Escalated(supervisor))

    def _publish(self, event: RuntimeEvent) -> None:
        """Deliver an event, after those that wait already."""
        if not self._subscriptions:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._logger.record_untold(1)
            self._kernel.reported = -1
            return
        self._waiting.append((event, self._subscriptions))
        if not self._is_delivering:
            self._deliver(MAX_IN_A_ROW)

    def _deliver(self, most: int) -> None:
        """Deliver up to `most` of the events that wait, and schedule the rest for the next tick."""
        waiting = self._waiting
        self._is_delivering = True
        try:
            while waiting and most > 0:
                most -= 1
                event, subscriptions = waiting.popleft()
                for subscription in subscriptions:
                    listener = subscription.listener
                    if listener is not None:
                        self._call(listener, event)
        finally:
            self._is_delivering = False
        if waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._kernel.inbox.call_soon(self._deliver_rest)

    def _call(self, listener: Listener, event: RuntimeEvent) -> None:
        try:
            listener(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # a listener must not affect the loop
            self._kernel.reporter.error(
                f"a listener of the loop's events raised for {type(event).__name__}", error
            )

    def _deliver_rest(self) -> None:
        self._is_scheduled = False
        if not self._is_delivering:
            self._deliver(MAX_IN_A_ROW)

    def unsubscribe(self, subscription: EventSubscription) -> bool:
        """End a subscription; return False if it had ended already."""
        self._kernel.check_thread()
        if subscription.listener is None:
            return False
        subscription.listener = None
        self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
        if not self._subscriptions:
            self._kernel.reporter.install_hooks()
        return True


def _name(kind: type) -> str:
    return kind.__name__


# -- observers -------------------------------------------------------------------------------------------------------


class Observer:
    """Derive from this class and override the hooks you need. Any object with methods of these names works as well."""

    def on_actor_start(self, id: ActorId, name: str | None) -> None:
        """An actor was spawned; its status is still `INIT`."""

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:
        """An actor has exited. Its id is stale already."""

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """A supervisor has restarted a child; `attempt` counts from 1."""

    def on_supervisor_escalate(self, supervisor: ActorId) -> None:
        """A supervisor has escalated: it has exceeded its restart limit."""

    def on_mailbox_full(self, target: ActorId) -> None:
        """A message was rejected because the target's lane is full, or for a system message its whole mailbox.

        Not called for a rejected `send_async`, which raises on its own thread.
        """

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        """An accepted message was not handled because its actor exited first."""

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        """The overflow policy of the target dropped a message."""


HOOKS = tuple(name for name in vars(Observer) if name.startswith("on_"))


def hooks_of(observer: object) -> dict[str, Callable[..., Any] | None]:
    """Return the hooks of an observer by name; None for those it does not override.

    Raises:
        InvalidArgumentError: the observer has no hook, or an `on_` method that is not a hook, most likely a misspelling.
    """
    unknown = [name for name in dir(observer) if name.startswith("on_") and name not in HOOKS]
    if unknown:
        raise InvalidArgumentError(
            f"the observer has {', '.join(unknown)}, which is never called: the hooks are {', '.join(HOOKS)}"
        )
    hooks = {name: _own(observer, name) for name in HOOKS}
    if not isinstance(observer, Observer) and not any(hooks.values()):
        raise InvalidArgumentError(
            f"{safe_repr(observer)} is not an observer: it has none of {', '.join(HOOKS)}"
        )
    return hooks


def _own(observer: object, name: str) -> Callable[..., Any] | None:
    hook = getattr(observer, name, None)
    if getattr(hook, "__func__", None) is vars(Observer)[name]:
        return None
    if hook is not None and not callable(hook):
        raise InvalidArgumentError(f"the observer's {name} is {safe_repr(hook)}: pass a method")
    return hook


def merge_hooks(
    first: Mapping[str, Callable[..., Any] | None], second: Mapping[str, Callable[..., Any] | None]
) -> dict[str, Callable[..., Any] | None]:
    """Combine two sets of hooks: where both have one, both are called, the first one first. The first must not raise."""
    hooks = dict(second)
    for name, hook in first.items():
        other = hooks.get(name)
        hooks[name] = hook if other is None or hook is None else _in_turn(hook, other)
    return hooks


def _in_turn(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(second)
    def both(*arguments: object) -> None:
        first(*arguments)
        second(*arguments)

    return both
