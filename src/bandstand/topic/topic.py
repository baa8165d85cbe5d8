"""A topic: events of one type for its subscribers.

Publishing gives the event to each subscriber, or applies the subscriber's policy, and returns; no handler runs inside. There is no policy
that waits: one slow subscriber would delay the publisher and so all other subscribers. A consumer that must not miss an event reads a
channel (`bandstand.scope`) or is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import signature
from itertools import count
from threading import Lock
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Union, cast, final, get_args, get_origin

from bandstand.actor import Tell
from bandstand.actor.declaration import checked_actor_loop
from bandstand.actor.reply import check_ask_timeout
from bandstand.core import Lagged, RuntimeEvent
from bandstand.errors import (
    ChannelClosedError,
    ChannelTimeoutError,
    InvalidArgumentError,
    LoopBusyError,
    LoopClosedError,
    MailboxFullError,
    TopicClosedError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.scope import Channel
from bandstand.topic.backlog import Policy
from bandstand.topic.stream import Stream
from bandstand.topic.subscription import TopicSubscription

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor import ActorSystem
    from bandstand.core import EventSubscription

__all__ = (
    "RUNTIME_NAME",
    "Receives",
    "Topic",
    "runtime_events",
)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

DEFAULT_ROOM = 64
MAX_ROOM = 1 << 20
DEFAULT_DRAIN_TIMEOUT = 5.0
# How many events may be published while another one is being published.
MAX_NESTED = 1024
# How many events from other threads may wait for the loop's next tick.
MAX_FROM_THREADS = 1024
# The name of the topic of runtime events.
RUNTIME_NAME = "the loop's events"


class Receives(Protocol[T_contra]):
    """A one-way method of a handle that takes one argument: `handle.on_price`. A plain function is not one."""

    def __call__(self, event: T_contra, /) -> None:
        """Send the event."""
        ...

    def try_send(self, event: T_contra, /) -> bool:
        """Send the event if there is room; return whether it was sent."""
        ...


class Topic(Generic[T]):
    """Events of one type for subscribers: `Topic(loop, Price, name="prices")`.

    Only `publish_async` may be called from other threads than the loop's.

    Args:
        loop: the loop of the subscribers.
        kind: the class of the events. Publishing checks it.
        name: a name for errors, events and the log. It need not be unique.

    Raises:
        InvalidArgumentError: an argument is not valid.
        WrongThreadError: called from another thread.
    """

    __slots__ = (
        "__weakref__",
        "_classes",
        "_emptied",
        "_from_threads",
        "_is_closed",
        "_is_publishing",
        "_kind",
        "_loop",
        "_name",
        "_nested",
        "_nested_count",
        "_serials",
        "_subscribers",
    )

    def __init__(self, loop: ActorSystem, kind: type[T], *, name: str) -> None:
        self._loop = checked_actor_loop(loop)
        loop.kernel.check_thread()
        self._classes = checked_classes(kind, name)
        self._kind: object = kind
        self._name = name
        self._subscribers: dict[TopicSubscription[T] | Stream[T], None] = {}
        self._serials = count(1)
        self._is_closed = False
        self._is_publishing = False
        # Events published while another one is being published: those that wait, and how many there were.
        self._nested: deque[T] = deque()
        self._nested_count = 0
        self._from_threads: ThreadInbox[T] = ThreadInbox(loop, f"topic {name!r}", self._publish_from_thread)
        # Closed when the topic is closed and has no subscribers left.
        self._emptied: Channel[None] = Channel()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._name

    @property
    def is_closed(self) -> bool:
        """Whether the topic was closed."""
        return self._is_closed

    @property
    def subscribers(self) -> int:
        """How many subscriptions and streams the topic has."""
        return len(self._subscribers)

    # -- publishing ----------------------------------------------------------------------------------------------------------

    def publish(self, event: T) -> int:
        """Give an event to every subscriber; return how many took it. All subscribers see events in the order of publishing.

        An event that is published during the publishing of another one (by a listener of the loop's events, a tracer, a `key`) follows it;
        the result is then the number of subscribers.

        Raises:
            InvalidArgumentError: the event is of another class.
            TopicClosedError: the topic is closed.
            LoopBusyError: too many events are published during the publishing of another one.
            LoopClosedError, WrongThreadError: the loop is stopping; called from another thread: use `publish_async` there.
        """
        self._loop.kernel.check_open()
        self._check(event)
        return self._publish(event)

    def _publish(self, event: T) -> int:
        if self._is_publishing:
            if self._nested_count >= MAX_NESTED:
                raise LoopBusyError(
                    f"{MAX_NESTED} events were published on topic {self._name!r} during the publishing of another one: check for a "
                    f"listener that publishes an event for each event"
                )
            self._nested_count += 1
            self._nested.append(event)
            return len(self._subscribers)
        self._is_publishing = True
        try:
            taken = self._give(event)
            while self._nested:
                self._give(self._nested.popleft())
        finally:
            self._is_publishing = False
            self._nested_count = 0
        return taken

    def publish_async(self, event: T) -> None:
        """Publish an event at the loop's next tick. Any thread may call this; events of one thread keep their order.

        Handlers see the caller's context variables, as with every message.

        Raises:
            InvalidArgumentError, TopicClosedError, LoopClosedError: as for `publish`.
            MailboxFullError: 1,024 events from other threads wait already.
        """
        self._check(event)
        self._from_threads.send(event)

    def _publish_from_thread(self, event: T) -> None:
        # Both may have ended since the call; then there are no subscribers left.
        if not self._is_closed and not self._loop.kernel.is_closed:
            self.publish(event)

    def _give(self, event: T) -> int:
        return sum([subscriber.offer(event) for subscriber in list(self._subscribers)])

    def _check(self, event: object) -> None:
        if not isinstance(event, self._classes):
            kind = getattr(self._kind, "__qualname__", self._kind)
            raise InvalidArgumentError(
                f"topic {self._name!r} is of {kind}, and {safe_repr(event)} is not one"
            )
        if self._is_closed:
            raise TopicClosedError(f"topic {self._name!r} is closed")

    # -- subscribing ---------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        method: Receives[T],
        *,
        policy: Policy = Policy.DROP_OLDEST,
        room: int = DEFAULT_ROOM,
        key: Callable[[T], Hashable] | None = None,
        on_lag: Receives[Lagged] | None = None,
    ) -> TopicSubscription[T]:
        """Send each event to a one-way method of an actor: `prices.subscribe(handle.on_price)`.

        At any time at most `room` events are taken and not handled, and at most one of them is in the actor's mailbox or being handled. The
        subscription ends with its actor. If the handle is a supervisor's child (`supervised`), the subscription continues with the next
        incarnation, and events wait in its queue meanwhile. Each call makes a new subscription.

        Args:
            method: a one-way method that takes the event; inside an actor, `self.me.on_price`.
            policy: what to do with a new event when the queue is full.
            room: the size of the queue. The event that is being delivered cannot be dropped, so DROP_OLDEST and CONFLATE need at least 2.
            key: with CONFLATE, a function that returns an event's key; None keeps the latest event only.
            on_lag: a one-way method, also of another actor, that gets each `Lagged` which the loop's events get.

        Raises:
            InvalidArgumentError: an argument is not valid.
            NoSuchActorError, ActorNotLocalError: the actor has ended, or lives on another loop.
            TopicClosedError: the topic is closed.
            LoopClosedError, WrongThreadError: the loop is stopping; called from another thread.
        """
        self._loop.kernel.check_open()
        self._refuse_closed()
        tell = checked_tell("method", method)
        lag = None if on_lag is None else checked_tell("on_lag", on_lag)
        needs = 2 if policy in (Policy.DROP_OLDEST, Policy.CONFLATE) else 1
        check_policy(policy, room, key, needs)
        subscription = TopicSubscription[T](
            self._loop, self._name, tell, policy, room, key, lag, self._remove
        )
        self._subscribers[subscription] = None
        return subscription

    def listen(
        self,
        *,
        policy: Policy = Policy.DROP_OLDEST,
        room: int = DEFAULT_ROOM,
        key: Callable[[T], Hashable] | None = None,
        name: str | None = None,
    ) -> Stream[T]:
        """Return the events as a stream for code outside actors: `async with prices.listen() as stream: async for price in stream: ...`.

        Args:
            policy: what to do with a new event when the queue is full.
            room: how many events may wait to be taken.
            key: as for `subscribe`.
            name: a name of the listener for reports.

        Raises:
            InvalidArgumentError: an argument is not valid.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        check_policy(policy, room, key, 1)
        title = f"stream {name or next(self._serials)} of topic {self._name!r}"
        return Stream[T](self._loop, self._name, title, policy, room, key, self._add, self._remove)

    def close(self) -> bool:
        """Close the topic: publishing raises, streams and subscriptions end after the events that they have. Return False if it was closed.

        Raises:
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        if self._is_closed:
            return False
        self._is_closed = True
        for subscriber in list(self._subscribers):
            subscriber.close()
        return True

    async def drain(self, *, timeout: Seconds | None = DEFAULT_DRAIN_TIMEOUT) -> bool:
        """Close the topic and wait until its subscribers have handled what they took. Return whether they did in time.

        Args:
            timeout: how long to wait at most; None waits as long as the loop runs.

        Raises:
            InvalidArgumentError: `timeout` is not a duration.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        check_ask_timeout("timeout", timeout)
        self.close()
        if self._subscribers:
            with suppress(ChannelTimeoutError, ChannelClosedError):
                await self._emptied.receive(timeout=timeout)
        return not self._subscribers

    def _add(self, stream: Stream[T]) -> None:
        self._loop.kernel.check_open()
        self._refuse_closed()
        self._subscribers[stream] = None

    def _remove(self, subscriber: TopicSubscription[T] | Stream[T]) -> None:
        self._subscribers.pop(subscriber, None)
        if self._is_closed and not self._subscribers:
            self._emptied.close()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise TopicClosedError(f"topic {self._name!r} is closed and takes no more subscribers")

    def __repr__(self) -> str:
        return f"<Topic {self._name!r}: {'closed, ' if self._is_closed else ''}{len(self._subscribers)} subscribers>"


@final
class ThreadInbox(Generic[T]):
    """Events that other threads publish: a bounded number of them, delivered on the loop's thread in order.

    Args:
        loop: the loop that takes them.
        target: what they are published on, for the error.
        deliver: called on the loop's thread with each event, in the context of the thread that sent it.
    """

    __slots__ = ("_count", "_deliver", "_lock", "_loop", "_target")

    def __init__(self, loop: ActorSystem, target: str, deliver: Callable[[T], object]) -> None:
        self._loop = loop
        self._target = target
        self._deliver = deliver
        # How many are outstanding, over all threads.
        self._count = 0
        self._lock = Lock()

    def send(self, event: T) -> None:
        """Send an event to the loop's thread. Any thread may call this.

        Raises:
            LoopClosedError: the loop is stopping.
            MailboxFullError: too many events are outstanding.
        """
        if self._loop.kernel.is_closed:
            raise LoopClosedError("the loop is closed: it was asked to stop, or was destroyed")
        with self._lock:
            if self._count >= MAX_FROM_THREADS:
                raise MailboxFullError(
                    f"{MAX_FROM_THREADS} events from other threads wait for {self._target}: slow down, or try again later"
                )
            self._count += 1
        self._loop.kernel.inbox.call_soon(partial(self._arrive, copy_context(), event))

    def _arrive(self, context: Context, event: T) -> None:
        with self._lock:
            self._count -= 1
        context.run(self._deliver, event)


def checked_classes(kind: object, name: object) -> tuple[type, ...]:
    """Return the classes of a topic's events: the members of a union, or the origin of a generic alias.

    Raises:
        InvalidArgumentError: isinstance() does not work with the kind, or the name is empty.
    """
    members: tuple[Any, ...] = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    classes = tuple(getattr(member, "__origin__", member) for member in members)
    try:
        for each in classes:
            isinstance(None, each)
    except TypeError:
        raise InvalidArgumentError(
            f"kind is {safe_repr(kind)}: pass the class of the events, or a union of classes, each of which works with isinstance()"
        ) from None
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string that is not empty")
    return classes


def checked_tell(field: str, method: object) -> Tell[...]:
    """Return a one-way method of a handle that takes one argument.

    Raises:
        InvalidArgumentError: it is not one.
    """
    if not isinstance(method, Tell):
        raise InvalidArgumentError(
            f"{field} is {safe_repr(method)}: pass a one-way method of a handle, handle.on_event, or self.me.on_event inside an actor"
        )
    tell: Tell[...] = method
    try:
        signature(tell.handle_method.binder).bind(None, None)
    except TypeError:
        raise InvalidArgumentError(
            f"{field} is {safe_repr(method)}, which does not take one argument: the event"
        ) from None
    return tell


def check_policy(policy: object, room: object, key: object, min_room: int) -> None:
    """Check that a policy, a room and a key fit together.

    Raises:
        InvalidArgumentError: they do not.
    """
    if not isinstance(policy, Policy):
        raise InvalidArgumentError(f"policy is {safe_repr(policy)}: pass a member of Policy")
    if type(room) is not int or not min_room <= room <= MAX_ROOM:
        raise InvalidArgumentError(
            f"room is {safe_repr(room)}: for {policy.name} pass an int from {min_room} to {MAX_ROOM}"
        )
    if key is not None and (policy is not Policy.CONFLATE or not callable(key)):
        raise InvalidArgumentError(
            f"key is {safe_repr(key)}: pass a function of the event, and only with Policy.CONFLATE"
        )


# -- the loop's own events -------------------------------------------------------------------------------------------


@final
class RuntimeTopic(Topic[RuntimeEvent]):
    """Publishes what `loop.events` reports.

    A subscriber to the runtime's events must not cause more of them. If it lags, a report of that lag would need room in the queue that is
    full; if its mailbox drops an event, the report of that drop would be dropped too. So events about the delivery of runtime events are
    not published on this topic. `loop.events` and `on_lag` get them.
    """

    __slots__ = ("_subscription",)

    def __init__(self, loop: ActorSystem) -> None:
        # The checker does not take a union for a type; isinstance() does.
        super().__init__(loop, cast("Any", RuntimeEvent), name=RUNTIME_NAME)
        self._subscription: EventSubscription = loop.events.listen(self._on_event)

    def close(self) -> bool:
        """Close the topic and stop listening to the loop's events."""
        self._subscription.cancel()
        return super().close()

    def _on_event(self, event: RuntimeEvent) -> None:
        if self._subscribers and not is_about_delivery(event):
            # Also while the loop ends: its last events matter most.
            self._publish(event)


def is_about_delivery(event: RuntimeEvent) -> bool:
    """Return whether an event is about the delivery of a runtime event."""
    if isinstance(event, Lagged):
        return event.source == RUNTIME_NAME
    data: object = getattr(event, "data", None)
    parts = cast("tuple[object, ...]", data) if isinstance(data, tuple) else (data,)
    return any(isinstance(part, RuntimeEvent) for part in parts)


def runtime_events(loop: ActorSystem) -> Topic[RuntimeEvent]:
    """Return the runtime's own events (`loop.events`) as a topic: each subscriber has its own queue and policy.

    The topic does not publish a `Lagged` about its own subscribers, or what became of a message that was such an event: these would cause
    more of themselves. `loop.events` and `on_lag` report them.

    Each call creates a topic, which publishes until it is closed or the loop has ended.

    Raises:
        InvalidArgumentError: it is not a loop of typed actors.
        WrongThreadError: called from another thread.
    """
    return RuntimeTopic(loop)
