"""Servers of the bus's cases, each behind a Unix socket in this process: the bus, and the least there can be.

`node` is the bus as it is: nothing is switched off, and it rides the event loop that `loop.run()` takes by default. `echo` is what a
bare `asyncio.Protocol` with msgspec costs on the same event loop: it cuts lines, decodes the envelope, then the data into its type,
looks a value up, encodes a reply that names its request, and writes all replies to a chunk at once. It has no schemas but these, no deadlines, no
credit, no bounds, no books, no log, and no ids of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from bandstand.bus import (
    Capability,
    Command,
    Event,
    Memory,
    Node,
    NodeConfig,
    Provision,
    UnixAdapter,
    provide,
)
from bandstand.bus.memory import Get, Set, Value
from bandstand.bus.syscall import StatsQuery
from bench.caller import MOMENT, VALUES
from bench.case import WrongResultError

REMEMBERED = 256


class Said(Event, type="Speaker.Said"):
    """Something was said."""

    number: int


class Say(Command[None], type="Speaker.Say"):
    """Say something so often."""

    first: int
    count: int


class Speaker(Capability):
    """Says what it is told to."""

    outbound = Said

    def say(self, msg: Say) -> None:
        """Say it."""
        emit = self.bus.emit
        for number in range(msg.first, msg.first + msg.count):
            emit(Said(number=number))


@dataclass
class Ledger:
    """What a hearer has heard."""

    heard: int = 0
    total: int = 0


class Hearer(Capability):
    """Hears what is said."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def hear(self, msg: Said) -> None:
        """Write it down."""
        self._ledger.heard += 1
        self._ledger.total += msg.number


class Add(Command[int], type="Adder.Add"):
    """Add a number."""

    number: int


class Adder(Capability):
    """Adds numbers."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, msg: Add) -> int:
        """Add it, and return the last digit of the sum: all replies have the same length."""
        self._sum += msg.number
        return self._sum % 10


def hearer(ledger: Ledger) -> Provision:
    """A hearer with a name of its own: no two capabilities of a node have the same."""

    class Named(Hearer):
        """Hears what is said."""

        id = f"Hearer{id(ledger)}"

    return provide(Named, ledger)


# --- the bus ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def node(
    path: str | None,
    capabilities: Sequence[type[Capability] | Provision] = (Memory, Speaker),
    config: NodeConfig | None = None,
) -> AsyncGenerator[Node]:
    """A node with these capabilities, and with values in its memory; its books are checked in the end."""
    adapters = [] if path is None else [UnixAdapter(path)]
    async with Node(capabilities, adapters=adapters, config=config) as made:
        if Memory in capabilities:
            for key, value in VALUES.items():
                await made.bus.ask(Set(key=key, value=value))
        yield made
        books = (await made.bus.ask(StatsQuery())).requests
        # The one in flight is the asking for them.
        if (
            not books.is_balanced
            or books.in_flight != 1
            or books.failures
            or books.undelivered
            or books.lagged
        ):
            raise WrongResultError(f"the node's books say {books}")


def remembering_node(path: str) -> AbstractAsyncContextManager[Node]:
    """A node that adds, and remembers so few answers that it soon forgets one for each that it remembers."""
    return node(path, (Adder,), NodeConfig(remember_count=REMEMBERED, log_count=REMEMBERED))


# --- the bare protocol ------------------------------------------------------------------------------------------------


class Metadata(msgspec.Struct, omit_defaults=True, gc=False):
    id: str
    timestamp: int
    causation: str | None = None


class Envelope(msgspec.Struct, gc=False):
    kind: Literal["command", "query", "event", "reply", "error"]
    type: str
    data: msgspec.Raw
    metadata: Metadata


class Answer(msgspec.Struct, gc=False):
    kind: str
    type: str
    data: Any
    metadata: Metadata


class Echo(asyncio.Protocol):
    """One connection."""

    def __init__(self, listeners: list[asyncio.Transport]) -> None:
        self._listeners = listeners
        self._rest = b""
        self._envelope = msgspec.json.Decoder(Envelope).decode
        self._get = msgspec.json.Decoder(Get).decode
        self._encode = msgspec.json.Encoder().encode

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        envelope, get, encode, values = self._envelope, self._get, self._encode, VALUES
        out: list[bytes] = []
        for line in lines:
            message = envelope(line)
            request = message.metadata.id
            if message.type == "Memory.Get":
                reply: object = Value(values[get(message.data).key])
            else:
                reply = self._command(message)
            out.append(encode(Answer("reply", message.type, reply, Metadata(request, MOMENT, request))))
        out.append(b"")
        self._transport.write(b"\n".join(out))

    def _command(self, message: Envelope) -> dict[str, object]:
        if message.type == "Syscall.Subscribe":
            self._listeners.append(self._transport)
            return {}
        say = msgspec.json.decode(message.data, type=Say)
        encode, cause = self._encode, message.metadata.id
        events = [
            encode(Answer("event", "Speaker.Said", Said(number=number), Metadata(cause, MOMENT, cause)))
            for number in range(say.first, say.first + say.count)
        ]
        events.append(b"")
        text = b"\n".join(events)
        for listener in self._listeners:
            listener.write(text)
        return {}


@asynccontextmanager
async def echo(path: str) -> AsyncGenerator[None]:
    """The bare protocol at a socket."""
    listeners: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_unix_server(lambda: Echo(listeners), path)
    async with server:
        yield
