"""A node in virtual time for tests, and clients that need no sockets.

A test is a coroutine that is given a `Stage`. When it has ended the node is stopped, and whatever the test was about, the books must
balance, nothing may be left on the loop, and no exception may have escaped into the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import cached_property, wraps
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from bandstand.bus import (
    Capability,
    Contract,
    Fault,
    Frame,
    Ingress,
    Kind,
    Log,
    Metadata,
    Node,
    NodeConfig,
    Provision,
    Stats,
)
from bandstand.bus.syscall import CapabilityHealth, HealthQuery, StatsQuery
from bandstand.core import ActorId
from bandstand.testing import VirtualClock, leaks_of
from tests.core.support import guarded

Source: TypeAlias = type[Capability] | Provision | Contract
Act: TypeAlias = Callable[["Stage"], Coroutine[Any, Any, None]]
AsyncTest: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

# So long that whatever can happen has happened, and so short that no deadline comes near, in seconds.
MOMENT = 1e-6


class ScriptedLine:
    """A client that says what it is told to, and keeps what it is given."""

    def __init__(self, adapter: ScriptedAdapter, name: str) -> None:
        self._adapter = adapter
        self.name = name
        self.is_writable = True
        self.is_open = True
        self.frames: list[Frame] = []
        """All it was given, in order."""
        self.settled: list[str | None] = []
        """The causation of each frame that gave a credit back."""
        self.backlog: deque[Frame] = deque()
        """What the node had no credit for."""
        self.resumed = 0

    # -- Line --

    def deliver(self, frame: Frame, settles: bool) -> None:
        assert self.is_open, f"{frame} was written to a client that has gone"
        self.frames.append(frame)
        if settles:
            self.settled.append(frame.metadata.causation)

    def resume(self) -> None:
        self.resumed += 1
        while self.backlog and self._adapter.ingress.admit(self, self.backlog[0]):
            self.backlog.popleft()

    # -- the client --

    def say(
        self,
        kind: Kind,
        type_name: str,
        data: object = None,
        *,
        name: str | None = None,
        timeout: int | None = None,
        correlation: str | None = None,
    ) -> str:
        """Send a message; what it is called."""
        name = name or f"{self.name}-{next(self._adapter.numbers)}"
        raw = data if isinstance(data, Raw) else Raw(json.dumps({} if data is None else data).encode())
        frame = Frame(
            kind=kind,
            type=type_name,
            data=raw,
            metadata=Metadata(name, 0, correlation=correlation, timeout=timeout),
        )
        if self.backlog or not self._adapter.ingress.admit(self, frame):
            self.backlog.append(frame)
        return name

    def command(self, type_name: str, data: object = None, **more: Any) -> str:
        return self.say("command", type_name, data, **more)

    def query(self, type_name: str, data: object = None, **more: Any) -> str:
        return self.say("query", type_name, data, **more)

    def event(self, type_name: str, data: object = None, **more: Any) -> str:
        return self.say("event", type_name, data, **more)

    def take(self) -> None:
        """Keep up again."""
        self.is_writable = True
        self._adapter.ingress.drained(self)

    def close(self) -> None:
        self.is_open = False
        self._adapter.ingress.close(self)

    # -- what it was given --

    def answers(self, name: str) -> list[Frame]:
        return [
            each
            for each in self.frames
            if each.kind in {"reply", "error"} and each.metadata.causation == name
        ]

    def answer(self, name: str) -> Frame:
        """The one answer to a request."""
        (answer,) = self.answers(name)
        return answer

    def reply(self, name: str) -> Any:
        """The data of the one answer, which is a reply."""
        answer = self.answer(name)
        assert answer.kind == "reply", f"{answer.type}: {bytes(answer.data).decode()}"
        return msgspec.json.decode(answer.data)

    def fault(self, name: str, type_name: str) -> Fault:
        """The data of the one answer, which is a fault of that type."""
        answer = self.answer(name)
        assert (answer.kind, answer.type) == ("error", type_name), bytes(answer.data).decode()
        return msgspec.json.decode(answer.data, type=Fault)

    async def reply_to(self, kind: Kind, type_name: str, data: object = None, **more: Any) -> Any:
        """Send a request, let all happen that can happen now, and return the data of its reply."""
        name = self.say(kind, type_name, data, **more)
        await asyncio.sleep(MOMENT)
        return self.reply(name)

    async def fault_of(
        self, fault_type: str, kind: Kind, type_name: str, data: object = None, **more: Any
    ) -> Fault:
        """Send a request, let all happen that can happen now, and return the data of its fault of that type."""
        name = self.say(kind, type_name, data, **more)
        await asyncio.sleep(MOMENT)
        return self.fault(name, fault_type)

    def is_answered(self, name: str) -> bool:
        return bool(self.answers(name))

    def events(self, type_name: str = "") -> list[Any]:
        """The data of the events it was given, of one type or of all."""
        return [
            msgspec.json.decode(each.data)
            for each in self.frames
            if each.kind == "event" and type_name in {"", each.type}
        ]


class ScriptedAdapter:
    """An adapter whose clients come when a test says so."""

    name = "scripted"

    def __init__(self) -> None:
        self.ingress: Ingress
        self.numbers = count(1)
        self.life: list[str] = []
        self.lines: list[ScriptedLine] = []
        self.can_produce = True
        self.is_flushed = True

    async def start(self, ingress: Ingress) -> None:
        self.ingress = ingress
        self.life.append("start")

    async def stop(self) -> None:
        self.can_produce = False
        self.life.append("stop")

    async def close(self, timeout: float) -> None:
        self.life.append("close")
        for line in self.lines:
            if line.is_open:
                line.close()

    def connect(self, name: str | None = None) -> ScriptedLine:
        line = ScriptedLine(self, name or f"client{len(self.lines)}")
        self.lines.append(line)
        self.ingress.open(line)
        return line


class Stage:
    """A node that runs, and what a test does with it. A test that needs only one client speaks through the stage itself."""

    def __init__(self, node: Node, adapter: ScriptedAdapter, clock: VirtualClock) -> None:
        self.node = node
        self.adapter = adapter
        self.clock = clock

    @cached_property
    def client(self) -> ScriptedLine:
        """The client of the stage itself. It connects when it is first used."""
        return self.connect()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def connect(self, name: str | None = None) -> ScriptedLine:
        return self.adapter.connect(name)

    @property
    def bus(self) -> Any:
        """Any: tests ask all sorts of wrong things."""
        return self.node.bus

    def actor(self, capability: str) -> ActorId:
        """The actor of a capability's present incarnation."""
        found = self.node.loop.tree().find(capability)
        assert found is not None
        assert found.actor is not None
        return found.actor

    @property
    def now_ms(self) -> float:
        return self.clock.now_ns() / 1e6

    async def settle(self) -> None:
        """Let all happen that can happen now."""
        await asyncio.sleep(MOMENT)

    async def wait(self, ms: float) -> None:
        """Let time pass, and all happen that happens by then."""
        await asyncio.sleep(ms / 1000)
        await self.settle()

    async def stats(self) -> Stats:
        """The books, without the question for them."""
        found = (await self.node.bus.ask(StatsQuery())).requests
        return msgspec.structs.replace(found, admitted=found.admitted - 1, in_flight=found.in_flight - 1)

    async def health(self, capability: str) -> CapabilityHealth:
        return (await self.node.bus.ask(HealthQuery())).capabilities[capability]


@asynccontextmanager
async def staging(
    clock: VirtualClock,
    *capabilities: Source,
    hush: bool = False,
    log: Log | None = None,
    journal: Path | None = None,
    wall_clock: Callable[[], int] = time.time_ns,
    **fields: Any,
) -> AsyncGenerator[Stage]:
    """A node with these capabilities, in virtual time. `fields` are its limits. With `hush`, nothing is logged."""
    adapter = ScriptedAdapter()
    fields.setdefault("health_period", 0)
    node = Node(
        capabilities,
        adapters=[adapter],
        config=NodeConfig(**fields),
        log=log,
        journal=journal,
        clock=clock,
        wall_clock=wall_clock,
    )
    with hushed() if hush else nullcontext():
        async with node:
            stage = Stage(node, adapter, clock)
            await stage.settle()
            yield stage
            stats = await stage.stats()
            assert stats.is_balanced, stats
    assert leaks_of(node.loop) == []


Stages: TypeAlias = Callable[..., AbstractAsyncContextManager[Stage]]


def play(act: Act, *capabilities: Source, clock: VirtualClock | None = None, **fields: Any) -> None:
    """Run a test on a node of its own, in virtual time. `fields` are the node's limits; `log` its log."""
    clock = VirtualClock() if clock is None else clock

    async def main() -> None:
        async with staging(clock, *capabilities, **fields) as stage:
            await act(stage)

    escaped: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=guarded(clock.new_event_loop, escaped)) as runner:
        runner.run(main())
    assert escaped == []


def staged(
    *capabilities: Source | str, hush: bool = False, **fields: Any
) -> Callable[[AsyncTest], Callable[..., None]]:
    """A test that runs on a node with these capabilities: `async def test_it(self, stage: Stage)`.

    The other parameters of the test are fixtures. A string is the name of the parameter that is a capability. With `hush`, nothing is
    logged.
    """

    def run(test: AsyncTest, **fixtures: Any) -> None:
        sources = [fixtures[each] if isinstance(each, str) else each for each in capabilities]
        play(lambda stage: test(stage=stage, **fixtures), *sources, hush=hush, **fields)

    return lambda test: with_fixtures_of(test, run, given=("stage",))


def with_fixtures_of(
    test: AsyncTest, run: Callable[..., None], given: tuple[str, ...]
) -> Callable[..., None]:
    """Return a test that calls `run(test, **fixtures)`, with the fixtures of `test` except those `given` by `run`."""
    signature = inspect.signature(test)
    parameters = [each for each in signature.parameters.values() if each.name not in given]
    own = signature.replace(parameters=parameters)

    @wraps(test)
    def wrapper(*arguments: Any, **fixtures: Any) -> None:
        run(test, **own.bind(*arguments, **fixtures).arguments)

    # Any: pytest and hypothesis read it, and type checkers do not know it.
    marked: Any = wrapper
    marked.__signature__ = own
    return wrapper


@contextmanager
def hushed(*names: str) -> Generator[None]:
    """No log, for tests in which much goes wrong on purpose."""
    loggers = [logging.getLogger(f"bandstand.{name}") for name in names or ("bus", "supervision", "core")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was
