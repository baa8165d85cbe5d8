"""A subscription: sends the events of a topic to one method of an actor.

At most one event of a subscription is in the actor's mailbox or being handled; the others wait in the subscription's own queue. So a topic
never fills a mailbox, an event that has not started can still be replaced by a newer one, and a slow subscriber delays only itself. A
delivery callback in the sender's place reports when the actor has handled an event, and the next is sent from there, which costs no turn of
the loop. If the lane is full of other messages, the event waits for room with the other waiting senders.

Sending several events at once was refused: what is in a mailbox cannot be taken back, so the policies would not apply to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from bandstand.actor.handle import post_or_wait, wrapped
from bandstand.actor.handle_watch import HandleWatch
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ActorId, DeadLetter, Lagged, Lane
from bandstand.core.enums import NO_ACTOR
from bandstand.errors.formatting import safe_repr
from bandstand.topic.backlog import Backlog, Lag, PutResult

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem, Tell
    from bandstand.topic.backlog import Policy

__all__ = ("TopicSubscription",)

T = TypeVar("T")


@final
class EventDelivery(ReplyCallback):
    """The delivery callback of one event: reports once what became of it."""

    __slots__ = ("_subscription",)

    def __init__(self, actor: ActorId, subscription: TopicSubscription[Any]) -> None:
        super().__init__(actor)
        self._subscription: TopicSubscription[Any] | None = subscription

    def answer(self, value: object) -> None:  # noqa: ARG002  # a one-way method has no answer
        """The actor has handled the event."""
        self._report("handled")

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # known already
        name: str | None,  # noqa: ARG002  # same
        reason: int,  # noqa: ARG002  # every reason counts alike
        cause: BaseException | None,  # noqa: ARG002  # same
    ) -> None:
        """The actor ended before it had handled the event."""
        self._report("lost")

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # same
        """The mailbox dropped the event."""
        self._report("missed")

    def _report(self, what: str) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.settle(what)


@final
class TopicSubscription(Generic[T]):
    """An actor's subscription to a topic: cancel it, or read its counters. Loop thread only.

    Unless it was cancelled, the events published during its life are `handled + missed + lost + waiting`.
    """

    __slots__ = (
        "_backlog",
        "_bind",
        "_delivery",
        "_handled",
        "_held",
        "_is_closing",
        "_is_ended",
        "_is_pumping",
        "_lag",
        "_loop",
        "_lost",
        "_method",
        "_on_end",
        "_presence",
        "_room",
        "_topic",
    )

    def __init__(
        self,
        loop: ActorSystem,
        source: str,
        method: Tell[...],
        policy: Policy,
        room: int,
        key: Callable[[T], Hashable] | None,
        on_lag: Tell[[Lagged]] | None,
        on_end: Callable[[TopicSubscription[T]], object],
    ) -> None:
        handle, self._method, self._bind = (
            method.handle,
            method.handle_method.method,
            method.handle_method.binder,
        )
        self._loop = loop
        self._topic = safe_repr(source)
        self._room = room
        # Each event with the message that will be posted for it.
        self._backlog: Backlog[T, tuple[T, object]] = Backlog(policy, key)
        # The delivery of the event that is in the mailbox or being handled.
        self._delivery: EventDelivery | None = None
        # An event that an ending actor did not accept: the next incarnation gets it first.
        self._held: tuple[T, object] | None = None
        self._handled = 0
        self._lost = 0
        self._is_pumping = False
        self._is_closing = False
        self._is_ended = False
        self._on_end = on_end
        self._lag = Lag(loop, source, f"{safe_repr(handle)}.{self._method.name}", on_lag)
        self._presence = HandleWatch(loop, handle, self._subscriber_gone, self._pump)

    # -- for its owner -------------------------------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """End the subscription; return False if it had ended. Events that wait are dropped; one that was sent is still handled."""
        self._loop.kernel.check_thread()
        if self._is_ended:
            return False
        self._clear()
        self._end()
        return True

    @property
    def is_active(self) -> bool:
        """Whether the subscription has not ended: by `cancel`, with its topic or its subscriber, or by being cut off."""
        return not self._is_ended

    @property
    def handled(self) -> int:
        """How many events the subscriber has handled."""
        return self._handled

    @property
    def missed(self) -> int:
        """How many events the subscriber will not get because there was no room for them."""
        return self._lag.missed

    @property
    def lost(self) -> int:
        """How many events were taken but not handled because the subscriber ended."""
        return self._lost

    @property
    def waiting(self) -> int:
        """How many events were taken and are not handled yet: at most `room`."""
        return len(self._backlog) + self._in_delivery()

    def __repr__(self) -> str:
        state = "" if self.is_active else "ended, "
        return f"<subscription of {self._presence.handle!r} to {self._topic}: {state}{self.waiting} waiting, {self.missed} missed>"

    # -- for the topic -------------------------------------------------------------------------------------------------------

    def offer(self, event: T) -> bool:
        """Queue an event or apply the policy; return whether the event was taken. It does not raise."""
        if self._is_ended or self._is_closing:
            return False
        try:
            stored = (event, wrapped(self._presence.handle, self._method, self._bind(None, event)))
            result = self._backlog.put(event, stored, self._room - self._in_delivery())
        except Exception as error:  # noqa: BLE001  # an error in `key` or in packing affects this subscriber only
            self._lag.log_error(error)
            result = PutResult.REFUSED
        if result is PutResult.CUT_OFF:
            self._lag.add(1 + len(self._clear()))
            self._end(is_cut_off=True)
            return False
        if result is not PutResult.TAKEN:
            self._lag.miss()
        self._pump()
        return result is not PutResult.REFUSED

    def close(self) -> None:
        """Take no more events, and end when those that wait are handled."""
        self._is_closing = True
        self._pump()

    def _pump(self) -> None:
        """Send the next event if none is being delivered and the subscriber accepts messages."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._delivery is None and (self._held is not None or self._backlog):
                actor = self._presence.actor
                if actor is None:
                    return
                stored = self._backlog.take() if self._held is None else self._held
                self._held = None
                delivery = self._delivery = EventDelivery(actor, self)
                if post_or_wait(actor, self._method, stored[1], delivery) == NO_ACTOR:
                    # The actor is ending; a next incarnation may follow.
                    self._delivery = None
                    self._held = stored
                    return
        finally:
            self._is_pumping = False
        if self._is_closing and self._delivery is None and not self._is_ended:
            self._end()

    def _in_delivery(self) -> int:
        """How many events are out of the backlog but not handled yet."""
        return (self._delivery is not None) + (self._held is not None)

    def _clear(self) -> list[tuple[T, object]]:
        """Remove and return the events that were not sent."""
        held, self._held = self._held, None
        return ([] if held is None else [held]) + self._backlog.clear()

    def settle(self, what: str) -> None:
        """Count the outcome of the event that was being delivered, and send the next."""
        self._delivery = None
        if what == "handled":
            self._handled += 1
        elif what == "lost" or self._is_ended:
            self._lost += 1
        else:
            self._lag.miss()
        if not self._is_ended:
            self._pump()

    def _subscriber_gone(self) -> None:
        """The subscriber has ended for good: events that wait become dead letters."""
        letters = self._clear()
        self._lost += len(letters)
        self._end()
        handle = self._presence.handle
        for event, _message in letters:
            what = f"{self._method.owner}.{self._method.name}() of {self._topic}"
            self._loop.events.tell(DeadLetter(handle.__actor_id__(), Lane(self._method.lane), event, what))

    def _end(self, *, is_cut_off: bool = False) -> None:
        self._is_ended = True
        self._presence.cancel()
        self._on_end(self)
        self._lag.end(is_cut_off=is_cut_off)
