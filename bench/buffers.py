"""Large buffers with what the standard library has: `ProcessPoolExecutor`, and `multiprocessing.shared_memory` together with it.

With shared memory, each message has a block of its own, as one has in a program where several are under way: it is created, filled,
opened by the other process, and unlinked. That process reads it in place, and makes no copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing.shared_memory import SharedMemory
from time import perf_counter_ns
from typing import TypeAlias

from bench import latency, stopwatch
from bench.case import Outcome
from bench.processes import PATIENCE, SPAWN

Ends: TypeAlias = tuple[int, bytes, bytes]
"""The size of a buffer, its first bytes and its last ones: what each answer is checked by."""

WIDTH = 8


def make(size: int) -> bytes:
    """Make a buffer whose parts all differ."""
    block = b"".join(number.to_bytes(WIDTH, "little") for number in range(min(size, 1 << 20) // WIDTH))
    return (block * (size // len(block) + 1))[:size]


def ends_of(data: bytes | memoryview) -> Ends:
    return len(data), bytes(data[:WIDTH]), bytes(data[-WIDTH:])


def digest(data: bytes | memoryview) -> bytes:
    """Sum up all of a buffer, once, beside the clock: the ends do not tell what is between them."""
    return hashlib.sha256(data).digest()


def executor(count: int, size: int) -> Outcome:
    """So many calls, one at a time, each with the buffer as its argument."""
    data = make(size)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:

        def call(function: Callable[[bytes], object]) -> object:
            return pool.submit(function, data).result(PATIENCE)

        return timed(count, lambda: call(ends_of), ends_of(data), lambda: call(digest) == digest(data))


def shared(count: int, size: int) -> Outcome:
    """The same with the name of a block of shared memory as the argument."""
    data = make(size)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:

        def call(function: Callable[[str, int], object]) -> object:
            block = SharedMemory(create=True, size=size)
            try:
                _memory(block)[:size] = data
                return pool.submit(function, block.name, size).result(PATIENCE)
            finally:
                block.close()
                block.unlink()

        return timed(
            count, lambda: call(_shared_ends), ends_of(data), lambda: call(_shared_digest) == digest(data)
        )


def _shared_ends(name: str, size: int) -> Ends:
    block = SharedMemory(name)
    with _memory(block)[:size] as view:
        ends = ends_of(view)
    block.close()
    return ends


def _shared_digest(name: str, size: int) -> bytes:
    block = SharedMemory(name)
    with _memory(block)[:size] as view:
        whole = digest(view)
    block.close()
    return whole


def _memory(block: SharedMemory) -> memoryview:
    """The memory of a block, which is None once it is closed."""
    memory = block.buf
    assert memory is not None
    return memory


def timed(count: int, ask: Callable[[], object], ends: Ends, is_whole: Callable[[], bool]) -> Outcome:
    """Ask so many times; every answer must be the ends, and the whole buffer must have arrived once."""
    times: list[int] = []
    right = 0
    is_right = is_whole()
    stopwatch.start()
    for _ in repeat(None, count):
        start = perf_counter_ns()
        answer = ask()
        times.append(perf_counter_ns() - start)
        right += answer == ends
    return latency.outcome(times, right if is_right else 0)
