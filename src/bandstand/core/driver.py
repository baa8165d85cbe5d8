"""A driver: one asyncio task that drives one coroutine after the other, and waits, parked, in between.

Why there are such things, and how they are pooled, is told in `drivers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import TYPE_CHECKING, Any, final

from bandstand.core.pause import Pause

if TYPE_CHECKING:
    from bandstand.core.drivers import Drivers
    from bandstand.core.hot.cell import Cell

__all__ = ("Driver",)

# What driving a coroutine answers that has paused.
PAUSED = object()


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
        "_is_paused",
        "_park",
        "_stray",
        "_yielded",
        "is_listed",
        "serial",
        "task",
    )

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers
        self._cell: Cell | None = None
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._context = drivers.context
        self._has_started = False
        self._is_begun = False
        # While its coroutine waits for a pause to end: it goes on inside the loop, and the task stays parked.
        self._is_paused = False
        self._yielded: Any = None
        self._park: asyncio.Future[None] | None = None
        # A cancellation that came when the task could not take it: before its own first step.
        self._stray: BaseException | None = None
        # Which of its coroutines this is: whoever was asked for something by an earlier one is waited for by nobody.
        self.serial = 0
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
        if type(yielded) is Pause:
            self._pause(yielded)
        elif self._park is not None and not self._park.done():
            self._park.set_result(None)

    def _pause(self, pause: Pause) -> None:
        """Keep the coroutine where it is until the pause is over."""
        self._is_paused = True
        self._drivers.paused += 1
        if pause.done():
            self.end_pause(pause)

    def end_pause(self, pause: Pause) -> None:
        """A pause is over: have the coroutine go on that waits for it, if it still does."""
        if not self._is_paused or self._yielded is not pause:
            return
        assert self._cell is not None
        if self._drivers.is_closing:
            self.take_over()
        else:
            self._drivers.go_on(self._cell)

    def take_over(self) -> None:
        """The loop has ended and ticks no more: if a pause is over, the task itself goes on with the coroutine."""
        if self._is_paused and self._yielded.done():
            self._end_paused()
            self._yielded = None
            if self._park is not None and not self._park.done():
                self._park.set_result(None)

    def leave_pause(self) -> tuple[Cell, Coroutine[Any, Any, Any], Context] | None:
        """Take the coroutine whose pause is over; None if there is none, or the task has been cancelled and sees to it."""
        if not self._is_paused or not self._yielded.done() or (self._park is not None and self._park.done()):
            return None
        if not self._has_started and getattr(self.task, "_must_cancel", True):
            return None
        assert self._cell is not None
        assert self._coroutine is not None
        self._end_paused()
        return self._cell, self._coroutine, self._context

    def _end_paused(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._drivers.paused -= 1

    def clear(self) -> None:
        """Its coroutine has ended: forget it."""
        self._cell = None
        self._coroutine = None
        self._yielded = None
        self._context = self._drivers.context

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
            if self._stray is not None:
                self._end_paused()
            if not self.is_busy() or self._is_paused:
                self._park = self._drivers.host.create_future()
                if not self.is_busy() and not self._drivers.park(self):
                    return
                try:
                    await self._park
                except asyncio.CancelledError as error:
                    if not self.is_busy():
                        return
                    # Cancelled between a step that was made for us, and our taking over.
                    self._end_paused()
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
        if verdict is PAUSED:
            return
        self.clear()
        self._drivers.resume(cell, verdict, failure, isinstance(failure, asyncio.CancelledError))

    @coroutine
    def _steps(
        self, cell: Cell, job: Coroutine[Any, Any, Any], stray: BaseException | None
    ) -> Generator[Any, Any, object]:
        """Step `job` to its end inside its own context, passing through what it waits for."""
        yielded = self._yielded
        if not self._is_begun and self._drivers.has_ended(cell):
            # Its actor was killed before it could begin: then it never does.
            job.close()
            return None
        try:
            if not self._is_begun or (yielded is None and stray is None):
                # From its beginning; or it asked for one turn of the host, and our taking over was one.
                yielded = self._step(cell, job.send, None)
            if stray is not None and (yielded is None or not yielded.cancel()):
                yielded = self._step(cell, job.throw, stray)
            while True:
                if type(yielded) is Pause:
                    # It goes on inside the loop: back to our place, the coroutine stays with us.
                    self._yielded = yielded
                    self._is_begun = True
                    self._pause(yielded)
                    return PAUSED
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
        self._drivers.note_stepper(self)
        try:
            return self._context.run(step, value)
        finally:
            self._drivers.note_stepper(None)
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
