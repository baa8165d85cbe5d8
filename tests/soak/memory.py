"""Whether memory is flat: the process's resident pages and Python's own blocks, after the warm-up and at the end."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass

MEBIBYTE = 1 << 20
RESIDENT_TOLERANCE = 24 * MEBIBYTE
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
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), sys.getallocatedblocks())

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
            grown.append(f"{blocks} more blocks are allocated than after the warm-up; {BLOCKS_TOLERANCE} would pass")
        return grown
