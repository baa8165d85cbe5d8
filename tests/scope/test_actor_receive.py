"""The feed itself: one prod at a time, one place in the line, and what it gives back."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import warnings
from collections.abc import Coroutine, Generator
from threading import Thread
from typing import Any
from weakref import ref

import pytest

from bandstand.core import Loop, Verdict
from bandstand.core.hot.kernel import is_coroutine
from bandstand.scope import UNBOUNDED, Channel, Consumer, EndedBy, consume
from bandstand.scope._consumer import ActorReceive, ItemCoroutine
from tests.core.stage import Boom, settle
from tests.scope.consuming import Slow, filled, ride, until

pytestmark = pytest.mark.spec("K1", "K2")


def idle_element(_item: object) -> None:
    """Do nothing with an element."""


@pytest.mark.guarantee("G107")
def test_an_element_costs_one_message(loop: Loop) -> None:
    channel = filled(*range(100))
    consume(channel, idle_element, loop=loop)
    settle(loop)
    # One for each, and the one at which it found nothing.
    assert loop.statistics().handled == 101


@pytest.mark.guarantee("G107")
def test_an_element_that_comes_while_it_waits_costs_two(loop: Loop) -> None:
    """One that it is prodded by, and one at which it finds nothing more."""
    channel = Channel[int](UNBOUNDED)
    consume(channel, idle_element, loop=loop)
    settle(loop)
    before = loop.statistics().handled
    for number in range(10):
        channel.try_send(number)
        settle(loop)
    assert loop.statistics().handled == before + 20


@pytest.mark.guarantee("G108")
def test_a_stop_from_inside_ends_it_in_the_same_turn(loop: Loop) -> None:
    def process(number: int) -> None:
        _ = actor.stop()

    actor = consume(filled(1, 2), process, loop=loop)
    settle(loop)
    assert loop.statistics().handled == 1
    assert actor.outcome is not None


@pytest.mark.guarantee("G107")
def test_it_is_prodded_once_however_much_comes(loop: Loop) -> None:
    channel = Channel[int](UNBOUNDED)
    actor = consume(channel, idle_element, loop=loop)
    settle(loop)
    for number in range(10):
        channel.try_send(number)
    (node,) = loop.tree().roots
    assert node.waiting == 1
    settle(loop)
    assert actor.processed == 10


def test_a_second_prod_is_no_second_turn(loop: Loop) -> None:
    """From another thread it comes late, maybe when the actor has looked already."""
    feed = ActorReceive(Channel[int](), idle_element, loop, loop.spawn(lambda ctx, data: None))
    feed.schedule()
    feed.schedule()
    assert feed.is_scheduled
    assert loop.statistics().waiting == 1
    feed.detach()


def test_a_prod_for_nothing_leaves_it_in_line(loop: Loop) -> None:
    channel, got = Channel[int](UNBOUNDED), list[int]()
    work = Consumer(channel, got.append)
    feeds: list[ActorReceive] = []

    def init(ctx: Any) -> Any:
        fed = work.init(ctx)
        feeds.append(fed.receive)
        return fed

    from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor

    spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("x", run=work.run, init=init)]))
    settle(loop)
    feeds[0].schedule()
    settle(loop)
    assert channel.statistics().receivers == 1
    channel.try_send(1)
    settle(loop)
    assert got == [1]


@pytest.mark.slow
def test_a_feed_that_was_never_used_says_nothing(loop: Loop) -> None:
    """It is an operation of its channel, and those complain if nobody awaits them."""
    channel = Channel[int]()
    actor = consume(channel, idle_element, loop=loop)
    _ = actor.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del actor
        gc.collect()


@pytest.mark.slow
def test_an_element_is_not_kept(loop: Loop) -> None:
    class Element:
        pass

    element = Element()
    known = ref(element)
    consume(filled(element), idle_element, loop=loop)
    del element
    settle(loop)
    gc.collect()
    assert known() is None


@pytest.mark.slow
def test_an_ended_actor_is_not_kept_by_its_channel(loop: Loop) -> None:
    channel = Channel[int]()
    actor = consume(channel, idle_element, loop=loop)
    settle(loop)

    class Element:
        pass

    kept = Element()
    known = ref(kept)
    actor.on_done(lambda outcome, kept=kept: None)  # type: ignore[misc]  # its default
    _ = actor.stop()
    del actor, kept
    settle(loop)
    gc.collect()
    assert known() is None


def test_it_cannot_be_pickled_or_copied(loop: Loop) -> None:
    feed = ActorReceive(Channel[int](), idle_element, loop, loop.spawn(lambda ctx, data: None))
    with pytest.raises(TypeError):
        pickle.dumps(feed)
    with pytest.raises(TypeError):
        _ = copy.copy(feed)
    feed.detach()


# --- chores --------------------------------------------------------------------------------------------------------------


def test_a_chore_is_taken_for_a_coroutine() -> None:
    async def job() -> None:
        """Do nothing."""

    inner = job()
    chore = ItemCoroutine(None, inner)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # nobody asks it here
    assert is_coroutine(chore)
    assert isinstance(chore, Coroutine)
    chore.close()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        inner.send(None)


@pytest.mark.parametrize("verdict", [None, Verdict.OK, Verdict.STOP, Verdict.FAIL], ids=str)
def test_a_chore_can_be_awaited(verdict: Any, loop: Loop) -> None:
    """Compiled, whoever steps it goes this way; interpreted, through `send`."""
    feed = ActorReceive(Channel[int](), idle_element, loop, loop.spawn(lambda ctx, data: None))

    async def job() -> Any:
        await asyncio.sleep(0)
        return verdict

    async def main() -> Any:
        return await ItemCoroutine(feed, job())

    with asyncio.Runner() as runner:
        assert runner.run(main()) == (None if verdict is Verdict.OK else verdict)
    assert feed.is_scheduled is (verdict in {None, Verdict.OK})
    assert feed.has_returned_stop is (verdict is Verdict.STOP)
    assert list(iter(ItemCoroutine(feed, NeverYielding()))) == []  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a coroutine as far as that goes
    feed.detach()


class NeverYielding:
    def send(self, _value: object) -> Any:
        raise StopIteration


@pytest.mark.slow
def test_a_coroutine_that_never_began_is_closed_with_its_chore() -> None:
    """An actor that was cancelled in its own function, which gave a coroutine nevertheless: nobody performs it."""
    jobs: list[Any] = []

    async def job() -> None:
        raise AssertionError("it must not begin")

    async def main(loop: Loop) -> None:
        def process(number: int) -> Any:
            _ = actor.cancel()
            jobs.append(job())
            return jobs[-1]

        actor = consume(filled(1), process)
        assert (await actor.ended()).ended_by is EndedBy.CANCELLED

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ride(main)
        jobs.clear()
        gc.collect()


def test_what_a_coroutine_catches_and_returns_is_judged() -> None:
    """A cancellation that is not the actor's end: asyncio.timeout, or anybody who cancels the task."""

    async def main(loop: Loop) -> None:
        async def process(number: int) -> Verdict:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                task.uncancel()
            return Verdict.STOP

        channel = filled(1, 2)
        actor = consume(channel, process)
        assert (await actor.ended()).ended_by is EndedBy.RETURNED
        assert len(channel) == 1

    ride(main)


def test_a_coroutine_is_stepped_with_values_and_errors_as_it_would_be_by_a_task() -> None:
    class Awaited:
        def __init__(self, future: asyncio.Future[Any]) -> None:
            self.future = future

        def __await__(self) -> Generator[Any, Any, Any]:
            return (yield from self.future)

    async def main(loop: Loop) -> None:
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

        actor = consume(filled(1), process)
        await asyncio.sleep(0)
        good.set_result("good")
        await asyncio.sleep(0)
        bad.set_exception(Boom())
        assert (await actor.ended()).ended_by is EndedBy.RETURNED
        assert seen == ["good"]

    ride(main)


class BareYield:
    """What `asyncio.sleep(0)` does: a turn of the event loop, and no future."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def test_the_function_is_awaited_in_a_task_and_the_same_one_throughout() -> None:
    async def main(loop: Loop) -> None:
        tasks: list[Any] = []

        async def process(number: int) -> Verdict:
            for _ in range(3):
                tasks.append(asyncio.current_task())
                await asyncio.sleep(0)
            return Verdict.STOP

        await consume(filled(1), process).ended()
        assert tasks[0] is not None
        assert len(set(tasks)) == 1

    ride(main)


@pytest.mark.guarantee("G108")
def test_stray_messages_while_in_flight_change_nothing() -> None:
    async def main(loop: Loop) -> None:
        slow = Slow[int]()
        channel = filled(1, 2)
        actor = consume(channel, slow)
        await until(lambda: slow.begun == [1])
        loop.send(actor.id, "stray")
        await asyncio.sleep(0)
        assert slow.begun == [1]
        slow.gate.set()
        await until(lambda: slow.ended == [1, 2])
        await until(lambda: actor.strays == 1)

    ride(main)


@pytest.mark.slow
def test_a_coroutine_that_is_polled_by_hand_and_killed_before_it_begins_is_closed(loop: Loop) -> None:
    async def process(number: int) -> None:
        raise AssertionError("it must not begin")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actor = consume(filled(1), process, loop=loop)
        loop.poll_once()
        loop.kill_actor(actor.id)
        settle(loop)
        gc.collect()
    assert actor.outcome is not None
    assert actor.outcome.ended_by is EndedBy.KILLED


@pytest.mark.guarantee("G112")
@pytest.mark.parametrize("is_afar", [False, True], ids=["on its own thread", "from another thread"])
def test_an_element_is_not_lost_to_an_actor_whose_event_loop_was_closed_under_it(*, is_afar: bool) -> None:
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
        thread = Thread(target=forget)
        thread.start()
        thread.join()
    else:
        forget()
    assert channel.try_send(1)
    assert channel.try_send(2)
    assert [channel.try_receive(), channel.try_receive()] == [1, 2]
    for loop in loops:
        loop.destroy()
