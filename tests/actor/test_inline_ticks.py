"""Inline ticks: code that awaits a reply outside a tick runs the tick itself. They are bounded, never nest, and keep contexts apart."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Callable
from contextvars import ContextVar
from traceback import walk_stack

import pytest

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core.enums import MAX_INLINE_TICKS
from bandstand.errors import LoopClosedError
from bandstand.testing import VirtualClock
from tests.actor.asking import Oracle, RunSystem, outcome, run_system, turns, watch

pytestmark = pytest.mark.guarantee("G60")

who: ContextVar[str] = ContextVar("who", default="nobody")


def soon() -> Callable[[], bool]:
    """Return a function that says whether the event loop has had a turn since this call."""
    came: list[bool] = []
    asyncio.get_running_loop().call_soon(came.append, True)  # noqa: FBT003  # what is appended
    return lambda: bool(came)


# --- no turn of the event loop ----------------------------------------------------------------------------------------


async def test_an_immediate_answer_takes_no_turn_of_the_event_loop(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)
    await oracle.plain()
    await turns()
    has_turned = soon()
    for number in range(20):
        assert await oracle.plain(number) == number
        assert await oracle.quick(number) == number
        assert isinstance(await outcome(oracle.declared(KeyError())), KeyError)
    assert not has_turned()


async def test_an_ask_that_has_to_wait_yields_to_the_event_loop(system: ActorSystem) -> None:
    gate = Event()
    has_turned = soon()
    asyncio.get_running_loop().call_soon(gate.set)
    assert await system.spawn(Oracle).held(gate, 1) == 1
    assert has_turned()


# --- no starving ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["plain", "quick"])
async def test_asking_in_a_loop_does_not_starve_the_event_loop(system: ActorSystem, method: str) -> None:
    oracle = system.spawn(Oracle)
    for _ in range(3):
        has_turned, count = soon(), 0
        while not has_turned():
            await getattr(oracle, method)(count)
            count += 1
            assert count <= MAX_INLINE_TICKS + 1


def test_slow_handlers_yield_to_the_event_loop_after_the_tick_limit(clock: VirtualClock) -> None:
    class Lazy(Actor):
        @ask
        def work(self) -> None:
            clock.advance(0.001)

    async def story(loop: ActorSystem) -> None:
        lazy = loop.spawn(Lazy)
        has_turned, count = soon(), 0
        while not has_turned():
            await lazy.work()
            count += 1
        # Three milliseconds, plus the handler that was running.
        assert count <= 4

    run_system(story, clock=clock, max_tick=0.003)


def test_the_host_continues_what_an_inline_tick_leaves(clock: VirtualClock) -> None:
    fired: list[str] = []

    class Timed(Actor):
        @ask
        def start(self) -> None:
            self.after(0.01, self.fire)
            self.me.again(3)

        @tell
        def again(self, times: int) -> None:
            fired.append(f"again {times}")
            if times > 1:
                self.me.again(times - 1)

        def fire(self) -> None:
            fired.append("timer")

    async def story(loop: ActorSystem) -> None:
        timed = loop.spawn(Timed)
        await turns()
        await timed.start()
        # One message a visit, one visit a tick: the rest is left.
        assert fired == []
        await asyncio.sleep(0.02)
        assert fired == ["again 3", "again 2", "again 1", "timer"]

    run_system(story, clock=clock, max_msgs_per_actor=1, max_actors_per_tick=1)


# --- no nesting -------------------------------------------------------------------------------------------------------


def is_below(name: str) -> bool:
    """Return whether a function of this name is on the stack."""
    return any(frame.f_code.co_name == name for frame, _line in walk_stack(None))


async def test_inline_ticks_never_nest(system: ActorSystem) -> None:
    nested: list[bool] = []

    class Inner(Actor):
        @ask
        def look(self) -> None:
            nested.append(is_below("outer_handler"))

    class Outer(Actor):
        def __init__(self, inner: Inner) -> None:
            self.inner = inner

        @ask
        async def outer_handler(self, pauses: int) -> None:
            for _ in range(pauses):
                await asyncio.sleep(0)
            await self.inner.look()
            # Its tasks may run ticks, outside the tick of the handler.
            await asyncio.gather(*(self.inner.look() for _ in range(3)))

    outer = system.spawn(Outer, system.spawn(Inner))
    # Its first step is inside the inline tick; after a suspension, in a step of its own task.
    await outer.outer_handler(0)
    await outer.outer_handler(2)
    await asyncio.gather(outer.outer_handler(0), outer.outer_handler(1))
    assert nested == [False] * 16


# --- contexts ---------------------------------------------------------------------------------------------------------


class Looker(Actor):
    """Reads a context variable, and sets it."""

    @ask
    def see(self) -> str:
        seen = who.get()
        who.set("sync handler")
        return seen

    @ask
    async def see_async(self) -> str:
        seen = who.get()
        who.set("async handler")
        return seen

    @ask
    async def task(self) -> asyncio.Task[object] | None:
        return asyncio.current_task()


@pytest.mark.guarantee("G70")
def test_the_askers_context_does_not_leak_if_none_is_carried(run_everywhere: RunSystem) -> None:
    async def story(loop: ActorSystem) -> None:
        looker = loop.spawn(Looker)
        who.set("asker")
        # A plain handler sets the variable in the loop's own context, not in the asker's.
        assert await looker.see_async() == "nobody"
        assert await looker.see() == "nobody"
        assert who.get() == "asker"
        assert await asyncio.create_task(outcome(looker.see_async())) == "nobody"

    run_everywhere(story, carry_context=False)


async def test_a_handler_and_its_asker_run_in_different_tasks(system: ActorSystem) -> None:
    looker, mine = system.spawn(Looker), asyncio.current_task()
    theirs = await looker.task()
    assert theirs is not None
    assert theirs is not mine
    assert asyncio.current_task() is mine


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_a_stopping_loop_runs_no_inline_ticks(system: ActorSystem, log: list[str]) -> None:
    oracle = system.spawn(Oracle, log)
    reply = oracle.plain(1)
    system.request_stop()
    with pytest.raises(LoopClosedError):
        oracle.plain(2)  # type: ignore[unused-awaitable]  # it is the call that raises
    end = watch(reply)
    await turns()
    assert "has ended" in str(end.result())
    assert log == []


def test_a_system_exit_in_an_inline_tick_ends_the_loop(clock: VirtualClock) -> None:
    class Leaver(Actor):
        @ask
        def leave(self) -> None:
            raise SystemExit(3)

    async def story(loop: ActorSystem) -> None:
        await loop.spawn(Leaver).leave()

    with pytest.raises(SystemExit) as caught:
        run_system(story, clock=clock)
    assert caught.value.code == 3
