"""One channel, many threads, several event loops: every element exactly once, under all races."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from bandstand.core import Loop
from bandstand.errors import ChannelClosedError, ChannelTimeoutError, LoopBusyError, TokenCancelledError
from bandstand.scope import UNBOUNDED, CancelToken, Channel, select
from tests.scope.support import (
    Capacity,
    as_coroutine,
    check_counters,
    drain,
    event_loop_factory,
    fast_thread_switching,
    iterate,
)

pytestmark = [
    pytest.mark.spec("K3", "K4"),
    pytest.mark.real_time(reason="threads live in real time"),
    pytest.mark.slow,
]

CAPACITIES: tuple[Capacity, ...] = (0, 1, 4, UNBOUNDED)


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    with fast_thread_switching():
        yield


class Crew:
    """Threads that are joined, and whose errors fail the test."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, work: Callable[..., Any], *arguments: Any) -> None:
        def guarded() -> None:
            try:
                work(*arguments)
            except BaseException as error:  # noqa: BLE001 -- the test raises it
                self.errors.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        self.threads.append(thread)
        thread.start()

    def start_loop(self, main: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run an event loop in its own thread."""

        def run() -> None:
            with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
                runner.run(main(*arguments))

        self.start(run)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(40)
            assert not thread.is_alive(), f"a thread waits for ever; {self.errors}"
        self.threads.clear()
        if self.errors:
            raise self.errors[0]


@pytest.fixture
def crew() -> Crew:
    return Crew()


def in_order_of_senders(got: list[tuple[int, int]]) -> bool:
    """Whether one receiver got the elements of each sender in the order in which they were sent."""
    last: dict[int, int] = {}
    for sender, number in got:
        if number <= last.get(sender, -1):
            return False
        last[sender] = number
    return True


def all_of(senders: int, each: int) -> list[tuple[int, int]]:
    return [(sender, number) for sender in range(senders) for number in range(each)]


@pytest.mark.guarantee("G91")
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_two_event_loops_and_threads(capacity: Capacity, crew: Crew) -> None:
    channel = Channel[tuple[int, int]](capacity)
    got: list[list[tuple[int, int]]] = [[] for _ in range(5)]

    def send(sender: int) -> None:
        for number in range(200):
            channel.send((sender, number)).blocking()

    async def send_async(sender: int) -> None:
        for number in range(200):
            await channel.send((sender, number))

    async def sending() -> None:
        await asyncio.gather(send_async(2), send_async(3))

    async def receive_async(mine: list[tuple[int, int]]) -> None:
        async for item in channel:
            mine.append(item)  # noqa: PERF401 -- one by one

    async def receiving(*lists: list[tuple[int, int]]) -> None:
        await asyncio.gather(*(receive_async(mine) for mine in lists))

    def receive(mine: list[tuple[int, int]]) -> None:
        with suppress(ChannelClosedError):
            while True:
                mine.append(channel.receive().blocking())

    receivers = Crew()
    receivers.start_loop(receiving, got[0], got[1])
    receivers.start_loop(receiving, got[2], got[3])
    receivers.start(receive, got[4])
    for sender in (0, 1):
        crew.start(send, sender)
    crew.start_loop(sending)
    crew.join()
    channel.close()
    receivers.join()
    assert sorted(item for mine in got for item in mine) == all_of(4, 200)
    assert all(in_order_of_senders(mine) for mine in got)
    check_counters(channel)


@pytest.mark.parametrize("capacity", [0, 2])
def test_selects_in_many_threads(capacity: int, crew: Crew) -> None:
    """Both sides select from both channels: the worst case for leaving several queues at once."""
    left, right = Channel[tuple[int, int]](capacity), Channel[tuple[int, int]](capacity)
    got: list[list[tuple[int, int]]] = [[] for _ in range(4)]

    def send(sender: int) -> None:
        for number in range(200):
            item = (sender, number)
            select(left.send(item), right.send(item)).blocking()

    async def send_async(sender: int) -> None:
        for number in range(200):
            item = (sender, number)
            await select(right.send(item), left.send(item))

    def receive(mine: list[tuple[int, int]]) -> None:
        with suppress(ChannelClosedError):
            while True:
                mine.append(select(right.receive(), left.receive()).blocking()[1])

    async def receive_async(mine: list[tuple[int, int]]) -> None:
        with suppress(ChannelClosedError):
            while True:
                mine.append((await select(left.receive(), right.receive()))[1])

    receivers = Crew()
    receivers.start(receive, got[0])
    receivers.start(receive, got[1])
    receivers.start_loop(receive_async, got[2])
    receivers.start_loop(receive_async, got[3])
    crew.start(send, 0)
    crew.start(send, 1)
    crew.start_loop(send_async, 2)
    crew.join()
    left.close()
    right.close()
    receivers.join()
    assert sorted(item for mine in got for item in mine) == all_of(3, 200)
    check_counters(left, right)
    for channel in (left, right):
        assert (channel.statistics().senders, channel.statistics().receivers) == (0, 0)


# -- races -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G94")
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_close_races_with_senders_and_receivers(capacity: Capacity, crew: Crew) -> None:
    for _ in range(20):
        channel = Channel[tuple[int, int]](capacity)
        sent: list[tuple[int, int]] = []
        got: list[tuple[int, int]] = []

        def send(sender: int, channel: Channel[tuple[int, int]], sent: list[tuple[int, int]]) -> None:
            with suppress(ChannelClosedError):
                for number in range(1000):
                    channel.send((sender, number)).blocking()
                    sent.append((sender, number))

        async def receive_async(channel: Channel[tuple[int, int]], got: list[tuple[int, int]]) -> None:
            async for item in channel:
                got.append(item)  # noqa: PERF401 -- same

        def receive(channel: Channel[tuple[int, int]], got: list[tuple[int, int]]) -> None:
            with suppress(ChannelClosedError):
                while True:
                    got.append(channel.receive().blocking())

        def close(channel: Channel[tuple[int, int]], got: list[tuple[int, int]]) -> None:
            while len(got) < 15:
                pass
            channel.close()

        crew.start(send, 0, channel, sent)
        crew.start(send, 1, channel, sent)
        crew.start_loop(receive_async, channel, got)
        crew.start(receive, channel, got)
        crew.start(close, channel, got)
        crew.join()
        assert sorted(got) == sorted(sent), "accepted, or refused to its sender"
        assert drain(channel) == []
        check_counters(channel)


@pytest.mark.guarantee("G96")
@pytest.mark.parametrize("capacity", [0, 1, UNBOUNDED])
def test_tasks_that_are_cancelled_while_a_thread_sends(capacity: Capacity, crew: Crew) -> None:
    channel = Channel[int](capacity)
    got: list[int] = []
    others: list[int] = []

    async def receive() -> None:
        while True:
            got.append(await channel.receive())

    async def main() -> None:
        random = Random(7)
        while not channel.is_closed:
            tasks = [asyncio.create_task(receive()) for _ in range(3)]
            await iterate(random.randrange(6))
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, (asyncio.CancelledError, ChannelClosedError)) for result in results)

    def send() -> None:
        for number in range(1500):
            channel.send(number).blocking()

    def also_receive() -> None:
        with suppress(ChannelClosedError):
            while True:
                others.append(channel.receive().blocking())

    receivers = Crew()
    receivers.start_loop(main)
    receivers.start(also_receive)
    crew.start(send)
    crew.join()
    channel.close()
    receivers.join()
    rest = drain(channel)
    assert sorted(got + others + rest) == list(range(1500))
    check_counters(channel)


@pytest.mark.guarantee("G97")
@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_token_races_with_an_element(is_blocking: bool, crew: Crew) -> None:
    channel = Channel[int]()
    got: list[int] = []
    ended = [0]
    tokens = Channel[CancelToken](UNBOUNDED)

    async def receive_async() -> None:
        for _ in range(600):
            token = CancelToken()
            tokens.try_send(token)
            try:
                got.append(await channel.receive(token=token))
            except TokenCancelledError:
                ended[0] += 1
        tokens.close()

    def receive() -> None:
        for _ in range(600):
            token = CancelToken()
            tokens.try_send(token)
            try:
                got.append(channel.receive(token=token).blocking())
            except TokenCancelledError:
                ended[0] += 1
        tokens.close()

    def cancel() -> None:
        with suppress(ChannelClosedError):
            while True:
                tokens.receive().blocking().cancel()

    def send() -> None:
        number = 0
        while not tokens.is_closed:
            with suppress(ChannelTimeoutError):
                channel.send(number, timeout=0.001).blocking()
                number += 1

    if is_blocking:
        crew.start(receive)
    else:
        crew.start_loop(receive_async)
    crew.start(cancel)
    crew.start(send)
    crew.join()
    assert len(got) + ended[0] == 600
    assert got == list(range(len(got))), "each once, in order"
    check_counters(channel)
    assert channel.statistics().sent == len(got)


@pytest.mark.slow
@pytest.mark.guarantee("G96")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_event_loops_that_end_while_threads_send(crew: Crew) -> None:
    """Each ends with a waiting receiver; an element it was given goes to the next one."""
    channel = Channel[int]()
    got: list[int] = []
    kept: list[Any] = []

    async def receive() -> None:
        while True:
            got.append(await channel.receive())

    def loops() -> None:
        while not channel.is_closed:
            host = event_loop_factory()()
            kept.append([host.create_task(receive()) for _ in range(2)])
            host.run_until_complete(iterate(8))
            host.close()

    def send() -> None:
        for number in range(500):
            channel.send(number).blocking()

    receivers = Crew()
    receivers.start(loops)
    crew.start(send)
    crew.join()
    channel.close()
    receivers.join()
    # Elements that were handed over and never taken belong to tasks of closed loops, until these are dropped.
    for tasks in kept:
        for task in tasks:
            task._log_destroy_pending = False
            with suppress(RuntimeError):
                task.get_coro().close()
    assert sorted(got + drain(channel)) == list(range(500))
    check_counters(channel)


# -- blocking ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G98")
async def test_blocking_on_a_thread_that_runs_an_event_loop_is_refused() -> None:
    channel = Channel[int](1)
    for operation in (channel.send(1), select(channel.send(1))):
        with pytest.raises(LoopBusyError, match="await"):
            operation.blocking()
        assert len(channel) == 0, "the operation had no effect"
        await as_coroutine(operation)
        channel.try_receive()


@pytest.mark.guarantee("G93")
def test_blocking_with_timeouts() -> None:
    from time import monotonic

    channel = Channel[int](1)
    with pytest.raises(ChannelTimeoutError, match=r"no element$"):
        channel.receive(timeout=0).blocking()
    before = monotonic()
    with pytest.raises(ChannelTimeoutError, match="within 15 ms"):
        channel.receive(timeout=0.015).blocking()
    assert monotonic() - before >= 0.015
    channel.send(1, timeout=0).blocking()
    with pytest.raises(ChannelTimeoutError):
        channel.send(2, timeout=0.005).blocking()
    with pytest.raises(ChannelTimeoutError):
        select(channel.send(2), channel.send(3), timeout=0.005).blocking()
    assert channel.receive(timeout=0.005).blocking() == 1
    stats = channel.statistics()
    assert (stats.senders, stats.receivers, stats.buffered) == (0, 0, 0)


@pytest.mark.guarantee("G96")
def test_an_interrupted_thread_leaves_the_queue(crew: Crew) -> None:
    """As by Ctrl-C."""
    channel = Channel[int]()

    class Interrupted(BaseException):
        pass

    def raise_it(*_: object) -> None:
        raise Interrupted

    def interrupt() -> None:
        while channel.statistics().receivers == 0:
            pass
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        crew.start(interrupt)
        with pytest.raises(Interrupted):
            channel.receive(timeout=20.0).blocking()
        crew.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert channel.statistics().receivers == 0
    assert not channel.try_send(1)


@pytest.mark.guarantee("G93", "G97")
def test_a_thread_sees_the_deadline_of_its_token_while_the_loop_that_keeps_it_does_not_run() -> None:
    with Loop() as loop:
        token = CancelToken(timeout=0.02, loop=loop)
        with pytest.raises(TokenCancelledError, match="its deadline of 20 ms has passed"):
            Channel[int]().receive(token=token.child()).blocking()
        with pytest.raises(ChannelTimeoutError):
            Channel[int]().receive(token=CancelToken(timeout=60.0, loop=loop), timeout=0.005).blocking()
