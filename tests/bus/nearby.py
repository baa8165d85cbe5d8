"""Elsewhere, and yet here: what runs in another process is run on the same event loop, in virtual time, at the other end of two queues.

Everything that crosses to a process crosses here too, as bytes. What is missing is the process, which can die on its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any

from bandstand.bus import Capability, Contract, Provision, provide
from bandstand.bus.annex.performance import perform
from bandstand.core import Clock
from tests.bus.stage import Source


class End:
    """One end of a passage."""

    def __init__(self) -> None:
        self.other: End
        self.is_writable = True
        self.is_closed = False
        self.is_mute = False
        """Whether whoever is at this end has been killed: it may still run, but is heard no more."""
        self._arrived: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def send(self, errand: bytes, /) -> None:
        if not self.other.is_closed and not self.is_mute:
            self.other._arrived.append(errand)
            self.other.wake()

    async def receive(self) -> bytes | None:
        while not self._arrived:
            if self.other.is_closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._arrived.popleft()

    def close(self) -> None:
        self.is_closed = True
        self.other.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Quarters(End):
    """The node's end."""

    def __init__(self) -> None:
        super().__init__()
        self.task: asyncio.Task[None]
        self.how = "exit code 0"
        self.lingers_s = 0.0
        """How long it takes to be gone."""

    def kill(self) -> None:
        if not self.task.done() and not self.other.is_mute:
            self.how = "killed by SIGKILL"
            self.other.is_mute = True
            self.task.cancel()

    async def wait(self) -> str:
        await asyncio.wait([self.task])
        return self.how


class Nearby:
    """Where a capability runs that was said to run elsewhere. It keeps all incarnations."""

    def __init__(self, source: Source, clock: Clock | None = None) -> None:
        self.source = source
        self.clock = clock
        self.opened: list[Quarters] = []

    async def open(self, name: str, /) -> Quarters:
        ours, theirs = Quarters(), End()
        ours.other, theirs.other = theirs, ours

        async def run() -> None:
            try:
                await perform(theirs, self.source, clock=self.clock)
            finally:
                await asyncio.sleep(ours.lingers_s)
                theirs.close()

        ours.task = asyncio.get_running_loop().create_task(run(), name=f"annex of {name}")
        self.opened.append(ours)
        return ours


def nearby(source: Source, clock: Clock | None = None) -> Any:
    """The same capability, elsewhere. Any: a Provision or a Contract."""
    if isinstance(source, type) and issubclass(source, Capability):
        source = provide(source)
    assert isinstance(source, (Provision, Contract))
    return replace(source, elsewhere=Nearby(source, clock))
