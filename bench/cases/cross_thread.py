"""Cross-thread flood: one thread, or two, send into a loop that runs in another.

Senders go in bursts of 10,000 and wait, on an `Event`, for the last of a burst to be handled: so what waits is bounded in
every system, and for each burst the loop must be woken from its sleep. An operation is one message, its share of that
waiting included. Figures depend on how the machine passes the interpreter's lock from one thread to the other, so they
scatter more than those of other rows.

What is comparable: `limit` is a `queue.SimpleQueue` between two threads, the quickest that the standard library has for it (it is written in C), with a
plain loop at the receiving end, which waits without a deadline; asyncio's is `call_soon_threadsafe` for every message, which is what `send_async` saves: it wakes the
host once a burst. That is checked: a run in which the loop woke up for more than one message in ten has no figure. How
often it did is in the JSON (`messages_per_wakeup`).
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import TypeAlias, cast

from bandstand.core import Context
from bench import queues, raw, stopwatch
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.target import at_most

BURST = 10_000
LEAST_PER_WAKEUP = 10
"""Messages that come in with one wake-up, on average: every tick of a busy loop is one too, and a burst takes several."""
PATIENCE = 60.0

Send: TypeAlias = Callable[[threading.Event | None], object]


class Senders:
    """Threads that send bursts, each waiting until its last has been handled."""

    def __init__(self, threads: int, size: int) -> None:
        self.burst = min(BURST, size // threads)
        self.bursts = size // (threads * self.burst)
        self.messages = threads * self.bursts * self.burst
        self._threads = threads
        self._running: list[threading.Thread] = []
        self._begun = 0

    def start(self, send: Send) -> None:
        """Start them, and the clock with them."""
        self._running = [
            threading.Thread(target=self._produce, args=(send,), daemon=True) for _ in range(self._threads)
        ]
        self._begun = stopwatch.start()
        for thread in self._running:
            thread.start()

    def _produce(self, send: Send) -> None:
        handled = threading.Event()
        for _ in range(self.bursts):
            for _ in repeat(None, self.burst - 1):
                send(None)
            handled.clear()
            send(handled)
            if not handled.wait(PATIENCE):
                # The sums will tell.
                return

    def elapsed(self) -> int:
        """Nanoseconds since the start."""
        return perf_counter_ns() - self._begun

    def join(self) -> None:
        """Wait for their ends."""
        for thread in self._running:
            thread.join(PATIENCE)


def plain(threads: int, setting: Setting) -> Outcome:
    senders, total = Senders(threads, setting.size), 0
    inbox = queue.SimpleQueue[threading.Event | None]()
    get = inbox.get

    def count(_ctx: None, last: threading.Event | None) -> None:
        nonlocal total
        total += 1
        if last is not None:
            last.set()

    senders.start(inbox.put)
    for _ in repeat(None, senders.messages):
        count(None, get())
    elapsed = senders.elapsed()
    senders.join()
    return Outcome(total=elapsed, operations=senders.messages, sent=senders.messages, handled=total)


def bandstand(threads: int, setting: Setting) -> Outcome:
    senders, total, elapsed = Senders(threads, setting.size), 0, 0
    loop = raw.make()
    n = senders.messages

    def count(_ctx: Context[None], last: threading.Event | None) -> None:
        nonlocal total, elapsed
        total += 1
        if last is not None:
            last.set()
        if total == n:
            elapsed = senders.elapsed()
            loop.request_stop()

    # Each sender has at most a burst under way.
    counter = loop.spawn(count, mailbox_cap=threads * senders.burst + 8)
    before = loop.statistics().wakeups
    # No Python frame of ours between a sender and the call it makes, as with `SimpleQueue.put`.
    senders.start(partial(loop.send_async, counter))
    loop.run()
    senders.join()
    wakeups = loop.statistics().wakeups - before
    raw.settle(loop, n)
    # Tiny sizes on a busy machine say nothing about it.
    if wakeups * LEAST_PER_WAKEUP > n and not setting.is_quick:
        raise WrongResultError(
            f"the loop woke up {wakeups} times for {n} messages: a burst must wake it once"
        )
    details = {"messages_per_wakeup": n / wakeups, "wakeups": float(wakeups)}
    return Outcome(total=elapsed, operations=n, sent=n, handled=total, details=details)


async def callbacks(threads: int, size: int) -> Outcome:
    senders, total = Senders(threads, size), 0
    loop = asyncio.get_running_loop()
    call_soon, done = loop.call_soon_threadsafe, loop.create_future()

    def count(_ctx: None, last: threading.Event | None) -> None:
        nonlocal total
        total += 1
        if last is not None:
            last.set()
        if total == senders.messages:
            done.set_result(None)

    senders.start(partial(cast("Callable[..., object]", call_soon), count, None))
    await done
    elapsed = senders.elapsed()
    senders.join()
    return Outcome(total=elapsed, operations=senders.messages, sent=senders.messages, handled=total)


def case(threads: int) -> Case:
    number = "one thread" if threads == 1 else "two threads"
    return Case(
        name=f"cross-thread-{threads}",
        title=f"flood from {number}",
        what=f"{number} send into a loop that runs in another, in bursts of 10,000",
        size=Size(full=500_000, slow=200_000, quick=2_000),
        measures={
            "limit": lambda setting: plain(threads, setting),
            "raw": lambda setting: bandstand(threads, setting),
            "queues": lambda setting: queues.run(setting, callbacks(threads, setting.size)),
        },
        target=at_most(300, "ns"),
    )


CASES = (case(1), case(2))
