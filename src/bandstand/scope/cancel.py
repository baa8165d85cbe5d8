"""A cancel token: the wish that something end, which tasks, threads and busy functions can look at, wait for and hand on.

asyncio cancels one task, by throwing into it at an await: a busy function sees nothing of that, nor does another thread, and nobody is
told why. A token is asked, or waited with. How the tree of them works, and why it keeps nothing, is in `branch`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, NoReturn, cast, final

from bandstand.core import Loop
from bandstand.errors import Cancelled, InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.scope.alarm import Deadline, rouse_event_loop
from bandstand.scope.branch import Branch, Ending, Listener
from bandstand.scope.checks import checked_ms
from bandstand.scope.guard import Guard
from bandstand.scope.latch import Wait
from bandstand.scope.listeners import Bell, Errand

if TYPE_CHECKING:
    from bandstand.scope.latch import Latch

__all__ = ("CancelToken", "Listener")

_numbers = count(1)


@final
class CancelToken(Branch):
    """May be cancelled, once, by anybody; and with it all of its children, never the other way round.

        token = CancelToken(timeout_ms=500)
        order = await orders.receive(token=token)       # Cancelled, when the token is

    All of it can be used from any thread, and from plain functions. A token that nobody listens to any more is ordinary garbage,
    deadline and all, however long its parent lives.

    Args:
        parent: with whom it is cancelled as well.
        timeout_ms: after how long it is cancelled by itself; 0 for at once, None for never.
        loop: by whose clock; if None, that of the loop that rides the running event loop, else that of this event loop. Children
            that are made where there is neither go by it, too.

    Raises:
        InvalidArgument: an argument has no sense, or there is nobody to keep the time.
        LoopClosed: the loop that should was asked to stop.
    """

    __slots__ = ("__weakref__", "_loop")

    def __init__(
        self, parent: CancelToken | None = None, *, timeout_ms: float | None = None, loop: Loop | None = None
    ) -> None:
        if hasattr(self, "_loop"):
            # A second parent could be a child of this token, and looking up the tree would never end.
            raise InvalidArgument(f"{self!r} was initialised before: create another token")
        if parent is not None and not isinstance(parent, CancelToken):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"parent is {safe_repr(parent)}: pass a CancelToken, or None")
        if loop is not None and not isinstance(loop, Loop):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgument(
                f"loop is {safe_repr(loop)}: pass a Loop, or None for the one that runs here"
            )
        # Who keeps the time of children that are made where nobody does.
        self._loop: Loop | None = loop
        if loop is None and parent is not None:
            self._loop = parent._loop  # noqa: SLF001  # one of its own class
        deadline = None if timeout_ms is None else Deadline(checked_ms(timeout_ms), loop, self._loop)
        super().__init__(parent, next(_numbers), deadline)

    def child(self, timeout_ms: float | None = None) -> CancelToken:
        """A token that is cancelled with this one, and can be cancelled by itself.

        Raises:
            InvalidArgument, LoopClosed: as for a new token.
        """
        return CancelToken(self, timeout_ms=timeout_ms)

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Its serial number in this process, from 1 on."""
        return self._number

    @property
    def cancelled(self) -> bool:
        """Whether it is cancelled: by somebody, by its deadline, or with one above it. True at once, wherever it is read."""
        return self._look() is not None

    @property
    def reason(self) -> str | None:
        """Why it was cancelled, in words; None if it was not. Never changes."""
        ending = self._look()
        return None if ending is None else ending.reason

    @property
    def cause(self) -> BaseException | None:
        """The exception it was cancelled with; a `TimeoutError` if it was a deadline; None if there is none.

        The token of a scope has the error that has cancelled the scope until the scope is over: its block raises it then.
        """
        ending = self._look()
        return None if ending is None else ending.cause

    @property
    def origin(self) -> int | None:
        """The number of the token that was cancelled first, from which it came down to this one; None if it is not."""
        ending = self._look()
        return None if ending is None else ending.number

    def raise_if_cancelled(self) -> None:
        """Nothing, as long as it is not cancelled: for the loops of busy functions.

        Raises:
            Cancelled: it is.
        """
        if self._look() is not None:
            raise self.error("the work")

    def error(self, what: str) -> Cancelled:
        """The error that says that the cancellation has ended `what`, to be raised. Its `__cause__` is the token's `cause`.

        Raises:
            InvalidArgument: it is not cancelled.
        """
        ending = self._look()
        if ending is None:
            raise InvalidArgument(f"{self!r} is not cancelled: there is no error to raise")
        error = Cancelled.of(what, ending.reason, ending.number)
        error.__cause__ = ending.cause
        return error

    # -- cancelling ----------------------------------------------------------------------------------------------------

    def cancel(self, reason: str | BaseException | None = None) -> bool:
        """Cancel it, and all below it. Whoever listens has been told when this returns True. Signal handlers may do it, too.

        Args:
            reason: why, for people; or the exception it is about.

        Returns:
            Whether this call did it; False if it was cancelled already: the first reason stays.

        Raises:
            InvalidArgument: the reason is no string and no exception.
        """
        is_first = self._end(Ending.of(reason, self._number))
        if is_first:
            rouse_event_loop()
        return is_first

    # -- being told ----------------------------------------------------------------------------------------------------

    def on_cancel(self, callback: Callable[[CancelToken], object]) -> Callable[[], bool]:
        """Have `callback(token)` called exactly once: when it is cancelled, on the thread that does so; now, if it is.

        Functions are called in the order they came, outside of any lock. An exception of theirs is logged; what is no `Exception`,
        KeyboardInterrupt and asyncio's CancelledError among them, is raised by whoever cancels, when all have been told.

        Returns:
            What takes it back: True if it will not be called any more, False if that is too late.

        Raises:
            InvalidArgument: it is no function.
        """
        if not callable(callback):
            raise InvalidArgument(f"callback is {safe_repr(callback)}: pass a function of the token")
        errand = Errand(self, callback)
        self.enlist(errand)
        return errand.take_back

    def wait(self, *, timeout_ms: float | None = None, token: CancelToken | None = None) -> Wait[str]:
        """Wait for its cancellation: `await token.wait()`, or `token.wait().blocking()` on a plain thread. Gives the reason.

        Args:
            timeout_ms: how long to wait at most; 0 for not at all, None for ever.
            token: another one that may end the wait.

        Raises:
            ChannelTimeout: it was not cancelled in time.
            Cancelled: the other token was.
            LoopBusy: `blocking()` on a thread that runs an event loop.
            InvalidArgument: an argument has no sense.
        """
        # A bell is to this wait what a latch is to others.
        return Wait(cast("Latch[str]", Bell(self)), timeout_ms, token, None)

    def guard(self, *, timeout_ms: float | None = None) -> Guard:
        """Have asyncio's own waits obey it: `async with token.guard() as inner:`.

        If the token is cancelled, or the child `inner` that the block is given, the task is cancelled at what it awaits, and the
        block ends with `Cancelled`; after that the task can await as before. If the task itself is cancelled, CancelledError
        goes on, and `inner` is cancelled; if both happen, so it is, too. A block that ends by itself is just over, and `inner` with it.

        Args:
            timeout_ms: after how long `inner` is cancelled by itself.

        Raises:
            Cancelled: the token was cancelled: before, then the block is not entered; or while the block ran.
            InvalidArgument: there is no task here, it was entered before, or an argument has no sense.
        """
        return Guard(self, timeout_ms)

    def __repr__(self) -> str:
        ending = self._look()
        return f"<CancelToken {self._number} {'open' if ending is None else f'cancelled: {ending.reason}'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is one wish in this process, and cannot be pickled or copied")
