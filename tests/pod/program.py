"""One program for every layout: a source, a chain and a fan, asks, a refusal, timers, a context variable, a handle that travels.

Each actor writes down what it sees, sender by sender: between two senders nothing is promised, so nothing is written down. The whole
transcript must be the same wherever the pods are.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from bandstand.actor import Actor, ask, tell
from bandstand.core import Lane
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel

request_id: ContextVar[str] = ContextVar("request_id", default="none")

ITEMS = 50
TICKS = 3


class Noted(Actor):
    """An actor that writes down what it sees."""

    def __init__(self) -> None:
        self.book: dict[str, list[str]] = {}

    def note(self, sender: str, what: object) -> None:
        self.book.setdefault(sender, []).append(str(what))

    @ask
    def transcript(self) -> dict[str, list[str]]:
        return self.book


class Sink(Noted):
    """Where everything comes together."""

    @tell
    def put(self, sender: str, what: object) -> None:
        self.note(sender, f"{what} for {request_id.get()}")

    @ask
    def count(self, sender: str) -> int:
        return len(self.book.get(sender, ()))

    @tell(lane=Lane.CONTROL)
    def hail(self, sender: str) -> None:
        self.note(f"{sender}, by control", "hail")


class SinkPeers(Directory):
    sink: Sink


class Worker(Noted):
    """Reckons, and passes on."""

    def __init__(self, name: str, factor: int, peers: SinkPeers) -> None:
        super().__init__()
        self.name = name
        self.factor = factor
        self.peers = peers
        self.is_greeted = False

    async def on_start(self) -> None:
        # It needs another pod already while it starts.
        self.peers.sink.put(f"{self.name}, at its start", await self.peers.sink.count("nobody"))

    @tell
    def feed(self, n: int) -> None:
        self.note("source", f"{n} for {request_id.get()}")
        self.peers.sink.put(self.name, n * self.factor)

    @ask
    async def flush(self) -> int:
        """How many of ours have reached the sink: all of them, because they were sent before."""
        self.peers.sink.hail(self.name)
        count = await self.peers.sink.count(self.name)
        self.note("source", f"flushed {count}")
        return count

    @ask(raises=(ZeroDivisionError, LookupError))
    def divide(self, n: int, by: int) -> float:
        self.note("source", f"{n} / {by}")
        return n / by

    @tell
    def report_to(self, sink: Sink) -> None:
        """Somebody gives us a handle of the sink, though we have one of our own."""
        sink.put(f"{self.name}, by a handle that was given", sink == self.peers.sink)


class Clock(Noted):
    """Ticks a few times, and is quiet."""

    def __init__(self, peers: SinkPeers) -> None:
        super().__init__()
        self.peers = peers

    @tell
    def begin(self, ticks: int) -> None:
        self.note("itself", f"{ticks} to come")
        self.peers.sink.put("clock", ticks)
        if ticks:
            self.after(0.001, self.begin, ticks - 1)


class SourcePeers(Directory):
    double: Worker
    treble: Worker
    clock: Clock
    sink: Sink


class Source(Noted):
    """Drives the others."""

    def __init__(self, peers: SourcePeers) -> None:
        super().__init__()
        self.peers = peers

    @ask
    async def run(self, items: int) -> str:
        """Everything there is to do, in order; returns when all of it has arrived."""
        double, treble, sink = self.peers.double, self.peers.treble, self.peers.sink
        for n in range(items):
            await double.feed.when_room(n)
            await treble.feed.when_room(n)
        self.note("itself", await asyncio.gather(double.flush(), treble.flush()))
        for by in (2, 0):
            try:
                self.note("itself", await double.divide(7, by))
            except ZeroDivisionError as error:
                self.note("itself", f"{type(error).__name__}: {error}")
        double.report_to(sink)
        await double.flush()
        ticked = await sink.count("clock")
        self.peers.clock.begin(TICKS)
        # Nobody tells us of it: the sink is told, and is to be asked.
        while await sink.count("clock") <= ticked + TICKS:  # noqa: ASYNC110  # see above
            await asyncio.sleep(0)
        return request_id.get()


class Program(Troupe):
    """Everybody, each in a pod of its own, unless a layout says otherwise."""

    carries = (request_id,)

    sink = pod().expose(Sink)
    double = pod().expose(Worker, "double", 2, directory(SinkPeers))
    treble = pod().expose(Worker, "treble", 3, directory(SinkPeers))
    clock = pod().expose(Clock, directory(SinkPeers))
    source = pod(thread=ThreadModel.COOPERATIVE).expose(Source, directory(SourcePeers))


async def perform(program: Program) -> dict[str, dict[str, list[str]]]:
    """Play the program, and give back the transcripts of all actors."""
    async with program:
        request_id.set("r1")
        answers = [await program.source.run(ITEMS)]
        request_id.set("r2")
        answers.append(await program.source.run(0))
        roles: list[Noted] = [program.sink, program.double, program.treble, program.clock, program.source]
        names = ("sink", "double", "treble", "clock", "source")
        transcripts = {name: await role.transcript() for name, role in zip(names, roles, strict=True)}
        return {**transcripts, "outside": {"source": answers}}
