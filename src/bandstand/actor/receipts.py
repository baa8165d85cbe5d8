"""What stands in a message's sender's place for somebody on another thread: a receipt that ends a future there."""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast, final

from bandstand.actor.hot.asks import Asked
from bandstand.actor.hot.port import wait_for_room, withdraw
from bandstand.actor.hot.reply import depth_of, interrupt_handler
from bandstand.core import ExitReason
from bandstand.core.lowlevel import call_afar, call_after
from bandstand.errors import AskTimeout, MessageDropped, TargetEnded

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method
    from bandstand.core import ActorId, Loop, TimerId

__all__ = ("FarLanding", "FarReceipt", "loop_of")


def loop_of(handle: Handle) -> Loop:
    """The loop of a handle's actor."""
    # The hot modules know it by a lower storey's name.
    return cast("Loop", handle._bs_loop)


class FarReceipt(Asked):
    """Stands in a message's sender's place for somebody on another thread who waits for an answer."""

    # How to speak of what did not happen.
    _then = "and has not answered"

    def __init__(self, handle: Handle, method: Method, ms: int = -1, *, is_bare: bool = False) -> None:
        super().__init__(handle._bs_actor)
        self.handle = handle
        self.method = method
        self.asked_at = monotonic()
        # How long it may take; below 0 for ever. If it is bare, nobody may be waiting who would see to that.
        self.ms = ms
        self.is_bare = is_bare
        # Taken once, by whoever ends it first, on whichever thread.
        self._claim = Lock()
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._ended)

    @property
    def loop(self) -> Loop:
        """The loop of the actor that was asked."""
        return cast("Loop", self.actor.home)

    @property
    def left_ms(self) -> float:
        """How much time is left; infinite if it may take for ever."""
        return max(0.0, self.ms - (monotonic() - self.asked_at) * 1000) if self.ms >= 0 else float("inf")

    def moved(self, actor: ActorId) -> None:
        """It has waited for somebody to come, and goes to this actor now."""
        self.actor = actor
        self.set_deadline()

    def set_deadline(self) -> None:
        """Have the wheel of the actor's loop see to it that a bare one ends."""
        if self.is_bare and self.ms >= 0:
            call_afar(self.loop, self._set_timer)

    def _set_timer(self) -> None:
        if self.future.done():
            return
        loop = self.loop
        # In whole milliseconds, rounded up: never early.
        cancel = call_after(loop, -int(-self.left_ms // 1), partial(self.expire, self.ms))
        self.future.add_done_callback(lambda _future: call_afar(loop, cancel))

    def answer(self, value: object) -> None:
        """The handler has answered."""
        if self._begin():
            self.handle._bs_asks.count_afar("answered")
            self.future.set_result(value)
        else:
            self.handle._bs_asks.count_afar("late")

    def fail(self, error: BaseException) -> None:
        """It ends with an error."""
        if self._begin():
            self.handle._bs_asks.count_afar("failed")
            self.future.set_exception(error)
        else:
            self.handle._bs_asks.count_afar("late")

    def _begin(self) -> bool:
        """Whether we are the first to end it."""
        return self._claim.acquire(blocking=False) and self.future.set_running_or_notify_cancel()

    def is_withdrawn(self) -> bool:
        """Whether the asker has taken the ask back."""
        return self.future.cancelled()

    def done(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.future.done()

    def cancel(self) -> bool:
        """Take the ask back; False if it has ended."""
        return self.future.cancel()

    def account(self) -> tuple[ActorId, str | None, str, float]:
        """For people: of whom it was asked, what, and when, in seconds of the system's clock."""
        return (self.actor, self.handle._bs_name, self._what(), self.asked_at)

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # the handle knows
        name: str | None,  # noqa: ARG002  # same
        reason: int,
        cause: BaseException | None,
    ) -> None:
        """The target has ended without an answer."""
        if not self.future.done():
            name_of = ExitReason(reason).name
            self.fail(TargetEnded.of(repr(self.handle), self._what(), name_of, cause, self._then))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # the handle knows
        """The target's mailbox was full, and its policy has given the ask up."""
        if not self.future.done():
            self.fail(
                MessageDropped(
                    f"{self._what()}, asked of {self.handle!r}, was given up by the overflow policy of its full mailbox"
                )
            )

    def expire(self, waited_ms: float | None = None) -> None:
        """The deadline has come. From any thread; `waited_ms` is by real time if nothing is said."""
        if self._begin():
            self.handle._bs_asks.count_afar("expired")
            waited = (monotonic() - self.asked_at) * 1000 if waited_ms is None else waited_ms
            error = AskTimeout.of(repr(self.handle), self._what(), waited, depth_of(self.actor))
            self.future.set_exception(error)

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            self.handle._bs_asks.count_afar("cancelled")
            call_afar(self.loop, self._withdraw)

    def _withdraw(self) -> None:
        interrupt_handler(self.actor, self)

    def _what(self) -> str:
        return f"{self.method.owner}.{self.method.name}()"


@final
class FarLanding(FarReceipt):
    """The same for somebody who waits for room. It is no ask, and in none of its books."""

    _then = "before there was room for"

    def __init__(self, handle: Handle, method: Method) -> None:
        super().__init__(handle, method)
        # What waits in the target's mailbox.
        self._message: TimerId | None = None

    def send(self, data: object, context: Context) -> None:
        """Send the message as soon as there is room, as if it were sent in that context. Loop thread only."""
        if self.is_withdrawn():
            return
        loop = self.loop
        # What is sent in somebody's context takes it along.
        was_abroad, loop._abroad = loop._abroad, True
        try:
            self._message = context.run(wait_for_room, self.handle, self.method, data, self)
        except Exception as error:  # noqa: BLE001  # whatever is wrong is the sender's to hear
            self.fail(error)
        finally:
            loop._abroad = was_abroad

    def accepted(self) -> None:
        """The message has its room."""
        self._message = None
        if self._begin():
            self.future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """The message is not in, and will not be."""
        self._message = None
        if self._begin():
            self.future.set_exception(error)

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            call_afar(self.loop, self._withdraw)

    def _withdraw(self) -> None:
        if self._message is not None:
            withdraw(self.handle, self._message)
