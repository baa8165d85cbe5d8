"""A ledger that outlives whoever writes it: a file that every process of a troupe has mapped into its memory.

What an actor has written down a moment before its process is killed is there all the same. Every message has a *source*, whoever sent
it, and a number that counts up and is used once. So "in order" is "growing", for every source, role and lane, over all incarnations;
and there is a byte for each message, which says how often it was begun.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from pathlib import Path
from typing import final

ROLES = ("juggler", "acrobat", "lion", "tiger", "director")
SOURCES = 16
"""Those who send: the crowd first, then the roles, from FIRST_ROLE on."""
FIRST_ROLE = SOURCES - len(ROLES)
MOST = 1 << 18
"""Messages of one source."""
LANES = 2

WIDTH = 8
"""The bytes of a number."""


class Count(IntEnum):
    """What is counted for each role, over all its incarnations."""

    BEGUN = 0
    DONE = 1
    ANSWERED = 2
    SENT = 3
    """Numbers that it has used as a source."""
    BORN = 4


COUNTS = len(ROLES) * len(Count)
LASTS = len(ROLES) * SOURCES * LANES
HEAD = (COUNTS + LASTS) * WIDTH
SIZE = HEAD + SOURCES * MOST


@final
class Ledger:
    """One process's view of the file. It travels as its path."""

    def __init__(self, path: str, home: int) -> None:
        self._path = path
        self.home = home
        """The process of the troupe itself."""
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._view = memoryview(self._map)
        self._numbers = self._view[:HEAD].cast("Q")
        self._seen = self._view[HEAD:]

    @classmethod
    def create(cls, path: str) -> Ledger:
        """A new one, with nothing in it."""
        with Path(path).open("wb") as file:
            file.truncate(SIZE)
        Path(f"{path}.wrong").touch()
        return cls(path, os.getpid())

    def __reduce__(self) -> tuple[type[Ledger], tuple[str, int]]:
        return Ledger, (self._path, self.home)

    def close(self) -> None:
        """Let go of the file."""
        self._numbers.release()
        self._seen.release()
        self._view.release()
        self._map.close()

    # -- what actors write -----------------------------------------------------------------------------------------------------

    def add(self, role: int, what: Count) -> int:
        """Count one; how many that makes. A role is one actor at a time, so nobody needs a lock."""
        place = role * len(Count) + what
        self._numbers[place] += 1
        return self._numbers[place]

    def begin(self, role: int, source: int, number: int, lane: int) -> None:
        """A message is about to be handled."""
        self.add(role, Count.BEGUN)
        place = COUNTS + (role * SOURCES + source) * LANES + lane
        last = self._numbers[place]
        if number <= last:
            self.complain(f"{ROLES[role]} was given {source}/{number} after {source}/{last}: out of order")
        self._numbers[place] = number
        byte = source * MOST + number
        if self._seen[byte]:
            self.complain(f"{ROLES[role]} was given {source}/{number}, which was begun before")
        self._seen[byte] = 1

    def complain(self, sentence: str) -> None:
        """Something is wrong."""
        # One write: lines of several processes do not mix.
        fd = os.open(f"{self._path}.wrong", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, f"{sentence}\n".encode())
        finally:
            os.close(fd)

    # -- what is read in the end -----------------------------------------------------------------------------------------------

    def count(self, what: Count) -> int:
        """The sum over all roles."""
        return sum(self._numbers[role * len(Count) + what] for role in range(len(ROLES)))

    def was_begun(self, source: int, number: int) -> bool:
        """Whether anybody has begun to handle a message."""
        return bool(self._seen[source * MOST + number])

    def complaints(self) -> list[str]:
        """What was found to be wrong, in all processes."""
        return Path(f"{self._path}.wrong").read_text("utf-8").splitlines()
