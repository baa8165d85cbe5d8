"""A stream: the events of a topic for code outside actors.

    async with prices.listen(room=100) as stream:
        async for price in stream:
            ...

A stream has its own bounded queue and policy, as a subscription has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Self, TypeVar, final

from bandstand.errors import ChannelClosedError, LoopBusyError, SubscriptionCutOffError
from bandstand.scope import CONFLATED, Channel
from bandstand.topic.backlog import Backlog, Lag, PutResult

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem
    from bandstand.topic.backlog import Policy

__all__ = ("Stream",)

T = TypeVar("T")


@final
class Stream(Generic[T]):
    """The events of a topic from the moment its block is entered, created by `Topic.listen`. Loop thread only.

    It yields only events; misses are counted (`missed`) and reported to the loop's events. When the topic is closed or the loop has ended,
    the stream yields what it still has and ends. When it is cut off, it raises `SubscriptionCutOffError` at once. A cancelled wait loses no event.
    """

    __slots__ = (
        "_backlog",
        "_forget",
        "_is_closed",
        "_is_cut_off",
        "_is_entered",
        "_lag",
        "_loop",
        "_name",
        "_on_end",
        "_on_enter",
        "_room",
        "_signal",
    )

    def __init__(
        self,
        loop: ActorSystem,
        source: str,
        name: str,
        policy: Policy,
        room: int,
        key: Callable[[T], Hashable] | None,
        on_enter: Callable[[Stream[T]], object],
        on_end: Callable[[Stream[T]], object],
    ) -> None:
        self._loop = loop
        self._name = name
        self._room = room
        self._backlog: Backlog[T, T] = Backlog(policy, key)
        # Gets an element when there is an event to take; closed at the end.
        self._signal: Channel[None] = Channel(CONFLATED)
        self._on_enter = on_enter
        self._on_end = on_end
        self._forget: Callable[[], None] | None = None
        self._is_entered = False
        self._is_closed = False
        self._is_cut_off = False
        self._lag = Lag(loop, source, name)

    @property
    def missed(self) -> int:
        """How many events the stream will not yield because there was no room for them."""
        return self._lag.missed

    @property
    def waiting(self) -> int:
        """How many events wait to be taken: at most `room`."""
        return len(self._backlog)

    async def __aenter__(self) -> Self:
        """Start to receive events.

        Raises:
            LoopBusyError: the block was entered before: call `listen()` again.
            TopicClosedError, LoopClosedError, WrongThreadError: as for `Topic.subscribe`.
        """
        self._loop.kernel.check_thread()
        if self._is_entered:
            raise LoopBusyError(f"{self!r} was entered before: call listen() again for another one")
        self._is_entered = True
        self._on_enter(self)
        self._forget = self._loop.runner.on_end(self.close)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        """Stop receiving; events that wait are dropped."""
        self._backlog.clear()
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next event.

        Raises:
            StopAsyncIteration: the topic is closed, or the loop or the block has ended.
            SubscriptionCutOffError: the stream was too slow, and its policy is CUT_OFF.
            LoopBusyError: the block was not entered.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        if not self._is_entered:
            raise LoopBusyError(f"{self!r} was not entered: write `async with topic.listen() as stream`")
        while not self._backlog:
            if self._is_cut_off:
                raise SubscriptionCutOffError(
                    f"{self._name} missed {self.missed} events and was cut off: give it more room or another policy, or read faster"
                )
            if self._is_closed:
                raise StopAsyncIteration
            with suppress(ChannelClosedError):
                await self._signal.receive()
        event = self._backlog.take()
        if self._backlog and not self._is_closed:
            # Another task may wait for the next event.
            self._signal.try_send(None)
        return event

    def __repr__(self) -> str:
        return f"<{self._name}: {self.waiting} waiting, {self.missed} missed>"

    # -- for the topic -------------------------------------------------------------------------------------------------------

    def offer(self, event: T) -> bool:
        """Queue an event or apply the policy; return whether the event was taken. It does not raise."""
        if self._is_closed:
            return False
        try:
            result = self._backlog.put(event, event, self._room)
        except Exception as error:  # noqa: BLE001  # an error in `key` affects this subscriber only
            self._lag.log_error(error)
            result = PutResult.REFUSED
        if result is PutResult.CUT_OFF:
            self._is_cut_off = True
            self._lag.add(1 + len(self._backlog.clear()))
            self._end(is_cut_off=True)
            return False
        if result is not PutResult.TAKEN:
            self._lag.miss()
        if not self._is_closed:
            self._signal.try_send(None)
        return result is not PutResult.REFUSED

    def close(self) -> None:
        """End the stream after the events that it has."""
        if not self._is_closed:
            self._end()

    def _end(self, *, is_cut_off: bool = False) -> None:
        self._is_closed = True
        self._on_end(self)
        if self._forget is not None:
            self._forget()
        self._signal.close()
        self._lag.end(is_cut_off=is_cut_off)
