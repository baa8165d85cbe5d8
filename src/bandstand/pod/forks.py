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
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

__all__ = ("call_in_forks", "reserve")


_reserved: WeakSet[socket.socket] = WeakSet()
# The names of the methods to call, by their objects. Not a WeakMethod for each: one that is freed in the same collection as its
# object makes Python 3.11 print a traceback.
_methods: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def reserve(sock: socket.socket) -> None:
    """Have a socket closed in whatever is forked off this process, for as long as the object lives."""
    _reserved.add(sock)


def call_in_forks(method: Callable[[], None]) -> None:
    """Call a method in every process that is forked off this one, for as long as its object lives: one method for each object.

    Only the thread that forked is there. A lock may be held for ever by one that is not.
    """
    bound: Any = method
    _methods[bound.__self__] = bound.__name__


def _in_fork() -> None:
    _close_all()
    methods = list(_methods.items())
    _methods.clear()
    for known, name in methods:
        getattr(known, name)()


def _close_all() -> None:
    for sock in list(_reserved):
        # A fork of a fork has closed it before.
        with suppress(OSError):
            sock.close()
    _reserved.clear()


os.register_at_fork(after_in_child=_in_fork)
