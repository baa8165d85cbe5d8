"""One-shot events: set once, and every wait and callback is notified once."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

from bandstand.errors import ChannelTimeoutError, InvalidArgumentError, LoopBusyError, TokenCancelledError
from bandstand.errors.validation import Seconds
from bandstand.scope import CancelToken
from bandstand.scope.event import OneShotEvent
from bandstand.testing import VirtualClock
from tests.scope.support import (
    as_coroutine,
    event_loop_factory,
    fast_thread_switching,
    iterate,
    result_of,
    start_waiting,
)

pytestmark = pytest.mark.spec("K5")


def waits_of(event: Any) -> Any:
    """Return its registered waits."""
    return event._waits


def test_it_is_set_once() -> None:
    event = OneShotEvent[str]("the end of the world")
    assert (event.is_set, event.value) == (False, None)
    assert event.set("fire")
    assert not event.set("ice")
    assert (event.is_set, event.value) == (True, "fire")


async def test_waiting_tasks_are_woken_and_later_ones_do_not_wait() -> None:
    event = OneShotEvent[int]("it")
    tasks = [await start_waiting(event.wait()) for _ in range(3)]
    event.set(7)
    await iterate(2)
    assert [task.result() for task in tasks] == [7, 7, 7]
    assert await event.wait() == 7
    assert await event.wait(timeout=0) == 7


def test_every_callback_is_called_exactly_once_in_order_and_late_ones_at_once() -> None:
    event = OneShotEvent[int]("it")
    seen: list[tuple[str, int]] = []
    event.add_callback(lambda value: seen.append(("first", value)))
    event.add_callback(lambda value: seen.append(("second", value)))
    assert seen == []
    event.set(1)
    event.set(2)
    assert seen == [("first", 1), ("second", 1)]
    event.add_callback(lambda value: seen.append(("late", value)))
    assert seen[2:] == [("late", 1)]


def test_what_a_callback_raises_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    event = OneShotEvent[int]("the end of it")
    seen: list[int] = []

    def broken(_: int) -> None:
        raise ValueError("broken")

    event.add_callback(broken)
    event.add_callback(seen.append)
    with caplog.at_level(logging.ERROR, "bandstand.scope"):
        assert event.set(1)
        event.add_callback(broken)
    assert seen == [1]
    assert [record.name for record in caplog.records] == ["bandstand.scope"] * 2
    assert "the end of it" in caplog.text


def test_system_exit_propagates_after_all_callbacks() -> None:
    event = OneShotEvent[int]("it")
    seen: list[int] = []

    def leave(_: int) -> None:
        raise SystemExit

    event.add_callback(leave)
    event.add_callback(seen.append)
    event.add_callback(seen.append)
    with pytest.raises(SystemExit):
        event.set(1)
    assert seen == [1, 1]


@pytest.mark.parametrize("timeout", [0.02, timedelta(milliseconds=20)], ids=repr)
@pytest.mark.virtual_time
async def test_a_wait_times_out_and_is_removed(bandstand_clock: VirtualClock, timeout: Seconds) -> None:
    event = OneShotEvent[int]("the end of it")
    before = bandstand_clock.now_ns()
    with pytest.raises(ChannelTimeoutError, match="the end of it did not come within 20 ms"):
        await event.wait(timeout=timeout)
    assert 20 <= (bandstand_clock.now_ns() - before) / 1e6 <= 22
    with pytest.raises(ChannelTimeoutError):
        await event.wait(timeout=0)
    assert not waits_of(event), "nothing is left behind"


async def test_a_token_cancels_a_wait_which_is_removed() -> None:
    event = OneShotEvent[int]("the end of it")
    token = CancelToken()
    task = await start_waiting(event.wait(token=token))
    token.cancel("enough")
    assert await result_of(task) is TokenCancelledError
    with pytest.raises(TokenCancelledError, match="the end of it was cancelled: enough"):
        await event.wait(token=token)
    assert not waits_of(event), "nothing is left behind"
    other = CancelToken()
    task = await start_waiting(event.wait(token=other))
    event.set(1)
    assert await task == 1
    assert not other.has_listeners()


@pytest.mark.slow
def test_a_wait_that_is_never_awaited_warns_unless_it_belongs_to_a_request() -> None:
    event = OneShotEvent[int]("it")
    waits = [event.wait()]
    with pytest.warns(RuntimeWarning, match="<wait for it> was never awaited: nothing waited for it"):
        waits.clear()
    _ = event.wait(is_request=True)
    del _
    gc.collect()


async def test_a_wait_can_be_awaited_once() -> None:
    event = OneShotEvent[int]("it")
    event.set(1)
    wait = event.wait()
    assert await wait == 1
    with pytest.raises(InvalidArgumentError, match=r"wait for it.*once"):
        await wait
    with pytest.raises(LoopBusyError):
        event.wait().blocking()


def test_bad_arguments() -> None:
    event = OneShotEvent[int]("it")
    with pytest.raises(InvalidArgumentError, match="timeout"):
        _ = event.wait(timeout=-0.001)
    with pytest.raises(InvalidArgumentError, match="token"):
        _ = event.wait(token=5)


@pytest.mark.slow
@pytest.mark.real_time(reason="threads live in real time")
def test_set_by_many_threads_it_is_set_once_and_wakes_all() -> None:
    with fast_thread_switching():
        for _ in range(50):
            event = OneShotEvent[int]("it")
            called: list[int] = []
            woken: list[int] = []
            won: list[int] = []

            async def tasks(event: OneShotEvent[int] = event, woken: list[int] = woken) -> None:
                woken.extend(await asyncio.gather(*(as_coroutine(event.wait()) for _ in range(5))))

            def loop(tasks: Any = tasks) -> None:
                with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
                    runner.run(tasks())

            def thread(event: OneShotEvent[int] = event, woken: list[int] = woken) -> None:
                woken.append(event.wait(timeout=20.0).blocking())

            def opener(number: int, event: OneShotEvent[int] = event, won: list[int] = won) -> None:
                if event.set(number):
                    won.append(number)

            def register(event: OneShotEvent[int] = event, called: list[int] = called) -> None:
                for _ in range(10):
                    event.add_callback(called.append)

            threads = [threading.Thread(target=each) for each in (loop, thread, thread, register, register)]
            threads += [threading.Thread(target=opener, args=(number,)) for number in range(3)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(20)
                assert not each.is_alive()
            assert len(won) == 1
            assert woken == won * 7
            assert called == won * 20


def test_a_wait_that_is_over_cannot_be_resumed() -> None:
    event = OneShotEvent[int]("it")
    event.set(1)
    steps = event.wait().__await__()
    with pytest.raises(StopIteration):
        next(steps)
    with pytest.raises(InvalidArgumentError, match="once"):
        next(steps)
