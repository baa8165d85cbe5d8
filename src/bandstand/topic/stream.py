"""A stream: the events of a topic for code that is no actor.

    async with prices.listen(room=100) as stream:
        async for price in stream:
            ...

It has a room and a policy of its own, as a subscription has, and is no further behind than that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Self, TypeVar, final

from bandstand.core.lifelines import at_end
from bandstand.core.lowlevel import check_thread
from bandstand.errors import ChannelClosed, CutOff, LoopBusy
from bandstand.scope import CONFLATED, Channel
from bandstand.topic.backlog import Backlog, Fate
from bandstand.topic.lag import Lag

if TYPE_CHECKING:
    from bandstand.service import Loop
    from bandstand.topic.policy import Policy

__all__ = ("Stream",)

T = TypeVar("T")


@final
class Stream(Generic[T]):
    """The events of a topic, from when its block was entered; `Topic.listen` makes it. On the loop's own thread.

    It yields events and nothing else: what was missed is counted (`missed`), and told to the loop's events. When the topic is closed, or the
    loop has ended, it ends after what it has; when it was cut off, it raises `CutOff` at once. A wait that is cancelled loses nothing.
    """

    __slots__ = (
        "_backlog",
        "_bell",
        "_enter",
        "_forget",
        "_is_cut",
        "_is_entered",
        "_is_over",
        "_lag",
        "_leave",
        "_loop",
        "_room",
        "_who",
    )

    def __init__(
        self,
        loop: Loop,
        source: str,
        who: str,
        policy: Policy,
        room: int,
        key: Callable[[T], Hashable] | None,
        enter: Callable[[Stream[T]], object],
        leave: Callable[[Stream[T]], object],
    ) -> None:
        self._loop = loop
        self._who = who
        self._room = room
        self._backlog: Backlog[T, T] = Backlog(policy, key)
        # Rung when there is something to look at; closed at the end.
        self._bell: Channel[None] = Channel(CONFLATED)
        self._enter = enter
        self._leave = leave
        self._forget: Callable[[], None] | None = None
        self._is_entered = False
        self._is_over = False
        self._is_cut = False
        self._lag = Lag(loop, source, who)

    @property
    def missed(self) -> int:
        """How many events it will never yield, because there was no room for them."""
        return self._lag.missed

    @property
    def waiting(self) -> int:
        """How many it has that nobody has taken yet: at most `room`."""
        return len(self._backlog)

    async def __aenter__(self) -> Self:
        """Listen from here on.

        Raises:
            LoopBusy: it was entered before: listen anew.
            TopicClosed, LoopClosed, WrongThread: as for `Topic.subscribe`.
        """
        check_thread(self._loop)
        if self._is_entered:
            raise LoopBusy(f"{self!r} was entered before: call listen() again for another one")
        self._is_entered = True
        self._enter(self)
        self._forget = at_end(self._loop, self.close)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        """Listen no more; what waits is given up."""
        self._backlog.clear()
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next event.

        Raises:
            StopAsyncIteration: the topic is closed, or the loop or the block has ended.
            CutOff: it was too slow, and its policy is to be cut off.
            LoopBusy: its block was not entered.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        if not self._is_entered:
            raise LoopBusy(f"{self!r} was not entered: write `async with topic.listen() as stream`")
        while not self._backlog:
            if self._is_cut:
                raise CutOff(
                    f"{self._who} has missed {self.missed} events and was cut off: give it more room, another policy, or less to do"
                )
            if self._is_over:
                raise StopAsyncIteration
            with suppress(ChannelClosed):
                await self._bell.receive()
        event = self._backlog.take()
        if self._backlog and not self._is_over:
            # Another task may wait here as well.
            self._bell.try_send(None)
        return event

    def __repr__(self) -> str:
        return f"<{self._who}: {self.waiting} waiting, {self.missed} missed>"

    # -- for the topic -------------------------------------------------------------------------------------------------------

    def offer(self, event: T) -> bool:
        """Take an event, or what the policy says instead; whether it was taken. It raises nothing."""
        if self._is_over:
            return False
        try:
            fate = self._backlog.put(event, event, self._room)
        except Exception as error:  # noqa: BLE001  # whatever it is: it is this one's own affair
            self._lag.stumble(error)
            fate = Fate.REFUSED
        if fate is Fate.CUT:
            self._is_cut = True
            self._lag.lose(1 + len(self._backlog.clear()))
            self._end(is_cut_off=True)
            return False
        if fate is not Fate.TAKEN:
            self._lag.miss()
        if not self._is_over:
            self._bell.try_send(None)
        return fate is not Fate.REFUSED

    def close(self) -> None:
        """Nothing more comes: it ends after what it has."""
        if not self._is_over:
            self._end()

    def _end(self, *, is_cut_off: bool = False) -> None:
        self._is_over = True
        self._leave(self)
        if self._forget is not None:
            self._forget()
        self._bell.close()
        self._lag.end(is_cut_off=is_cut_off)
