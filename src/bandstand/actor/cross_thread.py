"""Asking from another thread.

The message goes the cross-thread way, and the answer comes back through a future of `concurrent.futures`, which is made for
that. Who waits, waits on his own side and by his own clock: a thread in `Future.result`, a coroutine of another event loop by
a timer of that loop, so that both come back in time although the actor's loop may be stuck. Only the deadline of a bare
future, which nobody may be waiting for, is on the wheel of the actor's loop.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, final

from bandstand.actor.crossing import begin_crossing
from bandstand.actor.hot.port import is_afar, post_afar
from bandstand.actor.receipts import FarLanding, FarReceipt
from bandstand.core.lowlevel import call_afar
from bandstand.errors import LoopBusy

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method

__all__ = (
    "FarReply",
    "ask",
    "block",
    "is_in_event_loop",
    "land",
    "refuse_loop_thread",
    "refuse_plain_thread",
    "submit",
)


@final
class FarReply:
    """What will come back from another thread's loop, to be awaited on the event loop that asked."""

    __slots__ = ("_ms", "_receipt", "_waiting")

    def __init__(self, receipt: FarReceipt, ms: int) -> None:
        self._receipt = receipt
        self._ms = ms
        self._waiting = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for it. Several may; when the last of them is cancelled, the ask is taken back."""
        receipt = self._receipt
        if receipt.future.done():
            return _result(receipt.future)
        host = asyncio.get_running_loop()
        mine = host.create_future()
        receipt.future.add_done_callback(partial(_wake, host, mine))
        crossing = begin_crossing(receipt, receipt.method)
        timer: asyncio.TimerHandle | None = None
        if self._ms >= 0:
            left = self._ms / 1000 - (monotonic() - receipt.asked_at)
            timer = host.call_later(max(0.0, left), receipt.expire)
        self._waiting += 1
        try:
            yield from mine
        except BaseException:  # a cancellation, or the end of the event loop: it goes on, we only tidy up
            if self._waiting == 1:
                self.cancel()
            raise
        finally:
            self._waiting -= 1
            if crossing is not None:
                crossing.end()
            if timer is not None:
                timer.cancel()
        return _result(receipt.future)

    def __bool__(self) -> NoReturn:
        raise TypeError("a reply is no answer, and would always be true: await it")

    def result(self) -> Any:
        """What it has ended with."""
        if not self._receipt.future.done():
            raise LoopBusy(f"{self._receipt.handle!r} has not answered yet: await the reply")
        return _result(self._receipt.future)

    def cancel(self) -> bool:
        """Take it back; False if it has ended."""
        return self._receipt.future.cancel()

    def done(self) -> bool:
        """Whether it has ended."""
        return self._receipt.future.done()


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except CancelledError:
        raise asyncio.CancelledError from None


def _wake(host: asyncio.AbstractEventLoop, mine: asyncio.Future[None], _future: Future[Any]) -> None:
    try:
        host.call_soon_threadsafe(_release, mine)
    except RuntimeError:
        # That event loop was closed meanwhile: nobody waits there any more.
        if not host.is_closed():
            raise


def _release(mine: asyncio.Future[None]) -> None:
    if not mine.done():
        mine.set_result(None)


def is_in_event_loop() -> bool:
    """Whether this thread runs an event loop."""
    return asyncio._get_running_loop() is not None


def refuse_plain_thread(name: str) -> None:
    """Refuse to give something to be awaited where nothing can be.

    Raises:
        LoopBusy: this thread runs no event loop.
    """
    if asyncio._get_running_loop() is None:
        raise LoopBusy(
            f"{name}() is to be awaited, and this thread runs no event loop: use {name}.blocking(...) or {name}.future(...) here"
        )


def refuse_loop_thread(handle: Handle, name: str) -> None:
    """Refuse to block a thread that has better things to do.

    Raises:
        LoopBusy: this thread runs an event loop, or owns the loop of the handle's actor.
    """
    # A loop that is closed is nobody's: its thread may have ended, and this one have got its number. Nor is it anybody's whom a
    # place waits for.
    place = handle._bs_place
    is_nobodys = handle._bs_loop._closed or (
        place is not None and place.is_patient and not handle._bs_actor.is_alive
    )
    if asyncio._get_running_loop() is not None or not (is_nobodys or is_afar(handle)):
        raise LoopBusy(
            f"{name}.blocking() would block a thread that has a loop to run, and may wait for itself: use "
            f"`await handle.{name}(...)` here"
        )


def ask(handle: Handle, method: Method, data: object, ms: int) -> FarReply:
    """Ask from a thread that runs an event loop of its own."""
    refuse_plain_thread(method.name)
    return FarReply(_send(handle, method, data, ms), ms)


def submit(handle: Handle, method: Method, data: object, ms: int) -> Future[Any]:
    """Ask from any thread; a future."""
    receipt = _send(handle, method, data, ms, is_bare=True)
    # One that waits for somebody to come is told when he has.
    if receipt.actor.is_alive:
        receipt.set_deadline()
    return receipt.future


def block(handle: Handle, method: Method, data: object, ms: int) -> Any:
    """Ask from a plain thread, and wait there."""
    refuse_loop_thread(handle, method.name)
    receipt = _send(handle, method, data, ms, may_wait=True)
    try:
        # Somebody may have had to come first.
        return receipt.future.result(None if ms < 0 else receipt.left_ms / 1000)
    except TimeoutError:
        # Ours, or the answer itself: if it has ended meanwhile, what it ended with counts.
        receipt.expire()
        return receipt.future.result()
    except BaseException:  # Ctrl-C: nobody waits any more
        receipt.future.cancel()
        raise


def land(handle: Handle, method: Method, data: object) -> FarReply:
    """Send a one-way message from another event loop as soon as there is room."""
    refuse_plain_thread(f"{method.name}.when_room")
    landing = FarLanding(handle, method)
    call_afar(landing.loop, partial(landing.send, data, copy_context()))
    return FarReply(landing, -1)


def _send(
    handle: Handle, method: Method, data: object, ms: int, *, may_wait: bool = False, is_bare: bool = False
) -> FarReceipt:
    receipt = FarReceipt(handle, method, ms, is_bare=is_bare)
    # Counted before it is sent: the answer may be there before we are back.
    handle._bs_asks.count_afar("asked")
    try:
        post_afar(handle, method, data, receipt, may_wait)
    except BaseException:  # whatever it is, it was not asked
        handle._bs_asks.count_afar("asked", -1)
        raise
    # Another incarnation may have taken it; one that waits for somebody to come is told when he has.
    if handle._bs_actor.is_alive:
        receipt.actor = handle._bs_actor
    return receipt
