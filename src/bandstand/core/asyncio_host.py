"""The host: the asyncio event loop that a loop rides.

A loop needs a few things of an event loop: to be called soon, to be called at a time, to be called from another thread
or when a descriptor is ready, and, when it owns the thread, to be run and stopped. `AsyncioHost` offers just those over any
asyncio loop, its own or somebody else's. At most one timer is armed in the host at any time, for the next deadline of
the wheel, and at most one call is under way.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextvars import copy_context
from types import FrameType, TracebackType
from typing import Any, final
from weakref import WeakKeyDictionary

from bandstand.errors import InvalidArgument, LoopBusy
from bandstand.streams import open_standard_descriptors

__all__ = ("AsyncioHost", "StopSignals", "TickHooks", "new_event_loop", "running_loops")

# The loops that ride each event loop.
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, list[object]] = WeakKeyDictionary()

# Seconds: delays are rounded up to milliseconds, and so differ by less than this where the time they lead to is the same.
CLOSE = 0.0015
# How many turns of the event loop a wait takes at least, though its time has run out.
TURNS = 8


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's event loop where it is installed, else asyncio's own. Never by policy, never at import."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    # libuv aborts the process when one of these numbers is a descriptor of its own.
    open_standard_descriptors()
    return uvloop.new_event_loop()


@final
class AsyncioHost:
    """An asyncio event loop, and the callback it runs for us.

    `owned` hosts are made for `run()`; they run and stop the event loop and close it at the end. A borrowed host is
    somebody's running loop: it is left as it was found.
    """

    __slots__ = (
        "_callback",
        "_deadline",
        "_due",
        "_has_cancelled",
        "_is_stopping",
        "_loop",
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
        # Where the callback runs, whoever asked for it: a send from inside a coroutine must not carry that
        # coroutine's context variables to all the actors of the next tick. It is the context of whoever drives.
        self.context = copy_context()
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._deadline = 0
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False
        self._is_stopping = False
        # Whom others find who look for the loop they run on.
        self._loop: object = None
        self.owned = owned
        self.wakeups = 0

    @classmethod
    def own(
        cls, factory: Callable[[], asyncio.AbstractEventLoop], callback: Callable[[], None]
    ) -> AsyncioHost:
        """Make an event loop to run."""
        return cls(factory(), callback, owned=True)

    @classmethod
    def borrow(cls, callback: Callable[[], None]) -> AsyncioHost:
        """Ride the running event loop, on behalf of the current task."""
        host = cls(asyncio.get_running_loop(), callback, owned=False)
        host._task = asyncio.current_task()
        return host

    @staticmethod
    def is_any_running() -> bool:
        """Whether this thread is running an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    @classmethod
    def refuse_running(cls) -> None:
        """Raise `LoopBusy` if this thread is running an event loop."""
        if cls.is_any_running():
            raise LoopBusy(
                "an event loop is running in this thread, and this call would block it: use `async with loop:` there"
            )

    def attach(self, loop: object) -> None:
        """Take the present context for the callbacks to come: somebody begins to drive."""
        self.context = copy_context()
        self._loop = loop
        register_loop(self.loop, loop)

    def call_soon(self) -> None:
        """Have the callback run once, before long. Loop thread only."""
        if self._soon is None:
            self._soon = self.loop.call_soon(self._wake_soon, context=self.context)

    def call_soon_threadsafe(self, function: Callable[[], None] | None = None) -> None:
        """The same, from any thread, or another function; wakes the host by its own descriptor. Nothing if it is closed."""
        try:
            self.loop.call_soon_threadsafe(function or self.wake, context=self.context)
        except RuntimeError:
            # The event loop was closed between the caller's look and this call: there is nobody left to wake.
            if not self.loop.is_closed():
                raise

    def arm(self, deadline: int, delay: float) -> None:
        """Have the callback run in `delay` seconds, instead of when it was armed for before. `deadline` is what that is for."""
        due = self.loop.time() + delay
        if self._timer is not None:
            # Whoever is called often asks for the same deadline each time, and an event loop takes a microsecond to change its
            # mind. But the two clocks need not go alike.
            if deadline == self._deadline and abs(due - self._due) < CLOSE:
                return
            self.disarm()
        self._deadline = deadline
        self._due = due
        self._timer = self.loop.call_later(delay, self._wake_timely, context=self.context)

    def disarm(self) -> None:
        """Have it run at no time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add_reader(self, fd: int) -> None:
        """Have the callback run while `fd` is readable."""
        # In a copy: it may be the very context we are in, and a context cannot be entered twice.
        self.context.copy().run(self.loop.add_reader, fd, self.wake)

    def remove_reader(self, fd: int) -> None:
        """Look at `fd` no more."""
        self.loop.remove_reader(fd)

    def detach(self) -> None:
        """Withdraw everything of ours that is under way."""
        if self._loop is not None:
            unregister_loop(self.loop, self._loop)
            self._loop = None
        self.disarm()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def run(self) -> None:
        """Run the event loop until `stop`."""
        self._is_stopping = False
        self.loop.run_forever()

    def run_pass(self) -> None:
        """Run what is ready, the callback included, and return."""
        self.call_soon()
        self.loop.call_soon(self.stop)
        self.run()

    def stop(self) -> None:
        """Have `run` return once the present round of callbacks is done."""
        # Once: a second one would be kept by some hosts for the next run.
        if not self._is_stopping:
            self._is_stopping = True
            self.loop.stop()

    async def wait(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """Wait until the tasks are done, or `seconds` have passed.

        Whatever the time, those that end as soon as they are given a turn or two do end: a parked driver that was
        cancelled, or a coroutine that passes its cancellation on through a few tasks.
        """
        for _ in range(TURNS):
            if all(task.done() for task in tasks):
                return
            await asyncio.sleep(0)
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    def run_wait(self, tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
        """The same, for an owned event loop that is not running."""
        if tasks:
            self.loop.run_until_complete(self.wait(tasks, seconds))

    def close(self, seconds: float) -> None:
        """Withdraw what is ours, and close the event loop if it is ours, with what behaviors have started on it.

        Tasks are cancelled and given `seconds` to end; generators and threads of the executor are ended too.
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
        """Whether it is an event loop of ours that nobody has closed, and that does not run."""
        return self.owned and not self.loop.is_closed() and not self.loop.is_running()

    def cancel_body(self) -> None:
        """Cancel the task on whose behalf we ride, so that it hears of a failure before its time."""
        if self._task is not None and not self._task.done():
            self._has_cancelled = True
            self._task.cancel()

    def uncancel_body(self) -> None:
        """Take back our own cancellation, now that the failure is being raised in its place."""
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
        """What the event loop calls, and whoever else it has called in our context."""
        self.wakeups += 1
        self._callback()


def register_loop(host: asyncio.AbstractEventLoop, loop: object) -> None:
    """Note that a loop rides an event loop from now on."""
    _loops.setdefault(host, []).append(loop)


def unregister_loop(host: asyncio.AbstractEventLoop, loop: object) -> None:
    """Note that it does so no more."""
    _loops[host].remove(loop)


def running_loops() -> list[object]:
    """The loops that ride the event loop that is running on this thread, the last to come last."""
    try:
        host = asyncio.get_running_loop()
    except RuntimeError:
        return []
    return _loops.get(host, [])


class StopSignals:
    """A block in which SIGINT and SIGTERM ask for a stop; does nothing unless `is_on`.

    `hurry` is called at each SIGINT after the first signal, and may raise.
    """

    __slots__ = ("_before", "_has_asked", "_hurry", "_is_on", "_request_stop", "first")

    def __init__(
        self, request_stop: Callable[[], None], *, is_on: bool, hurry: Callable[[], None] | None = None
    ) -> None:
        self._request_stop = request_stop
        self._hurry = hurry
        self._is_on = is_on
        self._has_asked = False
        self.first: signal.Signals | None = None
        """The signal that has asked for the stop."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if not self._is_on:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError as error:
                raise InvalidArgument(
                    "handling signals needs the main thread: Python delivers them nowhere else"
                ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._has_asked and number == signal.SIGINT:
            if self._hurry is None:
                raise KeyboardInterrupt
            self._hurry()
            return
        if not self._has_asked:
            self.first = signal.Signals(number)
        self._has_asked = True
        self._request_stop()


@final
class TickHooks:
    """Calls what was there before, and then everybody who watches, in the order in which they came.

    Args:
        before: what is called after each round, whoever watches.
        was_looking: whether the loop gave a round to each end without them. Both are put back when the last stops.
    """

    __slots__ = ("_watches", "before", "was_looking")

    def __init__(self, before: Callable[[], object] | None, was_looking: bool) -> None:
        self.before = before
        self.was_looking = was_looking
        # By a mark of their own: one function may watch twice.
        self._watches: dict[object, Callable[[], object]] = {}

    def add(self, function: Callable[[], object]) -> object:
        """Have one more called; the mark by which it is removed."""
        mark = object()
        self._watches[mark] = function
        return mark

    def remove(self, mark: object) -> None:
        """Have it not called any more. The second time nothing happens."""
        self._watches.pop(mark, None)

    def __bool__(self) -> bool:
        return bool(self._watches)

    def __call__(self) -> None:
        """A round is over."""
        if self.before is not None:
            self.before()
        for mark in list(self._watches):
            # One of them may have taken another back.
            function = self._watches.get(mark)
            if function is not None:
                function()
