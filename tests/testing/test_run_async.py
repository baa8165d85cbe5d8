"""run_async: it runs the body of an async test, and fails for whatever the body leaves behind."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask
from bandstand.core import Context, Loop
from bandstand.errors import InvalidArgumentError
from bandstand.testing import VirtualClock, VirtualEventLoop, run_async
from tests.core.support import Boom, HostFactory, idle

pytestmark = pytest.mark.guarantee("G394")

HOUR = 3600


class Adder(Actor):
    @ask
    async def add(self, one: int, other: int) -> int:
        await asyncio.sleep(HOUR)
        return one + other

    @ask
    async def hang(self) -> None:
        await hang()


def test_it_returns_the_result_of_a_body_in_virtual_time() -> None:
    async def main() -> str:
        assert isinstance(asyncio.get_running_loop(), VirtualEventLoop)
        await asyncio.sleep(24 * HOUR)
        return "done"

    assert run_async(main) == "done"


def test_a_system_shares_the_time_of_its_clock() -> None:
    clock = VirtualClock()

    async def main(system: ActorSystem) -> int:
        return await system.options(ask_timeout=2 * HOUR).spawn(Adder).add(1, 2)

    start = clock.now_ns()
    assert run_async(main, ActorSystem(clock=clock), clock=clock) == 3
    assert clock.now_ns() - start == HOUR * 10**9


def test_it_runs_on_another_event_loop(loop_factory: HostFactory) -> None:
    kinds: list[type] = []

    async def main(loop: Loop) -> None:
        kinds.append(type(asyncio.get_running_loop()))
        loop.spawn(idle)

    run_async(main, Loop(), loop_factory=loop_factory)
    host = loop_factory()
    host.close()
    assert kinds == [type(host)]


# --- failures ---------------------------------------------------------------------------------------------------------


def raise_later(error: Exception) -> None:
    """Raise it in a callback of the event loop, which logs it and continues."""

    def fail() -> None:
        raise error

    asyncio.get_running_loop().call_soon(fail)


def test_the_exception_of_the_body_is_raised() -> None:
    async def main() -> None:
        raise Boom("body")

    with pytest.raises(Boom, match="body"):
        run_async(main)


def test_the_cancellation_of_the_body_is_raised() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(main)


def test_an_exception_that_escapes_into_the_event_loop_ends_the_body() -> None:
    async def main() -> None:
        raise_later(Boom("callback"))
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="escaped into the event loop: Boom: callback") as caught:
        run_async(main)
    assert isinstance(caught.value.__cause__, Boom)


def test_an_escaped_exception_fails_a_body_that_has_ended() -> None:
    async def main() -> None:
        raise_later(Boom("callback"))

    with pytest.raises(AssertionError, match="Boom: callback"):
        run_async(main)


def test_the_exception_of_the_body_mentions_what_escaped() -> None:
    async def main() -> None:
        raise_later(Boom("callback"))
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("body")

    with pytest.raises(LookupError, match="body") as caught:
        run_async(main)
    assert caught.value.__notes__ == ["an exception escaped into the event loop: Boom: callback"]


def test_a_task_that_has_not_ended_is_reported() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(HOUR), name="humming")
        await asyncio.sleep(0)
        assert not task.done()

    with pytest.raises(AssertionError, match="left something behind: task 'humming' has not ended"):
        run_async(main)


def test_an_actor_that_ignores_its_end_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(ctx: Context[Any], data: object) -> None:
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(HOUR)

    clock = VirtualClock()

    async def main(loop: Loop) -> None:
        loop.send(loop.spawn(stubborn), None)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="left something behind: task 'bandstand driver' has not ended"):
        run_async(main, Loop(clock=clock), clock=clock)
    assert "had not finished" in caplog.text


# --- bodies that hang -------------------------------------------------------------------------------------------------


async def hang() -> None:
    await asyncio.Event().wait()


async def ask_for_ever() -> None:
    async with ActorSystem() as system:
        await system.options(ask_timeout=None).spawn(Adder).hang()


async def ignore_cancellation() -> None:
    try:
        await hang()
    except asyncio.CancelledError:
        return


@pytest.mark.parametrize("body", [hang, ask_for_ever, ignore_cancellation])
@pytest.mark.parametrize("virtual", [True, False])
def test_a_body_that_hangs_is_ended(
    loop_factory: HostFactory, body: Callable[[], Coroutine[Any, Any, None]], virtual: bool
) -> None:
    with pytest.raises(TimeoutError, match=r"has not ended within 0.01 s; task 'Task-\d+' has not ended"):
        run_async(body, timeout=0.01, loop_factory=None if virtual else loop_factory)


@pytest.mark.parametrize("timeout", [None, 1000, timedelta(days=1)])
def test_the_timeout_is_in_real_time_and_leaves_no_thread(timeout: Any) -> None:
    before = threading.active_count()

    async def main() -> int:
        await asyncio.sleep(10_000 * HOUR)
        return threading.active_count()

    assert run_async(main, timeout=timeout) == before + (timeout is not None)
    assert threading.active_count() == before


@pytest.mark.parametrize("timeout", [-1, math.nan, "soon"])
def test_a_timeout_that_is_no_duration_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"timeout is .*: pass seconds .*, or None"):
        run_async(hang, timeout=timeout)
