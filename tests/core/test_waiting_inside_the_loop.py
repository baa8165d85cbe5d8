"""Coroutines that wait for what ends inside the loop continue there, once, when their own wait is over."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, is_alive, tell
from bandstand.errors import TargetEndedError
from tests.actor.asking import Oracle, RunSystem, outcome, turns
from tests.core.waiting_actors import (
    CROWDED,
    LONG,
    Canceller,
    CoroutineActor,
    StopHookActor,
    all_done,
    spawn_busy,
    wait_for,
)


@pytest.mark.guarantee("G61")
@pytest.mark.parametrize("is_crowded", [True, False])
def test_a_handler_cancelled_at_the_end_of_a_wait(run_virtual: RunSystem, is_crowded: bool) -> None:
    log: list[Any] = []

    async def story(loop: ActorSystem) -> None:
        asks: list[Reply[Any]] = []
        quick, slow = loop.spawn(Canceller), loop.spawn(Oracle)

        async def work() -> None:
            answer = quick.plain(1)
            # Handled right after the question: then the first pause is over, and nobody has gone on yet.
            quick.give_up(asks)
            try:
                log.append(await answer)
                await asyncio.sleep(LONG)
            finally:
                log.append(await slow.slow(50, 2))

        player = loop.spawn(CoroutineActor, work)
        neighbours = spawn_busy(loop, 5, 10) if is_crowded else []
        asks.append(player.play())
        assert await all_done(neighbours)
        assert asks[0].done()
        assert log[-1] == 2
        assert is_alive(player)
        assert loop.statistics().ready == loop.statistics().in_flight == 0

    run_virtual(story, **(CROWDED if is_crowded else {}))


@pytest.mark.guarantee("G65")
def test_an_actor_that_stands_in_the_run_queue_is_not_put_there_twice(run_virtual: RunSystem) -> None:
    log: list[Any] = []

    async def story(loop: ActorSystem) -> None:
        oracle = loop.spawn(Oracle)

        async def farewell() -> None:
            log.append(await oracle.plain(1))

        player = loop.spawn(StopHookActor, farewell)
        neighbours = spawn_busy(loop, 4, 9)
        await asyncio.sleep(0)
        # The order of the run queue: the one who will answer, then the one who ends, and some behind it.
        first = oracle.plain(0)
        neighbours += spawn_busy(loop, 1, 9)
        player.nothing()
        neighbours += spawn_busy(loop, 5, 9)
        player.stop()
        assert await all_done(neighbours)
        assert await first == 0
        assert log == [1]
        assert not is_alive(player)
        assert loop.statistics().ready == 0

    run_virtual(story, **CROWDED)


ENDS: dict[str, Callable[[CoroutineActor], None]] = {
    "stop": lambda it: it.stop(),
    "kill": lambda it: it.kill(),
}


@pytest.mark.guarantee("G61")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_started", [True, False])
def test_a_waiting_actor_can_be_ended(run_virtual: RunSystem, end: str, is_started: bool) -> None:
    log: list[Any] = []

    async def story(loop: ActorSystem) -> None:
        oracle = loop.spawn(Oracle, log)
        player = loop.spawn(CoroutineActor, lambda: wait_for(oracle, log, Event()))

        class Ender(Actor):
            @tell
            def end(self) -> None:
                ENDS[end](player)

        ender = loop.spawn(Ender)
        reply = player.play()
        if is_started:
            await turns()
        # Otherwise in the tick in which it has begun to wait: its task has not made a step of its own.
        ender.end()
        assert isinstance(await outcome(reply), TargetEndedError)
        await turns()
        assert not is_alive(player)
        assert sorted(log) == ["begins 0", "cancelled 0", "gone"]
        assert await oracle.plain(1) == 1
        assert loop.statistics().in_flight == 0

    run_virtual(story)


def test_a_waiting_actor_continues_in_poll_once_of_a_task(
    run_virtual: RunSystem,
) -> None:
    log: list[Any] = []
    tasks: list[asyncio.Task[Any] | None] = []

    async def story(loop: ActorSystem) -> None:
        oracle = loop.spawn(Oracle, log)

        async def work() -> None:
            for n in range(2):
                log.append(await oracle.plain(n))
                tasks.append(asyncio.current_task())

        reply = loop.spawn(CoroutineActor, work).play()
        own = asyncio.current_task()
        loop.poll_once()
        await asyncio.sleep(0)
        # The player waits for its first answer, or has it; from here on only this task ticks.
        for _ in range(5):
            loop.poll_once()
            assert asyncio.current_task() is own
        assert reply.done()
        assert log == ["plain 0", 0, "plain 1", 1]
        assert len(set(tasks)) == 1
        assert own not in tasks

    run_virtual(story)


mood: ContextVar[str] = ContextVar("mood", default="none")


@pytest.mark.guarantee("G70")
def test_context_travels_from_a_handler_that_has_waited(run_virtual: RunSystem) -> None:
    seen: list[tuple[str, str]] = []

    class Witness(Actor):
        @tell
        def see(self, when: str) -> None:
            seen.append((when, mood.get()))

        @ask
        def answer(self) -> str:
            return mood.get()

    async def story(loop: ActorSystem) -> None:
        witness = loop.spawn(Witness)

        async def work() -> str:
            mood.set("mine")
            witness.see("before")
            await witness.answer()
            witness.see("after a pause")
            answer = await witness.answer()
            await asyncio.sleep(0)
            witness.see("after a turn of the host")
            return answer

        assert await loop.spawn(CoroutineActor, work).play() == "mine"
        await turns()
        assert seen == [(when, "mine") for when in ("before", "after a pause", "after a turn of the host")]
        assert await witness.answer() == "none"

    run_virtual(story)
