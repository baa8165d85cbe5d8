"""Isolated capabilities without processes: both ends of a link run on the same event loop, in virtual time.

Between the two ends is a relay, so that a test can silence one end, or close it. Everything else is what runs in a process, too.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bandstand.bus import Capability, Contract, Provision, provide
from bandstand.bus.capability_slot import CapabilitySlot
from bandstand.core import Clock
from bandstand.isolation.child import CapabilityRuntime, CapabilityStart
from bandstand.isolation.host import IsolatedHost
from bandstand.pod.process import ProcessExit
from tests.bus.virtual_node import Source


class End:
    """One end of the relay.

    Attributes:
        sock: the socket for the link at this end.
        is_mute: whether what this end sends is dropped. It may still run.
        last_sent: what it has sent last.
    """

    def __init__(self) -> None:
        self.sock, self._relay = socket.socketpair()
        self._relay.settimeout(0)
        self._event_loop = asyncio.get_running_loop()
        self._event_loop.add_reader(self._relay, self.forward)
        self._unread = bytearray()
        self._is_open = True
        self.other: End
        self.is_mute = False
        self.last_sent = b""

    def send(self, data: bytes) -> None:
        """Send bytes to the other end."""
        if not self.is_mute:
            self.last_sent = data
            self.other.deliver(data)

    def deliver(self, data: bytes = b"") -> None:
        """Pass bytes to the link at this end, as far as it reads."""
        if not self._is_open:
            return
        self._unread += data
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unread:
                del self._unread[: self._relay.send(self._unread)]
        if self._unread:
            self._event_loop.add_writer(self._relay, self.deliver)
        else:
            self._event_loop.remove_writer(self._relay)

    def forward(self) -> bool:
        """Pass on what the link at this end has written. Return whether there was something."""
        if not self._is_open:
            return False
        try:
            data = self._relay.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.send(data)
        else:
            self.close()
            self.hang_up()
        return bool(data)

    def close(self) -> None:
        """Close the connection for the other end."""
        self.other.hang_up()

    def hang_up(self) -> None:
        """Close the connection for this end."""
        if self._is_open:
            self._is_open = False
            self._event_loop.remove_reader(self._relay)
            self._event_loop.remove_writer(self._relay)
            self._relay.close()


class ChildEnd(End):
    """The end of what is instead of a process."""

    runtime: CapabilityRuntime

    @property
    def is_writable(self) -> bool:
        return self.runtime.upstream.is_writable

    @is_writable.setter
    def is_writable(self, value: bool) -> None:
        self.runtime.upstream.max_in_flight = 1000 if value else 0


class Quarters:
    """What the host of a capability has instead of a process, and both ends of the relay."""

    def __init__(self) -> None:
        self.near, self.other = End(), ChildEnd()
        self.near.other, self.other.other = self.other, self.near
        self.task: asyncio.Task[None]
        self.how = "exit code 0"
        self.lingers_s = 0.0
        """How long it takes to be gone."""

    @property
    def is_mute(self) -> bool:
        """Whether what the node says is dropped."""
        return self.near.is_mute

    @is_mute.setter
    def is_mute(self, value: bool) -> None:
        self.near.is_mute = value

    async def run(self) -> None:
        try:
            await self.other.runtime.run()
        finally:
            await asyncio.sleep(self.lingers_s)
            while self.other.forward():
                pass
            self.other.close()
            self.other.hang_up()

    def kill(self) -> None:
        if not self.task.done() and not self.other.is_mute:
            self.how = "killed by SIGKILL"
            self.other.is_mute = True
            self.task.cancel()

    async def wait(self) -> ProcessExit:
        await asyncio.wait([self.task])
        return ProcessExit(0, None, self.how)

    async def close(self) -> ProcessExit:
        self.kill()
        return await self.wait()


class Nearby:
    """Creates hosts whose capability runs at the other end of a relay. It keeps all incarnations."""

    def __init__(self, source: Source, clock: Clock | None = None) -> None:
        self.source = source
        self.clock = clock
        self.opened: list[Quarters] = []

    def create_host(self, slot: CapabilitySlot, /) -> IsolatedHost:
        return IsolatedHost(slot, self.open)

    # Any: instead of a ChildProcess.
    async def open(self, slot: CapabilitySlot) -> tuple[Any, socket.socket]:
        index = slot.router.index
        assert index is not None
        start = CapabilityStart((), b"", slot.router.config, frozenset(index.handlers))
        quarters = Quarters()
        quarters.other.runtime = CapabilityRuntime(quarters.other.sock, self.source, start, self.clock)
        quarters.task = asyncio.get_running_loop().create_task(quarters.run(), name=f"child of {slot.id}")
        self.opened.append(quarters)
        return quarters, quarters.near.sock


def nearby(source: Source, clock: Clock | None = None) -> Any:
    """The same capability, at the other end of a relay. Any: a Provision or a Contract."""
    if isinstance(source, type) and issubclass(source, Capability):
        source = provide(source)
    assert isinstance(source, (Provision, Contract))
    return replace(source, host_factory=Nearby(source, clock))
