"""Target functions of the child processes in the tests, and helpers to wait for them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from bandstand.pod.process import ChildProcess, ControlChannel, ProcessExit, spawn_child

T = TypeVar("T")

PATIENCE = 40  # seconds until a test gives up waiting for a process


async def ended(child: ChildProcess) -> ProcessExit:
    async with asyncio.timeout(PATIENCE):
        return await child.wait()


async def ending(target: str, payload: object = None) -> ProcessExit:
    """Run a target of this module in a process, and return its exit."""
    return await ended(await spawn_child(f"tests.pod.child_targets:{target}", name=target, payload=payload))


def is_gone(pid: int) -> bool:
    """Whether a process that is not a child of ours has ended, or ends within the timeout."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(PATIENCE * 1000))
    finally:
        os.close(fd)


def waited_for(pid: int) -> int:
    """Reap a child behind the back of the library; return its status."""
    return os.waitpid(pid, 0)[1]


def is_zombie_or_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# -- targets -----------------------------------------------------------------------------------------------------------


class UnbuildableError(Exception):
    """Can be pickled, but not unpickled to the same exception."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")

    def __reduce__(self) -> Any:
        return (type(self), ())


class Unreadable:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise RuntimeError("not here")


async def echo(control: ControlChannel, payload: object) -> None:
    """Send the payload, and then every received message back, until "stop"."""
    control.send(payload)
    async for message in control:
        if message.body == "stop":
            return
        control.send(message.body)


async def nothing(control: ControlChannel, payload: object) -> None:
    pass


def inheritable_fds() -> list[int]:
    """The descriptors that a program started by this process would inherit."""
    found: list[int] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.get_inheritable(int(name)):
                found.append(int(name))
    return sorted(found)


async def describe(control: ControlChannel, payload: object) -> None:
    """Send what the process looks like from inside."""
    control.send(
        {
            "argv": sys.argv,
            "path": sys.path,
            "main": sys.modules["__main__"].__name__,
            "optimize": sys.flags.optimize,
            "warnoptions": sys.warnoptions,
            "utf8": sys.flags.utf8_mode,
            "environment": os.environ.get("BANDSTAND_TEST_VARIABLE"),
            "stdin": os.path.samestat(os.fstat(0), os.stat(os.devnull)),
            "cwd": os.getcwd(),
            "inheritable_fds": inheritable_fds(),
            "cores": sorted(os.sched_getaffinity(0)),
            "loop": type(asyncio.get_running_loop()).__module__,
            "multiprocessing": "multiprocessing" in sys.modules,
        }
    )


async def write_to_descriptors(control: ControlChannel, payload: object) -> None:
    """Write the body of each message to the sockets that come with it."""
    async for message in control:
        for fd in message.fds:
            assert not os.get_inheritable(fd)
            with socket.socket(fileno=fd) as sock:
                sock.sendall(str(message.body).encode())


async def flood(control: ControlChannel, payload: int) -> None:
    """Send many messages, and return when they are written."""
    for number in range(payload):
        control.send((number, b"." * 1000))
    await control.flush()


async def wait(control: ControlChannel, payload: object) -> None:
    control.send("waiting")
    await asyncio.Event().wait()


async def tidy(control: ControlChannel, payload: object) -> None:
    """Send and receive while being cancelled."""
    control.send("waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        control.send("cancelled")
        await control.receive()
        control.send("last message")
        raise


async def spin(control: ControlChannel, payload: object) -> None:
    control.send("spinning")
    await control.flush()
    while True:
        pass


async def print_payload(control: ControlChannel, payload: str) -> None:
    print(payload)  # noqa: T201  # the purpose of this target


def has_socket(inode: int) -> bool:
    """Whether this process has a descriptor of a socket."""
    return f"socket:[{inode}]" in map(link_of, os.listdir("/proc/self/fd"))


def link_of(fd: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{fd}")
    return ""


async def fork(control: ControlChannel, payload: bool) -> None:
    """Fork, and send SIGTERM to the fork, which may have a handler. Report whether it had our end of the channel, and its exit code."""
    inode = os.fstat(control._sock.fileno()).st_ino  # pyright: ignore[reportPrivateUsage]  # the channel has no public descriptor
    assert has_socket(inode)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if payload:
            signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(7))
        os.write(write, b"yes" if has_socket(inode) else b"no")
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(1)
    control.send((os.read(read, 10), os.waitstatus_to_exitcode(waited_for(pid))))
    await control.receive()
    control.send("still here")


# -- failures -------------------------------------------------------------------------------------------------------


async def fail(control: ControlChannel, payload: str) -> None:
    control.send("last message")
    raise ValueError(payload)


async def fail_oddly(control: ControlChannel, payload: object) -> None:
    raise UnbuildableError(1, 2)


async def exit_with(control: ControlChannel, payload: Any) -> None:
    sys.exit(payload)


async def exit_at_once(control: ControlChannel, payload: int) -> None:
    os._exit(payload)


async def get_signal(control: ControlChannel, payload: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(payload, signal.SIG_DFL)
    os.kill(os.getpid(), payload)


async def segfault(control: ControlChannel, payload: object) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()


async def exhaust(control: ControlChannel, payload: object) -> None:
    """Allocate more memory than the limit allows."""
    used = memory()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    hoard: list[bytearray] = []
    while True:
        hoard.append(bytearray(8 << 20))
