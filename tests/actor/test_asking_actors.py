"""Actors that ask: in handlers, in the background, and while the target is restarted."""

from __future__ import annotations

import asyncio
from asyncio import Event
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, child, tell
from bandstand.errors import NoSuchActorError, TargetEndedError
from bandstand.supervision import RestartPolicy, Supervisor, SupervisorSpec, spawn_supervisor
from tests.actor.asking import Oracle, got, is_pending, outcome, turns
from tests.core.support import Boom

pytestmark = pytest.mark.guarantee("G60")


# --- actors that ask --------------------------------------------------------------------------------------------------


class Asker(Actor):
    """Asks another actor, in all the ways a handler can."""

    def __init__(self, oracle: Oracle, log: list[Any] | None = None) -> None:
        self.oracle = oracle
        self.log: list[Any] = [] if log is None else log

    @ask
    async def relay(self, value: int) -> int:
        return await self.oracle.plain(value)

    @ask
    async def relay_held(self, gate: Event, value: int) -> int:
        return await self.oracle.held(gate, value)

    @ask
    async def both(self, gate: Event) -> tuple[int, int]:
        return await asyncio.gather(self.oracle.held(gate, 1), self.oracle.plain(2))

    @ask
    async def relay_broken(self) -> str:
        try:
            return str(await self.oracle.broken())
        except TargetEndedError as error:
            return error.reason

    @tell
    def fetch(self, reply: Reply[Any]) -> None:
        self.background(reply, then=self.log.append, failed=self.log.append)

    @tell
    def fetch_own(self, value: int) -> None:
        self.background(self.oracle.plain(value), then=self.log.append)

    @tell
    def fetch_broken(self) -> None:
        self.background(self.oracle.broken())

    @ask
    def ping(self) -> str:
        return "pong"


async def test_a_handler_asks_another_actor(system: ActorSystem) -> None:
    oracle, gate = system.spawn(Oracle), Event()
    asker = system.spawn(Asker, oracle)
    assert await asker.relay(1) == 1
    held = asker.relay_held(gate, 2)
    waiting = asker.ping()
    await turns()
    # One message at a time: an actor that waits for an answer handles nothing else.
    assert is_pending(held, waiting)
    gate.set()
    assert (await held, await waiting) == (2, "pong")
    assert list(await asker.both(gate)) == [1, 2]
    assert await asker.relay_broken() == "PANIC"


# --- kept mailboxes ---------------------------------------------------------------------------------------------------


def under_supervisor(
    loop: ActorSystem, log: list[str], *, keep_mailbox: bool = True
) -> tuple[Supervisor, Oracle]:
    mode = RestartPolicy.ON_FAILURE
    spec = SupervisorSpec(children=[child("oracle", keep_mailbox=keep_mailbox, restart=mode).of(Oracle, log)])
    root = spawn_supervisor(loop, spec)
    return root, root.handle(Oracle, "oracle")


@pytest.mark.parametrize("keep_mailbox", [False, True])
async def test_the_next_incarnation_answers_waiting_asks(system: ActorSystem, keep_mailbox: bool) -> None:
    _root, oracle = under_supervisor(system, [], keep_mailbox=keep_mailbox)
    replies = [oracle.broken(), oracle.plain(1), oracle.quick(2)]
    ends = [await outcome(reply) for reply in replies]
    # The current message is not kept.
    assert isinstance(ends[0], TargetEndedError)
    assert type(ends[0].__cause__) is Boom
    assert ends[1:] == [1, 2]
    assert await oracle.plain(3) == 3


async def test_kept_asks_end_if_there_is_no_next_incarnation(system: ActorSystem) -> None:
    root, oracle = under_supervisor(system, [])
    oracle.block(Event())
    waiting = oracle.plain(1)
    await turns()
    root.stop_child("oracle")
    assert type(await outcome(waiting)) is TargetEndedError
    with pytest.raises(NoSuchActorError):
        oracle.plain(2)  # type: ignore[unused-awaitable]  # the call raises


@pytest.mark.guarantee("G62")
async def test_a_cancellation_reaches_the_handler_of_the_next_incarnation(system: ActorSystem) -> None:
    log: list[str] = []
    _root, oracle = under_supervisor(system, log)
    oracle.broken()  # type: ignore[unused-awaitable]  # for its effect
    task = asyncio.ensure_future(got(oracle.held(Event(), 1)))
    await turns(20)
    assert log == ["begins 1"]
    task.cancel()
    await turns()
    assert log == ["begins 1", "cancelled 1"]
    assert await oracle.plain(2) == 2
