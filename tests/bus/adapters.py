"""What the tests of the adapters play with: a desk that stands in for a node, a stage that runs an adapter on a thread of its own,
and clients that know nothing but descriptors and bytes."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.stdio import PipeAdapter
from bandstand.bus.adapters.tcp import TcpAdapter
from bandstand.bus.adapters.unix import UnixAdapter
from bandstand.bus.admission import SendBudget
from bandstand.bus.faults import SCHEMA_ERROR, FaultMaker
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.protocols import Adapter, Line
from bandstand.errors import InvalidMessageError
from tests.core.support import HostFactory

PATIENCE = 30  # seconds to wait for what must come
R = TypeVar("R")

KINDS = ("unix", "tcp", "pipe")


def request(number: int, *, data: object = None, kind: str = "command", type_name: str = "Echo.Say") -> bytes:
    message = {
        "kind": kind,
        "type": type_name,
        "data": {} if data is None else data,
        "metadata": {"id": f"q{number}", "timestamp": number},
    }
    return json.dumps(message).encode() + b"\n"


def answer_to(frame: Frame) -> Frame:
    metadata = Metadata(f"a-{frame.metadata.id}", 0, causation=frame.metadata.id)
    return Frame(kind="reply", type=frame.type, data=frame.data, metadata=metadata)


class Desk:
    """An `Ingress` that answers each request with its own data, now or later, and can be full."""

    def __init__(self) -> None:
        self.is_full = False
        self.is_holding = False
        self.lines: list[Line] = []
        self.opened = 0
        self.closed: list[Line] = []
        self.drained_count = 0
        self.admitted: list[Frame] = []
        self.turned_away = 0
        self.refused: list[InvalidMessageError] = []
        self.held: deque[tuple[Line, Frame]] = deque()
        self.unsent = SendBudget(1 << 30)
        self._faults = FaultMaker(lambda: "fault", lambda: 0)

    def open(self, line: Line) -> None:
        self.opened += 1
        self.lines.append(line)

    def admit(self, line: Line, frame: Frame) -> bool:
        assert line in self.lines, "a line hands in what it read before it was opened, or after it was closed"
        if self.is_full:
            self.turned_away += 1
            return False
        self.admitted.append(frame)
        if frame.is_request:
            self.held.append((line, frame))
            if not self.is_holding:
                self.release(1)
        elif frame.type == "Echo.Broadcast":
            for each in self.lines:
                each.deliver(frame, settles=False)
        return True

    def refuse(self, line: Line, problem: InvalidMessageError) -> None:
        self.refused.append(problem)
        fault = self._faults.make(
            SCHEMA_ERROR, str(problem), request_id=problem.request_id, path=problem.path
        )
        line.deliver(fault, settles=False)

    def drained(self, line: Line) -> None:
        assert line.is_writable
        self.drained_count += 1

    def close(self, line: Line) -> None:
        self.lines.remove(line)
        self.closed.append(line)

    def release(self, count: int | None = None, *, backwards: bool = False) -> None:
        """Answer so many of the requests that are held, or all of them."""
        for _ in range(len(self.held) if count is None else count):
            line, frame = self.held.pop() if backwards else self.held.popleft()
            line.deliver(answer_to(frame), settles=True)

    def make_room(self) -> None:
        self.is_full = False
        for line in self.lines:
            line.resume()


class Watched(Desk):
    """A desk at which one can wait until something holds."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def open(self, line: Line) -> None:
        super().open(line)
        self._changed.set()

    def admit(self, line: Line, frame: Frame) -> bool:
        is_taken = super().admit(line, frame)
        self._changed.set()
        return is_taken

    def close(self, line: Line) -> None:
        super().close(line)
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Client:
    """Two descriptors that do not block, and patience."""

    def __init__(
        self, reader: int, writer: int, *, closing: Callable[[], None], half: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._closing = closing
        self._half = half
        self._lines: deque[bytes] = deque()
        self._tail = b""
        for descriptor in {reader, writer}:
            os.set_blocking(descriptor, False)

    @classmethod
    def over(cls, connection: socket.socket) -> Client:
        number = connection.fileno()
        return cls(number, number, closing=connection.close, half=lambda: connection.shutdown(socket.SHUT_WR))

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            wait_for(self._writer, select.POLLOUT)
            with suppress(BlockingIOError):
                view = view[os.write(self._writer, view) :]

    def offer(self, data: bytes) -> int:
        """Send as much as goes now; how much that was."""
        try:
            return os.write(self._writer, data)
        except BlockingIOError:
            return 0

    def line(self) -> dict[str, Any]:
        """The next line; it must come."""
        while not self._lines:
            data = self._read()
            assert data, f"the end instead of a line, after {self._tail!r}"
        message: dict[str, Any] = json.loads(self._lines.popleft())
        return message

    def answers(self, count: int) -> list[str]:
        """The ids of the requests that the next lines answer."""
        return [self.line()["metadata"]["causation"] for _ in range(count)]

    def rest(self) -> bytes:
        """All that comes, until the end. A connection that was reset has ended too."""
        while True:
            try:
                data = self._read()
            except ConnectionResetError:
                data = b""
            if not data:
                return b"\n".join((*self._lines, self._tail))

    def half_close(self) -> None:
        self._half()

    def close(self) -> None:
        self._closing()

    def _read(self) -> bytes:
        wait_for(self._reader, select.POLLIN)
        data = os.read(self._reader, 1 << 20)
        *lines, self._tail = (self._tail + data).split(b"\n")
        self._lines.extend(lines)
        return data


def wait_for(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    assert poll.poll(PATIENCE * 1000), f"descriptor {descriptor} was not ready in {PATIENCE} s"


class Venue:
    """An adapter that runs on a thread of its own, with its desk; makes clients for it."""

    def __init__(
        self,
        kind: str,
        factory: HostFactory,
        directory: Path,
        make: Callable[..., Adapter] | None = None,
        **limits: Any,
    ) -> None:
        self.kind = kind
        self.directory = directory
        self.desk = Desk()
        self._factory = factory
        self._ready = threading.Event()
        self._host: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self.escaped: list[dict[str, Any]] = []
        self._clients: list[Client] = []
        # What the adapter is given and does not own.
        self._owned: list[int] = []
        self._far: Client | None = None
        self.adapter = make(limits=Limits(**limits)) if make else self._make(Limits(**limits))
        self._thread = threading.Thread(target=self._run, name="venue")
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        self.run(self.begin())

    async def begin(self) -> None:
        await self.adapter.start(self.desk)

    def _make(self, limits: Limits) -> Adapter:
        if self.kind == "unix":
            return UnixAdapter(self.directory / "bus.sock", limits=limits)
        if self.kind == "tcp":
            return TcpAdapter(limits=limits)
        reader, their_writer = os.pipe()
        their_reader, writer = os.pipe()
        self._owned = [reader, writer]
        writing = [their_writer]

        def half() -> None:
            while writing:
                os.close(writing.pop())

        def closing() -> None:
            half()
            with suppress(OSError):
                os.close(their_reader)

        self._far = Client(their_reader, their_writer, closing=closing, half=half)
        self._clients.append(self._far)
        return PipeAdapter(reader, writer, limits=limits)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: self.escaped.append(context))
            runner.run(self._main())

    async def _main(self) -> None:
        self._host = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._ready.set()
        await self._end.wait()

    @property
    def host(self) -> asyncio.AbstractEventLoop:
        assert self._host is not None
        return self._host

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(coroutine, self.host).result(PATIENCE)

    def do(self, deed: Callable[[], R]) -> R:
        """Do something on the adapter's thread."""

        async def body() -> R:
            return deed()

        return self.run(body())

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds on the adapter's thread."""
        end = time.monotonic() + PATIENCE
        while not self.do(condition):
            assert time.monotonic() < end, "it never came to hold"

    def settle(self) -> None:
        """Let everything happen that is about to: a few turns of the event loop, each with a look at the sockets."""

        async def turns() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        self.run(turns())

    def client(self) -> Client:
        if self._far is not None:
            return self._far
        if self.kind == "unix":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(self.directory / "bus.sock"))
        else:
            _, host, port = self.adapter.name.split(":")
            connection = socket.create_connection((host, int(port)), PATIENCE)
        client = Client.over(connection)
        self._clients.append(client)
        return client

    def begin_close(self) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(self.adapter.close(PATIENCE), self.host)

    def close(self, timeout: float = PATIENCE) -> None:
        self.run(self.adapter.close(timeout))

    def end(self) -> None:
        for client in self._clients:
            client.close()
        try:
            self.close()
        finally:
            assert self._end is not None
            self.host.call_soon_threadsafe(self._end.set)
            self._thread.join(PATIENCE)
            for descriptor in self._owned:
                # Not closed by the adapter: this would fail.
                os.close(descriptor)
        assert self.escaped == [], "an exception escaped into the event loop"


@contextmanager
def venue_of(
    kind: str,
    *,
    factory: HostFactory,
    directory: Path,
    make: Callable[..., Adapter] | None = None,
    **limits: Any,
) -> Generator[Venue]:
    """A venue. `make` makes its adapter from `limits=`, if it is not the usual one of that kind."""
    venue = Venue(kind, factory, directory, make, **limits)
    try:
        yield venue
    finally:
        venue.end()


VenueMaker = Callable[..., AbstractContextManager[Venue]]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
