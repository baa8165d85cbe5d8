"""Starting a child process, talking to it and waiting for its exit.

The child is a fresh interpreter, never a fork: threads, locks and event loops do not survive one. It has the flags, environment,
module path and `__main__` of this process. `multiprocessing` does not fit: it leaves a helper process behind, and would fix the
start method for the whole program.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from types import TracebackType
from typing import Protocol, TypeAlias, final

from bandstand.errors import InvalidArgumentError, StartError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.cpu_affinity import process_cores
from bandstand.pod.link.codec import unpack_error
from bandstand.pod.process.child import ProcessFailure, ProcessReady, ProcessStart
from bandstand.pod.process.control import MAX_FRAME_BYTES, ControlChannel, pickle_message
from bandstand.pod.process.main_module import MainModule, check_main_guard
from bandstand.streams import above_standard

__all__ = ("ChildProcess", "ProcessExit", "spawn_child")

TARGET_PATTERN = re.compile(r"[\w.]+:\w+")

# Sets the module path of the parent before it imports anything else.
BOOT_CODE = "import sys; sys.path = sys.argv[4:]; from bandstand.pod.process.child import main; main()"


async def spawn_child(
    target: str, *, name: str, payload: object = None, stdout: int | None = None
) -> ChildProcess:
    """Start a process that runs `await target(control, payload)`. When this returns, the target is running.

    The process exits when the target returns, and at once when it is killed, when this process or the starting thread ends, or
    when the control channel is closed. It ignores Ctrl-C: this process has to stop it. SIGTERM cancels the target, once.

    Args:
        target: "module:function", a coroutine function that takes a `ControlChannel` and the payload.
        name: the name of the process in errors and in `ps`.
        payload: any object that can be pickled, with classes that the child can import by name.
        stdout: the descriptor to use as its standard output; None to inherit. It inherits standard error, and its standard
            input is empty.

    Raises:
        InvalidArgumentError: the target is malformed; the payload is too large; or the main module of the program starts this process
            when it is imported.
        TypeError: the payload cannot be pickled.
        StartError: the process did not start; the cause says why, if the child could report it. On this error, and on
            cancellation, the process is gone.
    """
    who = f"process {name!r}"
    check_main_guard(who)
    if not TARGET_PATTERN.fullmatch(target):
        raise InvalidArgumentError(f'{who}: target is {safe_repr(target)}: pass "module:function"')
    data = pickle_message(payload, f"to {who}")
    # Checked before the process starts: the payload is part of the first notice to it.
    if len(data) > MAX_FRAME_BYTES // 2:
        raise InvalidArgumentError(
            f"{who}: the payload takes {len(data)} bytes, and the limit is {MAX_FRAME_BYTES // 2}: send the rest later, or by a file"
        )
    start = ProcessStart(
        target=target,
        payload=data,
        main_module=MainModule.current(),
        argv=tuple(sys.argv),
        cores=process_cores(),
    )
    try:
        child = _start_process(name, start, stdout)
    except OSError as error:
        raise StartError(f"{who} did not start: {safe_str(error)}") from error
    try:
        await child.wait_ready()
    except BaseException:  # including a cancellation: the caller has no child that it could close
        await child.close()
        raise
    return child


@final
class ChildProcess:
    """A running child process. Use it on the thread that has started it.

    As an `async with` block, it kills the process at the end of the block.

    Attributes:
        name: the name of the process.
        pid: the process id.
        control: the channel to the process.
    """

    __slots__ = ("_error", "_exit", "_exited", "_popen", "_ready", "_watch", "control", "name", "pid")

    def __init__(self, name: str, popen: subprocess.Popen[bytes], sock: socket.socket) -> None:
        event_loop = asyncio.get_running_loop()
        self.name = name
        self.pid = popen.pid
        self._popen = popen
        self._exit: ProcessExit | None = None
        self._error: ProcessFailure | None = None
        self._exited: asyncio.Future[ProcessExit] = event_loop.create_future()
        self._ready: asyncio.Future[None] = event_loop.create_future()
        self.control = ControlChannel(sock, f"process {name!r}", on_notice=self._on_notice)
        self._watch = watch_exit(popen.pid, self._on_exit)

    @property
    def exit(self) -> ProcessExit | None:
        """How the process has ended; None while it runs."""
        return self._exit

    async def wait(self) -> ProcessExit:
        """Wait for the process to exit. It is reaped by then, and all messages that it has written can be received."""
        return await asyncio.shield(self._exited)

    async def wait_ready(self) -> None:
        """Wait until the process runs its target.

        Raises:
            StartError: the process has exited before that.
        """
        await asyncio.wait((self._ready, self._exited), return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done() and self._exit is not None:
            raise StartError(
                f"process {self.name!r} did not start: {self._exit.reason}"
            ) from self._exit.cause

    def terminate(self) -> None:
        """Send SIGTERM, which cancels the target. Does nothing after the exit."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL. Does nothing after the exit."""
        self._signal(signal.SIGKILL)

    async def close(self) -> ProcessExit:
        """Kill the process if it runs, wait for its exit, and close the control channel."""
        self.kill()
        try:
            return await self.wait()
        finally:
            self.control.close()

    async def __aenter__(self) -> ChildProcess:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "running" if self._exit is None else self._exit.reason
        return f"<process {self.name!r}, pid {self.pid}, {state}>"

    def _signal(self, number: int) -> None:
        # The pid cannot be reused before the process is reaped, and that happens on this thread.
        if self._exit is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _on_notice(self, notice: object) -> None:
        if isinstance(notice, ProcessFailure):
            self._error = notice
        elif isinstance(notice, ProcessReady) and not self._ready.done():
            self._ready.set_result(None)

    def _on_exit(self, status: int | None) -> None:
        # Without a return code, Popen would wait for the process again and warn.
        self._popen.returncode = 0 if status is None else os.waitstatus_to_exitcode(status)
        result = ProcessExit.unknown() if status is None else ProcessExit.of_status(status)
        # Read the rest first: a ProcessFailure may be part of it.
        self.control.finish(result.reason)
        if self._error is not None and result.code:
            result = replace(result, reason=self._error.reason, cause=unpack_error(self._error.fault))
        self._exit = result
        if not self._exited.done():
            self._exited.set_result(result)


def _start_process(name: str, start: ProcessStart, stdout: int | None) -> ChildProcess:
    """Start the interpreter, and send it what to run.

    Raises:
        OSError: the operating system refuses.
    """
    # Popen replaces the descriptors 0, 1 and 2 of the child. If one of them is closed here, a new socket would get its number.
    ours, theirs = map(above_standard, socket.socketpair())
    try:
        with theirs:
            popen = _popen(name, theirs.fileno(), stdout)
        child = ChildProcess(name, popen, ours)
    except BaseException:  # including KeyboardInterrupt: a started child exits when the channel is closed
        ours.close()
        raise
    child.control.notify(start)
    return child


def _popen(name: str, fd: int, stdout: int | None) -> subprocess.Popen[bytes]:
    if not sys.executable or getattr(sys, "frozen", False):
        raise InvalidArgumentError(
            f"process {name!r} cannot be started: this program is frozen or embedded, and there is no Python to start it with"
        )
    # This function has no public name; multiprocessing uses it as well.
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009  # not in the type stubs
    # Python ignores other objects in sys.path, too.
    entries: list[object] = [*sys.path]
    path = [entry for entry in entries if isinstance(entry, str)]
    command = [sys.executable, *flags, "-c", BOOT_CODE, name, str(os.getpid()), str(fd), *path]
    # A terminal sends Ctrl-C to the whole process group. The child inherits this mask, which protects it until it ignores SIGINT.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, pass_fds=(fd,))  # noqa: S603  # our own code
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- exits -----------------------------------------------------------------------------------------------------------------

# Signal names that need an explanation.
SIGNAL_MEANINGS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGABRT: "aborted",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
}


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process has ended: with an exit code or by a signal. Both are None if that is unknown."""

    code: int | None
    """The exit code; None if a signal has ended the process."""
    signal: int | None
    """The number of the signal that has ended the process."""
    reason: str
    """The exit as text: "killed by SIGKILL", "exit code 3", or the exception that the child has reported."""
    cause: BaseException | None = None
    """The exception that the child has reported, or a `RemoteError` if it cannot be restored. Its cause has the child's traceback."""

    @property
    def is_clean(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0

    @classmethod
    def of_status(cls, status: int) -> ProcessExit:
        """Decode a wait status of the operating system."""
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return cls(code, None, f"exit code {code}")
        return cls(None, -code, f"killed by {_signal_name(-code)}")

    @classmethod
    def unknown(cls) -> ProcessExit:
        """The exit of a process that other code of the program has reaped."""
        return cls(
            None,
            None,
            "gone, with an unknown exit status: other code in this program has waited for it (os.wait?)",
        )


def _signal_name(number: int) -> str:
    try:
        known = signal.Signals(number)
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
    meaning = SIGNAL_MEANINGS.get(known)
    return known.name if meaning is None else f"{known.name} ({meaning})"


# Called with the wait status, or None if other code has reaped the process.
StatusCallback: TypeAlias = Callable[[int | None], object]


class ProcessWatch(Protocol):
    """Waits for the exit of a child process."""

    def cancel(self) -> None:
        """Stop waiting. Does nothing after the exit."""
        ...


def watch_exit(pid: int, callback: StatusCallback) -> ProcessWatch:
    """Call a function once, on the running event loop, when a child process has exited; it is reaped by then.

    Uses a pidfd where the operating system has them, and otherwise a thread that waits.
    """
    event_loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        # The platform has none, a sandbox forbids it, or the process is at its limit of open descriptors.
        return _ThreadWatch(event_loop, pid, callback)
    return _PidfdWatch(event_loop, pid, fd, callback)


class _PidfdWatch:
    __slots__ = ("_callback", "_event_loop", "_fd", "_pid")

    def __init__(
        self, event_loop: asyncio.AbstractEventLoop, pid: int, fd: int, callback: StatusCallback
    ) -> None:
        self._event_loop = event_loop
        self._pid = pid
        self._fd: int | None = fd
        self._callback = callback
        event_loop.add_reader(fd, self._readable)

    def _readable(self) -> None:
        if self._fd is None:
            return
        status: int | None
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._pid, None
        if pid:
            self.cancel()
            self._callback(status)

    def cancel(self) -> None:
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        if self._event_loop.is_closed():
            os.close(fd)
        else:
            self._event_loop.remove_reader(fd)
            # uvloop requires that the descriptor outlives this callback.
            self._event_loop.call_soon(os.close, fd)


class _ThreadWatch:
    __slots__ = ("_callback", "_event_loop", "_pid", "_thread")

    def __init__(self, event_loop: asyncio.AbstractEventLoop, pid: int, callback: StatusCallback) -> None:
        self._event_loop = event_loop
        self._pid = pid
        self._callback: StatusCallback | None = callback
        self._thread = Thread(target=self._wait, name=f"bandstand waits for {pid}", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        status: int | None
        try:
            _pid, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            status = None
        # If the event loop is closed, the result is not needed.
        with suppress(RuntimeError):
            self._event_loop.call_soon_threadsafe(self._finish, status)

    def _finish(self, status: int | None) -> None:
        # The thread is about to end.
        self._thread.join()
        if self._callback is not None:
            self._callback(status)

    def cancel(self) -> None:
        self._callback = None
