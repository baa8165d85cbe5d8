"""A post: a thread with an event loop, where a kubelet does its work until that is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, final

from bandstand.core.asyncio_host import new_event_loop
from bandstand.core.logs import SafeLogger
from bandstand.pod.affinity import pin, unpin
from bandstand.pod.stages.hosting import Hosting

__all__ = ("Post",)

logger = SafeLogger("bandstand.pod")


@final
class Post:
    """A thread that runs a coroutine to its end, whatever comes out of its event loop meanwhile.

    Args:
        troupe: the name of the troupe.
        core: the core that the thread is pinned to; None for any.
        main: what it runs.
        blame: called with an exit or a Ctrl-C that came out of the event loop: somebody's handler has raised it. It goes on then.
        close: called on the thread as the last thing, when the event loop is closed; with what `main` has raised, if it has.
    """

    def __init__(
        self,
        troupe: str,
        core: int | None,
        main: Callable[[], Coroutine[Any, Any, None]],
        blame: Callable[[BaseException], object],
        close: Callable[[BaseException | None], object],
    ) -> None:
        self._what = f"the kubelet of troupe {troupe!r}"
        self._core = core
        self._main = main
        self._blame = blame
        self._close = close
        self._hosting = Hosting(new_event_loop, self._what)
        self.home: asyncio.AbstractEventLoop = self._hosting.loop
        """Its event loop."""
        # A daemon: a handler of a cooperative pod that is stuck must not keep the interpreter alive for ever.
        self.thread = threading.Thread(target=self._run, name=f"bandstand {troupe} kubelet", daemon=True)

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: the system has no thread to give. Nothing is left, and `close` is not called.
        """
        try:
            self.thread.start()
        except RuntimeError:
            self._hosting.discard()
            raise

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, if it has begun, and is not the one that asks."""
        if self.thread.ident is not None and threading.current_thread() is not self.thread:
            self.thread.join(seconds)

    def call(self, function: Callable[[], object]) -> bool:
        """Call a function on its thread, in the order in which this is asked for; whether there is one any more. From any thread."""
        try:
            self.home.call_soon_threadsafe(function)
        except RuntimeError:
            # It is over, and its event loop is closed.
            return False
        return True

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            if self._core is None or not pin(self._core, self._what):
                unpin()
            main = self.home.create_task(self._main(), name=self._what)
            while not main.done():
                try:
                    self.home.run_until_complete(main)
                except (KeyboardInterrupt, SystemExit) as exit_:
                    self._blame(exit_)
            main.result()
        except BaseException as fault:  # whatever it is, somebody waits to be told
            logger.critical(
                "%s is broken, and ends: this is a fault of bandstand's own", self._what, exc_info=fault
            )
            error = fault
        finally:
            try:
                self._hosting.close()
            finally:
                self._close(error)
