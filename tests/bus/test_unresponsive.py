"""A capability whose handler hangs while its requests time out: health tells, and the first answer makes it well again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.bus import Capability, Contract, Message, MessageEvent, Query
from bandstand.bus.syscall import HealthQuery
from bandstand.bus.worker import Listeners
from tests.bus.capabilities import Player, Told
from tests.bus.nearby import nearby
from tests.bus.virtual_node import ScriptedLine, Stage, Stages, staged

pytestmark = pytest.mark.guarantee("G301")


async def status(stage: Stage) -> tuple[str, str]:
    report = await stage.node.bus.ask(HealthQuery())
    return report.status, report.capabilities["Cast"].state


async def ask_often(stage: Stage, client: ScriptedLine | Stage, count: int, every_ms: int = 100) -> None:
    for _ in range(count):
        client.query("Cast.Echo")
        await stage.wait(every_ms)


class TestStuck:
    @staged(Player, timeout=1)
    async def test_one_that_is_at_a_request_that_has_timed_out_is_unresponsive(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 10_000})
        await stage.wait(900)
        assert await status(stage) == ("healthy", "running")
        await stage.wait(200)
        assert await status(stage) == ("degraded", "unresponsive")
        await ask_often(stage, stage, 50)
        assert await status(stage) == ("degraded", "unresponsive")

    @pytest.mark.guarantee("G358")
    @pytest.mark.parametrize("is_isolated", [False, True])
    async def test_health_tells_how_long_it_is_busy(self, stages: Stages, is_isolated: bool) -> None:
        async with stages(nearby(Player) if is_isolated else Player, timeout=1) as stage:
            assert (await stage.health("Cast")).busy_since_ms is None
            stage.command("Cast.Wait", {"ms": 3000})
            stage.query("Cast.Echo")
            await stage.wait(2000)
            health = await stage.health("Cast")
            assert (health.state, health.at) == ("unresponsive", "Cast.Wait")
            assert health.busy_since_ms is not None
            assert 1990 <= health.busy_since_ms <= 2010
            await stage.wait(1500)
            assert (await stage.health("Cast")).busy_since_ms is None

    @pytest.mark.guarantee("G358")
    async def test_of_several_handlers_the_oldest_counts(self, stages: Stages) -> None:
        class Several(Player):
            """Does several things."""

            id = "Cast"
            concurrency = 3

        async with stages(Several) as stage:
            stage.command("Cast.Wait", {"ms": 500})
            await stage.wait(100)
            stage.command("Cast.Wait", {"ms": 5000})
            await stage.wait(100)
            for expected, pause in ((200, 400), (500, 5000)):
                busy = (await stage.health("Cast")).busy_since_ms
                assert busy is not None
                assert expected - 10 <= busy <= expected + 10
                await stage.wait(pause)
            assert (await stage.health("Cast")).busy_since_ms is None

    @staged(Player, timeout=1)
    async def test_it_is_well_again_when_it_comes_to_an_end(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 3000})
        await stage.wait(2000)
        assert await status(stage) == ("degraded", "unresponsive")
        await stage.wait(1500)
        assert await status(stage) == ("healthy", "running")
        await stage.reply_to("query", "Cast.Echo")
        assert await status(stage) == ("healthy", "running")


async def reset(stage: Stage, client: ScriptedLine | Stage) -> str:
    name = client.command("Syscall.Reset", {"capability": "Cast"})
    await stage.settle()
    return name


class Slow(Player):
    """Hangs at events."""

    async def told(self, msg: Told) -> None:
        if msg.text == "hang":
            await asyncio.sleep(10)


class TestBehindAnEvent:
    @staged(Slow, timeout=1)
    async def test_three_requests_that_it_does_not_begin_with_tell(self, stage: Stage) -> None:
        stage.event("Cast.Told", {"text": "hang"})
        await ask_often(stage, stage, 2)
        await stage.wait(3000)
        assert await status(stage) == ("healthy", "running")
        await ask_often(stage, stage, 2)
        await stage.wait(1100)
        assert await status(stage) == ("degraded", "unresponsive")
        stage.reply(await reset(stage, stage))
        await stage.wait(2000)
        assert await status(stage) == ("healthy", "running")


class TestNoAlarm:
    @staged(Player, timeout=10)
    async def test_clients_with_little_patience_make_nobody_unresponsive(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 5000}, timeout=1)
        for _ in range(10):
            stage.query("Cast.Echo", timeout=1)
        await stage.wait(4000)
        assert await status(stage) == ("healthy", "running")

    @staged(Player, timeout=1)
    async def test_one_that_is_busy_and_goes_on_is_not(self, stage: Stage) -> None:
        for _ in range(40):
            stage.command("Cast.Wait", {"ms": 300})
        for _ in range(50):
            await stage.wait(200)
            assert (await status(stage))[1] == "running"


class Mute(Listeners):
    """A Worker that answers only what it is told to."""

    def post_message(self, message: Message, /) -> None:
        data: Any = message.data
        if data.text == "answer" and message.metadata is not None:
            said = Message(kind="reply", type="Cast.Echo", data=None)
            self.dispatch_event(MessageEvent(said, message.metadata.id))

    def terminate(self) -> None:
        pass


class Quiet(Query[None], type="Cast.Echo"):
    """Asks a Worker."""

    text: str = ""


class TestWorkers:
    @staged(Contract(id="Cast", description="Mute.", inbound=Quiet, spawn=Mute), timeout=1)
    async def test_a_silent_worker_is_unresponsive_until_it_answers(self, stage: Stage) -> None:
        for _ in range(20):
            stage.query("Cast.Echo")
            await stage.wait(100)
        assert await status(stage) == ("degraded", "unresponsive")
        stage.query("Cast.Echo", {"text": "answer"})
        await stage.settle()
        assert await status(stage) == ("healthy", "running")
        # When nothing is asked of it, it owes nothing.
        await stage.wait(5000)
        assert await status(stage) == ("healthy", "running")


class Hung(Capability):
    """Never comes to an end."""

    async def echo(self, msg: Quiet) -> None:
        await asyncio.Event().wait()


class TestTicks:
    @staged(Hung, timeout=1, health_period=0.5)
    async def test_they_name_it(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["Sys.HealthTick"]})
        stage.query("Cast.Echo")
        await stage.wait(2600)
        named = [tick["unhealthy"] for tick in stage.events("Sys.HealthTick")]
        assert named[0] == []
        assert named[-1] == ["Hung"]
