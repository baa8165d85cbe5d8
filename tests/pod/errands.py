"""What child processes are started for in the tests, and how long those wait."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from bandstand.pod.process import Child, Control, Exit, spawn_child

T = TypeVar("T")

PATIENCE = 40  # seconds for a process to do what it must


def runner_of(
    factory: Callable[[], asyncio.AbstractEventLoop], patience: float = PATIENCE
) -> Callable[[Coroutine[Any, Any, T]], T]:
    """What runs a coroutine on an event loop of the lane, for as long as patience lasts."""

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(asyncio.wait_for(coroutine, patience))

    return run


async def ended(child: Child) -> Exit:
    async with asyncio.timeout(PATIENCE):
        return await child.wait()


async def ending(target: str, payload: object = None) -> Exit:
    """How a process ends that does this."""
    return await ended(await spawn_child(f"tests.pod.errands:{target}", name=target, payload=payload))


def is_gone(pid: int) -> bool:
    """Whether a process that is no child of ours is gone, or goes before patience ends."""
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
    """Wait for a child as a careless program does; its status."""
    return os.waitpid(pid, 0)[1]


def is_zombie_or_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# -- errands -----------------------------------------------------------------------------------------------------------


class UnbuildableError(Exception):
    """Its pickle does not lead back to it."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")

    def __reduce__(self) -> Any:
        return (type(self), ())


class Unreadable:
    """Can be pickled, and not be made again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise RuntimeError("not here")


async def echo(control: Control, payload: object) -> None:
    """Say the payload, and then what is heard, until that is "stop"."""
    control.send(payload)
    async for letter in control:
        if letter.word == "stop":
            return
        control.send(letter.word)


async def nothing(control: Control, payload: object) -> None:
    pass


def handed_down() -> list[int]:
    """The descriptors that a program that is started here would have."""
    found: list[int] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.get_inheritable(int(name)):
                found.append(int(name))
    return sorted(found)


async def describe(control: Control, payload: object) -> None:
    """Say what the process looks like from inside."""
    control.send(
        {
            "argv": sys.argv,
            "path": sys.path,
            "main": sys.modules["__main__"].__name__,
            "optimize": sys.flags.optimize,
            "warnoptions": sys.warnoptions,
            "utf8": sys.flags.utf8_mode,
            "environment": os.environ.get("BANDSTAND_ERRAND"),
            "stdin": os.path.samestat(os.fstat(0), os.stat(os.devnull)),
            "cwd": os.getcwd(),
            "handed_down": handed_down(),
            "cores": sorted(os.sched_getaffinity(0)),
            "loop": type(asyncio.get_running_loop()).__module__,
            "multiprocessing": "multiprocessing" in sys.modules,
        }
    )


async def play_by_descriptors(control: Control, payload: object) -> None:
    """Say into every socket that comes what its letter said."""
    async for letter in control:
        for fd in letter.fds:
            assert not os.get_inheritable(fd)
            with socket.socket(fileno=fd) as sock:
                sock.sendall(str(letter.word).encode())


async def flood(control: Control, payload: int) -> None:
    """Say more than anybody hears, and end when it is written."""
    for number in range(payload):
        control.send((number, b"." * 1000))
    await control.flush()


async def wait(control: Control, payload: object) -> None:
    control.send("waiting")
    await asyncio.Event().wait()


async def tidy(control: Control, payload: object) -> None:
    """Take one's leave when cancelled."""
    control.send("waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        control.send("good bye")
        await control.receive()
        control.send("the very last word")
        raise


async def spin(control: Control, payload: object) -> None:
    control.send("spinning")
    await control.flush()
    while True:
        pass


async def speak(control: Control, payload: str) -> None:
    print(payload)  # noqa: T201  # that is the errand


async def cancel_oneself(control: Control, payload: object) -> None:
    raise asyncio.CancelledError


def held(inode: int) -> bool:
    """Whether this process has a socket."""
    return f"socket:[{inode}]" in map(link_of, os.listdir("/proc/self/fd"))


def link_of(fd: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{fd}")
    return ""


async def fork(control: Control, payload: bool) -> None:
    """Fork, and send SIGTERM to the fork, which may have a handler; say whether it had our end of the channel, and how it ended."""
    inode = os.fstat(control._sock.fileno()).st_ino  # pyright: ignore[reportPrivateUsage]  # which it is, is its own business
    assert held(inode)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if payload:
            signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(7))
        os.write(write, b"yes" if held(inode) else b"no")
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(1)
    control.send((os.read(read, 10), os.waitstatus_to_exitcode(waited_for(pid))))
    await control.receive()
    control.send("still here")


# -- ways to die -------------------------------------------------------------------------------------------------------


async def fail(control: Control, payload: str) -> None:
    control.send("last words")
    raise ValueError(payload)


async def fail_oddly(control: Control, payload: object) -> None:
    raise UnbuildableError(1, 2)


async def leave(control: Control, payload: Any) -> None:
    sys.exit(payload)


async def leave_at_once(control: Control, payload: int) -> None:
    os._exit(payload)


async def get_signal(control: Control, payload: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(payload, signal.SIG_DFL)
    os.kill(os.getpid(), payload)


async def segfault(control: Control, payload: object) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def memory() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()


async def exhaust(control: Control, payload: object) -> None:
    """Want more memory than there may be."""
    used = memory()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    hoard: list[bytearray] = []
    while True:
        hoard.append(bytearray(8 << 20))
