"""One run of a bus node: clients in threads connect, ask, send nonsense, half-close and disconnect, and a capability fails in many ways.

A client that listens must be answered exactly once for each of its requests. When all have gone, the counters of the node must balance, and no
request, client, task or descriptor may be left, nor the node itself.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import select
import socket
import tempfile
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress
from pathlib import Path
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
from tests.bus.socket_clients import frame
from tests.soak.checks import Fail, IntentionalError
from tests.soak.loop_run import LoopFactory

PATIENCE = 30.0
"""Seconds within which everything must be answered, on the busiest machine."""
WAYS = ("answer", "answer", "answer", "raise", "refuse", "undeclared", "slow", "twice")
MOST_TIMES = 2000
"""How many latencies are kept."""

Way: TypeAlias = Literal["answer", "raise", "refuse", "undeclared", "slow", "twice"]


class Done(Event, type="Fragile.Done"):
    """It did something."""

    way: str


class Do(Command[None], type="Fragile.Do"):
    """Do something, well or not."""

    way: Way


class Undeclared(Event, type="Fragile.Undeclared"):
    """An event that the capability does not declare."""


class Fragile(Capability):
    """Answers, raises, refuses, breaks its contract or is slow, as it is told."""

    outbound = Done
    restarts = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))
    mailbox = 16

    async def do(self, msg: Do) -> None:
        """Do it."""
        match msg.way:
            case "raise":
                raise IntentionalError
            case "refuse":
                raise RefusedError("on purpose")
            case "undeclared":
                self.bus.emit(Undeclared())
            case "slow":
                await asyncio.sleep(0.003)
            case "twice":
                self.bus.emit(Done(way=msg.way))
                self.bus.emit(Done(way=msg.way))
            case "answer":
                pass


class BusRun:
    """One node, from its start to its end."""

    def __init__(self, name: str, seconds: float, loop_factory: LoopFactory) -> None:
        draw = random.Random(name)
        self.name = name
        self.is_over = self.is_closing = False
        self.path = ""
        self.counts: Counter[str] = Counter()
        self.times: list[float] = []
        self.fail: Fail = lambda _sentence: None
        self._seconds = seconds * draw.uniform(0.5, 1.0)
        self._loop_factory = loop_factory
        self._closes_early = draw.random() < 0.3
        self._config = NodeConfig(
            timeout=5,
            max_in_flight=draw.choice((1, 20, 8192)),
            max_inside=draw.choice((1024, 8192)),
            max_timers=draw.choice((10, 10_000)),
            mailbox=draw.choice((8, 1024)),
            health_period=draw.choice((0, 0.003)),
        )
        self._limits = Limits(
            line_bytes=8192, window=draw.choice((1, 10, 512)), write_high=draw.choice((500, 256 * 1024))
        )
        self._clients = [Client(self, number) for number in range(draw.choice((1, 2, 5)))]

    def __str__(self) -> str:
        end = "closes early" if self._closes_early else "ends when all clients have gone"
        return f"node with {len(self._clients)} clients, {end}"

    @property
    def p99(self) -> float:
        """How many seconds 99 of 100 single questions have taken at most; 0 if there were none."""
        times = sorted(self.times)
        return times[len(times) * 99 // 100] if times else 0.0

    def play(self, fail: Fail) -> None:
        """Run the node and its clients, and compare."""
        self.fail = fail
        before = Leaks.now()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            self.path = str(Path(folder, "bus.sock"))
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                node = runner.run(self._serve())
        for client in self._clients:
            client.join(PATIENCE)
            self.times += client.times
            self.counts.update(bus_asked=client.asked, bus_answered=client.answered)
        self.counts["bus_runs"] += 1
        gc.collect()
        if node() is not None:
            fail("a node that has ended is still referred to")
        for sentence in before.since():
            fail(f"left behind: {sentence}")

    async def _serve(self) -> weakref.ref[Node]:
        adapter = UnixAdapter(self.path, limits=self._limits)
        async with Node([Memory, Fragile], adapters=[adapter], config=self._config) as node:
            for client in self._clients:
                client.start()
            await asyncio.sleep(self._seconds)
            self.is_closing = self._closes_early
            self.is_over = True
            if not self._closes_early:
                self._compare(await self._wait_until_quiet(node))
        this = asyncio.current_task()
        assert this is not None
        tasks = pending_tasks(asyncio.get_running_loop())
        left = leaks_of(node.loop) + [task for task in tasks if f"'{this.get_name()}'" not in task]
        if left:
            self.fail(f"the node has ended, and still {left}")
        return weakref.ref(node)

    async def _wait_until_quiet(self, node: Node) -> NodeStats:
        end = time.monotonic() + PATIENCE
        while True:
            stats = await node.bus.ask(StatsQuery())
            alive = sum(client.is_alive() for client in self._clients)
            # The one in flight is this question.
            if not alive and not stats.clients and stats.requests.in_flight == 1:
                return stats
            if time.monotonic() > end:
                self.fail(f"{alive} clients are still there, {stats.clients} connected: {stats.requests}")
                return stats
            await asyncio.sleep(0.005)

    def _compare(self, stats: NodeStats) -> None:
        requests = stats.requests
        answered = sum(client.answered for client in self._clients)
        if not requests.is_balanced:
            self.fail(f"the counters of the node do not balance: {requests}")
        if requests.admitted < answered:
            self.fail(f"{answered} were answered, but the node says {requests.admitted} were admitted")
        if requests.restarts > requests.crashes:
            self.fail(f"{requests.restarts} restarts after {requests.crashes} crashes")
        self.counts.update(
            bus_crashes=requests.crashes, bus_refused=requests.refused, bus_abandoned=requests.abandoned
        )


class DisconnectedError(Exception):
    """The node closed a connection."""


class Connection:
    """A connection that can be written and read at the same time."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self._rest = b""

    def offer(self, data: bytes) -> int:
        """Send as much as is taken at once; return how much that was."""
        try:
            return self.socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def exchange(self, data: bytes, wanted: set[str], *, half_close: bool = False) -> Counter[str | None]:
        """Send data, and read until these requests are answered, or to the end; return how often each was answered."""
        heard: Counter[str | None] = Counter()
        missing, events = set(wanted), select.poll()
        while data or missing or half_close:
            events.register(self.socket, select.POLLIN | (select.POLLOUT if data else 0))
            ready = events.poll(PATIENCE * 1000)
            if not ready:
                raise AssertionError(
                    f"{len(missing)} requests are not answered, {sorted(missing)[:1]} for one"
                )
            try:
                if data and ready[0][1] & select.POLLOUT:
                    data = data[self.offer(data[:65_536]) :]
                    if not data and half_close:
                        self.socket.shutdown(socket.SHUT_WR)
                received = self.socket.recv(1 << 16) if ready[0][1] & ~select.POLLOUT else None
            except OSError as error:
                raise DisconnectedError from error
            if received == b"":
                if half_close and not data:
                    return heard
                raise DisconnectedError
            *lines, self._rest = (self._rest + (received or b"")).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["kind"] != "event":
                    cause = message["metadata"].get("causation")
                    heard[cause] += 1
                    missing.discard(cause)
        return heard


class Client(threading.Thread):
    """Connects, does something, disconnects, and does it again until the run is over."""

    def __init__(self, run: BusRun, number: int) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._run = run
        self._random = random.Random(f"{run.name}/client/{number}")
        self._number = number
        self._serial = 0
        self.asked = self.answered = 0
        self.times: list[float] = []

    def run(self) -> None:
        visits = (self._ask, self._ask, self._ask, self._leave, self._half_close, self._subscribe, self._time)
        while not self._run.is_over:
            visit = self._random.choice(visits)
            try:
                connection = Connection(self._run.path)
            except OSError:
                if not self._run.is_closing:
                    self._run.fail("the node lives, and a client could not connect")
                return
            try:
                visit(connection)
            except (DisconnectedError, OSError) as error:
                if not self._run.is_closing:
                    self._run.fail(f"a correct client was disconnected in {visit.__name__}: {error!r}")
            except AssertionError as error:
                self._run.fail(f"{visit.__name__}: {error}")
            finally:
                connection.socket.close()

    # -- what they send --------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        self._serial += 1
        return f"{self._number}-{self._serial}"

    def _lines(self, count: int) -> tuple[bytes, set[str]]:
        """Return some lines, correct and others, and the ids that must be answered."""
        lines = [self._line(self._next()) for _ in range(count)]
        wanted = {name for _, name in lines if name}
        self.asked += len(wanted)
        return b"".join(line for line, _ in lines), wanted

    def _line(self, name: str) -> tuple[bytes, str]:
        draw, key = self._random, f"k{self._random.randrange(20)}"
        match draw.randrange(18):
            case 0:
                return frame(name, "Talk.Said", "event", text="x" * draw.choice((1, 500))), ""
            case 1:
                return draw.randbytes(draw.choice((5, 50, 9000))).replace(b"\n", b"") + b"\n", ""
            case 2:
                wrong = draw.choice(("Memory.Sett", "Nobody.Home", "Syscall.Ping", "Memory.Set"))
                return frame(name, wrong, "command"), name
            case 3 | 4 | 5 | 6:
                metadata = {"timeout": draw.choice((1, 5, 1000))} if draw.random() < 0.3 else None
                return frame(name, "Fragile.Do", "command", metadata=metadata, way=draw.choice(WAYS)), name
            case 7 | 8 | 9:
                return frame(name, "Memory.Get", key=key), name
            case 10 | 11:
                # The scheduled message may come after the client has gone: only the schedule itself must be answered.
                inner = json.loads(frame(f"{name}-later", "Memory.Get", key=key))
                delay = draw.choice((0, 1, 5, 60_000))
                return frame(name, "Timer.Schedule", "command", delay=delay, message=inner), name
            case _:
                return frame(
                    name, "Memory.Set", "command", key=key, value="x" * draw.choice((1, 1, 3000))
                ), name

    # -- what they do ----------------------------------------------------------------------------------------------------

    def _check(self, heard: Counter[str | None], wanted: set[str]) -> None:
        self.answered += len(wanted)
        if wrong := [name for name in wanted if heard[name] != 1]:
            self._run.fail(f"{len(wrong)} requests were answered more than once or never, {wrong[0]} for one")

    def _ask(self, connection: Connection) -> None:
        for _ in range(self._random.choice((1, 1, 5))):
            data, wanted = self._lines(self._random.choice((1, 10, 200)))
            self._check(connection.exchange(data, wanted), wanted)

    def _time(self, connection: Connection) -> None:
        """Ask one thing at a time, and measure."""
        for _ in range(20):
            name, start = self._next(), time.perf_counter()
            self.asked += 1
            self._check(connection.exchange(frame(name, "Memory.Get", key="k1"), {name}), {name})
            if len(self.times) < MOST_TIMES:
                self.times.append(time.perf_counter() - start)

    def _half_close(self, connection: Connection) -> None:
        data, wanted = self._lines(self._random.choice((1, 10, 50)))
        heard = connection.exchange(data, wanted, half_close=True)
        if not self._run.is_closing:
            self._check(heard, wanted)

    def _leave(self, connection: Connection) -> None:
        """Send something, perhaps half a line, and disconnect without reading."""
        data, _ = self._lines(self._random.choice((1, 10, 100)))
        with suppress(OSError):
            connection.offer(data[: self._random.randrange(len(data))])

    def _subscribe(self, connection: Connection) -> None:
        """Subscribe to everything and do not read while the node takes requests; then read, or disconnect."""
        name = self._next()
        self.asked += 1
        connection.exchange(frame(name, "Syscall.Subscribe", "command", types=["*"]), {name})
        data, wanted = self._lines(300)
        with suppress(OSError):
            while data and (taken := connection.offer(data[:65_536])):
                data = data[taken:]
        if self._random.random() < 0.5:
            self._check(connection.exchange(data, wanted), wanted)
