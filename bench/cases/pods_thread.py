"""To a pod on a thread of its own, from the program: one-way in bursts of 10,000, and asks, one at a time.

The sender is a plain thread, as most programs have one. Of a burst it waits for the last to be handled, on an `Event`, as in the cross-thread
rows. An ask blocks it until the answer is there; the figure is the median, with the 99th percentile in the JSON (`p99_ns`). Figures
depend on how the machine passes the interpreter's lock from one thread to the other.

What is comparable: *bare* is a `queue.SimpleQueue` between two threads, which is written in C, and for asks one there and one back: no bounds, no lanes, no deadline,
and a receiver that fails is never heard of. Pykka's actors are threads with a `queue.Queue`; its `tell` and `ask` are the fastest it
has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Any

from bench import latency, stopwatch, threads
from bench.case import Case, Outcome, Setting, Size
from bench.cases import cross_thread
from bench.cases.cross_thread import PATIENCE, Senders


def told(setting: Setting) -> Outcome:
    from bench import pods

    senders = Senders(1, setting.size)
    with pods.playing(pods.OneThread()) as troupe:
        troupe.adder.value.blocking()
        senders.start(troupe.adder.toll)
        senders.join()
        elapsed = senders.elapsed()
        handled = troupe.adder.value.blocking()
    return Outcome(total=elapsed, operations=senders.messages, sent=senders.messages, handled=handled)


def pykka_told(setting: Setting) -> Outcome:
    senders, total = Senders(1, setting.size), 0

    def count(_actor: object, last: threading.Event | None) -> None:
        nonlocal total
        total += 1
        if last is not None:
            last.set()

    with threads.living(count) as (ref,):
        senders.start(ref.tell)
        senders.join()
        elapsed = senders.elapsed()
    return Outcome(total=elapsed, operations=senders.messages, sent=senders.messages, handled=total)


def asking(ask: Callable[[int], Any], count: int) -> Outcome:
    """Ask one thing at a time; every answer must be the sum so far."""
    times: list[int] = []
    right = 0
    ask(0)
    stopwatch.start()
    for expected in range(1, count + 1):
        start = perf_counter_ns()
        answer = ask(1)
        times.append(perf_counter_ns() - start)
        right += answer == expected
    return latency.outcome(times, right)


def asked(setting: Setting) -> Outcome:
    from bench import pods

    with pods.playing(pods.OneThread()) as troupe:
        return asking(troupe.adder.plus.blocking, setting.size)


def bare_asked(setting: Setting) -> Outcome:
    there, back = SimpleQueue[int | None](), SimpleQueue[int]()

    def serve() -> None:
        total = 0
        while (one := there.get()) is not None:
            total += one
            back.put(total)

    def ask(one: int) -> int:
        there.put(one)
        return back.get()

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    outcome = asking(ask, setting.size)
    there.put(None)
    server.join(PATIENCE)
    return outcome


def pykka_asked(setting: Setting) -> Outcome:
    total = 0

    def add(_actor: object, one: int) -> int:
        nonlocal total
        total += one
        return total

    with threads.living(add) as (ref,):
        return asking(ref.ask, setting.size)


CASES = (
    Case(
        name="pods-thread",
        title="one-way to a thread",
        what="the program sends to a dedicated pod, in bursts of 10,000",
        size=Size(full=500_000, slow=100_000, quick=2_000),
        measures={"pod": told, "bare": partial(cross_thread.plain, 1), "threads": pykka_told},
    ),
    Case(
        name="pods-thread-ask",
        title="ask of a thread, median",
        what="the program asks a dedicated pod, the next when it is answered",
        size=Size(full=30_000, slow=10_000, quick=100),
        measures={"pod": asked, "bare": bare_asked, "threads": pykka_asked},
    ),
)
