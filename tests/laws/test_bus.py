"""The bus against its first promise: exactly one answer, whatever happens.

Clients come and go, ask well and badly, twice by the same name, and stop reading; capabilities of every form raise, hang, answer wrongly,
twice, for others and too late, and are ended; time passes. Nothing is foreseen. After every step no request may have more answers than
it is owed; in the end each has exactly as many, the books balance, nothing is under way, and every capability can be put to work again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.bus import Node, NodeConfig
from bandstand.bus.syscall import Reset
from bandstand.errors import RequestFailedError
from bandstand.testing import VirtualClock, leaks_of
from tests.bus.stage import ScriptedAdapter, ScriptedLine, Stage, hushed
from tests.laws.chorus import ACTS, ASKING, CAP, PLAIN, SLOW, Score, chorus

R = TypeVar("R")

NAMES = tuple(ACTS)
ODD = ("twice", "another", "nothing")
DEEDS = (*PLAIN, *SLOW, *ASKING, *ODD)
# Never a reply, whoever does it.
DAMNED = {
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
FATES = {
    "Sys.Timeout",
    "Sys.ActorCrash",
    "Sys.ActorFault",
    "Sys.Unhealthy",
    "Sys.Overloaded",
    "Sys.ShuttingDown",
}

names = st.sampled_from(NAMES)
deeds = st.sampled_from(DEEDS)
delays = st.sampled_from([0, 1, 30, 500, TIMEOUT, 5000])
timeouts = st.sampled_from([None, None, 1, 20, 600])
places = st.integers(0, 3)


@pytest.fixture(autouse=True, scope="module")
def discreet() -> Iterator[None]:
    with hushed():
        yield


@dataclass(eq=False)
class Asked:
    """One name that a client has used, for one request or several."""

    line: ScriptedLine
    name: str
    deed: str
    owed: int = 1
    token: int = 0
    is_scheduled: bool = False


class World(RuleBasedStateMachine):
    """Clients, capabilities and time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_event_loop)
        self.adapter = ScriptedAdapter()
        self.score = Score()
        self.asked: list[Asked] = []
        self.lines: list[ScriptedLine] = []
        self.inside: list[asyncio.Task[Any]] = []
        # How often a handler may begin with a token.
        self.allowed: Counter[int] = Counter()
        self.stage: Stage | None = None

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

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
        node = Node(chorus(self.score), adapters=[self.adapter], config=config, clock=self.clock)
        self.do(node.__aenter__())
        self.stage = Stage(node, self.adapter, self.clock)
        self.score.suicide = self.end_actor
        self.lines = [self.adapter.connect() for _ in range(4)]

    def end_actor(self, name: str) -> None:
        assert self.stage is not None
        loop = self.stage.node.loop
        found = loop.tree().find(name)
        if found is not None and found.actor is not None:
            loop.kill_actor(found.actor)

    # -- what happens ------------------------------------------------------------------------------------------------------

    def act(self, deed: str, ms: int, to: str, inner: str, times: int = 1) -> dict[str, Any]:
        token = len(self.allowed) + 1
        self.allowed[token] += times
        data: dict[str, Any] = {"deed": deed, "token": token, "ms": ms}
        if deed in ASKING:
            nested = self.act(inner, min(ms, 500), NAMES[0], "reply", 2 * times)
            data |= {"to": to, "inner": nested}
        return data

    @rule(
        place=places,
        name=names,
        deed=deeds,
        ms=delays,
        timeout=timeouts,
        to=names,
        inner=deeds,
        times=st.integers(1, 12),
    )
    def ask(
        self, place: int, name: str, deed: str, ms: int, timeout: int | None, to: str, inner: str, times: int
    ) -> None:
        async def go() -> None:
            line = self.lines[place]
            # Many at once fill the mailbox; asking ones are asked one at a time, lest it takes all day.
            for _ in range(times if deed in {"reply", "reply_later", "raise"} else 1):
                data = self.act(deed, ms, to, inner)
                asked = Asked(line, "", deed, token=data["token"])
                asked.name = f"q{data['token']}"
                self.asked.append(asked)
                line.command(
                    f"{name}.Act", data, name=asked.name, timeout=timeout, correlation=f"c-{asked.name}"
                )

        self.do(go())

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 100), name=names)
    def ask_by_the_same_name(self, which: int, name: str) -> None:
        async def go() -> None:
            again = self.asked[which % len(self.asked)]
            if again.line.is_open and again.name[0] == "q":
                again.owed += 1
                again.deed = "again"
                fresh = self.act("reply", 0, "", "")
                again.line.command(f"{name}.Act", fresh, name=again.name, correlation=f"c-{again.name}")

        self.do(go())

    @rule(place=places, name=names, way=st.sampled_from(["type", "data", "kind"]))
    def ask_badly(self, place: int, name: str, way: str) -> None:
        async def go() -> None:
            line = self.lines[place]
            asked = Asked(line, f"bad{len(self.asked)}", "bad")
            self.asked.append(asked)
            type_name = f"{name}.Dance" if way == "type" else f"{name}.Act"
            say = line.query if way == "kind" else line.command
            say(type_name, {"deed": 5}, name=asked.name, correlation=f"c-{asked.name}")

        self.do(go())

    @rule(place=places, deed=st.sampled_from(["", "raise", "reply", "bad"]))
    def tell(self, place: int, deed: str) -> None:
        async def go() -> None:
            self.lines[place].event("Law.Told", {"token": "no" if deed == "bad" else 1, "deed": deed})

        self.do(go())

    @rule(place=places, name=names, deed=deeds, delay=delays)
    def schedule(self, place: int, name: str, deed: str, delay: int) -> None:
        async def go() -> None:
            line = self.lines[place]
            data = self.act(deed, 30, NAMES[0], "reply")
            inner = Asked(line, f"s{data['token']}", deed, token=data["token"], is_scheduled=True)
            asked = Asked(line, f"t{data['token']}", "schedule")
            self.asked += [inner, asked]
            metadata = {"id": inner.name, "timestamp": 0}
            message = {"kind": "command", "type": f"{name}.Act", "data": data, "metadata": metadata}
            wanted = {"delay": delay, "message": message}
            line.command("Timer.Schedule", wanted, name=asked.name, correlation=f"c-{asked.name}")

        self.do(go())

    @rule(name=names, deed=deeds, ms=delays)
    def ask_inside(self, name: str, deed: str, ms: int) -> None:
        async def go() -> None:
            assert self.stage is not None
            asked = ACTS[name](**self.act(deed, ms, NAMES[0], "reply"))
            self.inside.append(asyncio.get_running_loop().create_task(self.answer_of(self.stage, asked)))

        self.do(go())

    async def answer_of(self, stage: Stage, asked: Any) -> object:
        try:
            return await stage.bus.ask(asked)
        except RequestFailedError as error:
            return error

    @precondition(lambda self: self.inside)
    @rule(which=st.integers(0, 100))
    def cancel_inside(self, which: int) -> None:
        async def go() -> None:
            self.inside[which % len(self.inside)].cancel()

        self.do(go())

    @rule(place=places, way=st.sampled_from(["leave", "tire", "take", "subscribe", "unsubscribe"]))
    def behave(self, place: int, way: str) -> None:
        async def go() -> None:
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

        self.do(go())

    @rule(name=names, way=st.sampled_from(["kill", "reset"]))
    def meddle(self, name: str, way: str) -> None:
        async def go() -> None:
            if way == "kill":
                self.end_actor(name)
            else:
                await self.reset(name)

        self.do(go())

    async def reset(self, name: str) -> None:
        assert self.stage is not None
        try:
            await self.stage.bus.ask(Reset(name))
        except RequestFailedError as error:
            assert error.type in {"Sys.Refused", "Sys.Overloaded"}  # noqa: PT017 -- whether it raises is not the point

    @rule(ms=st.sampled_from([0, 0, 1, 25, 210, 700, 2100, 6000]))
    def pass_time(self, ms: int) -> None:
        async def nap() -> None:
            await asyncio.sleep(ms / 1000)

        self.do(nap())

    # -- what holds --------------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_has_more_than_is_owed(self) -> None:
        for asked in self.asked:
            assert len(asked.line.answers(asked.name)) <= asked.owed, asked
        assert all(times <= self.allowed[token] for token, times in self.score.begun.items())

    def judge(self, asked: Asked) -> None:
        """Hold what a client was answered against what it has asked for."""
        answers = asked.line.answers(asked.name)
        parent = f"t{asked.token}"
        if asked.is_scheduled and asked.line.is_open:
            asked.owed = 1 if asked.line.answer(parent).kind == "reply" else 0
        if asked.line.is_open:
            assert len(answers) == asked.owed, asked
            settled = 0 if asked.is_scheduled else asked.owed
            assert asked.line.settled.count(asked.name) == settled
        correlation = f"c-{parent if asked.is_scheduled else asked.name}"
        for answer in answers:
            assert answer.metadata.correlation == correlation
            if asked.deed in DAMNED | {"bad"}:
                assert answer.kind == "error", (asked, answer)
            if asked.deed == "bad":
                assert answer.type in {"Sys.SchemaError", "Sys.RoutingError"}
            if asked.deed in {"reply", "reply_later", "hang", "emit"} and answer.kind == "error":
                # There may be no room for what it emits: then it is refused.
                assert answer.type in FATES | ({"Sys.Refused"} if asked.deed == "emit" else set()), (
                    asked,
                    answer,
                )

    async def look(self, stage: Stage) -> None:
        for line in self.lines:
            line.take()
        # Every deadline has come by then, also of what was asked in consequence, and of that in turn.
        await stage.wait(20 * TIMEOUT)
        stats = await stage.stats()
        assert stats.is_balanced, stats
        assert stats.in_flight == 0
        assert not any(line.backlog for line in self.lines)
        for asked in self.asked:
            self.judge(asked)
        assert all(task.done() for task in self.inside)
        assert all(task.cancelled() or task.exception() is None for task in self.inside)
        # And everybody can be put to work again.
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

    def teardown(self) -> None:
        try:
            if self.stage is not None:
                node = self.stage.node
                self.do(self.look(self.stage))
                self.do(node.__aexit__(None, None, None))
                assert leaks_of(node.loop) == []
        finally:
            self.runner.close()


TestBus = pytest.mark.spec("C11", "C13", "C20")(pytest.mark.guarantee("G74", "G75", "G80")(World.TestCase))
TestBus.settings = settings(stateful_step_count=30)
