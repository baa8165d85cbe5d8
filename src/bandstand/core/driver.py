"""Performing coroutines: `async def` behaviors in real asyncio tasks, without a task for every message.

The problem. What is written in an `async def` expects to run inside a Task: `asyncio.timeout`, TaskGroup and anyio ask
for the current one and cancel it. A Task for each message would be simple, and cost several microseconds even for the
many coroutines that never suspend at all. Stepping a coroutine outside a Task is cheap, and breaks all of the above.

The choice. A few *driver* tasks wait, parked, in a pool. A coroutine is begun inside the tick, stepped once by hand in
the name of a parked driver: that task is made the current one for the length of the step, by the functions asyncio
documents for those who write their own tasks. If the coroutine ends there, which is the common case, the driver goes
back to the pool, and the host never heard of it. If it suspends, the driver is handed the coroutine together with the
future it waits for, and goes on with it as any task would; so within one message the task is always the same one. When
the pool is empty a new driver is started and runs the coroutine from its beginning, one hop later.

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
from collections.abc import Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.core.hot.kernel import PENDING

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


@final
class Driver:
    """One task that drives one coroutine after the other, and waits, parked, in between."""

    __slots__ = ("_cell", "_context", "_coroutine", "_drivers", "_is_begun", "_park", "_yielded", "task")

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers
        self._cell: Cell | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._context = drivers.context
        self._is_begun = False
        self._yielded: Any = None
        self._park: asyncio.Future[None] | None = None
        self.task = drivers.host.create_task(self._live(), name="bandstand driver")
        self.task.add_done_callback(self._ended)

    def take(
        self, cell: Cell, job: Coroutine[Any, Any, Any], context: Context, *, is_begun: bool, yielded: object
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
    def is_parked(self) -> bool:
        """Whether the task waits for something to do, with no cancellation left over from what it did."""
        return self._park is not None and not self._park.done() and self.task.cancelling() == 0

    @property
    def is_busy(self) -> bool:
        """Whether it has a coroutine to drive."""
        return self._coroutine is not None

    async def _live(self) -> None:
        while True:
            stray: BaseException | None = None
            if self._coroutine is None:
                self._park = self._drivers.host.create_future()
                if not self._drivers.park(self):
                    return
                try:
                    await self._park
                except asyncio.CancelledError as error:
                    if not self.is_busy:
                        self._drivers.leave(self)
                        return
                    # Cancelled between the first step, which was made for us, and our taking over.
                    stray = error
                finally:
                    self._park = None
            await self._drive(stray)

    async def _drive(self, stray: BaseException | None) -> None:
        cell, job = self._cell, self._coroutine
        assert cell is not None
        assert job is not None
        verdict: object = None
        failure: BaseException | None = None
        try:
            verdict = await self._steps(job, stray)
        except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
            failure = error
        self._cell = None
        self._coroutine = None
        self._yielded = None
        self._context = self._drivers.context
        self._drivers.resume(cell, verdict, failure, isinstance(failure, asyncio.CancelledError))

    @coroutine
    def _steps(
        self, job: Coroutine[Any, Any, Any], stray: BaseException | None
    ) -> Generator[Any, Any, object]:
        """Step `job` to its end inside its own context, passing through what it waits for."""
        run = self._context.run
        yielded = self._yielded
        try:
            if not self._is_begun:
                yielded = run(job.send, None)
            elif stray is not None and not (yielded is not None and yielded.cancel()):
                yielded = run(job.throw, stray)
            while True:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    # The host was closed with us in flight.
                    job.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # a cancellation, or what the future failed with
                    yielded = run(job.throw, error)
                else:
                    yielded = run(job.send, sent)
        except StopIteration as stop:
            return stop.value

    def _ended(self, _task: asyncio.Task[None]) -> None:
        """The task is over. If it was cancelled before its very first step, nobody has answered for its coroutine."""
        job, cell = self._coroutine, self._cell
        if job is None or cell is None:
            return
        self._coroutine = None
        job.close()
        self._drivers.resume(cell, None, asyncio.CancelledError(), was_cancelled=True)


@final
class Drivers:
    """The pool of drivers of one loop on one host."""

    __slots__ = ("_all", "_parked", "context", "host", "resume", "suspend")

    def __init__(
        self, host: asyncio.AbstractEventLoop, context: Context, suspend: Suspend, resume: Resume
    ) -> None:
        self.host = host
        self.suspend = suspend
        self.resume = resume
        self.context = context
        self._parked: list[Driver] = []
        self._all: set[Driver] = set()

    def perform(
        self, cell: Cell, job: Coroutine[Any, Any, Any], context: Context | None, *, is_running: bool
    ) -> object:
        """Begin a coroutine: what it returned, or PENDING if it has suspended; what it raises comes out.

        While the host is not running, which is when somebody polls by hand, nothing can be stepped: it begins later.
        """
        fresh = (self.context if context is None else context).copy()
        driver = self._parked.pop() if self._parked and is_running else None
        if driver is None or not driver.is_parked:
            driver = Driver(self)
            self._all.add(driver)
            driver.take(cell, job, fresh, is_begun=False, yielded=None)
            self.suspend(cell, driver)
            return PENDING
        host, task = self.host, driver.task
        _enter_task(host, task)
        try:
            yielded = fresh.run(job.send, None)
        except StopIteration as stop:
            self._parked.append(driver)
            return stop.value
        except BaseException:
            self._parked.append(driver)
            raise
        finally:
            _leave_task(host, task)
        driver.take(cell, job, fresh, is_begun=True, yielded=yielded)
        self.suspend(cell, driver)
        return PENDING

    def park(self, driver: Driver) -> bool:
        """Take a driver back; False if it should end instead."""
        if driver.task.cancelling() or len(self._parked) >= MOST_PARKED:
            self._all.discard(driver)
            return False
        self._parked.append(driver)
        return True

    def leave(self, driver: Driver) -> None:
        """Forget a driver that was cancelled while it was parked."""
        self._all.discard(driver)
        if driver in self._parked:
            self._parked.remove(driver)

    def busy(self) -> list[asyncio.Task[None]]:
        """The tasks whose coroutine has not ended yet."""
        return [driver.task for driver in self._all if driver.is_busy and not driver.task.done()]

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all that is left; the tasks that must still be given time to end."""
        tasks = [driver.task for driver in self._all if not driver.task.done()]
        for task in tasks:
            task.cancel()
        self._parked.clear()
        return tasks
