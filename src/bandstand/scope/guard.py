"""Where a token meets asyncio: a block whose task is cancelled when the token is.

What asyncio.timeout does for a deadline, with the same bookkeeping: each `cancel()` of ours is taken back by one `uncancel()`, and only
if none is left that was not there before was it ours alone. One that was there before, but has not been raised yet, counts as
one that comes meanwhile: asyncio.timeout takes it for its own, and loses it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, final

from bandstand.errors import InvalidArgument
from bandstand.scope.alarm import event_loop_here

if TYPE_CHECKING:
    from bandstand.scope.token import CancelToken

__all__ = ("Guard",)


@final
class Guard:
    """The block of `async with token.guard() as inner:`. To be entered once."""

    __slots__ = (
        "_before",
        "_has_struck",
        "_host",
        "_inner",
        "_is_over",
        "_task",
        "_thread",
        "_timeout_ms",
        "_token",
    )

    def __init__(self, token: CancelToken, timeout_ms: float | None) -> None:
        self._token = token
        self._timeout_ms = timeout_ms
        self._inner: CancelToken | None = None
        self._is_over = False
        self._has_struck = False

    async def __aenter__(self) -> CancelToken:
        """Begin: the child to be used in the block."""
        if self._inner is not None:
            raise InvalidArgument("a guard can be entered once: call guard() again")
        host = event_loop_here()
        task = None if host is None else asyncio.current_task(host)
        if host is None or task is None:
            raise InvalidArgument("a guard needs a task to cancel, and there is none here")
        if self._token.cancelled:
            raise self._token.error("the block")
        self._task = task
        self._host = host
        self._thread = get_ident()
        # One that is on its way still will arrive in the block, or after it: like those that come meanwhile, it is none of ours.
        # If it was taken back already it is nobody's; before Python 3.13 it is on its way all the same.
        self._before = max(0, task.cancelling() - getattr(task, "_must_cancel", False))
        inner = self._inner = self._token.child(self._timeout_ms)
        inner.enlist(self)
        return inner

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: our own cancellation becomes `Cancelled`, anybody else's goes on.

        Raises:
            Cancelled: the token has ended the block.
        """
        inner = self._inner
        assert inner is not None
        # Whatever comes from now on comes too late.
        self._is_over = True
        error = raised
        is_ours = self._has_struck and self._task.uncancel() <= self._before
        if is_ours and getattr(self._task, "_must_cancel", False):
            error = await self._swallow(error)
            is_ours = self._task.cancelling() <= self._before
        was_cancelled = isinstance(error, asyncio.CancelledError)
        ended = inner.error("the block") if is_ours and was_cancelled else None
        inner.cancel("the task was cancelled" if was_cancelled else "the block is over")
        try:
            if ended is not None:
                raise ended from ended.__cause__ or error
            if error is not None and error is not raised:
                raise error
        finally:
            # No cycle of error, traceback and frame.
            del ended, error, raised

    async def _swallow(self, error: BaseException | None) -> BaseException | None:
        """Meet the cancellation that the block has not awaited anything since: it would come at the next await, far from here.

        Before Python 3.13 uncancel() does not take it back. What the block ends with; a cancellation by others that came with it.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as late:
            if self._task.cancelling() > self._before:
                return late
        return error

    def interrupt(self) -> None:
        """The token was cancelled. From any thread."""
        if get_ident() == self._thread:
            self._strike()
            return
        with suppress(RuntimeError):  # that event loop was closed: nobody is left to be cancelled
            self._host.call_soon_threadsafe(self._strike)

    def _strike(self) -> None:
        """Cancel the task, if it is still in the block. Called once, as whoever listens is told once."""
        if self._is_over:
            return
        self._has_struck = True
        assert self._inner is not None
        self._task.cancel(f"its token was cancelled: {self._inner.reason}")
