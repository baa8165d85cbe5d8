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

# The kernel's methods are called by their private names; begin_step comes from one of two places, of which the checker sees one.
# pyright: reportPrivateUsage=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import asyncio
import sys

# Documented by asyncio, underscore and all, for those who write tasks of their own.
from asyncio import Task, _enter_task, _leave_task, current_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Self, TypeAlias, final

from bandstand.core.hot.kernel import PENDING

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost
    from bandstand.core.hot.flights import Flights
    from bandstand.core.mailbox import ActorCell

Count: TypeAlias = int

# Before 3.12 a task never begins inside the step of another.
HAS_EAGER_TASKS = sys.version_info >= (3, 12)
# Parked tasks are small but not nothing: more than this many idle ones end themselves.
MAX_PARKED = 256
OURS = True
THEIRS = False
BEGUN = True
NOT_BEGUN = False
# What driving a coroutine answers that has paused.
PAUSED = object()


class CoroutineStep:
    """Makes steps. After `begin`, `is_done` says whether the coroutine has ended there."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False

    def begin(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """CoroutineStep a coroutine: what it returned or, if it is not done, what it waits for.

        What it raises comes out.
        """
        return begin_step(self, coroutine, context)


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def begin_step(step: CoroutineStep, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """CoroutineStep a coroutine; `step` gets to know whether it has ended."""
        try:
            value = context.run(coroutine.send, None)
        except StopIteration as stop:
            step.is_done = True
            return stop.value
        step.is_done = False
        return value


class DriverFuture:
    """One wait of one coroutine. `is_ours` says that it ends inside the loop, and not with a turn of the host."""

    __slots__ = ("_driver", "_is_awaited", "_is_over", "is_ours")

    def __init__(self, driver: TaskDriver, is_ours: bool) -> None:
        self._driver = driver
        self._is_awaited = False
        self._is_over = False
        self.is_ours = is_ours

    def done(self) -> bool:
        """Whether it is over."""
        return self._is_over

    def set_result(self, _nothing: None) -> None:
        """End it: the coroutine goes on when its actor's turn comes."""
        self._is_over = True
        self._driver.end_pause(self)

    def cancel(self, msg: object = None) -> bool:
        """Never by itself: whoever cancels a driver's task has the cancellation thrown into its coroutine."""
        return False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Self:
        if self._is_awaited:
            raise StopIteration
        self._is_awaited = True
        return self


class TaskDriver:
    """One task, and the coroutine that is being stepped in its name, if there is one."""

    __slots__ = (
        "_wake",
        "cell",
        "context",
        "has_started",
        "is_begun",
        "is_kept",
        "is_listed",
        "job",
        "kernel",
        "park",
        "pool",
        "serial",
        "stray",
        "task",
        "yielded",
    )

    def __init__(self, pool: TaskPool, kernel: Flights) -> None:
        self.pool = pool
        self.kernel = kernel
        # Its task, which whoever makes it sets, and the future in which that waits for something to do.
        self.task: Any = None
        self.park: Any = None
        self.has_started = False
        self.cell: ActorCell | None = None
        self.job: Coroutine[Any, Any, Any] | None = None
        self.context: Context | None = None
        # Whether the coroutine has made its first step, what it waits for, and whether it is the loop that sees to it.
        self.is_begun = False
        self.yielded: Any = None
        self.is_kept = False
        # A cancellation that came when the task could not take it: before its own first step.
        self.stray: BaseException | None = None
        # Which of its coroutines this is: whoever was asked for something by an earlier one is waited for by nobody.
        self.serial: Count = 0
        # Whether it is among those that may be given something to do.
        self.is_listed = False
        self._wake: Any = self.wake

    def take(
        self,
        cell: ActorCell,
        job: Coroutine[Any, Any, Any],
        context: Context,
        is_begun: bool,
        yielded: object,
    ) -> None:
        """Go on with a coroutine: from its beginning, or from where it waits for `yielded`."""
        self.cell = cell
        self.job = job
        self.context = context
        self.is_begun = is_begun
        self.yielded = yielded
        if not is_begun or not self.keep(yielded):
            self.hand_over()

    def keep(self, yielded: Any) -> bool:
        """Keep the coroutine until what it waits for is over; False if that is nothing a driver can wait for by itself."""
        if type(yielded) is DriverFuture:
            pause = yielded
            self.is_kept = True
            self.kernel._paused += 1
            if pause.done():
                self.end_pause(pause)
            return True
        if yielded is None:
            pause = DriverFuture(self, THEIRS)
            self.pool.host.call_soon(pause.set_result, None, context=self.kernel._ride_context)
            self.yielded = pause
            self.is_kept = True
            return True
        # As a task does it: the mark says that it was awaited, and not yielded by mistake. What a task would refuse is left to it.
        if getattr(yielded, "_asyncio_future_blocking", None) is not True or yielded is self.task:
            return False
        get_loop: Any = getattr(yielded, "get_loop", None)
        if get_loop is None or get_loop() is not self.pool.host:
            return False
        yielded._asyncio_future_blocking = False
        yielded.add_done_callback(self._wake, context=self.kernel._ride_context)
        self.is_kept = True
        return True

    def end_pause(self, pause: DriverFuture) -> None:
        """A pause is over: have the coroutine go on that waits for it, if it still does."""
        if not self.is_kept or self.yielded is not pause:
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.take_over()
        elif pause.is_ours:
            self.kernel._go_on(self.cell)
        else:
            self.kernel._go_on_now(self.cell)

    def wake(self, future: object) -> None:
        """The host has ended a future: have the coroutine go on that waits for it, if it still does."""
        if not self.is_kept or self.yielded is not future:
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.take_over()
        else:
            self.kernel._go_on_now(self.cell)

    def look_again(self) -> None:
        """It was cancelled, and is not any more: if the wait has ended meanwhile, nobody has looked."""
        if not self.is_kept or not self.yielded.done():
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.take_over()
        else:
            self.kernel._go_on(self.cell)

    def take_over(self) -> None:
        """The loop has ended and ticks no more: if the wait is over, the task itself goes on with the coroutine."""
        if self.is_kept and self.yielded.done():
            self.release()
            self.yielded = None
            self.hand_over()

    def hand_over(self) -> None:
        """Have the task go on with the coroutine; one that has not started yet finds it when it does."""
        if self.park is not None and not self.park.done():
            self.park.set_result(None)

    def leave(self) -> bool:
        """Take the coroutine out of its wait, which is over; False if it is not, or the task was cancelled and sees to it."""
        if not self.is_kept or not self.yielded.done() or (self.park is not None and self.park.done()):
            return False
        if not self.has_started and getattr(self.task, "_must_cancel", True):
            return False
        self.release()
        return True

    def release(self) -> None:
        """Keep the coroutine no longer."""
        if not self.is_kept:
            return
        self.is_kept = False
        yielded = self.yielded
        if type(yielded) is not DriverFuture:
            if not yielded.done():
                yielded.remove_done_callback(self._wake)
        elif yielded.is_ours:
            self.kernel._paused -= 1

    def clear(self) -> None:
        """Its coroutine has ended: forget it."""
        self.cell = None
        self.job = None
        self.yielded = None
        self.context = None

    def cancel(self) -> None:
        """Cancel the coroutine at hand, as a task is cancelled."""
        self.task.cancel()

    def is_free(self) -> bool:
        """Whether it can be given something to do: it is parked, or has not even started, and was not cancelled."""
        if not self.has_started:
            # A cancellation that was taken back still meets a task that has not started: that one cannot be used.
            return not getattr(self.task, "_must_cancel", True)
        return self.park is not None and not self.park.done()

    def is_busy(self) -> bool:
        """Whether it has a coroutine to drive."""
        return self.job is not None


class TaskPool:
    """The pool of drivers of one loop on one host. What it does with tasks, it does by `tasks`."""

    __slots__ = (
        "_all",
        "_free",
        "_kernel",
        "_step",
        "context",
        "host",
        "is_closing",
    )

    def __init__(self, kernel: Flights, host: Any) -> None:
        self._kernel = kernel
        self.host = host
        # What coroutines start from whose actor did not bring a context of its own.
        self.context = kernel._home_context
        # At the end of the loop nobody is needed any more once he has done.
        self.is_closing = False
        self._step = CoroutineStep()
        self._free: list[TaskDriver] = []
        self._all: set[TaskDriver] = set()

    def perform(
        self,
        cell: ActorCell,
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

    def perform_later(
        self, cell: ActorCell, job: Coroutine[Any, Any, Any], context: Context | None
    ) -> object:
        """Have a coroutine begin in its task, for it cannot here: the host is not running, or somebody polls by hand. PENDING."""
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        driver.take(cell, job, fresh, NOT_BEGUN, None)
        self._kernel._suspend(cell, driver)
        return PENDING

    def advance(self, driver: TaskDriver, is_inside: bool) -> None:
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
        if len(self._free) < MAX_PARKED:
            self._offer(driver)
        else:
            # Its task is woken, finds nothing to do, and ends.
            driver.hand_over()
        self.resume(cell, verdict, failure)

    def _step_for(
        self, driver: TaskDriver, job: Coroutine[Any, Any, Any], context: Context, is_inside: bool
    ) -> object:
        """CoroutineStep a coroutine in a driver's name: its task is the current one meanwhile."""
        host, task = self.host, driver.task
        outer = current_task(host) if is_inside else None
        if outer is not None:
            _leave_task(host, outer)
        _enter_task(host, task)
        self._kernel._stepper = driver
        try:
            return self._step.begin(job, context)
        finally:
            self._kernel._stepper = None
            _leave_task(host, task)
            if outer is not None:
                _enter_task(host, outer)

    def pause(self, driver: TaskDriver) -> DriverFuture | None:
        """Something that a driver's coroutine, which is being stepped, can wait for, and that ends inside the loop.

        None if another task is the current one: one that the coroutine has started eagerly, and which waits as tasks do.
        """
        if HAS_EAGER_TASKS and current_task(self.host) is not driver.task:
            return None
        return DriverFuture(driver, OURS)

    # -- what a driver's task needs ------------------------------------------------------------------------------------

    def begin_step(self, driver: TaskDriver, cell: ActorCell) -> None:
        """The task makes a step by itself: until it ends, the actor is the one that is running."""
        self._kernel._begin_step(cell)
        self._kernel._stepper = driver

    def end_step(self) -> None:
        """The step has ended."""
        self._kernel._stepper = None
        self._kernel._end_step()

    def has_ended(self, cell: ActorCell) -> bool:
        """Whether an actor has ended, though its coroutine may not have."""
        return self._kernel._has_ended(cell)

    def resume(self, cell: ActorCell, verdict: object, failure: BaseException | None) -> None:
        """A coroutine that had suspended has ended: with a verdict, or with an error."""
        self._kernel._resume(cell, verdict, failure, issubclass(type(failure), asyncio.CancelledError))

    # -- the pool ------------------------------------------------------------------------------------------------------

    def _free_driver(self) -> TaskDriver:
        """A driver for one coroutine."""
        while self._free:
            driver = self._free.pop()
            driver.is_listed = False
            if driver.is_free():
                driver.serial += 1
                return driver
        driver = TaskDriver(self, self._kernel)
        driver.task = start(driver)
        self._all.add(driver)
        return driver

    def _offer(self, driver: TaskDriver) -> None:
        """Note that a driver may be given something to do."""
        if not driver.is_listed:
            driver.is_listed = True
            self._free.append(driver)

    def park(self, driver: TaskDriver) -> bool:
        """Take a driver back; False if it should end instead: it was cancelled, or there are enough."""
        if (
            self.is_closing
            or driver.task.cancelling()
            or (len(self._free) >= MAX_PARKED and not driver.is_listed)
        ):
            return False
        self._offer(driver)
        return True

    def forget(self, driver: TaskDriver) -> None:
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

    async def wait_out(self, host: AsyncioHost, time_left: Callable[[AsyncioHost], float]) -> None:
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


def start(driver: TaskDriver) -> Task[None]:
    """Make a driver's task."""
    pool = driver.pool
    # Past the task factory of the host: an eager one would have it run before the driver knows its task.
    task = Task(_DriverCoroutine(driver), loop=pool.host, name="bandstand driver", context=pool.context)
    task.add_done_callback(lambda _task: pool.forget(driver), context=pool.context)
    return task


async def live(driver: TaskDriver) -> None:
    """What the task does, for as long as it lives."""
    driver.has_started = True
    if driver.stray is not None and not driver.is_busy():
        return
    is_forgiven = False
    while True:
        if driver.stray is not None:
            driver.release()
        if not driver.is_busy() or driver.is_kept:
            park = driver.park = driver.pool.host.create_future()
            if not driver.is_busy() and not driver.pool.park(driver):
                return
            if is_forgiven:
                is_forgiven = False
                driver.look_again()
            try:
                await park
            except asyncio.CancelledError as error:
                # Cancelled while it waits, or in a step that was made for us. A step may also take it back: a task of Python
                # 3.13 then hears nothing of it. (If others take it back meanwhile it is gone, too; any other task would be told.)
                is_forgiven = driver.is_kept and not driver.task.cancelling()
                if is_forgiven:
                    continue
                driver.release()
                driver.stray = error
            finally:
                driver.park = None
            if not driver.is_busy():
                # There are enough of us.
                return
        await drive(driver)


async def drive(driver: TaskDriver) -> None:
    """CoroutineStep the coroutine at hand until it ends, or pauses."""
    cell, job = driver.cell, driver.job
    assert cell is not None
    assert job is not None
    verdict: object = None
    failure: BaseException | None = None
    try:
        verdict = await _TaskSteps(driver, cell, job)
    except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
        failure = error
    if verdict is PAUSED:
        return
    driver.clear()
    driver.pool.resume(cell, verdict, failure)


@final
class _TaskSteps:
    """Awaiting it steps a driver's coroutine to its end inside its own context, passing through what it waits for."""

    __slots__ = ("_cell", "_driver", "_job")

    def __init__(self, driver: TaskDriver, cell: ActorCell, job: Coroutine[Any, Any, Any]) -> None:
        self._driver = driver
        self._cell = cell
        self._job = job

    def __await__(self) -> Generator[Any, Any, object]:
        driver, cell, job = self._driver, self._cell, self._job
        stray, driver.stray = driver.stray, None
        yielded = driver.yielded
        if not driver.is_begun and driver.pool.has_ended(cell):
            # Its actor was killed before it could begin: then it never does.
            job.close()
            return None
        try:
            if not driver.is_begun or (yielded is None and stray is None):
                # From its beginning; or what it waited for is over, and we were woken for it.
                yielded = step(driver, cell, job.send, None)
            if stray is not None and not is_cancelled(yielded, stray):
                yielded = step(driver, cell, job.throw, stray)
            while True:
                if type(yielded) is DriverFuture:
                    # It goes on inside the loop: back to our place, the coroutine stays with us.
                    driver.is_begun = True
                    driver.yielded = yielded
                    driver.keep(yielded)
                    return PAUSED
                try:
                    sent = yield yielded
                except GeneratorExit:
                    # The host was closed with us in flight.
                    job.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # a cancellation, or what the future failed with
                    yielded = step(driver, cell, job.throw, error)
                else:
                    yielded = step(driver, cell, job.send, sent)
        except StopIteration as stop:
            return stop.value


def is_cancelled(awaited: Any, stray: BaseException) -> bool:
    """Cancel what a coroutine waits for, as its task does which was cancelled; False if the coroutine must be told itself."""
    # With its words: by them anyio knows a cancellation of its own.
    if awaited is None or not awaited.cancel(*stray.args[:1]):
        return False
    # A task waits for what bears this mark, and the driver that has waited in its place has taken it off.
    awaited._asyncio_future_blocking = True  # noqa: SLF001  # of asyncio's protocol, underscore and all
    return True


def step(driver: TaskDriver, cell: ActorCell, go_on: Callable[[Any], Any], value: object) -> Any:
    """Make one step, in the coroutine's own context."""
    assert driver.context is not None
    driver.pool.begin_step(driver, cell)
    try:
        return driver.context.run(go_on, value)
    finally:
        driver.pool.end_step()


@final
class _DriverCoroutine(Coroutine[Any, Any, None]):
    """The coroutine of a driver's task, which starts whatever happens.

    A task that is cancelled before its first step throws the cancellation into a coroutine that has not begun, and that
    is the end of both. But the driver may have been given a coroutine already, whose first step was made in its name:
    it must start, and pass the cancellation on.
    """

    __slots__ = ("_driver", "_inner")

    def __init__(self, driver: TaskDriver) -> None:
        self._driver = driver
        self._inner = live(driver)

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error; if it is the very first step, begin and keep the error for the coroutine at hand."""
        if self._driver.has_started:
            return self._inner.throw(*error)
        first = error[0]
        self._driver.stray = first if isinstance(first, BaseException) else asyncio.CancelledError()
        return self._inner.send(None)

    def close(self) -> None:
        """End."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()


@final
class PendingCoroutine:
    """Stands in a cell for the driver that its coroutine will have once the loop is driven."""

    __slots__ = ("_withdraw", "cell", "context", "job")

    def __init__(
        self,
        cell: ActorCell,
        job: Coroutine[Any, Any, Any],
        context: Context | None,
        withdraw: Callable[[PendingCoroutine], None],
    ) -> None:
        self.cell = cell
        self.job = job
        self.context = context
        self._withdraw = withdraw

    def cancel(self) -> None:
        """Give it up: like a task that is cancelled before its first step, it never begins."""
        self._withdraw(self)
        self.job.close()
