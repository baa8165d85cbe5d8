"""When a child process ends: noticed, and reaped, on the thread of the event loop.

By a descriptor of the process where the operating system has those, so that nobody waits on purpose; else by a thread that does
nothing but wait, and is joined.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Protocol, TypeAlias

__all__ = ("watch",)

# What hears of the end: the status as the operating system gives it, or None if somebody else was given it.
Heir: TypeAlias = Callable[[int | None], object]


class Watch(Protocol):
    """Something that watches a process."""

    def cancel(self) -> None:
        """Watch no more. Nothing happens if the process has ended."""
        ...


def watch(pid: int, heir: Heir) -> Watch:
    """Have a function called once, on this event loop, when a child process has ended; by then it is reaped."""
    event_loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        # The platform has none, a sandbox forbids it, or there are no descriptors left.
        return _ByThread(event_loop, pid, heir)
    return _ByDescriptor(event_loop, pid, fd, heir)


class _ByDescriptor:
    __slots__ = ("_event_loop", "_fd", "_heir", "_pid")

    def __init__(self, event_loop: asyncio.AbstractEventLoop, pid: int, fd: int, heir: Heir) -> None:
        self._event_loop = event_loop
        self._pid = pid
        self._fd: int | None = fd
        self._heir = heir
        event_loop.add_reader(fd, self._look)

    def _look(self) -> None:
        if self._fd is None:
            return
        status: int | None
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._pid, None
        if pid:
            self.cancel()
            self._heir(status)

    def cancel(self) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        if self._event_loop.is_closed():
            os.close(fd)
        else:
            self._event_loop.remove_reader(fd)
            # In a turn of its own: uvloop insists.
            self._event_loop.call_soon(os.close, fd)


class _ByThread:
    __slots__ = ("_event_loop", "_heir", "_pid", "_thread")

    def __init__(self, event_loop: asyncio.AbstractEventLoop, pid: int, heir: Heir) -> None:
        self._event_loop = event_loop
        self._pid = pid
        self._heir: Heir | None = heir
        self._thread = Thread(target=self._wait, name=f"bandstand waits for {pid}", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        status: int | None
        try:
            _pid, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            status = None
        # The event loop may be closed by now: then nobody wants to know.
        with suppress(RuntimeError):
            self._event_loop.call_soon_threadsafe(self._tell, status)

    def _tell(self, status: int | None) -> None:
        # It has nothing left to do.
        self._thread.join()
        if self._heir is not None:
            self._heir(status)

    def cancel(self) -> None:
        self._heir = None
