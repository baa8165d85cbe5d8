"""To a pod in a process of its own, from an actor in this one: one-way as fast as there is room, and asks, one at a time.

One-way, the clock runs until the last message was handled over there, and the sender waits only where the receiver's mailbox, of the
usual 1,024 slots, is full. Of asks the figure is the median, with the 99th percentile in the JSON (`p99_ns`).

What is comparable: `multiprocessing.Queue` is unbounded, and its `put` never waits; it has no acknowledgements, no lanes and no
books, and what is in it when a process dies is lost without a word. An ask with it is a queue there and one back. *bare* is a
pair of sockets with blocking calls, eight bytes each way: the least that two processes can do, without an event loop, frames, or anybody else
who could be served meanwhile. Ray's are an actor in a worker process: it has no one-way call, so its results are left alone but for the last.
"""

from __future__ import annotations

from bench import clusters, latency, processes
from bench.case import Case, Outcome, Setting, Size
from bench.target import at_rate


def told(setting: Setting) -> Outcome:
    from bench import pods

    with pods.playing(pods.OneProcess()) as troupe:
        elapsed = troupe.sender.stream.within(pods.PATIENCE_MS).blocking(setting.size)
        handled = troupe.adder.value.blocking()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


def asked(setting: Setting) -> Outcome:
    from bench import pods

    with pods.playing(pods.OneProcess()) as troupe:
        times, right = troupe.sender.questions.within(pods.PATIENCE_MS).blocking(setting.size)
    return latency.outcome(times, right)


CASES = (
    Case(
        name="pods-process",
        title="one-way to a process",
        what="an actor sends to one in a process pod, as fast as there is room",
        size=Size(full=100_000, slow=50_000, quick=1_000),
        measures={
            "pod": told,
            "mp": lambda setting: processes.tell(setting.size),
            "ray": lambda setting: clusters.tell(setting.size),
        },
        target=at_rate(**{"mp.Queue": 5.0}),
    ),
    Case(
        name="pods-process-ask",
        title="ask of a process, median",
        what="an actor asks one in a process pod, the next when it is answered",
        size=Size(full=20_000, slow=5_000, quick=100),
        measures={
            "pod": asked,
            "bare": lambda setting: processes.echo(setting.size),
            "mp": lambda setting: processes.ask(setting.size),
            "ray": lambda setting: clusters.ask(setting.size),
        },
        target=at_rate(bare=0.5),
    ),
)
