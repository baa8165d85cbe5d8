"""A topic: events of one type, for whoever has subscribed.

Publishing goes through the subscribers once, gives each its event, or what its policy makes of it, and comes back; no handler runs
inside. Nobody waits for anybody, and there is no policy that would: one slow subscriber would hold up the publisher, and through it all
others. Whoever must not lose anything reads a channel (`bandstand.scope`), or is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextvars import copy_context
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from bandstand.core import Lagged
from bandstand.core.lowlevel import call_afar, check_open, check_thread, is_open
from bandstand.errors import InvalidArgument, LoopBusy, LoopClosed, MailboxFull, TopicClosed
from bandstand.service.lowlevel import checked_loop
from bandstand.topic.checks import check_kind, check_policy, checked_tell
from bandstand.topic.policy import Policy
from bandstand.topic.stream import Stream
from bandstand.topic.subscription import Subscription

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.service import Loop

__all__ = ("Receives", "Topic")

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

DEFAULT_ROOM = 64
# How many may be under way from other threads, and how many may be published inside the publishing of another.
MOST_AFAR = 1024
MOST_INSIDE = 1024


class Receives(Protocol[T_contra]):
    """A one-way method of a handle that takes one argument: `handle.on_price`. A `Tell` is one; a plain function is not."""

    def __call__(self, event: T_contra, /) -> None:
        """Send it."""
        ...

    def try_send(self, event: T_contra, /) -> bool:
        """Send it, if that can be done."""
        ...


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
        "_inner",
        "_inside",
        "_is_closed",
        "_is_publishing",
        "_kind",
        "_lock",
        "_loop",
        "_name",
        "_serials",
        "_takers",
    )

    def __init__(self, loop: Loop, kind: type[T], *, name: str) -> None:
        self._loop = checked_loop(loop)
        check_thread(loop)
        check_kind(kind, name)
        # Of a generic class with its arguments, the class; a union as it is.
        self._kind: Any = getattr(kind, "__origin__", kind)
        self._name = name
        self._takers: dict[Subscription[T] | Stream[T], None] = {}
        self._serials = count(1)
        self._is_closed = False
        self._is_publishing = False
        # What is published inside that, and how much it was in all.
        self._inside: deque[T] = deque()
        self._inner = 0
        # How many are on their way from other threads.
        self._afar = 0
        self._lock = Lock()

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
        if not is_open(self._loop):
            raise LoopClosed("the loop is closed: it was asked to stop, or was destroyed")
        with self._lock:
            if self._afar >= MOST_AFAR:
                raise MailboxFull(
                    f"{MOST_AFAR} events are on their way to topic {self._name!r} from other threads: slow down, or try again later"
                )
            self._afar += 1
        call_afar(self._loop, partial(self._arrive, copy_context(), event))

    def _arrive(self, context: Context, event: T) -> None:
        with self._lock:
            self._afar -= 1
        # It may have ended, or was closed, since: then nobody is left to take it.
        if not self._is_closed and is_open(self._loop):
            context.run(self.publish, event)

    def _give(self, event: T) -> int:
        return sum([taker.offer(event) for taker in list(self._takers)])

    def _check(self, event: object) -> None:
        if not isinstance(event, self._kind):
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
    ) -> Subscription[T]:
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
        needs = 2 if policy in {Policy.DROP_OLDEST, Policy.CONFLATE} else 1
        check_policy(policy, room, key, needs)
        subscription = Subscription[T](self._loop, self._name, told, policy, room, key, lag, self._forget)
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

    def _admit(self, stream: Stream[T]) -> None:
        check_open(self._loop)
        self._refuse_closed()
        self._takers[stream] = None

    def _forget(self, taker: Subscription[T] | Stream[T]) -> None:
        self._takers.pop(taker, None)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise TopicClosed(f"topic {self._name!r} is closed, and takes no subscribers any more")

    def __repr__(self) -> str:
        return (
            f"<Topic {self._name!r}: {'closed, ' if self._is_closed else ''}{len(self._takers)} subscribers>"
        )
