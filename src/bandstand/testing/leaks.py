"""Find what a test left behind: threads, file descriptors, actors, timers and tasks."""

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

# The worker threads of event loops that are still open, by the beginning of their names. A bandstand loop ends its own.
WORKERS = ("asyncio_", "AnyIO worker thread")
# The name of the tasks in which a loop runs async behaviors.
DRIVER = "bandstand driver"


@dataclass(frozen=True, slots=True)
class Leaks:
    """A snapshot of the threads and file descriptors of the process; `since` returns what was added after it."""

    threads: frozenset[threading.Thread]
    fds: frozenset[int]

    @classmethod
    def now(cls) -> Leaks:
        """Take a snapshot."""
        _open_permanent_descriptors()
        return cls(frozenset(threading.enumerate()), _open_fds())

    def since(self, *, patience: float = 1.0) -> list[str]:
        """Return a sentence for each thread and descriptor that was opened after the snapshot and is still open.

        This collects garbage first, and waits up to `patience` seconds for threads and descriptors that are closing. Worker
        threads of asyncio's default executor and of anyio do not count: they end with their event loop.
        """
        if not self._found():
            return []
        gc.collect()
        end = monotonic() + patience
        while (found := self._found()) and monotonic() < end:
            threading.Event().wait(0.005)
        return found

    def allowing(self, before: Leaks, after: Leaks) -> Leaks:
        """Return this snapshot plus what was opened between two others, so that `since` does not report it."""
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
    """Return a sentence for each kind of thing that a loop still holds. A destroyed loop holds nothing."""
    statistics = loop.statistics()
    held = [
        (statistics.alive, "actors are alive"),
        (statistics.timers_pending, "timers are pending"),
        (statistics.in_flight, "async behaviors are in flight"),
        (statistics.fds, "descriptors are watched"),
        (statistics.waiting, "messages are waiting"),
    ]
    return [f"{count} {what}" for count, what in held if count]


def pending_tasks(event_loop: asyncio.AbstractEventLoop, *, drivers: bool = True) -> list[str]:
    """Return a sentence for each task of an event loop that has not ended.

    With `drivers=False`, the tasks in which a `Loop` runs async behaviors do not count.
    """
    names = sorted(task.get_name() for task in asyncio.all_tasks(event_loop) if not task.done())
    return [f"task {name!r} has not ended" for name in names if drivers or name != DRIVER]


@cache
def _open_permanent_descriptors() -> None:
    """Make uvloop open the descriptors that its first event loop opens once for the whole process."""
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
    # The list contains the descriptor of the listing itself, which is closed by now.
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _name(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "closed in the meantime"
