"""An event loop for a pod: made, run and thrown away whole, on one thread, and never for longer than it may take.

Not by `asyncio.Runner`: at its end that waits for the threads of `asyncio.to_thread`, and for tasks that resist their cancellation,
however long they take; and so long nobody would know that the pod has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.stack import stack_of

__all__ = ("Hosting",)

logger = SafeLogger("bandstand.pod")

T = TypeVar("T")

# How long tasks that were cancelled may take to end, in seconds.
LAST_S = 1.0


@final
class Executor(ThreadPoolExecutor):
    """A pool of threads that knows whether anybody has ever used it."""

    is_used = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a function called on one of its threads."""
        self.is_used = True
        return super().submit(fn, *args, **kwargs)


@final
class Hosting:
    """An event loop of one's own.

    Args:
        factory: what makes it.
        name: whose it is, for people: "pod 'engine'".
    """

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop], name: str) -> None:
        self.loop = factory()
        self._name = name
        # One of its own, to be let go of without waiting. It has threads only when somebody asks for one.
        self._executor = Executor(thread_name_prefix=f"asyncio_bandstand {name}")
        self.loop.set_default_executor(self._executor)

    def run(self, main: Coroutine[Any, Any, T], last_s: float = LAST_S) -> T:
        """Run a coroutine to its end. Whatever else comes out of the event loop, an exit or Ctrl-C, comes out of here.

        Then it is cancelled, and has so many seconds to end.
        """
        task = self.loop.create_task(main)
        try:
            return self.loop.run_until_complete(task)
        finally:
            if not task.done():
                task.cancel()
                self._wait({task}, last_s)

    def discard(self) -> None:
        """Let go of an event loop that has never run. On any thread, also one that runs another."""
        self._executor.shutdown(wait=False)
        self.loop.close()

    def close(self) -> None:
        """Cancel what is left, give it a moment, and let go of the rest."""
        try:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self._wait(tasks, LAST_S)
            if left := [task.get_name() for task in tasks if not task.done()]:
                logger.error(
                    "%s: %d tasks have not ended after they were cancelled, and are left behind: %s",
                    self._name,
                    len(left),
                    ", ".join(left[:10]),
                )
            self.loop.run_until_complete(self._close_generators())
        finally:
            self._let_go()
            self.loop.close()

    def _let_go(self) -> None:
        """A thread cannot be cancelled: what it does it does to its end, and nobody waits for it but the interpreter, at its exit."""
        # Asked first: most pods use no threads, and going through those of all others would take longer the more pods there are.
        running = threading.enumerate() if self._executor.is_used else []
        threads = [each for each in running if each.name.startswith(f"asyncio_bandstand {self._name}_")]
        places = [stack_of(thread.native_id) for thread in threads]
        # One that is waiting for work is at nothing else.
        busy = [place for place in places if place and not place.startswith("_worker()")]
        if busy:
            logger.warning(
                "%s: %d threads of its executor go on, and the program cannot exit before they end: at %s",
                self._name,
                len(busy),
                "; ".join(busy[:10]),
            )
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _close_generators(self) -> None:
        closing = asyncio.ensure_future(self.loop.shutdown_asyncgens())
        await asyncio.wait((closing,), timeout=LAST_S)

    def _wait(self, tasks: set[asyncio.Task[Any]], seconds: float) -> None:
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
