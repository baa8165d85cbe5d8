"""Mistakes that were made once: each of these went wrong, and would again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, ask, child, data, supervised
from bandstand.core import ChildExit, ExitReason
from bandstand.errors import AskTimeout
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock


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
