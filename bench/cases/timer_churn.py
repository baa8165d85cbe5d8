"""Timers set and cancelled while many others are pending: what a deadline costs that is nearly always met in time.

A thousand pairs, then a turn of the event loop, so that a host which tidies up between turns gets to do so. The pending
ones are due in ten seconds and more, and never fire. An operation is one timer set and cancelled.

`limit` is the standard library's heap, the clock read for each timer, a cancelled entry taken off when it comes to the
top. bandstand's timer becomes a message to an actor, and so does Erlang's `send_after`; asyncio's is `call_later`, which would
call a handler.
"""

from __future__ import annotations

import asyncio
from functools import partial
from heapq import heappop, heappush
from itertools import count
from time import monotonic_ns

from bandstand.core import STOP, Context, Verdict
from bench import otp, queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import at_most

CHUNK = 1_000
SOONEST, SPREAD = 10_000, 60_000
DELAYS = [(i * 7919) % 5_000 + 1 for i in range(CHUNK)]
SECONDS = [ms / 1000 for ms in DELAYS]
"""Milliseconds; the same mixed thousand for everyone, all due before the pending ones."""


def plain(pending: int, setting: Setting) -> Outcome:
    chunks, cancelled = setting.size // CHUNK, 0
    heap: list[list[object]] = []
    number = count()

    def handle(_ctx: None, _data: object) -> None:
        raise WrongResultError("a timer fired")

    def schedule(ms: int) -> list[object]:
        entry: list[object] = [monotonic_ns() + ms * 1_000_000, next(number), handle, None]
        heappush(heap, entry)
        return entry

    def cancel(entry: list[object]) -> None:
        entry[2] = None
        while heap and heap[0][2] is None:
            heappop(heap)

    for ms in pending_delays(pending, setting):
        schedule(ms)
    before = len(heap)
    start = stopwatch.start()
    for _ in range(chunks):
        for ms in DELAYS:
            cancel(schedule(ms))
            cancelled += 1
    elapsed = stopwatch.since(start)
    if len(heap) != before:
        raise WrongResultError(f"{len(heap)} timers are pending, {before} should be")
    return Outcome(total=elapsed, operations=chunks * CHUNK, sent=chunks * CHUNK, handled=cancelled)


def bandstand(pending: int, setting: Setting) -> Outcome:
    chunks, start, elapsed = setting.size // CHUNK, 0, 0
    loop = raw.make()
    send, send_after, cancel_timer = loop.send, loop.send_after, loop.cancel_timer

    def churn(_ctx: Context[None], left: int) -> Verdict | None:
        nonlocal elapsed
        if left == 0:
            elapsed = stopwatch.since(start)
            return STOP
        for delay in SECONDS:
            cancel_timer(send_after(actor, delay, None))
        send(actor, left - 1)
        return None

    actor = loop.spawn(churn)
    delays = pending_delays(pending, setting)
    for ms in delays:
        send_after(actor, ms / 1000, None)
    send(actor, chunks)
    start = stopwatch.start()
    loop.run(until_idle=True)
    books = loop.statistics()
    if books.timers_released != len(delays) or books.timers_fired:
        raise WrongResultError(
            f"{books.timers_released} timers were pending to the end, {len(delays)} should be"
        )
    raw.settle(loop, chunks + 1)
    return Outcome(
        total=elapsed, operations=chunks * CHUNK, sent=chunks * CHUNK, handled=books.timers_cancelled
    )


async def tasks(pending: int, setting: Setting) -> Outcome:
    chunks, cancelled = setting.size // CHUNK, 0
    call_later = asyncio.get_running_loop().call_later
    fired: list[object] = []
    waiting = [call_later(ms / 1000, fired.append, None) for ms in pending_delays(pending, setting)]
    start = stopwatch.start()
    for _ in range(chunks):
        for ms in DELAYS:
            call_later(ms / 1000, fired.append, None).cancel()
            cancelled += 1
        await asyncio.sleep(0)
    elapsed = stopwatch.since(start)
    for timer in waiting:
        timer.cancel()
    if fired:
        raise WrongResultError(f"{len(fired)} timers fired")
    return Outcome(total=elapsed, operations=chunks * CHUNK, sent=chunks * CHUNK, handled=cancelled)


def with_otp(pending: int, setting: Setting) -> Outcome:
    return otp.run("timers", setting.size // CHUNK * CHUNK, CHUNK, len(pending_delays(pending, setting)))


def pending_delays(pending: int, setting: Setting) -> list[int]:
    """The delays of the pending ones; a hundredth of them under --quick."""
    return [SOONEST + (i * 104_729) % SPREAD for i in range(pending // 100 if setting.is_quick else pending)]


def case(pending: int, power: str, name: str) -> Case:
    def with_asyncio(setting: Setting) -> Outcome:
        return queues.run(setting, tasks(pending, setting))

    is_many = pending >= 1_000_000
    return Case(
        name=name,
        title=f"timer set + cancel, {power} pending",
        what=f"a timer set and cancelled while {pending:,} others are pending",
        size=Size(full=200_000, slow=50_000, quick=1_000),
        measures={
            "limit": partial(plain, pending),
            "raw": partial(bandstand, pending),
            "queues": with_asyncio,
            "erlang": partial(with_otp, pending),
        },
        target=at_most(300, "ns"),
        repeats=1 if is_many else 3,
        most_rounds=3 if is_many else 99,
    )


CASES = (
    case(1_000, "10³", "timers-1e3"),
    case(100_000, "10⁵", "timers-1e5"),
    case(1_000_000, "10⁶", "timers-1e6"),
)
