"""A reply as the coroutine of a task: `create_task(handle.value())`, and the other functions of asyncio that take a coroutine."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Event
from collections.abc import Iterator

import pytest

from bandstand.actor import Actor, ActorSystem, ask, ping
from bandstand.core import ExitReason
from bandstand.errors import AskCycleError, LoopBusyError, TargetEndedError
from tests.actor.asking import Oracle, ended, turns
from tests.actor.thread_loop import ThreadLoop, thread_loop
from tests.core.support import HostFactory

pytestmark = pytest.mark.guarantee("G340")


@pytest.fixture
def owner(loop_factory: HostFactory) -> Iterator[ThreadLoop]:
    with thread_loop(loop_factory) as owner:
        yield owner


async def test_every_function_that_takes_a_coroutine_takes_a_reply(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(oracle.plain(number)) for number in range(3)]
        tasks.append(group.create_task(oracle.slow(0, 3), name="slow"))
    assert [task.result() for task in tasks] == [0, 1, 2, 3]
    assert await asyncio.create_task(oracle.quick(4)) == 4
    assert await asyncio.get_running_loop().create_task(oracle.plain(5)) == 5
    assert await asyncio.ensure_future(oracle.plain(6)) == 6
    assert list(await asyncio.gather(oracle.plain(7), oracle.slow(0, 8))) == [7, 8]
    assert await asyncio.wait_for(oracle.plain(9), 60) == 9
    assert await asyncio.shield(oracle.plain(10)) == 10
    await asyncio.create_task(ping(oracle))
    assert ended(system.ask_statistics()) == {"answered": 12}


@pytest.mark.parametrize("has_begun", [True, False])
async def test_cancelling_the_only_task_cancels_the_ask(system: ActorSystem, has_begun: bool) -> None:
    log: list[str] = []
    oracle = system.spawn(Oracle, log)
    reply = oracle.held(Event(), 3)
    task = asyncio.create_task(reply)
    if has_begun:
        await turns()
    task.cancel()
    with pytest.raises(CancelledError):
        await task
    assert reply.done()
    assert await oracle.plain(1) == 1
    assert ended(system.ask_statistics()) == {"answered": 1, "cancelled": 1}
    assert log == ["begins 3", "cancelled 3", "plain 1"]


async def test_a_task_cancelled_before_it_begins_leaves_the_ask_to_others(system: ActorSystem) -> None:
    oracle, gate = system.spawn(Oracle), Event()
    reply = oracle.held(gate, 3)
    first = asyncio.create_task(reply)
    await turns()
    second = asyncio.create_task(reply)
    second.cancel()
    with pytest.raises(CancelledError):
        await second
    gate.set()
    assert await first == 3


async def test_errors_end_the_task(system: ActorSystem) -> None:
    oracle, doomed = system.spawn(Oracle), system.spawn(Oracle)
    error = KeyError("declared")
    assert list(await asyncio.gather(oracle.declared(error), return_exceptions=True)) == [error]

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(oracle.held(Event()))
            group.create_task(doomed.broken_later())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(each) for each in caught.value.exceptions] == [TargetEndedError]
    assert ended(system.ask_statistics()) == {"failed": 2, "cancelled": 1}


async def test_an_actor_that_waits_in_a_task_is_in_the_wait_graph(system: ActorSystem) -> None:
    class Caller(Actor):
        @ask(raises=AskCycleError)
        async def call_self(self) -> int:
            return await asyncio.create_task(self.me.call_self())

    with pytest.raises(AskCycleError):
        await system.spawn(Caller).call_self()


async def test_a_wait_for_room_and_a_wait_for_an_exit_can_be_tasks(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)
    async with asyncio.TaskGroup() as group:
        group.create_task(oracle.note.when_room("x"))
        end = group.create_task(oracle.ended())
        oracle.stop()
    assert end.result() is ExitReason.NORMAL


async def test_a_reply_can_be_closed_and_stepped_by_hand(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)
    unused = oracle.held(Event())
    unused.close()
    assert unused.done()
    reply = oracle.plain(2)
    with pytest.raises(StopIteration) as stop:
        reply.send(None)
    assert stop.value.value == 2
    waiting = oracle.held(Event())
    assert asyncio.isfuture(waiting.send(None))
    waiting.close()
    thrown = oracle.held(Event())
    thrown.send(None)
    with pytest.raises(KeyError, match="stop"):
        thrown.throw(KeyError, "stop")
    with pytest.raises(ValueError, match="again"):
        oracle.plain(3).throw(ValueError("again"))
    assert ended(system.ask_statistics()) == {"answered": 1, "cancelled": 4}


# --- from another thread ----------------------------------------------------------------------------------------------


def test_a_reply_of_another_threads_actor_can_be_a_task(owner: ThreadLoop) -> None:
    async def main() -> None:
        oracle = owner.do(lambda: owner.loop.spawn(Oracle))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(oracle.plain(number)) for number in range(3)]
            end = group.create_task(oracle.ended())
            await asyncio.wait(tasks)
            oracle.stop()
        assert [task.result() for task in tasks] == [0, 1, 2]
        assert end.result() is ExitReason.NORMAL

    asyncio.run(main())


@pytest.mark.parametrize("has_begun", [True, False])
def test_cancelling_a_task_cancels_an_ask_of_another_thread(owner: ThreadLoop, has_begun: bool) -> None:
    async def main() -> None:
        oracle = owner.do(lambda: owner.loop.spawn(Oracle))
        reply = oracle.held(Event())
        task = asyncio.create_task(reply)
        if has_begun:
            await turns()
        task.cancel()
        with pytest.raises(CancelledError):
            await task
        assert reply.done()
        unused = oracle.held(Event())
        unused.close()
        assert unused.done()
        assert await oracle.plain(1) == 1

    asyncio.run(main())


def test_a_wait_for_an_exit_in_another_thread_has_the_methods_of_a_reply(owner: ThreadLoop) -> None:
    async def main() -> None:
        oracle = owner.do(lambda: owner.loop.spawn(Oracle))
        end = oracle.ended()
        with pytest.raises(TypeError, match="await it"):
            bool(end)
        with pytest.raises(LoopBusyError, match="has not exited yet"):
            end.result()
        abandoned = oracle.ended()
        abandoned.close()
        assert abandoned.cancel()
        oracle.stop()
        assert await end is ExitReason.NORMAL
        assert end.done()
        assert end.result() is ExitReason.NORMAL

    asyncio.run(main())
