"""Cancellation of an asker: it reaches the handler, and the actor continues."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Event
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, tell
from bandstand.core import ExitReason, Overflow
from bandstand.errors import TargetEndedError
from tests.actor.asking import Oracle, ended, got, outcome, turns, watch
from tests.core.support import Boom

pytestmark = pytest.mark.guarantee("G62")


def task_of(reply: Reply[Any]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(got(reply))


# --- before the handler starts ----------------------------------------------------------------------------------------


async def test_a_dispatched_handler_that_has_not_started_never_runs(system: ActorSystem) -> None:
    log: list[str] = []
    oracle = system.spawn(Oracle, log)
    reply = oracle.held(Event())
    # If the loop is polled by hand, a coroutine starts at the next turn of the event loop.
    system.poll_once()
    reply.cancel()
    await turns()
    assert log == []
    assert await oracle.plain(1) == 1
    assert ended(system.ask_statistics()) == {"answered": 1, "cancelled": 1}


# --- while the handler is suspended -----------------------------------------------------------------------------------


async def test_a_suspended_handler_is_cancelled_and_the_actor_continues(system: ActorSystem) -> None:
    log: list[str] = []
    oracle = system.spawn(Oracle, log)
    asker = task_of(oracle.held(Event(), 1))
    waiting = oracle.plain(2)
    await turns()
    asker.cancel()
    with pytest.raises(CancelledError):
        await asker
    assert await waiting == 2
    assert system.statistics().ended_panic == 0
    assert ended(system.ask_statistics()) == {"answered": 1, "cancelled": 1}
    assert log == ["begins 1", "cancelled 1", "plain 2"]


async def test_the_next_message_waits_for_the_cleanup_of_a_cancelled_handler(system: ActorSystem) -> None:
    log: list[str] = []

    class Tidy(Oracle):
        @ask
        async def work(self, first: Event, second: Event) -> None:
            try:
                await first.wait()
            finally:
                self.log.append("tidies up")
                await second.wait()
                self.log.append("is tidy")

    tidy, second = system.spawn(Tidy, log), Event()
    asker, following = task_of(tidy.work(Event(), second)), watch(tidy.plain(1))
    await turns()
    asker.cancel()
    await turns()
    # The next message waits for it; the asker does not.
    assert asker.cancelled()
    assert not following.done()
    second.set()
    assert await following == 1
    assert log == ["tidies up", "is tidy", "plain 1"]


class Rude(Oracle):
    """Turns its cancellation into another error."""

    @ask(raises=KeyError)
    async def turn_into(self, error: Exception) -> int:
        try:
            await Event().wait()
        except CancelledError:
            raise error from None
        return 0


async def test_an_error_in_place_of_the_cancellation_is_late_or_a_failure(system: ActorSystem) -> None:
    rude = system.spawn(Rude)
    asker = task_of(rude.turn_into(KeyError()))
    await turns()
    asker.cancel()
    await turns()
    assert ended(system.ask_statistics()) == {"cancelled": 1, "late": 1}
    assert await rude.plain(1) == 1
    asker, waiting = task_of(rude.turn_into(Boom())), rude.plain(1)
    await turns()
    asker.cancel()
    assert await rude.ended() is ExitReason.PANIC
    end = await outcome(waiting)
    assert isinstance(end, TargetEndedError)
    assert type(end.__cause__) is Boom


# --- through several actors -------------------------------------------------------------------------------------------


class Relay(Actor):
    """Asks the next relay; the last one asks an oracle."""

    def __init__(self, name: str, log: list[str], oracle: Oracle, following: Relay | None = None) -> None:
        self.name = name
        self.log = log
        self.oracle = oracle
        self.following = following

    @ask
    async def relay(self) -> int:
        try:
            if self.following is not None:
                return await self.following.relay()
            return await self.oracle.held(Event(), 1)
        except CancelledError:
            self.log.append(self.name)
            raise

    @ask
    async def relay_both(self) -> tuple[int, int]:
        return await asyncio.gather(self.oracle.held(Event(), 1), self.oracle.plain(2))

    @tell
    async def relay_for_nobody(self) -> None:
        await self.oracle.held(Event(), 1)


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_an_actor_that_exits_while_it_waits_cancels_its_ask(system: ActorSystem, way: str) -> None:
    log: list[str] = []
    oracle = system.spawn(Oracle, log)
    relay = system.spawn(Relay, "x", log, oracle)
    relay.relay_for_nobody()
    await turns()
    getattr(relay, way)()
    await turns()
    assert log == ["begins 1", "cancelled 1"]
    assert await oracle.plain(2) == 2


def test_a_cancelled_ask_stays_cancelled_when_its_message_is_dropped(loop: ActorSystem) -> None:
    """An overflow policy drops the oldest message, which is a cancelled ask."""
    oracle = loop.options(mailbox=1, overflow=Overflow.DROP_OLDEST).spawn(Oracle)
    first = oracle.plain(1)
    assert first.cancel()
    second = oracle.plain(2)
    with pytest.raises(asyncio.CancelledError):
        first.result()
    loop.run(until_idle=True)
    assert second.result() == 2
    assert loop.ask_statistics().cancelled == 1
    assert loop.ask_statistics().pending == 0


# --- asks of an actor that is stopping ----------------------------------------------------------------------------------
