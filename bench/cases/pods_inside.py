"""Between two actors of one pod: a direct call, where the callee is idle.

One actor, in a plain method, sends another one a burst of 500; a third one has it do so, and asks for the sum after each, which are two
asks in 500 messages. An operation is one message. All are on the pod's own thread; nobody else runs meanwhile.

What is comparable: *queued* is the same actors, on a typed loop that calls nobody directly, so every message goes through
a mailbox and the run queue. *bare* is a deque with a function for each message, as `limit` of the other table. Neither of the two nests,
so neither needs to look whether the callee is idle, or how deep it is.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat

from bench import limit, stopwatch, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError

BURST = 500


def inside(setting: Setting) -> Outcome:
    # Here and below: what needs msgspec is not there in the peers' environment, so neither is its BURST.
    from bench import pods

    with pods.playing(pods.OnePod()) as troupe:
        elapsed = troupe.conductor.conduct.within(pods.PATIENCE_MS / 1000).blocking(setting.size // BURST)
        handled = troupe.adder.value.blocking()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


def queued(setting: Setting) -> Outcome:
    from bandstand.actor import ActorSystem
    from bench import pods

    async def body(loop: ActorSystem) -> Outcome:
        adder = loop.spawn(pods.Adder)
        sender = loop.spawn(pods.Sender, pods.Peers(adder=adder))
        conductor = loop.spawn(pods.Conductor, pods.Crew(adder=adder, sender=sender))
        elapsed = await conductor.conduct.within(pods.PATIENCE_MS / 1000)(setting.size // BURST)
        handled = await adder.value()
        if loop.statistics().refused:
            raise WrongResultError("a burst has found no room")
        return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)

    return typed.beside(body)


def bare(setting: Setting) -> Outcome:
    n, total = setting.size, 0
    tasks: limit.Tasks = deque()
    append, popleft = tasks.append, tasks.popleft

    def add(_ctx: None, one: int) -> None:
        nonlocal total
        total += one

    start = stopwatch.start()
    for _ in repeat(None, n // BURST):
        for _ in repeat(None, BURST):
            append((add, 1))
        while tasks:
            handler, data = popleft()
            handler(None, data)
    elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="pods-inside",
    title="one-way inside a pod",
    what="one actor calls another of its pod, in bursts of 500",
    size=Size(full=1_000_000, slow=200_000, quick=2_000),
    measures={"pod": inside, "queued": queued, "bare": bare},
)
