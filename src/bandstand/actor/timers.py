"""Time for actors: calls that come later, once or again and again. They are messages, and go with their actor."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine
from math import ceil
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.jobs import Job, job_method
from bandstand.core.lowlevel import clock_of, send_tagged_after, send_tagged_at
from bandstand.errors import InvalidArgument, TimerInvalid
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.declaration import Schema
    from bandstand.core import ActorId, Loop, TimerId

__all__ = ("Alarm", "Ticker")


# In a millisecond.
NANOSECONDS = 1_000_000


class Alarm:
    """A call that an actor will get. Keep it to take it back."""

    __slots__ = ("_actor", "_loop", "_timer")

    def __init__(self, loop: Loop, actor: ActorId) -> None:
        self._loop = loop
        self._actor = actor
        self._timer: TimerId | None = None

    def _begin(self, schema: Schema, ms: float, job: Job) -> None:
        """Set it, once."""
        lane, method = job_method(schema, job.function)
        self._timer = send_tagged_after(self._loop, self._actor, ms, lane, job, method)

    def cancel(self) -> bool:
        """Take it back: it will not be called any more. False if it has been, or went with its actor.

        One that is due and waits in the mailbox is called.
        """
        timer, self._timer = self._timer, None
        if timer is None:
            return False
        try:
            self._loop.cancel_timer(timer)
        except TimerInvalid:
            return False
        return True


@final
class Ticker(Alarm):
    """A call that an actor gets again and again, never twice at a time.

    At a fixed rate, ticks are due at whole multiples of the period from the start. An actor that lags gets one tick when it
    comes to it, not all that it missed. At a fixed delay, the next tick is due that long after the last one has ended.
    """

    __slots__ = (
        "_call",
        "_count",
        "_is_rate",
        "_is_stopped",
        "_job",
        "_method",
        "_period",
        "_period_ns",
        "_start",
    )

    def __init__(
        self,
        loop: Loop,
        actor: ActorId,
        schema: Schema,
        ms: float,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        *,
        is_rate: bool,
    ) -> None:
        super().__init__(loop, actor)
        if type(ms) not in {int, float} or not 0 < ms < float("inf"):
            raise InvalidArgument(f"ms is {safe_repr(ms)}: a period is a number of milliseconds above 0")
        self._call = Job(function, arguments, named)
        self._job = Job(self._tick, (), {})
        self._method = job_method(schema, function)
        self._period = ms
        self._is_rate = is_rate
        self._is_stopped = False
        self._period_ns = max(1, round(ms * NANOSECONDS))
        # The wheel counts whole milliseconds: ticks are whole multiples from the next full one.
        self._start = ceil(clock_of(loop)()) * NANOSECONDS
        self._count = 0
        if is_rate:
            self._set_next()
        else:
            self._set(ms)

    def cancel(self) -> bool:
        """Tick no more. False if it was cancelled already. A tick that is due and waits in the mailbox comes to nothing."""
        if self._is_stopped:
            return False
        self._is_stopped = True
        super().cancel()
        return True

    def _set(self, ms: float) -> None:
        lane, method = self._method
        self._timer = send_tagged_after(self._loop, self._actor, ms, lane, self._job, method)

    def _tick(self) -> Any:
        if self._is_stopped:
            return None
        if self._is_rate:
            self._set_next()
        result = self._call.run()
        if iscoroutine(result):
            return self._finish(result)
        self._go_on()
        return None

    async def _finish(self, work: Any) -> None:
        await work
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_rate and not self._is_stopped:
            self._set(self._period)

    def _set_next(self) -> None:
        """Set the tick for the next multiple of the period: those that were missed are left out.

        In whole nanoseconds: a multiple that is rounded could come out as now, over and over.
        """
        passed = round(clock_of(self._loop)() * NANOSECONDS) - self._start
        self._count = max(self._count, passed // self._period_ns) + 1
        due = self._start + self._count * self._period_ns
        lane, method = self._method
        self._timer = send_tagged_at(self._loop, self._actor, -(-due // NANOSECONDS), lane, self._job, method)
