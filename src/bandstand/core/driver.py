"""Performing coroutines: `async def` behaviors in real asyncio tasks, without a task for every message.

The problem. What is written in an `async def` expects to run inside a Task: `asyncio.timeout`, TaskGroup and anyio ask
for the current one and cancel it. A Task for each message would be simple, and cost several microseconds even for the
many coroutines that never suspend at all. Stepping a coroutine outside a Task is cheap, and breaks all of the above.

The choice. A few *driver* tasks wait, parked, in a pool. A coroutine is begun inside the tick, stepped once by hand in
the name of a parked driver: that task is made the current one for the length of the step, by the functions asyncio
documents for those who write their own tasks. If the coroutine ends there, which is the common case, the driver goes
back to the pool, and the host never heard of it. If it suspends, the driver is handed the coroutine together with the
future it waits for, and goes on with it as any task would; so within one message the task is always the same one. When
the pool is empty a new driver is made; a task that has not started yet will do for the first step as well.

Context variables. Each message starts from a copy of the context in which its actor was spawned, as a task does: what
one message sets, the next does not see, and no other actor ever.

Cancellation. Stopping an actor cancels the task that drives it. A task that somebody else has cancelled without taking
it back (`uncancel`) is not used again: the pool must not hand one message's cancellation to the next.

Refused: one driver for each actor (a parked task for every idle actor), and eager tasks (3.12 has them, 3.11 has not, and
they are still a task a message).
"""

from __future__ import annotations

import asyncio

# Documented by asyncio, underscore and all, for those who write tasks of their own.
from asyncio import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.core.hot.kernel import PENDING
from bandstand.core.hot.step import Step

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell

__all__ = ("Driver", "Drivers")

# Parked tasks are small but not nothing: more than this many idle ones end themselves.
MOST_PARKED = 256


class Suspend(Protocol):
    """Called when a cell's coroutine has suspended, with whoever drives it."""

    def __call__(self, cell: Cell, driver: Driver) -> None: ...


class Resume(Protocol):
    """Called when a coroutine that had suspended has ended: with a verdict, or with an error."""

    def __call__(
        self, cell: Cell, verdict: object, error: BaseException | None, was_cancelled: bool
    ) -> None: ...


class BeginStep(Protocol):
    """Called before every step of a coroutine that had suspended, with its cell."""

    def __call__(self, cell: Cell) -> None: ...


class EndStep(Protocol):
    """Called after every such step."""

    def __call__(self) -> None: ...


@final
class Driver:
    """One task that drives one coroutine after the other, and waits, parked, in between."""

    __slots__ = (
        "_cell",
        "_context",
        "_coroutine",
        "_drivers",
        "_has_started",
        "_is_begun",
        "_park",
        "_stray",
        "_yielded",
        "is_listed",
        "task",
    )

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers
        self._cell: Cell | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._context = drivers.context
        self._has_started = False
        self._is_begun = False
        self._yielded: Any = None
        self._park: asyncio.Future[None] | None = None
        # A cancellation that came when the task could not take it: before its own first step.
        self._stray: BaseException | None = None
        # Whether it is among those that may be given something to do.
        self.is_listed = False
        self.task = drivers.host.create_task(Starter(self), name="bandstand driver", context=drivers.context)
        self.task.add_done_callback(self._ended, context=drivers.context)

    def take(
        self,
        cell: Cell,
        job: Coroutine[Any, Any, Any],
        context: Context,
        *,
        is_begun: bool,
        yielded: object,
    ) -> None:
        """Go on with a coroutine: from its beginning, or from where it waits for `yielded`."""
        self._cell = cell
        self._coroutine = job
        self._context = context
        self._is_begun = is_begun
        self._yielded = yielded
        if self._park is not None and not self._park.done():
            self._park.set_result(None)

    def cancel(self) -> None:
        """Cancel the coroutine at hand, as a task is cancelled."""
        self.task.cancel()

    @property
    def is_free(self) -> bool:
        """Whether it can be given something to do: it is parked, or has not even started, and was not cancelled."""
        if not self._has_started:
            # A cancellation that was taken back still meets a task that has not started: that one cannot be used.
            return not getattr(self.task, "_must_cancel", True)
        return self._park is not None and not self._park.done()

    def is_busy(self) -> bool:
        """Whether it has a coroutine to drive."""
        return self._coroutine is not None

    def starts_with(self, error: tuple[Any, ...]) -> bool:
        """Whether an error that was thrown into the task is its very first step; then it is kept."""
        if self._has_started:
            return False
        first = error[0]
        self._stray = first if isinstance(first, BaseException) else asyncio.CancelledError()
        return True

    async def live(self) -> None:
        """What the task does, for as long as it lives."""
        self._has_started = True
        if self._stray is not None and not self.is_busy():
            return
        while True:
            if not self.is_busy():
                self._park = self._drivers.host.create_future()
                if not self._drivers.park(self):
                    return
                try:
                    await self._park
                except asyncio.CancelledError as error:
                    if not self.is_busy():
                        return
                    # Cancelled between the first step, which was made for us, and our taking over.
                    self._stray = error
                finally:
                    self._park = None
            await self._drive()

    async def _drive(self) -> None:
        cell, job = self._cell, self._coroutine
        assert cell is not None
        assert job is not None
        stray, self._stray = self._stray, None
        verdict: object = None
        failure: BaseException | None = None
        try:
            verdict = await self._steps(cell, job, stray)
        except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
            failure = error
        self._cell = None
        self._coroutine = None
        self._yielded = None
        self._context = self._drivers.context
        self._drivers.resume(cell, verdict, failure, isinstance(failure, asyncio.CancelledError))

    @coroutine
    def _steps(
        self, cell: Cell, job: Coroutine[Any, Any, Any], stray: BaseException | None
    ) -> Generator[Any, Any, object]:
        """Step `job` to its end inside its own context, passing through what it waits for."""
        yielded = self._yielded
        try:
            if not self._is_begun or (yielded is None and stray is None):
                # From its beginning; or it asked for one turn of the host, and our taking over was one.
                yielded = self._step(cell, job.send, None)
            if stray is not None and (yielded is None or not yielded.cancel()):
                yielded = self._step(cell, job.throw, stray)
            while True:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    # The host was closed with us in flight.
                    job.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # a cancellation, or what the future failed with
                    yielded = self._step(cell, job.throw, error)
                else:
                    yielded = self._step(cell, job.send, sent)
        except StopIteration as stop:
            return stop.value

    def _step(self, cell: Cell, step: Callable[[Any], Any], value: object) -> Any:
        self._drivers.begin_step(cell)
        try:
            return self._context.run(step, value)
        finally:
            self._drivers.end_step()

    def _ended(self, _task: asyncio.Task[None]) -> None:
        """The task is over."""
        self._drivers.forget(self)


@final
class Starter(Coroutine[Any, Any, None]):
    """The coroutine of a driver's task, which starts whatever happens.

    A task that is cancelled before its first step throws the cancellation into a coroutine that has not begun, and that
    is the end of both. But the driver may have been given a coroutine already, whose first step was made in its name:
    it must start, and pass the cancellation on.
    """

    __slots__ = ("_driver", "_inner")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._inner = driver.live()

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error; if it is the very first step, begin and keep the error for the coroutine at hand."""
        if self._driver.starts_with(error):
            return self._inner.send(None)
        return self._inner.throw(*error)

    def close(self) -> None:
        """End."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()


@final
class Drivers:
    """The pool of drivers of one loop on one host."""

    __slots__ = ("_all", "_free", "_step", "begin_step", "context", "end_step", "host", "resume", "suspend")

    def __init__(
        self,
        host: asyncio.AbstractEventLoop,
        context: Context,
        suspend: Suspend,
        resume: Resume,
        begin_step: BeginStep,
        end_step: EndStep,
    ) -> None:
        self.host = host
        self.context = context
        self.suspend = suspend
        self.resume = resume
        self.begin_step = begin_step
        self.end_step = end_step
        self._step = Step()
        self._free: list[Driver] = []
        self._all: set[Driver] = set()

    def perform(
        self, cell: Cell, job: Coroutine[Any, Any, Any], context: Context | None, *, may_step: bool
    ) -> object:
        """Begin a coroutine: what it returned, or PENDING if it has suspended; what it raises comes out.

        Nothing can be stepped here while the host is not running, or while another task is: then it begins later.
        """
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        if not may_step:
            driver.take(cell, job, fresh, is_begun=False, yielded=None)
            self.suspend(cell, driver)
            return PENDING
        host, task, step = self.host, driver.task, self._step
        _enter_task(host, task)
        try:
            value = step.begin(job, fresh)
        except BaseException:
            self.offer(driver)
            raise
        finally:
            _leave_task(host, task)
        if step.is_done:
            self.offer(driver)
            return value
        driver.take(cell, job, fresh, is_begun=True, yielded=value)
        self.suspend(cell, driver)
        return PENDING

    def _free_driver(self) -> Driver:
        while self._free:
            driver = self._free.pop()
            driver.is_listed = False
            if driver.is_free:
                return driver
        driver = Driver(self)
        self._all.add(driver)
        return driver

    def offer(self, driver: Driver) -> None:
        """Note that a driver may be given something to do."""
        if not driver.is_listed:
            driver.is_listed = True
            self._free.append(driver)

    def park(self, driver: Driver) -> bool:
        """Take a driver back; False if it should end instead: it was cancelled, or there are enough."""
        if driver.task.cancelling() or (len(self._free) >= MOST_PARKED and not driver.is_listed):
            return False
        self.offer(driver)
        return True

    def forget(self, driver: Driver) -> None:
        """Take a driver whose task is over out of the books."""
        self._all.discard(driver)
        if driver.is_listed:
            driver.is_listed = False
            self._free.remove(driver)

    def busy(self) -> list[asyncio.Task[None]]:
        """The tasks whose coroutine has not ended yet."""
        return [driver.task for driver in self._all if driver.is_busy() and not driver.task.done()]

    def close(self, *, has_waited: bool) -> list[asyncio.Task[None]]:
        """Cancel all that is left; the tasks to wait for, which are not those that were waited for in vain."""
        busy = self.busy() if has_waited else []
        tasks = [driver.task for driver in self._all if not driver.task.done()]
        for task in tasks:
            task.cancel()
        return [task for task in tasks if task not in busy]
