"""The bus sends exactly one answer to every request.

Clients connect and disconnect, ask well and badly, reuse ids and stop reading; capabilities raise, hang, and answer wrongly, twice or too
late. After every step no request has too many answers; at the end each has the right number, and every capability works again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from bandstand.bus import Node, NodeConfig
from bandstand.bus.syscall import Reset
from bandstand.errors import RequestFailedError
from bandstand.testing import leaks_of
from tests.bus.virtual_node import ScriptedAdapter, ScriptedLine, Stage
from tests.laws.async_machine import AsyncMachine, on_event_loop
from tests.laws.bus_capabilities import ACTS, ASKING, CAP, PLAIN, SLOW, Record, capabilities

NAMES = tuple(ACTS)
ODD = ("twice", "another", "nothing")
ACTIONS = (*PLAIN, *SLOW, *ASKING, *ODD)
# These are never answered with a reply.
NEVER_A_REPLY = {
    "refuse",
    "decline",
    "undeclared",
    "raise",
    "cancelled",
    "mistake",
    "nan",
    "raise_later",
    "refuse_later",
}
TIMEOUT = 2000
# What can befall a request that its handler would have answered well.
POSSIBLE_ERRORS = {
    "Sys.Timeout",
    "Sys.ActorCrash",
    "Sys.ActorFault",
    "Sys.Unhealthy",
    "Sys.Overloaded",
    "Sys.ShuttingDown",
}

names = st.sampled_from(NAMES)
actions = st.sampled_from(ACTIONS)
delays = st.sampled_from([0, 1, 30, 500, TIMEOUT, 5000])
timeouts = st.sampled_from([None, None, 1, 20, 600])
places = st.integers(0, 3)


@dataclass(eq=False)
class Asked:
    """An id that a client has used, for one request or several."""

    line: ScriptedLine
    name: str
    action: str
    expected: int = 1
    token: int = 0
    is_scheduled: bool = False


class BusMachine(AsyncMachine):
    def __init__(self) -> None:
        super().__init__()
        self.adapter = ScriptedAdapter()
        self.record = Record()
        self.asked: list[Asked] = []
        self.lines: list[ScriptedLine] = []
        self.inside: list[asyncio.Task[Any]] = []
        # How often a handler may begin with a token.
        self.allowed: Counter[int] = Counter()
        self.stage: Stage | None = None

    @initialize(credit=st.sampled_from([2, 5, 1000]), inside=st.sampled_from([1, 3, 1000]))
    def begin(self, credit: int, inside: int) -> None:
        config = NodeConfig(
            timeout=TIMEOUT / 1000,
            max_in_flight=credit,
            max_inside=inside,
            mailbox=CAP,
            health_period=0.7,
            max_timers=4,
        )
        node = Node(capabilities(self.record), adapters=[self.adapter], config=config, clock=self.clock)
        self.do(node.__aenter__())
        self.stage = Stage(node, self.adapter, self.clock)
        self.record.end_itself = self.end_actor
        self.lines = [self.adapter.connect() for _ in range(4)]

    def end_actor(self, name: str) -> None:
        assert self.stage is not None
        loop = self.stage.node.loop
        found = loop.tree().find(name)
        if found is not None and found.actor is not None:
            loop.kill_actor(found.actor)

    # -- what happens ------------------------------------------------------------------------------------------------------

    def act(self, action: str, ms: int, to: str, inner: str, times: int = 1) -> dict[str, Any]:
        token = len(self.allowed) + 1
        self.allowed[token] += times
        data: dict[str, Any] = {"action": action, "token": token, "ms": ms}
        if action in ASKING:
            nested = self.act(inner, min(ms, 500), NAMES[0], "reply", 2 * times)
            data |= {"to": to, "inner": nested}
        return data

    @rule(
        place=places,
        name=names,
        action=actions,
        ms=delays,
        timeout=timeouts,
        to=names,
        inner=actions,
        times=st.integers(1, 12),
    )
    @on_event_loop
    async def ask(
        self,
        place: int,
        name: str,
        action: str,
        ms: int,
        timeout: int | None,
        to: str,
        inner: str,
        times: int,
    ) -> None:
        line = self.lines[place]
        # Many at once fill the mailbox; asking ones are asked one at a time, because they take long.
        for _ in range(times if action in {"reply", "reply_later", "raise"} else 1):
            data = self.act(action, ms, to, inner)
            asked = Asked(line, "", action, token=data["token"])
            asked.name = f"q{data['token']}"
            self.asked.append(asked)
            line.command(f"{name}.Act", data, name=asked.name, timeout=timeout, correlation=f"c-{asked.name}")

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 100), name=names)
    @on_event_loop
    async def ask_by_the_same_name(self, which: int, name: str) -> None:
        again = self.asked[which % len(self.asked)]
        if again.line.is_open and again.name[0] == "q":
            again.expected += 1
            again.action = "again"
            fresh = self.act("reply", 0, "", "")
            again.line.command(f"{name}.Act", fresh, name=again.name, correlation=f"c-{again.name}")

    @rule(place=places, name=names, way=st.sampled_from(["type", "data", "kind"]))
    @on_event_loop
    async def ask_badly(self, place: int, name: str, way: str) -> None:
        line = self.lines[place]
        asked = Asked(line, f"bad{len(self.asked)}", "bad")
        self.asked.append(asked)
        type_name = f"{name}.Dance" if way == "type" else f"{name}.Act"
        say = line.query if way == "kind" else line.command
        say(type_name, {"action": 5}, name=asked.name, correlation=f"c-{asked.name}")

    @rule(place=places, action=st.sampled_from(["", "raise", "reply", "bad"]))
    @on_event_loop
    async def tell(self, place: int, action: str) -> None:
        self.lines[place].event("Law.Told", {"token": "no" if action == "bad" else 1, "action": action})

    @rule(place=places, name=names, action=actions, delay=delays)
    @on_event_loop
    async def schedule(self, place: int, name: str, action: str, delay: int) -> None:
        line = self.lines[place]
        data = self.act(action, 30, NAMES[0], "reply")
        inner = Asked(line, f"s{data['token']}", action, token=data["token"], is_scheduled=True)
        asked = Asked(line, f"t{data['token']}", "schedule")
        self.asked += [inner, asked]
        metadata = {"id": inner.name, "timestamp": 0}
        message = {"kind": "command", "type": f"{name}.Act", "data": data, "metadata": metadata}
        wanted = {"delay": delay, "message": message}
        line.command("Timer.Schedule", wanted, name=asked.name, correlation=f"c-{asked.name}")

    @rule(name=names, action=actions, ms=delays)
    @on_event_loop
    async def ask_inside(self, name: str, action: str, ms: int) -> None:
        assert self.stage is not None
        asked = ACTS[name](**self.act(action, ms, NAMES[0], "reply"))
        self.inside.append(asyncio.get_running_loop().create_task(self.answer_of(self.stage, asked)))

    async def answer_of(self, stage: Stage, asked: Any) -> object:
        try:
            return await stage.bus.ask(asked)
        except RequestFailedError as error:
            return error

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 100))
    @on_event_loop
    async def cancel_inside(self, which: int) -> None:
        self.inside[which % len(self.inside)].cancel()

    @rule(place=places, way=st.sampled_from(["leave", "tire", "take", "subscribe", "unsubscribe"]))
    @on_event_loop
    async def behave(self, place: int, way: str) -> None:
        line = self.lines[place]
        match way:
            case "leave":
                line.close()
                self.lines[place] = self.adapter.connect()
            case "tire":
                line.is_writable = False
            case "take":
                line.take()
            case _:
                line.command(f"Syscall.{way.title()}", {"types": ["Law.*", "Sys.*"]})

    @rule(name=names, way=st.sampled_from(["kill", "reset"]))
    @on_event_loop
    async def meddle(self, name: str, way: str) -> None:
        if way == "kill":
            self.end_actor(name)
        else:
            await self.reset(name)

    async def reset(self, name: str) -> None:
        assert self.stage is not None
        try:
            await self.stage.bus.ask(Reset(name))
        except RequestFailedError as error:
            assert error.type in {"Sys.Refused", "Sys.Overloaded"}  # noqa: PT017 -- whether it raises is not the point

    @rule(ms=st.sampled_from([0, 0, 1, 25, 210, 700, 2100, 6000]))
    @on_event_loop
    async def pass_time(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    # -- what holds --------------------------------------------------------------------------------------------------------

    @invariant()
    def no_request_has_too_many_answers(self) -> None:
        for asked in self.asked:
            assert len(asked.line.answers(asked.name)) <= asked.expected, asked
        assert all(times <= self.allowed[token] for token, times in self.record.begun.items())

    def check_answers(self, asked: Asked) -> None:
        """Compare the answers to a request with what was asked."""
        answers = asked.line.answers(asked.name)
        parent = f"t{asked.token}"
        if asked.is_scheduled and asked.line.is_open:
            asked.expected = 1 if asked.line.answer(parent).kind == "reply" else 0
        if asked.line.is_open:
            assert len(answers) == asked.expected, asked
            settled = 0 if asked.is_scheduled else asked.expected
            assert asked.line.settled.count(asked.name) == settled
        correlation = f"c-{parent if asked.is_scheduled else asked.name}"
        for answer in answers:
            assert answer.metadata.correlation == correlation
            if asked.action in NEVER_A_REPLY | {"bad"}:
                assert answer.kind == "error", (asked, answer)
            if asked.action == "bad":
                assert answer.type in {"Sys.SchemaError", "Sys.RoutingError"}
            if asked.action in {"reply", "reply_later", "hang", "emit"} and answer.kind == "error":
                # There may be no room for what it emits: then it is refused.
                assert answer.type in POSSIBLE_ERRORS | (
                    {"Sys.Refused"} if asked.action == "emit" else set()
                ), (asked, answer)

    async def check_at_the_end(self, stage: Stage) -> None:
        for line in self.lines:
            line.take()
        # Every deadline has come by then, also of what was asked in consequence, and of that in turn.
        await stage.wait(20 * TIMEOUT)
        stats = await stage.stats()
        assert stats.is_balanced, stats
        assert stats.in_flight == 0
        assert not any(line.backlog for line in self.lines)
        for asked in self.asked:
            self.check_answers(asked)
        assert all(task.done() for task in self.inside)
        assert all(task.cancelled() or task.exception() is None for task in self.inside)
        # Every capability works again.
        for name in NAMES:
            self.end_actor(name)
        await stage.wait(6000)
        for name in NAMES:
            await self.reset(name)
        await stage.wait(6000)
        line = self.adapter.connect()
        again = [line.command(f"{name}.Act", self.act("reply", 0, "", "")) for name in NAMES]
        await stage.wait(100)
        assert [line.answer(name).kind for name in again] == ["reply"] * len(again)

    async def finish(self) -> None:
        if self.stage is not None:
            node = self.stage.node
            await self.check_at_the_end(self.stage)
            await node.__aexit__(None, None, None)
            assert leaks_of(node.loop) == []


TestBus = pytest.mark.spec("C11", "C13", "C20")(
    pytest.mark.guarantee("G74", "G75", "G80")(BusMachine.TestCase)
)
TestBus.settings = settings(stateful_step_count=30)
