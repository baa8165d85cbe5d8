"""A node for the command line's tests, on a thread of its own: a thing that breaks and can be mended, and stand-ins for what a node may not
have yet: `Dead` and `Syscall.Trace`, with the contract that the command line goes by. Where the node has them itself, it uses its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bandstand.bus import (
    Capability,
    Command,
    Event,
    Frame,
    Memory,
    Node,
    NodeConfig,
    Query,
    RestartLimits,
    UnixAdapter,
    provide,
)
from bandstand.bus.contracts import legality
from bandstand.errors import Refused


class Broken(Event, type="Glass.Broken"):
    """It is broken."""

    by: str = ""


class Fall(Command[str], type="Glass.Fall"):
    """Break, if it is not mended."""

    by: str = ""


class Swept(Event, type="Glass.Swept"):
    """Somebody has swept up. Nobody here says so: it comes from outside."""

    by: str = ""


class Mend(Command[None], type="Glass.Mend"):
    """Have it break no more."""


class Store:
    """What outlives incarnations."""

    def __init__(self) -> None:
        self.is_mended = False
        self.letters: list[dict[str, Any]] = []
        self.node: Node | None = None


class Glass(Capability):
    """Breaks."""

    outbound = Broken
    policy = RestartLimits(max_restarts=100, backoff_ms=1)

    def __init__(self, store: Store) -> None:
        self.store = store

    def fall(self, msg: Fall) -> str:
        self.bus.emit(Broken(msg.by))
        if self.store.is_mended:
            return "whole"
        meta = self.bus.message
        assert meta is not None
        self.store.letters.insert(0, letter(meta.id, "Glass.Fall"))
        raise RuntimeError("fallen\nto the floor")

    def mend(self, _msg: Mend) -> None:
        self.store.is_mended = True

    def swept(self, _msg: Swept) -> None:
        """It is of no use to a glass."""


def letter(name: str, type_name: str) -> dict[str, Any]:
    return {
        "id": name,
        "reason": "crashed",
        "kind": "command",
        "type": type_name,
        "at": 1_794_860_000_000,
        "attempts": 1,
        "capability": "Glass",
        "said": "Glass raised RuntimeError: fallen",
        "bytes": 100,
    }


class ListLetters(Query[Any], type="Dead.List"):
    """List them."""

    type: str | None = None
    reason: str | None = None
    limit: int = 100
    before: str | None = None


class ShowLetter(Query[Any], type="Dead.Show"):
    """Show one."""

    id: str


class ReplayLetter(Command[Any], type="Dead.Replay"):
    """Send one again."""

    id: str


class PurgeLetters(Command[Any], type="Dead.Purge"):
    """Throw some away."""

    id: str | None = None
    type: str | None = None
    reason: str | None = None


class Dead(Capability):
    """Stands in for the node's own."""

    outbound = Fall

    def __init__(self, store: Store) -> None:
        self.store = store

    def list(self, msg: ListLetters) -> Any:
        found = [
            each
            for each in self.store.letters
            if msg.type in {None, each["type"], f"{each['type'].split('.')[0]}.*"}
            and msg.reason in {None, each["reason"]}
        ]
        return {"letters": found[: msg.limit], "held": len(self.store.letters), "fallen": 0}

    def show(self, msg: ShowLetter) -> Any:
        return {"letter": self._find(msg.id), "message": self._frame(msg.id), "answer": None, "lineage": []}

    def replay(self, msg: ReplayLetter) -> Any:
        found = self._find(msg.id)
        if not self.store.is_mended:
            found["attempts"] += 1
            return {"id": msg.id, "replay": "again", "outcome": "failed", "answer": self._frame(msg.id)}
        self.store.letters.remove(found)
        return {"id": msg.id, "replay": "again", "outcome": "replied", "answer": self._frame(msg.id)}

    def purge(self, msg: PurgeLetters) -> Any:
        gone = [each for each in self.store.letters if msg.id in {None, each["id"]}]
        self.store.letters = [each for each in self.store.letters if each not in gone]
        return {"purged": len(gone)}

    def _find(self, name: str) -> dict[str, Any]:
        for each in self.store.letters:
            if each["id"] == name:
                return each
        raise Refused(f"there is no dead letter {name}")

    def _frame(self, name: str) -> Any:
        return {"kind": "command", "type": "Glass.Fall", "data": {}, "metadata": {"id": name, "timestamp": 1}}


class TraceMessage(Query[Any], type="Syscall.Trace"):
    """Show what a message has caused."""

    id: str
    limit: int = 1000


class Tracer(Capability):
    """Stands in for the node's own, from the same log."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def trace(self, msg: TraceMessage) -> Any:
        assert self.store.node is not None
        frames = {frame.metadata.id: frame for frame in self.store.node.recent(1000)}
        wanted = frames.get(msg.id)
        if wanted is None:
            return {"found": False, "ancestors": [], "tree": None, "complete": True}
        above: list[Frame] = []
        cause = frames.get(wanted.metadata.causation or "")
        while cause is not None:
            above.insert(0, cause)
            cause = frames.get(cause.metadata.causation or "")
        root = wanted.metadata.timestamp

        def step(frame: Frame) -> dict[str, Any]:
            below = [each for each in frames.values() if each.metadata.causation == frame.metadata.id]
            return {
                "id": frame.metadata.id,
                "kind": frame.kind,
                "type": frame.type,
                "timestamp": frame.metadata.timestamp,
                "afterMs": frame.metadata.timestamp - root,
                "destination": "somebody",
                "children": [step(each) for each in below],
            }

        ancestors: list[dict[str, Any]] = [{**step(each), "children": []} for each in above]
        return {"found": True, "ancestors": ancestors, "tree": step(wanted), "complete": False}


@contextmanager
def served(path: Path, factory: Any) -> Generator[Store]:
    """A node at a socket, on a thread of its own."""
    store = Store()
    ready = threading.Event()
    stops: list[Any] = []

    async def run() -> None:
        async with Node() as bare:
            handled = {name for each in bare.summary.capabilities for name in each.handles}
        sources: list[Any] = [Memory, provide(Glass, store)]
        if "query:Dead.List" not in handled:
            sources.append(provide(Dead, store))
        if "query:Syscall.Trace" not in handled:
            sources.append(provide(Tracer, store))
        before, legality.BUILTIN = legality.BUILTIN, ()  # type: ignore[misc, assignment]
        stop = asyncio.Event()
        stops.extend((asyncio.get_running_loop(), stop))
        try:
            async with Node(
                sources, adapters=[UnixAdapter(path)], config=NodeConfig(drain_ms=0, flush_ms=100)
            ) as node:
                legality.BUILTIN = before  # type: ignore[misc]
                store.node = node
                ready.set()
                await stop.wait()
        finally:
            legality.BUILTIN = before  # type: ignore[misc]
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


def plain(text: str) -> Any:
    return msgspec.json.decode(text)
