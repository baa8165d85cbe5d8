"""Identifiers that sort by time: 26 letters and digits, as a ULID is written.

48 bits of milliseconds and 80 random ones, in Crockford's base 32. The random bits are drawn anew in each millisecond, and
inside it the last number is counted up: so the ids of one maker are unique and sorted, and drawing costs once a millisecond.
A clock that is set back does not undo the order: the last millisecond seen goes on.

Two makers, or two processes, share no counter: between them it is 80 random bits that keep ids apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeAlias

from bandstand.bus.numbers import ALPHABET, MS, TAIL_BITS

Nanoseconds: TypeAlias = int
Milliseconds: TypeAlias = int
Count: TypeAlias = int

# The last four characters, twenty bits, change with every id; what stands before them is kept.
PAIRS = tuple([first + second for first in ALPHABET for second in ALPHABET])


class IdMaker:
    """Makes ids. One for each thread: it counts without a lock.

    Args:
        now_ns: where the time comes from: nanoseconds since 1970.
        draw: where the randomness comes from: `draw(n)` gives n random bytes.
    """

    __slots__ = ("_draw", "_end_ns", "_head", "_head_number", "_now_ns", "_tail", "last_ms")

    def __init__(
        self, now_ns: Callable[[], int] = time.time_ns, draw: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._now_ns = now_ns
        self._draw = draw
        # When the millisecond is over whose ids are being counted.
        self._end_ns: Nanoseconds = 0
        # The millisecond of the last id: for whoever needs a timestamp to go with it.
        self.last_ms: Milliseconds = 0
        self._head = ""
        self._head_number = 0
        self._tail: Count = 0

    def __call__(self) -> str:
        """One more id, greater than all before it."""
        return self.make()

    def make(self) -> str:
        """One more id, greater than all before it."""
        now = self._now_ns()
        if now >= self._end_ns:
            tail = self._begin(now // MS)
        else:
            tail = self._tail + 1
            if tail >> TAIL_BITS:
                # More than can be counted in the tail: the head counts on.
                tail = 0
                self._set_head(self._head_number + 1)
        self._tail = tail
        return self._head + PAIRS[tail >> 10] + PAIRS[tail & 1023]

    def now_ms(self) -> Milliseconds:
        """The time, in milliseconds since 1970."""
        return self._now_ns() // MS

    def _begin(self, now: Milliseconds) -> Count:
        self.last_ms = now
        self._end_ns = (now + 1) * MS
        # The topmost random bit stays clear, so that counting on cannot reach into the time.
        chance = int.from_bytes(self._draw(10), "big") & ((1 << 79) - 1)
        self._set_head((int(now) << 60) | (chance >> TAIL_BITS))
        return chance & ((1 << TAIL_BITS) - 1)

    def _set_head(self, number: int) -> None:
        self._head_number = number
        self._head = "".join([ALPHABET[number >> shift & 31] for shift in range(105, -1, -5)])
