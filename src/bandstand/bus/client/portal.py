"""A way into an event loop from a program that has none: the loop runs on a thread of its own, and whoever comes by here waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar, final

from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import NodeGone

__all__ = ("Portal",)

T = TypeVar("T")

# Seconds to wait for a thread that has nothing left to do.
LAST_S = 5.0


@final
class Portal:
    """An event loop on a thread of its own, and the way in."""

    def __init__(self) -> None:
        self._event_loop = new_event_loop()
        # What somebody waits for.
        self._awaited: set[Future[Any]] = set()
        # A daemon: who forgets to close a connection must still be able to end.
        self._thread = threading.Thread(target=self._run, name="bandstand client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._event_loop)
        try:
            self._event_loop.run_forever()
        finally:
            self._give_up()
            # They hear of it, once each. Not by a task: whoever closes the portal meanwhile cancels all that there are.
            for _ in range(3):
                self._event_loop.call_soon(self._event_loop.stop)
                self._event_loop.run_forever()
            self._event_loop.close()
            # Who has come in between.
            self._give_up()

    def _give_up(self) -> None:
        """Nothing more is done here: nobody is to wait for it."""
        for future in tuple(self._awaited):
            future.cancel()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine over there, and wait for what comes of it."""
        if self._event_loop.is_closed():
            coroutine.close()
            raise NodeGone("this connection is closed")
        try:
            future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._event_loop)
        except RuntimeError:
            # It was closed between the two lines.
            coroutine.close()
            raise NodeGone("this connection is closed") from None
        self._awaited.add(future)
        if self._event_loop.is_closed():
            # Perhaps after the last look at who waits.
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            if getcoroutinestate(coroutine) == CORO_CREATED:
                coroutine.close()
            raise NodeGone("this connection was closed meanwhile") from None
        except BaseException:  # Ctrl-C, as a rule: nobody waits for it any more
            future.cancel()
            raise
        finally:
            self._awaited.discard(future)

    def post(self, function: Callable[[], None]) -> None:
        """Have something done over there, soon."""
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End the thread; what still waits there is cancelled."""

        def stop() -> None:
            for task in asyncio.all_tasks(self._event_loop):
                task.cancel()
            self._event_loop.call_soon(self._event_loop.stop)

        self.post(stop)
        self._thread.join(LAST_S)
