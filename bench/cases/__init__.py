"""The cases, in the order of the table. A new one is a file here and a line in this list."""

from __future__ import annotations

from bench.case import Case
from bench.cases import (
    ask,
    ask_async,
    ask_latency,
    bank,
    barber,
    batches,
    big,
    bounded,
    buffer,
    bus_ask,
    bus_fanout,
    bus_requests,
    chameneos,
    channels,
    coroutines,
    counting,
    create,
    cross_thread,
    dictionary,
    fanin,
    fibonacci,
    flood,
    forkjoin,
    growth,
    importing,
    lanes,
    logistic,
    memory,
    persistence,
    philosophers,
    pingpong,
    pods_buffers,
    pods_inside,
    pods_process,
    pods_thread,
    pods_work,
    restart,
    ring,
    skynet,
    smokers,
    sortedlist,
    storm,
    tell,
    timer_churn,
    timer_fired,
)

CASES: tuple[Case, ...] = (
    counting.CASE,
    batches.CASE,
    bounded.CASE,
    pingpong.CASE,
    ring.CASE,
    fanin.CASE,
    forkjoin.CASE,
    create.CASE,
    fibonacci.CASE,
    chameneos.CASE,
    big.CASE,
    dictionary.CASE,
    sortedlist.CASE,
    buffer.CASE,
    philosophers.CASE,
    barber.CASE,
    smokers.CASE,
    logistic.CASE,
    bank.CASE,
    skynet.CASE,
    *growth.CASES,
    restart.CASE,
    storm.CASE,
    *tell.CASES,
    *ask.CASES,
    ask_latency.CASE,
    *ask_async.CASES,
    *timer_churn.CASES,
    timer_fired.CASE,
    *cross_thread.CASES,
    *coroutines.CASES,
    *memory.CASES,
    *importing.CASES,
    *flood.CASES,
    *lanes.CASES,
    *channels.CASES,
    pods_inside.CASE,
    *pods_thread.CASES,
    *pods_process.CASES,
    *pods_buffers.CASES,
    pods_work.CASE,
    *bus_requests.CASES,
    *bus_ask.CASES,
    *bus_fanout.CASES,
    persistence.CASE,
)


def by_name(name: str) -> Case:
    """Find a case.

    Raises:
        LookupError: there is none of that name.
    """
    for case in CASES:
        if case.name == name:
            return case
    raise LookupError(f"no case {name!r}; the cases are {', '.join(case.name for case in CASES)}")
