"""Being woken by a signal.

A signal comes to whichever thread the system picks, but its handler, which is Python's, runs on the main thread alone; and that one,
waiting for a lock or in its event loop, does not hear of it. So while it waits it has Python write each signal into a socket, and
waits for that as well.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import socket
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ("hearing_signals", "wait_hearing")

# How many signals are read at once; what they were, their handlers know.
MANY = 4096


def wait_hearing(future: Future[Any]) -> None:  # of whatever it brings
    """Wait until it is done, on a plain thread; handlers of signals run meanwhile, and what they raise comes out."""
    with _alarm() as heard:
        if heard is None:
            future.result()
            return
        ours, theirs = heard

        def ring(_future: object) -> None:
            # Nobody may be waiting any more.
            with suppress(OSError):
                theirs.send(b"\0")

        future.add_done_callback(ring)
        with selectors.DefaultSelector() as selector:
            selector.register(ours, selectors.EVENT_READ)
            while not future.done():
                selector.select()
                _drain(ours)
    future.result()


@contextmanager
def hearing_signals() -> Generator[None]:
    """Inside the block, have signals wake the event loop that runs on this thread. Nothing, if it hears of them by itself."""
    with _alarm() as heard:
        if heard is None:
            yield
            return
        home, ours = asyncio.get_running_loop(), heard[0]
        home.add_reader(ours.fileno(), _drain, ours)
        try:
            yield
        finally:
            home.remove_reader(ours.fileno())


@contextmanager
def _alarm() -> Generator[tuple[socket.socket, socket.socket] | None]:
    """Two sockets: what is written into the second for every signal can be read from the first. None where that is in others' hands."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # noqa: FBT003  # the socket's own signature
        theirs.setblocking(False)  # noqa: FBT003  # likewise
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        if before != -1:
            # An event loop that hears of signals by itself: uvloop's does.
            signal.set_wakeup_fd(before)
            yield None
            return
        try:
            yield ours, theirs
        finally:
            signal.set_wakeup_fd(-1)


def _drain(ours: socket.socket) -> None:
    with suppress(BlockingIOError):
        ours.recv(MANY)
