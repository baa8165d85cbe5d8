"""The receive operation of a channel actor: one message at a time, one place in the queue, and what it returns."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Generator
from typing import Any

import pytest

from bandstand.core import Loop, Verdict
from bandstand.scope import UNBOUNDED, Channel, Consumer, EndedBy, consume
from bandstand.scope._consumer import ActorReceive, ItemCoroutine
from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor
from tests.core.support import Boom, settle
from tests.scope.support import filled_channel, in_thread

pytestmark = pytest.mark.spec("K1", "K2")


def idle_element(_item: object) -> None:
    """Do nothing with an element."""


@pytest.mark.guarantee("G107")
def test_an_element_costs_one_message_and_two_if_the_actor_waits_for_it(loop: Loop) -> None:
    channel = filled_channel(*range(100))
    actor = consume(channel, idle_element, loop=loop)
    settle(loop)
    # One for each, and the one at which the channel was empty.
    assert loop.statistics().handled == 101
    for number in range(10):
        channel.try_send(number)
        settle(loop)
    assert loop.statistics().handled == 101 + 20
    # However many elements come, the actor is scheduled once.
    for number in range(10):
        channel.try_send(number)
    (node,) = loop.tree().roots
    assert node.waiting == 1
    settle(loop)
    assert actor.processed == 120


# --- the wrapped coroutine -----------------------------------------------------------------------------------------------


async def test_a_verdict_returned_after_a_caught_cancellation_counts() -> None:
    """A cancellation that does not end the actor: by asyncio.timeout, or by task.cancel()."""

    async def process(number: int) -> Verdict:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.uncancel()
        return Verdict.STOP

    channel = filled_channel(1, 2)
    actor = consume(channel, process)
    assert (await actor.ended()).ended_by is EndedBy.RETURNED
    assert len(channel) == 1


async def test_a_coroutine_is_stepped_with_values_and_errors_as_it_would_be_by_a_task() -> None:
    class Awaited:
        def __init__(self, future: asyncio.Future[Any]) -> None:
            self.future = future

        def __await__(self) -> Generator[Any, Any, Any]:
            return (yield from self.future)

    good, bad = asyncio.get_running_loop().create_future(), asyncio.get_running_loop().create_future()
    seen: list[Any] = []

    async def process(number: int) -> Verdict:
        seen.append(await Awaited(good))
        with pytest.raises(Boom):
            await bad
        await BareYield()
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        return Verdict.STOP

    actor = consume(filled_channel(1), process)
    await asyncio.sleep(0)
    good.set_result("good")
    await asyncio.sleep(0)
    bad.set_exception(Boom())
    assert (await actor.ended()).ended_by is EndedBy.RETURNED
    assert seen == ["good"]


class BareYield:
    """The same as `asyncio.sleep(0)`: one iteration of the event loop, and no future."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@pytest.mark.slow
def test_a_coroutine_that_is_polled_by_hand_and_killed_before_it_begins_is_closed(loop: Loop) -> None:
    async def process(number: int) -> None:
        raise AssertionError("it must not begin")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actor = consume(filled_channel(1), process, loop=loop)
        loop.poll_once()
        loop.kill_actor(actor.id)
        settle(loop)
        gc.collect()
    assert actor.outcome is not None
    assert actor.outcome.ended_by is EndedBy.KILLED


@pytest.mark.guarantee("G112")
@pytest.mark.parametrize("is_afar", [False, True], ids=["on its own thread", "from another thread"])
def test_no_element_is_lost_to_an_actor_whose_event_loop_was_closed(*, is_afar: bool) -> None:
    channel = Channel[int](UNBOUNDED)
    loops: list[Loop] = []

    async def begin() -> None:
        loop = Loop()
        loops.append(loop)
        await loop.__aenter__()
        consume(channel, idle_element)
        for _ in range(5):
            await asyncio.sleep(0)
        assert channel.statistics().receivers == 1

    def forget() -> None:
        with asyncio.Runner() as runner:
            runner.run(begin())

    if is_afar:
        in_thread(forget)
    else:
        forget()
    assert channel.try_send(1)
    assert channel.try_send(2)
    assert [channel.try_receive(), channel.try_receive()] == [1, 2]
    for loop in loops:
        loop.destroy()


def test_scheduling_twice_gives_one_turn(loop: Loop) -> None:
    """A call from another thread may arrive after the actor has already looked at its channel."""
    receive = ActorReceive(Channel[int](), idle_element, loop.kernel, loop.spawn(lambda ctx, data: None))
    receive.schedule()
    receive.schedule()
    assert receive.is_scheduled
    assert loop.statistics().waiting == 1
    receive.detach()


def test_a_spurious_message_leaves_it_in_the_queue(loop: Loop) -> None:
    channel, got = Channel[int](UNBOUNDED), list[int]()
    work = Consumer(channel, got.append)
    receives: list[ActorReceive] = []

    def init(ctx: Any) -> Any:
        state = work.init(ctx)
        receives.append(state.receive)
        return state

    spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("x", run=work.run, init=init)]))
    settle(loop)
    receives[0].schedule()
    settle(loop)
    assert channel.statistics().receivers == 1
    channel.try_send(1)
    settle(loop)
    assert got == [1]


@pytest.mark.parametrize("verdict", [None, Verdict.OK, Verdict.STOP, Verdict.FAIL], ids=str)
def test_the_wrapper_can_be_awaited(verdict: Any, loop: Loop) -> None:
    """Compiled, it is stepped this way; interpreted, through `send`."""
    receive = ActorReceive(Channel[int](), idle_element, loop.kernel, loop.spawn(lambda ctx, data: None))

    async def job() -> Any:
        await asyncio.sleep(0)
        return verdict

    async def main() -> Any:
        return await ItemCoroutine(receive, job())

    with asyncio.Runner() as runner:
        assert runner.run(main()) == (None if verdict is Verdict.OK else verdict)
    assert receive.is_scheduled is (verdict in {None, Verdict.OK})
    assert receive.has_returned_stop is (verdict is Verdict.STOP)
    assert list(iter(ItemCoroutine(receive, NeverYielding()))) == []  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a coroutine as far as that goes
    receive.detach()


class NeverYielding:
    def send(self, _value: object) -> Any:
        raise StopIteration
