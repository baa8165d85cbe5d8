"""The body of a scope: the task that runs the block, which the scope may have to cancel, and whose cancellation it takes back.

asyncio counts the requests to cancel a task. Whoever makes one and stands in for it takes it back with `uncancel()`; if the count
then is what it was before, nobody else wants the task to end, and the CancelledError has done its work. If not, it goes on: it is
also somebody else's, a timeout's or a group's around the block, and they count in the same way.

The task is only ever cancelled from a turn of the event loop that is nobody's, and never any more once its block has ended. One
that is cancelled in the middle of its own step takes that to its next await, which may lie behind the end of the block; and before
3.13 nothing takes it back.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import AbstractEventLoop, CancelledError, Future, Task
from collections.abc import Callable
from typing import Any, Self, final

from bandstand.core import ActorId
from bandstand.core.lifelines import current_actor, current_loops
from bandstand.errors import InvalidArgument
from bandstand.scope.interruption import is_in_signal_handler

__all__ = ("Body",)

# From then on uncancel() takes back a request that was not thrown yet: so one can be left for the next await.
CAN_TAKE_BACK = sys.version_info >= (3, 13)
# How many turns of the event loop anyio takes at most to cancel a task again that is still in its scope.
TURNS = 2


def actors_at_hand() -> set[ActorId]:
    """Whose turn it is on the loops that ride here; of each loop, one or nobody."""
    found = (current_actor(loop) for loop in current_loops())
    return {actor for actor in found if actor is not None}


@final
class Body:
    """One task in one block."""

    __slots__ = ("_actors", "_before", "_has_left", "_is_interrupted", "_message", "host", "task")

    def __init__(self, host: AbstractEventLoop, task: Task[Any], name: str) -> None:
        self.host = host
        # None when the block is over.
        self.task: Task[Any] | None = task
        # How often somebody had asked the task to end before the block began.
        self._before = task.cancelling()
        # In whose turn the block began, if it is an actor's.
        self._actors = actors_at_hand()
        self._message = f"{name} was cancelled"
        self._is_interrupted = False
        self._has_left = False

    @classmethod
    def here(cls, name: str) -> Self:
        """The task that runs now.

        Raises:
            InvalidArgument: there is none.
        """
        task = asyncio.current_task()
        if task is None:
            raise InvalidArgument(
                f"{name} is entered where no task runs: enter it in a coroutine that a task or an actor runs"
            )
        return cls(asyncio.get_running_loop(), task, name)

    # -- where we are --------------------------------------------------------------------------------------------------

    def is_home(self) -> bool:
        """Whether the caller runs on the event loop of the body."""
        try:
            return asyncio.get_running_loop() is self.host
        except RuntimeError:
            return False

    def current_task(self) -> Task[Any] | None:
        """The task that runs now, if that is on the event loop of the body."""
        return asyncio.current_task() if self.is_home() else None

    def is_asking(self) -> bool:
        """Whether it is the body that calls: its task runs, and neither a signal nor an actor has come in between.

        A loop may have actors take their turn inside of a task that awaits an answer, or starts one.
        """
        if self.task is None or self.current_task() is not self.task or is_in_signal_handler():
            return False
        return actors_at_hand() <= self._actors

    def call_home(self, function: Callable[[], object]) -> bool:
        """Have a function called on the event loop of the body; False, if that is closed.

        Now, if we are there, unless we are in a signal handler, which may have come in the middle of anything.
        """
        if not self.is_home() or is_in_signal_handler():
            return self._call_soon(function)
        function()
        return True

    def _call_soon(self, function: Callable[[], object]) -> bool:
        try:
            self.host.call_soon_threadsafe(function)
        except RuntimeError:
            if not self.host.is_closed():
                raise
            return False
        return True

    # -- cancelling ----------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Have the task cancelled, once, soon, if it is still in its block then. From any thread; asking again changes nothing."""
        if not self._has_left and not self._is_interrupted:
            self._call_soon(self._cancel)

    def _cancel(self) -> None:
        if not self._has_left and not self._is_interrupted:
            assert self.task is not None
            self._is_interrupted = self.task.cancel(self._message)

    def leave(self, error: BaseException | None) -> CancelledError | None:
        """The block has ended, with an error or without: take back what was ours; a cancellation that was not is returned."""
        self._has_left = True
        assert self.task is not None
        is_others = not self._is_interrupted or self.task.uncancel() > self._before
        return error if isinstance(error, CancelledError) and is_others else None

    async def wait(self, future: Future[None]) -> CancelledError | None:
        """Wait for something after the block; a cancellation that comes meanwhile is returned, and is not ours."""
        try:
            await future
        except CancelledError as error:
            return error
        finally:
            # It holds the error, which holds this frame.
            del future
        return None

    async def sort_out(self, stop: CancelledError) -> CancelledError:
        """The cancellation to go on with, of two that came in one.

        If somebody has cancelled the task in the same turn as we, asyncio throws one error for both, which may have our words
        on it. anyio knows its own by their words, and cancels again and again: wait for that.
        """
        if self._is_interrupted and stop.args == (self._message,):
            for _ in range(TURNS):
                try:
                    await asyncio.sleep(0)
                except CancelledError as error:
                    return error
        return stop

    def remind(self) -> None:
        """An error goes on in place of a cancellation that was not ours: have the next await be cancelled, where that can be."""
        if CAN_TAKE_BACK and self.task is not None and self.task.cancelling() > self._before:
            self.task.uncancel()
            self.task.cancel()

    def forget_task(self) -> None:
        """The block is over. A task that ends with an error holds the frames it went through, and they may hold the scope."""
        self.task = None
