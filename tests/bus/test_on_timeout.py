"""`on_timeout` of a capability: what happens to a handler whose request has timed out or was withdrawn."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import ClassVar

import pytest

from bandstand.bus import Capability, Command, Contract, Node, Provision, Query, UnixAdapter, provide
from bandstand.bus.syscall import HealthQuery
from bandstand.bus.worker import BufferedWorker
from bandstand.errors import BandstandError
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Stage, hushed, play, staged
from tests.core.support import Boom

pytestmark = pytest.mark.guarantee("G357")


class Work(Query[str], type="Tool.Work"):
    """Work for some time."""

    text: str = ""
    ms: int = 1000
    at_cancel: str = ""


class Tool(Capability):
    """Works."""

    ended: ClassVar[list[str]] = []

    async def work(self, msg: Work) -> str:
        try:
            await asyncio.sleep(msg.ms / 1000)
        except asyncio.CancelledError:
            self.ended.append(f"cancelled {msg.text}")
            if msg.at_cancel == "raise":
                raise Boom("by wish") from None
            if msg.at_cancel == "return":
                return "anyway"
            raise
        self.ended.append(f"done {msg.text}")
        return msg.text


class Cancelling(Tool):
    """Works, until the deadline."""

    id = "Tool"
    on_timeout = "cancel"


class Think(Query[str], type="Agent.Think"):
    """Think with a tool."""


class Agent(Capability):
    """Uses a tool."""

    outbound = Work
    on_timeout = "cancel"

    async def think(self, msg: Think) -> str:
        return await self.bus.ask(Work("deep", ms=60_000))


class Do(Command[str], type="Doer.Do"):
    """Do something."""


class Doer(Capability):
    """Does something."""

    on_timeout = "cancel"

    async def do(self, msg: Do) -> str:
        await asyncio.sleep(0.5)
        return "done"


class Killing(Tool):
    """Works, until the deadline."""

    id = "Tool"
    on_timeout = "kill"


class SeveralCancelling(Cancelling):
    """Works on several things."""

    concurrency = 2


@pytest.fixture(autouse=True)
def fresh() -> None:
    Tool.ended.clear()


def both_places(*kinds: type[Capability]) -> pytest.MarkDecorator:
    """Run a test with each of these capabilities on the node, and in another place."""
    return pytest.mark.parametrize("source", [place(kind) for kind in kinds for place in (provide, nearby)])


@both_places(Tool)
@staged("source")
async def test_by_default_the_handler_runs_on(stage: Stage, source: Provision) -> None:
    assert Capability.on_timeout == "report"
    asked = stage.query("Tool.Work", {"text": "a"}, timeout=100)
    await stage.wait(2000)
    stage.fault(asked, "Sys.Timeout")
    assert Tool.ended == ["done a"]
    assert (await stage.stats()).late == 1


class TestCancel:
    @both_places(Cancelling)
    @staged("source")
    async def test_a_deadline_cancels_the_handler(self, stage: Stage, source: Provision) -> None:
        first = stage.query("Tool.Work", {"text": "a", "ms": 60_000}, timeout=100)
        second = stage.query("Tool.Work", {"text": "b", "ms": 10})
        await stage.wait(200)
        stage.fault(first, "Sys.Timeout")
        assert stage.reply(second) == "b"
        assert Tool.ended == ["cancelled a", "done b"]
        health = await stage.health("Tool")
        assert (health.state, health.crashes) == ("running", 0)

    @staged(SeveralCancelling)
    async def test_other_handlers_run_on(self, stage: Stage) -> None:
        stage.query("Tool.Work", {"text": "a", "ms": 60_000}, timeout=100)
        other = stage.query("Tool.Work", {"text": "b", "ms": 300})
        await stage.wait(400)
        assert stage.reply(other) == "b"
        assert Tool.ended == ["cancelled a", "done b"]

    @both_places(Cancelling)
    @staged("source", hush=True)
    async def test_another_exception_is_a_failure(self, stage: Stage, source: Provision) -> None:
        asked = stage.query("Tool.Work", {"ms": 60_000, "at_cancel": "raise"}, timeout=100)
        await stage.wait(3000)
        stage.fault(asked, "Sys.Timeout")
        health = await stage.health("Tool")
        assert (health.crashes, health.restarts) == (1, 1)

    @both_places(Cancelling)
    @staged("source")
    async def test_a_cancelled_ask_cancels_the_handler(self, stage: Stage, source: Provision) -> None:
        asking = asyncio.ensure_future(stage.node.bus.ask(Work("a", ms=60_000)))
        await stage.settle()
        await stage.wait(10)
        asking.cancel()
        await stage.wait(10)
        assert Tool.ended == ["cancelled a"]
        assert (await stage.stats()).withdrawn == 1
        assert (await stage.health("Tool")).crashes == 0

    @both_places(Cancelling)
    @staged("source")
    async def test_a_waiting_request_cancels_nothing(self, stage: Stage, source: Provision) -> None:
        first = stage.query("Tool.Work", {"text": "a", "ms": 500})
        stage.query("Tool.Work", {"text": "b"}, timeout=100)
        await stage.wait(600)
        assert stage.reply(first) == "a"
        assert Tool.ended == ["done a"]


@pytest.mark.guarantee("G392")
class TestDisconnect:
    @both_places(Cancelling, SeveralCancelling)
    @staged("source")
    async def test_a_disconnect_cancels_handlers(self, stage: Stage, source: Provision) -> None:
        gone, other = stage.connect(), stage.connect()
        for text in ("a", "b", "c"):
            gone.query("Tool.Work", {"text": text, "ms": 60_000})
        await stage.wait(10)
        kept = other.query("Tool.Work", {"text": "d", "ms": 10})
        gone.close()
        await stage.wait(100)
        # What has not begun never does.
        assert Tool.ended == [*(f"cancelled {each}" for each in "abc"[: source.kind.concurrency]), "done d"]
        assert other.reply(kept) == "d"
        stats = await stage.stats()
        assert (stats.withdrawn, stats.abandoned) == (3, 0)
        assert (await stage.health("Tool")).crashes == 0

    @pytest.mark.parametrize("kind", [Tool, Killing])
    @staged("kind")
    async def test_by_default_handlers_run_on(self, stage: Stage, kind: type[Capability]) -> None:
        client = stage.connect()
        client.query("Tool.Work", {"text": "a", "ms": 500})
        await stage.wait(10)
        client.close()
        await stage.wait(1000)
        assert Tool.ended == ["done a"]
        stats = await stage.stats()
        assert (stats.withdrawn, stats.abandoned) == (0, 1)

    @staged(Doer)
    async def test_a_request_that_another_client_has_joined_runs_on(self, stage: Stage) -> None:
        gone, other = stage.connect(), stage.connect()
        gone.command("Doer.Do", name="same")
        await stage.wait(10)
        other.command("Doer.Do", name="same")
        await stage.wait(10)
        gone.close()
        await stage.wait(1000)
        assert other.reply("same") == "done"
        stats = await stage.stats()
        assert (stats.joined, stats.withdrawn) == (1, 0)

    @pytest.mark.real_time(reason="what the operating system says of a client that is gone is the subject")
    def test_a_unix_client_that_closes_is_noticed_at_once(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with Node([Cancelling], adapters=[UnixAdapter(tmp_path / "s")]) as node:
                _, writer = await asyncio.open_unix_connection(tmp_path / "s")
                line = {"kind": "query", "type": "Tool.Work", "data": {"text": "a", "ms": 60_000}}
                writer.write(json.dumps({**line, "metadata": {"id": "1", "timestamp": 0}}).encode() + b"\n")
                while (await node.bus.ask(HealthQuery())).capabilities["Tool"].at is None:  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0)
                writer.close()
                while not Tool.ended:  # noqa: ASYNC110  # likewise
                    await asyncio.sleep(0)

        asyncio.run(asyncio.wait_for(main(), 10))
        assert Tool.ended == ["cancelled a"]

    @both_places(Agent)
    @staged("source", Cancelling)
    async def test_a_cancellation_reaches_inner_asks(self, stage: Stage, source: Provision) -> None:
        client = stage.connect()
        client.query("Agent.Think")
        await stage.wait(10)
        client.close()
        await stage.wait(10)
        assert Tool.ended == ["cancelled deep"]
        assert (await stage.stats()).withdrawn == 2


class TestKill:
    @both_places(Killing)
    @staged("source", hush=True)
    async def test_a_deadline_kills_the_incarnation(self, stage: Stage, source: Provision) -> None:
        first = stage.query("Tool.Work", {"text": "a", "ms": 60_000}, timeout=100)
        second = stage.query("Tool.Work", {"text": "b", "ms": 10})
        await stage.wait(150)
        stage.fault(first, "Sys.Timeout")
        await stage.wait(3000)
        assert stage.reply(second) == "b"
        health = await stage.health("Tool")
        assert (health.crashes, health.restarts) == (1, 1)
        assert health.last_fault is not None
        assert "Tool.Work was not answered in time" in health.last_fault


def test_a_worker_cannot_be_cancelled() -> None:
    contract = Contract(
        id="Tool",
        description="Works.",
        inbound=Work,
        spawn=lambda: BufferedWorker(lambda _message: None),
        on_timeout="cancel",
    )

    async def act(stage: Stage) -> None:
        pytest.fail("it has started")

    with (
        hushed(),
        pytest.raises(BandstandError, match=r"cannot cancel what a worker does: pass 'report' or 'kill'"),
    ):
        play(act, contract)
