"""The main function of a child process, and what it and the parent send each other around the start.

A child process must not outlive its parent. On Linux the kernel guarantees that, even while a handler never yields: it sends
PR_SET_PDEATHSIG when the *thread* ends that has started the child. This is the right thread, because the other end of the
control channel lives on its event loop. On other systems, and if that thread closes the channel, the child exits as soon as its
event loop sees that the channel has ended.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeAlias

from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BandstandError, InvalidArgumentError, InvalidMessageError
from bandstand.errors.formatting import safe_repr
from bandstand.pod.cpu_affinity import allow_cores
from bandstand.pod.link.codec import PackedError, pack_error
from bandstand.pod.process.control import ControlChannel, unpickle_message
from bandstand.pod.process.main_module import MainModule
from bandstand.streams import open_standard_streams

__all__ = ("ProcessFailure", "ProcessReady", "ProcessStart", "exit_without_memory", "main")

# The payload can be any object.
Target: TypeAlias = Callable[[ControlChannel, Any], Coroutine[Any, Any, object]]

# The exit code after an exception, as in any Python program.
EXIT_FAILED = 1
# The exit code after the parent has gone. No process reads it.
EXIT_ORPHANED = 70

# From <sys/prctl.h>.
PR_SET_PDEATHSIG = 1

# How long the child tries to write its last messages: the parent may be too busy to read.
FLUSH_TIMEOUT_S = 5.0


# -- notices: a child can unpickle them before it has loaded the program, so objects of the program are pickled separately ---------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStart:
    """The first notice to a child: what to run."""

    target: str
    """The coroutine function to run: "module:function"."""
    payload: bytes
    """The pickled argument for the target."""
    main_module: MainModule
    """The main module of the program."""
    argv: tuple[str, ...]
    """The command line arguments of the program."""
    cores: frozenset[int] | None
    """The CPU cores to run on; None to leave them as they are."""


@dataclass(frozen=True, slots=True)
class ProcessReady:
    """The child has loaded everything and runs its target."""


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    """The last notice of a child that an exception ends."""

    reason: str
    """The exception as text, "ValueError: no such page"; without the type for bandstand's own errors."""
    fault: PackedError

    @classmethod
    def of(cls, error: BaseException) -> ProcessFailure:
        """Describe an exception. Never raises."""
        fault = pack_error(error)
        if isinstance(error, BandstandError) and fault.message:
            return cls(fault.message, fault)
        name = type(error).__qualname__
        return cls(f"{name}: {fault.message}" if fault.message else name, fault)


# -- the main function -----------------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """Run the target that the parent sends, and exit. The entry point of the interpreter that `spawn_child` starts."""
    # The first argument is the name of the process, for `ps`.
    parent, fd = int(sys.argv[2]), int(sys.argv[3])
    _exit_with_parent(parent)
    # A terminal sends Ctrl-C to the whole process group. The parent handles it and stops its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    open_standard_streams()
    faulthandler.enable()
    os.register_at_fork(after_in_child=_reset_signals)
    os.set_inheritable(fd, False)  # noqa: FBT003  # the signature of os
    sys.exit(_run(socket.socket(fileno=fd)))


def _run(sock: socket.socket) -> int:
    """Run the target that arrives over a socket; return the exit code."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        control, start = runner.run(_receive_start(sock))
        try:
            # Outside the event loop: a script may run an event loop while it is imported.
            target, payload = _load(start)
            runner.run(_run_target(target, control, payload))
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001  # any other exception is reported to the parent
            control.notify(ProcessFailure.of(error))
            return EXIT_FAILED
        finally:
            runner.run(_close(control))
    return 0


async def _receive_start(sock: socket.socket) -> tuple[ControlChannel, ProcessStart]:
    start: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return ControlChannel(sock, "the parent", on_notice=start.set_result, on_end=_exit_orphaned), await start


def _load(start: ProcessStart) -> tuple[Target, Any]:
    """Set this process up like its parent, and return the target and its payload."""
    allow_cores(start.cores)
    sys.argv = list(start.argv)
    start.main_module.load()
    try:
        target: Target = resolve_name(start.target)
    except AttributeError as error:
        raise InvalidArgumentError(
            f"target is {safe_repr(start.target)}, and there is no such function"
        ) from error
    try:
        payload = unpickle_message(start.payload, "the payload")
    except InvalidMessageError as error:
        if not start.main_module.is_loadable:
            error.add_note(
                "A child process cannot import what is declared in a program from -c, standard input or an interactive session, "
                "or in the __main__.py of a package: put it into a module."
            )
        raise
    return target, payload


async def _run_target(target: Target, control: ControlChannel, payload: object) -> None:
    """Run the target. SIGTERM cancels it, and its end is then a clean exit."""
    event_loop, task = asyncio.get_running_loop(), asyncio.current_task()
    is_terminated = False

    def terminate() -> None:
        nonlocal is_terminated
        # Once: a sender may signal both the process and its group.
        if not is_terminated and task is not None:
            is_terminated = True
            task.cancel()

    event_loop.add_signal_handler(signal.SIGTERM, terminate)
    event_loop.set_exception_handler(exit_without_memory)
    control.notify(ProcessReady())
    try:
        # The target may exit the process at once; the parent must still see that it has started.
        await control.flush()
        await target(control, payload)
    except asyncio.CancelledError:
        if not is_terminated:
            raise
    finally:
        event_loop.remove_signal_handler(signal.SIGTERM)
        # The process is exiting: another SIGTERM must not turn that into a failure.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def _close(control: ControlChannel) -> None:
    try:
        async with asyncio.timeout(FLUSH_TIMEOUT_S):
            await control.flush()
    except TimeoutError:
        pass
    finally:
        control.close()


def exit_without_memory(event_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Handle an exception that no task has caught. Exit if there is no memory: something was not sent, and its receiver would wait for it."""
    if isinstance(context.get("exception"), MemoryError) and "future" not in context:
        os._exit(EXIT_FAILED)
    event_loop.default_exception_handler(context)


def _exit_orphaned(_reason: str) -> None:
    """Exit at once because the parent has gone."""
    os._exit(EXIT_ORPHANED)


def _reset_signals() -> None:
    """Detach a fork of this process from its signal handling: both have the wakeup pipe, so a signal to one would reach the other."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit_with_parent(parent: int) -> None:
    """Make the kernel kill this process when the thread ends that has started it."""
    if sys.platform == "linux":
        # Some Python builds have no ctypes. The control channel ends the process there, as on other systems.
        with suppress(ImportError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        # The parent ended before the call above.
        os._exit(EXIT_ORPHANED)
