"""What a user of the bus may write: both type checkers accept it and infer what is asserted here. Read by checkers, never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, assert_type

from msgspec import Meta, Struct

from bandstand.bus import (
    Adapter,
    BlockingConnection,
    BlockingSubscription,
    BufferedWorker,
    Capability,
    ClientConfig,
    Command,
    Connection,
    Contract,
    ErrorEvent,
    Event,
    Failure,
    Filter,
    Frame,
    Gap,
    Ingress,
    Limits,
    Line,
    Listeners,
    Log,
    Memory,
    MemoryLog,
    Message,
    MessageEvent,
    Metadata,
    Node,
    NodeConfig,
    Passed,
    PipeAdapter,
    Provision,
    Query,
    RestartLimits,
    Subscription,
    TcpAdapter,
    Token,
    UnixAdapter,
    Worker,
    connect,
    connect_blocking,
    load_capabilities,
    provide,
)
from bandstand.errors import RefusedError, RequestFailedError
from bandstand.testing import VirtualClock


class Found(Struct):
    value: int


class Fetch(Query[Found], type="Shelf.Fetch", frozen=True):
    key: Annotated[str, Meta(min_length=1)]


class Count(Query[int], type="Shelf.Count"):
    pass


class Keep(Command[None], type="Shelf.Keep", kw_only=True, rename="camel"):
    key: str
    value: int = 0


class Kept(Event, type="Shelf.Kept"):
    key: str


class Lost(Failure, type="Shelf.Lost"):
    key: str


class Shelf(Capability):
    """Keeps things."""

    outbound = Kept | Lost | Fetch
    restarts = RestartLimits(max_restarts=5, period=1, backoff=None)
    mailbox = 64

    def __init__(self, size: int, *, label: str = "") -> None:
        self.values: dict[str, int] = {}

    async def on_start(self) -> None:
        self.values = {}

    def on_stop(self) -> None: ...

    async def fetch(self, msg: Fetch) -> Found:
        assert_type(msg.key, str)
        if msg.key not in self.values:
            raise RefusedError(Lost(msg.key))
        return Found(self.values[msg.key])

    def keep(self, msg: Keep) -> None:
        self.bus.emit(Kept(msg.key))
        assert_type(self.bus.message, Metadata | None)

    def kept(self, msg: Kept) -> None: ...

    async def count(self, msg: Count) -> int:
        assert_type(await self.bus.ask(Fetch("a")), Found)
        return len(self.values)


def handler() -> Callable[[Fetch | Keep], Message | None]:
    def handle(msg: Fetch | Keep) -> Message | None:
        return Message(kind="reply", type=msg.message_type, data=Found(5))

    return handle


class Echo(Listeners):
    def post_message(self, message: Message, /) -> None:
        said = Message(kind="reply", type=message.type, data=message.data, metadata=message.metadata)
        self.dispatch_event(MessageEvent(said))
        self.dispatch_event(ErrorEvent(ValueError(), "id"))

    def terminate(self) -> None: ...


class Desk:
    """An adapter that is its own line."""

    name = "desk"
    is_writable = can_produce = is_flushed = True

    async def start(self, ingress: Ingress) -> None:
        ingress.open(self)

    async def stop(self) -> None: ...

    async def close(self, timeout: float) -> None: ...

    def deliver(self, frame: Frame, settles: bool) -> None: ...

    def resume(self) -> None: ...


class Paper:
    """A log."""

    def append(self, frame: Frame) -> None: ...

    def lineage(self, name: str, limit: int) -> Sequence[Frame]:
        return ()

    def recent(self, limit: int) -> Sequence[Frame]:
        return ()

    def close(self) -> None: ...


def watch(frame: Frame, destination: str) -> None: ...


def take(*values: object) -> None: ...


def use_parts() -> None:
    desk = Desk()
    adapters: list[Adapter] = [
        UnixAdapter("/run/x.sock", limits=Limits(window=5), allow_uids=[1000]),
        TcpAdapter("0.0.0.0", 7777, is_public=True, token=Token.read("/run/secrets/bus")),
        PipeAdapter(0, 1),
        desk,
    ]
    line: Line = desk
    logs: list[Log] = [MemoryLog(), Paper()]
    workers: list[Worker] = [Echo(), BufferedWorker(print)]
    contract = Contract(
        id="Shelf", description="Keeps things.", inbound=Fetch | Keep, outbound=Kept, spawn=handler
    )
    Contract(id="Echo", description="Says it back.", inbound=Fetch, spawn=Echo, subscribes=["Memory.Changed"])
    assert_type(provide(Shelf, 5, label="x"), Provision)
    Node([Shelf, Memory, provide(Shelf, 5), contract], adapters=adapters, config=NodeConfig(timeout=0.005))
    Node(log=logs[1], clock=VirtualClock(), load=lambda: load_capabilities("shop"), on_ready=print)
    take(line, workers)


async def use_nodes() -> None:
    async with Node([Memory]) as node:
        assert_type(node, Node)
        assert_type(await node.bus.ask(Fetch("a")), Found)
        assert_type((await node.bus.ask(Fetch("a"), timeout=0.1)).value, int)
        assert_type(await node.bus.ask(Count()), int)
        await node.bus.ask(Keep(key="a", value=5))
        # What it is used for does not change what it is.
        take(await node.bus.ask(Fetch("a")))
        wide: object = await node.bus.ask(Count())
        perhaps: int | None = await node.bus.ask(Count())
        node.bus.emit(Kept("a"))
        node.bus.send(Keep(key="a"))
        node.tap(watch, Filter(kinds=["event", "reply"], types=["Shelf.*"]))
        try:
            await node.bus.ask(Count())
        except RequestFailedError as error:
            take(error.data)
        take(wide, perhaps)


async def use_clients() -> None:
    async with connect("unix:/x", ClientConfig(timeout=0.1)) as client:
        assert_type(client, Connection)
        assert_type(await client.call(Fetch("a")), Found)
        assert_type((await client.query(Fetch("a"), timeout=0.1)).value, int)
        assert_type(await client.call(Count()), int)
        await client.call(Keep(key="a", value=5))
        wide: object = await client.call("Shelf.Fetch", {"key": "a"})
        await client.emit(Kept("a"))
        await client.emit("Shelf.Kept", {"key": "a"}, confirm=False)
        async with client.subscribe(Kept) as events:
            assert_type(events, Subscription[Kept | Gap])
        async for event in client.subscribe(Kept, gaps=False):
            assert_type(event, Kept)
        async for message in client.subscribe("Shelf.*", buffer=5):
            assert_type(message, Message | Gap)
        async for plain in client.subscribe("Shelf.*", gaps=False):
            assert_type(plain.metadata, Metadata | None)
        async for passed in client.watch("Shelf.*", kinds=["event"]):
            assert_type(passed, Passed | Gap)
        take(wide)
    with connect_blocking() as blocking:
        assert_type(blocking, BlockingConnection)
        assert_type(blocking.call(Fetch("a")), Found)
        assert_type(blocking.query(Count()), int)
        assert_type(blocking.subscribe(Kept, timeout=5), BlockingSubscription[Kept | Gap])
        for event in blocking.subscribe(Kept, gaps=False):
            assert_type(event, Kept)
        assert_type(blocking.subscribe("Shelf.*").next(1.5), Message | Gap)
