"""A pod that runs in a child process, and the side of its parent, without a controller."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from bandstand.actor import Actor, ask, tell
from bandstand.pod.enums import ThreadModel
from bandstand.pod.placement.process import RUN_POD, AttachLink, PodEnded, PodStart
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.process import ChildProcess, ProcessExit, spawn_child
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec, spec_for_process
from tests.pod.child_targets import PATIENCE, memory

T = TypeVar("T")

request_id: ContextVar[str] = ContextVar("request_id", default="none")


class Gallery:
    """What a process looks for to know which context variables travel."""

    carries: ClassVar[tuple[ContextVar[Any], ...]] = (request_id,)


class Painter(Actor):
    """An actor that can do a little, and die in many ways."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.strokes = 0

    @ask
    def paint(self, what: str) -> tuple[str, int, str]:
        return f"{self.colour} {what}", os.getpid(), request_id.get()

    @ask
    def cores(self) -> list[int]:
        return sorted(os.sched_getaffinity(0))

    @tell
    def stroke(self) -> None:
        self.strokes += 1

    @ask
    def count(self) -> int:
        return self.strokes

    @ask
    def hold(self, pipe: str) -> None:
        """Say so to a pipe, and keep the whole process busy."""
        Path(pipe).write_text("holding", "ascii")
        signal.sigwait({signal.SIGUSR1})

    @ask
    def fork(self) -> int:
        """Fork something that does nothing; its number."""
        pid = os.fork()
        if pid == 0:
            signal.alarm(PATIENCE)
            signal.sigwait({signal.SIGUSR1})
            os._exit(0)
        return pid

    @tell
    def leave(self) -> None:
        self.stop()

    @tell
    def fail(self) -> None:
        raise ValueError("no such colour")

    @tell
    def exit_with(self, code: int) -> None:
        sys.exit(code)

    @tell
    def exit_at_once(self, code: int) -> None:
        os._exit(code)

    @tell
    def segfault(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.string_at(0)

    @tell
    def exhaust(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory() + (64 << 20), resource.RLIM_INFINITY))
        hoard: list[bytearray] = []
        while True:
            hoard.append(bytearray(8 << 20))


class Stillborn(Actor):
    """An actor that cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no canvas")


def studio(kind: type[Actor] = Painter, *args: object, **options: Any) -> TroupeSpec:
    """A troupe of one, in a process."""
    role = RoleSpec(name="painter", kind=kind, args=args, is_exposed=True)
    return TroupeSpec(
        name="Studio", pods=(PodSpec(name="easel", roles=(role,), thread=ThreadModel.PROCESS, **options),)
    )


class Played:
    """The process, the outside, and a handle."""

    def __init__(self, child: ChildProcess, outside: PodRuntime) -> None:
        self.child = child
        self.outside = outside
        self.painter: Any = outside.handle("painter")  # of whatever class plays it

    async def word(self, kind: type[T]) -> T:
        """The next word of a kind; others pass."""
        async with asyncio.timeout(PATIENCE):
            while True:
                word = (await self.child.control.receive()).body
                if isinstance(word, kind):
                    return word

    async def ending(self) -> tuple[PodEnding, ProcessExit]:
        """How the pod has ended, and its process."""
        ending = (await self.word(PodEnded)).ending()
        return ending, await self.exit()

    async def exit(self) -> ProcessExit:
        async with asyncio.timeout(PATIENCE):
            return await self.child.wait()


@contextmanager
def pipe_in(folder: Path) -> Generator[tuple[str, int]]:
    """A pipe with a name: that, and the end to read from. Nobody has to wait for whoever writes."""
    path = folder / "pipe"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield str(path), fd
    finally:
        os.close(fd)


async def heard_from(fd: int) -> str:
    """What is written to a pipe first."""
    event_loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = event_loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    event_loop.add_reader(fd, wake)
    try:
        async with asyncio.timeout(PATIENCE):
            await ready
    finally:
        event_loop.remove_reader(fd)
        # In a turn of its own, before anybody closes it.
        await asyncio.sleep(0)
    return os.read(fd, 100).decode()


@asynccontextmanager
async def played(
    spec: TroupeSpec, *, troupe: str | None = None, is_running: bool = True
) -> AsyncGenerator[Played]:
    """Start a process that plays the pod of a troupe, and connect it with the outside."""
    outside = PodRuntime(spec, None, 1)
    running = asyncio.create_task(outside.run())
    begin = PodStart(spec=spec_for_process(spec, "easel"), pod="easel", number=1, deployment_class=troupe)
    async with await spawn_child(RUN_POD, name="Studio.easel", payload=begin) as child:
        ours, theirs = socket.socketpair()
        with theirs:
            child.control.send(AttachLink(None, is_running=True), (theirs.fileno(),))
        outside.attach("easel", ours, is_running=is_running)
        try:
            yield Played(child, outside)
        finally:
            await outside.stop(1000.0)
            await running
