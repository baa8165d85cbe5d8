"""Sockets that are not for forks.

Whoever has a copy of an end of a socket keeps it open: the other end does not hear that its owner has gone. What is started in an
orderly way gets no copies; but a program may fork (`multiprocessing` does, where it is left to itself), and a fork has everything. So
every fork closes, first of all, the ends that were reserved here. It leaves event loops alone: their poller is shared with the original.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from weakref import WeakSet

__all__ = ("reserve",)

_reserved: WeakSet[socket.socket] = WeakSet()


def reserve(sock: socket.socket) -> None:
    """Have a socket closed in whatever is forked off this process, for as long as the object lives."""
    _reserved.add(sock)


def _close_all() -> None:
    for sock in list(_reserved):
        # A fork of a fork has closed it before.
        with suppress(OSError):
            sock.close()
    _reserved.clear()


os.register_at_fork(after_in_child=_close_all)
