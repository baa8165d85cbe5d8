"""Jobs: functions of an actor that run as messages of it. What its timers bring, and what its work in the background ends with."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, final

from bandstand.actor.enums import ONE
from bandstand.actor.hot.method import Method
from bandstand.core import Lane
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.declaration import Schema

__all__ = ("Job", "is_job", "job_method")


@final
class Job:
    """A call to be made in an actor's turn."""

    __slots__ = ("arguments", "function", "named")

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        if not callable(function):
            raise InvalidArgument(
                f"{safe_repr(function)} cannot be called: pass a function, self.tick, and not what it returns"
            )
        self.function = function
        self.arguments = arguments
        self.named = named

    def run(self) -> Any:
        """Make the call."""
        return self.function(*self.arguments, **self.named)

    @property
    def what(self) -> str:
        """What is called, for people."""
        return f"{getattr(self.function, '__qualname__', self.function)}()"

    def __repr__(self) -> str:
        return f"<call of {getattr(self.function, '__qualname__', self.function)}>"


def _run(_instance: object, job: Any) -> Coroutine[Any, Any, None] | None:
    result = job.run()
    return _finish(result) if iscoroutine(result) else None


async def _finish(work: Coroutine[Any, Any, Any]) -> None:
    # Whatever it returns, there is nobody to give it to.
    await work


_METHODS = {
    lane: Method("actor", "job", _run, lane.value, ONE, 1, False, False, ())  # noqa: FBT003  # by position in C
    for lane in (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)
}
_LANES = {lane.value: lane for lane in Lane}


def job_method(schema: Schema, function: Callable[..., Any]) -> tuple[Lane, Method]:
    """By which lane a job goes: a marked method's own, else DATA."""
    port = schema.ports.get(getattr(function, "__name__", ""))
    lane = Lane.DATA
    inside = getattr(function, "__func__", None)
    # One that takes a list is called by another, which tells what it wraps.
    if port is not None and port.method.function in (inside, getattr(inside, "__wrapped__", None)):
        lane = _LANES[port.method.lane]
    return lane, _METHODS[lane]


def is_job(method: Method) -> bool:
    """Whether a message is a job, and not one of somebody else's."""
    return method in _METHODS.values()
