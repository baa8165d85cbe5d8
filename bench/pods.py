"""The actors and troupes of the pods' cases. The same actors everywhere: where they run is all that differs.

They are declared at the top of a module, because a process pod imports them by their names. Whoever sends takes the time: an
actor of a pod that sends to one of the same pod, of another thread, or of another process.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import repeat
from threading import Event
from time import perf_counter_ns
from typing import TypeVar

from bandstand.actor import Actor, ask, tell
from bandstand.pod import Directory, ThreadModel, Troupe, directory, pod
from bench import stopwatch
from bench.case import WrongResultError

T = TypeVar("T", bound=Troupe)

BURST = 500
PATIENCE_MS = 60_000
ROUNDS = 20_000
"""How often a piece of work goes round."""


class Adder(Actor):
    """Adds up what it is sent."""

    def __init__(self) -> None:
        self.total = 0

    @tell
    def add(self, one: int) -> None:
        self.total += one

    @tell
    def toll(self, bell: Event | None) -> None:
        """The same for a thread that wants to hear when its last has been handled."""
        self.total += 1
        if bell is not None:
            bell.set()

    @ask
    def plus(self, one: int) -> int:
        self.total += one
        return self.total

    @ask
    def value(self) -> int:
        return self.total


class Peers(Directory):
    adder: Adder


class Sender(Actor):
    """Sends to an adder, wherever that is, and says what it took."""

    def __init__(self, peers: Peers) -> None:
        self._adder = peers.adder

    @ask
    def burst(self) -> None:
        """Send so many as a plain function does: only from such a one an actor of the same pod is called directly."""
        adder = self._adder
        for _ in repeat(None, BURST):
            adder.add(1)

    @ask
    async def stream(self, count: int) -> int:
        """Send as fast as there is room; nanoseconds until the last was handled."""
        adder = self._adder
        await adder.value()
        try_send, when_room = adder.add.try_send, adder.add.when_room
        start = stopwatch.start()
        for _ in repeat(None, count):
            if not try_send(1):
                await when_room(1)
        await adder.value()
        return stopwatch.since(start)

    @ask
    async def questions(self, count: int) -> tuple[list[int], int]:
        """Ask one at a time; the nanoseconds each took, and how many answers were right."""
        adder = self._adder
        before = await adder.value()
        times: list[int] = []
        right = 0
        stopwatch.start()
        for expected in range(before + 1, before + count + 1):
            start = perf_counter_ns()
            answer = await adder.plus(1)
            times.append(perf_counter_ns() - start)
            right += answer == expected
        return times, right


class Crew(Directory):
    adder: Adder
    sender: Sender


class Conductor(Actor):
    """Has a sender send, burst by burst."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    @ask
    async def conduct(self, bursts: int) -> int:
        """So many bursts, each of them handled before the next; nanoseconds."""
        burst, value = self._crew.sender.burst, self._crew.adder.value
        await value()
        start = stopwatch.start()
        for _ in repeat(None, bursts):
            await burst()
            await value()
        return stopwatch.since(start)


def piece(number: int) -> int:
    """Keep a core busy for about a millisecond; the result depends on the number."""
    for _ in repeat(None, ROUNDS):
        number = (number * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return number


class Worker(Actor):
    """Keeps a core busy."""

    @ask
    def work(self, number: int) -> int:
        return piece(number)


class OnePod(Troupe):
    """All in one pod, on a thread of its own."""

    together = pod()
    adder = together.expose(Adder)
    sender = together.of(Sender, directory(Peers))
    conductor = together.expose(Conductor, directory(Crew))


class OneThread(Troupe):
    """The adder on a thread of its own, called by the program. As much room as a burst of the other cases needs."""

    adder_pod = pod()
    adder = adder_pod.role(mailbox=16_384).expose(Adder)


class OneProcess(Troupe):
    """The sender on a thread of its own, the adder in a process of its own."""

    adder = pod(thread=ThreadModel.PROCESS).expose(Adder)
    sender = pod().expose(Sender, directory(Peers))


class OneWorker(Troupe):
    """One core's worth of work."""

    first = pod(thread=ThreadModel.PROCESS).expose(Worker)


class TwoWorkers(OneWorker):
    """Two of them."""

    second = pod(thread=ThreadModel.PROCESS).expose(Worker)


@contextmanager
def playing(troupe: T) -> Generator[T]:
    """Run a troupe for the length of the block. At the end its message counts must balance, and nothing may be lost.

    Raises:
        WrongResultError: something was.
    """
    with troupe:
        yield troupe
    stats = troupe.stats()
    if not stats.is_balanced or stats.dead or stats.dropped or stats.in_doubt:
        raise WrongResultError(f"the message counts of {type(troupe).__name__} are {stats}")
