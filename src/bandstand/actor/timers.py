"""Timers of actors: calls that an actor receives later as messages, once or repeatedly. They end with their actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import iscoroutine
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, final

from bandstand.actor.dispatch import Method
from bandstand.actor.enums import ONE_ARGUMENT
from bandstand.actor.handle import tell_when_room
from bandstand.core import Lane
from bandstand.core.kernel import checked_delay
from bandstand.errors import InvalidArgumentError, InvalidTimerError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_ms

if TYPE_CHECKING:
    from bandstand.actor.declaration import ActorSchema
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId, Loop, TimerId

__all__ = (
    "ActorTarget",
    "Alarm",
    "CallTarget",
    "DeferredCall",
    "Ticker",
    "is_deferred_call",
    "lane_and_method",
    "start_alarm",
)

NS_PER_MS = 1_000_000


# -- deferred calls ----------------------------------------------------------------------------------------------------


@final
class DeferredCall:
    """A function call that an actor makes in a turn of its own: for a timer, or for the result of background work."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                f"{safe_repr(function)} is not callable: pass the function, self.tick, not its result"
            )
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def run(self) -> Any:
        """Make the call."""
        return self.function(*self.args, **self.kwargs)

    @property
    def description(self) -> str:
        """The name of the function, for logs."""
        return f"{getattr(self.function, '__qualname__', self.function)}()"

    def __repr__(self) -> str:
        return f"<call of {getattr(self.function, '__qualname__', self.function)}>"


def _run(_instance: object, call: Any) -> Coroutine[Any, Any, None] | None:
    result = call.run()
    return _await_and_drop(result) if iscoroutine(result) else None


async def _await_and_drop(coroutine: Coroutine[Any, Any, Any]) -> None:
    # A deferred call has no caller, so its result is dropped.
    await coroutine


_METHODS = {
    lane: Method("actor", "deferred_call", _run, lane.value, ONE_ARGUMENT, 1, False, False, ())  # noqa: FBT003  # by position in C
    for lane in (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)
}
_LANES = {lane.value: lane for lane in Lane}


def lane_and_method(schema: ActorSchema, function: Callable[..., Any]) -> tuple[Lane, Method]:
    """Return the lane and the method of a deferred call: the lane of a declared method, else DATA."""
    handle_method = schema.handle_methods.get(getattr(function, "__name__", ""))
    lane = Lane.DATA
    inside = getattr(function, "__func__", None)
    # A batch method is bound through a wrapper.
    if handle_method is not None and handle_method.method.function in (
        inside,
        getattr(inside, "__wrapped__", None),
    ):
        lane = _LANES[handle_method.method.lane]
    return lane, _METHODS[lane]


def is_deferred_call(method: Method) -> bool:
    """Whether a message is a deferred call, and not a message sent through a handle."""
    return method in _METHODS.values()


class CallTarget(Protocol):
    """The actor that makes deferred calls, and how a call gets into its mailbox."""

    @property
    def loop(self) -> Loop:
        """Its loop."""
        ...

    @property
    def actor(self) -> ActorId:
        """Its id."""
        ...

    # Any: only the lane and the name of the function matter.
    def start_timer(self, delay_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:
        """Send a call in `delay_ms` milliseconds, on the lane of `function`."""
        ...

    def start_timer_at(self, at_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:
        """Send a call `at_ms` milliseconds after the loop was made."""
        ...

    def send_when_room(self, call: DeferredCall) -> Awaitable[object]:
        """Send a call as soon as the mailbox has room for it."""
        ...


@final
class ActorTarget:
    """A typed actor as the target of deferred calls."""

    __slots__ = ("_handle", "_schema", "actor", "loop")

    def __init__(self, handle: Handle, schema: ActorSchema) -> None:
        self._handle = handle
        self._schema = schema
        self.loop: Loop = handle.__handle_kernel__.loop
        self.actor = handle.__handle_actor__

    def start_timer(self, delay_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:
        """Send a call in `delay_ms` milliseconds, on the lane of `function`."""
        lane, method = lane_and_method(self._schema, function)
        return self.loop.kernel.start_timer(self.actor, delay_ms, lane.value, call, method)

    def start_timer_at(self, at_ms: int, call: DeferredCall, function: Callable[..., Any]) -> TimerId:
        """Send a call `at_ms` milliseconds after the loop was made."""
        lane, method = lane_and_method(self._schema, function)
        return self.loop.kernel.start_timer_at(self.actor, at_ms, lane.value, call, method)

    def send_when_room(self, call: DeferredCall) -> Awaitable[object]:
        """Send a call as soon as the mailbox has room for it."""
        _, method = lane_and_method(self._schema, call.function)
        return tell_when_room(self._handle, method, call)


# -- timers ------------------------------------------------------------------------------------------------------------


class Alarm:
    """A call that an actor receives once. `Actor.after` creates it; keep it to cancel the call."""

    __slots__ = ("_loop", "_timer")

    def __init__(self, loop: Loop, timer: TimerId | None) -> None:
        self._loop = loop
        self._timer = timer

    def cancel(self) -> bool:
        """Cancel the call; False if it was made, was cancelled, or its actor has ended.

        A call that is due and waits in the mailbox is still made.
        """
        timer, self._timer = self._timer, None
        if timer is None:
            return False
        try:
            self._loop.cancel_timer(timer)
        except InvalidTimerError:
            return False
        return True


def start_alarm(target: CallTarget, delay: Seconds, call: DeferredCall) -> Alarm:
    """Have an actor make a call after `delay` seconds."""
    return Alarm(target.loop, target.start_timer(checked_delay(delay), call, call.function))


@final
class Ticker(Alarm):
    """A call that an actor receives repeatedly, one at a time. `Actor.every` and `Actor.every_after` create it.

    At a fixed rate, ticks are due at whole multiples of the period from the start; an actor that lags behind gets one tick and
    skips those it missed. With a fixed delay, the next tick is due one period after the previous one has finished.
    """

    __slots__ = (
        "_call",
        "_count",
        "_is_cancelled",
        "_is_fixed_rate",
        "_period_ms",
        "_period_ns",
        "_start_ns",
        "_target",
        "_tick_call",
    )

    def __init__(
        self,
        target: CallTarget,
        period: Seconds,
        call: DeferredCall,
        *,
        is_fixed_rate: bool,
    ) -> None:
        super().__init__(target.loop, None)
        period_ms = to_ms("period", period, is_zero_allowed=False)
        self._target = target
        self._call = call
        self._tick_call = DeferredCall(self._tick, (), {})
        self._period_ms = period_ms
        self._period_ns = max(1, round(period_ms * NS_PER_MS))
        self._is_fixed_rate = is_fixed_rate
        self._is_cancelled = False
        # The loop's timers count whole milliseconds, so the ticks do too.
        self._start_ns = ceil(target.loop.kernel.timers.elapsed_ms()) * NS_PER_MS
        self._count = 0
        if is_fixed_rate:
            self._schedule_multiple()
        else:
            self._schedule_delay()

    def cancel(self) -> bool:
        """Stop ticking; False if it was cancelled already. A tick that is due and waits in the mailbox does nothing."""
        if self._is_cancelled:
            return False
        self._is_cancelled = True
        super().cancel()
        return True

    def _tick(self) -> Any:
        if self._is_cancelled:
            return None
        if self._is_fixed_rate:
            self._schedule_multiple()
        result = self._call.run()
        if iscoroutine(result):
            return self._finish(result)
        self._after_tick()
        return None

    async def _finish(self, coroutine: Any) -> None:
        await coroutine
        self._after_tick()

    def _after_tick(self) -> None:
        if not self._is_fixed_rate and not self._is_cancelled:
            self._schedule_delay()

    def _schedule_delay(self) -> None:
        self._timer = self._target.start_timer(ceil(self._period_ms), self._tick_call, self._call.function)

    def _schedule_multiple(self) -> None:
        """Schedule the tick for the next multiple of the period, and skip those that were missed.

        The arithmetic is in whole nanoseconds: a rounded multiple could turn out to be now, over and over.
        """
        elapsed_ns = round(self._loop.kernel.timers.elapsed_ms() * NS_PER_MS) - self._start_ns
        self._count = max(self._count, elapsed_ns // self._period_ns) + 1
        due_ns = self._start_ns + self._count * self._period_ns
        self._timer = self._target.start_timer_at(
            -(-due_ns // NS_PER_MS), self._tick_call, self._call.function
        )
