"""`CircuitBreaker` and `protect`: opening, trials, reports that come late."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand import ActorSystem
from bandstand.errors import InvalidArgumentError, TryAgainError
from bandstand.parts import CircuitBreaker, CircuitOpenError, CircuitState, protect
from bandstand.testing import VirtualClock, run_async

pytestmark = pytest.mark.guarantee("G346")


class Service:
    """Something that fails while `is_broken`."""

    def __init__(self) -> None:
        self.is_broken = False
        self.calls = 0

    async def call(self) -> int:
        self.calls += 1
        await asyncio.sleep(0)
        if self.is_broken:
            raise ConnectionError("down")
        return self.calls


async def fail(breaker: CircuitBreaker, service: Service, times: int) -> None:
    service.is_broken = True
    for _ in range(times):
        with pytest.raises(ConnectionError):
            await protect(breaker, service.call)


async def test_it_opens_after_failures_in_a_row_and_closes_after_a_trial(
    bandstand_system: ActorSystem,
) -> None:
    breaker, service = bandstand_system.spawn(CircuitBreaker, 3, 10), Service()
    await fail(breaker, service, 2)
    service.is_broken = False
    assert await protect(breaker, service.call) == 3
    await fail(breaker, service, 3)
    assert await breaker.state() is CircuitState.OPEN
    await asyncio.sleep(4)
    with pytest.raises(CircuitOpenError, match="too many calls failed; try again in 6 s") as caught:
        await protect(breaker, service.call)
    assert caught.value.retry_after == 6
    assert isinstance(caught.value, TryAgainError)
    assert service.calls == 6
    await asyncio.sleep(6)
    await fail(breaker, service, 1)
    assert await breaker.state() is CircuitState.OPEN
    await asyncio.sleep(10)
    service.is_broken = False
    assert await protect(breaker, service.call) == 8
    assert await breaker.state() is CircuitState.CLOSED


async def test_one_call_at_a_time_is_a_trial(bandstand_system: ActorSystem) -> None:
    breaker, service = bandstand_system.spawn(CircuitBreaker, 1, 10), Service()
    await fail(breaker, service, 1)
    await asyncio.sleep(10)
    ticket = await breaker.enter()
    with pytest.raises(CircuitOpenError, match="a trial call is under way"):
        await breaker.enter()
    # The trial never reports: after the timeout another call is the trial.
    await asyncio.sleep(10)
    second = await breaker.enter()
    breaker.report(ticket, is_success=True)
    assert await breaker.state() is CircuitState.HALF_OPEN
    breaker.report(second, is_success=True)
    assert await breaker.state() is CircuitState.CLOSED


async def test_a_cancelled_trial_leaves_the_trial_to_the_next_call(bandstand_system: ActorSystem) -> None:
    breaker, service = bandstand_system.spawn(CircuitBreaker, 1, 10), Service()
    await fail(breaker, service, 1)
    await asyncio.sleep(10)
    trial = asyncio.create_task(protect(breaker, asyncio.Event().wait))
    await asyncio.sleep(1)
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    service.is_broken = False
    assert await protect(breaker, service.call) == 2
    assert await breaker.state() is CircuitState.CLOSED


async def test_only_the_named_exceptions_are_failures(bandstand_system: ActorSystem) -> None:
    breaker = bandstand_system.spawn(CircuitBreaker, 1, 10)

    async def refuse() -> None:
        raise ValueError("a wrong argument is not an outage")

    for _ in range(3):
        with pytest.raises(ValueError, match="outage"):
            await protect(breaker, refuse, failures=(ConnectionError, TimeoutError))
    assert await breaker.state() is CircuitState.CLOSED
    with pytest.raises(ValueError, match="outage"):
        await protect(breaker, refuse)
    assert await breaker.state() is CircuitState.OPEN


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max_failures is 0"):
        CircuitBreaker(0)
    with pytest.raises(InvalidArgumentError, match="reset_timeout is -1"):
        CircuitBreaker(1, -1)


@given(
    max_failures=st.integers(1, 4),
    steps=st.lists(
        st.one_of(st.floats(0, 8), st.tuples(st.integers(0, 5), st.sampled_from([True, False, None]))),
        max_size=60,
    ),
)
def test_it_behaves_as_its_model(max_failures: int, steps: list[float | tuple[int, bool | None]]) -> None:
    """After an opening no call is allowed for the timeout, and never more than `max_failures` failures in a row before it."""

    async def body(system: ActorSystem) -> None:
        now = asyncio.get_running_loop().time
        breaker = system.spawn(CircuitBreaker, max_failures, 5)
        tickets: list[int] = []
        opened_at: float | None = None
        for step in steps:
            if not isinstance(step, tuple):
                await asyncio.sleep(step)
                refused: CircuitOpenError | None = None
                try:
                    tickets.append(await breaker.enter())
                except CircuitOpenError as error:
                    refused = error
                if refused is None:
                    assert opened_at is None or now() - opened_at >= 5 - 1e-6
                else:
                    assert 0 < refused.retry_after <= 5
            elif tickets:
                before = await breaker.state()
                breaker.report(tickets.pop(step[0] % len(tickets)), step[1])
                after = await breaker.state()
                if after is CircuitState.OPEN and before is not CircuitState.OPEN:
                    assert step[1] is False
                    opened_at = now()
                elif after is CircuitState.CLOSED:
                    opened_at = None

    clock = VirtualClock()
    run_async(body, ActorSystem(clock=clock), clock=clock)
