"""The main function of a child process.

It must never outlive the one that has started it. On Linux the kernel sees to that, even while a handler computes for ever: the
signal of PR_SET_PDEATHSIG comes when the *thread* ends that has started us. That is right here: our control channel, and
whoever would end us in good order, live on the event loop of that thread. Elsewhere, and if the thread lets go of us, the
control channel is closed, and we end as soon as the event loop sees that.
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
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeAlias

from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BadMessage, InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.pod.affinity import settle
from bandstand.pod.process.control import Control
from bandstand.pod.process.errand import Errand, Farewell, Ready
from bandstand.pod.process.pickling import unpack
from bandstand.streams import open_standard_streams

__all__ = ("main",)

# Its payload is whatever was sent.
Target: TypeAlias = Callable[[Control, Any], Coroutine[Any, Any, object]]

# What an exception makes the exit code; what Python itself would.
FAILED = 1
# The exit code of a process whose parent is gone: nobody sees it.
ORPHANED = 70

# prctl's number for it.
PR_SET_PDEATHSIG = 1

# How long the last words may take, in seconds: the parent may be too busy to read.
LAST_S = 5.0


def main() -> NoReturn:
    """Do the errand that we were started for, and exit."""
    # The first is our name, for those who list processes.
    parent, fd = int(sys.argv[2]), int(sys.argv[3])
    _die_with(parent)
    # Whoever presses Ctrl-C presses it for all processes of the terminal; the one that has started us ends us in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    open_standard_streams()
    faulthandler.enable()
    os.register_at_fork(after_in_child=_let_go)
    os.set_inheritable(fd, False)  # noqa: FBT003  # os's own signature
    sys.exit(live(socket.socket(fileno=fd)))


def live(sock: socket.socket) -> int:
    """Do the errand that comes over a socket; the exit code."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        control, errand = runner.run(_begin(sock))
        try:
            # Not inside the event loop: a script may want to have one of its own for a moment.
            target, payload = _prepare(errand)
            runner.run(_perform(target, control, payload))
        except SystemExit:
            # Somebody wants just that.
            raise
        except BaseException as error:  # noqa: BLE001  # everything else is told, and then is an exit like others
            control.notify(Farewell.of(error))
            return FAILED
        finally:
            runner.run(_end(control))
    return 0


async def _begin(sock: socket.socket) -> tuple[Control, Errand]:
    """Wait for the errand."""
    errand: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return Control(sock, "the parent", on_notice=errand.set_result, on_end=_vanish), await errand


def _prepare(errand: Errand) -> tuple[Target, Any]:
    """Make this process one of the program's: its cores, its arguments, what it declares."""
    settle(errand.cores)
    sys.argv = list(errand.argv)
    errand.script.load()
    try:
        target: Target = resolve_name(errand.target)
    except AttributeError as error:
        raise InvalidArgument(
            f"target is {safe_repr(errand.target)}, and there is no such function"
        ) from error
    try:
        payload = unpack(errand.payload, "with the errand")
    except BadMessage as error:
        if not errand.script.is_loadable:
            error.add_note(
                "What is declared in a program that came by -c or from standard input, in a session or in the __main__.py of a "
                "package, is not known in another process: put it into a module."
            )
        raise
    return target, payload


async def _perform(target: Target, control: Control, payload: object) -> None:
    """Run the target. SIGTERM cancels it, and then it has ended in good order."""
    event_loop, task = asyncio.get_running_loop(), asyncio.current_task()
    is_told = False

    def terminate() -> None:
        nonlocal is_told
        # Once: those who send one to a process and to its group send two.
        if not is_told and task is not None:
            is_told = True
            task.cancel()

    event_loop.add_signal_handler(signal.SIGTERM, terminate)
    control.notify(Ready())
    try:
        # It may end us without warning, and has started all the same.
        await control.flush()
        await target(control, payload)
    except asyncio.CancelledError:
        if not is_told:
            raise
    finally:
        event_loop.remove_signal_handler(signal.SIGTERM)
        # It is on its way out: being told so once more must not make a failure of it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def _end(control: Control) -> None:
    """Say what is left to say."""
    try:
        async with asyncio.timeout(LAST_S):
            await control.flush()
    except TimeoutError:
        pass
    finally:
        control.close()


def _vanish(_reason: str) -> None:
    """The parent is gone: end at once."""
    os._exit(ORPHANED)


def _let_go() -> None:
    """What the program forks off us is none of ours: a signal to it must not be heard here, by the pipe that both have."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _die_with(parent: int) -> None:
    """Have the kernel kill us when the thread ends that has started us."""
    if sys.platform == "linux":
        # Not every Python has it; then we are as on other systems.
        with suppress(ImportError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        # It had ended before we could ask for that.
        os._exit(ORPHANED)
