"""A driver: one asyncio task, in whose name one coroutine after the other is stepped.

Why there are such things, and how they are pooled, is told in `drivers`. Here is what one of them is at. Its coroutine waits
for something, and is either *kept* or with the task. Kept means that the loop itself steps it again as soon as that is
over, in the name of the task, which stays parked: the common case, and cheap. What can be waited for so is a pause, a turn
of the host (`asyncio.sleep(0)`), and any future of the host. The task takes the coroutine over when it is cancelled, when
the loop has ended and ticks no more, and when the coroutine waits for something that a task must complain about.
"""

# The hot modules are one mechanism in several files: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeAlias

from bandstand.core.hot.flights import Flights
from bandstand.core.hot.pause import Pause

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell
    from bandstand.core.hot.drivers import Drivers

Count: TypeAlias = int

THEIRS = False


class Driver:
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

    def __init__(self, pool: Drivers, kernel: Flights) -> None:
        self.pool = pool
        self.kernel = kernel
        # Its task, which whoever makes it sets, and the future in which that waits for something to do.
        self.task: Any = None
        self.park: Any = None
        self.has_started = False
        self.cell: Cell | None = None
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
        cell: Cell,
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
        if type(yielded) is Pause:
            pause = yielded
            self.is_kept = True
            self.kernel._paused += 1
            if pause.done():
                self.end_pause(pause)
            return True
        if yielded is None:
            pause = Pause(self, THEIRS)
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

    def end_pause(self, pause: Pause) -> None:
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
        if type(yielded) is not Pause:
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
