"""What a user must not write: both type checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from bandstand import actor, bus
from bandstand.core import ActorId, Context, Lane, Loop, LoopConfig, Observer, Restarted, RuntimeEvent, Verdict
from bandstand.scope import CancelToken, Channel, select
from bandstand.actor import Actor, AskRetry, Implements, Interface, MessageActor, Request, ask, child, on, sibling, tell
from bandstand.shutdown import GracefulShutdown, ShutdownPhase
from bandstand.supervision import (
    Backoff,
    RestartPolicy,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    PartitionSpec,
    PartitionSupervisor,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import run_async


class Counter:
    total = 0


def count(ctx: Context[Counter], data: int) -> Verdict | None:
    ctx.state.missing = 1  # E:
    ctx.state = "a string"  # E:
    ctx.self_id = ctx.self_id  # E:
    ctx.nothing  # E:
    return None


def bad_verdict(ctx: Context[None], data: int) -> str:
    return "ok"


def bad_arity(ctx: Context[None]) -> None:
    pass


class Clockless:
    pass


class Misspelt(Observer):
    def on_actor_stop(self, id: int) -> None:  # E:
        pass

    def on_actor_restart(self, supervisor: ActorId, child: ActorId) -> None:  # E:
        pass

    def on_supervisor_escalate(self, supervisor: ActorId, child: ActorId) -> None:  # E:
        pass


def use(loop: Loop, actor: ActorId) -> None:
    loop.spawn(count, "not a Counter")  # E:
    loop.spawn(bad_verdict)  # E:
    loop.spawn(bad_arity)  # E:
    loop.spawn(None)  # E:
    loop.spawn(count, Counter(), cap=64)  # E:
    loop.send("actor", 1)  # E:
    loop.send(actor, 1, lane=3)  # E:
    loop.send_after(actor, "5", 1)  # E:
    LoopConfig(max_actors="5")  # E:
    LoopConfig().max_actors = 6  # E:
    Loop(clock=Clockless())  # E:
    value: str = loop.poll_once()  # E:
    other: bool = loop.send(actor, 1)  # E:
    with loop as inner:
        inner.nothing()  # E:
    print(value, other)


async def use_async(loop: Loop) -> None:
    with loop.run():  # E:
        pass
    await loop.send(1, 1)  # E:


def new_counter(ctx: Context[Counter]) -> Counter:
    return Counter()


def new_text(ctx: Context[str]) -> str:
    return ""


async def new_text_later(ctx: Context[str]) -> str:
    return ""


def no_context() -> Counter:
    return Counter()


def use_specs() -> None:
    ChildSpec("child", 5)  # E:
    ChildSpec("child", SupervisorSpec)  # E:
    ChildSpec("child", count, new_text)  # E:
    ChildSpec("child", count, init=new_text_later)  # E:
    ChildSpec("child", count, init=Counter())  # E:
    ChildSpec("child", count, init=no_context)  # E:
    ChildSpec("child", count, new_counter, RestartPolicy.ALWAYS, 64, "kept")  # E:
    ChildSpec("child", count, new_counter, restart="permanent")  # E:
    ChildSpec("child", count, new_counter, mode=RestartPolicy.ALWAYS)  # E:
    ChildSpec("child", count, new_counter).mode = RestartPolicy.ON_FAILURE  # E:
    wrong: ChildSpec[str] = ChildSpec("child", count, new_counter)  # E:
    SupervisorSpec(children=ChildSpec("child", count, new_counter))  # E:
    SupervisorSpec(strategy="one_for_one")  # E:
    SupervisorSpec().strategy = Strategy.ONE_FOR_ALL  # E:
    DynamicSpec(child=count)  # E:
    DynamicSpec(child=ChildSpec("child", count, new_counter), strategy=Strategy.ONE_FOR_ALL)  # E:
    PartitionSpec(child=ChildSpec("child", count, new_counter))  # E:
    Backoff(initial="100")  # E:
    Backoff().after(100, True)  # E:
    print(wrong, Shutdown.NEVER)  # E:


def use_supervisors(loop: Loop, root: Supervisor, crowd: DynamicSupervisor[ActorId], shards: PartitionSupervisor[ActorId]) -> None:
    spawn_supervisor(SupervisorSpec())  # E:
    spawn_supervisor(loop, ChildSpec("child", count, new_counter))  # E:
    spawn_supervisor(loop, SupervisorSpec, name="root")  # E:
    spawn_supervisor(loop, SupervisorSpec(), parent=root)  # E:
    spawn_supervisor(loop, SupervisorSpec()).route("key")  # E:
    spawn_supervisor(loop, DynamicSpec(child=ChildSpec("child", count, new_counter))).delete_child("x")  # E:
    as_dynamic: DynamicSupervisor[ActorId] = spawn_supervisor(loop, SupervisorSpec())  # E:
    root.supervisor("below", SupervisorSpec)  # E:
    below: DynamicSupervisor[ActorId] | None = root.supervisor("below", Supervisor)  # E:
    certain: Supervisor = root.supervisor("below", Supervisor)  # E:
    root.start_child(count)  # E:
    loop.send(root.child("child"), 1)  # E:
    loop.send(root, 1)  # E:
    root.handle("counter")  # E:
    crowd.delete_child("session-1")  # E:
    shards.route(2.5)  # E:
    shards.start_child("one")  # E:
    print(as_dynamic, below, certain)


class Tally(Actor):
    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.total = start * step

    @tell
    def add(self, n: int, *, times: int = 1) -> None:
        self.total += n * times

    @ask
    def value(self) -> int:
        return self.total

    @ask
    async def find(self, key: str, default: float = 0.0) -> list[str]:
        return [key]

    @tell  # E:
    def one_way_int(self) -> int:
        return 5

    @tell(lane=Lane.CONTROL)  # E:
    async def one_way_text(self) -> str:
        return "x"

    @tell  # E:
    @ask
    def twice(self) -> None:
        pass

    @ask(lane="data")  # E:
    def no_lane(self) -> int:
        return 5

    @ask(raises="KeyError")  # E:
    def no_error(self) -> int:
        return 5

    def tick(self, n: int) -> None:
        pass

    def got(self, text: str) -> None:
        pass

    async def number(self) -> int:
        return 5

    def use(self) -> None:
        self.after(10, self.tick)  # E:
        self.after(10, self.tick, "x")  # E:
        self.after(10, self.add, "x")  # E:
        self.every(10, self.tick, 1, 2)  # E:
        self.every(10, self.find)  # E:
        self.every_after(10, self.tick, n="x")  # E:
        self.background(self.number(), then=self.got)  # E:
        self.background(self.me.value(), then=self.got)  # E:
        self.background(self.number(), failed=self.got)  # E:
        self.background(self.number)  # E:
        self.spawn(Tally, "x")  # E:
        self.spawn(Tally, begin=1)  # E:
        self.spawn(int)  # E:
        self.options(supervisor=self.me)  # E:
        self.options(name="x").spawn(Tally, "x")  # E:
        self.me.add("x")  # E:
        text: str = self.me  # E:
        print(text)


class Other(Actor):
    pass


def use_handles(loop: actor.ActorSystem, tally: Tally, root: Supervisor) -> None:
    loop.spawn(Tally, "x")  # E:
    loop.spawn(Tally, begin=1)  # E:
    loop.spawn(Tally(3))  # E:
    loop.spawn(count, "no state of its")  # E:
    loop.spawn_raw(count, "no state of its")  # E:
    loop.options(name="x").spawn(Tally, "x")  # E:
    loop.options(name="x").spawn(count, Counter())  # E:
    tally.add("x")  # E:
    tally.add(1, times="x")  # E:
    tally.add.try_send("x")  # E:
    tally.add.when_room("x")  # E:
    tally.add.within(5)  # E:
    tally.add.blocking(5)  # E:
    tally.value(1)  # E:
    tally.value.within(5)(1)  # E:
    tally.value.try_send()  # E:
    tally.find(5)  # E:
    tally.find("x", fallback=1.0)  # E:
    tally.missing()  # E:
    sent: int = tally.add(1)  # E:
    tried: str = tally.add.try_send(1)  # E:
    number: int = tally.value()  # E:
    found: list[int] = tally.find.blocking("x")  # E:
    other: Other = loop.spawn(Tally)  # E:
    actor: ActorId = loop.spawn(Tally)  # E:
    tally = loop.spawn(Other)  # E:
    tally = Other()  # E:
    print(tally.value() + 1)  # E:
    child("x").of(Tally, "y")  # E:
    child("x").of(int)  # E:
    loop.handle(Tally, "x")  # E:
    root.handle(Tally, "x").value.retry(3)  # E:
    root.handle(Tally, "x").value.retry(AskRetry())("y")  # E:
    sibling(int, "x")  # E:
    child("x").of(Tally, sibling(Tally, "x"))  # E:
    wrong: Other = root.handle(Tally, "x")  # E:
    print(sent, tried, number, found, other, actor, wrong)


async def use_replies(loop: actor.ActorSystem, tally: Tally) -> None:
    await tally.add(1)  # E:
    text: str = await tally.value()  # E:
    flag: bool = await tally.add.when_room(1)  # E:
    words: list[int] = await tally.find("x")  # E:
    reason: str = await tally.ended()  # E:
    both: tuple[int, str] = await asyncio.gather(tally.value(), tally.value())  # E:
    print(await tally.value() + "x")  # E:
    (await tally.value()).nothing()  # E:
    print(text, flag, words, reason, both)


async def forget_await(tally: Tally) -> None:
    if tally.value():  # E:
        print(1 + "x")  # E:
    else:
        print(2 + "x")  # E:
    while not tally.value():  # E:
        print(3 + "x")  # E:
    print(1 if tally.value() else 2)  # E:
    assert tally.value()  # E:
    print(4 + "x")  # E:


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...
    @ask
    def value(self) -> int: ...


class Implementation(Implements[Counting]):
    def __init__(self, start: int) -> None:
        self.total = start

    def add(self, n: int) -> None:
        self.total += n

    def value(self) -> int:
        return self.total

    async def use_both_sides(self) -> None:
        await self.value()  # E:
        print(self.me.value() + 1)  # E:
        print(self.me.total)  # E:
        text: str = await self.me.value()  # E:
        print(text)


async def use_interfaces(loop: actor.ActorSystem, root: Supervisor) -> None:
    loop.spawn(Implementation)  # E:
    loop.spawn(Counting)  # E:
    child("x").of(Implementation, "x")  # E:
    loop.spawn(Implementation, 1).total  # E:
    wrong: Implementation = loop.spawn(Implementation, 1)  # E:
    other: Tally = loop.spawn(Implementation, 1)  # E:
    text: str = await loop.spawn(Implementation, 1).value()  # E:
    print(wrong, other, text)


class Deposit:
    pass


class Get(Request[int]):
    pass


class Account(MessageActor[Deposit | Get]):
    @on(Deposit)
    def deposit(self, message: Deposit) -> None:
        self.tell("x")  # E:
        self.deposit("x")  # E:

    @on(Get)
    def get(self, message: Get) -> int:
        return 5

    @on(Deposit)  # E:
    def wrong(self, message: str) -> None:
        pass

    @on(Deposit, Get)  # E:
    def narrow(self, message: Deposit) -> None:
        pass

    @on(Deposit)  # E:
    def nothing(self) -> None:
        pass


async def use_messages(account: Account) -> None:
    account.tell("x")  # E:
    account.tell(Deposit)  # E:
    account.tell.try_send("x")  # E:
    await account.ask(Deposit())  # E:
    account.ask.blocking(Deposit())  # E:
    account.ask.within(5)  # E:
    text: str = await account.ask(Get())  # E:
    number: int = account.ask(Get())  # E:
    print(text, number, account.ask(Get()) + 1)  # E:


class Found(msgspec.Struct):
    value: int


class Fetch(bus.Query[Found], type="Shelf.Fetch"):
    key: str


class Keep(bus.Command[None], type="Shelf.Keep"):
    key: str
    value: int = 0


class Kept(bus.Event, type="Shelf.Kept"):
    key: str


class Lost(bus.Failure, type="Shelf.Lost"):
    key: str


class Shelf(bus.Capability):
    """Keeps things."""

    outbound = Kept
    restarts = 3  # E:
    mailbox = "64"  # E:

    def __init__(self, size: int, *, label: str = "") -> None:
        self.size = size

    def keep(self, msg: Keep) -> None:
        self.bus.emit(msg)  # E:
        self.bus.send(Fetch(key="a"))  # E:
        self.bus.ask(Kept(key="a"))  # E:
        self.bus.message.id  # E:

    def on_start(self) -> int:  # E:
        return 5


async def use_clients(client: bus.Connection, blocking: bus.BlockingConnection) -> None:
    await client.call(Kept(key="a"))  # E:
    await client.query(Keep(key="a"))  # E:
    await client.emit(Fetch(key="a"))  # E:
    (await client.call(Fetch(key="a"))).key  # E:
    text: str = await client.call(Fetch(key="a"))  # E:
    client.subscribe(Fetch)  # E:
    async for event in client.subscribe(Kept):
        event.key  # E:
    for _ in client.subscribe(Kept):  # E:
        pass
    blocking.call(Kept(key="a"))  # E:
    blocking.call(Fetch(key="a")).key  # E:
    async for _ in blocking.subscribe(Kept):  # E:
        pass
    print(text)


def use_spoken(kept: Kept) -> None:
    Fetch(key=5)  # E:
    Fetch(kye="a")  # E:
    kept.nothing  # E:
    kept.key = 5  # E:
    bus.Message("event", "A.B")  # E:
    bus.Message(kind="wish", type="A.B")  # E:


def use_frames(frame: bus.Frame) -> None:
    bus.Frame(kind="wish", type="A.B", metadata=bus.Metadata("x", 1))  # E:


class Half:
    def post_message(self, message: bus.Message) -> None: ...


class Late(bus.Listeners):
    async def post_message(self, message: bus.Message) -> None: ...
    def terminate(self) -> None: ...


class Whole(bus.Listeners):
    def post_message(self, message: bus.Message) -> None: ...
    def terminate(self) -> None: ...


def wants_two(one: bus.Message, other: bus.Message) -> None: ...


def use_workers() -> None:
    half: bus.Worker = Half()  # E:
    late: bus.Worker = Late()  # E:
    whole: bus.Worker = Whole()
    whole.add_event_listener("massage", print)  # E:
    whole.add_event_listener("message", 5)  # E:
    whole.onmessage = wants_two  # E:
    whole.dispatch_event("message")  # E:
    whole.post_message("hello")  # E:
    bus.BufferedWorker()  # E:
    bus.BufferedWorker(wants_two)  # E:
    bus.BufferedWorker(print, print)  # E:
    bus.MessageEvent(1).data = 2  # E:
    bus.ErrorEvent("went wrong")  # E:
    print(half, late)


def one_argument(frame: bus.Frame) -> None: ...


class NoAdapter:
    name = "none"

    async def start(self, ingress: bus.Ingress) -> None: ...


class NoLog:
    def append(self, frame: bus.Frame) -> None: ...


def use_nodes(line: bus.Line, ingress: bus.Ingress, frame: bus.Frame, tap: bus.Tap) -> None:
    bus.Node(Shelf)  # E:
    bus.Node(["Shelf"])  # E:
    bus.Node([], adapters=[NoAdapter()])  # E:
    bus.provide(Shelf)  # E:
    bus.provide(Shelf, "5")  # E:
    bus.provide(Shelf, 5, lable="x")  # E:
    bus.provide(Counter)  # E:
    bus.Contract(id="Shelf", description="Keeps things.", inbound=Fetch)  # E:
    bus.Contract(id="Shelf", description="Keeps things.", inbound=Fetch, spawn=Whole())  # E:
    line.deliver(frame)  # E:


async def use_outlets(node: bus.Node) -> None:
    node.tap(one_argument)  # E:
    node.bus.emit(Keep(key="a"))  # E:
    node.bus.send(Kept(key="a"))  # E:
    node.bus.send(Fetch(key="a"))  # E:
    await node.bus.ask(Kept(key="a"))  # E:
    await node.bus.emit(Kept(key="a"))  # E:
    text: str = await node.bus.ask(Fetch(key="a"))  # E:
    found: Found = node.bus.ask(Fetch(key="a"))  # E:
    (await node.bus.ask(Fetch(key="a"))).vlaue  # E:
    nothing: int = await node.bus.ask(Keep(key="a"))  # E:
    print(text, found, nothing)


async def use_channels(numbers: Channel[int], words: Channel[str], token: CancelToken) -> None:
    await numbers.send("one")  # E:
    numbers.try_send("one")  # E:
    numbers.send("one").blocking()  # E:
    text: str = await numbers.receive()  # E:
    number: int = numbers.receive()  # E:
    sure: int = numbers.try_receive()  # E:
    wide: Channel[int | None] = numbers  # E:
    Channel[int]("10")  # E:
    numbers.nothing  # E:
    await numbers.try_send(1)  # E:
    async for word in words:
        word + 1  # E:
    for _ in numbers:  # E:
        pass
    await select(5)  # E:
    await select(numbers.receive(), words)  # E:
    index, value = await select(numbers.receive(), words.receive())
    value.upper()  # E:
    index.upper()  # E:
    wrong: tuple[int, int] = await select(numbers.receive(), words.receive())  # E:
    await asyncio.wait_for(numbers.receive(), "1")  # E:
    print(text, number, sure, wide, wrong, token)


class Door(actor.Machine):
    @tell
    def push(self, hard: int) -> None: ...
    @ask
    def look(self, far: bool) -> str:
        raise NotImplementedError

    closed = actor.State(postpones=("push",))  # E:
    opened = actor.State(timeout="soon")  # E:

    @closed.on(push)  # E:
    def pushed(self, hard: str) -> None: ...

    @closed.on(push)  # E:
    def pushed_softly(self) -> None: ...

    @opened.on(look)  # E:
    def looked(self, far: bool) -> int:
        return 5

    @opened.on(look)
    async def looked_slowly(self, far: bool) -> str:
        self.become("opened")  # E:
        self.become(Door.opened, True)  # E:
        self.unbecome(Door.closed)  # E:
        return self.state  # E:


async def use_modes(loop: actor.ActorSystem, door: Door) -> None:
    stash = actor.Stash("me")  # E:
    count: str = stash.release()  # E:
    report: int = await actor.status_of(door)  # E:
    (await actor.status_of(door)).kept = 5  # E:
    loop.waits().waits[0].nothing  # E:
    door.push("hard")  # E:
    print(count, report)
    stash.keep(5)  # E:
# --- events and shutdown ------------------------------------------------------------------------------------------------


def hear_of_a_number(event: int) -> None: ...


def hear_of_everything(event: RuntimeEvent) -> None:
    event.data  # E:
    if isinstance(event, Restarted):
        event.attempt.upper()  # E:
        event.attempt = 5  # E:


def events_and_shutdown(loop: actor.ActorSystem, tally: Tally) -> None:
    loop.events.listen(hear_of_a_number)  # E:
    loop.events.counts().nothing  # E:
    shutdown = GracefulShutdown(loop, deadline="5")  # E:
    shutdown.intake(Tally)  # E:
    shutdown.on(ShutdownPhase.INTAKE)(5)  # E:
    shutdown.on(ShutdownPhase.INTAKE)(hear_of_a_number)  # E:
    shutdown.report.reason  # E:
    shutdown.intake(tally)


def async_test_bodies(loop: Loop) -> None:
    async def with_loop(loop: Loop) -> None:
        pass

    run_async(with_loop)  # E:
    run_async(with_loop, 5)  # E:
    run_async(with_loop(loop))  # E:
