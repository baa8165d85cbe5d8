"""A large bytes argument to an actor in a process pod, from an actor in this process, one ask at a time: the median.

The answer is the size and the ends of the buffer, and is compared with what they must be; before the clock runs, a digest of the whole buffer is.
An actor gets bytes of its own, in memory that is new for each message; so does a call of `ProcessPoolExecutor`. With
`multiprocessing.shared_memory` the other process gets a view of pages that both share, and no bytes: it makes one copy less.
"""

from __future__ import annotations

from functools import partial

from bench import buffers, latency
from bench.case import Case, Outcome, Setting, Size
from bench.target import ahead_of

MEGABYTE = 1_000_000


def asked(setting: Setting, *, size: int) -> Outcome:
    from bench import pods

    with pods.playing(pods.OneTaker()) as troupe:
        times, right = troupe.giver.give.within(pods.PATIENCE_MS / 1000).blocking(setting.size, size)
    return latency.outcome(times, right)


def _case(name: str, title: str, megabytes: int, size: Size) -> Case:
    length = megabytes * MEGABYTE
    return Case(
        name=name,
        title=title,
        what=f"an actor asks one in a process pod with {megabytes} MB of bytes, the next when it is answered",
        size=size,
        measures={
            "pod": partial(asked, size=length),
            "executor": lambda setting: buffers.executor(setting.size, length),
            "shared": lambda setting: buffers.shared(setting.size, length),
        },
        target=ahead_of("executor"),
    )


CASES = (
    _case("pods-buffer-1", "ask with 1 MB of bytes, median", 1, Size(full=400, slow=200, quick=3)),
    _case("pods-buffer-50", "ask with 50 MB of bytes, median", 50, Size(full=40, slow=20, quick=2)),
)
