"""Choosing between several sends and receives: exactly one is done, and the others have not happened."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.errors import Cancelled, ChannelClosed, ChannelTimeout, InvalidArgument
from bandstand.scope import CONFLATED, UNBOUNDED, CancelToken, Channel, select
from bandstand.scope.hot.passage import Passage
from bandstand.testing import VirtualClock
from tests.scope.channelling import (
    balance,
    begun,
    do,
    drain,
    is_heard,
    outcome,
    perform,
    rehearse,
    turns,
    waiting,
)

pytestmark = [pytest.mark.spec("K3"), pytest.mark.guarantee("G95")]


def pair(capacity: Any = 1) -> tuple[Channel[int], Channel[int]]:
    return Channel[int](capacity, name="left"), Channel[int](capacity, name="right")


# -- one of them -------------------------------------------------------------------------------------------------------


def test_the_one_that_can_be_done_is_done() -> None:
    async def main() -> None:
        left, right = pair()
        right.try_send(7)
        assert await select(left.receive(), right.receive()) == (1, 7)
        assert await select(right.receive(), left.send(5)) == (1, None)
        assert drain(left) == [5]
        assert (left.statistics().receivers, right.statistics().receivers) == (0, 0)
        balance(left, right)

    perform(main)


def test_sends_and_receives_mixed_wait_together() -> None:
    async def main() -> None:
        left, right = pair()
        left.try_send(0)
        for _ in range(3):
            task = await waiting(select(left.send(1), right.receive()))
            assert (left.statistics().senders, right.statistics().receivers) == (1, 1)
            assert right.try_send(2)
            assert await task == (1, 2)
            assert (left.statistics().senders, right.statistics().receivers) == (0, 0)
            assert len(left) == 1, "the other one has not happened"
            task = await waiting(select(left.send(1), right.receive()))
            assert left.try_receive() in {0, 1}
            assert await task == (0, None)
            balance(left, right)

    perform(main)


def test_a_rendezvous_with_a_choice() -> None:
    async def main() -> None:
        left, right = pair(0)
        sender = await waiting(left.send(1))
        assert await select(right.receive(), left.receive()) == (1, 1)
        await sender
        receiver = await waiting(right.receive())
        assert await select(left.send(2), right.send(3)) == (1, None)
        assert await receiver == 3
        balance(left, right)

    perform(main)


def test_the_elements_of_those_that_lose_stay_where_they_are() -> None:
    async def main() -> None:
        channels = [Channel[int](UNBOUNDED) for _ in range(5)]
        for number, channel in enumerate(channels):
            for element in range(10):
                channel.try_send(10 * number + element)
        got: list[int] = []
        for _ in range(25):
            index, element = await select(*(channel.receive() for channel in channels))
            assert element // 10 == index
            got.append(element)
        rest = [element for channel in channels for element in drain(channel)]
        assert sorted(got + rest) == list(range(50))
        balance(*channels)

    perform(main)


def test_what_was_offered_and_not_chosen_can_be_offered_again() -> None:
    async def main() -> None:
        left, right = pair(0)
        element = [1]
        anything = Channel[Any]()
        task = await waiting(select(left.receive(), anything.send(element)))
        left.try_send(0)
        assert await task == (0, 0)
        again = await waiting(anything.send(element))
        assert await anything.receive() is element
        await again
        balance(left, right, anything)

    perform(main)


# -- fair --------------------------------------------------------------------------------------------------------------


def test_among_those_that_are_ready_it_is_fair() -> None:
    async def main() -> None:
        channels = [Channel[int](UNBOUNDED) for _ in range(4)]
        for channel in channels:
            for element in range(300):
                channel.try_send(element)
        order = [(await select(*(channel.receive() for channel in channels)))[0] for _ in range(400)]
        assert Counter(order) == dict.fromkeys(range(4), 100)
        assert order[:8] == [0, 1, 2, 3, 0, 1, 2, 3]

    perform(main)


def test_sends_are_chosen_as_fairly() -> None:
    async def main() -> None:
        left, right = pair(UNBOUNDED)
        for number in range(10):
            await select(left.send(number), right.send(number))
        assert drain(left) == [0, 2, 4, 6, 8]
        assert drain(right) == [1, 3, 5, 7, 9]

    perform(main)


def test_a_channel_that_was_not_ready_for_long_is_next() -> None:
    async def main() -> None:
        busy, rare = pair(UNBOUNDED)
        for number in range(100):
            busy.try_send(number)
        for _ in range(10):
            assert (await select(busy.receive(), rare.receive()))[0] == 0
        rare.try_send(1)
        rare.try_send(2)
        assert [(await select(busy.receive(), rare.receive()))[0] for _ in range(3)] == [1, 0, 1]

    perform(main)


def test_whoever_waits_in_a_choice_stands_in_line_as_others_do() -> None:
    async def main() -> None:
        left, right = pair(0)
        first = await waiting(left.receive())
        second = await waiting(select(right.receive(), left.receive()))
        third = await waiting(left.receive())
        for number in range(3):
            assert left.try_send(number)
        assert [await first, await second, await third] == [0, (1, 1), 2]

    perform(main)


# -- closed ------------------------------------------------------------------------------------------------------------


def test_a_closed_channel_is_never_chosen() -> None:
    async def main() -> None:
        left, right = pair()
        left.close()
        right.try_send(1)
        assert await select(left.receive(), right.receive()) == (1, 1)
        assert await select(left.send(0), right.send(2)) == (1, None)
        drain(right)
        task = await waiting(select(left.receive(), right.receive()))
        right.try_send(3)
        assert await task == (1, 3)

    perform(main)


def test_what_is_left_in_a_closed_channel_is_chosen() -> None:
    async def main() -> None:
        left, right = pair()
        left.try_send(1)
        left.close()
        assert await select(right.receive(), left.receive()) == (1, 1)

    perform(main)


@pytest.mark.guarantee("G94")
def test_it_ends_when_all_are_closed_and_not_before() -> None:
    async def main() -> None:
        left, right = pair(0)
        task = await waiting(select(left.receive(), right.receive(), left.send(1)))
        left.close()
        await turns()
        assert not task.done(), "there is one left"
        right.close()
        assert await outcome(task) is ChannelClosed
        with pytest.raises(ChannelClosed, match="all of the channels are closed"):
            await select(left.receive(), right.receive())
        with pytest.raises(ChannelClosed):
            await select(left.receive(), timeout_ms=0)
        balance(left, right)

    perform(main)


def test_it_can_end_as_soon_as_one_is_closed() -> None:
    async def main() -> None:
        data, control = pair(1)
        task = await waiting(select(data.receive(), control.receive(), until_any_closes=True))
        data.close()
        assert await outcome(task) is ChannelClosed
        with pytest.raises(ChannelClosed, match="one of the channels is closed"):
            await select(data.receive(), control.receive(), until_any_closes=True)
        # What can be done comes first.
        await control.send(1)
        assert await select(data.receive(), control.receive(), until_any_closes=True) == (1, 1)
        balance(data, control)

    perform(main)


def test_what_is_left_in_a_closed_channel_is_received_before_its_end() -> None:
    async def main() -> None:
        data, control = pair(1)
        await data.send(1)
        data.close()
        assert await select(data.receive(), control.receive(), until_any_closes=True) == (0, 1)
        with pytest.raises(ChannelClosed):
            await select(data.receive(), control.receive(), until_any_closes=True)

    perform(main)


def test_a_channel_that_was_closed_while_it_waited_does_not_come_back() -> None:
    async def main() -> None:
        left, right = pair(0)
        task = await waiting(select(left.receive(), right.send(1)))
        left.close()
        await turns()
        assert right.try_receive() == 1
        assert await task == (1, None)

    perform(main)


# -- deadlines and tokens ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G93")
def test_a_choice_ends_by_its_deadline(bandstand_clock: VirtualClock) -> None:
    async def main() -> None:
        left, right = pair(0)
        with pytest.raises(ChannelTimeout, match="could be done at once"):
            await select(left.receive(), right.receive(), timeout_ms=0)
        before = bandstand_clock.now_ns()
        with pytest.raises(ChannelTimeout, match="within 40 ms"):
            await select(left.receive(), right.send(1), timeout_ms=40)
        assert 40 <= (bandstand_clock.now_ns() - before) / 1e6 <= 42
        for books in (left.statistics(), right.statistics()):
            assert (books.senders, books.receivers, books.timed_out) == (0, 0, 1)
        left.try_send(1)
        balance(left, right)

    rehearse(main, clock=bandstand_clock)


@pytest.mark.guarantee("G97")
def test_a_choice_ends_by_its_token() -> None:
    async def main() -> None:
        left, right = pair(1)
        token = CancelToken()
        task = await waiting(select(left.receive(), right.receive(), token=token))
        token.cancel("no more")
        assert await outcome(task) is Cancelled
        assert not is_heard(token)
        assert left.try_send(1), "nobody is there: it stays"
        assert len(left) == 1
        with pytest.raises(Cancelled, match="no more"):
            await select(left.receive(), right.receive(), token=token)
        assert drain(left) == [1]
        token = CancelToken()
        task = await waiting(select(left.receive(), right.receive(), token=token))
        right.try_send(5)
        token.cancel()
        assert await task == (1, 5)
        assert not is_heard(token)
        balance(left, right)

    perform(main)


# -- with itself and with each other -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_send_first", [False, True])
def test_it_never_pairs_with_itself(is_send_first: bool) -> None:
    async def main() -> None:
        channel = Channel[int]()

        def both(number: int) -> Any:
            sending, receiving = channel.send(number), channel.receive()
            return select(sending, receiving) if is_send_first else select(receiving, sending)

        send, receive = (0, 1) if is_send_first else (1, 0)
        task = await waiting(both(1))
        assert (channel.statistics().senders, channel.statistics().receivers) == (1, 1)
        assert channel.try_receive() == 1
        assert await task == (send, None)
        task = await waiting(both(2))
        assert channel.try_send(3)
        assert await task == (receive, 3)
        # Two of that kind meet: one sends, the other receives.
        one, other = await waiting(both(4)), asyncio.create_task(do(both(5)))
        results = [await one, await other]
        assert sorted(index for index, _ in results) == [0, 1]
        assert {4, 5} & {value for _, value in results}
        books = channel.statistics()
        assert (books.senders, books.receivers, books.buffered) == (0, 0, 0)
        with pytest.raises(ChannelTimeout):
            await select(channel.send(1), channel.receive(), timeout_ms=0)

    perform(main)


def test_where_there_is_room_it_may_send_and_a_later_one_receive() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        assert await select(channel.receive(), channel.send(1)) == (1, None)
        assert await select(channel.receive(), channel.send(2)) == (0, 1)

    perform(main)


def test_the_same_side_of_a_channel_twice_takes_one_element() -> None:
    async def main() -> None:
        channel = Channel[int](UNBOUNDED)
        task = await waiting(select(channel.receive(), channel.receive()))
        channel.try_send(1)
        channel.try_send(2)
        assert await task == (0, 1)
        assert drain(channel) == [2]
        assert channel.statistics().receivers == 0

    perform(main)


@pytest.mark.parametrize("capacity", [0, 1])
def test_choices_that_face_each_other_agree(capacity: int) -> None:
    async def main() -> None:
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
        await turns()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sorted(got) == sorted(sent) == list(range(300))
        balance(left, right)

    perform(main)


# -- cancelled ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G96")
def test_a_choice_that_is_cancelled_leaves_all_lines() -> None:
    async def main() -> None:
        left, right = pair(0)
        task = await waiting(select(left.receive(), right.receive(), left.send(1)))
        task.cancel()
        assert not left.try_send(1), "he has gone, and does not know it yet"
        assert await outcome(task) is asyncio.CancelledError
        for books in (left.statistics(), right.statistics()):
            assert (books.senders, books.receivers) == (0, 0)

    perform(main)


@pytest.mark.guarantee("G96")
def test_what_a_choice_has_won_goes_back_if_it_is_cancelled_then() -> None:
    async def main() -> None:
        left, right = pair(2)
        task = await waiting(select(left.receive(), right.receive()))
        right.try_send(1)
        right.try_send(2)
        task.cancel()
        assert await outcome(task) is asyncio.CancelledError
        balance(left, right)
        assert drain(right) == [1, 2]
        closed = begun(select(left.receive(), right.receive()))
        left.try_send(3)
        closed.close()
        closed.close()
        assert drain(left) == [3]
        sender = await waiting(select(left.receive(), Channel[int]().send(1)))
        sender.cancel()
        assert await outcome(sender) is asyncio.CancelledError
        assert left.statistics().receivers == 0

    perform(main)


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_cannot_be_chosen_is_refused_and_not_used() -> None:
    async def main() -> None:
        left, right = pair()
        good = left.send(1)
        wrong: Any
        for wrong in (5, None, do(right.send(1)), right, select(right.receive())):
            with pytest.raises(InvalidArgument, match=r"pass channel\.receive"):
                _ = select(good, wrong)
            if asyncio.iscoroutine(wrong):
                wrong.close()
        with pytest.raises(InvalidArgument, match="nothing to choose from"):
            _ = select()  # pyright: ignore[reportUnknownVariableType]  # of nothing
        for wrong in (right.receive(timeout_ms=5), right.receive(token=CancelToken())):
            with pytest.raises(InvalidArgument, match="of its own"):
                _ = select(good, wrong)
        used = right.send(2)
        await used
        with pytest.raises(InvalidArgument, match="used already"):
            _ = select(good, used)
        with pytest.raises(InvalidArgument, match="twice"):
            _ = select(good, good)
        with pytest.raises(InvalidArgument, match="timeout_ms"):
            _ = select(good, timeout_ms=-1)
        with pytest.raises(InvalidArgument, match="token is"):
            _ = select(good, token=5)  # type: ignore[call-overload]  # that is what is tested
        await good
        assert drain(left) == [1]

    with warnings.catch_warnings():
        # Those that were made only to be refused.
        warnings.simplefilter("ignore", RuntimeWarning)
        perform(main)
        gc.collect()


def test_what_is_a_part_of_a_choice_is_of_no_use_by_itself() -> None:
    async def main() -> None:
        left, right = pair()
        part = left.send(1)
        choice = select(part, right.receive())
        with pytest.raises(InvalidArgument, match="once"):
            await part
        with pytest.raises(InvalidArgument, match="once"):
            part.blocking()
        with pytest.raises(InvalidArgument, match="used already"):
            _ = select(part)
        assert await choice == (0, None)
        for again in (part, choice):
            with pytest.raises(InvalidArgument, match="once"):
                await again
        loser = right.receive()
        assert await select(left.receive(), loser) == (0, 1)
        with pytest.raises(InvalidArgument, match="once"):
            await loser

    perform(main)


def test_a_choice_that_is_never_awaited_warns_once() -> None:
    left, right = pair()
    choice = select(left.receive(), right.send(1))
    with pytest.warns(RuntimeWarning, match=r"select of .* never awaited") as caught:
        del choice
    assert len(caught) == 1


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_choice_cannot_be_pickled_or_copied(duplicate: Any) -> None:
    channel = Channel[int](1)
    choice = select(channel.send(1))
    with pytest.raises(TypeError, match="cannot be pickled"):
        duplicate(choice)
    with pytest.raises(TypeError, match="await it"):
        bool(choice)
    assert perform(lambda: do(choice)) == (0, None)


def test_repr() -> None:
    left, right = pair()
    choice = select(left.receive(), right.send(1))
    assert (
        repr(choice)
        == "<select of <receive from <Channel 'left' of 1: 0 in it>>, <send to <Channel 'right' of 1: 0 in it>>>"
    )
    perform(lambda: do(choice))


def test_conflated_channels_can_be_chosen() -> None:
    async def main() -> None:
        newest = Channel[int](CONFLATED)
        other = Channel[int]()
        for number in range(3):
            assert await select(other.receive(), newest.send(number)) == (1, None)
        assert await select(other.receive(), newest.receive()) == (1, 2)

    perform(main)


def test_it_never_does_two_of_its_operations_on_one_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread takes and sends between the look at each operation and their standing in line."""
    if _build_mode.mode() == "compiled":
        pytest.skip("looks between two bytecodes; compiled there are none there")
    channel = Channel[str](1)
    meanwhile: list[Callable[[], object]] = [channel.try_receive, lambda: channel.try_send("theirs")]
    begin = Passage.begin

    def interrupted(self: Passage) -> bool:
        has_begun = begin(self)
        if self.group is not None and meanwhile:
            thread = Thread(target=meanwhile.pop(0))
            thread.start()
            thread.join()
        return has_begun

    async def main() -> None:
        channel.try_send("first")
        monkeypatch.setattr(Passage, "begin", interrupted)
        assert await select(channel.send("ours"), channel.receive()) == (1, "theirs")
        assert len(channel) == 0, "what it has not sent is not there"
        balance(channel)

    perform(main)
