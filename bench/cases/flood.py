"""The worst delay of a timer while an actor floods itself: how late a message due in 1 or 10 ms is handled.

The flood: an actor whose every message takes 10 µs and sends itself the next, so that something is always ready. Beside
it an actor is woken by a timer, notes how late it is, and sets the next. The figure is the worst lateness in milliseconds;
of several rounds the best is shown, since whatever else runs on the machine only adds (JSON has them all, and p50 and p99).

The bound: `docs/guarantees.md` (G14) promises that a due timer becomes a message after at most 64 h and one poll of the
host, h being a message's time; its actor then waits for the flooder's visit to end, 64 h more; and the wheel counts whole
milliseconds, rounding up. So the bound is 1 ms + 128 h + a poll, about 2.3 ms, with the h and the poll of the run itself.

What is comparable: `limit` looks at its heap before every message, and asyncio's flood gives the event loop a turn after
every message (`sleep(0)`; with a Queue that is never empty the loop would not get one at all). Both pay for that with
each message; bandstand looks at the clock only now and then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heappop, heappush
from time import monotonic_ns, perf_counter_ns
from typing import Any

from bandstand.core import Context
from bench import limit, queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError

WORK = 10_000
"""Nanoseconds a flood's handler takes."""
VISITS = 2 * 64
"""Messages that may be handled between a deadline and the timer's own."""
MILLISECOND = 1_000_000


def work() -> None:
    end = perf_counter_ns() + WORK
    while perf_counter_ns() < end:
        pass


def plain(ms: int, setting: Setting) -> Outcome:
    lateness, flooded, is_on = Lateness(ms, setting), 0, True
    tasks: limit.Tasks = deque()
    append = tasks.append
    heap: list[tuple[int, Any, int]] = []

    def flood(_ctx: None, _data: None) -> None:
        nonlocal flooded
        work()
        flooded += 1
        if is_on:
            append((flood, None))

    def beat(_ctx: None, due: int) -> None:
        nonlocal is_on
        if lateness.note(due):
            heappush(heap, (lateness.next_due(), beat, lateness.due))
        else:
            is_on = False

    append((flood, None))
    stopwatch.start()
    lateness.begin()
    heappush(heap, (lateness.next_due(), beat, lateness.due))
    while tasks:
        if heap and heap[0][0] <= monotonic_ns():
            _, handler, due = heappop(heap)
            handler(None, due)
        handler, data = tasks.popleft()
        handler(None, data)
    return lateness.outcome(flooded)


def bandstand(ms: int, setting: Setting) -> Outcome:
    lateness, flooded, is_on = Lateness(ms, setting), 0, True
    loop = raw.make()
    send, send_after = loop.send, loop.send_after

    def flood(_ctx: Context[None], _data: None) -> None:
        nonlocal flooded
        work()
        flooded += 1
        if is_on:
            send(flooder, None)

    def beat(_ctx: Context[None], due: int) -> None:
        nonlocal is_on
        if lateness.note(due):
            send_after(ticker, ms / 1000, lateness.next_due())
        else:
            is_on = False

    flooder, ticker = loop.spawn(flood), loop.spawn(beat)
    poll = min(raw.drain(loop) for _ in range(9))
    send(flooder, None)
    stopwatch.start()
    begin = lateness.begin()
    send_after(ticker, ms / 1000, lateness.next_due())
    loop.run(until_idle=True)
    raw.settle(loop, flooded + lateness.beats)
    if min(lateness.late) < 0:
        raise WrongResultError("a timer came early")
    message = (monotonic_ns() - begin) / flooded
    return lateness.outcome(flooded, bound=1 + (VISITS * message + poll) / MILLISECOND)


async def tasks(ms: int, setting: Setting) -> Outcome:
    lateness, flooded, is_on = Lateness(ms, setting), 0, True
    call_later = asyncio.get_running_loop().call_later

    async def flood() -> None:
        nonlocal flooded
        while is_on:
            work()
            flooded += 1
            await asyncio.sleep(0)

    def beat(_ctx: None, due: int) -> None:
        nonlocal is_on
        if lateness.note(due):
            call_later(ms / 1000, beat, None, lateness.next_due())
        else:
            is_on = False

    stopwatch.start()
    lateness.begin()
    call_later(ms / 1000, beat, None, lateness.next_due())
    await flood()
    return lateness.outcome(flooded)


class Lateness:
    """The times of a periodic timer: when it was due, how late it came, when to end."""

    def __init__(self, ms: int, setting: Setting) -> None:
        self.period = ms * MILLISECOND
        self.length = setting.size * MILLISECOND
        self.late: list[int] = []
        self.beats = 0
        self.set = 0
        self.due = 0
        self.end = 0

    def begin(self) -> int:
        """Return when it begins."""
        begin = monotonic_ns()
        self.end = begin + self.length
        return begin

    def next_due(self) -> int:
        """The time at which a timer set now is due."""
        self.set += 1
        self.due = monotonic_ns() + self.period
        return self.due

    def note(self, due: int) -> bool:
        """Note how late the timer is; whether to set another."""
        now = monotonic_ns()
        self.beats += 1
        self.late.append(now - due)
        return now < self.end

    def outcome(self, flooded: int, bound: float | None = None) -> Outcome:
        """The worst lateness in milliseconds."""
        late = sorted(self.late)
        details = {
            "p50_ms": late[len(late) // 2] / MILLISECOND,
            "p99_ms": late[len(late) * 99 // 100] / MILLISECOND,
            "flood_messages": float(flooded),
            "timers": float(self.beats),
            "early": float(sum(nanoseconds < 0 for nanoseconds in late)),
        }
        return Outcome(
            total=late[-1] / MILLISECOND,
            operations=1,
            sent=self.set,
            handled=self.beats,
            bound=bound,
            details=details,
        )


def case(ms: int) -> Case:
    return Case(
        name=f"flood-{ms}ms",
        title=f"worst delay of a {ms} ms timer in a flood",
        what=f"how late a timer of {ms} ms is handled while an actor floods itself with messages of 10 µs",
        size=Size(full=1_000, slow=1_000, quick=30),
        measures={
            "limit": lambda setting: plain(ms, setting),
            "raw": lambda setting: bandstand(ms, setting),
            "queues": lambda setting: queues.run(setting, tasks(ms, setting)),
        },
        unit="ms",
        repeats=1,
        most_rounds=3,
    )


CASES = (case(1), case(10))
