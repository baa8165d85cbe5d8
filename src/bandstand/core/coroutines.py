"""Run the coroutines of async behaviors in real asyncio tasks, without a task per message.

The problem. The code of an `async def` expects to run in a Task: `asyncio.timeout`, TaskGroup and anyio ask for the current task and
cancel it. A new Task per message would be simple, but it costs several microseconds even for the many coroutines that never suspend.
Stepping a coroutine outside a Task is cheap, but breaks all of the above.

The choice. A `TaskPool` keeps a few idle tasks, each with a `TaskDriver`. A tick steps a coroutine itself, on behalf of an idle driver: for the
length of the step the driver's task is the current task, by the functions that asyncio documents for custom tasks. Usually the
coroutine ends in this first step; then the driver goes back to the pool, and the event loop was not involved. If the coroutine suspends, the
driver stores what it waits for. When that is done, a tick steps the coroutine again in the same way. All steps of one message have the same
current task. If the pool is empty, a new driver is made; its task need not have started yet.

A driver waits *itself* in the common cases: for a `DriverFuture`, for one iteration of the event loop (`asyncio.sleep(0)`), and for a future
of the event loop. Its task stays idle meanwhile. The task takes over when it is cancelled, when the loop has ended and runs no more ticks, and when
the coroutine yields something that a task must reject.

Context variables. Each message starts with a copy of the context in which its actor was spawned, as a new task would. What one message sets
is visible neither to the next message nor to other actors.

A `CoroutineRunner` connects this to the kernel. A suspended coroutine is *in flight*: its actor stays outside the run queue, so that no other
message of it begins. It comes back by `wake`, when the coroutine can be stepped again, and by `finished`, when it has ended. A coroutine that must
not be stepped at once (an init inside another actor's turn, or any coroutine while no event loop drives the loop) starts later, in its own task.

Cancellation. Stopping an actor cancels the task of its driver. A task with a cancellation that was not undone (`uncancel`) is not used
again: it would pass the cancellation on to the next message.

Refused: a driver per actor (an idle task per idle actor); eager tasks (Python 3.11 has none, and they are still a task per message); a task
that awaits what its coroutine waits for (one iteration of the event loop to hand the coroutine over, one to get it back, and a future for each).
"""

# begin_step and can_await come from the .pxd when compiled; the checker sees one of two definitions.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import asyncio
import sys

# asyncio documents these for custom tasks, despite the underscore.
from asyncio import Task, _enter_task, _leave_task, current_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard, final

from bandstand.core.delivery import StashMessage
from bandstand.core.enums import HOST_CALL, INIT, NORMAL, STOPPED, STOPPING, THIS_LOOP, Verdict
from bandstand.errors import IgnoreChild

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from bandstand.core.asyncio_host import AsyncioHost
    from bandstand.core.kernel import Kernel
    from bandstand.core.mailbox import ActorCell, CoroutineDriver

Count: TypeAlias = int
Source: TypeAlias = int

# Before 3.12 a task never starts inside the step of another.
HAS_EAGER_TASKS = sys.version_info >= (3, 12)
# Idle tasks are small but not free: with this many in the pool, further ones end.
MAX_IDLE = 256
# Returned by the steps in a task when the driver waits itself again.
SUSPENDED = object()
# For arguments: a name reads better than a bare True, and Cython passes a C constant.
BEGUN = True
NOT_BEGUN = False
OK_VERDICT = Verdict.OK


if not cython.compiled:
    # Compiled, this looks at two pointers, in the .pxd.
    def can_await(value: object) -> bool:
        """Return True if something has an `__await__`."""
        return hasattr(type(value), "__await__")


def is_coroutine(value: object) -> TypeGuard[Coroutine[Any, Any, Any]]:
    """Return True for a coroutine, of Python's own kind or of another compiler's.

    Every answer to an ask is checked, and asking the abstract class takes as long as the rest of the ask: so first check
    whether the value can be awaited at all.
    """
    return can_await(value) and (type(value) is CoroutineType or isinstance(value, Coroutine))


class CoroutineStep:
    """Steps coroutines. After `begin`, `is_done` is whether the coroutine ended in that step.

    Compiled, a step is three C calls: enter the context, send None, leave the context. The result of a coroutine comes back as a value;
    Python would raise and catch a StopIteration, which costs more than the rest of the step.
    """

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False

    def begin(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Step a coroutine; return its result, or what it waits for if it is not done. Raises what the coroutine raises."""
        return begin_step(self, coroutine, context)


if not cython.compiled:
    # Compiled, this is an inline function in the .pxd.
    def begin_step(step: CoroutineStep, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Step a coroutine, and set `step.is_done`."""
        try:
            value = context.run(coroutine.send, None)
        except StopIteration as stop:
            step.is_done = True
            return stop.value
        step.is_done = False
        return value


class DriverFuture:
    """A future that only a driver can wait for, without its task.

    When it is done, the actor goes back to the run queue, and a tick steps the coroutine again. An asyncio future takes two iterations of
    the event loop for that. `source` says what makes it done: THIS_LOOP, HOST_CALL or OTHER_LOOP.
    """

    __slots__ = ("_driver", "_is_awaited", "_is_over", "source")

    def __init__(self, driver: TaskDriver, source: Source) -> None:
        self._driver = driver
        self._is_awaited = False
        self._is_over = False
        self.source: Source = source

    def done(self) -> bool:
        """Return whether the future is done."""
        return self._is_over

    def set_result(self, _nothing: None) -> None:
        """Make it done: the coroutine continues when its actor runs next."""
        self._is_over = True
        self._driver.future_done(self)

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002  # the signature of a future
        """Return False: a cancelled task throws the cancellation into the coroutine itself."""
        return False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Self:
        if self._is_awaited:
            raise StopIteration
        self._is_awaited = True
        return self


class TaskDriver:
    """One task, and the coroutine that is stepped on its behalf, if there is one."""

    __slots__ = (
        "_wake",
        "cell",
        "context",
        "has_begun",
        "has_started",
        "idle_future",
        "is_listed",
        "is_waiting",
        "job",
        "runner",
        "late_cancel",
        "pool",
        "serial",
        "task",
        "yielded",
    )

    def __init__(self, pool: TaskPool, runner: CoroutineRunner) -> None:
        self.pool = pool
        self.runner = runner
        # Set by the pool. While the task is idle, it awaits `idle_future`.
        self.task: Any = None
        self.idle_future: Any = None
        self.has_started = False
        self.cell: ActorCell | None = None
        self.job: Coroutine[Any, Any, Any] | None = None
        self.context: Context | None = None
        # Whether the coroutine has made its first step, what it waits for, and whether the driver itself waits for that.
        self.has_begun = False
        self.yielded: Any = None
        self.is_waiting = False
        # A cancellation that the task has still to throw into the coroutine.
        self.late_cancel: BaseException | None = None
        # Counts its coroutines, so that code that was called by an earlier one can tell that it is gone.
        self.serial: Count = 0
        # Whether it is in the pool's list of free drivers.
        self.is_listed = False
        # One bound method for all callbacks, so that it can be removed. None after the end of the task: it refers to this driver.
        self._wake: Any = self.wake

    def take(
        self,
        cell: ActorCell,
        job: Coroutine[Any, Any, Any],
        context: Context,
        has_begun: bool,
        yielded: object,
    ) -> None:
        """Continue a coroutine: from its start, or from where it waits for `yielded`."""
        self.cell = cell
        self.job = job
        self.context = context
        self.has_begun = has_begun
        self.yielded = yielded
        if not has_begun or not self.wait_for(yielded):
            self.wake_task()

    def wait_for(self, yielded: Any) -> bool:
        """Wait for what the coroutine has yielded; return False if only the task can handle that."""
        if type(yielded) is DriverFuture:
            future = yielded
            self.is_waiting = True
            if future.source == THIS_LOOP:
                self.runner.paused += 1
            if future.done():
                self.future_done(future)
            return True
        if yielded is None:
            future = DriverFuture(self, HOST_CALL)
            self.pool.host.call_soon(future.set_result, None, context=self.runner.host_context)
            self.yielded = future
            self.is_waiting = True
            return True
        # As a task does it: the mark shows that a future was awaited and not yielded by mistake. What a task would reject is left to the task.
        if getattr(yielded, "_asyncio_future_blocking", None) is not True or yielded is self.task:
            return False
        get_loop: Any = getattr(yielded, "get_loop", None)
        if get_loop is None or get_loop() is not self.pool.host:
            return False
        yielded._asyncio_future_blocking = False  # noqa: SLF001  # part of asyncio's protocol for custom tasks
        yielded.add_done_callback(self._wake, context=self.runner.host_context)
        self.is_waiting = True
        return True

    def future_done(self, future: DriverFuture) -> None:
        """Continue the coroutine, if it still waits for this future."""
        if not self.is_waiting or self.yielded is not future:
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.move_to_task()
        elif future.source == HOST_CALL:
            self.runner.wake_in_host_call(self.cell)
        else:
            self.runner.wake(self.cell)

    def wake(self, future: object) -> None:
        """Continue the coroutine, if it still waits for this asyncio future. The event loop calls it."""
        if not self.is_waiting or self.yielded is not future:
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.move_to_task()
        else:
            self.runner.wake_in_host_call(self.cell)

    def check_again(self) -> None:
        """Continue the coroutine if its wait has ended while the task was cancelled; the cancellation was undone."""
        if not self.is_waiting or not self.yielded.done():
            return
        assert self.cell is not None
        if self.pool.is_closing:
            self.move_to_task()
        else:
            self.runner.wake(self.cell)

    def move_to_task(self) -> None:
        """Let the task continue the coroutine if its wait is over: the loop has ended and runs no more ticks."""
        if self.is_waiting and self.yielded.done():
            self.stop_waiting()
            self.yielded = None
            self.wake_task()

    def wake_task(self) -> None:
        """Let the task continue the coroutine. A task that has not started finds it when it does."""
        if self.idle_future is not None and not self.idle_future.done():
            self.idle_future.set_result(None)

    def end_wait(self) -> bool:
        """End the wait before the next step; return False if it is not over, or if the cancelled task takes care of it."""
        if (
            not self.is_waiting
            or not self.yielded.done()
            or (self.idle_future is not None and self.idle_future.done())
        ):
            return False
        if not self.has_started and getattr(self.task, "_must_cancel", True):
            return False
        self.stop_waiting()
        return True

    def stop_waiting(self) -> None:
        """Stop waiting for what the coroutine has yielded."""
        if not self.is_waiting:
            return
        self.is_waiting = False
        yielded = self.yielded
        if type(yielded) is not DriverFuture:
            if not yielded.done():
                yielded.remove_done_callback(self._wake)
            return
        future = yielded
        if future.source == THIS_LOOP:
            self.runner.paused -= 1

    def clear(self) -> None:
        """Forget the coroutine: it has ended."""
        self.cell = None
        self.job = None
        self.yielded = None
        self.context = None

    def release(self) -> None:
        """Break the driver's cycle with its own callback: its task has ended."""
        self._wake = None

    def cancel(self) -> None:
        """Cancel the coroutine, as a task is cancelled."""
        self.task.cancel()

    def is_free(self) -> bool:
        """Return whether it can take a coroutine: its task is idle, or has not started, and was not cancelled."""
        if not self.has_started:
            # A task that has not started still gets a cancellation that was undone, so it cannot be used.
            return not getattr(self.task, "_must_cancel", True)
        return self.idle_future is not None and not self.idle_future.done()

    def is_busy(self) -> bool:
        """Return whether it has a coroutine."""
        return self.job is not None


class TaskPool:
    """The drivers of one loop on one event loop, `host`."""

    __slots__ = ("_all", "_free", "_runner", "_step", "context", "host", "is_closing")

    def __init__(self, runner: CoroutineRunner, host: Any) -> None:
        self._runner = runner
        self.host = host
        # The context of the tasks, and of coroutines whose actor has none of its own.
        self.context = runner.home_context
        # True once the loop ends: drivers are not used again.
        self.is_closing = False
        self._step = CoroutineStep()
        self._free: list[TaskDriver] = []
        self._all: set[TaskDriver] = set()

    def start(
        self,
        cell: ActorCell,
        job: Coroutine[Any, Any, Any],
        context: Context | None,
        is_inside: bool,
    ) -> object:
        """Start a coroutine; return its result, or None if it has suspended. Raises what the coroutine raises.

        `is_inside` is whether the tick may run inside another task; that task is not the current one during the step.
        """
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        try:
            value = self._step_for(driver, job, fresh, is_inside)
        except BaseException:  # the error is the actor's; the driver is as good as before
            self._offer(driver)
            raise
        if self._step.is_done:
            self._offer(driver)
            return value
        driver.take(cell, job, fresh, BEGUN, value)
        self._runner.suspend(cell, driver)
        return None

    def start_later(self, cell: ActorCell, job: Coroutine[Any, Any, Any], context: Context | None) -> object:
        """Start a coroutine in its task, because it cannot start here: the event loop is not running."""
        fresh = (self.context if context is None else context).copy()
        driver = self._free_driver()
        driver.take(cell, job, fresh, NOT_BEGUN, None)
        self._runner.suspend(cell, driver)
        return None

    def advance(self, driver: TaskDriver, is_inside: bool) -> None:
        """Step a coroutine whose wait is over; `is_inside` as for `start`."""
        if not driver.end_wait():
            return
        cell, job, context = driver.cell, driver.job, driver.context
        assert cell is not None
        assert job is not None
        assert context is not None
        verdict: object = None
        failure: BaseException | None = None
        self._runner.begin_step(cell)
        try:
            verdict = self._step_for(driver, job, context, is_inside)
        except BaseException as error:  # noqa: BLE001  # any error of a behavior goes to its actor
            failure = error
        self._runner.end_step()
        if failure is None and not self._step.is_done:
            driver.take(cell, job, context, BEGUN, verdict)
            return
        driver.clear()
        if len(self._free) < MAX_IDLE:
            self._offer(driver)
        else:
            # The task wakes up without a coroutine, and ends.
            driver.wake_task()
        try:
            self.resume(cell, verdict, failure)
        finally:
            # Its traceback has this frame: together they would be a cycle, which only the garbage collector frees.
            failure = None

    def _step_for(
        self, driver: TaskDriver, job: Coroutine[Any, Any, Any], context: Context, is_inside: bool
    ) -> object:
        """Step a coroutine while the driver's task is the current one."""
        host, task = self.host, driver.task
        outer = current_task(host) if is_inside else None
        if outer is not None:
            _leave_task(host, outer)
        _enter_task(host, task)
        self._runner.stepper = driver
        try:
            return self._step.begin(job, context)
        finally:
            self._runner.stepper = None
            _leave_task(host, task)
            if outer is not None:
                _enter_task(host, outer)

    def new_future(self, driver: TaskDriver, source: Source) -> DriverFuture | None:
        """Return a future for the coroutine that is being stepped.

        None if another task is the current one: the coroutine has started it eagerly, and it waits as tasks do.
        """
        if HAS_EAGER_TASKS and current_task(self.host) is not driver.task:
            return None
        return DriverFuture(driver, source)

    # -- for the tasks of drivers --------------------------------------------------------------------------------------

    def begin_step(self, driver: TaskDriver, cell: ActorCell) -> None:
        """Make the actor the running one: its task begins a step."""
        self._runner.begin_step(cell)
        self._runner.stepper = driver

    def end_step(self) -> None:
        """Undo `begin_step`."""
        self._runner.stepper = None
        self._runner.end_step()

    def has_ended(self, cell: ActorCell) -> bool:
        """Return whether an actor has exited, even if its coroutine has not ended."""
        return self._runner.has_exited(cell)

    def resume(self, cell: ActorCell, verdict: object, failure: BaseException | None) -> None:
        """Pass the result of a suspended coroutine, or its error, to its actor."""
        self._runner.finished(cell, verdict, failure, issubclass(type(failure), asyncio.CancelledError))

    # -- the pool ------------------------------------------------------------------------------------------------------

    def _free_driver(self) -> TaskDriver:
        """Return a driver for one coroutine."""
        while self._free:
            driver = self._free.pop()
            driver.is_listed = False
            if driver.is_free():
                driver.serial += 1
                return driver
        driver = TaskDriver(self, self._runner)
        driver.task = new_task(driver)
        self._all.add(driver)
        return driver

    def _offer(self, driver: TaskDriver) -> None:
        """Add a driver to the list of free ones."""
        if not driver.is_listed:
            driver.is_listed = True
            self._free.append(driver)

    def give_back(self, driver: TaskDriver) -> bool:
        """Take a driver back; return False if its task should end: it was cancelled, or enough tasks are idle."""
        if (
            self.is_closing
            or driver.task.cancelling()
            or (len(self._free) >= MAX_IDLE and not driver.is_listed)
        ):
            return False
        self._offer(driver)
        return True

    def forget(self, driver: TaskDriver) -> None:
        """Remove a driver whose task has ended."""
        driver.release()
        self._all.discard(driver)
        if driver.is_listed:
            driver.is_listed = False
            self._free.remove(driver)

    def begin_closing(self) -> None:
        """Let tasks continue all coroutines from now on: the loop ends, and runs no more ticks."""
        self.is_closing = True
        for driver in list(self._all):
            driver.move_to_task()

    def busy(self) -> list[Any]:
        """Return the tasks whose coroutine has not ended."""
        return [driver.task for driver in self._all if driver.is_busy() and not driver.task.done()]

    async def wait_busy(self, host: AsyncioHost, time_left: Callable[[AsyncioHost], float]) -> None:
        """Wait for all coroutines, and for those that follow: the exit of an actor may start another one."""
        left = 1.0
        while left > 0 and (tasks := self.busy()):
            left = time_left(host)
            await host.wait(tasks, left)

    def close(self) -> list[Any]:
        """Cancel all tasks, even those that were cancelled before, and return those that have not ended."""
        tasks = [driver.task for driver in self._all if not driver.task.done()]
        for task in tasks:
            task.cancel()
        return tasks


# -- what the task of a driver does ------------------------------------------------------------------------------------


def new_task(driver: TaskDriver) -> Task[None]:
    """Make the task of a driver."""
    pool = driver.pool
    # Without the task factory of the event loop: an eager one would run the task before the driver knows it.
    task = Task(_DriverCoroutine(driver), loop=pool.host, name="bandstand driver", context=pool.context)
    task.add_done_callback(lambda _task: pool.forget(driver), context=pool.context)
    return task


async def run_driver(driver: TaskDriver) -> None:
    """Wait for a coroutine that the driver cannot step itself, and run it; repeat until the task is not needed."""
    driver.has_started = True
    if driver.late_cancel is not None and not driver.is_busy():
        return
    is_undone = False
    while True:
        if driver.late_cancel is not None:
            driver.stop_waiting()
        if not driver.is_busy() or driver.is_waiting:
            idle_future = driver.idle_future = driver.pool.host.create_future()
            if not driver.is_busy() and not driver.pool.give_back(driver):
                return
            if is_undone:
                is_undone = False
                driver.check_again()
            try:
                await idle_future
            except asyncio.CancelledError as error:
                # Cancelled while it waits, or during a step on its behalf. The step may also undo the cancellation; a task of Python 3.13 then
                # raises nothing. (If other code undoes it in the meantime, the cancellation is lost as well; another task would still raise it.)
                is_undone = driver.is_waiting and not driver.task.cancelling()
                if is_undone:
                    continue
                driver.stop_waiting()
                driver.late_cancel = error
            finally:
                driver.idle_future = None
            if not driver.is_busy():
                # Enough tasks are idle.
                return
        await run_coroutine(driver)


async def run_coroutine(driver: TaskDriver) -> None:
    """Step the driver's coroutine in its task until it ends, or the driver can wait itself."""
    cell, job = driver.cell, driver.job
    assert cell is not None
    assert job is not None
    verdict: object = None
    failure: BaseException | None = None
    try:
        verdict = await _TaskSteps(driver, cell, job)
    except BaseException as error:  # noqa: BLE001  # any error of a behavior goes to its actor
        failure = error
    if verdict is SUSPENDED:
        return
    driver.clear()
    try:
        driver.pool.resume(cell, verdict, failure)
    finally:
        # No cycle with its traceback, as in `TaskPool.advance`.
        failure = None


@final
class _TaskSteps:
    """Awaiting it steps a coroutine in its own context, and passes what it waits for on to the task."""

    __slots__ = ("_cell", "_driver", "_job")

    def __init__(self, driver: TaskDriver, cell: ActorCell, job: Coroutine[Any, Any, Any]) -> None:
        self._driver = driver
        self._cell = cell
        self._job = job

    def __await__(self) -> Generator[Any, Any, object]:
        driver, cell, job = self._driver, self._cell, self._job
        late_cancel, driver.late_cancel = driver.late_cancel, None
        yielded = driver.yielded
        if not driver.has_begun and driver.pool.has_ended(cell):
            # The actor was killed before its coroutine started.
            job.close()
            return None
        try:
            if not driver.has_begun or (yielded is None and late_cancel is None):
                # The first step; or the wait is over, and the driver has woken the task for it.
                yielded = step_in_task(driver, cell, job.send, None)
            if late_cancel is not None:
                try:
                    if not cancel_awaited(yielded, late_cancel):
                        yielded = step_in_task(driver, cell, job.throw, late_cancel)
                finally:
                    # No cycle with its traceback, as in `TaskPool.advance`.
                    late_cancel = None
            while True:
                if type(yielded) is DriverFuture:
                    # The driver waits itself, and a tick continues the coroutine.
                    driver.has_begun = True
                    driver.yielded = yielded
                    driver.wait_for(yielded)
                    return SUSPENDED
                try:
                    sent = yield yielded
                except GeneratorExit:
                    # The event loop was closed before the coroutine ended.
                    job.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # a cancellation, or the exception of the future
                    yielded = step_in_task(driver, cell, job.throw, error)
                else:
                    yielded = step_in_task(driver, cell, job.send, sent)
        except StopIteration as stop:
            return stop.value


def cancel_awaited(awaited: Any, error: BaseException) -> bool:
    """Cancel what a coroutine waits for, as a cancelled task does; return False if `error` must be thrown into the coroutine."""
    # With its message: anyio recognizes its own cancellations by it.
    if awaited is None or not awaited.cancel(*error.args[:1]):
        return False
    # The task will wait for it now. A task requires this mark, which the driver removed when it waited itself.
    awaited._asyncio_future_blocking = True  # noqa: SLF001  # part of asyncio's protocol for custom tasks
    return True


def step_in_task(driver: TaskDriver, cell: ActorCell, resume: Callable[[Any], Any], value: object) -> Any:
    """Make one step in the coroutine's own context."""
    assert driver.context is not None
    driver.pool.begin_step(driver, cell)
    try:
        return driver.context.run(resume, value)
    finally:
        # If the value is an exception: no cycle with its traceback, as in `TaskPool.advance`.
        value = None
        driver.pool.end_step()


@final
class _DriverCoroutine(Coroutine[Any, Any, None]):
    """The coroutine of a driver's task. It starts even if the task is cancelled before its first step.

    Such a task throws the cancellation into a coroutine that has not started, which ends both. But the driver may have a coroutine already
    whose first step was made on its behalf. So this one starts, and passes the cancellation on.
    """

    __slots__ = ("_driver", "_inner")

    def __init__(self, driver: TaskDriver) -> None:
        # None once it has started: the driver has the task, which has this coroutine, and they must not keep each other alive.
        self._driver: TaskDriver | None = driver
        self._inner = run_driver(driver)

    def send(self, value: Any) -> Any:
        """Continue."""
        self._driver = None
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Continue with an error; before the first step, start and keep the error for the driver's coroutine."""
        driver, self._driver = self._driver, None
        if driver is None:
            try:
                return self._inner.throw(*error)
            finally:
                # No cycle with its traceback, as in `TaskPool.advance`.
                error = ()
        first = error[0]
        driver.late_cancel = first if isinstance(first, BaseException) else asyncio.CancelledError()
        return self._inner.send(None)

    def close(self) -> None:
        """Close the inner coroutine."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()


@final
class PendingCoroutine:
    """A coroutine that cannot start because no event loop drives the loop. Takes the place of a driver in its cell."""

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
        """Give the coroutine up: like a task that is cancelled before its first step, it never starts."""
        self._withdraw(self)
        self.job.close()


class CoroutineRunner:
    """Starts, steps and finishes the coroutines of one loop."""

    __slots__ = (
        "_kernel",
        "_unstarted",
        "home_context",
        "host_context",
        "in_flight",
        "may_inline",
        "paused",
        "pool",
        "stepper",
    )

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        # The tasks in whose names coroutines are stepped on the current host; made when they are first needed.
        self.pool: TaskPool | None = None
        # Where async behaviors start from if their actor has no context of its own, and where inline ticks run.
        self.home_context = copy_context()
        # The context in which the host calls the loop.
        self.host_context: Any = self.home_context
        # True while there is a host, so that a task that waits for an answer may run a tick.
        self.may_inline = False
        # How many coroutines are suspended, and how many of them wait for something that ends inside the loop.
        self.in_flight: Count = 0
        self.paused: Count = 0
        # The driver whose coroutine is being stepped.
        self.stepper: Any = None
        # Coroutines that wait for the loop to get a host.
        self._unstarted: dict[PendingCoroutine, None] = {}

    # -- starting ---------------------------------------------------------------------------------------------------

    def start(self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> object:
        """Start a coroutine; return its result, or None if it has suspended. Raises what the coroutine raises."""
        kernel = self._kernel
        pool = self.pool
        if pool is None:
            pool = self.make_pool()
        if kernel.is_polled or not self.may_inline:
            return pool.start_later(cell, coroutine, context)
        was_foreign = kernel.is_context_foreign
        kernel.is_context_foreign = True
        try:
            return pool.start(cell, coroutine, context, kernel.is_inline)
        finally:
            kernel.is_context_foreign = was_foreign

    def start_later(
        self, cell: ActorCell, coroutine: Coroutine[Any, Any, Any], context: Context | None
    ) -> None:
        """Start a coroutine in its own task, not inside this call."""
        pool = self.pool
        if pool is not None and pool.is_closing:
            # The loop ends, and an actor whose handler was in flight ends now: this is waited for as well.
            pool.start_later(cell, coroutine, context)
        elif self._kernel.host is None:
            # The loop may be driven on any event loop later.
            unstarted = PendingCoroutine(cell, coroutine, context, self._withdraw)
            self._unstarted[unstarted] = None
            self.suspend(cell, unstarted)
        else:
            self.make_pool().start_later(cell, coroutine, context)

    def make_pool(self) -> TaskPool:
        """Return the pool of tasks on the current host, making it first if there is none."""
        if self.pool is None:
            self.pool = TaskPool(self, self._kernel.runner.event_loop_for_tasks())
        return self.pool

    def has_unstarted(self) -> bool:
        """Return True if coroutines wait for a host."""
        return len(self._unstarted) > 0

    def is_bound_to_pool(self) -> bool:
        """Return True if coroutines are suspended in tasks of the pool's event loop."""
        return self.in_flight > len(self._unstarted)

    def start_unstarted(self) -> None:
        """The loop has a host: start what waited for one."""
        for unstarted in list(self._unstarted):
            self._withdraw(unstarted)
            self.start_later(unstarted.cell, unstarted.job, unstarted.context)

    def start_exit_hooks(self) -> None:
        """The loop ends: start the asynchronous exit hooks that have waited for a host."""
        pool = self.make_pool()
        pool.begin_closing()
        for unstarted in list(self._unstarted):
            self._withdraw(unstarted)
            pool.start_later(unstarted.cell, unstarted.job, unstarted.context)

    def close_unstarted(self) -> None:
        """The loop has ended: what has not been started never will be."""
        for unstarted in list(self._unstarted):
            del self._unstarted[unstarted]
            unstarted.job.close()

    def _withdraw(self, unstarted: PendingCoroutine) -> None:
        del self._unstarted[unstarted]
        cell = unstarted.cell
        cell.driver = None
        self.in_flight -= 1

    # -- suspending and going on ------------------------------------------------------------------------------------

    def suspend(self, cell: ActorCell, driver: CoroutineDriver) -> None:
        """Note that an actor's coroutine has suspended, and what drives it."""
        cell.driver = driver
        self.in_flight += 1

    def new_future(self, source: Source) -> DriverFuture | None:
        """Return a future that the coroutine being stepped can await, and that is completed by THIS_LOOP or an OTHER_LOOP.

        None if no coroutine is being stepped, or it must await a future of the event loop.
        """
        pool = self.pool
        if self.stepper is None or pool is None or pool.is_closing or not self.may_inline:
            return None
        return pool.new_future(self.stepper, source)

    def wake(self, cell: ActorCell) -> None:
        """A suspended coroutine may go on: its actor gets a turn."""
        self._kernel.requeue(cell)

    def wake_in_host_call(self, cell: ActorCell) -> None:
        """Do what `wake` does in a call of the host, which then runs the tick itself."""
        kernel = self._kernel
        kernel.run_queue.push(cell)
        if kernel.is_awake or kernel.is_ticking or not self.may_inline:
            kernel.wake_host()
            return
        kernel.is_awake = True
        if kernel.host is not None:
            kernel.host.wakeups += 1
            kernel.host_call()

    def resume(self, driver: Any) -> None:
        """Step a coroutine whose wait is over."""
        kernel = self._kernel
        pool = self.pool
        assert pool is not None
        was_foreign = kernel.is_context_foreign
        kernel.is_context_foreign = True
        try:
            # `poll_once` may be called by a task of the program.
            pool.advance(driver, kernel.is_inline or kernel.is_polled)
        finally:
            kernel.is_context_foreign = was_foreign

    def begin_step(self, cell: ActorCell) -> None:
        """A step of an actor's coroutine begins: until it ends, it is this actor's turn."""
        self._kernel.begin_step(cell)

    def end_step(self) -> None:
        """The step has ended."""
        self._kernel.end_step()

    def has_exited(self, cell: ActorCell) -> bool:
        """Return True if an actor has exited, though its coroutine may still run."""
        return cell.status >= STOPPED

    def finished(
        self, cell: ActorCell, verdict: object, error: BaseException | None, was_cancelled: bool
    ) -> None:
        """A coroutine that had suspended has ended: with a verdict, or with an error that may be a cancellation."""
        kernel = self._kernel
        cell.driver = None
        message, cell.message = cell.message, None
        self.in_flight -= 1
        kernel.check_idle()
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        kind = type(error)
        if issubclass(kind, (KeyboardInterrupt, SystemExit)):
            assert error is not None
            kernel.exit_with(error)
        if cell.status >= STOPPED:
            # It was killed, or the loop could not wait any longer and has ended the actor without it.
            return
        if error is None:
            if cell.ctx is not None:
                # The message was handled to its end: its delivery callback is no longer needed.
                cell.ctx.sender = 0
            if cell.status == INIT:
                kernel.actors.init_finished(cell, verdict)
            elif verdict is not None and verdict is not OK_VERDICT:
                kernel.apply_final_verdict(cell, verdict)
        elif issubclass(kind, (KeyboardInterrupt, SystemExit)):
            pass
        elif cell.status == INIT and issubclass(kind, IgnoreChild):
            kernel.actors.mark_stopping(cell)
            cell.reason = NORMAL
            cell.cause = error
        elif issubclass(kind, StashMessage) or cell.status < STOPPING:
            # An actor whose coroutine was suspended has a context.
            kernel.behavior_raised(cell, cell.ctx, message, error)  # type: ignore[arg-type]  # see above
        elif not was_cancelled:
            kernel.reporter.error(
                f"the behavior of {kernel.label(cell)} raised while it was being stopped", error
            )
        kernel.settle(cell)
