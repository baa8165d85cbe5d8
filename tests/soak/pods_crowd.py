"""Those who send to a circus: plain threads and tasks, each with a way of its own to go about pods that are down.

Each keeps its own books: what it has tried, what it was refused on the spot, what was taken, and what became of every ask. An ask that has
no outcome, or two, is a failure; so is an outcome that nobody has announced.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import TYPE_CHECKING, Any

from bandstand.errors import (
    AskCycleError,
    AskTimeoutError,
    BandstandError,
    MailboxFullError,
    PodDownError,
    PodGoneError,
    PodTimeoutError,
    TargetEndedError,
)
from bandstand.pod import WhenDown, when_down
from tests.soak.pods_cast import ANSWER, Artist, Declined, Way
from tests.soak.pods_ledger import MOST, ROLES

if TYPE_CHECKING:
    from tests.soak.pods import Storm

WAYS: tuple[Way, ...] = ("now", "now", "later", "onward", "decline")
POLICIES = (WhenDown.WAIT, WhenDown.FAIL, WhenDown.QUEUE)
REFUSALS = (MailboxFullError, PodDownError, PodTimeoutError)
"""What a call may raise while the circus plays."""
ENDS = (TargetEndedError, AskTimeoutError, PodTimeoutError, PodDownError, AskCycleError, MailboxFullError)
"""What an ask may end with, instead of an answer."""
ASK_MS = 4000
DOWN_MS = 2500
HOPS = 2
BURST = 30
PATIENCE = 30.0


class Guest:
    """What all who send have in common: numbers, books, and handles of their own."""

    def __init__(self, storm: Storm, source: int) -> None:
        self.source = source
        self.random = Random(f"{storm.name}/guest/{source}")
        self.policy = POLICIES[source % len(POLICIES)]
        self.counts: Counter[str] = Counter()
        self.told: dict[int, str] = {}
        """One-way messages that were accepted, and whom they were for."""
        self.refused: list[int] = []
        """Messages that were refused on the spot: nobody may ever have seen them."""
        self.answered: list[int] = []
        """Asks that were answered."""
        self._storm = storm
        self._number = 0
        self._artists: dict[str, Artist] = {}

    def artist(self) -> tuple[str, Artist]:
        """Somebody to send to, and his name."""
        if not self._artists:
            troupe = self._storm.troupe
            self._artists = {
                name: when_down(getattr(troupe, name), self.policy, timeout=DOWN_MS / 1000) for name in ROLES
            }
        name = self.random.choice(ROLES)
        return name, self._artists[name]

    def forget(self) -> None:
        """Let go of the troupe."""
        self._artists.clear()

    @property
    def is_over(self) -> bool:
        return self._storm.is_over.is_set() or self._number >= MOST - BURST - 1

    def next(self) -> int:
        self._number += 1
        return self._number

    def send(self, call: Callable[[int], Any], what: str, name: str) -> Any:
        """Send somebody something with a number of its own; what came back, or None if it was refused."""
        number = self.next()
        try:
            found = call(number)
        except BandstandError as error:
            self.refused.append(number)
            self.counts[f"{what} refused"] += 1
            if not isinstance(error, REFUSALS) and not (
                isinstance(error, PodGoneError) and self._storm.is_closing
            ):
                self._storm.fail(
                    f"{what} of guest {self.source} ({self.policy.name}) was refused with {error!r}"
                )
            return None
        if what == "tell":
            self.told[number] = name
        self.counts[what] += 1
        return found

    def tell(self) -> None:
        """Send one-way messages, some of which are passed on."""
        (name, artist), hops = self.artist(), self.random.choice((0, 0, 0, HOPS))
        if self.random.random() < 0.2:
            self.send(lambda number: artist.urge(self.source, number), "tell", name)
        else:
            self.send(lambda number: artist.note(self.source, number, hops), "tell", name)

    def settle(self, number: int, outcome: object) -> None:
        """An ask has ended, with an answer or with an exception."""
        if isinstance(outcome, Declined):
            outcome = outcome.args[0] + ANSWER
        if isinstance(outcome, BaseException):
            self.counts[f"ask ended {type(outcome).__name__}"] += 1
            if not isinstance(outcome, ENDS) and not (
                isinstance(outcome, PodGoneError) and self._storm.is_closing
            ):
                self._storm.fail(f"an ask of guest {self.source} ({self.policy.name}) ended with {outcome!r}")
        else:
            self.counts["ask answered"] += 1
            self.answered.append(number)
            if outcome != number + ANSWER:
                self._storm.fail(f"guest {self.source} has asked {number} and was answered {outcome!r}")

    @property
    def is_settled(self) -> bool:
        """Whether every ask that was taken has ended."""
        ended = sum(
            count for what, count in self.counts.items() if what.startswith(("ask ended", "ask answered"))
        )
        return ended == self.counts["ask"]


class Thread(Guest):
    """A plain thread: tells, asks and waits, asks and does not."""

    def __init__(self, storm: Storm, source: int) -> None:
        super().__init__(storm, source)
        self.thread = threading.Thread(target=self._run, name=f"guest {source}", daemon=True)
        self._futures: list[tuple[int, Future[int]]] = []
        self._calls: Counter[int] = Counter()

    def _run(self) -> None:
        deeds = (self.tell, self.tell, self.tell, self._ask, self._submit)
        try:
            while not self.is_over:
                for _ in range(self.random.randrange(BURST)):
                    self.random.choice(deeds)()
                self._storm.is_over.wait(self.random.random() * 0.004)
            self._collect()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self._storm.fail(f"{error!r} came out of guest {self.source}")

    def _ask(self) -> None:
        (_, artist), way, number = self.artist(), self.random.choice(WAYS), self.next()
        self.counts["ask"] += 1
        outcome: object
        try:
            outcome = artist.answer.within(ASK_MS / 1000).blocking(self.source, number, way)
        except (BandstandError, Declined) as error:
            # On the spot or later: one cannot tell from outside.
            outcome = error
        self.settle(number, outcome)

    def _submit(self) -> None:
        (name, artist), way = self.artist(), self.random.choice(WAYS)
        future: Future[int] | None = self.send(
            lambda number: artist.answer.within(ASK_MS / 1000).future(self.source, number, way), "ask", name
        )
        if future is not None:
            number = self._number
            future.add_done_callback(lambda _future: self._calls.update((number,)))
            self._futures.append((number, future))

    def _collect(self) -> None:
        for number, future in self._futures:
            try:
                outcome: object = future.result(PATIENCE)
            except (BandstandError, Declined) as error:
                outcome = error
            except TimeoutError:
                self._storm.fail(f"guest {self.source} has asked {number} and was never answered")
                continue
            self.settle(number, outcome)
            if self._calls[number] > 1:
                self._storm.fail(
                    f"guest {self.source} has asked {number} and was answered {self._calls[number]} times"
                )


class Task(Guest):
    """A task of an event loop: tells, waits for room, asks several at a time."""

    async def run(self) -> None:
        try:
            while not self.is_over:
                await self._go()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self._storm.fail(f"{error!r} came out of guest {self.source}")

    async def _go(self) -> None:
        for _ in range(self.random.randrange(BURST)):
            self.tell()
        await self._land()
        asks = [self._ask() for _ in range(self.random.randrange(5))]
        await asyncio.wait_for(asyncio.gather(*asks), PATIENCE)
        await asyncio.sleep(self.random.random() * 0.004)

    async def _land(self) -> None:
        (name, artist), number = self.artist(), self.next()
        self.counts["landing"] += 1
        try:
            await asyncio.wait_for(artist.note.when_room(self.source, number, 0), PATIENCE)
            self.told[number] = name
        except BandstandError as error:
            self.refused.append(number)
            self.counts[f"landing ended {type(error).__name__}"] += 1
            if not isinstance(error, (*REFUSALS, TargetEndedError)):
                self._storm.fail(f"a landing of guest {self.source} ended with {error!r}")

    async def _ask(self) -> None:
        (name, artist), way = self.artist(), self.random.choice(WAYS)
        reply = self.send(
            lambda number: artist.answer.within(ASK_MS / 1000)(self.source, number, way), "ask", name
        )
        if reply is None:
            return
        number = self._number
        try:
            outcome: object = await reply
        except (BandstandError, Declined) as error:
            outcome = error
        self.settle(number, outcome)
