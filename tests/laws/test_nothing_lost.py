"""Repeats, retries and dead letters of the bus: nothing is lost, and nothing is done twice without need.

Clients repeat a few ids on several connections, with the same or other content; handlers reply, refuse, raise or take too long; capabilities
are killed, dead letters replayed and connections lost. After every step no client has more answers than requests, and every store is
within its limits; at the end each open connection has exactly as many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from msgspec import Struct

from bandstand.bus import Capability, Command, Frame, Node, NodeConfig, RestartLimits, Retry, provide
from bandstand.bus.faults import TRANSIENT
from bandstand.bus.syscall import NodeStats, StatsQuery
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff
from bandstand.testing import leaks_of
from tests.bus.virtual_node import ScriptedAdapter, ScriptedLine, Stage
from tests.core.support import Boom
from tests.laws.async_machine import AsyncMachine, on_event_loop

TIMEOUT = 500
ATTEMPTS = 3
LARGE = (100_000, 10_000, 1 << 20)
SMALL = (300, 2, 100)
DEAD = 4

# What each id is about: the type, and what its handler does.
REQUESTS = {
    "i0": ("Law.Do", "reply"),
    "i1": ("Law.Do", "raise"),
    "i2": ("Law.Do", "refuse"),
    "i3": ("Law.Do", "slow"),
    "i4": ("Law.Do", "hang"),
    "i5": ("Law.Try", "raise"),
    "i6": ("Law.Try", "at last"),
    "i7": ("Law.Try", "reply"),
    "i8": ("Law.Dance", "reply"),
}

ids = st.sampled_from(sorted(REQUESTS))
places = st.integers(0, 2)


class Done(Struct):
    action: str
    variant: int


class Do(Command[Done], type="Law.Do"):
    action: str
    variant: int


class Try(
    Command[Done], type="Law.Try", retry=Retry(attempts=ATTEMPTS, backoff=Backoff(initial=0.02, maximum=0.1))
):
    action: str
    variant: int


class Worker(Capability):
    """Counts how often it runs each request."""

    restarts = RestartLimits(max_restarts=5, period=1, backoff=Backoff(initial=0.01, maximum=0.01))
    mailbox = 8

    def __init__(self, runs: Counter[str]) -> None:
        self._runs = runs

    async def do(self, msg: Do) -> Done:
        return await self._act(msg)

    async def attempt(self, msg: Try) -> Done:
        return await self._act(msg)

    async def _act(self, msg: Do | Try) -> Done:
        metadata = self.bus.message
        assert metadata is not None
        self._runs[metadata.id] += 1
        match msg.action:
            case "raise":
                raise Boom("by wish")
            case "at last" if self._runs[metadata.id] % ATTEMPTS:
                raise Boom("not yet")
            case "refuse":
                raise RefusedError("no")
            case "slow":
                await asyncio.sleep(0.03)
            case "hang":
                await asyncio.sleep(2 * TIMEOUT / 1000)
            case _:
                pass
        return Done(msg.action, msg.variant)


class RetryMachine(AsyncMachine):
    def __init__(self) -> None:
        super().__init__()
        self.adapter = ScriptedAdapter()
        self.lines: list[ScriptedLine] = []
        self.sent: Counter[tuple[ScriptedLine, str]] = Counter()
        self.variants: set[tuple[ScriptedLine, str, int]] = set()
        self.runs: Counter[str] = Counter()
        # Answers after which the same request is handled anew, by the id of the request.
        self.passing: Counter[str] = Counter()
        self.bounds = LARGE
        self.stage: Stage | None = None

    @initialize(bounds=st.sampled_from([LARGE, LARGE, SMALL]), credit=st.sampled_from([3, 1000]))
    def begin(self, bounds: tuple[int, int, int], credit: int) -> None:
        self.bounds = bounds
        keep_ms, count, size = bounds
        config = NodeConfig(
            timeout=TIMEOUT / 1000,
            max_in_flight=credit,
            health_period=0,
            remember_for=keep_ms / 1000,
            remember_count=count,
            remember_bytes=size,
            dead_count=DEAD,
        )
        node = Node([provide(Worker, self.runs)], adapters=[self.adapter], config=config, clock=self.clock)
        self.do(node.__aenter__())
        node.tap(self.see)
        self.stage = Stage(node, self.adapter, self.clock)
        self.lines = [self.adapter.connect() for _ in range(3)]

    def see(self, frame: Frame, _destination: str) -> None:
        if frame.kind == "error" and frame.type in TRANSIENT:
            self.passing[frame.metadata.causation or ""] += 1

    # -- what happens ------------------------------------------------------------------------------------------------------

    @rule(place=places, name=ids, variant=st.sampled_from([0, 0, 0, 1]), times=st.integers(1, 3))
    @on_event_loop
    async def send(self, place: int, name: str, variant: int, times: int) -> None:
        line = self.lines[place]
        type_name, action = REQUESTS[name]
        for _ in range(times):
            self.sent[line, name] += 1
            self.variants.add((line, name, variant))
            line.command(type_name, {"action": action, "variant": variant}, name=name)

    @rule(order=st.permutations(sorted(REQUESTS)))
    def send_all(self, order: list[str]) -> None:
        for place, name in enumerate(order):
            self.send(place % 3, name, 0, 1)

    @rule(place=places)
    @on_event_loop
    async def lose_connection(self, place: int) -> None:
        self.lines[place].close()
        self.lines[place] = self.adapter.connect()

    @rule()
    @on_event_loop
    async def kill(self) -> None:
        assert self.stage is not None
        loop = self.stage.node.loop
        found = loop.tree().find("Worker")
        if found is not None and found.actor is not None:
            loop.kill_actor(found.actor)

    @rule(place=places, which=st.integers(0, DEAD))
    @on_event_loop
    async def replay(self, place: int, which: int) -> None:
        assert self.stage is not None
        line = self.lines[place]
        asked = line.query("Dead.List")
        await self.stage.settle()
        found = [each for each in line.answers(asked) if each.kind == "reply"]
        letters: list[Any] = msgspec.json.decode(found[0].data)["letters"] if found else []
        if letters:
            line.command("Dead.Replay", {"id": letters[which % len(letters)]["id"]})

    @rule(place=places)
    @on_event_loop
    async def reset(self, place: int) -> None:
        self.lines[place].command("Syscall.Reset", {"capability": "Worker"})

    @rule(ms=st.sampled_from([0, 1, 25, 100, 400, 1200]))
    @on_event_loop
    async def pass_time(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    # -- what holds --------------------------------------------------------------------------------------------------------

    @invariant()
    def no_line_has_more_answers_than_requests(self) -> None:
        for (line, name), times in self.sent.items():
            assert len(line.answers(name)) <= times, name
            # No client has an answer to another's request.
            for each in replies(line, name):
                assert (line, name, msgspec.json.decode(each.data)["variant"]) in self.variants

    @invariant()
    def nothing_is_done_twice_without_need(self) -> None:
        if self.bounds is not LARGE:
            return
        for name, (type_name, _deed) in REQUESTS.items():
            attempts = ATTEMPTS if type_name == "Law.Try" else 1
            # Each answer after which it is handled anew allows for one more.
            assert self.runs[name] <= attempts * (1 + self.passing[name]), name
            told = {
                bytes(each.data) for line, other in self.sent if other == name for each in replies(line, name)
            }
            assert len(told) <= 1, told

    async def check_at_the_end(self, stage: Stage) -> None:
        # With little credit they are handled one after the other, each of them within its time.
        await stage.wait((20 + sum(self.sent.values())) * TIMEOUT)
        found: NodeStats = await stage.bus.ask(StatsQuery())
        assert found.requests.is_balanced, found
        # The question for them, and nothing else.
        assert (found.requests.in_flight, found.timers.retry, found.timers.timeout) == (1, 0, 1)
        letters = found.dead_letters
        assert letters.made == letters.held + letters.fallen + letters.removed
        assert letters.held <= DEAD
        assert found.remembered.count <= self.bounds[1]
        assert found.remembered.bytes <= self.bounds[2]
        for (line, name), times in self.sent.items():
            if line.is_open:
                assert len(line.answers(name)) == times, name
                assert line.settled.count(name) == times
        assert not any(line.backlog for line in self.lines)

    async def finish(self) -> None:
        if self.stage is not None:
            node = self.stage.node
            await self.check_at_the_end(self.stage)
            await node.__aexit__(None, None, None)
            assert leaks_of(node.loop) == []


def replies(line: ScriptedLine, name: str) -> list[Frame]:
    return [each for each in line.answers(name) if each.kind == "reply"]


TestNothingLost = pytest.mark.spec("C11", "C23", "C24")(
    pytest.mark.guarantee("G173", "G174", "G176", "G177", "G183")(RetryMachine.TestCase)
)
TestNothingLost.settings = settings(stateful_step_count=25)
