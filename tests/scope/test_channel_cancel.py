"""Cancelling operations of a channel: no element is lost, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from bandstand.core import Loop
from bandstand.errors import ChannelTimeoutError, TokenCancelledError
from bandstand.scope import CONFLATED, UNBOUNDED, CancelToken, Channel, select
from bandstand.testing import VirtualClock
from tests.scope.support import (
    as_coroutine,
    begin_by_hand,
    check_counters,
    drain,
    event_loop_factory,
    iterate,
    pending_timers,
    start_waiting,
)

pytestmark = pytest.mark.spec("K3", "K4")


# -- by asyncio --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("number", [2, 3, 10])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("capacity", [0, 5, UNBOUNDED])
async def test_returned_elements_keep_their_order(number: int, is_reversed: bool, capacity: Any) -> None:
    channel = Channel[int](capacity)
    served = [begin_by_hand(channel.receive()) for _ in range(number)]
    for element in range(number + 3):
        channel.try_send(element)
    late = len(channel)
    for receiver in reversed(served) if is_reversed else served:
        receiver.close()
        check_counters(channel)
    assert drain(channel) == list(range(number + late))
    # And the buffer is in order again.
    for element in range(late):
        assert channel.try_send(element)
    assert drain(channel) == list(range(late))


@pytest.mark.guarantee("G96")
async def test_in_a_conflated_channel_the_newer_of_two_stays() -> None:
    channel = Channel[int](CONFLATED)
    task = await start_waiting(channel.receive())
    channel.try_send(1)
    channel.try_send(2)
    task.cancel()
    await iterate()
    check_counters(channel)
    assert drain(channel) == [2]
    for is_reversed in (False, True):
        served = [begin_by_hand(channel.receive()) for _ in range(3)]
        for number in (1, 2, 3):
            channel.try_send(number)
        for receiver in reversed(served) if is_reversed else served:
            receiver.close()
            check_counters(channel)
        assert drain(channel) == [3]
    task = await start_waiting(channel.receive())
    channel.try_send(1)
    task.cancel()
    await iterate()
    channel.try_send(2)
    check_counters(channel)
    assert drain(channel) == [2], "what came back is replaced as any other"


# -- by a token --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G97", "G104")
@pytest.mark.parametrize("side", ["send", "receive"])
async def test_a_token_that_is_already_cancelled_has_priority(side: str) -> None:
    channel = Channel[int](2)
    channel.try_send(1)
    token = CancelToken()
    token.cancel("enough")
    with pytest.raises(TokenCancelledError, match="enough") as caught:
        await (channel.send(2, token=token) if side == "send" else channel.receive(token=token))
    assert caught.value.token == token.number
    assert not isinstance(caught.value, asyncio.CancelledError)
    assert drain(channel) == [1]


# -- by the end of the event loop, the coroutine or the channel --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_event_loop_that_is_closed_with_waiting_tasks_loses_no_element(
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel = Channel[int](2)
    host = event_loop_factory()()
    # Keep the tasks alive.
    tasks = [host.create_task(as_coroutine(channel.receive())) for _ in range(2)]
    host.run_until_complete(iterate())
    host.close()
    assert channel.statistics().receivers == 2
    assert channel.try_send(1)
    assert channel.try_send(2)
    check_counters(channel)
    assert drain(channel) == [1, 2]
    host = event_loop_factory()()
    senders = [host.create_task(as_coroutine(channel.send(number))) for number in (3, 4, 5, 6)]
    host.run_until_complete(iterate())
    host.close()
    assert drain(channel) == [3, 4, 5, 6]
    check_counters(channel)
    del tasks, senders
    gc.collect()
    check_counters(channel)
    # asyncio logs tasks that are dropped while they wait; nothing else is logged.
    assert {record.name for record in caplog.records} <= {"asyncio"}


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_number_of_unreachable_receivers_is_skipped() -> None:
    """A returned element skips all of them at once, without recursion from one to the next."""
    channel = Channel[int](1)
    host = event_loop_factory()()
    tasks: list[Any] = [host.create_task(as_coroutine(channel.receive())) for _ in range(20_000)]
    host.run_until_complete(iterate())
    host.close()
    assert channel.try_send(1)
    assert drain(channel) == [1]
    assert channel.statistics().receivers == 0
    check_counters(channel)
    for task in tasks:
        # They are dropped on purpose.
        task._log_destroy_pending = False


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("end", ["close", "throw", "drop"])
async def test_a_coroutine_that_is_closed_while_it_waits_leaves_the_queue(end: str) -> None:
    channel = Channel[int](1)

    def ended(coroutine: Any) -> None:
        if end == "close":
            coroutine.close()
        elif end == "throw":
            with pytest.raises(KeyError):
                coroutine.throw(KeyError("x"))

    receiver = begin_by_hand(channel.receive())
    assert channel.statistics().receivers == 1
    if end == "drop":
        # The queue holds the operation, and the operation holds nothing: the coroutine is freed at once.
        del receiver
        gc.collect()
    else:
        ended(receiver)
    assert channel.statistics().receivers == 0
    served = begin_by_hand(channel.receive())
    assert channel.try_send(1)
    assert len(channel) == 0
    if end == "drop":
        del served
        gc.collect()
    else:
        ended(served)
    assert drain(channel) == [1], "it is back"
    channel.try_send(0)
    sender = begin_by_hand(channel.send(2))
    if end == "drop":
        del sender
        gc.collect()
    else:
        ended(sender)
    assert drain(channel) == [0]
    check_counters(channel)


def things() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.heavy
@pytest.mark.timeout(180)
@pytest.mark.guarantee("G98")
@pytest.mark.parametrize("is_attached", [True, False])
@pytest.mark.parametrize("way", ["timed out", "cancelled", "selected"])
@pytest.mark.no_loop
async def test_very_many_receives_leave_nothing_behind(way: str, is_attached: bool) -> None:
    channel, other, token = Channel[int](1), Channel[int](1), CancelToken()

    async def receive() -> None:
        with suppress(ChannelTimeoutError, asyncio.CancelledError):
            if way == "selected":
                await select(channel.receive(), other.receive(), other.receive(), timeout=0.005)
            else:
                await channel.receive(timeout=1000.0 if way == "cancelled" else 0.005, token=token.child())

    async def rounds(number: int) -> None:
        for _ in range(number // 1000):
            tasks = [asyncio.create_task(receive()) for _ in range(1000)]
            await asyncio.sleep(0)
            for task in tasks if way == "cancelled" else ():
                task.cancel()
            await asyncio.gather(*tasks)
            del tasks

    async with Loop(clock=VirtualClock()) if is_attached else nullcontext():
        await rounds(2000)
        before = things()
        await rounds(50_000)
        assert things() - before < 200
        for each in (channel, other):
            stats = each.statistics()
            assert (stats.receivers, stats.senders, stats.buffered) == (0, 0, 0)
        assert not token.has_listeners()
        assert pending_timers() == 0, "deadlines are left on the wheel"
        # asyncio removes cancelled timers lazily, when they are half of its heap.
        assert len(getattr(asyncio.get_running_loop(), "_scheduled", [])) <= (10 if is_attached else 3000)
