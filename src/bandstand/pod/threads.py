"""Between threads: call a function on another thread's loop, wait for another thread, wake for signals, clean up after a fork.

A *call later* (`CallLater`) calls a function on one thread after a delay. Any thread may request the call and cancel it. There are two
kinds, because a pod has two kinds of loops: `call_later_on` for an event loop, `call_later_on_loop` for a loop of actors.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem

__all__ = (
    "CallLater",
    "call_in_forks",
    "call_later_here",
    "call_later_on",
    "call_later_on_loop",
    "call_threadsafe",
    "close_in_forks",
    "signals_wake_event_loop",
    "wait_done",
    "wait_with_signals",
)

CallLater: TypeAlias = Callable[[float, Callable[[], object]], Callable[[], object]]
"""Calls a function after so many milliseconds, on one thread. Returns a function that cancels the call."""

# How many bytes of the wakeup socket are read at once. Their values do not matter: the signal handlers run anyway.
READ_SIZE = 4096


# -- calls on another thread -----------------------------------------------------------------------------------------------------


def call_threadsafe(event_loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> bool:
    """Call a function on the thread of an event loop, after the calls requested before. From any thread.

    Returns:
        False if the event loop is closed: the function is not called.
    """
    try:
        event_loop.call_soon_threadsafe(function)
    except RuntimeError:
        return False
    return True


def call_later_on(event_loop: asyncio.AbstractEventLoop) -> CallLater:
    """Return a `CallLater` for the thread of an event loop. Once the event loop is closed, functions are not called."""

    def call_later(ms: float, function: Callable[[], object]) -> Callable[[], object]:
        timers: list[asyncio.TimerHandle] = []

        def begin() -> None:
            timers.append(event_loop.call_later(ms / 1000, function))

        def cancel() -> None:
            # Calls keep their order, so `begin` has run by then.
            call_threadsafe(event_loop, lambda: timers[0].cancel())  # noqa: PLW0108  # not filled yet

        call_threadsafe(event_loop, begin)
        return cancel

    return call_later


def call_later_on_loop(loop: ActorSystem) -> CallLater:
    """Return a `CallLater` for the thread of a loop of actors. Once the loop is closed, functions are not called."""
    kernel = loop.kernel

    def call_later(ms: float, function: Callable[[], object]) -> Callable[[], object]:
        cancels: list[Callable[[], object]] = []

        def begin() -> None:
            if not kernel.is_closed:
                cancels.append(kernel.call_later(int(ms) + 1, function))

        def cancel() -> None:
            if not kernel.is_closed:
                # Calls keep their order, so `begin` has run by then.
                kernel.inbox.call_soon(lambda: cancels and cancels[0]())

        kernel.inbox.call_soon(begin)
        return cancel

    return call_later


def call_later_here() -> CallLater | None:
    """Return a `CallLater` for the event loop that runs on this thread; None if none runs."""
    try:
        return call_later_on(asyncio.get_running_loop())
    except RuntimeError:
        return None


# -- waiting for another thread --------------------------------------------------------------------------------------------------


async def wait_done(future: Future[Any]) -> None:
    """Wait on an event loop until a future of another thread is done, with a result or not.

    Cancelling the wait does not cancel the future.
    """
    event_loop = asyncio.get_running_loop()
    waiter = event_loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(lambda _future: call_threadsafe(event_loop, wake))
    await waiter


# -- signals ---------------------------------------------------------------------------------------------------------------------
#
# The system delivers a signal to any thread, but Python runs its handler on the main thread only. If the main thread waits for a lock,
# or in its event loop, it does not notice. So while it waits, Python writes each signal into a socket (`signal.set_wakeup_fd`), and the
# main thread waits for that socket as well.


def wait_with_signals(future: Future[Any]) -> None:
    """Wait on a plain thread until a future is done. Signal handlers run meanwhile, and what they raise is raised here."""
    with _wakeup_sockets() as sockets:
        if sockets is None:
            future.result()
            return
        reader, writer = sockets

        def wake(_future: object) -> None:
            # The wait may be over, and the socket closed.
            with suppress(OSError):
                writer.send(b"\0")

        future.add_done_callback(wake)
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            while not future.done():
                selector.select()
                _drain(reader)
    future.result()


@contextmanager
def signals_wake_event_loop() -> Generator[None]:
    """Inside the block, let signals wake the event loop of this thread. Event loops that do this themselves stay as they are."""
    with _wakeup_sockets() as sockets:
        if sockets is None:
            yield
            return
        event_loop, reader = asyncio.get_running_loop(), sockets[0]
        event_loop.add_reader(reader.fileno(), _drain, reader)
        try:
            yield
        finally:
            event_loop.remove_reader(reader.fileno())


@contextmanager
def _wakeup_sockets() -> Generator[tuple[socket.socket, socket.socket] | None]:
    """Provide a pair of sockets: Python writes each signal into the second, to be read from the first.

    None if this is not the main thread, or if an event loop has set a wakeup descriptor already.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)  # noqa: FBT003  # the socket's own signature
        writer.setblocking(False)  # noqa: FBT003  # likewise
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        if before != -1:
            # uvloop handles signals this way itself.
            signal.set_wakeup_fd(before)
            yield None
            return
        try:
            yield reader, writer
        finally:
            signal.set_wakeup_fd(-1)


def _drain(reader: socket.socket) -> None:
    with suppress(BlockingIOError):
        reader.recv(READ_SIZE)


# -- forks -----------------------------------------------------------------------------------------------------------------------
#
# A copy of a socket keeps it open: the peer does not notice that the owner is gone. Children that this package starts get no copies, but a
# program may fork (`multiprocessing` does by default on some platforms), and a fork has copies of everything. So every fork first closes
# the sockets that are registered here. It leaves event loops alone: their poller is shared with the original.
#
# A fork has only the thread that forked. A deployment that runs in the original does not run in the fork, so its object in the fork
# must be changed: it must not wait for pods that are not there.

_sockets: WeakSet[socket.socket] = WeakSet()
# The names of the methods to call, by their objects. Not a WeakMethod for each: one that is freed in the same collection as its
# object makes Python 3.11 print a traceback.
_methods: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def close_in_forks(sock: socket.socket) -> None:
    """Close a socket in every process that is forked from this one, as long as the object lives."""
    _sockets.add(sock)


def call_in_forks(method: Callable[[], None]) -> None:
    """Call a method in every process that is forked from this one, as long as its object lives. One method per object.

    Only the thread that forked exists there: a lock that another thread held is never released.
    """
    bound: Any = method
    _methods[bound.__self__] = bound.__name__


def _after_fork() -> None:
    for sock in list(_sockets):
        # A fork of a fork has closed it already.
        with suppress(OSError):
            sock.close()
    _sockets.clear()
    methods = list(_methods.items())
    _methods.clear()
    for owner, name in methods:
        getattr(owner, name)()


os.register_at_fork(after_in_child=_after_fork)
