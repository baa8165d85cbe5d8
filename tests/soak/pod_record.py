"""A record that survives the processes that write it: a file that every process of a deployment maps into its memory.

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

ROLES = ("cooperative", "dedicated", "process_a", "process_b", "main")
SOURCES = 16
"""The sources of messages: the senders first, then the roles, from FIRST_ROLE on."""
FIRST_ROLE = SOURCES - len(ROLES)
MOST = 1 << 18
"""Messages of one source."""
LANES = 2

WIDTH = 8
"""The bytes of a number."""


class Count(IntEnum):
    """What is counted for each role, over all its restarts."""

    BEGUN = 0
    DONE = 1
    ANSWERED = 2
    SENT = 3
    """Numbers that it has used."""
    STARTED = 4


COUNTS = len(ROLES) * len(Count)
LASTS = len(ROLES) * SOURCES * LANES
HEAD = (COUNTS + LASTS) * WIDTH
SIZE = HEAD + SOURCES * MOST


@final
class Record:
    """The view of one process. It is pickled as a path."""

    def __init__(self, path: str, home: int) -> None:
        self._path = path
        self.home = home
        """The process that created it."""
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._view = memoryview(self._map)
        self._numbers = self._view[:HEAD].cast("Q")
        self._seen = self._view[HEAD:]

    @classmethod
    def create(cls, path: str) -> Record:
        """Create an empty record."""
        with Path(path).open("wb") as file:
            file.truncate(SIZE)
        Path(f"{path}.wrong").touch()
        return cls(path, os.getpid())

    def __reduce__(self) -> tuple[type[Record], tuple[str, int]]:
        return Record, (self._path, self.home)

    def close(self) -> None:
        """Close the file."""
        self._numbers.release()
        self._seen.release()
        self._view.release()
        self._map.close()

    # -- what actors write -----------------------------------------------------------------------------------------------------

    def add(self, role: int, what: Count) -> int:
        """Add one to a counter and return it. A role is one actor at a time, so no lock is needed."""
        place = role * len(Count) + what
        self._numbers[place] += 1
        return self._numbers[place]

    def begin(self, role: int, source: int, number: int, lane: int) -> None:
        """Record that a message is about to be handled."""
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
        """Record that something is wrong."""
        # One write: lines of several processes do not mix.
        fd = os.open(f"{self._path}.wrong", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, f"{sentence}\n".encode())
        finally:
            os.close(fd)

    # -- what is read in the end -----------------------------------------------------------------------------------------------

    def count(self, what: Count) -> int:
        """Return the sum over all roles."""
        return sum(self._numbers[role * len(Count) + what] for role in range(len(ROLES)))

    def was_begun(self, source: int, number: int) -> bool:
        """Return whether a message was begun to be handled."""
        return bool(self._seen[source * MOST + number])

    def complaints(self) -> list[str]:
        """Return what all processes have found wrong."""
        return Path(f"{self._path}.wrong").read_text("utf-8").splitlines()
