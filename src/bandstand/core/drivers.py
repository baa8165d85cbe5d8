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
import sys

# Documented by asyncio, underscore and all, for those who write tasks of their own.
from asyncio import _enter_task, _leave_task, current_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.core.driver import Driver
from bandstand.core.hot.kernel import PENDING
from bandstand.core.hot.step import Step
from bandstand.core.pause import Pause

if TYPE_CHECKING:
    from bandstand.core.host import Host
    from bandstand.core.hot.cell import Cell

__all__ = ("Drivers",)

# Before 3.12 a task never begins inside the step of another.
HAS_EAGER_TASKS = sys.version_info >= (3, 12)
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


class GoOn(Protocol):
    """Called when a cell's coroutine, which had paused, may go on."""

    def __call__(self, cell: Cell) -> None: ...


class NoteStepper(Protocol):
    """Called with whoever begins to step a coroutine, and with None when that is over."""

    def __call__(self, driver: Driver | None) -> None: ...


class HasEnded(Protocol):
    """Answers whether a cell's actor has ended."""

    def __call__(self, cell: Cell) -> bool: ...


@final
class Drivers:
    """The pool of drivers of one loop on one host."""

    __slots__ = (
        "_all",
        "_free",
        "_step",
        "begin_step",
        "context",
        "end_step",
        "go_on",
        "has_ended",
        "host",
        "is_closing",
        "note_stepper",
        "paused",
        "resume",
        "suspend",
    )

    def __init__(
        self,
        host: asyncio.AbstractEventLoop,
        context: Context,
        suspend: Suspend,
        resume: Resume,
        begin_step: BeginStep,
        end_step: EndStep,
        has_ended: HasEnded,
        go_on: GoOn,
        note_stepper: NoteStepper,
    ) -> None:
        self.host = host
        self.context = context
        self.suspend = suspend
        self.resume = resume
        self.begin_step = begin_step
        self.end_step = end_step
        self.has_ended = has_ended
        self.go_on = go_on
        self.note_stepper = note_stepper
        # At the end of the loop nobody is needed any more once he has done.
        self.is_closing = False
        # How many coroutines wait for something that ends inside the loop.
        self.paused = 0
        self._step = Step()
        self._free: list[Driver] = []
        self._all: set[Driver] = set()

    def perform(
        self,
        cell: Cell,
        job: Coroutine[Any, Any, Any],
        context: Context | None,
        *,
        may_step: bool,
        is_inside: bool = False,
    ) -> object:
        """Begin a coroutine: what it returned, or PENDING if it has suspended; what it raises comes out.

        Nothing can be stepped here while the host is not running, or while somebody polls by hand: then it begins later.
        `is_inside` says that a task runs a tick while it waits: for the length of the step it is not the current one.
        """
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        driver.serial += 1
        if not may_step:
            driver.take(cell, job, fresh, is_begun=False, yielded=None)
            self.suspend(cell, driver)
            return PENDING
        try:
            value = self._step_for(driver, job, fresh, is_inside=is_inside)
        except BaseException:  # whatever it raised is its actor's; the driver is as good as before
            self.offer(driver)
            raise
        if self._step.is_done:
            self.offer(driver)
            return value
        driver.take(cell, job, fresh, is_begun=True, yielded=value)
        self.suspend(cell, driver)
        return PENDING

    def _step_for(
        self, driver: Driver, job: Coroutine[Any, Any, Any], context: Context, *, is_inside: bool
    ) -> object:
        """Step a coroutine in a driver's name: its task is the current one meanwhile."""
        host, task = self.host, driver.task
        outer = current_task(host) if is_inside else None
        if outer is not None:
            _leave_task(host, outer)
        _enter_task(host, task)
        self.note_stepper(driver)
        try:
            return self._step.begin(job, context)
        finally:
            self.note_stepper(None)
            _leave_task(host, task)
            if outer is not None:
                _enter_task(host, outer)

    def pause(self, driver: Driver) -> Pause | None:
        """Something that a driver's coroutine, which is being stepped, can wait for, and that ends inside the loop.

        None if another task is the current one: one that the coroutine has started eagerly, and which waits as tasks do.
        """
        if HAS_EAGER_TASKS and current_task(self.host) is not driver.task:
            return None
        return Pause(driver)

    def advance(self, driver: Driver, *, is_inside: bool) -> None:
        """Have a coroutine go on whose pause is over, here and now; `is_inside` as for `perform`."""
        paused = driver.leave_pause()
        if paused is None:
            return
        cell, job, context = paused
        verdict: object = None
        failure: BaseException | None = None
        self.begin_step(cell)
        try:
            verdict = self._step_for(driver, job, context, is_inside=is_inside)
        except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
            failure = error
        finally:
            self.end_step()
        if failure is None and not self._step.is_done:
            driver.take(cell, job, context, is_begun=True, yielded=verdict)
            return
        driver.clear()
        self.offer(driver)
        self.resume(cell, verdict, failure, isinstance(failure, asyncio.CancelledError))

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
        if (
            self.is_closing
            or driver.task.cancelling()
            or (len(self._free) >= MOST_PARKED and not driver.is_listed)
        ):
            return False
        self.offer(driver)
        return True

    def forget(self, driver: Driver) -> None:
        """Take a driver whose task is over out of the books."""
        self._all.discard(driver)
        if driver.is_listed:
            driver.is_listed = False
            self._free.remove(driver)

    def begin_closing(self) -> None:
        """The loop ends: nobody steps a coroutine any more but its own task."""
        self.is_closing = True
        for driver in list(self._all):
            driver.take_over()

    def busy(self) -> list[asyncio.Task[None]]:
        """The tasks whose coroutine has not ended yet."""
        return [driver.task for driver in self._all if driver.is_busy() and not driver.task.done()]

    async def wait_out(self, host: Host, time_left: Callable[[Host], float]) -> None:
        """Wait for all that is in flight, and for what follows it: an actor may have something to do when it ends."""
        left = 1.0
        while left > 0 and (tasks := self.busy()):
            left = time_left(host)
            await host.wait(tasks, left)

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel all that is left, a second time where it was waited for in vain; the tasks that have not ended yet."""
        tasks = [driver.task for driver in self._all if not driver.task.done()]
        for task in tasks:
            task.cancel()
        return tasks
