"""Whether memory is flat: the process's resident pages and Python's own blocks, in the warm-up and at the end.

Worlds differ in size, and an allocator keeps what the largest needed. So the most that was held after a world of the
warm-up is compared with the least that was held after one of the last worlds: a leak grows past that, a large world
does not.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from ctypes import CDLL
from dataclasses import dataclass

MEBIBYTE = 1 << 20
RESIDENT_TOLERANCE = 16 * MEBIBYTE
"""What may be resident beyond the warm-up: the allocator's own raggedness, whatever the length of the run."""
BLOCKS_TOLERANCE = 20_000
"""How many more blocks Python may hold: caches of the interpreter, a few numbers. One leaked loop holds more."""


@dataclass(frozen=True, slots=True)
class Memory:
    """How much the process holds at one moment."""

    resident: int
    blocks: int

    @classmethod
    def now(cls) -> Memory:
        """Look at the process, once what is free has been given back to the system where that is possible."""
        gc.collect()
        trim = getattr(CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), sys.getallocatedblocks())

    @classmethod
    def most(cls, readings: Sequence[Memory]) -> Memory:
        """The most of each."""
        return cls(max(one.resident for one in readings), max(one.blocks for one in readings))

    @classmethod
    def least(cls, readings: Sequence[Memory]) -> Memory:
        """The least of each."""
        return cls(min(one.resident for one in readings), min(one.blocks for one in readings))

    def growth(self, then: Memory) -> list[str]:
        """Say in words what has grown since `then` beyond its tolerance."""
        resident, blocks = self.resident - then.resident, self.blocks - then.blocks
        grown: list[str] = []
        if resident > RESIDENT_TOLERANCE:
            grown.append(
                f"{resident / MEBIBYTE:.1f} MiB more are resident than after the warm-up; "
                f"{RESIDENT_TOLERANCE / MEBIBYTE:.0f} would pass"
            )
        if blocks > BLOCKS_TOLERANCE:
            grown.append(
                f"{blocks} more blocks are allocated than after the warm-up; {BLOCKS_TOLERANCE} would pass"
            )
        return grown
