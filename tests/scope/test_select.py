"""Select: exactly one of several sends and receives is done, and the others have no effect."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.errors import (
    ChannelClosedError,
    ChannelTimeoutError,
    InvalidArgumentError,
    TokenCancelledError,
)
from bandstand.scope import UNBOUNDED, CancelToken, Channel, select
from bandstand.scope._channel import ChannelOp
from bandstand.testing import VirtualClock
from tests.scope.support import (
    as_coroutine,
    begin_by_hand,
    check_counters,
    drain,
    in_thread,
    iterate,
    result_of,
    start_waiting,
)

pytestmark = [pytest.mark.spec("K3"), pytest.mark.guarantee("G95")]


def pair(capacity: Any = 1) -> tuple[Channel[int], Channel[int]]:
    return Channel[int](capacity, name="left"), Channel[int](capacity, name="right")


# -- exactly one -------------------------------------------------------------------------------------------------------


async def test_the_operation_that_is_possible_is_done() -> None:
    left, right = pair()
    right.try_send(7)
    assert await select(left.receive(), right.receive()) == (1, 7)
    assert await select(right.receive(), left.send(5)) == (1, None)
    assert drain(left) == [5]
    assert (left.statistics().receivers, right.statistics().receivers) == (0, 0)
    check_counters(left, right)


async def test_sends_and_receives_mixed_wait_together() -> None:
    left, right = pair()
    left.try_send(0)
    for _ in range(3):
        task = await start_waiting(select(left.send(1), right.receive()))
        assert (left.statistics().senders, right.statistics().receivers) == (1, 1)
        assert right.try_send(2)
        assert await task == (1, 2)
        assert (left.statistics().senders, right.statistics().receivers) == (0, 0)
        assert len(left) == 1, "the other one had no effect"
        task = await start_waiting(select(left.send(1), right.receive()))
        assert left.try_receive() in {0, 1}
        assert await task == (0, None)
        check_counters(left, right)


# -- fairness ----------------------------------------------------------------------------------------------------------


async def test_it_is_fair_among_channels_that_are_ready() -> None:
    channels = [Channel[int](UNBOUNDED) for _ in range(4)]
    for channel in channels:
        for element in range(300):
            channel.try_send(element)
    order = [(await select(*(channel.receive() for channel in channels)))[0] for _ in range(400)]
    assert Counter(order) == dict.fromkeys(range(4), 100)
    assert order[:8] == [0, 1, 2, 3, 0, 1, 2, 3]


async def test_it_is_fair_among_sends() -> None:
    left, right = pair(UNBOUNDED)
    for number in range(10):
        await select(left.send(number), right.send(number))
    assert drain(left) == [0, 2, 4, 6, 8]
    assert drain(right) == [1, 3, 5, 7, 9]


async def test_the_least_recently_selected_channel_is_next() -> None:
    busy, rare = pair(UNBOUNDED)
    for number in range(100):
        busy.try_send(number)
    for _ in range(10):
        assert (await select(busy.receive(), rare.receive()))[0] == 0
    rare.try_send(1)
    rare.try_send(2)
    assert [(await select(busy.receive(), rare.receive()))[0] for _ in range(3)] == [1, 0, 1]


# -- closed ------------------------------------------------------------------------------------------------------------


async def test_a_closed_channel_is_never_chosen() -> None:
    left, right = pair()
    left.close()
    right.try_send(1)
    assert await select(left.receive(), right.receive()) == (1, 1)
    assert await select(left.send(0), right.send(2)) == (1, None)
    drain(right)
    task = await start_waiting(select(left.receive(), right.receive()))
    right.try_send(3)
    assert await task == (1, 3)


@pytest.mark.guarantee("G94")
async def test_it_ends_when_all_are_closed_and_not_before() -> None:
    left, right = pair(0)
    task = await start_waiting(select(left.receive(), right.receive(), left.send(1)))
    left.close()
    await iterate()
    assert not task.done(), "there is one left"
    right.close()
    assert await result_of(task) is ChannelClosedError
    with pytest.raises(ChannelClosedError, match="all channels are closed"):
        await select(left.receive(), right.receive())
    with pytest.raises(ChannelClosedError):
        await select(left.receive(), timeout=0)
    check_counters(left, right)


async def test_it_can_end_as_soon_as_one_is_closed() -> None:
    data, control = pair(1)
    task = await start_waiting(select(data.receive(), control.receive(), until_any_closes=True))
    data.close()
    assert await result_of(task) is ChannelClosedError
    with pytest.raises(ChannelClosedError, match="one of the channels is closed"):
        await select(data.receive(), control.receive(), until_any_closes=True)
    # An operation that is possible has priority.
    await control.send(1)
    assert await select(data.receive(), control.receive(), until_any_closes=True) == (1, 1)
    check_counters(data, control)


@pytest.mark.guarantee("G93")
@pytest.mark.virtual_time
async def test_a_select_times_out(bandstand_clock: VirtualClock) -> None:
    left, right = pair(0)
    with pytest.raises(ChannelTimeoutError, match=r"was possible$"):
        await select(left.receive(), right.receive(), timeout=0)
    before = bandstand_clock.now_ns()
    with pytest.raises(ChannelTimeoutError, match="within 40 ms"):
        await select(left.receive(), right.send(1), timeout=0.04)
    assert 40 <= (bandstand_clock.now_ns() - before) / 1e6 <= 42
    for stats in (left.statistics(), right.statistics()):
        assert (stats.senders, stats.receivers, stats.timed_out) == (0, 0, 1)
    left.try_send(1)
    check_counters(left, right)


@pytest.mark.guarantee("G97")
async def test_a_token_cancels_a_select() -> None:
    left, right = pair(1)
    token = CancelToken()
    task = await start_waiting(select(left.receive(), right.receive(), token=token))
    token.cancel("no more")
    assert await result_of(task) is TokenCancelledError
    assert not token.has_listeners()
    assert left.try_send(1), "there is no receiver: it stays"
    assert len(left) == 1
    with pytest.raises(TokenCancelledError, match="no more"):
        await select(left.receive(), right.receive(), token=token)
    assert drain(left) == [1]
    token = CancelToken()
    task = await start_waiting(select(left.receive(), right.receive(), token=token))
    right.try_send(5)
    token.cancel()
    assert await task == (1, 5)
    assert not token.has_listeners()
    check_counters(left, right)


@pytest.mark.parametrize("is_send_first", [False, True])
async def test_it_never_pairs_with_itself(is_send_first: bool) -> None:
    channel = Channel[int]()

    def both(number: int) -> Any:
        sending, receiving = channel.send(number), channel.receive()
        return select(sending, receiving) if is_send_first else select(receiving, sending)

    send, receive = (0, 1) if is_send_first else (1, 0)
    task = await start_waiting(both(1))
    assert (channel.statistics().senders, channel.statistics().receivers) == (1, 1)
    assert channel.try_receive() == 1
    assert await task == (send, None)
    task = await start_waiting(both(2))
    assert channel.try_send(3)
    assert await task == (receive, 3)
    # Two such selects meet: one sends, the other receives.
    one, other = await start_waiting(both(4)), asyncio.create_task(as_coroutine(both(5)))
    results = [await one, await other]
    assert sorted(index for index, _ in results) == [0, 1]
    assert {4, 5} & {value for _, value in results}
    stats = channel.statistics()
    assert (stats.senders, stats.receivers, stats.buffered) == (0, 0, 0)
    with pytest.raises(ChannelTimeoutError):
        await select(channel.send(1), channel.receive(), timeout=0)


@pytest.mark.parametrize("capacity", [0, 1])
async def test_selects_that_face_each_other_agree(capacity: int) -> None:
    left, right = pair(capacity)
    got: list[int] = []
    sent: list[int] = []

    async def sender(numbers: range) -> None:
        for number in numbers:
            await select(left.send(number), right.send(number))
            sent.append(number)

    async def receiver() -> None:
        while True:
            _, number = await select(right.receive(), left.receive())
            got.append(number)

    tasks = [asyncio.create_task(receiver()) for _ in range(3)]
    await asyncio.gather(*(sender(range(start, start + 100)) for start in (0, 100, 200)))
    await iterate()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(got) == sorted(sent) == list(range(300))
    check_counters(left, right)


@pytest.mark.guarantee("G96")
async def test_a_cancelled_select_leaves_all_queues() -> None:
    left, right = pair(0)
    task = await start_waiting(select(left.receive(), right.receive(), left.send(1)))
    task.cancel()
    assert not left.try_send(1), "the task was cancelled, but has not run since"
    assert await result_of(task) is asyncio.CancelledError
    for stats in (left.statistics(), right.statistics()):
        assert (stats.senders, stats.receivers) == (0, 0)


@pytest.mark.guarantee("G96")
async def test_the_element_of_a_completed_select_is_returned_if_its_task_is_cancelled() -> None:
    left, right = pair(2)
    task = await start_waiting(select(left.receive(), right.receive()))
    right.try_send(1)
    right.try_send(2)
    task.cancel()
    assert await result_of(task) is asyncio.CancelledError
    check_counters(left, right)
    assert drain(right) == [1, 2]
    closed = begin_by_hand(select(left.receive(), right.receive()))
    left.try_send(3)
    closed.close()
    closed.close()
    assert drain(left) == [3]
    sender = await start_waiting(select(left.receive(), Channel[int]().send(1)))
    sender.cancel()
    assert await result_of(sender) is asyncio.CancelledError
    assert left.statistics().receivers == 0


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
# Operations that were created only to be refused.
@pytest.mark.filterwarnings("ignore:.*never awaited:RuntimeWarning")
async def test_invalid_operations_are_refused_and_the_others_stay_usable() -> None:
    left, right = pair()
    good = left.send(1)
    wrong: Any
    for wrong in (5, None, as_coroutine(right.send(1)), right, select(right.receive())):
        with pytest.raises(InvalidArgumentError, match=r"pass channel\.receive"):
            _ = select(good, wrong)
        if asyncio.iscoroutine(wrong):
            wrong.close()
    with pytest.raises(InvalidArgumentError, match="got no operations"):
        _ = select()  # pyright: ignore[reportUnknownVariableType]  # of nothing
    for wrong in (right.receive(timeout=0.005), right.receive(token=CancelToken())):
        with pytest.raises(InvalidArgumentError, match="its own timeout or token"):
            _ = select(good, wrong)
    used = right.send(2)
    await used
    with pytest.raises(InvalidArgumentError, match="already used"):
        _ = select(good, used)
    with pytest.raises(InvalidArgumentError, match="twice"):
        _ = select(good, good)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        _ = select(good, timeout=-0.001)
    with pytest.raises(InvalidArgumentError, match="token is"):
        _ = select(good, token=5)  # type: ignore[call-overload]  # that is what is tested
    await good
    assert drain(left) == [1]
    gc.collect()


async def test_an_operation_of_a_select_cannot_be_awaited_on_its_own() -> None:
    left, right = pair()
    part = left.send(1)
    selected = select(part, right.receive())
    with pytest.raises(InvalidArgumentError, match="once"):
        await part
    with pytest.raises(InvalidArgumentError, match="once"):
        part.blocking()
    with pytest.raises(InvalidArgumentError, match="already used"):
        _ = select(part)
    assert await selected == (0, None)
    for again in (part, selected):
        with pytest.raises(InvalidArgumentError, match="once"):
            await again
    loser = right.receive()
    assert await select(left.receive(), loser) == (0, 1)
    with pytest.raises(InvalidArgumentError, match="once"):
        await loser


def test_a_select_that_is_never_awaited_warns_once() -> None:
    left, right = pair()
    selected = select(left.receive(), right.send(1))
    with pytest.warns(RuntimeWarning, match=r"select from .* never awaited") as caught:
        del selected
    assert len(caught) == 1


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_a_select_cannot_be_pickled_or_copied(duplicate: Any) -> None:
    channel = Channel[int](1)
    selected = select(channel.send(1))
    with pytest.raises(TypeError, match="cannot be pickled"):
        duplicate(selected)
    with pytest.raises(TypeError, match="await it"):
        bool(selected)
    assert await selected == (0, None)


async def test_it_never_does_two_of_its_operations_on_one_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread receives and sends between the first attempt of each operation and its queueing."""
    if _build_mode.mode() == "compiled":
        pytest.skip("looks between two bytecodes; compiled there are none there")
    channel = Channel[str](1)
    meanwhile: list[Callable[[], object]] = [channel.try_receive, lambda: channel.try_send("theirs")]
    begin = ChannelOp.try_now

    def interrupted(self: ChannelOp) -> bool:
        has_begun = begin(self)
        if self.select is not None and meanwhile:
            in_thread(meanwhile.pop(0))
        return has_begun

    channel.try_send("first")
    monkeypatch.setattr(ChannelOp, "try_now", interrupted)
    assert await select(channel.send("ours"), channel.receive()) == (1, "theirs")
    assert len(channel) == 0, "what it has not sent is not there"
    check_counters(channel)
