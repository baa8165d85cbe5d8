"""A topic: events of one type, for whoever has subscribed.

Publishing goes through the subscribers once, gives each its event, or what its policy makes of it, and comes back; no handler runs
inside. Nobody waits for anybody, and there is no policy that would: one slow subscriber would hold up the publisher, and through it all
others. Whoever must not lose anything reads a channel (`bandstand.scope`), or is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

from bandstand.core import Lagged
from bandstand.core.lowlevel import check_open, check_thread, is_open
from bandstand.errors import (
    ChannelClosed,
    ChannelTimeout,
    InvalidArgument,
    LoopBusy,
    TopicClosed,
)
from bandstand.scope import Channel
from bandstand.service.lowlevel import check_ask_ms, checked_loop
from bandstand.topic.afar import Afar
from bandstand.topic.checks import check_policy, checked_classes, checked_tell
from bandstand.topic.policy import Policy
from bandstand.topic.stream import Stream
from bandstand.topic.subscription import TopicSubscription

if TYPE_CHECKING:
    from bandstand.service import Loop
    from bandstand.topic.receives import Receives

__all__ = ("Topic",)

T = TypeVar("T")

DEFAULT_ROOM = 64
DEFAULT_DRAIN_MS = 5000
# How many may be published inside the publishing of another.
MOST_INSIDE = 1024


class Topic(Generic[T]):
    """Events of one type, for whoever has subscribed. `Topic(loop, Price, name="prices")`.

    A loop's thread owns it; only `publish_async` is for other threads.

    Args:
        loop: the loop whose actors subscribe.
        kind: the class of its events. It is looked at whenever something is published.
        name: for people: errors, events, the log. Need not be unique.

    Raises:
        InvalidArgument: an argument has no sense.
        WrongThread: called off the loop's thread.
    """

    __slots__ = (
        "__weakref__",
        "_afar",
        "_classes",
        "_emptied",
        "_inner",
        "_inside",
        "_is_closed",
        "_is_publishing",
        "_kind",
        "_loop",
        "_name",
        "_serials",
        "_takers",
    )

    def __init__(self, loop: Loop, kind: type[T], *, name: str) -> None:
        self._loop = checked_loop(loop)
        check_thread(loop)
        self._classes = checked_classes(kind, name)
        self._kind: object = kind
        self._name = name
        self._takers: dict[TopicSubscription[T] | Stream[T], None] = {}
        self._serials = count(1)
        self._is_closed = False
        self._is_publishing = False
        # What is published inside that, and how much it was in all.
        self._inside: deque[T] = deque()
        self._inner = 0
        self._afar: Afar[T] = Afar(loop, f"topic {name!r}", self._arrive)
        # Closed when it is closed, and nobody is left.
        self._emptied: Channel[None] = Channel()

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @property
    def subscribers(self) -> int:
        """How many subscriptions and streams it has."""
        return len(self._takers)

    # -- publishing ----------------------------------------------------------------------------------------------------------

    def publish(self, event: T) -> int:
        """Give an event to every subscriber; how many took it. Each sees the events in the order in which they were published.

        One that is published while another is being published (by a listener of the loop's events, a tracer, a `key`) comes after it,
        and the answer is how many there are to take it.

        Raises:
            InvalidArgument: it is of another class.
            TopicClosed: the topic is closed.
            LoopBusy: too many are published inside the publishing of another.
            LoopClosed, WrongThread: the loop was asked to stop; called off its thread, where `publish_async` can be used.
        """
        check_open(self._loop)
        self._check(event)
        return self._pass_on(event)

    def _pass_on(self, event: T) -> int:
        if self._is_publishing:
            if self._inner >= MOST_INSIDE:
                raise LoopBusy(
                    f"{MOST_INSIDE} events were published on topic {self._name!r} inside the publishing of another: does somebody "
                    f"publish for everything that is published?"
                )
            self._inner += 1
            self._inside.append(event)
            return len(self._takers)
        self._is_publishing = True
        try:
            taken = self._give(event)
            while self._inside:
                self._give(self._inside.popleft())
        finally:
            self._is_publishing = False
            self._inner = 0
        return taken

    def publish_async(self, event: T) -> None:
        """Have an event published at the loop's next tick. From any thread, in the order of each.

        Context variables of the caller are seen where it is handled, as with every message.

        Raises:
            InvalidArgument, TopicClosed, LoopClosed: as for `publish`.
            MailboxFull: 1,024 are on their way already.
        """
        self._check(event)
        self._afar.send(event)

    def _arrive(self, event: T) -> None:
        # It may have ended, or was closed, since: then nobody is left to take it.
        if not self._is_closed and is_open(self._loop):
            self.publish(event)

    def _give(self, event: T) -> int:
        return sum([taker.offer(event) for taker in list(self._takers)])

    def _check(self, event: object) -> None:
        if not isinstance(event, self._classes):
            kind = getattr(self._kind, "__qualname__", self._kind)
            raise InvalidArgument(f"topic {self._name!r} is of {kind}, and {event!r} is none")
        if self._is_closed:
            raise TopicClosed(f"topic {self._name!r} is closed")

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
        """Have each event sent to an actor, by one of its one-way methods: `prices.subscribe(handle.on_price)`.

        At most `room` events of it are taken and not handled at any time, and of these one is in the actor's mailbox or at hand. It ends
        with its actor; a subscription by a handle of a supervisor's child (`supervised`) goes on with the next incarnation, and what waits
        while nobody is there waits in its room. Each call is a subscription of its own.

        Args:
            method: a one-way method that takes the event; inside an actor, `self.me.on_price`.
            policy: what to do with one event more when the room is full.
            room: how many. The one that is at hand cannot be given up: DROP_OLDEST and CONFLATE need 2 at least.
            key: with CONFLATE, what tells events apart of which each is to have its latest; None if only the latest of all counts.
            on_lag: a one-way method that takes a `Lagged`: told as the loop's events are. Of another actor, if wished.

        Raises:
            InvalidArgument: an argument has no sense.
            NoSuchActor, ActorNotLocal: the actor has ended, or lives on another loop.
            TopicClosed: the topic is closed.
            LoopClosed, WrongThread: the loop was asked to stop; called off its thread.
        """
        check_open(self._loop)
        self._refuse_closed()
        told = checked_tell("method", method)
        lag = None if on_lag is None else checked_tell("on_lag", on_lag)
        needs = 2 if policy in (Policy.DROP_OLDEST, Policy.CONFLATE) else 1
        check_policy(policy, room, key, needs)
        subscription = TopicSubscription[T](
            self._loop, self._name, told, policy, room, key, lag, self._forget
        )
        self._takers[subscription] = None
        return subscription

    def listen(
        self,
        *,
        policy: Policy = Policy.DROP_OLDEST,
        room: int = DEFAULT_ROOM,
        key: Callable[[T], Hashable] | None = None,
        name: str | None = None,
    ) -> Stream[T]:
        """The events for code that is no actor: `async with prices.listen() as stream: async for price in stream: ...`.

        Args:
            policy: what to do with one event more when the room is full.
            room: how many may wait to be taken.
            key: as for `subscribe`.
            name: who listens, for people.

        Raises:
            InvalidArgument: an argument has no sense.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        check_policy(policy, room, key, 1)
        who = f"stream {name or next(self._serials)} of topic {self._name!r}"
        return Stream[T](self._loop, self._name, who, policy, room, key, self._admit, self._forget)

    def close(self) -> bool:
        """End it: nothing can be published any more, streams end after what they have, and so do subscriptions. False if it was closed.

        Raises:
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        if self._is_closed:
            return False
        self._is_closed = True
        for taker in list(self._takers):
            taker.close()
        return True

    async def drain(self, *, ms: float | None = DEFAULT_DRAIN_MS) -> bool:
        """Close it, and wait until what was taken for its subscribers was handled; whether it was, in time.

        Args:
            ms: how long to wait at most, in milliseconds; None for as long as the loop lives.

        Raises:
            InvalidArgument: `ms` is no time.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        check_ask_ms("ms", ms)
        self.close()
        if self._takers:
            with suppress(ChannelTimeout, ChannelClosed):
                await self._emptied.receive(timeout_ms=ms)
        return not self._takers

    def _admit(self, stream: Stream[T]) -> None:
        check_open(self._loop)
        self._refuse_closed()
        self._takers[stream] = None

    def _forget(self, taker: TopicSubscription[T] | Stream[T]) -> None:
        self._takers.pop(taker, None)
        if self._is_closed and not self._takers:
            self._emptied.close()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise TopicClosed(f"topic {self._name!r} is closed, and takes no subscribers any more")

    def __repr__(self) -> str:
        return (
            f"<Topic {self._name!r}: {'closed, ' if self._is_closed else ''}{len(self._takers)} subscribers>"
        )
