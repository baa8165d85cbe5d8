"""The law of repeats, retries and dead letters: nothing is lost, and nothing is done twice that need not be.

Clients send a few ids again and again, on several connections, in any order, with the same content and with other content; handlers reply,
refuse, raise, take too long; capabilities are killed, letters sent again, connections lost, and time passes. After every step nobody has more answers than
lines he has sent, and every store is within its bounds; in the end everybody who is still there has exactly as many, and the books balance.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Struct

from bandstand.bus import Capability, Command, Frame, Node, NodeConfig, RestartLimits, Retry, provide
from bandstand.bus.faults import TRANSIENT
from bandstand.bus.syscall import NodeStats, StatsQuery
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff
from bandstand.testing import VirtualClock, leaks_of
from tests.bus.stage import ScriptedAdapter, ScriptedLine, Stage, hushed
from tests.core.support import Boom

R = TypeVar("R")

TIMEOUT = 500
ATTEMPTS = 3
AMPLE = (100_000, 10_000, 1 << 20)
SCARCE = (300, 2, 100)
DEAD = 4

# What each id is about: the type, and what its handler does.
DEEDS = {
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

ids = st.sampled_from(sorted(DEEDS))
places = st.integers(0, 2)


class Done(Struct):
    deed: str
    variant: int


class Do(Command[Done], type="Law.Do"):
    deed: str
    variant: int


class Try(
    Command[Done], type="Law.Try", retry=Retry(attempts=ATTEMPTS, backoff=Backoff(initial=0.02, maximum=0.1))
):
    deed: str
    variant: int


class Worker(Capability):
    """Does it, and counts how often."""

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
        match msg.deed:
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
        return Done(msg.deed, msg.variant)


@pytest.fixture(autouse=True, scope="module")
def discreet() -> Iterator[None]:
    with hushed():
        yield


class World(RuleBasedStateMachine):
    """Clients that repeat themselves, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_event_loop)
        self.adapter = ScriptedAdapter()
        self.lines: list[ScriptedLine] = []
        self.sent: Counter[tuple[ScriptedLine, str]] = Counter()
        self.variants: set[tuple[ScriptedLine, str, int]] = set()
        self.runs: Counter[str] = Counter()
        # Answers after which the same request is handled anew, by the id of the request.
        self.passing: Counter[str] = Counter()
        self.bounds = AMPLE
        self.stage: Stage | None = None

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    @initialize(bounds=st.sampled_from([AMPLE, AMPLE, SCARCE]), credit=st.sampled_from([3, 1000]))
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
    def send(self, place: int, name: str, variant: int, times: int) -> None:
        async def go() -> None:
            line = self.lines[place]
            type_name, deed = DEEDS[name]
            for _ in range(times):
                self.sent[line, name] += 1
                self.variants.add((line, name, variant))
                line.command(type_name, {"deed": deed, "variant": variant}, name=name)

        self.do(go())

    @rule(order=st.permutations(sorted(DEEDS)))
    def send_all(self, order: list[str]) -> None:
        for place, name in enumerate(order):
            self.send(place % 3, name, 0, 1)

    @rule(place=places)
    def lose_connection(self, place: int) -> None:
        async def go() -> None:
            self.lines[place].close()
            self.lines[place] = self.adapter.connect()

        self.do(go())

    @rule()
    def kill(self) -> None:
        async def go() -> None:
            assert self.stage is not None
            loop = self.stage.node.loop
            found = loop.tree().find("Worker")
            if found is not None and found.actor is not None:
                loop.kill_actor(found.actor)

        self.do(go())

    @rule(place=places, which=st.integers(0, DEAD))
    def replay(self, place: int, which: int) -> None:
        async def go() -> None:
            assert self.stage is not None
            line = self.lines[place]
            asked = line.query("Dead.List")
            await self.stage.settle()
            found = [each for each in line.answers(asked) if each.kind == "reply"]
            letters: list[Any] = msgspec.json.decode(found[0].data)["letters"] if found else []
            if letters:
                line.command("Dead.Replay", {"id": letters[which % len(letters)]["id"]})

        self.do(go())

    @rule(place=places)
    def reset(self, place: int) -> None:
        async def go() -> None:
            self.lines[place].command("Syscall.Reset", {"capability": "Worker"})

        self.do(go())

    @rule(ms=st.sampled_from([0, 1, 25, 100, 400, 1200]))
    def pass_time(self, ms: int) -> None:
        async def nap() -> None:
            await asyncio.sleep(ms / 1000)

        self.do(nap())

    # -- what holds --------------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_has_more_than_he_has_sent(self) -> None:
        for (line, name), times in self.sent.items():
            assert len(line.answers(name)) <= times, name
            # And nobody has the answer to what he has not asked.
            for each in replies(line, name):
                assert (line, name, msgspec.json.decode(each.data)["variant"]) in self.variants

    @invariant()
    def nothing_is_done_twice_that_need_not_be(self) -> None:
        if self.bounds is not AMPLE:
            return
        for name, (type_name, _deed) in DEEDS.items():
            attempts = ATTEMPTS if type_name == "Law.Try" else 1
            # Each answer after which it is handled anew allows for one more.
            assert self.runs[name] <= attempts * (1 + self.passing[name]), name
            told = {
                bytes(each.data) for line, other in self.sent if other == name for each in replies(line, name)
            }
            assert len(told) <= 1, told

    async def look(self, stage: Stage) -> None:
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

    def teardown(self) -> None:
        try:
            if self.stage is not None:
                node = self.stage.node
                self.do(self.look(self.stage))
                self.do(node.__aexit__(None, None, None))
                assert leaks_of(node.loop) == []
        finally:
            self.runner.close()


def replies(line: ScriptedLine, name: str) -> list[Frame]:
    return [each for each in line.answers(name) if each.kind == "reply"]


TestNothingLost = pytest.mark.spec("C11", "C23", "C24")(
    pytest.mark.guarantee("G173", "G174", "G176", "G177", "G183")(World.TestCase)
)
TestNothingLost.settings = settings(stateful_step_count=25)
