"""What a driver's task does: wait, parked, and take a coroutine over when nobody else can step it.

Nearly every step is made elsewhere, in the name of this task (`hot.drivers` says how and why). It has a coroutine to itself
that could not begin inside the loop, or that was cancelled, or that is in flight when the loop has ended; it hands one
back as soon as it pauses.
"""

from __future__ import annotations

import asyncio

# Documented by asyncio, underscore and all, for those who write tasks of their own.
from asyncio import Task, _enter_task, _leave_task, current_task  # pyright: ignore[reportPrivateUsage]
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bandstand.core.hot.pause import Pause

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.driver import Driver

__all__ = ("TASKS", "Tasks")

# What driving a coroutine answers that has paused.
PAUSED = object()


def start(driver: Driver) -> Task[None]:
    """Make a driver's task."""
    pool = driver.pool
    # Past the task factory of the host: an eager one would have it run before the driver knows its task.
    task = Task(Starter(driver), loop=pool.host, name="bandstand driver", context=pool.context)
    task.add_done_callback(lambda _task: pool.forget(driver), context=pool.context)
    return task


class Tasks(NamedTuple):
    """What the drivers do with tasks, who know no event loop by themselves."""

    start: Callable[[Driver], asyncio.Task[None]] = start
    enter: Callable[[asyncio.AbstractEventLoop, asyncio.Task[Any]], None] = _enter_task
    leave: Callable[[asyncio.AbstractEventLoop, asyncio.Task[Any]], None] = _leave_task
    current: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = current_task
    cancelled: type[BaseException] = asyncio.CancelledError


TASKS = Tasks()


async def live(driver: Driver) -> None:
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


async def drive(driver: Driver) -> None:
    """Step the coroutine at hand until it ends, or pauses."""
    cell, job = driver.cell, driver.job
    assert cell is not None
    assert job is not None
    verdict: object = None
    failure: BaseException | None = None
    try:
        verdict = await steps(driver, cell, job)
    except BaseException as error:  # noqa: BLE001  # whatever a behavior raises goes to its actor, not to the host
        failure = error
    if verdict is PAUSED:
        return
    driver.clear()
    driver.pool.resume(cell, verdict, failure)


@coroutine
def steps(driver: Driver, cell: Cell, job: Coroutine[Any, Any, Any]) -> Generator[Any, Any, object]:
    """Step `job` to its end inside its own context, passing through what it waits for."""
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
            if type(yielded) is Pause:
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


def step(driver: Driver, cell: Cell, go_on: Callable[[Any], Any], value: object) -> Any:
    """Make one step, in the coroutine's own context."""
    assert driver.context is not None
    driver.pool.begin_step(driver, cell)
    try:
        return driver.context.run(go_on, value)
    finally:
        driver.pool.end_step()


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
