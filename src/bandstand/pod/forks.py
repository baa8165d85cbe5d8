"""What a fork must not keep: sockets, and troupes that play.

Whoever has a copy of an end of a socket keeps it open: the other end does not hear that its owner has gone. What is started in an
orderly way gets no copies; but a program may fork (`multiprocessing` does, where it is left to itself), and a fork has everything. So
every fork closes, first of all, the ends that were reserved here. It leaves event loops alone: their poller is shared with the original.

A fork has no threads but the one that forked. A troupe that plays in the original does not play in the fork, so the troupe object
there is told: it must not wait for pods that do not exist.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakMethod, WeakSet

__all__ = ("call_in_forks", "reserve")


_reserved: WeakSet[socket.socket] = WeakSet()
_enlisted: set[WeakMethod[Callable[[], None]]] = set()


def reserve(sock: socket.socket) -> None:
    """Have a socket closed in whatever is forked off this process, for as long as the object lives."""
    _reserved.add(sock)


def call_in_forks(method: Callable[[], None]) -> None:
    """Have a method called in whatever is forked off this process, for as long as its object lives.

    Only the thread that forked is there. A lock may be held for ever by one that is not.
    """
    _enlisted.add(WeakMethod(method, _enlisted.discard))


def _in_fork() -> None:
    _close_all()
    enlisted = list(_enlisted)
    _enlisted.clear()
    for known in enlisted:
        method = known()
        if method is not None:
            method()


def _close_all() -> None:
    for sock in list(_reserved):
        # A fork of a fork has closed it before.
        with suppress(OSError):
            sock.close()
    _reserved.clear()


os.register_at_fork(after_in_child=_in_fork)
