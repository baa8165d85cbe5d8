"""Helpers for tests of other threads: a loop on its own thread, and threads that use its handles."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Event
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core import LoopConfig, MonotonicClock
from tests.actor.asking import audit, ended, turns
from tests.core.support import HostFactory

PATIENCE = 30  # seconds to wait for what must come
R = TypeVar("R")


class Sink(Actor):
    """Records messages, and can block its thread."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @tell
    def put(self, what: Any) -> None:
        self.log.append(what)

    @tell
    def hold_thread(self, begun: threading.Event, gate: threading.Event) -> None:
        """Block the whole loop."""
        begun.set()
        gate.wait(PATIENCE)

    @ask
    def count(self) -> int:
        return len(self.log)


class ThreadLoop:
    """A loop that runs on its own thread; `do` runs a function there."""

    def __init__(self, factory: HostFactory) -> None:
        self._ready = threading.Event()
        self._factory = factory
        self._end: Event | None = None
        self._host: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        # Whether all other threads are done with it when it ends, so that it can be audited.
        self.is_quiet = True
        self.loop = ActorSystem(LoopConfig(), clock=MonotonicClock())
        self.thread = threading.Thread(target=self._run, name="loop owner")
        self.thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._factory) as runner:
                runner.run(self._main())
            if self.is_quiet:
                # On the thread that owns the loop.
                audit(self.loop)
        except BaseException as error:  # noqa: BLE001  # raised in the test's thread
            self._failure = error

    async def _main(self) -> None:
        self._host = asyncio.get_running_loop()
        self._end = Event()
        async with self.loop:
            self._ready.set()
            await self._end.wait()

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        assert self._host is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._host)

    def do(self, deed: Callable[[], R]) -> R:
        """Run a function on the loop's thread."""

        async def body() -> R:
            return deed()

        return self.submit(body()).result(PATIENCE)

    def settle(self) -> None:
        """Give the loop a few turns."""
        self.submit(turns()).result(PATIENCE)

    def close(self) -> None:
        """Stop the loop, wait for its thread, and raise what its audit found."""
        if self.thread.is_alive():
            assert self._host is not None
            assert self._end is not None
            self._host.call_soon_threadsafe(self._end.set)
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive(), "the loop does not end"
        if self._failure is not None:
            raise self._failure


@contextmanager
def thread_loop(factory: HostFactory) -> Generator[ThreadLoop]:
    """Run a loop on its own thread for a block, and audit it at the end."""
    owner = ThreadLoop(factory)
    try:
        yield owner
    finally:
        owner.close()


def on_thread(act: Callable[[], R]) -> R:
    """Run a function on a plain thread. Return its result, or raise its error."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(PATIENCE)


def on_event_loop(main: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine on an event loop of another thread."""
    return on_thread(lambda: asyncio.run(asyncio.wait_for(main(), PATIENCE)))


def ask_counts(owner: ThreadLoop) -> dict[str, int]:
    return owner.do(lambda: ended(owner.loop.ask_statistics()))
