"""`concurrency` of a capability: several of its coroutines run at a time, and everything else holds as for one."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from bandstand.bus import Capability, Contract, Event, Message, Query
from bandstand.bus.worker import BufferedWorker
from bandstand.errors import BandstandError, RefusedError
from bandstand.testing import VirtualClock
from tests.bus import virtual_node
from tests.bus.capabilities import watch
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Act, Source, Stage, hushed, play, staged
from tests.core.support import Boom

pytestmark = [pytest.mark.guarantee("G356"), pytest.mark.guarantee("G393")]


@pytest.fixture(params=["on the node", "isolated"], autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test with its capabilities on the node, and with all of them in processes of their own."""

    def play_isolated(act: Act, *capabilities: Source, **fields: Any) -> None:
        clock = VirtualClock()
        play_on_node(act, *(nearby(each, clock) for each in capabilities), clock=clock, **fields)

    where: str = request.param
    play_on_node = virtual_node.play
    if where == "isolated":
        monkeypatch.setattr(virtual_node, "play", play_isolated)
        monkeypatch.setitem(globals(), "play", play_isolated)
    return where


class Search(Query[str], type="Web.Search"):
    """Search for some time, and then do something."""

    text: str = ""
    ms: int = 1000
    then: str = ""


class Look(Query[str], type="Web.Look"):
    """Answer at once."""


class Found(Event, type="Web.Found"):
    """A search has ended."""

    text: str = ""


class Page(Event, type="Web.Page"):
    """An event whose handler takes time."""

    ms: int = 1000


class Web(Capability):
    """Searches."""

    outbound = Found
    concurrency = 3
    running = 0
    most = 0
    stopped: ClassVar[list[str]] = []

    async def search(self, msg: Search) -> str:
        kind = type(self)
        kind.running += 1
        kind.most = max(kind.most, kind.running)
        try:
            await asyncio.sleep(msg.ms / 1000)
        except asyncio.CancelledError:
            self.stopped.append(msg.text)
            raise
        finally:
            kind.running -= 1
        if msg.then == "raise":
            raise Boom("by wish")
        if msg.then == "refuse":
            raise RefusedError("not today")
        if msg.then == "cancel":
            raise asyncio.CancelledError
        if msg.then == "exit":
            raise SystemExit(3)
        self.bus.emit(Found(msg.text))
        return msg.text

    def look(self, msg: Look) -> str:
        return "looked"

    async def on_page(self, msg: Page) -> None:
        await asyncio.sleep(msg.ms / 1000)

    async def on_stop(self) -> None:
        self.stopped.append("on_stop")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Web.running = Web.most = 0
    Web.stopped = []


class TestSeveralAtATime:
    @staged(Web)
    async def test_no_more_than_that_run_and_the_rest_follow_in_order(self, stage: Stage) -> None:
        asked = [stage.query("Web.Search", {"text": str(number), "ms": 100}) for number in range(7)]
        await stage.wait(110)
        assert [stage.is_answered(name) for name in asked] == [True] * 3 + [False] * 4
        await stage.wait(100)
        assert [stage.is_answered(name) for name in asked] == [True] * 6 + [False]
        await stage.wait(100)
        assert [stage.reply(name) for name in asked] == [str(number) for number in range(7)]
        assert Web.most == 3

    @staged(Web)
    async def test_a_plain_handler_waits_for_a_place_too(self, stage: Stage) -> None:
        for _ in range(3):
            stage.query("Web.Search", {"ms": 100})
        look = stage.query("Web.Look")
        await stage.wait(50)
        assert not stage.is_answered(look)
        await stage.wait(60)
        assert stage.reply(look) == "looked"

    @staged(Web)
    async def test_handlers_of_events_count(self, stage: Stage) -> None:
        for _ in range(3):
            stage.event("Web.Page", {"ms": 100})
        search = stage.query("Web.Search", {"ms": 10})
        await stage.wait(50)
        assert not stage.is_answered(search)
        await stage.wait(100)
        stage.reply(search)

    def test_a_contract_has_it_too(self) -> None:
        async def answer(message: Search) -> Message:
            await asyncio.sleep(message.ms / 1000)
            return Message(kind="reply", type="Web.Search", data=message.text)

        async def act(stage: Stage) -> None:
            asked = [stage.query("Web.Search", {"ms": 100}) for _ in range(3)]
            await stage.wait(150)
            assert [stage.is_answered(name) for name in asked] == [True, True, False]

        contract = Contract(
            id="Web", description="Searches.", inbound=Search, spawn=lambda: answer, concurrency=2
        )
        play(act, contract)


class TestFailures:
    @pytest.mark.parametrize(
        ("then", "text"), [("raise", "by wish"), ("exit", "sys.exit(3)"), ("cancel", "Cancelled")]
    )
    @staged(Web, hush=True)
    async def test_a_failure_ends_all_that_run(self, stage: Stage, then: str, text: str) -> None:
        stage.query("Web.Search", {"text": "bad", "ms": 100, "then": then}, name="bad")
        running = [stage.query("Web.Search", {"text": f"run{n}", "ms": 500}) for n in range(2)]
        waiting = [stage.query("Web.Search", {"text": f"wait{n}", "ms": 500}) for n in range(2)]
        await stage.wait(150)
        for name in ("bad", *running):
            assert text in stage.fault(name, "Sys.ActorCrash").message
        assert Web.stopped == ["run0", "run1", "on_stop"]
        await stage.wait(2000)
        assert [stage.reply(name) for name in waiting] == ["wait0", "wait1"]
        health = await stage.health("Web")
        assert (health.crashes, health.restarts) == (1, 1)

    @staged(Web, hush=True)
    async def test_an_event_that_was_handled_beside_a_failure_is_a_dead_letter(self, stage: Stage) -> None:
        stage.event("Web.Page", {"ms": 1000})
        stage.query("Web.Search", {"ms": 10, "then": "raise"})
        await stage.wait(100)
        letters = stage.query("Dead.List")
        await stage.settle()
        assert [each["type"] for each in stage.reply(letters)["letters"]] == ["Web.Search", "Web.Page"]

    @staged(Web, timeout=0.1)
    async def test_a_request_that_times_out_does_not_end_the_others(self, stage: Stage) -> None:
        late = stage.query("Web.Search", {"ms": 500})
        other = stage.query("Web.Search", {"ms": 500, "text": "other"}, timeout=1000)
        await stage.wait(200)
        stage.fault(late, "Sys.Timeout")
        assert (await stage.health("Web")).state == "running"
        await stage.wait(400)
        assert stage.reply(other) == "other"
        assert (await stage.stats()).late == 1

    @staged(Web, timeout=0.1)
    async def test_it_is_unresponsive_when_all_places_hang(self, stage: Stage) -> None:
        for _ in range(3):
            stage.query("Web.Search", {"ms": 5000})
        await stage.wait(250)
        health = await stage.health("Web")
        assert (health.state, health.at) == ("unresponsive", "Web.Search")
        await stage.wait(5000)
        assert (await stage.health("Web")).state == "running"


class TestEnd:
    def test_the_handlers_are_cancelled_before_on_stop(self) -> None:
        async def act(stage: Stage) -> None:
            for number in range(2):
                stage.query("Web.Search", {"text": str(number), "ms": 60_000})
            await stage.settle()

        play(act, Web, drain_timeout=0)
        assert Web.stopped == ["0", "1", "on_stop"]

    def test_a_handler_that_has_not_begun_is_closed(self, recwarn: pytest.WarningsRecorder) -> None:
        async def act(stage: Stage) -> None:
            stage.connect().query("Web.Search")
            # No settle: the task of the handler may not have begun.
            await asyncio.sleep(0)

        play(act, Web, drain_timeout=0)
        assert [str(each.message) for each in recwarn if "never awaited" in str(each.message)] == []

    @staged(Web)
    async def test_a_kill_cancels_them(self, stage: Stage) -> None:
        asked = [stage.query("Web.Search", {"text": str(number), "ms": 60_000}) for number in range(3)]
        await stage.settle()
        stage.node.loop.kill_actor(stage.actor("Web"))
        await stage.wait(2000)
        for name in asked:
            stage.fault(name, "Sys.ActorCrash")
        # A process that is killed has no time for `on_stop`; its stand-in in this test has.
        assert sorted(set(Web.stopped) - {"on_stop"}) == ["0", "1", "2"]
        assert (await stage.health("Web")).state == "running"


class TestLineage:
    @staged(Web)
    async def test_each_handler_has_its_own_message(self, stage: Stage) -> None:
        seen = watch(stage, "Web.Found")
        first = stage.query("Web.Search", {"text": "first", "ms": 200})
        second = stage.query("Web.Search", {"text": "second", "ms": 100})
        await stage.wait(300)
        assert [frame.metadata.causation for frame in seen] == [second, first]


class Ask(Query[str], type="Left.Ask"):
    """Ask the other side, so many levels deep."""

    depth: int = 0


class Answer(Query[str], type="Right.Answer"):
    """Ask back."""

    depth: int = 0


class Left(Capability):
    """Asks the right side."""

    outbound = Answer
    concurrency = 3

    async def ask(self, msg: Ask) -> str:
        if not msg.depth:
            return "bottom"
        return await self.bus.ask(Answer(msg.depth - 1))


class Right(Capability):
    """Asks the left side."""

    outbound = Ask
    concurrency = 3

    async def answer(self, msg: Answer) -> str:
        if not msg.depth:
            return "bottom"
        return await self.bus.ask(Ask(msg.depth - 1))


class TestCycles:
    @staged(Left, Right)
    async def test_two_may_ask_each_other_while_there_are_places(self, stage: Stage) -> None:
        assert await stage.reply_to("query", "Left.Ask", {"depth": 5}) == "bottom"

    @staged(Left, Right, hush=True)
    async def test_without_a_place_it_is_a_cycle_at_once(self, stage: Stage) -> None:
        text = (await stage.fault_of("Sys.Refused", "query", "Left.Ask", {"depth": 6})).message
        assert "Right (Right.Answer) asks Left (Left.Ask) asks Right (Right.Answer)" in text


class TestDeclaration:
    def test_a_worker_cannot_have_it(self) -> None:
        contract = Contract(
            id="Web",
            description="Searches.",
            inbound=Search,
            spawn=lambda: BufferedWorker(lambda _message: None),
            concurrency=2,
        )

        async def act(stage: Stage) -> None:
            pytest.fail("it has started")

        with hushed(), pytest.raises(BandstandError, match=r"a worker decides itself .*: remove concurrency"):
            play(act, contract)
