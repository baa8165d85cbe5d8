"""Asking from another thread.

The message goes the cross-thread way, and the answer comes back through a future of `concurrent.futures`, which is made for
that. Who waits, waits on his own side and by his own clock: a thread in `Future.result`, a coroutine of another event loop by
a timer of that loop, so that both come back in time although the actor's loop may be stuck. Only the deadline of a bare
future, which nobody may be waiting for, is on the wheel of the actor's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from functools import partial
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast, final

from bandstand.core import ExitReason
from bandstand.core.lowlevel import call_afar, call_after
from bandstand.errors import AskTimeout, LoopBusy, MessageDropped, TargetEnded
from bandstand.service.hot.port import is_afar, packed, post_afar, wait_for_room, withdraw
from bandstand.service.hot.reply import Asked, depth_of, interrupt_handler

if TYPE_CHECKING:
    from bandstand.core import ActorId, Loop, TimerId
    from bandstand.service.hot.handle import Handle
    from bandstand.service.hot.method import Method

__all__ = ("FarReply", "ask", "block", "land", "submit")


@final
class FarReceipt(Asked):
    """Stands in a message's sender's place for somebody on another thread."""

    def __init__(self, handle: Handle, method: Method) -> None:
        self.handle = handle
        self.method = method
        self.asked_at = monotonic()
        # Taken once, by whoever ends it first, on whichever thread.
        self._claim = Lock()
        # What waits in the target's mailbox for room.
        self.message: TimerId | None = None
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._ended)

    @property
    def loop(self) -> Loop:
        """The loop of the actor that was asked."""
        return loop_of(self.handle)

    def answer(self, value: object) -> None:
        """The handler has answered."""
        if self._begin():
            self.handle.asks.answered += 1
            self.future.set_result(value)
        else:
            self.handle.asks.late += 1

    def fail(self, error: BaseException) -> None:
        """It ends with an error."""
        if self._begin():
            self.handle.asks.failed += 1
            self.future.set_exception(error)
        else:
            self.handle.asks.late += 1

    def _begin(self) -> bool:
        """Whether we are the first to end it."""
        return self._claim.acquire(blocking=False) and self.future.set_running_or_notify_cancel()

    def is_withdrawn(self) -> bool:
        """Whether the asker has taken the ask back."""
        return self.future.cancelled()

    def lost(
        self,
        actor: ActorId | None,  # noqa: ARG002  # the handle knows
        name: str | None,  # noqa: ARG002  # same
        reason: int,
        cause: BaseException | None,
    ) -> None:
        """The target has ended without an answer."""
        if not self.future.done():
            self.fail(TargetEnded.of(self._target(), self._what(), ExitReason(reason).name, cause))

    def dropped(self, actor: ActorId | None, name: str | None) -> None:  # noqa: ARG002  # the handle knows
        """The target's mailbox was full, and its policy has given the ask up."""
        self.fail(
            MessageDropped(
                f"{self._what()}, asked of {self._target()}, was given up by the overflow policy of its full mailbox"
            )
        )

    def landed(self) -> None:
        """The message that waited for room has it."""
        if self._begin():
            self.future.set_result(None)

    def expire(self) -> None:
        """The deadline has come. From any thread."""
        if self._begin():
            self.handle.asks.count_afar("expired")
            waited = (monotonic() - self.asked_at) * 1000
            self.future.set_exception(
                AskTimeout.of(self._target(), self._what(), waited, depth_of(self.handle.actor))
            )

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            self.handle.asks.count_afar("cancelled")
            call_afar(self.loop, self._withdraw)

    def _withdraw(self) -> None:
        if self.message is not None:
            withdraw(self.handle, self.message)
        interrupt_handler(self.handle.actor, self)

    def _target(self) -> str:
        return repr(self.handle)

    def _what(self) -> str:
        return f"{self.method.owner}.{self.method.name}()"


@final
class FarReply:
    """The answer to an ask that went to another thread's loop, to be awaited on the event loop that asked."""

    __slots__ = ("_inner", "_ms", "_receipt")

    def __init__(self, receipt: FarReceipt, ms: int) -> None:
        self._receipt = receipt
        self._ms = ms
        self._inner: asyncio.Future[Any] = asyncio.wrap_future(receipt.future)
        # Whoever never awaits it does not want to hear of its end either.
        self._inner.add_done_callback(_look)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the answer."""
        inner = self._inner
        if not inner.done() and self._ms >= 0:
            left = self._ms / 1000 - (monotonic() - self._receipt.asked_at)
            timer = inner.get_loop().call_later(max(0.0, left), self._receipt.expire)
            inner.add_done_callback(lambda _future: timer.cancel())
        return (yield from inner)

    def cancel(self) -> bool:
        """Take the ask back."""
        return self._inner.cancel()

    def done(self) -> bool:
        """Whether it has ended."""
        return self._inner.done()


def _look(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def loop_of(handle: Handle) -> Loop:
    """The loop of a handle's actor."""
    # The hot modules know it by a lower storey's name.
    return cast("Loop", handle.loop)


def ask(handle: Handle, method: Method, data: object, ms: int) -> FarReply:
    """Ask from a thread that runs an event loop of its own."""
    if not _is_looping():
        raise LoopBusy(
            f"{method.owner}.{method.name}() was asked on a thread that runs no event loop, where nothing can be awaited: use "
            f"{method.name}.blocking(...) or {method.name}.future(...) there"
        )
    return FarReply(_send(handle, method, data), ms)


def submit(handle: Handle, method: Method, data: object, ms: int) -> Future[Any]:
    """Ask from any thread; a future."""
    receipt = _send(handle, method, data)
    if ms >= 0:
        call_afar(receipt.loop, partial(_set_deadline, receipt, ms))
    return receipt.future


def block(handle: Handle, method: Method, data: object, ms: int) -> Any:
    """Ask from a plain thread, and wait there."""
    if _is_looping() or not is_afar(handle):
        raise LoopBusy(
            f"{method.name}.blocking() would block a thread that has a loop to run, and may wait for itself: use "
            f"`await handle.{method.name}(...)` there"
        )
    receipt = _send(handle, method, data)
    try:
        return receipt.future.result(None if ms < 0 else ms / 1000)
    except TimeoutError:
        receipt.expire()
        return receipt.future.result()
    except CancelledError:
        raise
    except BaseException:
        # Ctrl-C: nobody waits any more.
        receipt.future.cancel()
        raise


def land(handle: Handle, method: Method, data: object) -> FarReply:
    """Send a one-way message from another event loop as soon as there is room."""
    if not _is_looping():
        raise LoopBusy(f"{method.name}.when_room() is to be awaited, and this thread runs no event loop")
    receipt = FarReceipt(handle, method)
    call_afar(receipt.loop, partial(_land, receipt, data))
    return FarReply(receipt, -1)


def _land(receipt: FarReceipt, data: object) -> None:
    if receipt.is_withdrawn():
        return
    try:
        receipt.message = wait_for_room(receipt.handle, receipt.method, data, receipt)
    except Exception as error:  # noqa: BLE001  # whatever is wrong is the sender's to hear
        receipt.fail(error)


def _send(handle: Handle, method: Method, data: object) -> FarReceipt:
    receipt = FarReceipt(handle, method)
    post_afar(handle, method, packed(handle, method, data), receipt)
    handle.asks.count_afar("asked")
    return receipt


def _set_deadline(receipt: FarReceipt, ms: int) -> None:
    if receipt.future.done():
        return
    cancel: Callable[[], None] = call_after(receipt.loop, ms, receipt.expire)
    receipt.future.add_done_callback(lambda _future: call_afar(receipt.loop, cancel))


def _is_looping() -> bool:
    return asyncio._get_running_loop() is not None
