"""Clients on real sockets for tests: a `Guest` sends and receives at the same time, a `Neighbour` asks and checks every answer. A `Hall` is
a node on a thread of its own that they connect to."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from bandstand.bus import Capability, Memory, Node, NodeConfig, Query, Stats, provide
from bandstand.bus.syscall import NodeStats, StatsQuery
from tests.bus.adapters import PATIENCE, Client, Venue
from tests.core.support import HostFactory

MEBIBYTE = 1 << 20


def resident() -> int:
    """The bytes of memory that this process holds now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def frame(
    message_id: str,
    type_name: str,
    kind: str = "query",
    *,
    metadata: dict[str, Any] | None = None,
    **data: Any,
) -> bytes:
    """One line of a client."""
    message = {
        "kind": kind,
        "type": type_name,
        "data": data,
        "metadata": {"id": message_id, "timestamp": 1767910000000, **(metadata or {})},
    }
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def ping(message_id: str) -> bytes:
    return frame(message_id, "Syscall.Ping")


class Woken(msgspec.Struct):
    """The answer of one who was woken."""

    name: str


class Sleep(Query[Woken], type="Sleeper.Sleep", remember=True):
    """Sleep, and answer when woken."""

    name: str


class Sleeper(Capability):
    """Answers nobody before it is woken."""

    def __init__(self, bell: asyncio.Event) -> None:
        self._bell = bell

    async def sleep(self, msg: Sleep) -> Woken:
        """Sleep."""
        await self._bell.wait()
        return Woken(msg.name)


class Guest(Client):
    """A client that takes what is written to it while it speaks, so that neither side has to wait for the other."""

    connection: socket.socket | None = None

    def text(self) -> bytes:
        """The next line as it came, with its end."""
        while not self._lines:
            assert self._read(), f"the end instead of a line, after {self._tail!r}"
        return self._lines.popleft() + b"\n"

    def exchange(self, data: bytes, last: str) -> list[dict[str, Any]]:
        """Say all of it, and listen until the request of this id is answered; everything that came, the answer too."""
        heard: list[dict[str, Any]] = []
        view = memoryview(data)
        poll = select.poll()
        while True:
            poll.register(self._reader, select.POLLIN)
            poll.register(self._writer, select.POLLIN | (select.POLLOUT if view else 0))
            ready = poll.poll(PATIENCE * 1000)
            assert ready, f"nothing came in {PATIENCE} s, and {len(view)} bytes are not taken"
            if view and any(event & select.POLLOUT for _, event in ready):
                view = view[self.offer(bytes(view[:MEBIBYTE])) :]
            if any(event & select.POLLIN for _, event in ready):
                assert self._read(), "the connection ended"
            while self._lines:
                message: dict[str, Any] = json.loads(self._lines.popleft())
                heard.append(message)
                if message["metadata"].get("causation") == last:
                    assert not view
                    return heard

    def vanish(self) -> None:
        """Go without a word, and without taking what was said."""
        if self.connection is not None and self.connection.family != socket.AF_UNIX:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


class Hall(Venue):
    """A venue whose adapter is run by a node with `Memory` and a `Sleeper`."""

    def __init__(
        self,
        kind: str,
        factory: HostFactory,
        directory: Path,
        *,
        config: NodeConfig | None = None,
        **limits: Any,
    ) -> None:
        self._config = config
        self._stack = AsyncExitStack()
        self._tools: list[subprocess.Popen[bytes]] = []
        super().__init__(kind, factory, directory, **limits)

    async def begin(self) -> None:
        self.bell = asyncio.Event()
        node = Node([Memory, provide(Sleeper, self.bell)], adapters=[self.adapter], config=self._config)
        self.node = await self._stack.enter_async_context(node)

    def close(self, timeout: float = PATIENCE) -> None:
        self.run(self._stack.aclose())

    def wake(self) -> None:
        """Have the sleeper answer."""
        self.do(self.bell.set)

    def guest(self, *, buffer: int | None = None) -> Guest:
        """A client, of whose bytes the operating system keeps about so many each way; None for as many as it likes."""
        connection = self.connect(buffer=buffer)
        number = connection.fileno()
        guest = Guest(
            number, number, closing=connection.close, half=lambda: connection.shutdown(socket.SHUT_WR)
        )
        guest.connection = connection
        self._clients.append(guest)
        return guest

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        is_unix = self.kind == "unix"
        connection = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        # With a timeout it would not wait for room among those who are to be accepted.
        connection.connect(str(self.directory / "bus.sock") if is_unix else self.address)
        connection.settimeout(PATIENCE)
        return connection

    @property
    def address(self) -> tuple[str, int]:
        _, host, port = self.adapter.name.split(":")
        return host, int(port)

    def tool(self, name: str) -> Guest:
        """A client that somebody else has written: `socat` or `nc`."""
        path = str(self.directory / "bus.sock")
        host, port = ("", 0) if self.kind == "unix" else self.address
        there = f"UNIX-CONNECT:{path}" if self.kind == "unix" else f"TCP:{host}:{port}"
        plain = ["-U", path] if self.kind == "unix" else [host, str(port)]
        command = ["socat", "-t", "30", "-", there] if name == "socat" else ["nc", *plain]
        tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert tool.stdin is not None
        assert tool.stdout is not None
        self._tools.append(tool)
        guest = Guest(
            tool.stdout.fileno(), tool.stdin.fileno(), closing=lambda: _dismiss(tool), half=tool.stdin.close
        )
        self._clients.append(guest)
        return guest

    async def _books(self) -> NodeStats:
        return await self.node.bus.ask(StatsQuery())

    def books(self) -> Stats:
        """The node's books, which balance; without the asking for them itself, which is in flight."""
        stats = self.run(self._books()).requests
        assert stats.is_balanced, stats
        return msgspec.structs.replace(stats, in_flight=stats.in_flight - 1)

    def figures(self) -> NodeStats:
        """All that the node tells of itself in numbers."""
        return self.run(self._books())

    def clients(self) -> int:
        """How many are connected."""
        return self.run(self._books()).clients

    def until_quiet(self) -> Stats:
        """Wait until nothing is in flight; the books of that moment."""
        while (stats := self.books()).in_flight:
            pass
        return stats

    def until_alone(self) -> None:
        """Wait until every client has gone."""
        while self.clients():
            pass


HallMaker = Callable[..., Hall]


def _dismiss(tool: subprocess.Popen[bytes]) -> None:
    tool.kill()
    tool.wait(PATIENCE)
    for end in (tool.stdin, tool.stdout):
        if end is not None:
            # What was not written is of no use to anybody now.
            with suppress(OSError):
                end.close()


class Neighbour(threading.Thread):
    """A client that behaves: it keeps values, reads them back, and is answered each time, once, with what it kept."""

    BATCH = 20

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(name="neighbour")
        self._connection = connection
        self._condition = threading.Condition()
        self._is_over = False
        self._rounds = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._connection, self._connection.makefile("rb") as answers:
                while not self._is_over:
                    self._ask(self._rounds, answers)
                    with self._condition:
                        self._rounds += 1
                        self._condition.notify_all()
        except BaseException as error:  # noqa: BLE001  # raised where the neighbour is sent home
            self.error = error
            with self._condition:
                self._condition.notify_all()

    def _ask(self, turn: int, answers: Iterable[bytes]) -> None:
        numbers = range(turn * self.BATCH, (turn + 1) * self.BATCH)
        said: list[bytes] = []
        expected: dict[str, dict[str, Any]] = {}
        for number in numbers:
            said.append(frame(f"set-{number}", "Memory.Set", "command", key=f"n{number % 50}", value=number))
            said.append(frame(f"get-{number}", "Memory.Get", key=f"n{number % 50}"))
            expected |= {f"set-{number}": {}, f"get-{number}": {"value": number}}
        self._connection.sendall(b"".join(said))
        heard: dict[str, dict[str, Any]] = {}
        for line in answers:
            message = json.loads(line)
            assert message["kind"] == "reply", message
            assert message["metadata"]["causation"] not in heard, "answered twice"
            heard[message["metadata"]["causation"]] = message["data"]
            if len(heard) == len(expected):
                break
        assert heard == expected

    def wait_rounds(self, more: int = 2) -> None:
        """Wait until it has been through so many more rounds, each begun and ended with what happens now."""
        with self._condition:
            wanted = self._rounds + more
            came = self._condition.wait_for(lambda: self.error or self._rounds >= wanted, PATIENCE)
        if self.error is not None:
            raise self.error
        assert came, "the neighbour is not answered any more"

    def go_home(self) -> None:
        self._is_over = True
        self.join(PATIENCE)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def neighbour_of(hall: Hall) -> Generator[Neighbour]:
    """A client beside that asks all the time; every one of its requests must be answered, some of them afterwards."""
    neighbour = Neighbour(hall.connect())
    neighbour.start()
    try:
        neighbour.wait_rounds(1)
        yield neighbour
        neighbour.wait_rounds()
    finally:
        neighbour.go_home()


@contextmanager
def descriptors(count: int) -> Generator[bool]:
    """Let this process open so many descriptors, if the machine allows; whether it does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_allowed = hard == resource.RLIM_INFINITY or hard >= count
    if is_allowed and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield is_allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
