"""The senders of a pod run: threads and tasks, each with another policy for pods that are down.

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
from tests.soak.pod_actors import ANSWER, DeclinedError, Echo, Way
from tests.soak.pod_record import MOST, ROLES

if TYPE_CHECKING:
    from tests.soak.pod_run import PodRun

WAYS: tuple[Way, ...] = ("now", "now", "later", "onward", "decline")
POLICIES = (WhenDown.WAIT, WhenDown.FAIL, WhenDown.QUEUE)
REFUSALS = (MailboxFullError, PodDownError, PodTimeoutError)
"""What a call may raise while the deployment runs."""
ENDS = (TargetEndedError, AskTimeoutError, PodTimeoutError, PodDownError, AskCycleError, MailboxFullError)
"""What an ask may end with, instead of an answer."""
ASK_MS = 4000
DOWN_MS = 2500
HOPS = 2
BURST = 30
PATIENCE = 30.0


class Sender:
    """What threads and tasks share: numbers, a record of outcomes, and handles."""

    def __init__(self, run: PodRun, source: int) -> None:
        self.source = source
        self.random = Random(f"{run.name}/sender/{source}")
        self.policy = POLICIES[source % len(POLICIES)]
        self.counts: Counter[str] = Counter()
        self.sent: dict[int, str] = {}
        """Accepted one-way messages, and their targets."""
        self.refused: list[int] = []
        """Messages that were refused by the call: they must never be handled."""
        self.answered: list[int] = []
        """Answered asks."""
        self._run_ = run
        self._number = 0
        self._actors: dict[str, Echo] = {}

    def actor(self) -> tuple[str, Echo]:
        """Choose a target; return its name and its handle."""
        if not self._actors:
            deployment = self._run_.deployment
            self._actors = {
                name: when_down(getattr(deployment, name), self.policy, timeout=DOWN_MS / 1000)
                for name in ROLES
            }
        name = self.random.choice(ROLES)
        return name, self._actors[name]

    def forget(self) -> None:
        """Drop all references to the deployment."""
        self._actors.clear()

    @property
    def is_over(self) -> bool:
        return self._run_.is_over.is_set() or self._number >= MOST - BURST - 1

    def next(self) -> int:
        self._number += 1
        return self._number

    def send(self, call: Callable[[int], Any], what: str, name: str) -> Any:
        """Send something with a new number; return the result, or None if it was refused."""
        number = self.next()
        try:
            found = call(number)
        except BandstandError as error:
            self.refused.append(number)
            self.counts[f"{what} refused"] += 1
            if not isinstance(error, REFUSALS) and not (
                isinstance(error, PodGoneError) and self._run_.is_closing
            ):
                self._run_.fail(
                    f"{what} of sender {self.source} ({self.policy.name}) was refused with {error!r}"
                )
            return None
        if what == "tell":
            self.sent[number] = name
        self.counts[what] += 1
        return found

    def tell(self) -> None:
        """Send one-way messages, some of which are passed on."""
        (name, actor), hops = self.actor(), self.random.choice((0, 0, 0, HOPS))
        if self.random.random() < 0.2:
            self.send(lambda number: actor.urge(self.source, number), "tell", name)
        else:
            self.send(lambda number: actor.note(self.source, number, hops), "tell", name)

    def settle(self, number: int, outcome: object) -> None:
        """Record how an ask has ended."""
        if isinstance(outcome, DeclinedError):
            outcome = outcome.args[0] + ANSWER
        if isinstance(outcome, BaseException):
            self.counts[f"ask ended {type(outcome).__name__}"] += 1
            if not isinstance(outcome, ENDS) and not (
                isinstance(outcome, PodGoneError) and self._run_.is_closing
            ):
                self._run_.fail(f"an ask of sender {self.source} ({self.policy.name}) ended with {outcome!r}")
        else:
            self.counts["ask_answered"] += 1
            self.answered.append(number)
            if outcome != number + ANSWER:
                self._run_.fail(f"sender {self.source} has asked {number} and was answered {outcome!r}")

    @property
    def is_settled(self) -> bool:
        """Whether every accepted ask has ended."""
        ended = sum(
            count for what, count in self.counts.items() if what.startswith(("ask ended", "ask_answered"))
        )
        return ended == self.counts["ask"]


class Thread(Sender):
    """A thread: tells, asks and waits, or asks and does not wait."""

    def __init__(self, run: PodRun, source: int) -> None:
        super().__init__(run, source)
        self.thread = threading.Thread(target=self._run, name=f"sender {source}", daemon=True)
        self._futures: list[tuple[int, Future[int]]] = []
        self._calls: Counter[int] = Counter()

    def _run(self) -> None:
        deeds = (self.tell, self.tell, self.tell, self._ask, self._submit)
        try:
            while not self.is_over:
                for _ in range(self.random.randrange(BURST)):
                    self.random.choice(deeds)()
                self._run_.is_over.wait(self.random.random() * 0.004)
            self._collect()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self._run_.fail(f"{error!r} was raised in sender {self.source}")

    def _ask(self) -> None:
        (_, actor), way, number = self.actor(), self.random.choice(WAYS), self.next()
        self.counts["ask"] += 1
        outcome: object
        try:
            outcome = actor.answer.within(ASK_MS / 1000).blocking(self.source, number, way)
        except (BandstandError, DeclinedError) as error:
            # Refused or failed later: from outside, there is no difference.
            outcome = error
        self.settle(number, outcome)

    def _submit(self) -> None:
        (name, actor), way = self.actor(), self.random.choice(WAYS)
        future: Future[int] | None = self.send(
            lambda number: actor.answer.within(ASK_MS / 1000).future(self.source, number, way), "ask", name
        )
        if future is not None:
            number = self._number
            future.add_done_callback(lambda _future: self._calls.update((number,)))
            self._futures.append((number, future))

    def _collect(self) -> None:
        for number, future in self._futures:
            try:
                outcome: object = future.result(PATIENCE)
            except (BandstandError, DeclinedError) as error:
                outcome = error
            except TimeoutError:
                self._run_.fail(f"sender {self.source} has asked {number} and was never answered")
                continue
            self.settle(number, outcome)
            if self._calls[number] > 1:
                self._run_.fail(
                    f"sender {self.source} has asked {number} and was answered {self._calls[number]} times"
                )


class Task(Sender):
    """A task: tells, waits for room, asks several at a time."""

    async def run(self) -> None:
        try:
            while not self.is_over:
                await self._go()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self._run_.fail(f"{error!r} was raised in sender {self.source}")

    async def _go(self) -> None:
        for _ in range(self.random.randrange(BURST)):
            self.tell()
        await self._wait_for_room()
        asks = [self._ask() for _ in range(self.random.randrange(5))]
        await asyncio.wait_for(asyncio.gather(*asks), PATIENCE)
        await asyncio.sleep(self.random.random() * 0.004)

    async def _wait_for_room(self) -> None:
        (name, actor), number = self.actor(), self.next()
        self.counts["room"] += 1
        try:
            await asyncio.wait_for(actor.note.when_room(self.source, number, 0), PATIENCE)
            self.sent[number] = name
        except BandstandError as error:
            self.refused.append(number)
            self.counts[f"room ended {type(error).__name__}"] += 1
            if not isinstance(error, (*REFUSALS, TargetEndedError)):
                self._run_.fail(f"a room of sender {self.source} ended with {error!r}")

    async def _ask(self) -> None:
        (name, actor), way = self.actor(), self.random.choice(WAYS)
        reply = self.send(
            lambda number: actor.answer.within(ASK_MS / 1000)(self.source, number, way), "ask", name
        )
        if reply is None:
            return
        number = self._number
        try:
            outcome: object = await reply
        except (BandstandError, DeclinedError) as error:
            outcome = error
        self.settle(number, outcome)
