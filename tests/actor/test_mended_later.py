"""Mistakes that were made once: each of these went wrong, and would again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, ask, child, data, supervised
from bandstand.core import ChildExit, ExitReason
from bandstand.errors import AskTimeout, BandstandError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock


class Clockwork(Actor):
    def __init__(self, period: float, ticks: list[float], clock: VirtualClock) -> None:
        self.period, self.ticks, self.clock = period, ticks, clock

    def on_start(self) -> None:
        self.every(self.period, self.tick)

    def tick(self) -> None:
        self.ticks.append(self.clock.now_ns() / 1e6)
        if len(self.ticks) == 100:
            self.stop()


@pytest.mark.guarantee("G68")
@pytest.mark.parametrize("period", [1000 / 60, 1000 / 30, 1.1, 3.3])
def test_a_period_that_is_no_whole_number_never_ticks_twice_at_one_moment(
    loop: Loop, clock: VirtualClock, period: float
) -> None:
    """A multiple that was rounded came out as now, over and over."""
    ticks: list[float] = []
    loop.spawn(Clockwork, period, ticks, clock)
    loop.run(until_idle=True)
    assert len(ticks) == len(set(ticks)) == 100
    assert ticks[-1] - ticks[0] == pytest.approx(99 * period, abs=2)


class Sleeper(Actor):
    @ask
    async def never(self) -> None:
        await asyncio.Event().wait()

    @data
    def end_in(self, ms: float) -> None:
        self.after(ms, self.stop)


class Token:
    """Something that an asker holds."""


@pytest.mark.slow
@pytest.mark.guarantee("G61")
def test_a_timed_out_ask_that_still_waits_keeps_no_asker_alive(loop: Loop, clock: VirtualClock) -> None:
    """The error's traceback held the asker's frames for as long as its message waited in the mailbox."""
    held: list[weakref.ref[Token]] = []

    async def asker(sleeper: Sleeper) -> None:
        token = Token()
        held.append(weakref.ref(token))
        with pytest.raises(AskTimeout):
            await sleeper.never.within(10)()

    async def main() -> None:
        async with loop:
            sleeper = loop.spawn(Sleeper)
            for _ in range(3):
                await asker(sleeper)
            gc.collect()
            assert [token() for token in held] == [None] * 3
            assert loop.statistics().waiting == 2

    clock.run(main())


class Watcher(Actor):
    def __init__(self, sleeper: Sleeper, seen: list[ExitReason]) -> None:
        self.sleeper, self.seen = sleeper, seen

    @data
    async def watch(self) -> None:
        self.seen.append(await self.sleeper.ended())


@pytest.mark.guarantee("G40")
def test_an_actor_that_merely_pauses_does_not_stop_virtual_time(loop: Loop) -> None:
    """It waits for nothing of the host, so time may jump to what it waits for."""
    seen: list[ExitReason] = []
    sleeper = loop.spawn(Sleeper)
    loop.spawn(Watcher, sleeper, seen).watch()
    sleeper.end_in(1000)
    loop.run(until_idle=True)
    assert seen == [ExitReason.NORMAL]


class Parent(Actor):
    heard: list[Any]

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def on_signal(self, signal: object, /) -> None:
        self.heard.append(signal)

    @data
    def fail(self) -> None:
        raise ValueError

    @data
    def work_too_late(self) -> None:
        self.stop()
        with pytest.raises(BandstandError):
            self.background(asyncio.sleep(0))


@pytest.mark.guarantee("G67")
def test_options_that_name_a_supervised_actor_mean_its_present_incarnation(loop: Loop) -> None:
    heard: list[Any] = []
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("parent").of(Parent, heard)]))
    parent = supervised(root, Parent, "parent")
    options = loop.options(supervisor=parent)
    parent.fail()
    loop.run(until_idle=True)
    options.spawn(Sleeper).stop()
    loop.run(until_idle=True)
    assert [type(signal) for signal in heard] == [ChildExit]


@pytest.mark.slow
def test_work_that_is_refused_leaves_no_coroutine_behind(loop: Loop) -> None:
    """A warning about it would be an error here."""
    loop.spawn(Parent, []).work_too_late()
    loop.run(until_idle=True)
    gc.collect()
