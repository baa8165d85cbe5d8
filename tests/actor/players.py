"""Actors that record what happens to them, and helpers to run their loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from bandstand.actor import Actor, ActorSystem, ask, id_of, tell
from bandstand.core import ExitReason, Lane
from tests.core.support import Boom

R = TypeVar("R")
Book = list[Any]

PATIENCE = 30  # seconds to wait before a test fails


def ride(loop: ActorSystem, body: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine inside the `async with` block of a loop, on an event loop of the kind the loop would make."""

    async def main() -> R:
        async with loop:
            return await body()

    with asyncio.Runner(loop_factory=loop.config.loop_factory) as runner:
        return runner.run(main())


def elsewhere(function: Callable[[], R]) -> R:
    """Call a function on another thread, wait for it, and raise what it raises."""
    results: list[R] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 -- it is raised again on this thread
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the other thread has not come back"
    if errors:
        raise errors[0]
    return results[0]


def spin(loop: ActorSystem, passes: int = 30) -> None:
    """Run ticks and turns of the event loop, for coroutines that `settle` does not wait for."""
    for _ in range(passes):
        loop.poll_once()


class Noter(Actor):
    """Records messages. It has no hooks and no coroutines, so it is spawned in one step."""

    def __init__(self, book: Book) -> None:
        self.book = book

    @tell
    def note(self, what: object) -> None:
        self.book.append(what)

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: object) -> None:
        self.book.append(what)

    @tell
    def crash(self) -> None:
        raise Boom("crash")

    @tell
    def leave(self) -> None:
        self.stop()

    @ask
    def count(self) -> int:
        return len(self.book)


ENDS: dict[str, tuple[Callable[[ActorSystem, Noter], None], str]] = {
    "stop": (lambda loop, handle: handle.stop(), "NORMAL"),
    "drain": (lambda loop, handle: handle.stop(drain=True), "NORMAL"),
    "leave": (lambda loop, handle: handle.leave(), "NORMAL"),
    "panic": (lambda loop, handle: handle.crash(), "PANIC"),
    "fail": (lambda loop, handle: loop.fail_actor(id_of(handle)), "FAIL"),
}
"""Every kind of end except a kill, and its reason."""


class Lively(Noter):
    """Records its start and its end too."""

    def on_start(self) -> None:
        self.book.append("start")

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append(("stop", reason.name, None if cause is None else type(cause).__name__))


class Slow(Noter):
    """The same with an async start, end and handler."""

    async def on_start(self) -> None:
        self.book.append("starting")
        await turns()
        self.book.append("started")

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append(("stopping", reason.name, None if cause is None else type(cause).__name__))
        await turns()
        self.book.append("stopped")

    @tell
    async def slowly(self, what: object) -> None:
        self.book.append(("begin", what))
        await turns()
        self.book.append(("end", what))


async def turns(count: int = 3) -> None:
    """Let the event loop run some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


class Puppet(Actor):
    """Runs the functions it is sent."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.kept: Any = None

    @tell
    def do(self, deed: Callable[[Puppet], object]) -> None:
        self.kept = deed(self)

    @tell
    async def do_slowly(self, deed: Callable[[Puppet], Coroutine[Any, Any, object]]) -> None:
        await deed(self)

    @tell
    def note(self, what: object) -> None:
        self.book.append(what)

    @tell(lane=Lane.CONTROL)
    def urgent(self, what: object) -> None:
        self.book.append(what)

    @ask
    def entries(self) -> Book:
        return list(self.book)

    def write(self, *what: object, **named: object) -> None:
        """Record the arguments. This is not a message; it is for timers and work."""
        self.book.append((what, named) if named else what)

    def fail(self, *_: object) -> None:
        raise Boom("fail")


class Brief(Noter):
    """Stops itself in on_start."""

    def on_start(self) -> Awaitable[None] | None:
        self.book.append("start")
        self.stop()
        return None

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.book.append((reason, cause))


class BriefLater(Brief):
    async def on_start(self) -> None:
        await turns()
        super().on_start()
