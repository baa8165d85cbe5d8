"""`RateLimiter`: bursts, the rate in the long run, order, and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand import ActorSystem
from bandstand.errors import InvalidArgumentError, StartError, TryAgainError
from bandstand.parts import RateLimiter, RateLimitError, acquire
from bandstand.testing import VirtualClock, run_async

pytestmark = pytest.mark.guarantee("G345")

Now = Callable[[], float]


async def test_a_burst_is_granted_at_once_and_then_the_rate_holds(
    bandstand_system: ActorSystem, now: Now
) -> None:
    limiter = bandstand_system.spawn(RateLimiter, rate=10, burst=3)
    times: list[float] = []
    for _ in range(6):
        await acquire(limiter)
        times.append(round(now(), 3))
    assert times == [0, 0, 0, 0.1, 0.2, 0.3]
    await asyncio.sleep(60)
    # A bucket that was full for a minute holds no more than the burst.
    assert [await limiter.try_acquire() for _ in range(4)] == [True, True, True, False]


async def test_callers_are_served_in_order_and_small_ones_do_not_overtake(
    bandstand_system: ActorSystem, now: Now
) -> None:
    limiter = bandstand_system.spawn(RateLimiter, rate=1, burst=5)
    order: list[tuple[str, float]] = []

    async def take(name: str, tokens: int) -> None:
        await acquire(limiter, tokens)
        order.append((name, round(now(), 3)))

    async with asyncio.TaskGroup() as group:
        for name, tokens in (("first", 5), ("large", 4), ("small", 1), ("last", 1)):
            group.create_task(take(name, tokens))
        await asyncio.sleep(1.5)
        assert not await limiter.try_acquire()
    assert order == [("first", 0), ("large", 4), ("small", 5), ("last", 6)]


async def test_a_cancelled_caller_gives_its_tokens_back(bandstand_system: ActorSystem, now: Now) -> None:
    limiter = bandstand_system.spawn(RateLimiter, rate=1, burst=10)
    await acquire(limiter, 10)
    waiting = asyncio.create_task(acquire(limiter, 9))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.sleep(1)
    assert waiting.cancelled()
    assert await limiter.try_acquire(2)
    # Not if another caller has reserved tokens after it: that one keeps its place.
    first, second = asyncio.create_task(acquire(limiter, 2)), asyncio.create_task(acquire(limiter))
    await asyncio.sleep(1)
    first.cancel()
    await second
    assert now() == pytest.approx(5)


async def test_tokens_that_come_too_late_are_refused_at_once(bandstand_system: ActorSystem, now: Now) -> None:
    limiter = bandstand_system.spawn(RateLimiter, rate=1, burst=4)
    await acquire(limiter, 4, timeout=0)
    with pytest.raises(RateLimitError, match="3 tokens would be there in 3 s") as caught:
        await acquire(limiter, 3, timeout=1)
    assert caught.value.retry_after == 2
    assert isinstance(caught.value, TryAgainError)
    assert now() == 0
    await asyncio.sleep(caught.value.retry_after)
    await acquire(limiter, 3, timeout=1)
    assert now() == 3


async def test_wrong_arguments_are_refused_and_the_limiter_lives_on(bandstand_system: ActorSystem) -> None:
    limiter = bandstand_system.spawn(RateLimiter, rate=0.5, burst=2)
    for tokens in (0, 3, 1.5):
        with pytest.raises(InvalidArgumentError, match="tokens is"):
            await acquire(limiter, tokens)  # type: ignore[arg-type]  # that is the point
    assert await limiter.try_acquire(2)
    for rate, burst in ((0, 1), (-1, 1), (float("nan"), 1), (True, 1), (1, 0), (1, 1.5)):
        with pytest.raises((InvalidArgumentError, StartError), match=r"rate is|burst is"):
            bandstand_system.spawn(RateLimiter, rate, burst)  # type: ignore[arg-type]  # likewise


@given(
    rate=st.floats(0.01, 10_000),
    burst=st.integers(1, 20),
    calls=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 20), st.booleans()), max_size=30),
)
def test_no_span_of_time_has_more_than_its_tokens(
    rate: float, burst: int, calls: list[tuple[float, int, bool]]
) -> None:
    async def body(system: ActorSystem) -> None:
        now = asyncio.get_running_loop().time
        limiter = system.spawn(RateLimiter, rate=rate, burst=burst)
        granted: list[tuple[float, int]] = []

        async def call(tokens: int, waits: bool) -> None:
            if waits:
                await acquire(limiter, tokens)
                granted.append((now(), tokens))
            elif await limiter.try_acquire(tokens):
                granted.append((now(), tokens))

        async with asyncio.TaskGroup() as group:
            for delay, tokens, waits in calls:
                await asyncio.sleep(delay)
                group.create_task(call(min(tokens, burst), waits))
        interval = ceil(1e9 / rate)
        for first, (start, _) in enumerate(granted):
            total = 0
            for end, tokens in granted[first:]:
                total += tokens
                # The virtual clock rounds each of the two moments by up to a nanosecond.
                assert (total - burst) * interval <= round((end - start) * 1e9) + 2
        assert sum(waits for _, _, waits in calls) <= len(granted)

    clock = VirtualClock()
    run_async(body, ActorSystem(clock=clock), clock=clock)
