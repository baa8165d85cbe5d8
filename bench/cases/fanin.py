"""Fan-in: a hundred actors send to one. Measures many senders into one mailbox.

Each sends bursts of ten; the sink answers the last of a burst, and its sender goes on. So at most a thousand messages wait
in every system, the sink keeps its default cap, and the garbage collector has no long queue to walk through (see
`counting`). An operation is one message to the sink; the answer, one in ten, is paid for by the ten.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage, Who
from bench.target import ahead_of

SENDERS = 100
BURST = 10


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def sender() -> limit.Handler:
        left = bursts

        def produce(_ctx: None, _go: None) -> None:
            nonlocal left
            if left:
                left -= 1
                for _ in repeat(None, BURST - 1):
                    append((count, None))
                append((count, produce))

        return produce

    def count(_ctx: None, last_of: limit.Handler | None) -> None:
        nonlocal total
        total += 1
        if last_of is not None:
            append((last_of, None))

    for _ in range(SENDERS):
        append((sender(), None))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def program(stage: Stage, setting: Setting) -> Play:
    bursts, total = setting.size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    send = stage.send

    def sender() -> Who:
        left = bursts

        def produce(_me: object, _go: None) -> None:
            nonlocal left
            if left:
                left -= 1
                for _ in repeat(None, BURST - 1):
                    send(sink, None)
                send(sink, me)

        me = stage.spawn(produce)
        return me

    def count(_me: object, last_of: Who) -> None:
        nonlocal total
        total += 1
        if last_of is not None:
            send(last_of, None)
            if total == n:
                stage.finish()

    sink = stage.spawn(count)
    senders = [sender() for _ in range(SENDERS)]

    def begin() -> None:
        for each in senders:
            send(each, None)

    return Play(begin=begin, operations=n, sent=n, handled=lambda: total)


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // (SENDERS * BURST), 0
    n = bursts * SENDERS * BURST
    loop = typed.make()

    class Sender(Actor):
        def __init__(self, number: int) -> None:
            self.number = number
            self.left = bursts

        @tell
        def produce(self) -> None:
            if self.left:
                self.left -= 1
                for _ in repeat(None, BURST - 1):
                    sink.count(-1)
                sink.count(self.number)

    class Sink(Actor):
        @tell
        def count(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of >= 0:
                senders[last_of].produce()

    sink = loop.spawn(Sink)
    senders = [loop.spawn(Sender, number) for number in range(SENDERS)]
    elapsed = raw.drain(loop, *(sender.produce for sender in senders))
    raw.settle(loop, n + SENDERS * (bursts + 1))
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def with_otp(setting: Setting) -> Outcome:
    return otp.run("fanin", setting.size // (SENDERS * BURST) * SENDERS * BURST, SENDERS, BURST)


CASE = Case(
    name="fan-in",
    title="fan-in, 100 to 1",
    what="a hundred actors send to one, in bursts of ten",
    size=Size(full=1_000_000, slow=300_000, quick=2_000),
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": with_otp,
    },
    target=ahead_of("erlang"),
)
