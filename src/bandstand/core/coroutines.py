"""Performing coroutines: `async def` behaviors in real asyncio tasks, without a task for every message.

The problem. What is written in an `async def` expects to run inside a Task: `asyncio.timeout`, TaskGroup and anyio ask
for the current one and cancel it. A Task for each message would be simple, and cost several microseconds even for the
many coroutines that never suspend at all. Stepping a coroutine outside a Task is cheap, and breaks all of the above.

The choice. A few *driver* tasks wait, parked, in a pool. A coroutine is stepped inside the tick by hand, in the name of
a parked driver: that task is made the current one for the length of the step, by the functions asyncio documents for those
who write their own tasks. If the coroutine ends there, which is the common case, the driver goes back to the pool, and the
host never heard of it. If it suspends, the driver notes what it waits for, and when that is over the coroutine is stepped
again in the same way, inside a tick; within one message the task is always the same one. What cannot
be stepped so is handed to the task itself (`driver` says when), which goes on with it as any task would. When
the pool is empty a new driver is made; a task that has not started yet will do as well.

Context variables. Each message starts from a copy of the context in which its actor was spawned, as a task does: what
one message sets, the next does not see, and no other actor ever.

Cancellation. Stopping an actor cancels the task that drives it. A task that somebody else has cancelled without taking
it back (`uncancel`) is not used again: the pool must not hand one message's cancellation to the next.

Refused: one driver for each actor (a parked task for every idle actor); eager tasks (3.12 has them, 3.11 has not, and
they are still a task a message); letting the task wait for what its coroutine waits for, which takes a turn of the host to
hand it over, another to come back, and a future to park in for each.
"""

# The hot modules are one mechanism in several files: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from bandstand.core.hot.driver import Driver
from bandstand.core.hot.kernel import PENDING
from bandstand.core.hot.pause import Pause
from bandstand.core.hot.step import Step

if TYPE_CHECKING:
    from bandstand.core.driving import Tasks
    from bandstand.core.host import Host
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.flights import Flights

# Before 3.12 a task never begins inside the step of another.
HAS_EAGER_TASKS = sys.version_info >= (3, 12)
# Parked tasks are small but not nothing: more than this many idle ones end themselves.
MOST_PARKED = 256
OURS = True
BEGUN = True
NOT_BEGUN = False


class Drivers:
    """The pool of drivers of one loop on one host. What it does with tasks, it does by `tasks`."""

    __slots__ = (
        "_all",
        "_current",
        "_enter",
        "_free",
        "_kernel",
        "_leave",
        "_step",
        "_tasks",
        "context",
        "host",
        "is_closing",
    )

    def __init__(self, kernel: Flights, host: Any, tasks: Tasks) -> None:
        self._kernel = kernel
        self.host = host
        # What coroutines start from whose actor did not bring a context of its own.
        self.context = kernel._home_context
        self._tasks = tasks
        self._enter: Any = tasks.enter
        self._leave: Any = tasks.leave
        self._current: Any = tasks.current
        # At the end of the loop nobody is needed any more once he has done.
        self.is_closing = False
        self._step = Step()
        self._free: list[Driver] = []
        self._all: set[Driver] = set()

    def perform(
        self,
        cell: Cell,
        job: Coroutine[Any, Any, Any],
        context: Context | None,
        is_inside: bool,
    ) -> object:
        """Begin a coroutine: what it returned, or PENDING if it has suspended; what it raises comes out.

        `is_inside` says that a task runs a tick while it waits: for the length of the step it is not the current one.
        """
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        try:
            value = self._step_for(driver, job, fresh, is_inside)
        except BaseException:  # whatever it raised is its actor's; the driver is as good as before
            self._offer(driver)
            raise
        if self._step.is_done:
            self._offer(driver)
            return value
        driver.take(cell, job, fresh, BEGUN, value)
        self._kernel._suspend(cell, driver)
        return PENDING

    def perform_later(self, cell: Cell, job: Coroutine[Any, Any, Any], context: Context | None) -> object:
        """Have a coroutine begin in its task, for it cannot here: the host is not running, or somebody polls by hand. PENDING."""
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        driver.take(cell, job, fresh, NOT_BEGUN, None)
        self._kernel._suspend(cell, driver)
        return PENDING

    def advance(self, driver: Driver, is_inside: bool) -> None:
        """Have a coroutine go on whose wait is over, here and now; `is_inside` as for `perform`."""
        if not driver.leave():
            return
        cell, job, context = driver.cell, driver.job, driver.context
        assert cell is not None
        assert job is not None
        assert context is not None
        verdict: object = None
        failure: BaseException | None = None
        self._kernel._begin_step(cell)
        try:
            verdict = self._step_for(driver, job, context, is_inside)
        except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
            failure = error
        self._kernel._end_step()
        if failure is None and not self._step.is_done:
            driver.take(cell, job, context, BEGUN, verdict)
            return
        driver.clear()
        if len(self._free) < MOST_PARKED:
            self._offer(driver)
        else:
            # Its task is woken, finds nothing to do, and ends.
            driver.hand_over()
        self.resume(cell, verdict, failure)

    def _step_for(
        self, driver: Driver, job: Coroutine[Any, Any, Any], context: Context, is_inside: bool
    ) -> object:
        """Step a coroutine in a driver's name: its task is the current one meanwhile."""
        host, task = self.host, driver.task
        outer = self._current(host) if is_inside else None
        if outer is not None:
            self._leave(host, outer)
        self._enter(host, task)
        self._kernel._stepper = driver
        try:
            return self._step.begin(job, context)
        finally:
            self._kernel._stepper = None
            self._leave(host, task)
            if outer is not None:
                self._enter(host, outer)

    def pause(self, driver: Driver) -> Pause | None:
        """Something that a driver's coroutine, which is being stepped, can wait for, and that ends inside the loop.

        None if another task is the current one: one that the coroutine has started eagerly, and which waits as tasks do.
        """
        if HAS_EAGER_TASKS and self._current(self.host) is not driver.task:
            return None
        return Pause(driver, OURS)

    # -- what a driver's task needs ------------------------------------------------------------------------------------

    def begin_step(self, driver: Driver, cell: Cell) -> None:
        """The task makes a step by itself: until it ends, the actor is the one that is running."""
        self._kernel._begin_step(cell)
        self._kernel._stepper = driver

    def end_step(self) -> None:
        """The step has ended."""
        self._kernel._stepper = None
        self._kernel._end_step()

    def has_ended(self, cell: Cell) -> bool:
        """Whether an actor has ended, though its coroutine may not have."""
        return self._kernel._has_ended(cell)

    def resume(self, cell: Cell, verdict: object, failure: BaseException | None) -> None:
        """A coroutine that had suspended has ended: with a verdict, or with an error."""
        self._kernel._resume(cell, verdict, failure, issubclass(type(failure), self._tasks.cancelled))

    # -- the pool ------------------------------------------------------------------------------------------------------

    def _free_driver(self) -> Driver:
        """A driver for one coroutine."""
        while self._free:
            driver = self._free.pop()
            driver.is_listed = False
            if driver.is_free():
                driver.serial += 1
                return driver
        driver = Driver(self, self._kernel)
        driver.task = self._tasks.start(driver)
        self._all.add(driver)
        return driver

    def _offer(self, driver: Driver) -> None:
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
        self._offer(driver)
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

    def busy(self) -> list[Any]:
        """The tasks whose coroutine has not ended yet."""
        return [driver.task for driver in self._all if driver.is_busy() and not driver.task.done()]

    async def wait_out(self, host: Host, time_left: Callable[[Host], float]) -> None:
        """Wait for all that is in flight, and for what follows it: an actor may have something to do when it ends."""
        left = 1.0
        while left > 0 and (tasks := self.busy()):
            left = time_left(host)
            await host.wait(tasks, left)

    def close(self) -> list[Any]:
        """Cancel all that is left, a second time where it was waited for in vain; the tasks that have not ended yet."""
        tasks = [driver.task for driver in self._all if not driver.task.done()]
        for task in tasks:
            task.cancel()
        return tasks
