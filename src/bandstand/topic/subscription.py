"""A subscription: an actor that is sent the events of a topic, by one of its methods.

Of one subscription at most one event is in the actor's mailbox, or at hand; the others wait here, in the subscription's own room. So a
topic never fills a mailbox, what has not begun can still be given up for something newer, and a slow subscriber is its own affair. When the
actor has handled one it says so, by a receipt in the sender's place, and is sent the next there and then: it costs no turn of the loop.
If its lane is full of others' messages, the event stands in line with those who wait for room.

Sending all of them and counting would let the actor handle several in a row without coming back here. It was refused: what is in a
mailbox cannot be taken back, so the policies would begin only behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from bandstand.core import ActorId, DeadLetter, Lagged, Lane
from bandstand.core.lowlevel import check_thread
from bandstand.service.lowlevel import AWAY, Asked, Presence, land_at, packed_for, parts_of
from bandstand.topic.backlog import Backlog, Fate
from bandstand.topic.lag import Lag

if TYPE_CHECKING:
    from bandstand.service import Loop, Tell
    from bandstand.topic.policy import Policy

__all__ = ("TopicSubscription",)

T = TypeVar("T")


@final
class Receipt(Asked):
    """Stands in the sender's place of one event, and tells what became of it, once."""

    __slots__ = ("_subscription",)

    def __init__(self, actor: ActorId, subscription: TopicSubscription[Any]) -> None:
        super().__init__(actor)
        self._subscription: TopicSubscription[Any] | None = subscription

    def answer(self, value: object) -> None:  # noqa: ARG002  # there is none
        """It was handled to its end."""
        self._say("handled")

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # we know
        name: str | None,  # noqa: ARG002  # same
        reason: int,  # noqa: ARG002  # it does not matter
        cause: BaseException | None,  # noqa: ARG002  # same
    ) -> None:
        """The actor has ended first, or in the middle of it."""
        self._say("lost")

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # same
        """The mailbox has given it up."""
        self._say("missed")

    def _say(self, what: str) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription._settle(what)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one mechanism


@final
class TopicSubscription(Generic[T]):
    """That an actor is subscribed to a topic. Keep it to end it, or to look at its books. Loop thread only.

    `published while it lasted == handled + missed + lost + waiting`, unless it was cancelled.
    """

    __slots__ = (
        "_at_hand",
        "_backlog",
        "_bind",
        "_handled",
        "_held",
        "_is_closing",
        "_is_over",
        "_is_pumping",
        "_lag",
        "_leave",
        "_loop",
        "_lost",
        "_method",
        "_presence",
        "_room",
        "_what",
    )

    def __init__(
        self,
        loop: Loop,
        source: str,
        method: Tell[...],
        policy: Policy,
        room: int,
        key: Callable[[T], Hashable] | None,
        on_lag: Tell[[Lagged]] | None,
        leave: Callable[[TopicSubscription[T]], object],
    ) -> None:
        handle, self._method, self._bind = parts_of(method)
        self._loop = loop
        self._what = f"{source!r}"
        self._room = room
        # Each with the event itself, and what is posted.
        self._backlog: Backlog[T, tuple[T, object]] = Backlog(policy, key)
        # The one that is in the mailbox, or being handled.
        self._at_hand: Receipt | None = None
        # One that was its turn, but the actor takes nothing any more: it is the first that whoever comes next gets.
        self._held: tuple[T, object] | None = None
        self._handled = 0
        self._lost = 0
        self._is_pumping = False
        self._is_closing = False
        self._is_over = False
        self._leave = leave
        self._lag = Lag(loop, source, f"{handle!r}.{self._method.name}", on_lag)
        self._presence = Presence(loop, handle, self._bereave, self._pump)

    # -- for its owner -------------------------------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """End it; False if it had ended. What waits is not sent any more; the one event that was sent is still handled."""
        check_thread(self._loop)
        if self._is_over:
            return False
        self._clear()
        self._end()
        return True

    @property
    def is_active(self) -> bool:
        """Whether it has not ended: nobody has cancelled it, the topic is open, its subscriber is not gone and was not cut off."""
        return not self._is_over

    @property
    def handled(self) -> int:
        """How many events the subscriber has handled to their end."""
        return self._handled

    @property
    def missed(self) -> int:
        """How many it will never see, because there was no room for them."""
        return self._lag.missed

    @property
    def lost(self) -> int:
        """How many had been taken for it, and were not handled to their end because it ended first."""
        return self._lost

    @property
    def waiting(self) -> int:
        """How many were taken and are not handled yet: at most `room`."""
        return len(self._backlog) + self._taken_out()

    def __repr__(self) -> str:
        state = "" if self.is_active else "ended, "
        return f"<subscription of {self._presence.handle!r} to {self._what}: {state}{self.waiting} waiting, {self.missed} missed>"

    # -- for the topic -------------------------------------------------------------------------------------------------------

    def offer(self, event: T) -> bool:
        """Take an event, or what the policy says instead; whether it was taken. It raises nothing."""
        if self._is_over or self._is_closing:
            return False
        try:
            kept = (event, packed_for(self._presence.handle, self._method, self._bind(None, event)))
            fate = self._backlog.put(event, kept, self._room - self._taken_out())
        except Exception as error:  # noqa: BLE001  # whatever it is: it is this one's own affair
            self._lag.stumble(error)
            fate = Fate.REFUSED
        if fate is Fate.CUT:
            self._lag.lose(1 + len(self._clear()))
            self._end(is_cut_off=True)
            return False
        if fate is not Fate.TAKEN:
            self._lag.miss()
        self._pump()
        return fate is not Fate.REFUSED

    def close(self) -> None:
        """Nothing more comes: end when what waits was handled."""
        self._is_closing = True
        self._pump()

    def _pump(self) -> None:
        """Send the next one, if it is its turn and somebody is there."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while self._at_hand is None and (self._held is not None or self._backlog):
                actor = self._presence.actor
                if actor is None:
                    return
                kept = self._backlog.take() if self._held is None else self._held
                self._held = None
                receipt = self._at_hand = Receipt(actor, self)
                if land_at(actor, self._method, kept[1], receipt) == AWAY:
                    # It handles what it has, and then it ends: perhaps somebody comes after it.
                    self._at_hand = None
                    self._held = kept
                    return
        finally:
            self._is_pumping = False
        if self._is_closing and self._at_hand is None and not self._is_over:
            self._end()

    def _taken_out(self) -> int:
        """How many are not in the backlog, and not handled either."""
        return (self._at_hand is not None) + (self._held is not None)

    def _clear(self) -> list[tuple[T, object]]:
        """Everything that was not sent, which will not be."""
        held, self._held = self._held, None
        return ([] if held is None else [held]) + self._backlog.clear()

    def _settle(self, what: str) -> None:
        """The one at hand is over."""
        self._at_hand = None
        if what == "handled":
            self._handled += 1
        elif what == "lost" or self._is_over:
            self._lost += 1
        else:
            self._lag.miss()
        if not self._is_over:
            self._pump()

    def _bereave(self) -> None:
        """Nobody is there, and nobody will be: what waited is dead."""
        letters = self._clear()
        self._lost += len(letters)
        self._end()
        handle = self._presence.handle
        for event, _message in letters:
            what = f"{self._method.owner}.{self._method.name}() of {self._what}"
            self._loop.events.tell(DeadLetter(handle.__actor_id__(), Lane(self._method.lane), event, what))

    def _end(self, *, is_cut_off: bool = False) -> None:
        self._is_over = True
        self._presence.cancel()
        self._leave(self)
        self._lag.end(is_cut_off=is_cut_off)
