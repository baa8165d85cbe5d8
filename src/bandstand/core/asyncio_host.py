"""The asyncio event loop that drives a loop, and the signals that stop it.

In this package the *event loop* is asyncio's (or uvloop's), and the *loop* is bandstand's. A loop needs a few things of the event loop: a
call soon, a call at a time, a call from another thread or when a descriptor is ready, and, if it owns the thread, to run and stop the event
loop. `AsyncioHost` offers exactly those, for an event loop of its own or for one that is running already. At any time the event
loop has at most one timer of the loop, for its next deadline, and at most one pending call.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextvars import copy_context
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

from bandstand.errors import InvalidArgumentError, LoopBusyError
from bandstand.streams import open_standard_descriptors

if TYPE_CHECKING:
    from bandstand.core.kernel import Kernel
    from bandstand.core.loop import Loop

__all__ = ("AsyncioHost", "StopSignals", "TickHooks", "new_event_loop", "running_loops")

# The kernels of the loops that each event loop drives.
_kernels: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Kernel]] = WeakKeyDictionary()

# Delays are rounded up to milliseconds. Two due times that differ by fewer seconds than this are the same.
SAME_TIME = 0.0015
# How many iterations of the event loop a wait takes at least, even if its timeout is 0.
MIN_ITERATIONS = 8


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make a uvloop event loop if uvloop is installed, otherwise one of asyncio. Ignores the event loop policy."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    # libuv aborts the process if one of its own descriptors gets the number of a standard stream.
    open_standard_descriptors()
    return uvloop.new_event_loop()


@final
class AsyncioHost:
    """An asyncio event loop, and the callback that it runs for a loop.

    A host is `owned` if it was made for `run()`: it runs the event loop, stops it and finally closes it. A borrowed host is an
    event loop that is running already; it is left as it was.
    """

    __slots__ = (
        "_callback",
        "_deadline",
        "_due",
        "_has_cancelled",
        "_is_stopping",
        "_attached",
        "_soon",
        "_task",
        "_timer",
        "context",
        "loop",
        "owned",
        "wakeups",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None], *, owned: bool) -> None:
        self.loop = loop
        self._callback = callback
        # The callback always runs in this context: a send from a coroutine must not pass that coroutine's context variables on to all actors of
        # the next tick.
        self.context = copy_context()
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._deadline = 0
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False
        self._is_stopping = False
        # The kernel of the loop that `running_loops` returns while it is attached.
        self._attached: Kernel | None = None
        self.owned = owned
        self.wakeups = 0

    @classmethod
    def own(
        cls, factory: Callable[[], asyncio.AbstractEventLoop], callback: Callable[[], None]
    ) -> AsyncioHost:
        """Make an event loop, to be run by the host."""
        return cls(factory(), callback, owned=True)

    @classmethod
    def borrow(cls, callback: Callable[[], None]) -> AsyncioHost:
        """Use the running event loop, on behalf of the current task."""
        host = cls(asyncio.get_running_loop(), callback, owned=False)
        host._task = asyncio.current_task()
        return host

    @staticmethod
    def is_any_running() -> bool:
        """Return whether an event loop is running in this thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    @classmethod
    def refuse_running(cls) -> None:
        """Raise `LoopBusyError` if an event loop is running in this thread."""
        if cls.is_any_running():
            raise LoopBusyError(
                "an event loop is running in this thread, and this call would block it: use `async with loop:` there"
            )

    def attach(self, kernel: Kernel) -> None:
        """Begin to drive a loop. The current context becomes that of the callbacks."""
        self.context = copy_context()
        self._attached = kernel
        kernel.siblings = _kernels.setdefault(self.loop, [])
        kernel.siblings.append(kernel)

    def call_soon(self) -> None:
        """Call the callback once, in the next iteration. Loop thread only."""
        if self._soon is None:
            self._soon = self.loop.call_soon(self._wake_soon, context=self.context)

    def call_soon_threadsafe(self, function: Callable[[], None] | None = None) -> None:
        """Call the callback, or another function, from any thread. Does nothing if the event loop is closed."""
        try:
            self.loop.call_soon_threadsafe(function or self.wake, context=self.context)
        except RuntimeError:
            # The event loop was closed between the caller's check and this call.
            if not self.loop.is_closed():
                raise

    def arm(self, deadline: int, delay: float) -> None:
        """Call the callback in `delay` seconds, and not at an earlier armed time. `deadline` identifies what the call is for."""
        due = self.loop.time() + delay
        if self._timer is not None:
            # A loop that is called often arms the same deadline each time, and replacing a timer takes a microsecond. The due time is compared as
            # well, because the clocks of the loop and of the event loop may differ.
            if deadline == self._deadline and abs(due - self._due) < SAME_TIME:
                return
            self.disarm()
        self._deadline = deadline
        self._due = due
        self._timer = self.loop.call_later(delay, self._wake_timely, context=self.context)

    def disarm(self) -> None:
        """Cancel the armed call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add_reader(self, fd: int) -> None:
        """Call the callback while `fd` is readable."""
        # In a copy: this may be the current context, and a context cannot be entered twice.
        self.context.copy().run(self.loop.add_reader, fd, self.wake)

    def remove_reader(self, fd: int) -> None:
        """Stop watching `fd`."""
        self.loop.remove_reader(fd)

    def detach(self) -> None:
        """Stop driving the loop, and cancel its pending call and timer."""
        if self._attached is not None:
            self._attached.siblings.remove(self._attached)
            self._attached.siblings = []
            self._attached = None
        self.disarm()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def run(self) -> None:
        """Run the event loop until `stop`."""
        self._is_stopping = False
        self.loop.run_forever()

    def run_pass(self) -> None:
        """Run the callback and everything else that is ready, and return."""
        self.call_soon()
        self.loop.call_soon(self.stop)
        self.run()

    def stop(self) -> None:
        """Make `run` return at the end of the current iteration."""
        # Only once: some event loops keep a second stop for the next run.
        if not self._is_stopping:
            self._is_stopping = True
            self.loop.stop()

    async def wait(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Wait until the tasks are done, or `seconds` have passed.

        Whatever the timeout, tasks that end within a few iterations do end: an idle driver that was cancelled, or a coroutine that
        passes its cancellation on through a few tasks.
        """
        for _ in range(MIN_ITERATIONS):
            if all(task.done() for task in tasks):
                return
            await asyncio.sleep(0)
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    def run_wait(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Do the same for an owned event loop that is not running."""
        if tasks:
            self.loop.run_until_complete(self.wait(tasks, seconds))

    def close(self, seconds: float) -> None:
        """Detach, and close the event loop if it is owned.

        Tasks that behaviors have started are cancelled and have `seconds` to end; then async generators and the executor are shut down.
        """
        self.detach()
        if not self.owned or self.loop.is_closed():
            return
        try:
            self._is_stopping = True
            if not self.is_any_running():
                tasks = asyncio.all_tasks(self.loop)
                for task in tasks:
                    task.cancel()
                self.run_wait(list(tasks), seconds)
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def is_open(self) -> bool:
        """Return whether the event loop is owned, not closed and not running."""
        return self.owned and not self.loop.is_closed() and not self.loop.is_running()

    def cancel_body(self) -> None:
        """Cancel the task that borrowed the event loop, because the loop has failed."""
        if self._task is not None and not self._task.done():
            self._has_cancelled = True
            self._task.cancel()

    def uncancel_body(self) -> None:
        """Undo that cancellation, because the failure is raised instead."""
        if self._has_cancelled and self._task is not None:
            self._has_cancelled = False
            self._task.uncancel()

    def _wake_soon(self) -> None:
        self._soon = None
        self.wake()

    def _wake_timely(self) -> None:
        self._timer = None
        self.wake()

    def wake(self) -> None:
        """Run the callback. The event loop calls it, and so does code that the event loop has called in this context."""
        self.wakeups += 1
        self._callback()


def running_loops() -> list[Loop]:
    """Return the loops that the running event loop of this thread drives, the latest one last."""
    try:
        host = asyncio.get_running_loop()
    except RuntimeError:
        return []
    return [kernel.loop for kernel in _kernels.get(host, [])]


@final
class StopSignals:
    """A context manager in which SIGINT and SIGTERM stop a loop. It does nothing unless `is_on`.

    The first signal calls `request_stop`. A SIGINT after the first signal calls `hurry`, which may raise; without `hurry` it raises KeyboardInterrupt,
    even in a behavior that does not return. That needs signal handlers of Python: those of an event loop would wait for the very thread that
    is blocked. At the end of the block the previous handlers are restored.

    Raises:
        InvalidArgumentError: entered outside the main thread.
    """

    __slots__ = ("_before", "_has_requested", "_hurry", "_is_on", "_request_stop", "first")

    def __init__(
        self, request_stop: Callable[[], None], *, is_on: bool, hurry: Callable[[], None] | None = None
    ) -> None:
        self._request_stop = request_stop
        self._hurry = hurry
        self._is_on = is_on
        self._has_requested = False
        self.first: signal.Signals | None = None
        """The first signal; None before it."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if not self._is_on:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError as error:
                raise InvalidArgumentError(
                    "handling signals needs the main thread: Python delivers signals only there"
                ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._has_requested and number == signal.SIGINT:
            if self._hurry is None:
                raise KeyboardInterrupt
            self._hurry()
            return
        if not self._has_requested:
            self.first = signal.Signals(number)
        self._has_requested = True
        self._request_stop()


@final
class TickHooks:
    """The functions that a loop calls after each tick: the one that was installed before, then the added ones in order.

    Args:
        before: the function that was installed before, or None.
        was_looking: the previous value of the loop's flag to run a tick after each exit. The owner restores both when this is empty.
    """

    __slots__ = ("_functions", "before", "was_looking")

    def __init__(self, before: Callable[[], object] | None, was_looking: bool) -> None:
        self.before = before
        self.was_looking = was_looking
        # By a key of their own: the same function may be added twice.
        self._functions: dict[object, Callable[[], object]] = {}

    def add(self, function: Callable[[], object]) -> object:
        """Add a function; return the key that removes it."""
        key = object()
        self._functions[key] = function
        return key

    def remove(self, key: object) -> None:
        """Remove a function. Does nothing the second time."""
        self._functions.pop(key, None)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def __call__(self) -> None:
        """Call the functions: a tick has ended."""
        if self.before is not None:
            self.before()
        for key in list(self._functions):
            # One function may have removed another.
            function = self._functions.get(key)
            if function is not None:
                function()
