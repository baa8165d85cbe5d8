"""Starting a process of our own, and what one holds of it.

The process is a fresh interpreter (never a fork: threads, locks and event loops do not survive one), with our flags, environment and
module path, and the program's own `__main__`. Not by `multiprocessing`: that leaves a helper process behind, and fixes the
program's choice of a start method.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import final

from bandstand.errors import InvalidArgument, StartFailed
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.affinity import home_cores
from bandstand.pod.link.faults import from_fault
from bandstand.pod.process.control import Control
from bandstand.pod.process.errand import Errand, Farewell, Ready
from bandstand.pod.process.exits import Exit
from bandstand.pod.process.letters import LONGEST
from bandstand.pod.process.pickling import pack
from bandstand.pod.process.script import Script, check_guarded
from bandstand.pod.process.watch import watch
from bandstand.streams import above_standard

__all__ = ("Child", "spawn_child")

TARGET = re.compile(r"[\w.]+:\w+")

# The module path comes first, from us: only then is anything imported.
BOOT = "import sys; sys.path = sys.argv[4:]; from bandstand.pod.process.child import main; main()"


async def spawn_child(target: str, *, name: str, payload: object = None, stdout: int | None = None) -> Child:
    """Start a process, and have it run `await target(control, payload)`. It is up when this returns.

    It ends when that ends, when it is killed, and at once when this process ends, or the thread that has started it does, or the
    control channel is closed. Ctrl-C does not reach it: whoever has started it ends it. SIGTERM cancels the target, once.

    Args:
        target: "module:function", a coroutine function that is given a `Control` and the payload.
        name: for people.
        payload: anything that can be pickled, and be found by its name over there.
        stdout: the descriptor that is its standard output; None for our own. Its standard error is ours, its input is empty.

    Raises:
        InvalidArgument: the target is no target; the payload is too long; or the program's script starts this process when it is
            just being imported.
        TypeError: the payload cannot be pickled.
        StartFailed: the process did not come up; the cause is why, if it could tell. Nothing is left of it. Likewise
            if the wait for it is cancelled.
    """
    who = f"process {name!r}"
    check_guarded(who)
    if not TARGET.fullmatch(target):
        raise InvalidArgument(f'{who}: target is {safe_repr(target)}: pass "module:function"')
    packed = pack(payload, f"to {who}")
    if len(packed) > LONGEST // 2:
        # Before it is started: it could not be told what for.
        raise InvalidArgument(
            f"{who}: the payload takes {len(packed)} bytes, and may take {LONGEST // 2}: send the rest later, or by a file"
        )
    errand = Errand(
        target=target,
        payload=packed,
        script=Script.here(),
        argv=tuple(sys.argv),
        cores=home_cores(),
    )
    try:
        child = _launch(name, errand, stdout)
    except OSError as error:
        raise StartFailed(f"{who} did not start: {safe_str(error)}") from error
    try:
        await child.wait_ready()
    except BaseException:  # cancelled or not: it is of no use to anybody
        await child.close()
        raise
    return child


@final
class Child:
    """A process that was started here. Everything belongs on the thread that has started it.

    As a block (`async with`), it is killed at the end, if it has not ended.

    Attributes:
        name: for people.
        pid: its number.
        control: what is said to it, and what it says.
    """

    __slots__ = ("_ended", "_exit", "_farewell", "_popen", "_ready", "_watch", "control", "name", "pid")

    def __init__(self, name: str, popen: subprocess.Popen[bytes], sock: socket.socket) -> None:
        event_loop = asyncio.get_running_loop()
        self.name = name
        self.pid = popen.pid
        self._popen = popen
        self._exit: Exit | None = None
        self._farewell: Farewell | None = None
        self._ended: asyncio.Future[Exit] = event_loop.create_future()
        self._ready: asyncio.Future[None] = event_loop.create_future()
        self.control = Control(sock, f"process {name!r}", on_notice=self._hear)
        self._watch = watch(popen.pid, self._bury)

    @property
    def exit(self) -> Exit | None:
        """How it has ended; None while it runs."""
        return self._exit

    async def wait(self) -> Exit:
        """Wait for its end. By then it is reaped, and all that it has said can be received."""
        return await asyncio.shield(self._ended)

    async def wait_ready(self) -> None:
        """Wait until it runs its target.

        Raises:
            StartFailed: it has ended before.
        """
        await asyncio.wait((self._ready, self._ended), return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done() and self._exit is not None:
            raise StartFailed(
                f"process {self.name!r} did not start: {self._exit.sentence}"
            ) from self._exit.cause

    def terminate(self) -> None:
        """Ask it to end in good order, by SIGTERM: its target is cancelled."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, by SIGKILL."""
        self._signal(signal.SIGKILL)

    async def close(self) -> Exit:
        """Kill it if it has not ended, wait for its end, and release everything."""
        self.kill()
        try:
            return await self.wait()
        finally:
            self.control.close()

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "running" if self._exit is None else self._exit.sentence
        return f"<process {self.name!r}, pid {self.pid}, {state}>"

    def _signal(self, number: int) -> None:
        # Its number is its own until it is reaped, and that is done on this thread.
        if self._exit is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _hear(self, notice: object) -> None:
        if isinstance(notice, Farewell):
            self._farewell = notice
        elif isinstance(notice, Ready) and not self._ready.done():
            self._ready.set_result(None)

    def _bury(self, status: int | None) -> None:
        # Popen would wait for it once more, and warn.
        self._popen.returncode = 0 if status is None else os.waitstatus_to_exitcode(status)
        end = Exit.unknown() if status is None else Exit.of_status(status)
        # First what it has left: its farewell may be among it.
        self.control.finish(end.sentence)
        if self._farewell is not None and end.code:
            last = self._farewell
            end = replace(end, sentence=last.sentence, cause=from_fault(last.fault))
        self._exit = end
        if not self._ended.done():
            self._ended.set_result(end)


def _launch(name: str, errand: Errand, stdout: int | None) -> Child:
    """Start it, and tell it what for.

    Raises:
        OSError: the operating system does not let us.
    """
    # A child's 0, 1 and 2 are set up anew: in a program that runs with one of them closed, its end would be lost.
    ours, theirs = map(above_standard, socket.socketpair())
    try:
        with theirs:
            popen = _open(name, theirs.fileno(), stdout)
        child = Child(name, popen, ours)
    except BaseException:  # whatever it was, Ctrl-C included: the other end hears that we are gone
        ours.close()
        raise
    child.control.notify(errand)
    return child


def _open(name: str, fd: int, stdout: int | None) -> subprocess.Popen[bytes]:
    if not sys.executable or getattr(sys, "frozen", False):
        raise InvalidArgument(
            f"process {name!r} cannot be started: this program is frozen or embedded, and there is no Python to start it with"
        )
    # There is no public name for it; multiprocessing uses this one.
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009  # not in anybody's stubs
    # What is no text there, Python passes over as well.
    entries: list[object] = [*sys.path]
    path = [entry for entry in entries if isinstance(entry, str)]
    command = [sys.executable, *flags, "-c", BOOT, name, str(os.getpid()), str(fd), *path]
    # Ctrl-C is for the whole group of processes; a child that has not come as far as to ignore it is shielded from it by a
    # mask, which it inherits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, pass_fds=(fd,))  # noqa: S603  # ourselves
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
