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


# -- fairness ----------------------------------------------------------------------------------------------------------


async def test_it_is_fair_among_channels_that_are_ready() -> None:
    channels = [Channel[int](UNBOUNDED) for _ in range(4)]
    for channel in channels:
        for element in range(300):
            channel.try_send(element)
    order = [(await select(*(channel.receive() for channel in channels)))[0] for _ in range(400)]
    assert Counter(order) == dict.fromkeys(range(4), 100)
    assert order[:8] == [0, 1, 2, 3, 0, 1, 2, 3]


# -- closed ------------------------------------------------------------------------------------------------------------


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
