"""Real descriptors for tests: pipes, sockets, terminals and eventfds whose readiness can be controlled."""

from __future__ import annotations

import os
import pty
import socket
import tty
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, Self

from bandstand.core import Interest, Loop

PATIENCE = 30  # seconds; how long a test waits for an event
EVENTFD_FULL = 2**64 - 2


class Descriptors:
    """Opens non-blocking descriptors, and closes those that are still open at the end."""

    def __init__(self) -> None:
        self.open: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self.open:
            with suppress(OSError):
                os.close(fd)
        self.open.clear()

    def keep(self, *fds: int) -> None:
        for fd in fds:
            os.set_blocking(fd, False)
            self.open.add(fd)

    def close(self, *fds: int) -> None:
        for fd in fds:
            self.open.discard(fd)
            os.close(fd)

    def pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self.keep(read, write)
        return read, write

    def sockets(self) -> tuple[int, int]:
        one, other = socket.socketpair()
        pair = one.detach(), other.detach()
        self.keep(*pair)
        return pair

    def terminal(self) -> tuple[int, int]:
        """Return the master and the slave of a new terminal in raw mode."""
        master, slave = pty.openpty()
        tty.setraw(slave)
        self.keep(master, slave)
        return master, slave

    def eventfd(self, value: int = 0) -> int:
        fd = os.eventfd(value, os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        self.keep(fd)
        return fd


class Subject(NamedTuple):
    """A descriptor that is not ready for `interest`, and functions that change its readiness."""

    fd: int
    interest: Interest
    ready: Callable[[], object]
    """Makes it ready; for READ, by one unit."""
    take: Callable[[], object]
    """Consumes its readiness; for READ, one unit."""


def fill_up(fd: int) -> None:
    """Write until the descriptor accepts no more."""
    for size in (65536, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(fd, b"x" * size)


def empty_out(fd: int) -> bytes:
    """Read until nothing is left."""
    parts: list[bytes] = []
    with suppress(BlockingIOError):
        while part := os.read(fd, 65536):
            parts.append(part)
    return b"".join(parts)


def _readable(fd: int, peer: int) -> Subject:
    return Subject(fd, Interest.READ, lambda: os.write(peer, b"x"), lambda: os.read(fd, 1))


def _writable(fd: int, peer: int) -> Subject:
    fill_up(fd)
    return Subject(fd, Interest.WRITE, lambda: empty_out(peer), lambda: fill_up(fd))


def _readable_eventfd(descriptors: Descriptors) -> Subject:
    fd = descriptors.eventfd()
    return Subject(fd, Interest.READ, lambda: os.eventfd_write(fd, 1), lambda: os.eventfd_read(fd))


def _writable_eventfd(descriptors: Descriptors) -> Subject:
    fd = descriptors.eventfd(0)
    os.eventfd_write(fd, EVENTFD_FULL)
    return Subject(fd, Interest.WRITE, lambda: os.eventfd_read(fd), lambda: os.eventfd_write(fd, 1))


SUBJECTS: dict[str, Callable[[Descriptors], Subject]] = {
    "pipe to read": lambda descriptors: _readable(*descriptors.pipe()),
    "pipe to write": lambda descriptors: _writable(*descriptors.pipe()[::-1]),
    "socket to read": lambda descriptors: _readable(*descriptors.sockets()),
    "socket to write": lambda descriptors: _writable(*descriptors.sockets()),
    "master to read": lambda descriptors: _readable(*descriptors.terminal()),
    "slave to read": lambda descriptors: _readable(*descriptors.terminal()[::-1]),
    "eventfd to read": _readable_eventfd,
    "eventfd to write": _writable_eventfd,
}


def poll_until(loop: Loop, happened: Callable[[], bool]) -> None:
    """Run ticks until something has happened: the operating system delivers the bytes of a terminal with a delay."""
    end = monotonic() + PATIENCE
    while not happened():
        loop.poll_once()
        assert monotonic() < end, "it never happened"
