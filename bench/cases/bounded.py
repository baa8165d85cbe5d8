"""Counting through a mailbox of ordinary size: bursts of 500, the next when the last has been handled.

The counter answers the last message of a burst, and only then the producer goes on: at most 500 messages wait in every
system, limit included, so the three have the same queue profile and bandstand keeps its default cap of 1024. (If the
producer went on by a message to itself, bandstand would give it a turn after 64 handled messages and fill the mailbox,
where a single deque would not.) With short queues the garbage collector has nothing to walk through. An operation is one counted message; the answer, one in 500, is not counted as one.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage
from bench.target import times_limit

BURST = 500


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def produce(_ctx: None, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                append((count, 0))
            append((count, burst))

    def count(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            append((produce, last_of - 1))

    append((produce, bursts))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def program(stage: Stage, setting: Setting) -> Play:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    send = stage.send

    def produce(_me: object, burst: int) -> None:
        if burst:
            for _ in repeat(None, BURST - 1):
                send(counter, 0)
            send(counter, burst)
        else:
            stage.finish()

    def count(_me: object, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            send(producer, last_of - 1)

    producer, counter = stage.spawn(produce), stage.spawn(count)
    return Play(begin=lambda: send(producer, bursts), operations=n, sent=n, handled=lambda: total)


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = typed.make()

    class Producer(Actor):
        @tell
        def produce(self, burst: int) -> None:
            if burst:
                for _ in repeat(None, BURST - 1):
                    counter.count(0)
                counter.count(burst)

    class Counter(Actor):
        @tell
        def count(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                producer.produce(last_of - 1)

    producer, counter = loop.spawn(Producer), loop.spawn(Counter)
    elapsed = raw.drain(loop, lambda: producer.produce(bursts))
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="counting-bounded",
    title="counting, bursts of 500",
    what="the same through a mailbox of default size, never more than 500 waiting",
    size=Size(full=1_000_000, slow=500_000, quick=2_000),
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("counting", setting.size // BURST * BURST, BURST),
    },
    target=times_limit(1.4),
    typed_target=times_limit(2.5),
)
