"""A node with one capability, and a client in the same process without a socket in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Raw

from bandstand.bus import Capability, Command, Frame, Ingress, Metadata, Node, NodeConfig, Query
from bench.case import WrongResultError


class Total(msgspec.Struct):
    """What was added up."""

    cents: int
    count: int


class Add(Command[Total], type="Counter.Add"):
    """Add an amount."""

    cents: int


class Look(Query[Total], type="Counter.Look"):
    """Read the total."""


class Counter(Capability):
    """Adds up amounts."""

    def __init__(self) -> None:
        self._total = Total(0, 0)

    def add(self, msg: Add) -> Total:
        """Add an amount."""
        before = self._total
        self._total = Total(before.cents + msg.cents, before.count + 1)
        return self._total

    def look(self, msg: Look) -> Total:  # noqa: ARG002  # it has no fields
        """Return the total."""
        return self._total


class DirectClient:
    """Has so many commands without an answer at any time. It is an adapter with one line."""

    name = "direct"
    can_produce = False
    is_flushed = True
    is_writable = True

    def __init__(self, size: int, window: int) -> None:
        self._size = size
        self._window = window
        self._sent = self._answered = 0
        self._waiting: deque[Frame] = deque()
        self._done = asyncio.get_running_loop().create_future()
        self._ingress: Ingress | None = None

    @asynccontextmanager
    async def node(self, journal: Path | None) -> AsyncGenerator[Node]:
        """Run a node for this client."""
        async with Node(
            [Counter], adapters=[self], journal=journal, config=NodeConfig(health_period=0)
        ) as node:
            yield node

    async def run(self) -> None:
        """Send all commands, and wait for the answers."""
        for _ in range(min(self._window, self._size)):
            self._send()
        await self._done

    def _send(self) -> None:
        self._sent += 1
        metadata = Metadata(f"command-{self._sent}", 0)
        self._waiting.append(
            Frame(kind="command", type="Counter.Add", data=Raw(b'{"cents":1}'), metadata=metadata)
        )
        self.resume()

    # -- what the node calls

    async def start(self, ingress: Ingress) -> None:
        self._ingress = ingress
        ingress.open(self)

    async def stop(self) -> None:
        pass

    async def close(self, timeout: float) -> None:  # noqa: ARG002  # the signature of an adapter
        assert self._ingress is not None
        self._ingress.close(self)

    def deliver(self, frame: Frame, settles: bool) -> None:  # noqa: ARG002  # the signature of a line
        if frame.kind != "reply":
            raise WrongResultError(f"a command was answered with {frame.type}")
        self._answered += 1
        if self._answered == self._size:
            self._done.set_result(None)
        elif self._sent < self._size:
            self._send()

    def resume(self) -> None:
        assert self._ingress is not None
        while self._waiting and self._ingress.admit(self, self._waiting[0]):
            self._waiting.popleft()
