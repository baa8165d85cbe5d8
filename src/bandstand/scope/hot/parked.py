"""Somebody who waits: a task or a thread, for one thing, to be woken once, by anybody, from any thread.

The problem. A channel is used by tasks of one event loop, of several, and by threads that have none. Whoever brings about
what another waits for must not care who that is.

The choice. One object is the operation, the thing to be awaited, and the place in the line, so that a wait costs one
allocation more than no wait: a future of the event loop, or a lock for a thread. Its `state` leaves WAITING exactly once,
inside a critical section: whoever made it do so wakes it. A deadline, a token, a close and a partner may all come at the same
moment; one of them wins, and the others see that.

Critical sections. Compiled, one is a run of C under the interpreter's lock that makes nothing the collector would look at, and gives
nothing back to the memory: then no other thread and no finalizer comes in between, and no lock of ours is needed. Interpreted, it is a block
under `LOCK`, one for all channels, since a choice between several channels changes all of them at once.

Cancellation from outside. asyncio throws it in at the wait, maybe after the wait has been won and before its task had its
turn. Then what was received goes back to where it came from: `abandon`.
"""

# PyThread_get_thread_ident comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from _thread import RLock, allocate_lock
from asyncio import Future, get_running_loop
from time import monotonic
from typing import Any, NoReturn, Self, TypeAlias

from bandstand.errors import InvalidArgument
from bandstand.scope.alarm import refuse_loop_thread, set_alarm
from bandstand.scope.numbers import CANCELLED, EXPIRED, FOREVER, FRESH, LEFT, WAITING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

Milliseconds: TypeAlias = float
State: TypeAlias = int

# Reentrant: a signal handler or a finalizer may use a channel while its own thread is using one.
LOCK = RLock()
# Seconds that a thread sleeps at least, if it is its token's deadline that it sleeps for.
SHORTEST = 0.001


class Parked:
    """One operation that may have to wait. To be awaited once, or to be waited for with `blocking()`, once."""

    __slots__ = ("alarm", "future", "host", "latch", "ms", "state", "thread", "token")

    def __init__(self) -> None:
        self.state: State = FRESH
        # How long to wait at most; below 0 for ever.
        self.ms: Milliseconds = FOREVER
        self.token: Any = None
        self.alarm: Any = None
        # Where a task waits: its event loop, the thread of that, and its future.
        self.host: Any = None
        self.future: Any = None
        self.thread: State = 0
        # Where a thread waits.
        self.latch: Any = None

    # -- what the kinds fill in ----------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Do it at once; False if that cannot be."""
        raise NotImplementedError  # the kinds of operations do

    def stand(self) -> bool:
        """Do it at once, or join the line: then it is WAITING. Whether it is over."""
        raise NotImplementedError  # the kinds of operations do

    def leave(self, state: State) -> bool:
        """Leave the line, if it still stands there; whether it did."""
        raise NotImplementedError  # the kinds of operations do

    def give_back(self) -> None:
        """It has been done, and nobody is there any more to take the result: undo what can be undone."""
        raise NotImplementedError  # the kinds of operations do

    def finish(self) -> Any:
        """The result, or an error that is raised. Once."""
        raise NotImplementedError  # the kinds of operations do

    # -- waiting -------------------------------------------------------------------------------------------------------

    def __await__(self) -> Self:
        """Wait for it as a task does."""
        if self.state != FRESH:
            raise self.refused_again()
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Do it, or have the task wait; called again when that is over.

        It is its own iterator, and no generator: one is made for every element, and half of them are over at once.
        """
        if self.state == FRESH:
            if self.token is not None and self.token.cancelled:
                self.state = CANCELLED
            elif not self.begin():
                future = self.park()
                if future is not None:
                    return future
        elif self.state == WAITING:
            # Not its future has sent it on. It must not stay in the line, where an element would be handed to nobody.
            self.close()
            raise InvalidArgument(
                f"{self!r} still waits: only the event loop can go on with it, when that is over"
            )
        elif self.future is not None:
            self.disarm()
        value = self.finish()
        if not cython.compiled:
            raise StopIteration(value)
        if value is not None:  # type: ignore[unreachable]  # to the checkers
            return_value(value)  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # C's, in the .pxd
        raise StopIteration

    def send(self, _nothing: None) -> Any:
        """What a generator has: go on."""
        return self.__next__()

    def throw(self, first: Any, *rest: Any) -> NoReturn:
        """The task was cancelled while it waited: it goes on with that, and we only tidy up."""
        self.close()
        raise first if isinstance(first, BaseException) else first(*rest[:1])

    def close(self) -> None:
        """The task is gone."""
        self.disarm()
        self.abandon()

    def park(self) -> Any:
        """Have the task wait: the future to wait for; None if it is over after all."""
        if self.ms == 0:
            self.state = EXPIRED
            return None
        host = get_running_loop()
        future: Future[None] = Future(loop=host)
        self.host = host
        self.future = future
        self.thread = PyThread_get_thread_ident()
        if self.stand():
            return None
        if self.token is not None or self.ms > 0:
            try:
                self.arm()
            except BaseException:  # there is no memory, or no such loop: nobody will wait
                self.close()
                raise
            if self.state != WAITING:
                self.disarm()
                return None
        # What `yield from future` does, without an iterator in between.
        future._asyncio_future_blocking = True
        return future

    def blocking(self) -> Any:
        """Wait for it on a plain thread, by the machine's own clock.

        Raises:
            LoopBusy: this thread runs an event loop.
        """
        _same = self.__await__()
        refuse_loop_thread()
        if self.token is not None and self.token.cancelled:
            self.state = CANCELLED
        elif not self.begin():
            if self.ms == 0:
                self.state = EXPIRED
            else:
                self.block()
        return self.finish()

    def block(self) -> None:
        """Wait, on a plain thread, until it is over."""
        latch = allocate_lock()
        latch.acquire()
        self.latch = latch
        until = monotonic() + self.ms / 1000
        if self.stand():
            return
        try:
            if self.token is not None:
                self.token.enlist(self)
            while not latch.acquire(True, self.patience(until)):  # noqa: FBT003  # the lock's own signature
                # Whoever keeps the token's deadline may be busy, or driven by nobody: so it is looked at from here as well.
                if self.token is not None and self.token.cancelled:
                    self.leave(CANCELLED)
                    break
                if self.ms >= 0 and monotonic() >= until:
                    self.leave(EXPIRED)
                    break
        except BaseException:  # Ctrl-C: it goes on, nobody waits any more
            self.abandon()
            raise
        finally:
            if self.token is not None:
                self.token.dismiss(self)

    def patience(self, until: float) -> float:
        """For how many seconds a thread may sleep before it must look again; -1 for ever."""
        seconds = -1.0
        if self.ms >= 0:
            seconds = max(0.0, until - monotonic())
        due = None if self.token is None else self.token.left_ms()
        if due is not None and (seconds < 0 or due / 1000 < seconds):
            # Not for nothing, over and over: the clock may be one that moves only when told to.
            seconds = max(SHORTEST, due / 1000)
        return seconds

    def arm(self) -> None:
        """Have the deadline and the token end the wait."""
        if self.token is not None:
            self.token.enlist(self)
        if self.ms > 0:
            self.alarm = set_alarm(self.ms, self.expire)

    def disarm(self) -> None:
        """Have them forget it."""
        self.future = None
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        if self.token is not None:
            self.token.dismiss(self)

    # -- what ends it --------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """The deadline has come."""
        if self.leave(EXPIRED):
            self.wake()

    def interrupt(self) -> None:
        """The token was cancelled. From any thread."""
        if self.leave(CANCELLED):
            self.wake()

    def abandon(self) -> None:
        """Nobody waits any more. What it has got nevertheless goes back."""
        if not self.leave(LEFT):
            self.give_back()

    def wake(self) -> None:
        """Have whoever waits go on. Called once, by whoever made it leave WAITING, from any thread."""
        latch = self.latch
        if latch is not None:
            latch.release()
            return
        future = self.future
        if future is None:
            return
        try:
            if PyThread_get_thread_ident() == self.thread:
                if not future.done():
                    future.set_result(None)
            else:
                self.host.call_soon_threadsafe(self.release)
        except RuntimeError:
            # That event loop was closed: nobody waits there any more.
            if not self.host.is_closed():
                raise
            self.abandon()

    def release(self) -> None:
        """The same, on the thread of the task that waits."""
        future = self.future
        if future is not None and not future.done():
            future.set_result(None)

    def is_gone(self) -> bool:
        """Whether the task that waits has been cancelled, and does not know yet."""
        future = self.future
        return future is not None and bool(future.done())

    def is_lost(self) -> bool:
        """Whether the event loop was closed in which a task waits."""
        host = self.host
        return host is not None and bool(host.is_closed())

    # -- misuse --------------------------------------------------------------------------------------------------------

    def refused_again(self) -> BaseException:
        """The error for whoever waits a second time."""
        return InvalidArgument(f"{self!r} can be waited for once: make another one")

    def __bool__(self) -> bool:
        if self.state != FRESH:
            # Somebody has awaited it. asyncio asks this of what a task runs, to show the task.
            return True
        raise TypeError(f"{self!r} has not happened yet, and would always be true: await it")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is one wait in this process, and cannot be pickled or copied")
