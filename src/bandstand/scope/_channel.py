"""Channels without types: buffered elements, and the operations that wait on both sides.

    senders ──▶ [ first … buffer … last ] ──▶ receivers

**Invariants.** Between two critical sections, receivers wait only while the buffer is empty and no sender
waits; senders wait only while the buffer is full. So a send hands its element to the first receiver, or puts
it into the buffer, or queues; a receive takes the oldest element, and the first waiting sender moves into the
buffer. Both queues are FIFO.

**Waiting.** Tasks of any event loop and plain threads wait in the same queues. One object (`ChannelOp`) is
the operation, the awaitable and the queue entry, so waiting costs one more allocation: a future for a task, a
lock for a thread. `Waiter.state` leaves WAITING exactly once, inside a critical section, and the code that
changed it wakes the waiter. A timeout, a token, `close()` and a partner may race: one wins, and the others
see that the state has changed.

**Critical sections.** Methods whose names end in `_locked` run inside one. Compiled, a critical section is C
code that holds the GIL, allocates nothing that the garbage collector tracks, and drops no reference that
could run a finalizer: no other thread and no finalizer can run in the middle of it, and no lock is needed.
Interpreted, it is a block under `LOCK`. There is one lock for all channels, because a select changes several
channels at once. Waking runs foreign code, so operations that were completed wait in `ChannelCore.completed`
and are woken after the critical section. Code that allocates also runs outside, and checks again inside.

**Cancellation.** asyncio may cancel a task after its receive was completed and before the task has run. Its
element then returns to the front of the channel (`Waiter.abandon`). Several returned elements keep the order
in which they were sent, by serial number, and the channel may then hold more than its capacity. No element is
lost or delivered twice.
"""

# PyThread_get_thread_ident is defined either here or in the .pxd; the checker sees only one of the two.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from _thread import RLock, allocate_lock
from asyncio import Future, get_running_loop
from enum import IntEnum
from time import monotonic
from typing import Any, Final, NoReturn, Self, TypeAlias
from warnings import warn

from bandstand.errors import ChannelClosedError, ChannelTimeoutError, InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_ms
from bandstand.scope.deadline import DelayedCall, check_may_block

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is a C function, declared in the .pxd.
    from threading import get_ident as PyThread_get_thread_ident

Count: TypeAlias = int
Milliseconds: TypeAlias = float
State: TypeAlias = int


class WaitState(IntEnum):
    """The state of a wait.

    It is FRESH until it is awaited, and after WAITING it changes once more, never back.
    """

    FRESH = 0
    WAITING = 1
    DONE = 2
    CLOSED = 3
    """The channel was closed."""
    EXPIRED = 4
    """The timeout has passed."""
    CANCELLED = 5
    """The token was cancelled."""
    LEFT = 6
    """The waiting task was cancelled, or the operation was part of a select that has ended."""
    SPENT = 7
    """The result was taken."""


# The same as C integers.
FRESH: State = WaitState.FRESH.value
WAITING: State = WaitState.WAITING.value
DONE: State = WaitState.DONE.value
CLOSED: State = WaitState.CLOSED.value
EXPIRED: State = WaitState.EXPIRED.value
CANCELLED: State = WaitState.CANCELLED.value
LEFT: State = WaitState.LEFT.value
SPENT: State = WaitState.SPENT.value
# Returned by `push_locked` if the buffer must grow first.
MUST_GROW: State = -1

SEND = True
RECEIVE = False

# Returned instead of an element: there is none now; there will never be one. Objects, because an element can
# be anything.
EMPTY: Any = object()
END: Any = object()

# Timeouts are milliseconds; a negative one is no timeout.
NO_TIMEOUT: Milliseconds = -1.0
# A thread that waits for the deadline of its token sleeps at least this long at a time.
MIN_SLEEP: float = 0.001

# The capacity of a channel that is never full; and the same as a C integer.
UNLIMITED: Final[int] = -1
NEVER_FULL: Count = UNLIMITED

MIN_BUFFER_SIZE: Count = 4
# A buffer that has grown beyond this is shrunk when it is empty.
SHRINK_ABOVE: Count = 256

# Reentrant: a signal handler or a finalizer may use a channel while its thread is inside a critical section.
LOCK = RLock()


# -- arguments -------------------------------------------------------------------------------------------------


def checked_ms(timeout: Any, name: str = "timeout") -> Milliseconds:
    """Return a timeout in milliseconds. `name` is the name of the argument, for the error.

    Raises:
        InvalidArgumentError: it is not a duration from 0 to a hundred years.
    """
    return to_ms(name, timeout, otherwise=", 0 to not wait, or None for no limit")


def check_token(token: Any) -> None:
    """Check that this is a cancel token.

    Raises:
        InvalidArgumentError: it is not.
    """
    if not hasattr(token, "add_listener"):
        raise InvalidArgumentError(f"token is {safe_repr(token)}: pass a CancelToken, or None")


# -- waiting ---------------------------------------------------------------------------------------------------


class Waiter:
    """One operation that may have to wait.

    It can be used once: awaited by a task, or called with `blocking()` on a thread.

    Abstract: `try_now`, `enqueue`, `withdraw`, `undo` and `result` are defined by each kind of wait.
    """

    __slots__ = ("future", "host", "state", "thread_id", "thread_lock", "timeout_ms", "timer", "token")

    def __init__(self) -> None:
        self.state: State = FRESH
        self.timeout_ms: Milliseconds = NO_TIMEOUT
        self.token: Any = None
        self.timer: Any = None
        # Of a task that waits: its event loop, its future and its thread.
        self.host: Any = None
        self.future: Any = None
        self.thread_id: Count = 0
        # Of a thread that waits: the lock it is blocked on.
        self.thread_lock: Any = None

    # -- defined by each kind of wait

    def try_now(self) -> bool:
        """Complete the operation without waiting; return False if that is not possible."""
        raise NotImplementedError  # each kind of wait defines it

    def enqueue(self) -> bool:
        """Complete the operation, or queue it: then it is WAITING. Return whether it is complete."""
        raise NotImplementedError  # each kind of wait defines it

    def withdraw(self, state: State) -> bool:
        """Leave the queue and change to `state`, if it is still WAITING; return whether it was."""
        raise NotImplementedError  # each kind of wait defines it

    def undo(self) -> None:
        """Undo what can be undone: the operation was completed, but no one will take the result."""
        raise NotImplementedError  # each kind of wait defines it

    def result(self) -> Any:
        """Return the result, or raise the error. Called once."""
        raise NotImplementedError  # each kind of wait defines it

    # -- a task waits

    def __await__(self) -> Self:
        """Wait in a task."""
        if self.state != FRESH:
            raise self.already_used()
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Complete the operation or make the task wait; the task calls it again after the wait.

        The waiter is its own iterator instead of a generator: one is made per element, and many never wait.
        """
        if self.state == FRESH:
            if self.token is not None and self.token.cancelled:
                self.state = CANCELLED
            elif not self.try_now():
                future = self.suspend()
                if future is not None:
                    return future
        elif self.state == WAITING:
            # It was resumed by something other than its future. It must leave the queue, or an element could
            # be lost.
            self.close()
            raise InvalidArgumentError(
                f"{self!r} is still waiting: only the event loop can resume it, when the wait is over"
            )
        elif self.future is not None:
            self.disarm()
        value = self.result()
        if not cython.compiled:
            raise StopIteration(value)
        if value is not None:  # type: ignore[unreachable]  # to the checkers
            return_value(value)  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  # C, in the .pxd
        raise StopIteration

    def send(self, _value: None) -> Any:
        """Resume, as a generator's `send`."""
        return self.__next__()

    def throw(self, first: Any, *rest: Any) -> NoReturn:
        """Clean up and raise, as a generator's `throw`: the task was cancelled while it waited."""
        self.close()
        error = first if isinstance(first, BaseException) else first(*rest[:1])
        try:
            raise error
        finally:
            # The traceback of the error holds this frame: no reference cycle.
            del error, first, rest

    def close(self) -> None:
        """Clean up, as a generator's `close`: the task has ended."""
        self.disarm()
        self.abandon()

    def suspend(self) -> Any:
        """Queue the operation; return the future to wait for, or None if the operation is complete."""
        if self.timeout_ms == 0:
            self.state = EXPIRED
            return None
        host = get_running_loop()
        future: Future[None] = Future(loop=host)
        self.host = host
        self.future = future
        self.thread_id = PyThread_get_thread_ident()
        if self.enqueue():
            return None
        if self.token is not None or self.timeout_ms > 0:
            try:
                self.arm()
            except BaseException:  # out of memory, or the loop is closed: the task will not wait
                self.close()
                raise
            if self.state != WAITING:
                self.disarm()
                return None
        # The same as `yield from future`, without another iterator.
        future._asyncio_future_blocking = True  # noqa: SLF001  # what a task checks
        return future

    def arm(self) -> None:
        """Register with the token, and start the timer."""
        if self.token is not None:
            self.token.add_listener(self)
        if self.timeout_ms > 0:
            self.timer = DelayedCall(self.timeout_ms, self.expire)

    def disarm(self) -> None:
        """Deregister from the token, cancel the timer, and drop the future."""
        self.future = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.token is not None:
            self.token.remove_listener(self)

    # -- a thread waits

    def blocking(self) -> Any:
        """Wait on a plain thread. Timeouts use the system's monotonic clock.

        Raises:
            LoopBusyError: this thread runs an event loop.
        """
        _same = self.__await__()
        check_may_block()
        if self.token is not None and self.token.cancelled:
            self.state = CANCELLED
        elif not self.try_now():
            if self.timeout_ms == 0:
                self.state = EXPIRED
            else:
                self.block()
        return self.result()

    def block(self) -> None:
        """Block this thread until the operation is complete."""
        thread_lock = allocate_lock()
        thread_lock.acquire()
        self.thread_lock = thread_lock
        until = monotonic() + self.timeout_ms / 1000
        if self.enqueue():
            return
        try:
            if self.token is not None:
                self.token.add_listener(self)
            while not thread_lock.acquire(True, self.sleep_seconds(until)):  # noqa: FBT003  # the lock's own signature
                # The loop that keeps the token's deadline may be busy or not running, so this thread checks
                # the deadline itself.
                if self.token is not None and self.token.cancelled:
                    self.withdraw(CANCELLED)
                    break
                if self.timeout_ms >= 0 and monotonic() >= until:
                    self.withdraw(EXPIRED)
                    break
        except BaseException:  # Ctrl-C
            self.abandon()
            raise
        finally:
            if self.token is not None:
                self.token.remove_listener(self)

    def sleep_seconds(self, until: float) -> float:
        """Return how long the thread may sleep before it must check its deadlines; -1 for no limit."""
        seconds = -1.0
        if self.timeout_ms >= 0:
            seconds = max(0.0, until - monotonic())
        token_ms = None if self.token is None else self.token.remaining_ms()
        if token_ms is not None and (seconds < 0 or token_ms / 1000 < seconds):
            # No busy loop: the token's clock may be a virtual one that stands still.
            seconds = max(MIN_SLEEP, token_ms / 1000)
        return seconds

    # -- the wait ends

    def expire(self) -> None:
        """End the wait: the timeout has passed."""
        if self.withdraw(EXPIRED):
            self.wake()

    def on_cancelled(self) -> None:
        """End the wait: the token was cancelled. Called on any thread."""
        if self.withdraw(CANCELLED):
            self.wake()

    def abandon(self) -> None:
        """Leave the queue, or undo the operation if it was completed: the task or thread no longer waits."""
        if not self.withdraw(LEFT):
            self.undo()

    def wake(self) -> None:
        """Resume the task or thread. Called once, on any thread, by the code that ended WAITING."""
        thread_lock = self.thread_lock
        if thread_lock is not None:
            thread_lock.release()
            return
        future = self.future
        if future is None:
            return
        try:
            if PyThread_get_thread_ident() == self.thread_id:
                if not future.done():
                    future.set_result(None)
            else:
                self.host.call_soon_threadsafe(self.complete_future)
        except RuntimeError:
            # The event loop was closed: its task will never run again.
            if not self.host.is_closed():
                raise
            self.abandon()

    def complete_future(self) -> None:
        """Resume the task, on its own thread."""
        future = self.future
        if future is not None and not future.done():
            future.set_result(None)

    def is_task_cancelled(self) -> bool:
        """Whether the waiting task was cancelled, but has not run since."""
        future = self.future
        return future is not None and bool(future.done())

    def is_unreachable(self) -> bool:
        """Whether the event loop of the waiting task was closed."""
        host = self.host
        return host is not None and bool(host.is_closed())

    # -- misuse

    def already_used(self) -> BaseException:
        """Return the error for a second use."""
        return InvalidArgumentError(f"{self!r} can be awaited only once: create a new one")

    def __bool__(self) -> bool:
        if self.state != FRESH:
            # It is being awaited. asyncio tests the truth of what a task awaits in the repr of the task.
            return True
        raise TypeError(f"{self!r} has not been awaited, and would always be true: await it")

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to this process: it cannot be pickled or copied")


class WaiterQueue:
    """A FIFO queue of operations: an intrusive doubly linked list, with removal in constant time."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first: ChannelOp | None = None
        self.last: ChannelOp | None = None
        self.count: Count = 0

    def append(self, op: ChannelOp) -> None:
        """Add an operation at the end."""
        last = self.last
        op.queue = self
        op.previous = last
        op.following = None
        if last is None:
            self.first = op
        else:
            last.following = op
        self.last = op
        self.count += 1

    def remove(self, op: ChannelOp) -> None:
        """Remove an operation from any position."""
        previous = op.previous
        following = op.following
        if previous is None:
            self.first = following
        else:
            previous.following = following
        if following is None:
            self.last = previous
        else:
            following.previous = previous
        op.queue = None
        op.previous = None
        op.following = None
        self.count -= 1


# -- operations ------------------------------------------------------------------------------------------------


class ChannelOp(Waiter):
    """One send or receive: the operation, the awaitable, and the entry in the channel's queue."""

    __slots__ = (
        "channel",
        "ends_iteration",
        "following",
        "is_in_select",
        "is_send",
        "item",
        "previous",
        "queue",
        "select",
        "serial",
    )

    def prepare(
        self, channel: ChannelCore, is_send: bool, item: object, timeout_ms: Milliseconds, token: Any
    ) -> None:
        """Initialise it.

        A method instead of `__init__`, whose call from C would allocate a tuple for the arguments.
        """
        if not cython.compiled:
            # In C, all attributes start as 0, False or None.
            Waiter.__init__(self)
            # Whether the end of the channel raises StopAsyncIteration, for `async for`, instead of
            # ChannelClosedError.
            self.ends_iteration = False
            # The serial number of the element that it received.
            self.serial: Count = 0
            # Whether it is part of a select. `select` is set when the select is awaited: earlier, it would be
            # a reference cycle.
            self.is_in_select = False
            self.select: SelectOp | None = None
            # The queue it is in, and its neighbours there.
            self.queue: WaiterQueue | None = None
            self.previous: ChannelOp | None = None
            self.following: ChannelOp | None = None
        self.timeout_ms = timeout_ms
        self.token = token
        self.channel = channel
        self.is_send = is_send
        self.item: Any = item

    def __await__(self) -> Self:
        """Wait in a task."""
        if self.state != FRESH or self.is_in_select:
            raise self.already_used()
        return self

    def try_now(self) -> bool:
        """Send or receive without waiting; return False if that is not possible."""
        channel = self.channel
        if self.is_send:
            state = channel.offer(self.item, self.select)
            if state == WAITING:
                return False
            if state == DONE:
                self.item = None
            self.state = state
        else:
            item = channel.take(self.select)
            if item is EMPTY:
                return False
            if item is END:
                self.state = CLOSED
            else:
                self.item = item
                self.state = DONE
        return True

    def enqueue(self) -> bool:
        """Send or receive now, or queue."""
        channel = self.channel
        channel.enqueue(self)
        if channel.completed.first is not None:
            channel.wake_completed()
        return self.state != WAITING

    def withdraw(self, state: State) -> bool:
        """Leave the queue, if it is still there."""
        if not cython.compiled:
            with LOCK:
                return self.withdraw_locked(state)
        return self.withdraw_locked(state)  # type: ignore[unreachable]  # to the checkers

    def withdraw_locked(self, state: State) -> bool:
        """Leave the queue, if it is still there."""
        if self.state != WAITING:
            return False
        self.state = state
        queue = self.queue
        if queue is not None:
            queue.remove(self)
        channel = self.channel
        if state == EXPIRED:
            channel.timed_out += 1
        else:
            channel.cancelled += 1
        return True

    def undo(self) -> None:
        """Return a received element to the front of the channel. A send cannot be undone."""
        if not cython.compiled:
            with LOCK:
                item = self.take_received_locked()
        else:
            item = self.take_received_locked()  # type: ignore[unreachable]  # to the checkers
        if item is not EMPTY:
            self.channel.put_back(item, self.serial)

    def take_received_locked(self) -> Any:
        """Return the element that it received, once; EMPTY if there is none."""
        if self.state != DONE or self.is_send:
            return EMPTY
        item, self.item = self.item, None
        self.state = LEFT
        return item

    def complete_locked(self, state: State) -> None:
        """End WAITING: a partner has come, or the channel was closed.

        The caller wakes it after the critical section.
        """
        queue = self.queue
        if queue is not None:
            queue.remove(self)
        select = self.select
        if select is None:
            self.state = state
        elif not select.complete_locked(self, state):
            # Other operations of the select still wait.
            return
        self.channel.completed.append(self)

    def result(self) -> Any:
        """Return the element, or None for a send; or raise the error."""
        state = self.state
        self.state = SPENT
        self.future = None
        if state == DONE:
            if self.is_send:
                return None
            item, self.item = self.item, None
            return item
        if state == CLOSED and self.ends_iteration:
            raise StopAsyncIteration
        raise self.error(state)

    def error(self, state: State) -> BaseException:
        """Return the error of an operation that was not done."""
        verb = "send to" if self.is_send else "receive from"
        if state == CLOSED:
            rest = "closed" if self.is_send else "closed and empty"
            return ChannelClosedError(f"cannot {verb} {self.channel!r}: it is {rest}")
        if state == EXPIRED:
            waited = "" if self.timeout_ms == 0 else f" within {self.timeout_ms:.15g} ms"
            what = "the element was not accepted" if self.is_send else "there was no element"
            return ChannelTimeoutError(f"cannot {verb} {self.channel!r}: {what}{waited}")
        if state != CANCELLED:
            return self.already_used()
        error: BaseException = self.token.error(f"{verb} {self.channel!r}")
        return error

    def wake(self) -> None:
        """Resume the task or thread that waits for it, or for the select that it is part of."""
        select = self.select
        if select is None:
            Waiter.wake(self)
        else:
            select.wake()

    def __dealloc__(self) -> None:
        # Cheaper than a finalizer. Interpreted, it is the finalizer: see below.
        if self.state == FRESH and not self.is_in_select and self.channel is not None:  # pyright: ignore[reportUnnecessaryComparison]  # None in C
            # As Python warns about a coroutine; otherwise a missing `await` would show up much later.
            warn(f"{self!r} was never awaited: it had no effect", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{'send to' if self.is_send else 'receive from'} {self.channel!r}>"


class SelectOp(Waiter):
    """Several sends and receives of which exactly one is done. The result is its index and its value.

    **Fairness.** If several can be done now, the channel that a select has used least recently goes first;
    the order of the arguments decides only between channels that no select has used. So no channel starves,
    and a program always makes the same choices.

    If none can be done now, all of them queue. Completing the first of them removes the others from their
    queues inside the same critical section, so no second element is received.
    """

    __slots__ = ("chosen", "open_count", "ops", "until_any_closes")

    def __init__(self, ops: tuple[Any, ...], timeout: object, token: Any, until_any_closes: bool) -> None:
        super().__init__()
        self.until_any_closes = until_any_closes
        self.ops: list[ChannelOp] = []
        # The operation that was done.
        self.chosen: ChannelOp | None = None
        # How many of them can still be done: a closed channel is never chosen.
        self.open_count: Count = 0
        if token is not None:
            check_token(token)
        if timeout is not None:
            self.timeout_ms = checked_ms(timeout)
        self.token = token
        for op in ops:
            if not isinstance(op, ChannelOp):
                raise InvalidArgumentError(
                    f"select() got {safe_repr(op)}: pass channel.receive() or channel.send(element), not awaited"
                )
            self.check(op)
        # After all checks: a select that is refused leaves its operations usable.
        for op in ops:
            self.adopt(op)
        self.open_count = len(self.ops)

    def check(self, op: ChannelOp) -> None:
        """Check that an operation can be part of a select.

        Raises:
            InvalidArgumentError: it cannot.
        """
        if op.state != FRESH or op.is_in_select:
            raise InvalidArgumentError(
                f"select() got {safe_repr(op)}, which was already used: create a new one"
            )
        if op.timeout_ms != NO_TIMEOUT or op.token is not None:
            raise InvalidArgumentError(
                f"select() got {safe_repr(op)} with its own timeout or token: pass these to select(), for all operations"
            )

    def adopt(self, op: ChannelOp) -> None:
        """Make an operation part of this select.

        Raises:
            InvalidArgumentError: it is part of it already.
        """
        if op.is_in_select:
            for adopted in self.ops:
                adopted.is_in_select = False
            raise InvalidArgumentError(f"select() got {safe_repr(op)} twice: create a new one")
        op.is_in_select = True
        self.ops.append(op)

    def in_fair_order(self) -> list[ChannelOp]:
        """Return the operations, least recently used channel first."""
        return sorted(self.ops, key=last_selected)

    def try_now(self) -> bool:
        """Do one of the operations without waiting; return False if that is not possible."""
        for op in self.ops:
            op.select = self
        for op in self.in_fair_order():
            if op.try_now():
                if op.state == DONE:
                    self.chosen = op
                    self.state = DONE
                    return True
                self.open_count -= 1
        if self.open_count == 0 or (self.until_any_closes and self.open_count < len(self.ops)):
            self.state = CLOSED
            return True
        return False

    def enqueue(self) -> bool:
        """Do one of the operations now, or queue all of them."""
        self.state = WAITING
        for op in self.in_fair_order():
            if op.state == FRESH:
                op.channel.enqueue(op)
                if op.channel.completed.first is not None:
                    op.channel.wake_completed()
                if self.state != WAITING:
                    break
        return self.state != WAITING

    def complete_locked(self, op: ChannelOp, state: State) -> bool:
        """Complete one of the operations; return whether that completes the select."""
        op.state = state
        if state == CLOSED:
            self.open_count -= 1
            if self.open_count > 0 and not self.until_any_closes:
                return False
        else:
            self.chosen = op
        self.state = state
        self.withdraw_ops_locked(LEFT)
        return True

    def withdraw(self, state: State) -> bool:
        """Leave all queues, if no operation was completed."""
        if not cython.compiled:
            with LOCK:
                is_withdrawn = self.withdraw_locked(state)
        else:
            is_withdrawn = self.withdraw_locked(state)  # type: ignore[unreachable]  # to the checkers
        if is_withdrawn and state == LEFT:
            # No one will ask for the result, which would do this.
            self.release_ops()
        return is_withdrawn

    def withdraw_locked(self, state: State) -> bool:
        """Leave all queues, if no operation was completed."""
        if self.state != WAITING:
            return False
        self.state = state
        self.withdraw_ops_locked(state)
        return True

    def withdraw_ops_locked(self, state: State) -> None:
        """Remove the operations that still wait from their queues."""
        for op in self.ops:
            if op.state == WAITING:
                op.withdraw_locked(state)

    def undo(self) -> None:
        """Undo the operation that was done."""
        chosen = self.chosen
        if chosen is not None:
            self.release_ops()
            chosen.undo()

    def release_ops(self) -> None:
        """Drop the references from the operations to this select, and make the operations unusable."""
        for op in self.ops:
            op.select = None
            if op is not self.chosen and op.state != CLOSED:
                op.state = LEFT

    def result(self) -> Any:
        """Return the index and the value of the operation that was done, or raise the error."""
        state = self.state
        self.state = SPENT
        self.future = None
        self.release_ops()
        chosen = self.chosen
        if state == DONE and chosen is not None:
            SELECTS.completed += 1
            if chosen.is_send:
                chosen.channel.last_select_send = SELECTS.completed
            else:
                chosen.channel.last_select_receive = SELECTS.completed
            return self.ops.index(chosen), chosen.result()
        raise self.error(state)

    def error(self, state: State) -> BaseException:
        """Return the error of a select that was not done."""
        if state not in {CLOSED, EXPIRED, CANCELLED}:
            return self.already_used()
        what = ", ".join(map(repr, self.ops))
        if state == CLOSED:
            which = "all channels are" if self.open_count == 0 else "one of the channels is"
            return ChannelClosedError(f"cannot select from {what}: {which} closed and empty")
        if state == EXPIRED:
            waited = "" if self.timeout_ms == 0 else f" within {self.timeout_ms:.15g} ms"
            return ChannelTimeoutError(f"none of {what} was possible{waited}")
        error: BaseException = self.token.error(f"select from {what}")
        return error

    def __dealloc__(self) -> None:
        # As for a single operation.
        if self.state == FRESH and self.open_count > 0 and self.ops is not None:  # pyright: ignore[reportUnnecessaryComparison]  # None in C
            warn(f"{self!r} was never awaited: it had no effect", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        return f"<select from {', '.join(map(repr, self.ops))}>"


if not cython.compiled:
    ChannelOp.__del__ = ChannelOp.__dealloc__  # type: ignore[attr-defined]  # only here
    SelectOp.__del__ = SelectOp.__dealloc__  # type: ignore[attr-defined]  # only here


class SelectCounter:
    """Counts completed selects, to order channels by their last use."""

    __slots__ = ("completed",)

    def __init__(self) -> None:
        self.completed: Count = 0


SELECTS = SelectCounter()


def last_selected(op: ChannelOp) -> Count:
    """Return the number of the last select that used this side of the channel; 0 for none."""
    return op.channel.last_select_send if op.is_send else op.channel.last_select_receive


# -- the channel -----------------------------------------------------------------------------------------------


class ElementBuffer:
    """The elements of a channel: a ring of `size` slots (a power of two), `count` used from `head` on.

    Elements that were received and returned stand at the front, ordered by their serial numbers.
    """

    __slots__ = ("count", "head", "returned", "size", "slots")

    def __init__(self) -> None:
        self.slots: list[Any] = [None] * MIN_BUFFER_SIZE
        self.size: Count = MIN_BUFFER_SIZE
        self.head: Count = 0
        self.count: Count = 0
        # The serial numbers of the returned elements at the front.
        self.returned: list[Count] = []

    # -- outside a critical section, because they allocate

    def grow(self) -> None:
        """Make room for one more element."""
        while self.count == self.size:
            size = 2 * self.size
            slots: list[Any] = [None] * size
            if not cython.compiled:
                with LOCK:
                    self.grow_locked(slots, size)
            else:
                self.grow_locked(slots, size)  # type: ignore[unreachable]  # to the checkers

    def shrink(self) -> None:
        """Free the memory of a past burst, if the buffer is empty."""
        slots: list[Any] = [None] * MIN_BUFFER_SIZE
        if not cython.compiled:
            with LOCK:
                self.shrink_locked(slots)
        else:
            self.shrink_locked(slots)  # type: ignore[unreachable]  # to the checkers

    # -- inside a critical section

    def append(self, item: object) -> None:
        """Add an element at the end. There must be a free slot."""
        self.slots[(self.head + self.count) & (self.size - 1)] = item
        self.count += 1

    def pop_first(self) -> Any:
        """Remove and return the oldest element. There must be one."""
        at = self.head
        item = self.slots[at]
        self.slots[at] = None
        self.head = (at + 1) & (self.size - 1)
        self.count -= 1
        if self.returned:
            self.returned.pop(0)
        return item

    def insert_returned(self, item: object, serial: Count) -> None:
        """Insert a returned element at the front, behind returned elements that were sent before it.

        There must be a free slot.
        """
        at = 0
        while at < len(self.returned) and self.returned[at] < serial:
            at += 1
        self.returned.insert(at, serial)
        self.head = (self.head + self.size - 1) & (self.size - 1)
        step = 0
        while step < at:
            self.slots[(self.head + step) & (self.size - 1)] = self.slots[
                (self.head + step + 1) & (self.size - 1)
            ]
            step += 1
        self.slots[(self.head + at) & (self.size - 1)] = item
        self.count += 1

    def replace_last(self, item: object) -> None:
        """Replace the newest element. This must be the last step of a critical section."""
        at = (self.head + self.count - 1) & (self.size - 1)
        # Dropped only now that everything is consistent: its finalizer may use the channel.
        old = self.slots[at]
        self.slots[at] = item
        del old

    def last(self) -> Any:
        """Return the newest element; None if there is none."""
        return self.slots[(self.head + self.count - 1) & (self.size - 1)]

    def grow_locked(self, slots: list[Any], size: Count) -> None:
        """Move all elements to a larger list, unless another thread has done that."""
        if self.count != self.size or size != 2 * self.size:
            return
        at = 0
        while at < self.count:
            slots[at] = self.slots[(self.head + at) & (self.size - 1)]
            at += 1
        old = self.slots
        self.slots = slots
        self.size = size
        self.head = 0
        del old

    def shrink_locked(self, slots: list[Any]) -> None:
        """Start again with a small list, unless there are elements."""
        if self.count == 0:
            old = self.slots
            self.slots = slots
            self.size = MIN_BUFFER_SIZE
            self.head = 0
            del old


class ChannelCore:
    """A channel without types; `Channel` is the public class.

    `capacity` is the number of elements it holds, or UNLIMITED. With `conflates`, a new element replaces the
    newest one that was not received, instead of waiting for room.
    """

    __slots__ = (
        "buffer",
        "cancelled",
        "capacity",
        "closed",
        "completed",
        "conflated",
        "conflates",
        "label",
        "last_select_receive",
        "last_select_send",
        "peak",
        "received",
        "receivers",
        "refused",
        "senders",
        "sent",
        "timed_out",
    )

    def __init__(self, capacity: Count, conflates: bool, label: str | None) -> None:
        self.capacity: Count = capacity
        self.conflates = conflates
        self.label = label
        self.closed = False
        self.buffer = ElementBuffer()
        self.senders = WaiterQueue()
        self.receivers = WaiterQueue()
        # Operations that were completed, and must be woken.
        self.completed = WaiterQueue()
        # Always: sent = received + conflated + buffered.
        self.sent: Count = 0
        self.received: Count = 0
        self.conflated: Count = 0
        self.refused: Count = 0
        self.timed_out: Count = 0
        self.cancelled: Count = 0
        self.peak: Count = 0
        # When a select last sent to it, and received from it: see `SelectCounter`.
        self.last_select_send: Count = 0
        self.last_select_receive: Count = 0

    # -- public methods; `Channel` declares their types

    def send(self, item: Any, *, timeout: Seconds | None = None, token: Any = None) -> Any:
        """Send an element: `await channel.send(element)`.

        Waits for room, or on a rendezvous channel for a receiver.

        Nothing happens before it is awaited. It waits at most `timeout`, 0 to not wait, and until the
        CancelToken `token` is cancelled. Raises ChannelClosedError, ChannelTimeoutError or Cancelled: then the element
        was not sent.
        """
        return self.make_op(SEND, item, timeout, token)

    def receive(self, *, timeout: Seconds | None = None, token: Any = None) -> Any:
        """Receive the oldest element: `await channel.receive()`. Waits until there is one.

        Nothing happens before it is awaited. It waits at most `timeout`, 0 to not wait, and until the
        CancelToken `token` is cancelled. Raises ChannelClosedError if the channel is closed and empty,
        ChannelTimeoutError or Cancelled.
        """
        return self.make_op(RECEIVE, None, timeout, token)

    def try_send(self, item: Any) -> bool:
        """Send an element without waiting; return False if there is no room.

        Raises ChannelClosedError. Callable from any thread.
        """
        state = self.offer(item, None)
        if state == CLOSED:
            raise ChannelClosedError(f"cannot send to {self!r}: it is closed")
        return state == DONE

    def try_receive(self, default: Any = None) -> Any:
        """Receive the oldest element, or return `default` if there is none.

        Raises ChannelClosedError. Callable from any thread.
        """
        item = self.take(None)
        if item is EMPTY:
            return default
        if item is END:
            raise ChannelClosedError(f"cannot receive from {self!r}: it is closed and empty")
        return item

    def close(self) -> bool:
        """Close the channel: sends fail at once, receivers get what is left.

        Return False if it was closed before.
        """
        if not cython.compiled:
            with LOCK:
                was_open = self.close_locked()
        else:
            was_open = self.close_locked()  # type: ignore[unreachable]  # to the checkers
        if self.completed.first is not None:
            self.wake_completed()
        return was_open

    def __aiter__(self) -> Any:
        return self

    def __anext__(self) -> Any:
        op = self.make_op(RECEIVE, None, None, None)
        op.ends_iteration = True
        return op

    def make_op(self, is_send: bool, item: object, timeout: object, token: Any) -> ChannelOp:
        """Create an operation.

        Raises:
            InvalidArgumentError: the timeout or the token is invalid.
        """
        ms = NO_TIMEOUT
        if timeout is not None:
            ms = checked_ms(timeout)
        if token is not None:
            check_token(token)
        op = ChannelOp.__new__(ChannelOp)
        op.prepare(self, is_send, item, ms, token)
        return op

    def counters(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool]:
        """Return all counters, read at one moment. `Channel.statistics` names them."""
        if not cython.compiled:
            with LOCK:
                return self.counters_locked()
        return self.counters_locked()  # type: ignore[unreachable]  # to the checkers

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to this process: it cannot be pickled or copied")

    def __len__(self) -> int:
        return self.buffer.count

    def __bool__(self) -> bool:
        # An empty channel is still a channel.
        return True

    # -- one critical section each, and the waking after it

    def offer(self, item: object, select: SelectOp | None) -> State:
        """Send an element without waiting: DONE, CLOSED, or WAITING if it would have to wait."""
        if self.receivers.first is not None:
            self.drop_stale(self.receivers, False)  # noqa: FBT003  # by position in C
        while True:
            if not cython.compiled:
                with LOCK:
                    replaced = self.buffer.last() if self.conflates else None
                    state = self.push_locked(item, select)
                # Released after the lock: its finalizer may wait for another thread.
                del replaced
            else:
                state = self.push_locked(item, select)  # type: ignore[unreachable]  # to the checkers
            if state != MUST_GROW:
                break
            self.buffer.grow()
        if self.completed.first is not None:
            self.wake_completed()
        return state

    def take(self, select: SelectOp | None) -> Any:
        """Receive an element without waiting: EMPTY if it would have to wait, END if none will ever come."""
        if self.senders.first is not None:
            self.drop_stale(self.senders, False)  # noqa: FBT003  # by position in C
        if not cython.compiled:
            with LOCK:
                item = self.pull_locked(select)
        else:
            item = self.pull_locked(select)  # type: ignore[unreachable]  # to the checkers
        if self.completed.first is not None:
            self.wake_completed()
        if item is EMPTY and self.buffer.size > SHRINK_ABOVE:
            self.buffer.shrink()
        return item

    def enqueue(self, op: ChannelOp) -> None:
        """Complete an operation, or queue it. The caller wakes the operations in `completed`."""
        while True:
            if not cython.compiled:
                with LOCK:
                    is_settled = self.enqueue_locked(op)
            else:
                is_settled = self.enqueue_locked(op)  # type: ignore[unreachable]  # to the checkers
            if is_settled:
                return
            self.buffer.grow()

    def put_back(self, item: object, serial: Count) -> None:
        """Take back an element that was given to a receiver that has been cancelled since."""
        if self.receivers.first is not None:
            # Unreachable receivers too: each of them would put it back again, in ever deeper recursion.
            self.drop_stale(self.receivers, True)  # noqa: FBT003  # by position in C
        while True:
            if not cython.compiled:
                with LOCK:
                    replaced = self.buffer.last() if self.conflates else None
                    is_back = self.put_back_locked(item, serial)
                del replaced
            else:
                is_back = self.put_back_locked(item, serial)  # type: ignore[unreachable]  # to the checkers
            if is_back:
                break
            self.buffer.grow()
        if self.completed.first is not None:
            self.wake_completed()

    def drop_stale(self, queue: WaiterQueue, and_unreachable: bool) -> None:
        """Remove operations from the head of a queue whose tasks were cancelled, but have not run since.

        If `and_unreachable`, also those whose event loop was closed.
        """
        while True:
            first = queue.first
            if first is None:
                return
            waiter: Waiter = first if first.select is None else first.select
            if not waiter.is_task_cancelled() and not (and_unreachable and waiter.is_unreachable()):
                return
            waiter.withdraw(LEFT)

    def wake_completed(self) -> None:
        """Wake the completed operations in their order."""
        while True:
            if not cython.compiled:
                with LOCK:
                    op = self.next_completed_locked()
            else:
                op = self.next_completed_locked()  # type: ignore[unreachable]  # to the checkers
            if op is None:
                return
            op.wake()

    # -- inside a critical section

    def next_completed_locked(self) -> ChannelOp | None:
        """Remove and return the next operation to wake."""
        op = self.completed.first
        if op is not None:
            self.completed.remove(op)
        return op

    def push_locked(self, item: object, select: SelectOp | None) -> State:
        """Send an element: DONE, CLOSED, WAITING for lack of room, or MUST_GROW for lack of a free slot."""
        if self.closed:
            self.refused += 1
            return CLOSED
        receiver = self.receivers.first
        if receiver is not None and select is not None:
            # A select does not send to itself.
            while receiver is not None and receiver.select is select:
                receiver = receiver.following
        if receiver is not None:
            self.sent += 1
            self.received += 1
            receiver.item = item
            receiver.serial = self.sent
            receiver.complete_locked(DONE)
            return DONE
        if self.buffer.count < self.capacity or self.capacity == NEVER_FULL:
            if self.buffer.count == self.buffer.size:
                return MUST_GROW
            self.sent += 1
            self.buffer.append(item)
            if self.buffer.count > self.peak:
                self.peak = self.buffer.count
            return DONE
        if self.conflates:
            self.sent += 1
            self.conflated += 1
            if self.buffer.returned:
                self.buffer.returned.pop()
            self.buffer.replace_last(item)
            return DONE
        return WAITING

    def pull_locked(self, select: SelectOp | None) -> Any:
        """Receive an element, or return EMPTY or END."""
        if self.buffer.count > 0:
            item = self.buffer.pop_first()
            self.received += 1
            if self.senders.first is not None and self.buffer.count < self.capacity:
                self.refill_locked(select)
            return item
        sender = self.first_sender_locked(select)
        if sender is not None:
            item = sender.item
            sender.item = None
            self.sent += 1
            self.received += 1
            sender.complete_locked(DONE)
            return item
        return END if self.closed else EMPTY

    def first_sender_locked(self, select: SelectOp | None) -> ChannelOp | None:
        """Return the first waiting sender, but not one of the same select, which does only one operation."""
        sender = self.senders.first
        if select is not None:
            while sender is not None and sender.select is select:
                sender = sender.following
        return sender

    def refill_locked(self, select: SelectOp | None) -> None:
        """Move the element of the first waiting sender into the buffer. There must be room."""
        sender = self.first_sender_locked(select)
        if sender is not None:
            self.buffer.append(sender.item)
            sender.item = None
            self.sent += 1
            sender.complete_locked(DONE)

    def put_back_locked(self, item: object, serial: Count) -> bool:
        """Give a returned element to the first receiver, or put it at the front; return False to grow first."""
        receiver = self.receivers.first
        if receiver is not None:
            receiver.item = item
            receiver.serial = serial
            receiver.complete_locked(DONE)
            return True
        if self.conflates and self.buffer.count > 0:
            # The newer of the two stays.
            self.received -= 1
            self.conflated += 1
            if self.buffer.returned and self.buffer.returned[0] < serial:
                self.buffer.returned[0] = serial
                self.buffer.replace_last(item)
            return True
        if self.buffer.count == self.buffer.size:
            return False
        self.received -= 1
        self.buffer.insert_returned(item, serial)
        self.peak = max(self.peak, self.buffer.count)
        return True

    def enqueue_locked(self, op: ChannelOp) -> bool:
        """Complete an operation, or queue it; return False if the buffer must grow first."""
        select = op.select
        if select is not None and select.state != WAITING:
            # The select was completed while its operations were being queued.
            return True
        if op.is_send:
            state = self.push_locked(op.item, select)
            if state == MUST_GROW:
                return False
            if state == WAITING:
                op.state = WAITING
                self.senders.append(op)
                return True
            if state == DONE:
                op.item = None
        else:
            item = self.pull_locked(select)
            if item is EMPTY:
                op.state = WAITING
                self.receivers.append(op)
                return True
            if item is END:
                state = CLOSED
            else:
                op.item = item
                state = DONE
        if select is None:
            op.state = state
        else:
            select.complete_locked(op, state)
        return True

    def close_locked(self) -> bool:
        """Close the channel, and complete everything that waits; return False if it was closed before."""
        if self.closed:
            return False
        self.closed = True
        # The local variable keeps it alive: the queue may hold the only reference.
        op = self.senders.first
        while op is not None:
            self.refused += 1
            op.complete_locked(CLOSED)
            op = self.senders.first
        op = self.receivers.first
        while op is not None:
            op.complete_locked(CLOSED)
            op = self.receivers.first
        return True

    def counters_locked(self) -> tuple[int, int, int, int, int, int, int, int, int, int, bool]:
        """Return all counters.

        All are read before the first Python object is made of them, which may run other code.
        """
        sent = self.sent
        received = self.received
        conflated = self.conflated
        buffered = self.buffer.count
        refused = self.refused
        timed_out = self.timed_out
        cancelled = self.cancelled
        senders = self.senders.count
        receivers = self.receivers.count
        peak = self.peak
        closed = self.closed
        return (
            sent,
            received,
            conflated,
            buffered,
            refused,
            timed_out,
            cancelled,
            senders,
            receivers,
            peak,
            closed,
        )
