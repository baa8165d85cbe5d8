"""Timers and background work of capabilities: they run beside the messages, keep the lineage, and end with their instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, TypeAlias

import pytest

from bandstand.actor import Ticker, Work
from bandstand.bus import Capability, Command, Event, Query
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.dead_letters import ListDeadLetters
from bandstand.bus.message_log import MemoryLog
from bandstand.errors import ContractError, LoopBusyError, RefusedError
from bandstand.testing import VirtualClock
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Stage, Stages
from tests.core.support import Boom


class Start(Command[str], type="Tool.Start"):
    """Start something that goes on after the answer."""

    how: str = "background"
    fails: str = ""


class Ask(Query[str], type="Other.Ask"):
    """Ask something."""


class Done(Event, type="Tool.Done"):
    """It is done."""

    text: str


class Other(Capability):
    """Answers."""

    def ask(self, msg: Ask) -> str:
        return "answer"


class Tool(Capability):
    """Does things beside its messages."""

    outbound = Done | Ask
    ended: ClassVar[list[str]] = []
    instances: ClassVar[list[Tool]] = []

    def __init__(self) -> None:
        self.instances.append(self)
        self.work: Work | None = None
        self.ticker: Ticker | None = None

    def start(self, msg: Start) -> str:
        if msg.how == "background":
            self.work = self.background(self.fetch(msg.fails), then=self.finish)
        elif msg.how == "handled":
            self.background(self.fetch(msg.fails), failed=self.fail)
        elif msg.how == "after":
            self.after(1, self.finish, "after")
        elif msg.how == "async after":
            self.after(1, self.call_other)
        elif msg.how == "every":
            self.ticker = self.every(1, self.tick)
        elif msg.how == "every_after":
            self.ticker = self.every_after(1, self.tick)
        elif msg.how == "exit":
            self.after(1, exit, 3)
        elif msg.how == "full":
            self.after(0, self.fail_now)
            self.after(0, self.finish, "of the earlier instance")
        return "started"

    async def fetch(self, fails: str) -> str:
        try:
            answer = await self.bus.ask(Ask())
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        if fails == "refuses":
            raise RefusedError("not today")
        if fails:
            raise Boom(fails)
        self.bus.emit(Done("fetched"))
        return answer

    def finish(self, text: str) -> None:
        self.bus.emit(Done(text))

    def fail(self, error: Exception) -> None:
        self.bus.emit(Done(repr(error)))

    def fail_now(self) -> None:
        raise Boom("now")

    async def call_other(self) -> None:
        self.bus.emit(Done(await self.bus.ask(Ask())))

    def tick(self) -> None:
        self.bus.emit(Done("tick"))


class Concurrent(Tool):
    """Does things beside its messages."""

    id = "Tool"
    concurrency = 4


@pytest.fixture(autouse=True)
def fresh() -> None:
    Tool.ended.clear()
    Tool.instances.clear()


logs: list[MemoryLog] = []


@pytest.fixture
def both(stages: Stages, bandstand_clock: VirtualClock) -> Both:
    """Make nodes with a tool, on the node or in another place, and the one that it asks."""

    def make(kind: type[Capability], is_isolated: bool = False, *, hush: bool = False) -> StageContext:
        logs[:] = [MemoryLog(1000, 1_000_000)]
        tool = nearby(kind, bandstand_clock) if is_isolated else kind
        return stages(tool, Other, log=logs[0], hush=hush)

    return make


StageContext: TypeAlias = AbstractAsyncContextManager[Stage]
Both: TypeAlias = Callable[..., StageContext]
both_places = pytest.mark.parametrize("is_isolated", [False, True])
kinds = pytest.mark.parametrize("kind", [Tool, Concurrent])


def caused(name: str) -> list[str]:
    """The types and data of what a message has caused, in the order in which it was logged."""
    return [
        f"{each.type} {bytes(each.data).decode()}"
        for each in logs[0].recent(1000)
        if each.metadata.causation == name and each.kind != "reply"
    ]


@pytest.mark.guarantee("G390")
class TestLineage:
    @both_places
    async def test_background_work_is_caused_by_the_request(self, both: Both, is_isolated: bool) -> None:
        async with both(Tool, is_isolated) as stage:
            asked = stage.command("Tool.Start", correlation="mine")
            await stage.wait(10)
            assert stage.reply(asked) == "started"
            # Another message in between does not become the cause.
            stage.command("Tool.Start", {"how": "nothing"})
            await stage.wait(2000)
            assert caused(asked) == [
                "Other.Ask {}",
                'Tool.Done {"text":"fetched"}',
                'Tool.Done {"text":"answer"}',
            ]
            found = [each for each in logs[0].recent(1000) if each.type == "Tool.Done"]
            assert {each.metadata.correlation for each in found} == {"mine"}

    @kinds
    @both_places
    async def test_a_timer_is_caused_by_the_request(
        self, both: Both, kind: type[Capability], is_isolated: bool
    ) -> None:
        async with both(kind, is_isolated) as stage:
            for how, expected in [
                ("after", ['Tool.Done {"text":"after"}']),
                ("async after", ["Other.Ask {}", 'Tool.Done {"text":"answer"}']),
            ]:
                asked = stage.command("Tool.Start", {"how": how})
                await stage.wait(2000)
                assert caused(asked) == expected

    @pytest.mark.parametrize("how", ["every", "every_after"])
    async def test_ticks_are_caused_by_the_request(self, both: Both, how: str) -> None:
        async with both(Tool) as stage:
            asked = stage.command("Tool.Start", {"how": how})
            await stage.wait(3100)
            assert caused(asked) == ['Tool.Done {"text":"tick"}'] * 3
            (tool,) = Tool.instances
            assert tool.ticker is not None
            assert tool.ticker.cancel()
            await stage.wait(3000)
            assert len(caused(asked)) == 3

    async def test_what_on_start_begins_has_no_cause(self, both: Both) -> None:
        class Starting(Tool):
            """Begins at once."""

            id = "Tool"

            def on_start(self) -> None:
                self.after(1, self.finish, "timer")
                self.background(self.fetch(""))

        async with both(Starting) as stage:
            await stage.wait(2000)
            found = [each for each in logs[0].recent(100) if each.type == "Tool.Done"]
            assert len(found) == 2
            assert {each.metadata.causation for each in found} == {None}


@pytest.mark.guarantee("G391")
class TestEnd:
    async def test_work_is_cancelled_with_the_node(self, both: Both) -> None:
        async with both(Tool) as stage:
            stage.command("Tool.Start")
            await stage.wait(10)
            assert stage.node.loop.tree().find("background Tool.fetch") is not None
        assert Tool.ended == ["cancelled"]

    @both_places
    async def test_failed_work_fails_the_capability(self, both: Both, is_isolated: bool) -> None:
        async with both(Tool, is_isolated, hush=True) as stage:
            stage.command("Tool.Start", {"fails": "by wish"})
            await stage.wait(500)
            stage.command("Tool.Start")
            stage.command("Tool.Start", {"how": "every"})
            await stage.wait(3500)
            health = await stage.health("Tool")
            assert (health.crashes, health.restarts) == (1, 1)
            assert "by wish" in str(health.last_fault)
            assert Tool.ended == ["cancelled"]
            # The ticker of the instance that has failed is gone.
            assert not stage.events("Tool.Done")
            assert len(Tool.instances) == 2

    async def test_a_call_in_the_mailbox_is_not_made_by_the_next_instance(self, both: Both) -> None:
        async with both(Tool, hush=True) as stage:
            asked = stage.command("Tool.Start", {"how": "full"})
            await stage.wait(3000)
            assert (await stage.health("Tool")).restarts == 1
            assert caused(asked) == []

    @both_places
    async def test_failed_gets_the_error(self, both: Both, is_isolated: bool) -> None:
        async with both(Tool, is_isolated) as stage:
            asked = stage.command("Tool.Start", {"how": "handled", "fails": "by wish"})
            await stage.wait(2000)
            assert caused(asked)[1:] == ['Tool.Done {"text":"Boom(\'by wish\')"}']
            assert (await stage.health("Tool")).crashes == 0

    @kinds
    async def test_a_refusal_is_no_failure_as_for_an_event(self, both: Both, kind: type[Capability]) -> None:
        async with both(kind, hush=True) as stage:
            stage.command("Tool.Start", {"fails": "refuses"})
            await stage.wait(2000)
            assert (await stage.health("Tool")).crashes == 0
            assert (await stage.stats()).sunk == 1

    async def test_sys_exit_in_a_timer_ends_the_capability_and_not_the_node(self, both: Both) -> None:
        async with both(Tool, hush=True) as stage:
            stage.command("Tool.Start", {"how": "exit"})
            await stage.wait(3000)
            health = await stage.health("Tool")
            assert health.restarts == 1
            assert "sys.exit(3)" in str(health.last_fault)
            # A timer is no message: there is no dead letter.
            assert (await stage.node.bus.ask(ListDeadLetters())).letters == []


@pytest.mark.guarantee("G390")
class TestMistakes:
    def test_there_are_no_timers_in_the_constructor(self) -> None:
        with pytest.raises(LoopBusyError, match=r"from on_start\(\) on"):
            Tool().after(1, print)

    @pytest.mark.parametrize("name", ["after", "background", "every", "every_after"])
    def test_a_handler_cannot_have_the_name_of_a_tool(self, name: str) -> None:
        def handler(self: Any, msg: Start) -> str:
            return ""

        kind = type("Taken", (Capability,), {name: handler, "__doc__": "Takes a name."})
        with pytest.raises(ContractError, match=rf"{name}\(\) is a method that every capability has"):
            read_capability(kind)
