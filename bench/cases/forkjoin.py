"""Fork-join throughput (Savina 4): one actor deals messages out to sixty, in turn. Measures one to many.

Ten for each at a time; when the last worker has its tenth, it tells the dealer to go on. So at most six hundred messages
wait in every system and the garbage collector has no long queue to walk through (see `counting`); Savina deals all in one
go. Savina's workers compute a sine each; ours only count, so that the runtime is what is measured. An operation is one
message to a worker.
"""

from __future__ import annotations

import asyncio
from collections import deque

from bandstand.core import Context
from bench import limit, queues, raw
from bench.case import Case, Outcome, Setting, Size

WORKERS = 60
BURST = 10


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // (WORKERS * BURST), 0
    n = bursts * WORKERS * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def worker() -> limit.Handler:
        def work(_ctx: None, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                append((deal, last_of - 1))

        return work

    *workers, last = [worker() for _ in range(WORKERS)]

    def deal(_ctx: None, burst: int) -> None:
        if burst:
            for left in reversed(range(BURST)):
                for work in workers:
                    append((work, 0))
                append((last, 0 if left else burst))

    append((deal, bursts))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def bandstand(setting: Setting) -> Outcome:
    bursts, total = setting.size // (WORKERS * BURST), 0
    n = bursts * WORKERS * BURST
    loop = raw.make()
    send = loop.send

    def work(_ctx: Context[None], last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            send(dealer, last_of - 1)

    *workers, last = [loop.spawn(work) for _ in range(WORKERS)]

    def deal(_ctx: Context[None], burst: int) -> None:
        if burst:
            for left in reversed(range(BURST)):
                for worker in workers:
                    send(worker, 0)
                send(last, 0 if left else burst)

    dealer = loop.spawn(deal)
    send(dealer, bursts)
    elapsed = raw.drain(loop)
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


async def tasks(size: int) -> Outcome:
    bursts, total = size // (WORKERS * BURST), 0
    n = bursts * WORKERS * BURST
    orders = asyncio.Queue[int]()
    mailboxes = [asyncio.Queue[int]() for _ in range(WORKERS)]
    order = orders.put_nowait
    *puts, put_last = [mailbox.put_nowait for mailbox in mailboxes]

    def work(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            order(last_of - 1)

    def deal(_ctx: None, burst: int) -> None:
        if burst:
            for left in reversed(range(BURST)):
                for put in puts:
                    put(0)
                put_last(0 if left else burst)

    workers = [queues.serve(mailbox, work, bursts * BURST) for mailbox in mailboxes]
    elapsed = await queues.drain([queues.serve(orders, deal, bursts + 1), *workers], lambda: order(bursts))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="fork-join",
    title="fork-join throughput, 60 actors",
    what="one actor deals messages out to sixty, ten for each at a time (Savina 4)",
    size=Size(full=600_000, slow=300_000, quick=1_200),
    savina=4,
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
    },
)
