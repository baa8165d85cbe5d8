"""What the standard library has between two processes: multiprocessing.Queue, and a bare pair of sockets.

The queue is used as people use it: unbounded, `put` on one side and `get` on the other; a thread of its own in the sender pickles and
writes. The sockets are as bare as it gets: eight bytes there and eight bytes back, with blocking calls, no frames, no event loop.
Asks are made from one core to another, as between pods: on one core they take less than half the time, and where they run is up to
chance otherwise.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from time import perf_counter_ns

from bench import latency, stopwatch
from bench.case import Outcome

PATIENCE = 60.0
WIDTH = 8
SPAWN = multiprocessing.get_context("spawn")
"""A fresh interpreter, as that of a process pod is."""


NEAR, FAR = 1, 0
"""Which of the cores that we may use an asker has, and which the process that it asks."""


def core(index: int) -> int | None:
    """The number of a core that we may use; None where there are not so many, or where the system does not tell."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[index] if index < len(cores) else None


@contextmanager
def pinned(number: int | None) -> Generator[None]:
    """Pin this thread, and what it starts, to a core; to none if there is no number."""
    if number is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def living(child: BaseProcess) -> Generator[None]:
    """Start a process; it ends by itself when it has done its work, and is killed if it does not."""
    child.start()
    try:
        yield
        child.join(PATIENCE)
    finally:
        child.kill()
        child.join()
        child.close()


def _add_up(inbox: Queue[int], outbox: Queue[int], count: int) -> None:
    """Say that we are there; add so many numbers up, and say the sum."""
    total, get = 0, inbox.get
    outbox.put(0)
    for _ in repeat(None, count):
        total += get()
    outbox.put(total)


def tell(count: int) -> Outcome:
    """So many numbers through a queue, from this process to another."""
    there, back = SPAWN.Queue(), SPAWN.Queue()
    with _closing(there, back), living(SPAWN.Process(target=_add_up, args=(there, back, count), daemon=True)):
        back.get(timeout=PATIENCE)
        put = there.put
        start = stopwatch.start()
        for _ in repeat(None, count):
            put(1)
        total = back.get(timeout=PATIENCE)
        elapsed = stopwatch.since(start)
    return Outcome(total=elapsed, operations=count, sent=count, handled=total)


def _answer(inbox: Queue[int], outbox: Queue[int], count: int, number: int | None) -> None:
    """Say that we are there; answer so many numbers with the sum so far, on a core."""
    total = 0
    with pinned(number):
        outbox.put(0)
        for _ in repeat(None, count):
            total += inbox.get()
            outbox.put(total)


def ask(count: int) -> Outcome:
    """So many numbers through one queue, one at a time, and each answer through another."""
    there, back = SPAWN.Queue(), SPAWN.Queue()
    times: list[int] = []
    right = 0
    far = core(FAR)
    with (
        pinned(core(NEAR)),
        _closing(there, back),
        living(SPAWN.Process(target=_answer, args=(there, back, count, far), daemon=True)),
    ):
        back.get(timeout=PATIENCE)
        stopwatch.start()
        for expected in range(1, count + 1):
            start = perf_counter_ns()
            there.put(1)
            answer = back.get(timeout=PATIENCE)
            times.append(perf_counter_ns() - start)
            right += answer == expected
    return latency.outcome(times, right)


@contextmanager
def _closing(*queues: Queue[int]) -> Generator[None]:
    """Queues have descriptors and a thread; both are let go."""
    try:
        yield
    finally:
        for queue in queues:
            queue.close()
            queue.join_thread()


def _mirror(connection: socket.socket, number: int | None) -> None:
    """Say that we are there; answer numbers with the sum so far, on a core, until nobody is left to ask."""
    total = 0
    with pinned(number), connection:
        connection.sendall(bytes(WIDTH))
        while data := connection.recv(WIDTH):
            total += int.from_bytes(data, "little")
            connection.sendall(total.to_bytes(WIDTH, "little"))


def echo(count: int) -> Outcome:
    """So many numbers over a pair of sockets, one at a time, each of them answered."""
    ours, theirs = socket.socketpair()
    times: list[int] = []
    right = 0
    far = core(FAR)
    with (
        pinned(core(NEAR)),
        theirs,
        living(SPAWN.Process(target=_mirror, args=(theirs, far), daemon=True)),
        ours,
    ):
        # The other process has its own: should it end, nobody waits for ever.
        theirs.close()
        ours.settimeout(PATIENCE)
        ours.recv(WIDTH)
        # Blocking calls, nothing else: with a timeout, every one of them would ask `poll` first.
        ours.settimeout(None)
        one = (1).to_bytes(WIDTH, "little")
        send, receive = ours.sendall, ours.recv
        stopwatch.start()
        for expected in range(1, count + 1):
            start = perf_counter_ns()
            send(one)
            data = receive(WIDTH)
            times.append(perf_counter_ns() - start)
            right += int.from_bytes(data, "little") == expected
    return latency.outcome(times, right)
