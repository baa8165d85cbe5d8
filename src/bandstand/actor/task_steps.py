"""A reply as the coroutine of a task: `asyncio.create_task(handle.value())`.

asyncio accepts every `collections.abc.Coroutine` as the coroutine of a task, and steps it with `send` and `throw`. A reply can be awaited
by several tasks, so one generator per reply is not enough: each task that steps a reply has its own await. A reply that is
awaited in the usual way needs none of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any, Protocol, final


class SteppedReply(Protocol):
    """What `TaskSteps` calls of a reply."""

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the answer."""
        ...

    def cancel_unless_awaited(self) -> None:
        """Cancel the ask, unless a coroutine awaits the reply."""
        ...


@final
class TaskSteps:
    """The awaits of one reply by the tasks that have the reply as their coroutine."""

    __slots__ = ("_awaits",)

    def __init__(self) -> None:
        self._awaits: dict[asyncio.Task[Any] | None, Generator[Any, Any, Any]] = {}

    def send(self, reply: SteppedReply, value: object) -> Any:
        """Step the current task's await; the first call begins it."""
        task = _current_task()
        steps = self._awaits.get(task)
        if steps is None:
            steps = self._awaits[task] = reply.__await__()
        try:
            return steps.send(value)
        except BaseException:  # StopIteration with the answer, or the error of the reply
            self._awaits.pop(task, None)
            raise

    def throw(self, reply: SteppedReply, error: BaseException) -> Any:
        """Raise an error in the current task's await. If the await has not begun, cancel the ask and raise the error."""
        task = _current_task()
        steps = self._awaits.get(task)
        if steps is None:
            reply.cancel_unless_awaited()
            raise error
        try:
            return steps.throw(error)
        except BaseException:  # likewise
            self._awaits.pop(task, None)
            raise

    def close(self, reply: SteppedReply) -> None:
        """End the current task's await. If it has not begun, cancel the ask."""
        steps = self._awaits.pop(_current_task(), None)
        if steps is None:
            reply.cancel_unless_awaited()
        else:
            steps.close()


def thrown(
    error: type[BaseException] | BaseException, value: object, traceback: TracebackType | None
) -> BaseException:
    """Return the exception that the arguments of `Coroutine.throw` describe."""
    if isinstance(value, BaseException):
        error = value
    elif isinstance(error, type):
        error = error() if value is None else error(value)
    return error if traceback is None else error.with_traceback(traceback)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        # No event loop is running: the caller steps the reply by hand.
        return None
