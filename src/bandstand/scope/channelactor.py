"""The handle of a channel actor: how it stands, and how to end it, from wherever one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final

from bandstand.core import ActorId, ExitReason, Loop
from bandstand.core.lowlevel import call_afar
from bandstand.errors import ActorKilled, LoopBusy
from bandstand.scope.channel import Channel
from bandstand.scope.consumer import Consumer
from bandstand.scope.hot.feeding import Fed, Feed
from bandstand.scope.latch import Latch, Wait
from bandstand.scope.numbers import FRESH
from bandstand.scope.outcome import EndedBy, Outcome

if TYPE_CHECKING:
    from bandstand.scope.token import CancelToken

__all__ = ("ChannelActor",)

T = TypeVar("T")

NOT_ENDED = Outcome(ExitReason.NORMAL, None, EndedBy.NOT_YET)


@final
class ChannelActor(Generic[T]):
    """An actor that consumes a channel; `consume` makes it. It can be used from any thread."""

    __slots__ = ("_ended", "_feed", "_outcome", "channel", "loop", "name", "token")

    def __init__(self, channel: Channel[T], loop: Loop, name: str | None, token: CancelToken) -> None:
        self.channel = channel
        """What it consumes."""
        self.loop = loop
        """The loop it lives on."""
        self.name = name
        """What it is called, in the tree and in the log."""
        self.token = token
        """Its own token: a child of the one it was started with, so that cancelling it ends this actor and no other."""
        self._feed: Feed | None = None
        self._outcome: Outcome | None = None
        self._ended: Latch[Outcome] = Latch(f"the end of {self._called}")

    @property
    def id(self) -> ActorId:
        """Its id. It is an actor as any other, but what is sent to it is nobody's: see `strays`."""
        return self._fed.actor

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_open

    @property
    def outcome(self) -> Outcome | None:
        """How it has ended; None before."""
        return self._ended.value

    @property
    def processed(self) -> int:
        """How many elements its function has been called with."""
        return self._fed.processed

    @property
    def strays(self) -> int:
        """How many messages were sent to its id: it takes them, and does nothing with them."""
        return self._fed.strays

    def on_done(self, callback: Callable[[Outcome], object]) -> None:
        """Have a function called with the outcome when it has ended, exactly once, on the loop's thread; now, if it has.

        What it raises is logged.
        """
        self._ended.on_open(callback)

    def stop(self, *, timeout_ms: float | None = None) -> Wait[Outcome]:
        """Ask it to end: the element at hand is finished, and no further one is taken. That is asked at once.

        What is returned can be awaited, or waited for with `.blocking()` on a plain thread: it gives the outcome. Inside its
        own function there is nothing to wait for: there it gives an outcome that says `NOT_YET`.

        Args:
            timeout_ms: how long to wait at most, None for ever: `ChannelTimeout`. The request stands.
        """
        self._fed.ask_to_stop()
        return self._end(timeout_ms, None, is_request=True)

    def cancel(
        self, reason: str | BaseException | None = None, *, timeout_ms: float | None = None
    ) -> Wait[Outcome]:
        """Cancel its token: it ends now, and a coroutine that processes an element is cancelled. That is asked at once.

        What is returned is as for `stop`.
        """
        self.token.cancel(reason)
        return self._end(timeout_ms, None, is_request=True)

    def ended(self, *, timeout_ms: float | None = None, token: CancelToken | None = None) -> Wait[Outcome]:
        """Wait until it has ended, by itself or otherwise: as for `stop`, without asking for it."""
        return self._end(timeout_ms, token, is_request=False)

    def _end(self, timeout_ms: float | None, token: CancelToken | None, *, is_request: bool) -> Wait[Outcome]:
        if self._outcome is not None and self._fed.is_at_home():
            # Nobody may be driving the loop, and then nobody else would say so.
            self._ended.open(self._outcome)
        return End(self._ended, self._fed, timeout_ms, token, is_request=is_request)

    def __repr__(self) -> str:
        state = (
            "not begun"
            if self._feed is None
            else "running"
            if self._outcome is None
            else self._outcome.ended_by.value
        )
        return f"<{self._called} of {self.channel!r}: {state}>"

    @property
    def _called(self) -> str:
        return "ChannelActor" if self.name is None else f"ChannelActor {self.name!r}"

    # -- for consume() -------------------------------------------------------------------------------------------------

    @property
    def _fed(self) -> Feed:
        assert self._feed is not None
        return self._feed

    @property
    def has_begun(self) -> bool:
        """Whether it has begun."""
        return self._feed is not None

    def begin(self, work: Consumer[T], actor: ActorId) -> Fed:
        """It begins: its state."""
        self._feed = work.begin(self.loop, actor, self._settle)
        return Fed(self._feed)

    def _settle(self, feed: Feed, reason: ExitReason, cause: BaseException | None) -> None:
        """It has ended. This is inside its exit: whoever is told may do anything, and is told afterwards."""
        outcome = self._outcome = Outcome(reason, cause, _ended_by(feed, reason, cause))
        call_afar(self.loop, lambda: self._ended.open(outcome))


def _ended_by(feed: Feed, reason: ExitReason, cause: BaseException | None) -> EndedBy:
    if reason is not ExitReason.NORMAL:
        return EndedBy.KILLED if isinstance(cause, ActorKilled) else EndedBy.FAILED
    if feed.is_cancelled:
        return EndedBy.CANCELLED
    if feed.is_over:
        return EndedBy.CLOSED
    return EndedBy.RETURNED if feed.has_returned else EndedBy.STOPPED


@final
class End(Wait[Outcome]):
    """A wait for the end of a channel actor, by whomever: also by itself, and by the thread that drives its loop."""

    __slots__ = ("_feed",)

    def __init__(
        self, latch: Latch[Outcome], feed: Feed, timeout_ms: float | None, token: Any, *, is_request: bool
    ) -> None:
        super().__init__(latch, timeout_ms, token, None, is_request=is_request)
        self._feed = feed

    def begin(self) -> bool:
        """It may have ended; and its own function does not wait for it."""
        if not self._latch.is_open and self._feed.is_itself():
            self._at_once = NOT_ENDED
        return super().begin()

    def blocking(self) -> Outcome:
        """Wait on a plain thread.

        Raises:
            LoopBusy: this thread runs an event loop, or is that of the actor's own loop, which nobody would drive meanwhile.
        """
        if self.state == FRESH and not self._latch.is_open and self._feed.is_at_home():
            self._has_done_something = True
            if self.begin():
                # Its own function: there is no waiting, so nothing is blocked.
                return cast("Outcome", self.finish())
            raise LoopBusy(
                f"blocking() would wait for {self._latch.what} on the thread of its loop, which nobody would drive meanwhile: "
                f"run the loop, or wait on another thread"
            )
        return super().blocking()
