"""Helpers for tests of asks: an actor that answers in many ways, and a harness that audits the counters."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Event
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from bandstand.actor import Actor, ActorSystem, AskStatistics, Reply, ask, tell
from bandstand.core import LoopConfig
from bandstand.testing import VirtualClock, leaks_of, run_async
from tests.core.support import Boom, HostFactory, check_statistics

R = TypeVar("R")

RunSystem = Callable[..., ActorSystem]

CAP = 3  # messages a lane


class Oracle(Actor):
    """Answers at once, later, never or with an error, and records what its handlers do."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log: list[str] = [] if log is None else log

    @tell
    def note(self, what: str) -> None:
        self.log.append(what)

    @tell
    async def block(self, gate: Event) -> None:
        """Keep the actor busy until the gate opens."""
        await gate.wait()

    @ask
    def plain(self, value: int = 0) -> int:
        self.log.append(f"plain {value}")
        return value

    @ask
    async def quick(self, value: int = 0) -> int:
        """Answer from a coroutine that never suspends."""
        self.log.append(f"quick {value}")
        return value

    @ask
    async def held(self, gate: Event, value: int = 0) -> int:
        """Answer when the gate opens."""
        self.log.append(f"begins {value}")
        try:
            await gate.wait()
        except CancelledError:
            self.log.append(f"cancelled {value}")
            raise
        self.log.append(f"goes on {value}")
        return value

    @ask
    async def slow(self, ms: float, value: int = 0) -> int:
        """Answer after some milliseconds."""
        await asyncio.sleep(ms / 1000)
        return value

    @ask(raises=LookupError)
    def declared(self, error: Exception) -> int:
        raise error

    @ask(raises=LookupError)
    async def declared_later(self, error: Exception) -> int:
        await asyncio.sleep(0)
        raise error

    @ask
    def broken(self) -> int:
        raise Boom("sync")

    @ask
    async def broken_later(self) -> int:
        await asyncio.sleep(0)
        raise Boom("async")

    @ask
    def last(self, value: int = 0) -> int:
        """Answer, and stop."""
        self.stop()
        return value

    @ask
    async def stubborn(self, first: Event, second: Event, value: int = 0) -> int:
        """Swallow a cancellation at the first gate."""
        try:
            await first.wait()
        except CancelledError:
            self.log.append("refuses")
        await second.wait()
        self.log.append("goes on")
        return value


async def turns(count: int = 10) -> None:
    """Give the event loop a few turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def outcome(reply: Awaitable[R]) -> R | BaseException:
    """Return the result of an awaitable, or the error it raises."""
    try:
        return await reply
    except (Exception, CancelledError) as error:  # noqa: BLE001  # returned to the test
        return error


def watch(reply: Awaitable[R]) -> asyncio.Task[R | BaseException]:
    """Await something in a task."""
    return asyncio.ensure_future(outcome(reply))


async def got(reply: Awaitable[R]) -> R:
    """Wrap a reply in a coroutine."""
    return await reply


def audit(loop: ActorSystem) -> AskStatistics:
    """Assert that an ended loop leaves nothing behind, and that all asks have ended."""
    check_statistics(loop)
    assert leaks_of(loop) == []
    books = loop.ask_statistics()
    assert books.pending == 0, books
    assert min(books.asked, books.answered, books.failed, books.cancelled, books.expired, books.late) >= 0
    return books


def run_system(
    main: Callable[[ActorSystem], Coroutine[Any, Any, None]],
    *,
    clock: VirtualClock | None = None,
    loop_factory: HostFactory | None = None,
    carry_context: bool = True,
    **fields: Any,
) -> ActorSystem:
    """Run a test body inside a system, in virtual time or on the event loop of a factory, and check the counters afterwards.

    `fields` are those of the config. On the event loop of a factory no time passes for the timers.
    """
    if clock is None:
        clock = VirtualClock(autojump=loop_factory is None)
    system = ActorSystem(LoopConfig(**fields), clock=clock, carry_context=carry_context)
    run_in(system, main, clock, loop_factory)
    return system


def run_in(
    system: ActorSystem,
    main: Callable[[ActorSystem], Coroutine[Any, Any, None]],
    clock: VirtualClock,
    loop_factory: HostFactory | None = None,
) -> None:
    """Run a test body inside a system, and check the counters afterwards."""
    run_async(main, system, clock=clock, loop_factory=loop_factory)
    audit(system)


def ended(books: AskStatistics) -> dict[str, int]:
    """Return the ask counters that are not zero."""
    names = ("answered", "failed", "cancelled", "expired", "late", "pending")
    return {name: getattr(books, name) for name in names if getattr(books, name)}


def is_pending(*replies: Reply[Any]) -> bool:
    return not any(reply.done() for reply in replies)


def is_at_rest(loop: ActorSystem) -> bool:
    """Return whether no timer is left."""
    return loop.kernel.timers.next_wakeup() == -1  # pyright: ignore[reportPrivateUsage]  # the statistics do not count deadlines of asks


def refuse_truth(reply: Reply[Any]) -> None:
    """Assert that a reply has no truth value."""
    truth: Callable[[object], bool] = bool
    with pytest.raises(TypeError, match="await it"):
        truth(reply)
