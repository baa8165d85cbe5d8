"""Deadlines: on the wheel of the loop that rides the running event loop, or on the event loop itself if none does.

A wheel costs a tenth of what the event loop's own timers do, and keeps nothing of those that are taken back. If its loop ends
first, the event loop goes on with what is left of the time: every wait has an end. One that does not run at the moment does so
when it runs again; only one that is closed, or is about to be, since it was made by that loop, keeps no time.

An `Alarm` is for the thread it is set on. A `Deadline` is a moment that anybody may look at, and that has a timer just while
somebody wants to be told: wants come from any thread, the timer is set and taken back on the thread of whoever keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import ceil
from threading import current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, final

from bandstand.core.lifelines import current_loops, owns
from bandstand.core.logs import SafeLogger
from bandstand.core.lowlevel import call_afar, call_after, check_thread, clock_of, is_open
from bandstand.errors import InvalidArgument, LoopBusy, LoopClosed, WrongThread

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = (
    "Alarm",
    "Deadline",
    "event_loop_here",
    "refuse_loop_thread",
    "rouse_event_loop",
    "set_alarm",
    "wheel_here",
)

logger = SafeLogger("bandstand.scope")

# Whether anybody wants to be told; and who tells, with a reason: from then on nobody does.
IsHeard: TypeAlias = Callable[[], bool]
Expire: TypeAlias = Callable[[str], object]


def wheel_here() -> Loop | None:
    """A loop that rides the running event loop and turns; None if there is none."""
    for loop in current_loops():
        if is_open(loop):
            return loop
    return None


def event_loop_here() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread; None if none does."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def rouse_event_loop() -> None:
    """Have this thread's event loop look again: a signal handler that comes while it sleeps does not end its sleep."""
    host = event_loop_here()
    if host is not None and current_thread() is main_thread() and asyncio.current_task(host) is None:
        host.call_soon_threadsafe(_nothing)


def _nothing() -> None:
    pass


def refuse_loop_thread() -> None:
    """Refuse to block a thread that has an event loop to run.

    Raises:
        LoopBusy: it has.
    """
    if event_loop_here() is not None:
        raise LoopBusy(
            "blocking() would block a thread that runs an event loop, and may wait for itself: use `await` here"
        )


@final
class Alarm:
    """A function that is called once, later, on the thread it was set on; unless it is taken back."""

    __slots__ = ("_cancel", "_host", "_ring", "_when")

    def __init__(self, ms: float, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._host = asyncio.get_running_loop()
        self._when = self._host.time() + ms / 1000
        loop = wheel_here()
        self._cancel: Callable[[], object]
        if loop is None:
            self._cancel = self._host.call_at(self._when, ring).cancel
        else:
            self._cancel = call_after(loop, ceil(ms), ring, self._inherit)

    def cancel(self) -> None:
        """Take it back. Nothing happens if it has rung."""
        self._cancel()

    def _inherit(self) -> None:
        # It may well pause: what waits on it does so, too.
        if not self._host.is_closed():
            self._cancel = self._host.call_at(self._when, self._ring).cancel


def set_alarm(ms: float, ring: Callable[[], object]) -> Alarm:
    """Have a function called in `ms` milliseconds, never earlier, by the clock of whoever keeps the time."""
    return Alarm(ms, ring)


@final
class Deadline:
    """A moment, `ms` milliseconds from now by the clock of whoever keeps it.

    Args:
        ms: checked.
        loop: who keeps it; None for the loop that rides the running event loop, else that event loop.
        otherwise: who does if there is neither.

    Raises:
        InvalidArgument: there is nobody.
        LoopClosed: the loop was asked to stop.
    """

    __slots__ = ("_cancel", "_due", "_host", "_is_busy", "_is_owned", "_is_posted", "_loop", "_ms", "_now")

    def __init__(self, ms: float, loop: Loop | None, otherwise: Loop | None) -> None:
        host = event_loop_here()
        if loop is None:
            loop = wheel_here()
            if loop is None and host is None:
                loop = otherwise
        if loop is not None and not is_open(loop):
            raise LoopClosed(
                "the loop that would keep the deadline is closed: it was asked to stop, or was destroyed"
            )
        if loop is not None:
            self._now = clock_of(loop)
        elif host is not None:
            self._now = _clock_of_host(host)
        else:
            raise InvalidArgument(
                f"timeout_ms is {ms:g}, but nobody keeps the time here: pass loop=, or make the token where an event loop runs"
            )
        self._ms = ms
        self._due = self._now() + ms
        self._loop = loop
        self._host = host
        # Whether the event loop ends with the loop.
        self._is_owned = loop is not None and host is not None and owns(loop, host)
        # What takes the timer back; None while there is none. Keeper's thread only, to look at from any.
        self._cancel: Callable[[], object] | None = None
        self._is_busy = False
        self._is_posted = False

    @property
    def is_over(self) -> bool:
        """Whether the moment has come, by the clock. From any thread, even if the keeper is busy."""
        return self._now() >= self._due

    @property
    def left_ms(self) -> float:
        """How long it is until then, by that clock; below 0 if it has come."""
        return self._due - self._now()

    @property
    def reason(self) -> str:
        """What to say then."""
        return f"its deadline of {self._ms:g} ms has passed"

    def tend(self, is_heard: IsHeard, expire: Expire) -> None:
        """Have a timer just while somebody wants to be told. From any thread, after any change of that.

        It goes on until that is so, since others, and finalizers, may change their mind meanwhile; whoever finds it at work can
        rely on it to look again.
        """
        if self._loop is None and self._host is not None and self._host.is_closed():
            # A timer there rings no more.
            self._cancel = None
        while not self._is_busy and (self._cancel is not None) != is_heard():
            loop = self._loop
            if loop is not None and not is_open(loop):
                if self._cancel is not None:
                    # The heir will come, and see to it.
                    return
                self._loop = None
            if not self._is_here() and self._post(is_heard, expire):
                return
            self._is_busy = True
            try:
                if self._cancel is None:
                    self._cancel = self._set(is_heard, expire)
                else:
                    cancel, self._cancel = self._cancel, None
                    cancel()
            finally:
                self._is_busy = False

    def _set(self, is_heard: IsHeard, expire: Expire) -> Callable[[], object] | None:
        # Rounded to nanoseconds: what is left of 50 ms at once must not be a hair more.
        left = max(0, ceil(round(self._due - self._now(), 6)))
        loop = self._loop
        if loop is not None:
            return call_after(
                loop, left, partial(self._ring, expire), partial(self._inherit, is_heard, expire)
            )
        if self._host is not None and event_loop_here() is self._host:
            return self._host.call_later(left / 1000, self._ring, expire).cancel
        expire("the loop that kept its deadline has ended")
        return None

    def _ring(self, expire: Expire) -> None:
        self._cancel = None
        expire(self.reason)

    def _inherit(self, is_heard: IsHeard, expire: Expire) -> None:
        """The loop has ended. Called inside its end, where nothing may be raised."""
        self._cancel = None
        self._loop = None
        try:
            self.tend(is_heard, expire)
        except BaseException:  # what listens may raise anything, and must not keep the loop from its end
            logger.exception("%r raised at the end of the loop that kept a deadline", expire)

    def _is_here(self) -> bool:
        """Whether this is the thread of whoever keeps it."""
        loop = self._loop
        if loop is None:
            return event_loop_here() is self._host
        try:
            check_thread(loop)
        except WrongThread:
            return False
        return True

    def _post(self, is_heard: IsHeard, expire: Expire) -> bool:
        """Have it tended on the keeper's thread; False if there is no keeper any more."""
        loop, host = self._loop, self._host
        if loop is None and (host is None or host.is_closed() or (self._is_owned and not host.is_running())):
            return False
        if self._is_posted:
            return True
        self._is_posted = True
        arrive = partial(self._arrive, is_heard, expire)
        if loop is not None:
            call_afar(loop, arrive)
            return True
        assert host is not None
        try:
            host.call_soon_threadsafe(arrive)
        except RuntimeError:
            # It was closed this very moment.
            self._is_posted = False
            return False
        return True

    def _arrive(self, is_heard: IsHeard, expire: Expire) -> None:
        self._is_posted = False
        self.tend(is_heard, expire)


def _clock_of_host(host: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """What tells an event loop's time in milliseconds, for every thread and for ever.

    Where that is the machine's clock, it is asked itself: uvloop's `time()` rounds down, and changes the event loop as it is read.
    """
    kind = type(host)
    if (
        getattr(kind, "time", None) is asyncio.BaseEventLoop.time
        or kind.__module__.partition(".")[0] == "uvloop"
    ):
        return lambda: monotonic() * 1000
    return lambda: host.time() * 1000
