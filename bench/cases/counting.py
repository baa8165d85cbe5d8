"""Counting (Savina 3): one actor sends another a million messages in one go. Measures a mailbox's throughput.

The whole million waits in one mailbox before the first is handled, in every system: so growing the queue counts too.
An operation is one message. Slow systems send fewer: half a million, Pykka, Thespian and xoscar a hundred thousand.
That flatters Thespian, where a message costs more the more of them wait.

This row has no target: `limit` keeps a million tuples waiting, and the garbage collector, which stays on, walks through
them again and again; a mailbox that keeps no object a message is ahead of it without any merit of its own. The row below,
with short queues, is where the target holds.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage


def plain(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def produce(_ctx: None, n: int) -> None:
        for _ in repeat(None, n):
            append((count, 1))

    def count(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    append((produce, n))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def program(stage: Stage, setting: Setting) -> Play:
    n, total = setting.size, 0
    send = stage.send

    def produce(_me: object, n: int) -> None:
        for _ in repeat(None, n - 1):
            send(counter, 1)
        send(counter, 0)

    def count(_me: object, one: int) -> None:
        nonlocal total
        total += 1
        if not one:
            stage.finish()

    producer, counter = stage.spawn(produce), stage.spawn(count, n)
    return Play(begin=lambda: send(producer, n), operations=n, sent=n, handled=lambda: total)


def classes(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    loop = typed.make()

    class Producer(Actor):
        @tell
        def produce(self, n: int) -> None:
            for _ in repeat(None, n):
                counter.count(1)

    class Counter(Actor):
        @tell
        def count(self, one: int) -> None:
            nonlocal total
            total += one

    producer = loop.spawn(Producer)
    counter = loop.options(mailbox=n).spawn(Counter)
    elapsed = raw.drain(loop, lambda: producer.produce(n))
    raw.settle(loop, n + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="counting",
    title="counting, a million at once",
    what="a million messages from one actor to one other, all at once (Savina 3)",
    size=Size(full=1_000_000, slow=500_000, quick=2_000),
    savina=3,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("counting", setting.size, setting.size),
    },
)
