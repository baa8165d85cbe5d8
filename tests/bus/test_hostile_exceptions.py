"""A capability that raises an exception which cannot be shown: one request is answered with an error, and it is started again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.bus import Capability, Command, Event, Node, NodeConfig, Query, RestartLimits
from bandstand.errors import RequestFailedError
from bandstand.isolation import isolated
from tests.bus.virtual_node import Stage, staged
from tests.hostile import HOW, hostile

pytestmark = pytest.mark.guarantee("G282")

every_kind = pytest.mark.parametrize("how", HOW)

BRIEF = 2_000


class Do(Command[None], type="Hostile.Do"):
    """Raise it."""

    how: str


class Wait(Command[None], type="Hostile.Wait"):
    """Raise it later."""

    how: str


class Heard(Event, type="Hostile.Heard"):
    """Raise it, and nobody waits."""

    how: str


class Ping(Query[str], type="Hostile.Ping"):
    """Whether it is there."""


class Raiser(Capability):
    """Raises what it is told to."""

    id = "Hostile"
    restarts = RestartLimits(max_restarts=1000, period=60, backoff=None)

    def do(self, msg: Do) -> None:
        raise hostile(msg.how)

    async def wait(self, msg: Wait) -> None:
        await asyncio.sleep(0)
        raise hostile(msg.how)

    def heard(self, msg: Heard) -> None:
        raise hostile(msg.how)

    def ping(self, msg: Ping) -> str:
        return "pong"


@every_kind
@staged(Raiser)
async def test_one_request_fails_and_it_is_started_again(stage: Stage, how: str) -> None:
    for number, what in enumerate(("Hostile.Do", "Hostile.Wait"), 1):
        failing = stage.command(what, {"how": how})
        await stage.wait(5)
        fault = stage.fault(failing, "Sys.ActorCrash")
        assert len(fault.message) < BRIEF
        ping = stage.query("Hostile.Ping")
        await stage.wait(5)
        assert stage.reply(ping) == "pong"
        health = await stage.health("Hostile")
        assert (health.state, health.crashes, health.restarts) == ("running", number, number)
        assert 0 < len(str(health.last_fault)) < BRIEF


@every_kind
@staged(Raiser)
async def test_an_event_that_nobody_waits_for(stage: Stage, how: str) -> None:
    stage.event("Hostile.Heard", {"how": how})
    await stage.wait(5)
    ping = stage.query("Hostile.Ping")
    await stage.wait(5)
    assert stage.reply(ping) == "pong"
    assert (await stage.health("Hostile")).crashes == 1


@pytest.mark.parametrize("how", ["mute", "rootless"])
@pytest.mark.slow
@pytest.mark.real_time(reason="a real process starts, and crashes")
@pytest.mark.usefixtures("lane_loop")
async def test_in_a_process_of_its_own(how: str) -> None:
    node = Node([isolated(Raiser)], config=NodeConfig(health_period=0))
    async with node:
        bus: Any = node.bus
        for request in (Do(how), Wait(how)):
            with pytest.raises(RequestFailedError) as caught:
                await bus.ask(request)
            assert caught.value.type == "Sys.ActorCrash"
            assert len(str(caught.value)) < BRIEF
            assert await bus.ask(Ping()) == "pong"
