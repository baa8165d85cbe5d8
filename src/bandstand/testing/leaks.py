"""Finding what a test has left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass

from bandstand.core import Loop

__all__ = ("Leaks", "leaks_of")


@dataclass(frozen=True, slots=True)
class Leaks:
    """A snapshot of what a process holds; `since` tells what is there now and was not then."""

    threads: frozenset[threading.Thread]
    fds: frozenset[int]

    @classmethod
    def now(cls) -> Leaks:
        """Look at the process as it is."""
        return cls(frozenset(threading.enumerate()), _open_fds())

    def since(self) -> list[str]:
        """Say, in words, which threads and descriptors have come since the snapshot."""
        now = Leaks.now()
        threads = [
            f"thread {thread.name!r} still runs" for thread in now.threads - self.threads if thread.is_alive()
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


def pending_tasks(event_loop: asyncio.AbstractEventLoop) -> list[str]:
    """Say, in words, which tasks of an event loop have not ended."""
    return [
        f"task {task.get_name()!r} has not ended" for task in asyncio.all_tasks(event_loop) if not task.done()
    ]


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
