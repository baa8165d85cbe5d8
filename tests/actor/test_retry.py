"""Asks that are retried: `handle.value.retry(AskRetry(...))(...)`, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from bandstand.actor import (
    Actor,
    ActorSystem,
    AskRetry,
    MessageActor,
    Request,
    WhenDown,
    ask,
    child,
    on,
    tell,
    when_down,
)
from bandstand.errors import (
    ActorRestartingError,
    AskTimeoutError,
    InvalidArgumentError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    TargetEndedError,
)
from bandstand.supervision import Backoff, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.players import elsewhere
from tests.core.support import Boom

pytestmark = [pytest.mark.guarantee("G312"), pytest.mark.spec("J21")]


class RefusalError(Exception):
    """Declared by `Flaky.work`."""


class Flaky(Actor):
    """Crashes in the first calls."""

    calls = 0

    def __init__(self, crashes: int) -> None:
        self.crashes = crashes

    @ask(raises=RefusalError)
    async def work(self, n: int, *, refuse: bool = False, ms: float = 0) -> int:
        type(self).calls += 1
        if refuse:
            raise RefusalError
        if self.calls <= self.crashes:
            raise Boom(str(self.calls))
        await asyncio.sleep(ms / 1000)
        return n * 10


@dataclass
class Get(Request[int]):
    n: int


@pytest.fixture(autouse=True)
def no_calls() -> None:
    Flaky.calls = 0


def flaky(loop: ActorSystem, crashes: int) -> Flaky:
    spec = SupervisorSpec(children=[child("flaky").of(Flaky, crashes)], max_restarts=100)
    return spawn_supervisor(loop, spec).handle(Flaky, "flaky")


def ms_since(clock: VirtualClock, start: int) -> float:
    return (clock.now_ns() - start) / 1e6


async def test_an_ask_is_repeated_until_answered(virtual_system: ActorSystem, clock: VirtualClock) -> None:
    handle = flaky(virtual_system, 2)
    start = clock.now_ns()
    assert await handle.work.retry(AskRetry(attempts=3, backoff=Backoff(initial=0.1)))(4) == 40
    assert Flaky.calls == 3
    assert ms_since(clock, start) == 300  # 100 ms and 200 ms
    assert elsewhere(lambda: repr(handle.work.retry(AskRetry()))).startswith("<work of")
    with pytest.raises(InvalidArgumentError, match="retry is 3: pass an AskRetry"):
        handle.work.retry(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what a caller without types might do


async def test_the_last_error_is_raised(virtual_system: ActorSystem) -> None:
    handle = flaky(virtual_system, 10)
    with pytest.raises(TargetEndedError, match="Boom: 3") as caught:
        await handle.work.retry(AskRetry(attempts=3))(4)
    assert "asked 3 times" in caught.value.__notes__[-1]
    with pytest.raises(TargetEndedError, match="Boom: 4") as caught:
        await handle.work.retry(AskRetry(attempts=1))(4)
    assert not hasattr(caught.value, "__notes__")


async def test_other_errors_are_not_retried(virtual_system: ActorSystem) -> None:
    handle = flaky(virtual_system, 0)
    with pytest.raises(RefusalError):
        await handle.work.retry(AskRetry())(1, refuse=True)
    assert Flaky.calls == 1
    with pytest.raises(AskTimeoutError):
        await handle.work.within(0.02).retry(AskRetry())(1, ms=50)
    assert Flaky.calls == 2
    with pytest.raises(TypeError):
        await handle.work.retry(AskRetry())()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # what a caller without types might do
    virtual_system.spawn(Flaky, 0)
    gone = virtual_system.spawn(Flaky, 0)
    gone.stop()
    with pytest.raises(NoSuchActorError):
        await gone.work.retry(AskRetry())(1)


async def test_an_ask_that_is_refused_at_once_is_retried(virtual_system: ActorSystem) -> None:
    class Busy(Actor):
        @ask
        def value(self) -> int:
            return 7

        @tell
        async def work(self) -> None:
            await asyncio.sleep(0.25)

    busy = virtual_system.options(mailbox=1).spawn(Busy)  # room for one
    busy.work()
    await asyncio.sleep(0)
    waiting = busy.value()
    with pytest.raises(MailboxFullError):
        busy.value().cancel()
    assert await busy.value.retry(AskRetry(attempts=4))() == 7
    assert await waiting == 7
    spec = SupervisorSpec(children=[child("flaky", backoff=Backoff(initial=0.25)).of(Flaky, 0)])
    root = spawn_supervisor(virtual_system, spec)
    hasty = when_down(root.handle(Flaky, "flaky"), WhenDown.FAIL)
    hasty.kill()
    with pytest.raises(ActorRestartingError):
        hasty.work(1).cancel()
    assert await hasty.work.retry(AskRetry(attempts=4))(1) == 10


@pytest.mark.parametrize("timeout", [0.25, timedelta(milliseconds=250)])
async def test_the_timeout_is_for_all_attempts(
    virtual_system: ActorSystem, clock: VirtualClock, timeout: Any
) -> None:
    handle = flaky(virtual_system, 10)
    start = clock.now_ns()
    with pytest.raises(TargetEndedError, match="Boom: 2"):
        await handle.work.retry(AskRetry(attempts=9, timeout=timeout))(4)
    assert ms_since(clock, start) == 100  # the next attempt would have been at 300 ms
    Flaky.calls = 10
    start = clock.now_ns()
    with pytest.raises(AskTimeoutError):
        await handle.work.retry(AskRetry(timeout=timeout))(4, ms=1000)
    assert ms_since(clock, start) == 250
    start = clock.now_ns()
    with pytest.raises(AskTimeoutError):
        await handle.work.within(None).retry(AskRetry(timeout=timeout))(4, ms=1000)
    assert ms_since(clock, start) == 250
    start = clock.now_ns()
    with pytest.raises(AskTimeoutError):
        await handle.work.within(0.03).retry(AskRetry(timeout=timeout))(4, ms=1000)
    assert ms_since(clock, start) == 30


async def test_cancellation_ends_it_in_a_delay_and_in_an_ask(virtual_system: ActorSystem) -> None:
    handle = flaky(virtual_system, 1)
    task = asyncio.ensure_future(handle.work.retry(AskRetry(backoff=Backoff(initial=0.5)))(1))
    await asyncio.sleep(0.1)
    assert Flaky.calls == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(1)
    assert Flaky.calls == 1
    task = asyncio.ensure_future(handle.work.retry(AskRetry())(1, ms=1000))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert virtual_system.ask_statistics().cancelled == 1


def test_it_ends_with_the_loop(clock: VirtualClock) -> None:
    async def main() -> None:
        async with ActorSystem(clock=clock) as loop:
            task = asyncio.ensure_future(
                flaky(loop, 9).work.retry(AskRetry(backoff=Backoff(initial=10, maximum=10)))(1)
            )
            await asyncio.sleep(1)
        with pytest.raises(LoopClosedError):
            await task

    clock.run(main())


@pytest.mark.real_time(reason="the event loop of another thread has no virtual time")
async def test_another_event_loop_can_retry(virtual_system: ActorSystem) -> None:
    handle = flaky(virtual_system, 2)

    async def call() -> int:
        return await handle.work.retry(AskRetry(backoff=Backoff(initial=0.001)))(3)

    assert await asyncio.to_thread(asyncio.run, call()) == 30


async def test_message_actors_are_retried_too(virtual_system: ActorSystem) -> None:
    class Store(MessageActor[Get]):
        gets = 0

        @on(Get)
        def get(self, message: Get) -> int:
            type(self).gets += 1
            if self.gets < 3:
                raise Boom("get")
            return message.n

    spec = SupervisorSpec(children=[child("store").of(Store)])
    store = spawn_supervisor(virtual_system, spec).handle(Store, "store")
    assert await store.ask.retry(AskRetry())(Get(5)) == 5
    assert await store.ask.retry(AskRetry())(Get(6), timeout=None) == 6


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"attempts": 0}, "attempts is 0: pass an int from 1"),
        ({"attempts": True}, "attempts is True"),
        ({"attempts": 2.5}, "attempts is 2.5"),
        ({"backoff": 3}, "backoff is 3: pass a Backoff"),
        ({"timeout": -1}, "timeout is -1: pass seconds"),
        ({"timeout": "1"}, "timeout is '1'"),
    ],
)
def test_wrong_values_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"AskRetry: {text}"):
        AskRetry(**fields)
