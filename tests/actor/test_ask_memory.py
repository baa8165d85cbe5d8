"""Memory: a hundred thousand asks leave nothing behind, however they end."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from asyncio import Event
from collections.abc import Awaitable, Callable

import pytest

from bandstand.actor import ActorSystem
from bandstand.errors import AskTimeoutError, TargetEndedError
from bandstand.testing import VirtualClock
from tests.actor.asking import Oracle, ended, is_at_rest, outcome, run_system, turns

pytestmark = [pytest.mark.guarantee("G61"), pytest.mark.heavy]

ASKS = 100_000
FEWER = 20_000  # for slower variants
BATCH = 500
TOLERANCE = 2_000
"""How many more blocks Python may hold, for interpreter caches. One for every ten asks would be a leak."""


def held() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def left_of_asks() -> dict[str, int]:
    """Count the objects of asks that still exist, by class."""
    gc.collect()
    names = [type(thing).__name__ for thing in gc.get_objects()]
    return {name: names.count(name) for name in ("Reply", "Timer", "AskTimeoutError", "Task")}


def assert_flat(
    clock: VirtualClock, batch: Callable[[ActorSystem, Oracle], Awaitable[object]], asks: int, **ends: int
) -> None:
    """Run batches of asks, and compare the memory after the first few with the memory after the last."""

    async def story(loop: ActorSystem) -> None:
        oracle = loop.options(mailbox=2 * BATCH).spawn(Oracle)
        for _ in range(3):
            await batch(loop, oracle)
        before, kept = held(), left_of_asks()
        for _ in range(asks // BATCH - 3):
            await batch(loop, oracle)
        assert held() - before <= TOLERANCE
        now = left_of_asks()
        assert all(now[name] <= kept[name] + 10 for name in kept), (kept, now)
        # No timer and no message is left.
        assert is_at_rest(loop)
        assert loop.statistics().waiting == 0
        books = loop.ask_statistics()
        assert books.pending == 0
        assert {name: count * asks // BATCH for name, count in ends.items()} == ended(books)

    run_system(story, clock=clock)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no logs: neither in the oracle nor in the logger, whose records pytest keeps."""
    monkeypatch.setattr(logging.getLogger("bandstand.core"), "disabled", True)

    class Nothing(list[str]):
        def append(self, _what: str) -> None: ...

    def init(oracle: Oracle) -> None:
        oracle.log = Nothing()

    monkeypatch.setattr(Oracle, "__init__", init)


def test_answered_asks_leave_nothing(clock: VirtualClock) -> None:
    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        for number in range(BATCH // 5):
            await oracle.plain(number)
            await oracle.quick(number)
        replies = [oracle.plain(number) for number in range(BATCH // 5)]
        for reply in replies:
            await reply
        gate = Event()
        replies = [oracle.held(gate) for _ in range(BATCH // 5)]
        asyncio.get_running_loop().call_soon(gate.set)
        for reply in replies:
            await reply
        # And some that are never awaited.
        for number in range(BATCH // 5):
            oracle.quick(number)  # type: ignore[unused-awaitable]  # that is the point
        await oracle.slow(1)
        await turns(3)

    assert_flat(clock, batch, ASKS, answered=BATCH + 1)


def test_timed_out_asks_leave_nothing(clock: VirtualClock) -> None:
    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        gate = Event()
        # The first one is being handled, the others are queued.
        for _ in range(BATCH // 10):
            assert type(await outcome(oracle.held.within(0.001)(gate))) is AskTimeoutError
        replies = [oracle.plain.within(0.001)(number) for number in range(BATCH - BATCH // 10)]
        ends = await asyncio.gather(*replies, return_exceptions=True)
        assert {type(end) for end in ends} == {AskTimeoutError}
        gate.set()
        await oracle.plain()

    assert_flat(clock, batch, ASKS, expired=BATCH, late=BATCH, answered=1)


def test_cancelled_asks_leave_nothing(clock: VirtualClock) -> None:
    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        gate = Event()
        for _ in range(BATCH // 5):
            # While the handler is suspended.
            task = asyncio.ensure_future(outcome(oracle.held(gate)))
            await turns(2)
            task.cancel()
            await task
        oracle.block(gate)
        tasks = [asyncio.ensure_future(outcome(oracle.held(gate))) for _ in range(2 * BATCH // 5)]
        await turns(2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        for number in range(2 * BATCH // 5):
            oracle.plain(number).cancel()
        gate.set()
        await oracle.plain()

    assert_flat(clock, batch, ASKS, cancelled=BATCH, answered=1)


def test_asks_of_actors_that_end_leave_nothing(clock: VirtualClock) -> None:
    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        for _ in range(BATCH // 10):
            victim = loop.spawn(Oracle)
            replies = [victim.held(Event()), *(victim.plain(number) for number in range(9))]
            await turns(1)
            victim.kill()
            for reply in replies:
                assert type(await outcome(reply)) is TargetEndedError
        await turns(3)

    assert_flat(clock, batch, FEWER, failed=BATCH)


def test_cancelled_waits_for_room_and_for_an_exit_leave_nothing(clock: VirtualClock) -> None:
    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        gate = Event()
        oracle.block(gate)
        await turns(2)
        while oracle.note.try_send("filler"):
            pass
        for _ in range(BATCH // 2):
            assert oracle.note.when_room("x").cancel()
            assert oracle.ended().cancel()
        gate.set()
        await turns(2)
        await oracle.plain.within(None)()

    assert_flat(clock, batch, FEWER, answered=1)


def test_waits_for_an_exit_that_another_thread_cancels_leave_nothing(clock: VirtualClock) -> None:
    def give_up(oracle: Oracle) -> None:
        for _ in range(BATCH):
            assert oracle.ended.future().cancel()

    async def batch(loop: ActorSystem, oracle: Oracle) -> None:
        thread = threading.Thread(target=give_up, args=(oracle,))
        thread.start()
        thread.join()
        await turns(2)
        await oracle.plain()

    assert_flat(clock, batch, FEWER, answered=1)
