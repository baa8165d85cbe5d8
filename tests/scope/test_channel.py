"""Channels: every element is received once and in order; timeouts, close, fairness and statistics."""

from __future__ import annotations

import asyncio
import copy
import pickle
import warnings
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bandstand.errors import ChannelClosedError, ChannelTimeoutError, InvalidArgumentError
from bandstand.scope import CONFLATED, UNBOUNDED, Channel, ChannelStatistics
from bandstand.testing import VirtualClock
from tests.scope.support import (
    BUFFERED,
    CAPACITIES,
    Capacity,
    check_counters,
    drain,
    iterate,
    result_of,
    start_waiting,
)

pytestmark = pytest.mark.spec("K3")


# -- the kinds ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G92")
async def test_at_a_rendezvous_a_send_waits_until_it_is_received() -> None:
    channel = Channel[str]()
    assert not channel.try_send("there is no receiver")
    sender = await start_waiting(channel.send("hello"))
    assert channel.statistics().senders == 1
    assert channel.statistics().sent == 0, "an element that was not received was not sent"
    assert await channel.receive() == "hello"
    await sender
    receiver = await start_waiting(channel.receive())
    assert channel.try_send("at once")
    assert await receiver == "at once"
    assert len(channel) == 0


@pytest.mark.guarantee("G92")
def test_the_finalizer_of_a_replaced_element_may_use_the_channel() -> None:
    """The finalizer runs when the channel is consistent again, outside the lock."""
    channel = Channel[Any](CONFLATED)
    heard = Channel[str](UNBOUNDED)

    class Loud:
        def __del__(self) -> None:
            check_counters(channel)
            heard.try_send(f"{len(channel)} in it")

    assert channel.try_send(Loud())
    assert channel.try_send(1)
    assert heard.try_receive() == "1 in it"
    assert drain(channel) == [1]


@pytest.mark.guarantee("G93")
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_try_send_and_try_receive_never_wait_and_need_no_loop(capacity: Capacity) -> None:
    channel = Channel[str](capacity)
    nothing = object()
    assert channel.try_receive() is None
    assert channel.try_receive(nothing) is nothing
    assert channel.try_receive(default="x") == "x"
    assert channel.try_send("a") is (capacity != 0)
    assert channel.try_receive("none") == ("none" if capacity == 0 else "a")
    assert channel.close() is True
    assert channel.close() is False
    with pytest.raises(ChannelClosedError, match="it is closed"):
        channel.try_send("b")
    with pytest.raises(ChannelClosedError, match="closed and empty"):
        channel.try_receive()


# -- timeouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G93")
async def test_a_timeout_of_zero_does_not_wait() -> None:
    channel = Channel[int](1)
    with pytest.raises(ChannelTimeoutError, match=r"there was no element$"):
        await channel.receive(timeout=0)
    await channel.send(1, timeout=0)
    with pytest.raises(ChannelTimeoutError, match=r"the element was not accepted$"):
        await channel.send(2, timeout=0)
    assert await channel.receive(timeout=0) == 1
    assert channel.statistics().timed_out == 0, "no operation was queued"


@pytest.mark.guarantee("G93")
@pytest.mark.parametrize("side", ["send", "receive"])
@pytest.mark.parametrize("ms", [0.25, 1, 7.5, 1000, 86_400_000])
@pytest.mark.virtual_time
async def test_a_wait_times_out_and_not_earlier(side: str, ms: float, bandstand_clock: VirtualClock) -> None:
    channel = Channel[int]()
    before = bandstand_clock.now_ns()
    with pytest.raises(ChannelTimeoutError, match=f"within {ms:.15g} ms") as caught:
        await (channel.send(1, timeout=ms / 1000) if side == "send" else channel.receive(timeout=ms / 1000))
    assert isinstance(caught.value, TimeoutError)
    assert ms <= (bandstand_clock.now_ns() - before) / 1e6 <= ms + 2
    stats = channel.statistics()
    assert (stats.timed_out, stats.senders, stats.receivers, stats.sent) == (1, 0, 0, 0)


@pytest.mark.guarantee("G93")
@pytest.mark.no_loop
async def test_a_timeout_outlives_the_loop_that_kept_it(bandstand_clock: VirtualClock) -> None:
    from bandstand.core import Loop

    channel = Channel[int]()
    before = bandstand_clock.now_ns()
    async with Loop(clock=bandstand_clock):
        receiver = await start_waiting(channel.receive(timeout=0.3))
        await asyncio.sleep(0.1)
    assert await result_of(receiver) is ChannelTimeoutError
    assert 300 <= (bandstand_clock.now_ns() - before) / 1e6 <= 302


@pytest.mark.guarantee("G94")
@pytest.mark.parametrize("capacity", BUFFERED)
async def test_receivers_get_what_is_left_and_then_the_end(capacity: Capacity) -> None:
    channel = Channel[int](capacity)
    await channel.send(1)
    channel.close()
    assert channel.is_closed
    with pytest.raises(ChannelClosedError, match="it is closed"):
        await channel.send(2)
    assert [item async for item in channel] == [1]
    assert [item async for item in channel] == []
    with pytest.raises(ChannelClosedError, match="closed and empty"):
        await channel.receive()
    with pytest.raises(ChannelClosedError):
        await channel.receive(timeout=0)
    assert await anext(channel, "the end") == "the end"
    with pytest.raises(StopAsyncIteration):
        await anext(channel)


@pytest.mark.guarantee("G94")
async def test_waiting_operations_fail_at_once() -> None:
    full = Channel[int](1)
    await full.send(0)
    senders = [await start_waiting(full.send(number, timeout=1.0)) for number in (1, 2, 3)]
    full.close()
    assert [await result_of(task) for task in senders] == [ChannelClosedError] * 3
    assert full.statistics().refused == 3
    assert drain(full) == [0]
    empty = Channel[int]()
    receivers = [await start_waiting(empty.receive()) for _ in range(3)]

    async def loop() -> list[int]:
        return [item async for item in empty]

    looping = asyncio.create_task(loop())
    await iterate(2)
    empty.close()
    assert [await result_of(task) for task in receivers] == [ChannelClosedError] * 3
    assert await looping == []
    check_counters(full, empty)


ODD: list[Any] = [
    None, (), (1,), (1, 2, 3), 0, False, "", [], {}, b"",
    ValueError("x"), ValueError, StopIteration(1), StopIteration, StopAsyncIteration(), StopIteration((1, 2)),
    asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt(), object(), Ellipsis, NotImplemented,
]  # fmt: skip


@pytest.mark.guarantee("G91")
@pytest.mark.parametrize("value", ODD, ids=repr)
async def test_every_value_is_passed_unchanged(value: Any) -> None:
    channel = Channel[Any](1)
    await channel.send(value)
    assert await channel.receive() is value
    await channel.send(value)
    assert channel.try_receive("default") is value
    receiver = await start_waiting(channel.receive())
    await channel.send(value)
    assert await receiver is value
    await channel.send(value)
    async for item in channel:
        assert item is value
        break
    try:
        raise ValueError  # noqa: TRY301 -- as short as can be
    except ValueError:
        # While an exception is handled, the end of an iterator looks different in C.
        await channel.send(value)
        assert await channel.receive() is value
    await channel.send(value)
    assert await asyncio.wait_for(channel.receive(), 1) is value


@pytest.mark.guarantee("G99")
async def test_statistics() -> None:
    channel = Channel[int](2, name="orders")
    nothing = ChannelStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, closed=False)
    assert channel.statistics() == nothing
    await channel.send(1)
    await channel.send(2)
    sender = await start_waiting(channel.send(3))
    assert channel.statistics() == replace(nothing, sent=2, buffered=2, senders=1, peak=2)
    await channel.receive()
    assert channel.statistics() == replace(nothing, sent=3, received=1, buffered=2, peak=2)
    drain(channel)
    await sender
    receiver = await start_waiting(channel.receive())
    assert channel.statistics() == replace(nothing, sent=3, received=3, receivers=1, peak=2)
    receiver.cancel()
    await iterate()
    channel.close()
    with pytest.raises(ChannelClosedError):
        channel.try_send(4)
    assert channel.statistics() == replace(
        nothing, sent=3, received=3, cancelled=1, refused=1, peak=2, closed=True
    )
    assert Channel[int](UNBOUNDED).statistics().capacity is UNBOUNDED
    assert Channel[int](CONFLATED).statistics().capacity is CONFLATED


@pytest.mark.parametrize(
    ("channel", "text"),
    [
        (Channel[int](), "<Channel of 0: 0 in it>"),
        (Channel[int](3, name="orders"), "<Channel 'orders' of 3: 0 in it>"),
        (Channel[int](UNBOUNDED), "<Channel unbounded: 0 in it>"),
        (Channel[int](CONFLATED, name="x"), "<Channel 'x' conflated: 0 in it>"),
    ],
)
def test_repr(channel: Channel[int], text: str) -> None:
    assert repr(channel) == text
    channel.close()
    assert repr(channel) == text.replace(": ", ": closed, ")
    assert channel, "a channel is always true"


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [-1, 1.0, "1", None, True, 1 << 41, object()])
def test_an_invalid_capacity_is_refused(capacity: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="capacity is"):
        Channel[int](capacity)


def test_a_name_is_a_string() -> None:
    with pytest.raises(InvalidArgumentError, match="name is"):
        Channel[int](name=b"x")  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize(
    "timeout",
    [-1, float("nan"), float("inf"), "1", object(), True, -(10**400), 10**400, 1e10, timedelta(seconds=-1)],
)
def test_an_invalid_timeout_is_refused(timeout: Any) -> None:
    channel = Channel[int](1)
    for make in (lambda: channel.send(1, timeout=timeout), lambda: channel.receive(timeout=timeout)):
        with pytest.raises(InvalidArgumentError, match="timeout is"):
            make()


def test_an_invalid_token_is_refused() -> None:
    channel = Channel[int](1)
    with pytest.raises(InvalidArgumentError, match="token is"):
        channel.receive(token=5)  # type: ignore[arg-type, unused-awaitable]  # that is what is tested


@pytest.mark.parametrize("is_late", [False, True])
async def test_an_operation_is_awaited_once(is_late: bool) -> None:
    channel = Channel[int](1)
    operation = channel.receive()
    if is_late:
        first = await start_waiting(operation)
        with pytest.raises(InvalidArgumentError, match="once"):
            await operation
        await channel.send(1)
        await first
    else:
        await channel.send(1)
        await operation
    with pytest.raises(InvalidArgumentError, match="only once: create a new one"):
        await operation
    with pytest.raises(InvalidArgumentError, match="once"):
        operation.blocking()
    by_hand: Any = operation
    with pytest.raises(InvalidArgumentError, match="once"):
        by_hand.send(None)
    assert channel.statistics().received == 1


async def test_a_wait_that_is_resumed_too_early_leaves_the_queue() -> None:
    """Otherwise the next element would be handed to a receiver that does not wait any more."""
    channel = Channel[int](1)
    by_hand: Any = channel.receive()
    assert by_hand.send(None) is not None
    with pytest.raises(InvalidArgumentError, match="still waiting"):
        by_hand.send(None)
    assert channel.statistics().receivers == 0
    await channel.send(1)
    assert drain(channel) == [1]


def test_an_operation_has_no_truth_value() -> None:
    channel = Channel[int](1)
    operation: Any = channel.send(1)
    with pytest.raises(TypeError, match="await it"):
        bool(operation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del operation


@pytest.mark.parametrize("side", ["send", "receive"])
def test_what_is_never_awaited_warns(side: str) -> None:
    channel = Channel[int](1)
    operation: Any = channel.send(1) if side == "send" else channel.receive()
    with pytest.warns(RuntimeWarning, match="never awaited: it had no effect"):
        del operation
    assert channel.statistics().sent == 0


def test_without_an_event_loop_only_operations_that_need_not_wait_work() -> None:
    channel = Channel[int](1)
    steps: Any = channel.send(1)
    with pytest.raises(StopIteration):
        steps.send(None)
    steps = channel.send(2)
    with pytest.raises(RuntimeError, match="no running event loop"):
        steps.send(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del steps
    assert channel.statistics().senders == 0


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_channels_and_operations_cannot_be_pickled_or_copied(duplicate: Any) -> None:
    channel = Channel[int](1)
    channel.try_send(1)
    operation = channel.receive()
    for thing in (channel, operation):
        with pytest.raises(TypeError, match="cannot be pickled"):
            duplicate(thing)
    await operation
