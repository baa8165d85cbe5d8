"""What the tests of other threads play with: a loop on a thread of its own, and threads to use its handles on."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Event
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from bandstand.actor import Actor, Loop, ask, data
from bandstand.core import LoopConfig, MonotonicClock
from tests.actor.asking import audit, ended, turns
from tests.core.stage import HostFactory

PATIENCE = 30  # seconds to wait for what must come
R = TypeVar("R")


class Sink(Actor):
    """Writes down what comes, and can be held up for real."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @data
    def put(self, what: Any) -> None:
        self.log.append(what)

    @data
    def hold_thread(self, begun: threading.Event, gate: threading.Event) -> None:
        """Block the whole loop."""
        begun.set()
        gate.wait(PATIENCE)

    @ask
    def count(self) -> int:
        return len(self.log)


class Stage:
    """A loop that runs on a thread of its own; `do` does something there, and other threads have its handles."""

    def __init__(self, factory: HostFactory) -> None:
        self._ready = threading.Event()
        self._factory = factory
        self._end: Event | None = None
        self._host: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        # Whether everybody else is done with it when it ends: then there is something to audit.
        self.is_quiet = True
        self.loop = Loop(LoopConfig(), clock=MonotonicClock())
        self.thread = threading.Thread(target=self._run, name="stage")
        self.thread.start()
        assert self._ready.wait(PATIENCE)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._factory) as runner:
                runner.run(self._main())
            if self.is_quiet:
                # Here, on the thread that owns it.
                audit(self.loop)
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
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
        """Do something on the loop's thread."""

        async def body() -> R:
            return deed()

        return self.submit(body()).result(PATIENCE)

    def settle(self) -> None:
        """Give the loop a few turns."""
        self.submit(turns()).result(PATIENCE)

    def close(self) -> None:
        """End the loop, wait until it has ended, and hear what its audit has found."""
        if self.thread.is_alive():
            assert self._host is not None
            assert self._end is not None
            self._host.call_soon_threadsafe(self._end.set)
            self.thread.join(PATIENCE)
            assert not self.thread.is_alive(), "the loop does not end"
        if self._failure is not None:
            raise self._failure


@contextmanager
def staged(factory: HostFactory) -> Generator[Stage]:
    """A stage for the length of a block; its books are audited at the end."""
    stage = Stage(factory)
    try:
        yield stage
    finally:
        stage.close()


def elsewhere(act: Callable[[], R]) -> R:
    """Do something on a plain thread: its result, or what it raised."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result(PATIENCE)


def looping(main: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine on another thread's own event loop."""
    return elsewhere(lambda: asyncio.run(asyncio.wait_for(main(), PATIENCE)))


def books(stage: Stage) -> dict[str, int]:
    return stage.do(lambda: ended(stage.loop.ask_statistics()))
