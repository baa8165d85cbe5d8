"""How long an urgent message takes to an actor that is flooded: the figure is p99, from send to handling; p50 and p99.9 are in the JSON.

Two actors. The flooder keeps about a thousand data messages waiting for the other: whenever 64 have been handled, it sends 64 more, and
somewhere among them, at a place that changes, an urgent one, if the last has been handled. Handlers are cheap and nobody sleeps, so
the whole is the same sequence every time.

What is comparable. bandstand's urgent message goes by the CONTROL lane. An `asyncio.Queue` has but one order, so there it waits
behind the thousand: that is what the first row shows. In the second row stands what a careful user would take instead, an
`asyncio.PriorityQueue`, which pays for it with a heap for each data message. Both give the event loop a turn after 64 messages; without it
the flooder would not run at all. Erlang's process empties its mailbox before each message, handles what is urgent at once and keeps the
rest in lists, and gives way after 64 likewise: to search the mailbox by a selective `receive` takes twice as long, and messages with a
priority came after OTP 25. `limit` has two deques and looks at the urgent one first. Only the asyncio peers differ between the two rows, so
the second has no other figures: a ratio would count twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count, repeat
from time import perf_counter_ns
from typing import Any

from bandstand.actor import Actor, tell
from bandstand.core import Context, Lane
from bench import latency, limit, otp, queues, raw, stopwatch, typed
from bench.case import Case, Outcome, Setting, Size
from bench.target import ahead_of

BURST = 64
WAITING = 1_024
CAP = 2 * WAITING


class Flood:
    """What is poured and drunk, and how long the urgent ones took."""

    def __init__(self, setting: Setting) -> None:
        self.wanted = setting.size
        self.urgent = 0
        self.poured = WAITING - BURST
        self.drunk = 0
        self.times: list[int] = []

    def pour(self, handled: int, drop: Callable[[], object], press: Callable[[int], object]) -> bool:
        """Send a burst, with an urgent one in it if those before have been handled; whether there was still one wanted."""
        if handled == self.wanted:
            return False
        place = -1
        if handled == self.urgent:
            self.urgent += 1
            place = self.urgent * 37 % BURST
        for number in range(BURST):
            if number == place:
                press(perf_counter_ns())
            drop()
        self.poured += BURST
        return True

    def drink(self, stamp: int) -> bool:
        """Handle a message, an urgent one if it has a stamp; whether to ask for another burst."""
        if stamp:
            self.times.append(perf_counter_ns() - stamp)
            return False
        self.drunk += 1
        return not self.drunk % BURST

    def is_on(self) -> bool:
        """Whether there is still something to handle."""
        return len(self.times) < self.wanted or self.drunk < self.poured

    def messages(self) -> int:
        """How many were sent in all, the requests for bursts and the first of them included."""
        return self.poured + self.urgent + self.drunk // BURST + 1

    def outcome(self) -> Outcome:
        """The times count if nothing was lost, urgent or not."""
        is_whole = self.drunk == self.poured and self.urgent == self.wanted
        return latency.outcome(self.times, len(self.times) if is_whole else 0, "p99_ns")


def plain(setting: Setting) -> Outcome:
    flood = Flood(setting)
    tasks: limit.Tasks = deque()
    append = tasks.append
    urgent, waiting = deque[int](), deque(repeat(0, flood.poured))
    drop = partial(waiting.append, 0)

    def pour(_ctx: None, handled: int) -> None:
        flood.pour(handled, drop, urgent.append)

    def visit(_ctx: None, _data: None) -> None:
        for _ in range(min(BURST, len(urgent) + len(waiting))):
            if flood.drink((urgent or waiting).popleft()):
                append((pour, len(flood.times)))
        if flood.is_on():
            append((visit, None))

    append((pour, 0))
    append((visit, None))
    limit.drain(tasks)
    return flood.outcome()


def bandstand(setting: Setting) -> Outcome:
    flood = Flood(setting)
    loop = raw.make()
    send = loop.send

    def pour(_ctx: Context[None], handled: int) -> None:
        flood.pour(handled, drop, press)

    def receive(_ctx: Context[None], stamp: int) -> None:
        if flood.drink(stamp):
            send(flooder, len(flood.times))

    flooder, target = loop.spawn(pour), loop.spawn(receive, mailbox_cap=CAP)
    drop, press = partial(send, target, 0), partial(send, target, lane=Lane.CONTROL)
    send(flooder, 0)
    for _ in range(flood.poured):
        drop()
    raw.drain(loop)
    raw.settle(loop, flood.messages())
    return flood.outcome()


def classes(setting: Setting) -> Outcome:
    flood = Flood(setting)
    loop = typed.make()

    class Flooder(Actor):
        @tell
        def pour(self, handled: int) -> None:
            flood.pour(handled, drop, target.press)

    class Target(Actor):
        @tell
        def drink(self, stamp: int) -> None:
            if flood.drink(stamp):
                flooder.pour(len(flood.times))

        @tell(lane=Lane.CONTROL)
        def press(self, stamp: int) -> None:
            flood.drink(stamp)

    flooder, target = loop.spawn(Flooder), loop.options(mailbox=CAP).spawn(Target)
    drop = partial(target.drink, 0)
    flooder.pour(0)
    for _ in range(flood.poured):
        drop()
    raw.drain(loop)
    raw.settle(loop, flood.messages())
    return flood.outcome()


async def tasks(setting: Setting, *, is_ranked: bool) -> Outcome:
    flood = Flood(setting)
    orders = asyncio.Queue[int]()
    mailbox: asyncio.Queue[Any] = asyncio.PriorityQueue() if is_ranked else asyncio.Queue()
    put, get, number = mailbox.put_nowait, mailbox.get, count()

    def drop() -> None:
        put((1, next(number), 0) if is_ranked else 0)

    def press(stamp: int) -> None:
        put((0, next(number), stamp) if is_ranked else stamp)

    async def pour() -> None:
        while flood.pour(await orders.get(), drop, press):
            pass

    async def receive() -> None:
        while flood.is_on():
            got = await get()
            if flood.drink(got[2] if is_ranked else got):
                orders.put_nowait(len(flood.times))
                await asyncio.sleep(0)

    for _ in range(flood.poured):
        drop()
    orders.put_nowait(0)
    stopwatch.start()
    await asyncio.gather(pour(), receive())
    return flood.outcome()


def with_queue(setting: Setting) -> Outcome:
    return queues.run(setting, tasks(setting, is_ranked=False))


def with_priority_queue(setting: Setting) -> Outcome:
    return queues.run(setting, tasks(setting, is_ranked=True))


def with_otp(setting: Setting) -> Outcome:
    handled, times = otp.times("lanes", setting.size, BURST, WAITING)
    return latency.outcome(times, handled, "p99_ns")


SIZE = Size(full=20_000, slow=2_000, quick=50)

CASES = (
    Case(
        name="lanes",
        title="urgent in a flood, p99",
        what="from send to handling of an urgent message, a thousand others waiting; an asyncio.Queue has one order",
        size=SIZE,
        measures={
            "limit": plain,
            "raw": bandstand,
            "typed": classes,
            "queues": with_queue,
            "erlang": with_otp,
        },
        target=ahead_of("erlang"),
        typed_target=ahead_of("erlang"),
    ),
    Case(
        name="lanes-priority",
        title="urgent in a flood, p99, PriorityQueue",
        what="the same with an asyncio.PriorityQueue",
        size=SIZE,
        measures={"queues": with_priority_queue},
        is_brief=False,
    ),
)
