"""To a pod in its own process, from an actor in this one: one-way as fast as there is room, and asks, one at a time.

One-way, the clock runs until the last message is handled in the other process. The sender waits only where the mailbox of the receiver, with the
usual 1,024 slots, is full. For asks the figure is the median; the 99th percentile is in the JSON (`p99_ns`).

What is comparable: `multiprocessing.Queue` is unbounded, and its `put` never waits. It has no acknowledgements, lanes or counts, and loses what is in it
without a report when a process dies. An ask with it takes one queue in each direction. *bare* is a pair of sockets with blocking calls and eight
bytes each way: the least that two processes can do, without an event loop, frames, or other clients. An ask takes more than twice as long where the
two processes are on two cores, and the system places different programs differently. So whoever asks, and who answers, are pinned to a core each, where there
are two; Ray's are not. Ray has an actor in a worker process and no one-way call, so
all its results but the last are ignored.
"""

from __future__ import annotations

from bench import clusters, latency, processes
from bench.case import Case, Outcome, Setting, Size
from bench.target import at_rate


def told(setting: Setting) -> Outcome:
    from bench import pods

    with pods.playing(pods.OneProcess()) as troupe:
        elapsed = troupe.sender.stream.within(pods.PATIENCE_MS / 1000).blocking(setting.size)
        handled = troupe.adder.value.blocking()
    return Outcome(total=elapsed, operations=setting.size, sent=setting.size, handled=handled)


def asked(setting: Setting) -> Outcome:
    from bench import pods

    with pods.playing(pods.OnTwoCores()) as troupe:
        times, right = troupe.sender.questions.within(pods.PATIENCE_MS / 1000).blocking(setting.size)
    return latency.outcome(times, right)


def linked(setting: Setting) -> Outcome:
    from bench import links

    return links.ask(setting)


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

COUNTED = (
    Case(
        name="link-ask",
        title="ask over a link, both ends in one process",
        what="an actor asks one at the other end of a link, the next when it is answered",
        size=Size(full=20_000, slow=5_000, quick=100),
        measures={"pod": linked},
    ),
)
"""What is counted only."""
