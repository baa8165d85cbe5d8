"""Finding what a test has left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.core import Loop

__all__ = ("Leaks", "leaks_of", "pending_tasks")

# Workers that wait for the end of somebody's event loop, which has yet to come. Our own loops end theirs.
WORKERS = ("asyncio_", "AnyIO worker thread")
# What a loop calls the tasks in which it runs async behaviors.
DRIVER = "bandstand driver"


@dataclass(frozen=True, slots=True)
class Leaks:
    """A snapshot of what a process holds; `since` tells what is there now and was not then."""

    threads: frozenset[threading.Thread]
    fds: frozenset[int]

    @classmethod
    def now(cls) -> Leaks:
        """Look at the process as it is."""
        _open_what_stays()
        return cls(frozenset(threading.enumerate()), _open_fds())

    def since(self, *, patience: float = 1.0) -> list[str]:
        """Say, in words, which threads and descriptors have come since the snapshot and do not go.

        Garbage is collected first, and what is just ending is given `patience` seconds. Workers of asyncio's default
        executors and of anyio end with their event loop, and are not counted.
        """
        if not self._found():
            return []
        gc.collect()
        end = monotonic() + patience
        while (found := self._found()) and monotonic() < end:
            threading.Event().wait(0.005)
        return found

    def allowing(self, before: Leaks, after: Leaks) -> Leaks:
        """This snapshot, but what came between two others is not held against anybody."""
        return Leaks(
            self.threads | (after.threads - before.threads),
            self.fds | (after.fds - before.fds),
        )

    def _found(self) -> list[str]:
        now = Leaks.now()
        threads = [
            f"thread {thread.name!r} still runs"
            for thread in sorted(now.threads - self.threads, key=lambda thread: thread.name)
            if thread.is_alive() and not thread.name.startswith(WORKERS)
        ]
        fds = [f"descriptor {fd} is still open ({_name(fd)})" for fd in sorted(now.fds - self.fds)]
        return threads + fds


def leaks_of(loop: Loop) -> list[str]:
    """Say, in words, what a loop still holds. A destroyed loop holds nothing."""
    books = loop.statistics()
    held = [
        (books.alive, "actors live"),
        (books.timers_pending, "timers are pending"),
        (books.in_flight, "async behaviors are in flight"),
        (books.fds, "descriptors are watched"),
        (books.waiting, "messages wait"),
    ]
    return [f"{count} {what}" for count, what in held if count]


def pending_tasks(event_loop: asyncio.AbstractEventLoop, *, drivers: bool = True) -> list[str]:
    """Say, in words, which tasks of an event loop have not ended.

    Without `drivers`, the tasks do not count that a `Loop` keeps for its async behaviors, idle ones included.
    """
    names = sorted(task.get_name() for task in asyncio.all_tasks(event_loop) if not task.done())
    return [f"task {name!r} has not ended" for name in names if drivers or name != DRIVER]


@cache
def _open_what_stays() -> None:
    """Have uvloop open what it opens once for the whole process, with its first event loop, before anybody counts."""
    try:
        import uvloop
    except ImportError:
        return
    uvloop.new_event_loop().close()


def _open_fds() -> frozenset[int]:
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return frozenset()
    return frozenset(fd for fd in map(int, names) if _is_open(fd))


def _is_open(fd: int) -> bool:
    # The listing's own descriptor is in the listing, and closed by now.
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _name(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "closed meanwhile"
