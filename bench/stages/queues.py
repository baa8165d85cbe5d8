"""asyncio alone as a stage: an actor is a task with an unbounded Queue, and the Queue is its address."""

from __future__ import annotations

import asyncio
from typing import Any

from bench import queues, stopwatch
from bench.case import Outcome, Setting
from bench.stage import Handler, Program, Send, failed

END = object()


class QueueStage:
    """Tasks of one event loop."""

    end = END

    def __init__(self) -> None:
        self.send: Send = asyncio.Queue[Any].put_nowait
        self.ended = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def spawn(self, handler: Handler, room: int = 1024) -> asyncio.Queue[Any]:  # noqa: ARG002  # unbounded
        queue = asyncio.Queue[Any]()
        task = asyncio.get_running_loop().create_task(_serve(queue, handler))
        # The event loop holds its tasks weakly: to keep them until they are done is what its documentation says to do.
        self._tasks.add(task)
        task.add_done_callback(self._left)
        return queue

    def _left(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is None:
            self.ended += 1
        elif not self.finished.done():
            self.finished.set_exception(failed(error))

    def finish(self) -> None:
        # A program that has failed may yet say that it has finished.
        if not self.finished.done():
            self.finished.set_result(None)

    async def close(self) -> None:
        """Cancel whoever is still there."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _serve(queue: asyncio.Queue[Any], handler: Handler) -> None:
    get = queue.get
    while handler(None, await get()) is not END:
        pass


def play(program: Program, setting: Setting) -> Outcome:
    """Play a program on the setting's event loop until it says that it has finished."""
    return queues.run(setting, _play(program, setting))


async def _play(program: Program, setting: Setting) -> Outcome:
    stage = QueueStage()
    play = program(stage, setting)
    # The clock starts when every actor waits for its first message, as it does in bandstand.
    await asyncio.sleep(0)
    start = stopwatch.start()
    play.begin()
    await stage.finished
    # Whoever has returned is counted in the next turn.
    await asyncio.sleep(0)
    elapsed = stopwatch.since(start)
    ended = stage.ended
    await stage.close()
    return play.outcome(elapsed, ended)
