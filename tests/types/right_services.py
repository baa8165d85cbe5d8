"""What a user may write with typed services: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, assert_type

from bandstand.actor import (
    Actor,
    ActorReport,
    ActorSystem,
    Alarm,
    Ask,
    AskRetry,
    ChildOptions,
    Implements,
    Interface,
    Machine,
    MessageActor,
    Reply,
    Request,
    Signal,
    Stash,
    State,
    Tell,
    Ticker,
    WaitFor,
    WhenDown,
    Work,
    ask,
    child,
    id_of,
    on,
    peek,
    ping,
    sibling,
    status_of,
    tell,
    when_down,
)
from bandstand.core import ActorId, ChildExit, Context, ExitReason, Lane, LoopConfig, Overflow, Verdict
from bandstand.supervision import (
    ActorChildSpec,
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    PartitionSpec,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock


def raw(ctx: Context[int], data: str) -> Verdict | None:
    return None


class Tally(Actor, ask_timeout=0.1):
    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.total = start * step

    async def on_start(self) -> None:
        me = self.me
        me.add(1)

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None: ...

    def on_signal(self, signal: Signal) -> None:
        if isinstance(signal, ChildExit):
            assert_type(signal.child, ActorId)

    @tell
    def add(self, n: int, *, times: int = 1) -> None:
        self.total += n * times

    @tell(lane=Lane.CONTROL)
    async def reset(self) -> None:
        self.total = 0

    @tell(lane=Lane.MANAGEMENT)
    def tune(self, /, *steps: float, **names: str) -> None: ...

    @ask
    def value(self) -> int:
        return self.total

    @ask(lane=Lane.CONTROL, raises=(KeyError, ValueError))
    async def find(self, key: str, default: float = 0.0) -> list[str]:
        return [key]

    @ask()
    def maybe(self) -> str | None:
        return None

    def tick(self, n: int) -> None: ...

    def got(self, text: str) -> None: ...

    def failed(self, error: Exception) -> None: ...

    async def text(self) -> str:
        return ""

    def use(self, work: Awaitable[str]) -> None:
        assert_type(self.after(0.01, self.tick, 1), Alarm)
        assert_type(self.every(0.01, self.add, 1, times=2), Ticker)
        self.every_after(0.01, self.text)
        assert_type(self.background(self.text(), then=self.got), Work)
        self.background(work, self.got, self.failed)
        self.background(asyncio.to_thread(len, "x"), then=self.tick, failed=self.failed)
        self.background(self.me.find("x"))
        self.background(asyncio.sleep(1), failed=print)
        assert_type(self.spawn(Tally, 3), Tally)
        assert_type(self.options(name="x", ask_timeout=None).spawn(Tally, step=3), Tally)
        assert_type(self.spawn(Implementation, 3), Counting)
        self.me.add(3)
        self.stop(drain=True)


class Faster(Tally):
    @tell
    def add(self, n: int, *, times: int = 1) -> None:
        super().add(n, times=times)


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...
    @ask
    def value(self) -> int: ...
    @ask
    async def late(self) -> str: ...


class Implementation(Implements[Counting]):
    def __init__(self, start: int) -> None:
        self.total = start

    def add(self, n: int) -> None:
        self.total += n

    async def value(self) -> int:
        return self.total

    def late(self) -> str:
        assert_type(self.me, Counting)
        return self.upper("x")

    def upper(self, text: str) -> str:
        return text.upper()

    async def use_both_sides(self) -> int:
        assert_type(await self.me.value(), int)
        self.me.add(1)
        return await self.value() + self.total


def use_handles(loop: ActorSystem, root: Supervisor) -> None:
    tally = loop.spawn(Tally, start=10)
    assert_type(tally, Tally)
    assert_type(loop.spawn(Tally), Tally)
    assert_type(loop.spawn(Faster, 1, step=2), Faster)
    assert_type(loop.options(name="x", mailbox=60, overflow=Overflow.CONFLATE).spawn(Tally, 3), Tally)
    assert_type(loop.options(ask_timeout=None, supervisor=tally).spawn(Implementation, 3), Counting)
    assert_type(loop.spawn_raw(raw, 5), ActorId)
    assert_type(loop.spawn_raw(raw, state=5, name="x", supervisor=id_of(tally)), ActorId)
    assert_type(tally.add, Tell[[int]])  # type: ignore[assert-type]  # pyright: ignore[reportAssertTypeFailure]  # it has a keyword, too
    assert_type(tally.reset, Tell[[]])
    assert_type(tally.value, Ask[[], int])
    tally.add(5)
    tally.add(n=5, times=2)
    tally.tune(1, 2.5, name="x")
    assert_type(tally.add.try_send(5), bool)
    _ = assert_type(tally.add.when_room(5, times=3), Reply[None])
    _ = assert_type(tally.value(), Reply[int])
    assert_type(tally.value.within(0.1), Ask[[], int])
    _ = assert_type(tally.find.within(None)("x", 2), Reply[list[str]])
    assert_type(tally.value.blocking(), int)
    assert_type(tally.find.blocking("x", default=2.5), list[str])
    assert_type(tally.maybe.future(), Future[str | None])
    assert_type(tally.ended.blocking(), ExitReason)
    ActorSystem(LoopConfig(), clock=VirtualClock(), carry_context=False)

    some = child("x", restart=RestartPolicy.ON_FAILURE, backoff=Backoff(), shutdown=0.0025)
    assert_type(some, ChildOptions)
    assert_type(some.of(Tally, start=4), ActorChildSpec[Tally])
    assert_type(some.of(Implementation, 4), ActorChildSpec[Counting])
    assert_type(child("x", mailbox=100, keep_mailbox=True).of(Tally), ActorChildSpec[Tally])
    SupervisorSpec(
        children=[some.of(Tally), child("y").of(Implementation, 4), ChildSpec("raw", raw, lambda ctx: 5)]
    )
    assert_type(root.handle(Tally, "x"), Tally)
    assert_type(root.start_child(child("z").of(Tally)), Tally)
    assert_type(root.start_child(child("z").of(Implementation, 4)), Counting)
    assert_type(root.start_child(ChildSpec("z", raw, lambda ctx: 5)), ActorId)
    tallies = spawn_supervisor(loop, DynamicSpec(child=child("z").each_of(Tally)))
    assert_type(tallies, DynamicSupervisor[Tally])
    assert_type(tallies.start_child(4, name="four"), Tally)
    tallies.stop_child(tallies.start_child(4))
    below = root.supervisor("below", DynamicSupervisor[Tally])
    assert_type(below, DynamicSupervisor[Tally] | None)
    shards = spawn_supervisor(loop, PartitionSpec(child=child("z").each_of(Tally), partitions=4))
    assert_type(shards.route("key"), Tally | None)
    assert_type(root.handle(Implementation, "below", "y"), Counting)
    assert_type(when_down(root.handle(Tally, "x"), WhenDown.QUEUE, timeout=timedelta(seconds=1)), Tally)
    assert_type(when_down(root.handle(Implementation, "y"), WhenDown.FAIL), Counting)
    spawn_supervisor(loop, SupervisorSpec(children=[some.of(Tally)]))


async def use_replies(tally: Tally, counting: Counting) -> None:
    assert_type(await tally.value(), int)
    assert_type(await tally.find("x"), list[str])
    assert_type(await tally.maybe(), str | None)
    assert_type(await tally.value.within(0.1)(), int)
    assert_type(await tally.ended(), ExitReason)
    await tally.add.when_room(3)
    reply = tally.value()
    assert_type(await reply, int)
    assert_type(await asyncio.wait_for(tally.find("x"), 5), list[str])
    number, words = await asyncio.gather(tally.value(), tally.find("x"))
    assert_type(number, int)
    assert_type(words, list[str])
    assert_type(await asyncio.create_task(tally.find("x")), list[str])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(tally.value())
    assert_type(task.result(), int)
    counting.add(number)
    assert_type(counting.add.try_send(1), bool)
    assert_type(await counting.value() + 1, int)
    assert_type(await counting.late(), str)
    assert_type(await counting.ended(), ExitReason)
    everybody: list[Counting] = [counting]
    for one in everybody:
        one.add(1)


@dataclass
class Deposit:
    amount: int


class Get(Request[int]):
    pass


class Withdraw(Deposit):
    pass


class Account(MessageActor[Deposit | Get | int | str]):
    @on(int, str)
    def take(self, message: int | str) -> None: ...

    @on(Deposit)
    def deposit(self, message: Deposit) -> None:
        self.tell(message)
        self.me.tell(message)

    @on(Get, lane=Lane.CONTROL, raises=KeyError)
    async def balance(self, message: Get) -> int:
        self.deposit(Deposit(1))
        return 5


async def use_messages(loop: ActorSystem) -> None:
    account = loop.spawn(Account)
    assert_type(account, Account)
    account.tell(Deposit(5))
    account.tell(Withdraw(5))
    account.tell("x")
    assert_type(account.tell.try_send(Deposit(5)), bool)
    _ = assert_type(account.tell.when_room(Deposit(5)), Reply[None])
    reply = account.ask(Get())
    _ = assert_type(reply, Reply[int])
    assert_type(await account.ask(Get(), timeout=0.1), int)
    assert_type(await account.ask(Get(), timeout=None), int)
    assert_type(account.ask.blocking(Get()), int)
    assert_type(account.ask.future(Get(), timeout=0.005), Future[int])


class Door(Machine, postpone_limit=5):
    def __init__(self) -> None:
        self.early = Stash(self, limit=5)

    @tell
    def push(self, hard: int) -> None: ...

    @ask(reentrant=True)
    def look(self, far: bool = True) -> str:
        raise NotImplementedError

    closed = State(postpones=(push, look))
    opened = State(timeout=0.0055, ignores=(push,), initial=True)

    @closed.on(push)
    def _(self, hard: int) -> None:
        self.become(Door.opened, push=True)
        assert_type(self.state, State)

    @opened.on(look)
    async def _(self, far: bool = True) -> str:
        return "a room" if far else self.kept()

    @closed.on(look)
    def _(self, far: bool = True) -> str:
        self.early.keep()

    @opened.timeout
    async def _(self) -> None:
        self.unbecome()

    @opened.enter
    def entered(self) -> None:
        assert_type(self.early.release(), int)

    def kept(self) -> str:
        """Needs no answer: keeping ends the handler."""
        self.early.keep()


async def use_modes(loop: ActorSystem) -> None:
    door = loop.spawn(Door)
    door.push(5)
    assert_type(await door.look(far=False), str)
    assert_type(await ping(door), None)
    assert_type(await status_of(door, timeout=0.05), ActorReport)
    assert_type(status_of.blocking(door), ActorReport)
    assert_type(ping.future(door), Future[None])
    assert_type(peek(door), ActorReport)
    for wait in loop.waits():
        assert_type(wait, WaitFor)


class Reads(Actor):
    def __init__(self, tally: Tally, counting: Counting, *, title: str = "") -> None: ...


def siblings() -> None:
    assert_type(sibling(Tally, "tally"), Tally)
    assert_type(sibling(Implementation, "counting"), Counting)
    child("reads").of(Reads, sibling(Tally, "tally"), sibling(Implementation, "counting"), title="x")


async def retried(tally: Tally, account: Account) -> None:
    retry = AskRetry(attempts=2, backoff=Backoff(), timeout=timedelta(seconds=1))
    assert_type(await tally.value.retry(retry)(), int)
    assert_type(await tally.value.within(5).retry(retry)(), int)
    assert_type(await account.ask.retry(AskRetry(timeout=1.5))(Get(), timeout=5), int)
