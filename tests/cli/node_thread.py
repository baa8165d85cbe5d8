"""A node on a thread, for tests of the command line: `Memory`, and a capability that crashes until it is mended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bandstand.bus import (
    Adapter,
    Capability,
    Command,
    Event,
    Memory,
    Node,
    NodeConfig,
    RestartLimits,
    UnixAdapter,
    provide,
)
from bandstand.supervision import Backoff


class Broken(Event, type="Glass.Broken"):
    """The glass is broken."""

    by: str = ""


class Fall(Command[str], type="Glass.Fall"):
    """Break the glass, unless it is mended."""

    by: str = ""


class Swept(Event, type="Glass.Swept"):
    """The floor was swept. No capability emits this event; it comes from a client."""

    by: str = ""


class Mend(Command[None], type="Glass.Mend"):
    """Mend the glass: it does not break again."""


class Store:
    """State that survives restarts of the capability."""

    def __init__(self) -> None:
        self.is_mended = False
        self.node: Node | None = None


class Glass(Capability):
    """Breaks."""

    outbound = Broken
    restarts = RestartLimits(max_restarts=100, backoff=Backoff(initial=0.001, maximum=0.001))

    def __init__(self, store: Store) -> None:
        self.store = store

    def fall(self, msg: Fall) -> str:
        self.bus.emit(Broken(msg.by))
        if self.store.is_mended:
            return "whole"
        raise RuntimeError("fallen\nto the floor")

    def mend(self, _msg: Mend) -> None:
        self.store.is_mended = True

    def swept(self, _msg: Swept) -> None:
        """Ignore the event."""


@contextmanager
def served(path: Path, factory: Any, adapters: Sequence[Adapter] = ()) -> Generator[Store]:
    """Run a node that listens on the Unix socket `path`, and on more adapters, on a thread."""
    store = Store()
    ready = threading.Event()
    stops: list[Any] = []

    async def run() -> None:
        stop = asyncio.Event()
        stops.extend((asyncio.get_running_loop(), stop))
        try:
            async with Node(
                [Memory, provide(Glass, store)],
                adapters=[UnixAdapter(path), *adapters],
                config=NodeConfig(drain_timeout=0, flush_timeout=0.1),
            ) as node:
                store.node = node
                ready.set()
                await stop.wait()
        finally:
            ready.set()

    def target() -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(run())

    thread = threading.Thread(target=target)
    thread.start()
    try:
        assert ready.wait(30)
        assert store.node is not None
        yield store
    finally:
        stops[0].call_soon_threadsafe(stops[1].set)
        thread.join(30)
