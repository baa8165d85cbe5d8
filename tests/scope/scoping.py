"""What the tests of scopes play with: a stage in virtual time that must be clean at the end, and children of all kinds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from bandstand.core import Context, Loop
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock

if TYPE_CHECKING:
    import pytest

R = TypeVar("R")

# What a loop calls the tasks in which it runs async behaviors: they wait for the next one.
DRIVER = "bandstand driver"


class Boom(Exception):  # noqa: N818 -- it goes boom
    """What a child raises."""


def play(main: Callable[[Loop], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine function on the lane's event loop, with a loop riding on it. On uvloop no time passes."""
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        return _play(main, VirtualClock(autojump=False), uvloop.new_event_loop)
    return play_timed(main)


def play_timed(main: Callable[[Loop], Coroutine[Any, Any, R]], clock: VirtualClock | None = None) -> R:
    """The same in virtual time, asyncio's included."""
    time = VirtualClock() if clock is None else clock
    return _play(main, time, time.new_event_loop)


def _play(
    main: Callable[[Loop], Coroutine[Any, Any, R]],
    clock: VirtualClock,
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> R:
    escaped: list[dict[str, Any]] = []

    async def ridden() -> R:
        asyncio.get_running_loop().set_exception_handler(lambda _host, context: escaped.append(context))
        async with Loop(clock=clock) as loop:
            result = await main(loop)
            check_clean(loop)
        return result

    with asyncio.Runner(loop_factory=factory) as runner:
        result = runner.run(ridden())
    assert escaped == []
    return result


def check_clean(loop: Loop) -> None:
    """Nothing is left of anybody: no task but the current one, which nobody wants to end, and no actor."""
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    others = [task for task in asyncio.all_tasks() if task is not current and task.get_name() != DRIVER]
    assert others == []
    assert loop.statistics().alive == 0


async def turns(number: int = 5) -> None:
    """Let all others have their turn, some times."""
    for _ in range(number):
        await asyncio.sleep(0)


def is_closed(coroutine: Any) -> bool:
    """Whether a coroutine was closed, and so is not one that nobody has awaited."""
    return coroutine.cr_frame is None


async def hang(log: list[str] | None = None, name: str = "child") -> None:
    """Wait for ever, and say when that has ended."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        if log is not None:
            log.append(f"{name} ended")


async def boom(*words: object) -> None:
    """Fail, at the second turn."""
    await asyncio.sleep(0)
    raise Boom(*words)


async def stubborn(release: asyncio.Event) -> str:
    """Ignore every cancellation until it is released; in virtual time, where in the end it is: a test that fails must end."""
    asyncio.get_running_loop().call_later(1_000_000, release.set)
    while not release.is_set():
        with suppress(asyncio.CancelledError):
            await release.wait()
    return "released"


def idle(ctx: Context[Any], data: object) -> None:
    """An actor that does nothing."""


def errors_of(caught: pytest.ExceptionInfo[BaseExceptionGroup[Any]]) -> list[str]:
    """What is in a group, flat and sorted."""
    return sorted(repr(error) for error in flat(caught.value))


def flat(error: BaseException) -> list[BaseException]:
    """All errors in a group of groups."""
    ones: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if ones is not None:
        return [leaf for one in ones for leaf in flat(one)]
    return [error]


def is_over(scope: Scope) -> bool:
    """Whether nothing of a scope is left."""
    return scope.children == () and scope.token.cancelled
