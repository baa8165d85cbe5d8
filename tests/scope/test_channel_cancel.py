"""Whoever is cancelled while he waits loses nothing and takes nothing with him."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

from bandstand.errors import Cancelled, ChannelClosed, ChannelTimeout
from bandstand.scope import CONFLATED, UNBOUNDED, CancelToken, Channel
from tests.scope.channelling import (
    balance,
    begun,
    do,
    drain,
    is_heard,
    lane_factory,
    outcome,
    pause,
    perform,
    rehearse,
    timers,
    turns,
    waiting,
)

pytestmark = pytest.mark.spec("K3", "K4")


# -- by asyncio --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G96")
def test_a_task_that_is_cancelled_while_it_waits_leaves_the_line() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        receivers = [await waiting(channel.receive()) for _ in range(3)]
        receivers[1].cancel()
        assert await outcome(receivers[1]) is asyncio.CancelledError
        assert channel.statistics().receivers == 2
        channel.try_send(0)
        channel.try_send(1)
        assert [await receivers[0], await receivers[2]] == [0, 1]
        channel.try_send(2)
        senders = [await waiting(channel.send(number)) for number in (3, 4, 5)]
        senders[1].cancel()
        assert await outcome(senders[1]) is asyncio.CancelledError
        assert drain(channel) == [2, 3, 5], "what was not sent is not there"
        assert channel.statistics().cancelled == 2
        balance(channel)

    perform(main)


@pytest.mark.guarantee("G96")
def test_nothing_is_handed_to_somebody_who_was_cancelled_and_does_not_know_yet() -> None:
    async def main() -> None:
        channel = Channel[int]()
        first, second = await waiting(channel.receive()), await waiting(channel.receive())
        first.cancel()
        # In the same turn of the event loop.
        assert channel.try_send(1)
        balance(channel)
        assert await second == 1
        assert await outcome(first) is asyncio.CancelledError
        third = await waiting(channel.receive())
        third.cancel()
        assert not channel.try_send(2), "nobody is there"
        left, right = await waiting(channel.send(3)), await waiting(channel.send(4))
        left.cancel()
        assert channel.try_receive() == 4
        await right
        assert await outcome(left) is asyncio.CancelledError

    perform(main)


@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("capacity", [0, 1, 3, UNBOUNDED])
def test_what_was_handed_to_somebody_who_is_cancelled_then_goes_back_to_the_front(capacity: Any) -> None:
    async def main() -> None:
        channel = Channel[int](capacity)
        task = await waiting(channel.receive())
        for number in range(4):
            channel.try_send(number)
        rest = drain(channel)
        for number in rest:
            channel.try_send(number)
        assert channel.statistics().received == 1 + len(rest)
        task.cancel()
        balance(channel)
        assert await outcome(task) is asyncio.CancelledError
        balance(channel)
        assert channel.statistics().received == len(rest), "it was not received after all"
        assert drain(channel) == [0, *rest]

    perform(main)


@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("number", [2, 3, 10])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("capacity", [0, 5, UNBOUNDED])
def test_several_go_back_in_their_order(number: int, is_reversed: bool, capacity: Any) -> None:
    async def main() -> None:
        channel = Channel[int](capacity)
        served = [begun(channel.receive()) for _ in range(number)]
        for element in range(number + 3):
            channel.try_send(element)
        late = len(channel)
        for receiver in reversed(served) if is_reversed else served:
            receiver.close()
            balance(channel)
        assert drain(channel) == list(range(number + late))
        # And its list is in order again.
        for element in range(late):
            assert channel.try_send(element)
        assert drain(channel) == list(range(late))

    perform(main)


@pytest.mark.guarantee("G96")
def test_what_comes_back_goes_to_whoever_waits() -> None:
    async def main() -> None:
        channel = Channel[str]()
        first = begun(channel.receive())
        channel.try_send("hot potato")
        second = await waiting(channel.receive())
        third = await waiting(channel.receive())
        first.close()
        assert await second == "hot potato"
        assert not third.done()
        balance(channel)
        assert channel.statistics().received == 1
        third.cancel()
        await turns()

    perform(main)


@pytest.mark.guarantee("G96")
def test_what_comes_back_may_come_back_again() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        chain = [begun(channel.receive()) for _ in range(5)]
        for number in (1, 2):
            channel.try_send(number)
        # The first gives his to the third, the second his to the fourth, the third that to the fifth.
        for receiver in chain:
            receiver.close()
            balance(channel)
        assert drain(channel) == [1, 2]
        assert channel.statistics().received == 2

    perform(main)


@pytest.mark.guarantee("G96")
def test_in_a_conflated_channel_the_newer_of_two_stays() -> None:
    async def main() -> None:
        channel = Channel[int](CONFLATED)
        task = await waiting(channel.receive())
        channel.try_send(1)
        channel.try_send(2)
        task.cancel()
        await turns()
        balance(channel)
        assert drain(channel) == [2]
        for is_reversed in (False, True):
            served = [begun(channel.receive()) for _ in range(3)]
            for number in (1, 2, 3):
                channel.try_send(number)
            for receiver in reversed(served) if is_reversed else served:
                receiver.close()
                balance(channel)
            assert drain(channel) == [3]
        task = await waiting(channel.receive())
        channel.try_send(1)
        task.cancel()
        await turns()
        channel.try_send(2)
        balance(channel)
        assert drain(channel) == [2], "what came back is replaced as any other"

    perform(main)


@pytest.mark.guarantee("G96")
def test_what_comes_back_to_a_closed_channel_is_still_there() -> None:
    async def main() -> None:
        channel = Channel[int]()
        task = await waiting(channel.receive())
        channel.try_send(1)
        channel.close()
        task.cancel()
        await turns()
        assert drain(channel) == [1]
        with pytest.raises(ChannelClosed):
            channel.try_receive()

    perform(main)


@pytest.mark.guarantee("G96")
def test_what_comes_back_makes_nobody_move_up_too_early() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        receiver = begun(channel.receive())
        channel.try_send(0)
        channel.try_send(1)
        sender = await waiting(channel.send(2))
        receiver.close()
        balance(channel)
        assert len(channel) == 2, "one more than it holds"
        assert channel.statistics().peak == 2
        assert channel.try_receive() == 0
        assert len(channel) == 1
        await turns()
        assert not sender.done()
        assert drain(channel) == [1, 2]
        await sender

    perform(main)


@pytest.mark.guarantee("G96")
def test_a_send_that_was_received_in_the_moment_of_its_cancellation_was_sent() -> None:
    async def main() -> None:
        channel = Channel[int]()
        sender = await waiting(channel.send(1))
        assert channel.try_receive() == 1
        sender.cancel()
        assert await outcome(sender) is asyncio.CancelledError
        assert drain(channel) == []
        assert channel.statistics().sent == 1
        balance(channel)

    perform(main)


@pytest.mark.guarantee("G96")
def test_timeouts_of_asyncio_around_a_receive_lose_nothing() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        for wait in (0.001, 0.01):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(wait):
                    await channel.receive()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(channel.receive(), wait)
        assert channel.statistics().receivers == 0
        got: list[int] = []

        async def impatient() -> None:
            while len(got) < 300:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        got.append(await channel.receive())
                with suppress(TimeoutError):
                    got.append(await asyncio.wait_for(channel.receive(), 0.001))

        async def sender() -> None:
            for number in range(301):
                # Just when they give up, and just not.
                await asyncio.sleep(0.001 if number % 3 else 0.0005 * (number % 5))
                await channel.send(number)

        sending = asyncio.create_task(sender())
        await impatient()
        await asyncio.sleep(1)
        sending.cancel()
        assert got + drain(channel) == list(range(len(got) + (301 - len(got)))) or got == list(
            range(len(got))
        )
        balance(channel)

    rehearse(main)


@pytest.mark.guarantee("G96")
def test_a_cancellation_that_is_taken_back_leaves_the_task_able_to_receive() -> None:
    async def main() -> None:
        channel = Channel[int](1)

        async def stubborn() -> int:
            try:
                return await channel.receive()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
                return await channel.receive()

        task = asyncio.create_task(stubborn())
        await turns()
        channel.try_send(1)
        task.cancel()
        assert await task == 1

    perform(main)


# -- by a token --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G97")
@pytest.mark.parametrize("side", ["send", "receive"])
def test_a_token_that_is_cancelled_already_comes_first(side: str) -> None:
    async def main() -> None:
        channel = Channel[int](2)
        channel.try_send(1)
        token = CancelToken()
        token.cancel("enough")
        with pytest.raises(Cancelled, match="enough") as caught:
            await (channel.send(2, token=token) if side == "send" else channel.receive(token=token))
        assert caught.value.token == token.number
        assert not isinstance(caught.value, asyncio.CancelledError)
        assert drain(channel) == [1]

    perform(main)


@pytest.mark.guarantee("G97")
@pytest.mark.parametrize("side", ["send", "receive"])
def test_a_token_wakes_whoever_waits(side: str) -> None:
    async def main() -> None:
        channel = Channel[int]()
        root = CancelToken()
        token = root.child()
        other = await waiting(channel.send(1) if side == "send" else channel.receive())
        task = await waiting(channel.send(2, token=token) if side == "send" else channel.receive(token=token))
        root.cancel("the user has gone")
        await turns(2)
        assert task.done(), "promptly"
        assert await outcome(task) is Cancelled
        books = channel.statistics()
        assert (books.cancelled, books.senders + books.receivers) == (1, 1)
        assert not other.done()
        channel.close()
        assert await outcome(other) is ChannelClosed

    perform(main)


@pytest.mark.guarantee("G97")
@pytest.mark.parametrize("is_token_first", [False, True])
def test_a_token_and_an_element_at_the_same_moment_are_one_or_the_other(is_token_first: bool) -> None:
    async def main() -> None:
        channel = Channel[int](1)
        token = CancelToken()
        task = await waiting(channel.receive(token=token))
        if is_token_first:
            token.cancel()
            channel.try_send(1)
            assert await outcome(task) is Cancelled
            assert drain(channel) == [1]
        else:
            channel.try_send(1)
            token.cancel()
            assert await outcome(task) == 1
            assert drain(channel) == []
        balance(channel)
        assert channel.statistics().received == 1

    perform(main)


@pytest.mark.guarantee("G97")
def test_a_deadline_a_token_and_a_close_at_the_same_moment_are_one_of_them() -> None:
    async def main() -> None:
        channel = Channel[int]()
        token = CancelToken(timeout_ms=10)
        both = await waiting(channel.receive(timeout_ms=10, token=token))
        assert await outcome(both) in {Cancelled, ChannelTimeout}
        books = channel.statistics()
        assert books.cancelled + books.timed_out == 1
        token = CancelToken()
        task = await waiting(channel.receive(timeout_ms=10, token=token))
        channel.close()
        token.cancel()
        await pause(20)
        assert await outcome(task) is ChannelClosed

    rehearse(main)


@pytest.mark.guarantee("G97")
def test_a_token_forgets_those_who_do_not_wait_any_more() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        token = CancelToken()
        for way in ("served", "timed out", "cancelled", "closed", "at once"):
            task = asyncio.create_task(do(channel.receive(token=token, timeout_ms=20)))
            await turns(2)
            assert is_heard(token)
            if way == "served":
                channel.try_send(1)
            elif way == "cancelled":
                task.cancel()
            elif way == "closed":
                channel.close()
            await outcome(task)
            assert not is_heard(token), way
            if way == "closed":
                channel = Channel[int](1)
                channel.try_send(1)
                await channel.receive(token=token)
                assert not is_heard(token)
                break

    rehearse(main)


# -- by the end of things ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_event_loop_that_was_closed_with_somebody_waiting_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel = Channel[int](2)
    host = lane_factory()()
    # Kept: or they would be garbage, and gone.
    tasks = [host.create_task(do(channel.receive())) for _ in range(2)]
    host.run_until_complete(turns())
    host.close()
    assert channel.statistics().receivers == 2
    assert channel.try_send(1)
    assert channel.try_send(2)
    balance(channel)
    assert drain(channel) == [1, 2]
    host = lane_factory()()
    senders = [host.create_task(do(channel.send(number))) for number in (3, 4, 5, 6)]
    host.run_until_complete(turns())
    host.close()
    assert drain(channel) == [3, 4, 5, 6]
    balance(channel)
    del tasks, senders
    gc.collect()
    balance(channel)
    # asyncio says so of tasks that are dropped while they wait, and that is all that is said.
    assert {record.name for record in caplog.records} <= {"asyncio"}


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_however_many_were_lost_with_their_event_loop() -> None:
    """What nobody takes passes them all in one go, and not from one to the next, deeper and deeper."""
    channel = Channel[int](1)
    host = lane_factory()()
    tasks: list[Any] = [host.create_task(do(channel.receive())) for _ in range(20_000)]
    host.run_until_complete(turns())
    host.close()
    assert channel.try_send(1)
    assert drain(channel) == [1]
    assert channel.statistics().receivers == 0
    balance(channel)
    for task in tasks:
        # That they are dropped is the point.
        task._log_destroy_pending = False


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("end", ["close", "throw", "drop"])
def test_a_coroutine_that_is_closed_while_it_waits_leaves_the_line(end: str) -> None:
    async def main() -> None:
        channel = Channel[int](1)

        def ended(coroutine: Any) -> None:
            if end == "close":
                coroutine.close()
            elif end == "throw":
                with pytest.raises(KeyError):
                    coroutine.throw(KeyError("x"))

        receiver = begun(channel.receive())
        assert channel.statistics().receivers == 1
        if end == "drop":
            # The line holds the operation, and the operation nobody: the coroutine goes at once.
            del receiver
            gc.collect()
        else:
            ended(receiver)
        assert channel.statistics().receivers == 0
        served = begun(channel.receive())
        assert channel.try_send(1)
        assert len(channel) == 0
        if end == "drop":
            del served
            gc.collect()
        else:
            ended(served)
        assert drain(channel) == [1], "it is back"
        channel.try_send(0)
        sender = begun(channel.send(2))
        if end == "drop":
            del sender
            gc.collect()
        else:
            ended(sender)
        assert drain(channel) == [0]
        balance(channel)

    perform(main)


@pytest.mark.guarantee("G96")
def test_old_ways_to_throw_do_as_well() -> None:
    async def main() -> None:
        channel = Channel[int](1)
        for error in ((KeyError("x"),), (KeyError,), (KeyError, "x"), (KeyError, KeyError("x"), None)):
            by_hand: Any = channel.receive()
            by_hand.send(None)
            with pytest.raises(KeyError):
                by_hand.throw(*error)
            assert channel.statistics().receivers == 0

    perform(main)


@pytest.mark.guarantee("G96")
def test_a_channel_that_is_dropped_with_somebody_waiting_goes_with_him() -> None:
    import weakref

    async def main() -> None:
        channel = Channel[int]()
        seen = weakref.ref(channel)
        task = await waiting(channel.receive())
        task.cancel()
        await turns()
        del channel, task
        gc.collect()
        assert seen() is None

    perform(main)


# -- nothing is left behind --------------------------------------------------------------------------------------------


def things() -> int:
    gc.collect()
    return len(gc.get_objects())


MANY = {"timed out": 100_000, "cancelled": 100_000}


@pytest.mark.heavy
@pytest.mark.timeout(180)
@pytest.mark.guarantee("G98")
@pytest.mark.parametrize("way", ["timed out", "timed out on asyncio", "cancelled", "token", "select"])
def test_a_hundred_thousand_receives_in_vain_leave_nothing_behind(way: str) -> None:
    from bandstand.core import Loop
    from bandstand.scope import select
    from bandstand.testing import VirtualClock

    clock = VirtualClock()
    channel, other = Channel[int](1), Channel[int](1)
    token = CancelToken()

    async def timed_out() -> None:
        with suppress(ChannelTimeout):
            await channel.receive(timeout_ms=5, token=token)

    async def cancelled(tasks: list[asyncio.Task[int]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def by_token() -> None:
        child = token.child()
        task = asyncio.create_task(do(channel.receive(token=child)))
        await asyncio.sleep(0)
        child.cancel()
        with suppress(Cancelled):
            await task

    async def chosen() -> None:
        with suppress(ChannelTimeout):
            await select(channel.receive(), other.receive(), other.receive(), timeout_ms=5)

    async def rounds(number: int) -> None:
        for start in range(0, number, 1000):
            count = min(1000, number - start)
            if way.startswith("timed out"):
                await asyncio.gather(*(timed_out() for _ in range(count)))
            elif way == "cancelled":
                tasks = [asyncio.create_task(do(channel.receive(timeout_ms=1e6))) for _ in range(count)]
                await asyncio.sleep(0)
                await cancelled(tasks)
                del tasks
            elif way == "token":
                for _ in range(count):
                    await by_token()
            else:
                await asyncio.gather(*(chosen() for _ in range(count)))

    async def body(loop: Loop | None) -> None:
        await rounds(2000)
        before = things()
        await rounds(MANY.get(way, 10_000))
        after = things()
        assert after - before < 200, f"{after - before} objects more"
        for line in (channel, other):
            books = line.statistics()
            assert (books.receivers, books.senders, books.buffered) == (0, 0, 0)
        assert not is_heard(token)
        assert timers() == 0, "deadlines are left on the wheel"
        scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
        # What asyncio has been told to forget it forgets when it comes to it, half of its heap at a time.
        assert len(scheduled) <= (10 if loop is not None else 3000), "handles of asyncio are left"

    async def main() -> None:
        if way == "timed out on asyncio":
            await body(None)
        else:
            async with Loop(clock=clock) as loop:
                await body(loop)

    clock.run(main())


@pytest.mark.slow
@pytest.mark.guarantee("G98")
def test_what_waits_a_long_time_has_one_timer_and_no_task() -> None:
    """Ten thousand waits that were served leave no timer, however far their deadline was."""

    async def main() -> None:
        channel = Channel[int](1)
        for number in range(10_000):
            task = asyncio.create_task(do(channel.receive(timeout_ms=1e9)))
            await asyncio.sleep(0)
            channel.try_send(number)
            assert await task == number
        scheduled: Any = getattr(asyncio.get_running_loop(), "_scheduled", [])
        assert len(scheduled) < 10

    rehearse(main)
