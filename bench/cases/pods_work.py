"""Work that keeps a core busy, on two process pods: what threads cannot share, because one interpreter runs at a time.

Pieces of about a millisecond are asked of the workers, all at once, and every answer is compared with what it must be. An operation is one
piece. *one* is the same work on one process pod: on a machine with two cores to spare, two pods must have 1.8 times its rate.
"""

from __future__ import annotations

import os
from functools import partial

from bench import stopwatch
from bench.case import Case, Outcome, Setting, Size
from bench.target import at_rate

PATIENCE = 60.0
WINDOW = 500
"""Pieces that wait at a time: fewer than the mailbox of a worker holds."""


def worked(setting: Setting, *, is_alone: bool) -> Outcome:
    from bench import pods

    right, n = 0, setting.size
    wanted = {number: pods.piece(number) for number in range(WINDOW)}
    with pods.playing(pods.OneWorker() if is_alone else pods.TwoWorkers()) as troupe:
        workers = [troupe.first, troupe.second] if isinstance(troupe, pods.TwoWorkers) else [troupe.first]
        for worker in workers:
            worker.work.blocking(0)
        start = stopwatch.start()
        for first in range(0, n, WINDOW):
            numbers = range(min(WINDOW, n - first))
            ask = [worker.work.within(pods.PATIENCE_MS / 1000).future for worker in workers]
            answers = [ask[number % len(ask)](number) for number in numbers]
            right += sum(
                answer.result(PATIENCE) == wanted[number]
                for number, answer in zip(numbers, answers, strict=True)
            )
        elapsed = stopwatch.since(start)
    return Outcome(
        total=elapsed,
        operations=n,
        sent=n,
        handled=right,
        details={"workers": float(len(workers)), "cores": float(os.cpu_count() or 1)},
    )


CASE = Case(
    name="pods-work",
    title="work on two processes",
    what="pieces of a millisecond for two process pods, and for one",
    size=Size(full=1_000, slow=1_000, quick=20),
    measures={"pod": partial(worked, is_alone=False), "one": partial(worked, is_alone=True)},
    target=at_rate(one=1.8),
    repeats=1,
)
