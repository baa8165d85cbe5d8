"""A concert: a node of the bus with its door open, visitors that come and go, and a capability that stumbles over itself.

In the end everybody has been answered, or has gone; then the node's books must balance, and nothing may be left: no request, no
client, no task, no descriptor, and of the node itself nothing but garbage.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import weakref
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from bandstand.bus import (
    Capability,
    Command,
    Event,
    Limits,
    Memory,
    Node,
    NodeConfig,
    RestartLimits,
    UnixAdapter,
)
from bandstand.bus.syscall import NodeStats, StatsQuery
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff
from bandstand.testing import Leaks, leaks_of, pending_tasks
from tests.soak.alarms import Mishap
from tests.soak.books import Fail
from tests.soak.plan import LoopFactory
from tests.soak.visitors import Visitor

PATIENCE = 30.0
"""Seconds within which everybody must have gone, on the busiest machine."""

Way: TypeAlias = Literal["answer", "raise", "refuse", "lie", "dawdle", "twice"]


class Stumbled(Event, type="Stumbler.Stumbled"):
    """It has stumbled."""

    way: str


class Do(Command[None], type="Stumbler.Do"):
    """Do something, well or not."""

    way: Way


class Secret(Event, type="Stumbler.Secret"):
    """What it may not say."""


class Stumbler(Capability):
    """Answers, raises, refuses, lies or dawdles, as it is told."""

    outbound = Stumbled
    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))
    mailbox = 16

    async def do(self, msg: Do) -> None:
        """Do it."""
        match msg.way:
            case "raise":
                raise Mishap("on purpose")
            case "refuse":
                raise RefusedError("on purpose")
            case "lie":
                self.bus.emit(Secret())
            case "dawdle":
                await asyncio.sleep(0.003)
            case "twice":
                self.bus.emit(Stumbled(way=msg.way))
                self.bus.emit(Stumbled(way=msg.way))
            case "answer":
                pass


class Concert:
    """One node, from its boot to its end."""

    def __init__(self, name: str, seconds: float, loop_factory: LoopFactory) -> None:
        random = Random(name)
        self.name = name
        self._fail: Fail | None = None
        self.is_over = self.is_closing = False
        self.path = ""
        self._seconds = seconds * random.uniform(0.5, 1.0)
        self._loop_factory = loop_factory
        # Whether the house closes while visitors are still in it.
        self._closes_early = random.random() < 0.3
        self._config = NodeConfig(
            timeout=5,
            max_in_flight=random.choice((1, 20, 8192)),
            max_inside=random.choice((1024, 8192)),
            max_timers=random.choice((10, 10_000)),
            mailbox=random.choice((8, 1024)),
            health_period=random.choice((0, 0.003)),
        )
        self._limits = Limits(
            line_bytes=8192, window=random.choice((1, 10, 512)), write_high=random.choice((500, 256 * 1024))
        )
        self._visitors = [Visitor(self, number) for number in range(random.choice((1, 2, 5)))]
        self.counts: dict[str, int] = {}
        self.times: list[float] = []

    def fail(self, sentence: str) -> None:
        """Something is wrong."""
        assert self._fail is not None
        self._fail(sentence)

    @property
    def p99(self) -> float:
        """How many seconds 99 of 100 polite questions have taken at most; 0 if there were none."""
        times = sorted(self.times)
        return times[len(times) * 99 // 100] if times else 0.0

    def reads(self) -> str:
        """Say in a few words what it is."""
        end = "closes early" if self._closes_early else "ends when all have gone"
        return f"concert for {len(self._visitors)}, {end}"

    def play(self, fail: Fail) -> None:
        """Boot, let visitors in, end, and compare."""
        self._fail = fail
        before = Leaks.now()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            self.path = str(Path(folder, "bus.sock"))
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                ghost = runner.run(self._live())
        for visitor in self._visitors:
            visitor.join(PATIENCE)
        gc.collect()
        if ghost() is not None:
            self.fail("a node that has ended is still referred to")
        for sentence in before.since():
            self.fail(f"left behind: {sentence}")
        self._sum_up()

    async def _live(self) -> weakref.ref[Node]:
        adapter = UnixAdapter(self.path, limits=self._limits)
        async with Node([Memory, Stumbler], adapters=[adapter], config=self._config) as node:
            for visitor in self._visitors:
                visitor.start()
            await asyncio.sleep(self._seconds)
            self.is_closing = self._closes_early
            self.is_over = True
            if not self._closes_early:
                await self._settle(node)
        if left := leaks_of(node.loop):
            self.fail(f"the node has ended, and still {left}")
        host = asyncio.get_running_loop()
        this = asyncio.current_task(host)
        assert this is not None
        if left := [task for task in pending_tasks(host) if f"'{this.get_name()}'" not in task]:
            self.fail(f"left in the host: {left}")
        return weakref.ref(node)

    async def _settle(self, node: Node) -> None:
        """Wait until all have gone and everything is answered; then the books tell."""
        end = time.monotonic() + PATIENCE
        while True:
            stats = await node.bus.ask(StatsQuery())
            alive = sum(visitor.is_alive() for visitor in self._visitors)
            # The one in flight is this question.
            if not alive and not stats.clients and stats.requests.in_flight == 1:
                break
            if time.monotonic() > end:
                self.fail(f"{alive} visitors are still there, {stats.clients} clients: {stats.requests}")
                break
            await asyncio.sleep(0.005)
        self._compare(stats)

    def _compare(self, stats: NodeStats) -> None:
        requests = stats.requests
        if not requests.is_balanced:
            self.fail(f"the books of the node do not balance: {requests}")
        answered = sum(visitor.answered for visitor in self._visitors)
        if requests.admitted < answered:
            self.fail(f"{answered} were answered, but the node says {requests.admitted} were admitted")
        if requests.restarts > requests.crashes:
            self.fail(f"{requests.restarts} restarts after {requests.crashes} crashes")
        self.counts = {
            "bus_admitted": requests.admitted,
            "bus_crashes": requests.crashes,
            "bus_refused": requests.refused,
            "bus_abandoned": requests.abandoned,
            "bus_lagged": requests.lagged,
        }

    def _sum_up(self) -> None:
        for visitor in self._visitors:
            self.times += visitor.times
        self.counts |= {
            "concerts": 1,
            "bus_asked": sum(visitor.asked for visitor in self._visitors),
            "bus_answered": sum(visitor.answered for visitor in self._visitors),
            "bus_visits": sum(visitor.visits for visitor in self._visitors),
        }
