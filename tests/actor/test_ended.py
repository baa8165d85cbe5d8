"""Kills, waits for an exit, and both from other threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from bandstand.actor import Actor, ActorSystem, is_alive, tell
from bandstand.core import ExitReason
from bandstand.errors import LoopBusyError
from tests.actor.players import ENDS, Book, Lively, Noter, Slow, elsewhere, spin, turns
from tests.core.support import RecordingObserver

LoopMaker = Callable[..., ActorSystem]


# --- kill and ended -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G65")
def test_a_kill_during_an_async_start(loop: ActorSystem, diary: RecordingObserver, book: Book) -> None:
    handle = loop.spawn(Slow, book)
    loop.poll_once()
    assert book == ["starting"]
    handle.kill()
    assert [why for _, why in diary.stopped] == [ExitReason.FAIL]
    spin(loop)
    assert book == ["starting"]


async def test_ended_returns_the_reason_to_all_waiters_also_later(loop: ActorSystem) -> None:
    for deed, reason in ENDS.values():
        handle = loop.spawn(Lively, [])
        waits = [asyncio.ensure_future(_wait(handle)) for _ in range(3)]
        await turns()
        assert not any(wait.done() for wait in waits)
        deed(loop, handle)
        assert [(await wait).name for wait in waits] == [reason] * 3
        assert (await handle.ended()).name == reason


async def _wait(handle: Noter) -> ExitReason:
    return await handle.ended()


async def test_a_cancelled_wait_for_an_exit_does_not_affect_others(loop: ActorSystem) -> None:
    handle = loop.spawn(Noter, [])
    one, two = asyncio.ensure_future(_wait(handle)), asyncio.ensure_future(_wait(handle))
    await turns()
    one.cancel()
    await turns()
    assert one.cancelled()
    assert is_alive(handle)
    handle.stop()
    assert await two is ExitReason.NORMAL


async def test_ended_from_another_thread(loop: ActorSystem) -> None:
    handle = loop.spawn(Noter, [])
    future, gone = [await asyncio.to_thread(handle.ended.future) for _ in range(2)]
    await turns()
    assert not future.done()
    assert gone.cancel()
    handle.stop()
    await turns()
    assert await asyncio.to_thread(handle.ended.blocking) is ExitReason.NORMAL
    assert future.result(1) is ExitReason.NORMAL
    with pytest.raises(LoopBusyError):
        handle.ended.blocking()


@pytest.mark.guarantee("G59")
def test_stop_and_kill_after_the_loop_has_ended(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    handle = loop.spawn(Noter, [])
    loop.destroy()
    deeds: list[Callable[[], None]] = [handle.stop, lambda: handle.stop(drain=True), handle.kill]
    for deed in deeds:
        deed()
        elsewhere(deed)
    assert elsewhere(lambda: handle.ended.future().result(1)) is ExitReason.NORMAL
    assert [entry for entry in caplog.records if entry.levelno >= logging.ERROR] == []


class Sleeper(Actor):
    @tell
    def end_in(self, ms: float) -> None:
        self.after(ms / 1000, self.stop)


class Watcher(Actor):
    def __init__(self, sleeper: Sleeper, seen: list[ExitReason]) -> None:
        self.sleeper, self.seen = sleeper, seen

    @tell
    async def watch(self) -> None:
        self.seen.append(await self.sleeper.ended())


@pytest.mark.guarantee("G40")
def test_a_suspended_actor_does_not_stop_virtual_time(loop: ActorSystem) -> None:
    """It does not wait for the host, so time may jump to what it waits for."""
    seen: list[ExitReason] = []
    sleeper = loop.spawn(Sleeper)
    loop.spawn(Watcher, sleeper, seen).watch()
    sleeper.end_in(1000)
    loop.run(until_idle=True)
    assert seen == [ExitReason.NORMAL]
