"""Guards: a token cancels asyncio's own waits, and asyncio's own cancellation still propagates."""

# The block itself raises at its end, so `pytest.raises` contains several statements.
# ruff: noqa: PT012
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any

import anyio
import pytest

from bandstand.core import Context, Loop
from bandstand.errors import InvalidArgumentError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.testing import VirtualClock
from tests.scope.support import (
    iterate,
    listener_count,
    result_of,
    start_waiting,
)

pytestmark = [pytest.mark.spec("K4"), pytest.mark.guarantee("G105")]

FOR_EVER = 3600


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def later(ms: float, function: Callable[..., object], *args: object) -> None:
    asyncio.get_running_loop().call_later(ms / 1000, function, *args)


async def goes_on(before: int = 0) -> None:
    """Check that a task is as before: no cancellation is pending, and it can await."""
    assert this_task().cancelling() == before
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    async with asyncio.timeout(FOR_EVER):
        await asyncio.sleep(0.001)


# -- one guard ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["the token", "its parent", "the inner one"])
@pytest.mark.no_loop
async def test_a_token_cancels_what_the_block_awaits_and_the_task_continues(
    clock: VirtualClock, whose: str
) -> None:
    root = CancelToken()
    token = root.child()
    with pytest.raises(TokenCancelledError, match=r"^the block was cancelled: enough$") as caught:
        async with token.guard() as inner:
            victim = {"the token": token, "its parent": root, "the inner one": inner}[whose]
            later(20, victim.cancel, "enough")
            await asyncio.sleep(FOR_EVER)
    assert caught.value.token == victim.number
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert inner.reason == "enough"
    assert token.cancelled == (whose != "the inner one")
    assert listener_count(root) == listener_count(token) == listener_count(inner) == 0
    await goes_on()


@pytest.mark.no_loop
async def test_a_deadline_ends_the_block(clock: VirtualClock) -> None:
    start = clock.now_ns()
    with pytest.raises(TokenCancelledError, match="its deadline of 30 ms"):
        async with CancelToken(timeout=0.03).guard():
            await asyncio.sleep(FOR_EVER)
    token = CancelToken()
    with pytest.raises(TokenCancelledError, match="its deadline of 20 ms"):
        async with token.guard(timeout=0.02):
            await asyncio.sleep(FOR_EVER)
    assert not token.cancelled
    assert clock.now_ns() - start == 50_000_000
    await goes_on()


@pytest.mark.no_loop
async def test_a_block_that_ends_normally_raises_nothing(clock: VirtualClock) -> None:
    token = CancelToken()
    called: list[str | None] = []
    async with token.guard() as inner:
        inner.on_cancel(lambda which: called.append(which.reason))
        task = await start_waiting(Channel[int]().receive(token=inner))
    assert called == ["the block is over"]
    assert await result_of(task) is TokenCancelledError
    assert not token.cancelled
    assert listener_count(token) == 0
    with pytest.raises(ValueError, match="oops"):
        async with token.guard() as inner:
            raise ValueError("oops")
    assert inner.reason == "the block is over"
    token.cancel()
    await goes_on()


@pytest.mark.no_loop
async def test_on_a_cancelled_token_the_block_is_not_entered(clock: VirtualClock) -> None:
    token = CancelToken()
    token.cancel("enough")
    with pytest.raises(TokenCancelledError, match="enough"):
        async with token.guard():
            pytest.fail("it was entered")
    await goes_on()


@pytest.mark.parametrize("ends", ["by itself", "with an error", "after it has swallowed it"])
@pytest.mark.no_loop
async def test_a_cancellation_that_does_not_end_the_block_does_not_reach_the_next_await(ends: str) -> None:
    token = CancelToken()
    is_wrong = ends == "with an error"
    with pytest.raises(ValueError, match="oops") if is_wrong else nullcontext():
        async with token.guard():
            token.cancel("too late")
            if is_wrong:
                raise ValueError("oops")
            if ends == "after it has swallowed it":
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(FOR_EVER)
    await goes_on()


@pytest.mark.guarantee("G31")
def test_nor_in_an_actor_whose_task_waits_elsewhere(clock: VirtualClock) -> None:
    """The coroutine of an actor is stepped on behalf of a task that is suspended meanwhile."""
    done: list[int] = []

    async def guarded(_ctx: Context[Any], number: int) -> None:
        token = CancelToken()
        async with token.guard():
            token.cancel("too late")
        await goes_on()
        done.append(number)

    async def main() -> None:
        async with Loop(clock=clock) as loop:
            actor = loop.spawn(guarded)
            for number in range(3):
                loop.send(actor, number)
                await asyncio.sleep(1)

    clock.run(main())
    assert done == [0, 1, 2]


def test_misuse_is_refused(clock: VirtualClock) -> None:
    async def main() -> None:
        guard = CancelToken().guard()
        async with guard:
            pass
        with pytest.raises(InvalidArgumentError, match="entered only once"):
            async with guard:
                pass

    clock.run(main())
    with pytest.raises(InvalidArgumentError, match="needs a task"):
        CancelToken().guard().__aenter__().send(None)


def test_a_token_that_is_cancelled_from_another_thread_ends_the_block(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        token = CancelToken()
        # Late enough that the event loop sleeps by then, and must be woken.
        thread = threading.Timer(0.05, token.cancel, ("from afar",))
        patience = asyncio.timeout(10)
        with pytest.raises(TokenCancelledError, match="from afar"):
            async with token.guard(), patience:
                thread.start()
                await asyncio.Event().wait()
        assert not patience.expired()
        thread.join()
        assert this_task().cancelling() == 0
        await iterate()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


# -- asyncio's own cancellation ----------------------------------------------------------------------------------------


@pytest.mark.no_loop
async def test_a_cancelled_task_stays_cancelled_and_cancels_the_inner_token(clock: VirtualClock) -> None:
    token = CancelToken()
    seen: list[CancelToken] = []

    async def work() -> None:
        async with token.guard() as inner:
            seen.append(inner)
            await asyncio.sleep(FOR_EVER)

    task = await start_waiting(work())
    task.cancel("from outside")
    assert await result_of(task) is asyncio.CancelledError
    assert seen[0].reason == "the task was cancelled"
    assert not token.cancelled
    assert listener_count(token) == 0


@pytest.mark.parametrize("first", ["token", "task"])
@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.no_loop
async def test_asyncios_cancellation_has_priority(clock: VirtualClock, first: str, apart: int) -> None:
    token = CancelToken()

    async def work() -> None:
        async with token.guard():
            try:
                await asyncio.sleep(FOR_EVER)
            finally:
                # The second one must come while the block still runs.
                with pytest.raises(asyncio.CancelledError) if apart else nullcontext():
                    await asyncio.sleep(0.01)

    task = await start_waiting(work())
    both = [token.cancel, task.cancel] if first == "token" else [task.cancel, token.cancel]
    both[0]()
    await iterate(3 * apart)
    both[1]()
    assert await result_of(task) is asyncio.CancelledError
    assert task.cancelling() == 1, "the guard undoes its own request only"


@pytest.mark.no_loop
async def test_asyncios_has_priority_even_if_it_comes_at_the_very_end(clock: VirtualClock) -> None:
    """While the guard absorbs its own cancellation, which was not raised in the block."""
    token = CancelToken()

    async def work() -> None:
        async with token.guard():
            asyncio.get_running_loop().call_soon(task.cancel)
            token.cancel()
        await asyncio.sleep(FOR_EVER)
        pytest.fail("the cancellation was swallowed")

    task = asyncio.create_task(work())
    assert await result_of(task) is asyncio.CancelledError


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("meets", [True, False])
@pytest.mark.no_loop
async def test_a_pending_cancellation_from_before_the_block_is_raised(
    clock: VirtualClock, times: int, *, meets: bool
) -> None:
    """Inside the block if that awaits anything, else after it, whatever the token does."""
    log: list[str | None] = []

    async def work() -> None:
        for _ in range(times):
            this_task().cancel("from outside")
        async with CancelToken().guard() as inner:
            inner.on_cancel(lambda token: log.append(token.reason))
            inner.cancel("mine")
            if meets:
                await asyncio.sleep(FOR_EVER)
        log.append("left")
        await asyncio.sleep(0)
        pytest.fail("the cancellation was swallowed")

    task = asyncio.create_task(work())
    assert await result_of(task) is asyncio.CancelledError
    assert task.cancelling() == times, "the guard undoes its own request only"
    assert log == (["mine"] if meets else ["mine", "left"])


@pytest.mark.parametrize(
    ("token_ms", "timeout_ms", "wins"), [(10, 20, TokenCancelledError), (20, 10, TimeoutError)]
)
@pytest.mark.parametrize("outside", ["guard", "timeout"])
@pytest.mark.no_loop
async def test_around_and_inside_a_timeout_the_first_one_raises(
    clock: VirtualClock, outside: str, token_ms: float, timeout_ms: float, wins: type[Exception]
) -> None:
    token = CancelToken(timeout=token_ms / 1000)
    guard: AbstractAsyncContextManager[object] = token.guard()
    timeout: AbstractAsyncContextManager[object] = asyncio.timeout(timeout_ms / 1000)
    outer, inner = (guard, timeout) if outside == "guard" else (timeout, guard)
    with pytest.raises(wins):
        async with outer, inner:
            await asyncio.sleep(FOR_EVER)
    await goes_on()


@pytest.mark.parametrize("first", ["token", "timeout"])
@pytest.mark.parametrize("outside", ["guard", "timeout"])
@pytest.mark.no_loop
async def test_if_both_come_at_once_the_outer_one_raises(
    clock: VirtualClock, outside: str, first: str
) -> None:
    token = CancelToken()
    timeout = asyncio.timeout(None)

    def strike() -> None:
        now = asyncio.get_running_loop().time()
        if first == "token":
            token.cancel("enough")
            timeout.reschedule(now)
        else:
            timeout.reschedule(now)
            asyncio.get_running_loop().call_soon(token.cancel, "enough")

    guard: AbstractAsyncContextManager[object] = token.guard()
    outer, inner = (guard, timeout) if outside == "guard" else (timeout, guard)
    later(5, strike)
    with pytest.raises(TokenCancelledError if outside == "guard" else TimeoutError):
        async with outer, inner:
            try:
                await asyncio.sleep(FOR_EVER)
            except asyncio.CancelledError:
                # Until the second has cancelled the task too.
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
                raise
    await goes_on()


@pytest.mark.no_loop
async def test_an_anyio_scope_around_it_that_is_cancelled_has_priority(clock: VirtualClock) -> None:
    for also in (False, True):
        token = CancelToken()
        with anyio.CancelScope() as scope:
            later(5, scope.cancel)
            if also:
                later(5, token.cancel)
            async with token.guard() as inner:
                await anyio.sleep(FOR_EVER)
            pytest.fail("the scope's cancellation was swallowed")
        assert scope.cancelled_caught
        assert inner.cancelled
        assert listener_count(token) == 0
        await goes_on()


@pytest.mark.parametrize("whose", ["outer", "inner"])
@pytest.mark.no_loop
async def test_guards_nest(clock: VirtualClock, whose: str) -> None:
    outer = CancelToken()
    inner = CancelToken() if whose == "inner" else outer.child()
    log: list[str] = []

    async def guarded() -> None:
        async with outer.guard():
            try:
                async with inner.guard():
                    await asyncio.sleep(FOR_EVER)
            except TokenCancelledError as error:
                log.append(error.reason)
                await asyncio.sleep(0.001)
                log.append("between them")

    later(5, (outer if whose == "outer" else inner).cancel, whose)
    if whose == "inner":
        await guarded()
        assert log == ["inner", "between them"]
    else:
        with pytest.raises(TokenCancelledError, match="outer"):
            await guarded()
        assert log == [], "both have cancelled the task: the outermost one raises"
    await goes_on()
