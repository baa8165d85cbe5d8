"""Kills a node with a journal again and again while clients use it, and then compares what they were told with the journal and with what was executed.

The node is a process of its own, which ends by SIGKILL: at a random moment, or by itself exactly at a page with a record of some kind (`durable_node`). The
clients are in this process. Their connections break with each kill; they connect again, and send what has no answer again, with its id.

Decisions come from the seed; processes and the clock decide the rest.
"""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from bandstand.bus import ClientConfig, connect
from bandstand.bus.client.connection import Connection
from bandstand.bus.durable.reader import Entry, entries_of
from bandstand.bus.durable.records import (
    ANSWER,
    BEGAN,
    BOOT,
    CHECKPOINT,
    DEAD,
    DEAD_ENDED,
    ENDED,
    EVENT,
    FROM_CLIENT,
    IS_BEGUN,
    IS_DOUBTFUL,
    KIND_NAMES,
    REQUEST,
    TIMER,
    TIMER_ENDED,
    DeadEntry,
    TimerEntry,
)
from bandstand.bus.durable.recovery import MAX_ATTEMPTS
from bandstand.bus.frame import Frame
from bandstand.errors import NodeGoneError
from bandstand.journal import JournalReader
from bandstand.supervision import Backoff
from tests.bus.durable_node import CHILDREN, Moment, Step, read_ledger, run_node
from tests.soak.node_process import ESCAPED

PATIENCE = 60.0
"""Seconds in which anything must be done, on the busiest machine."""

KINDS: Final = (
    BOOT,
    REQUEST,
    BEGAN,
    ANSWER,
    ENDED,
    EVENT,
    TIMER,
    TIMER_ENDED,
    DEAD,
    DEAD_ENDED,
    CHECKPOINT,
)
STEPS: Final[tuple[Step, ...]] = ("unwritten", "written", "marked")
# At a later page of these the process would have to run for long.
_RARE: Final = {BOOT, ENDED, DEAD, DEAD_ENDED, CHECKPOINT}
_FEW: Final = 12

CLIENTS = 3
CALLS_AT_ONCE = 8

Plan: TypeAlias = Moment | Literal["random", "poison", "poison again", "poisoned"]
"""When a node is killed: at a page; at a random moment; or by a command that kills it, which is sent for this, or was sent
before."""

# Processes that are forked from one that has imported the package: a start takes a few milliseconds, and the thread that starts them matters to nobody.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.bus.durable_node"])


# -- what was seen -----------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What a run has found."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter[str])
    """How often the node was killed, by the kind of the record; or at a random moment, or by a command."""
    seconds: float = 0.0
    requests: int = 0
    """How many commands the clients have sent."""
    answers: Counter[str] = field(default_factory=Counter[str])
    """Their answers: `reply`, or the type of the error."""
    executions: int = 0
    pages: int = 0
    records: int = 0
    checkpoints: int = 0
    failures: list[str] = field(default_factory=list[str])

    def add(self, other: Report) -> None:
        """Add what another run has found."""
        self.kills += other.kills
        self.answers += other.answers
        for name in ("seconds", "requests", "executions", "pages", "records", "checkpoints"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures += other.failures


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client was told."""

    type: str
    number: int
    id: str
    answer: str
    """`reply`, or the type of the error."""


@final
@dataclass(slots=True)
class Story:
    """What the journal says of one request."""

    type: str
    number: int
    id: str
    way: str
    begun: int
    is_of_client: bool
    answers: list[str] = field(default_factory=list[str])
    is_ended: bool = False
    is_doubtful: bool = False
    """Whether a repeat gets `Sys.InDoubt` again."""
    boot: int = 0
    """The process that has accepted it."""
    is_late: bool = False
    """Whether it was answered by another process."""


def answer_of(frame: Frame) -> str:
    """Return `reply`, or the type of the error."""
    return "reply" if frame.kind == "reply" else frame.type


# -- the books ---------------------------------------------------------------------------------------------------------


@final
class Books:
    """The journal, the ledger and what the clients were told: `failures` says where they contradict each other."""

    def __init__(self, folder: Path) -> None:
        self.stories: dict[tuple[str, int], list[Story]] = defaultdict(list)
        self.executions = Counter(read_ledger(folder / "ledger"))
        self.events: Counter[int] = Counter()
        # Scheduled messages by the number of their command, and the ids of those that have not ended.
        self.timers: Counter[int] = Counter()
        self.open_timers: set[str] = set()
        self.dead: dict[str, DeadEntry] = {}
        self.pages = self.records = self.checkpoints = self.boots = 0
        # The stories by the number of their request.
        self._requests: dict[int, Story] = {}
        with JournalReader(folder / "journal") as reader:
            for page in reader.pages():
                self.pages += 1
                for entry in entries_of(page):
                    self.records += 1
                    self.checkpoints += entry.kind == CHECKPOINT
                    if not entry.is_copy:
                        self._take(entry)

    def _take(self, entry: Entry) -> None:
        kind, content = entry.kind, entry.content
        if kind == BOOT:
            self.boots += 1
        elif kind == REQUEST:
            self._take_request(entry)
        elif kind == BEGAN:
            for number in entry.numbers:
                self._requests[number].begun += 1
        elif kind == ANSWER:
            assert entry.message is not None
            story = self._requests[entry.numbers[0]]
            story.answers.append(answer_of(entry.message))
            story.is_late = story.boot < self.boots
            story.is_doubtful |= bool(entry.flags & IS_DOUBTFUL)
        elif kind == ENDED:
            for number in entry.numbers:
                self._requests[number].is_ended = True
        elif kind == EVENT:
            assert entry.message is not None
            self.events[number_of(entry.message)] += 1
        elif kind == TIMER:
            assert isinstance(content, TimerEntry)
            self.timers[number_of(content.message)] += 1
            self.open_timers.add(content.id)
        elif kind == TIMER_ENDED:
            self.open_timers.remove(entry.ended)
        elif kind == DEAD:
            assert isinstance(content, DeadEntry)
            self.dead[content.id] = content
        elif kind == DEAD_ENDED:
            del self.dead[entry.ended]

    def _take_request(self, entry: Entry) -> None:
        frame = entry.message
        assert frame is not None
        data = decode(frame)
        story = Story(
            frame.type,
            number_of(frame),
            frame.metadata.id,
            data.get("way", "answer"),
            1 if entry.flags & IS_BEGUN else 0,
            is_of_client=bool(entry.flags & FROM_CLIENT),
            boot=self.boots,
        )
        self._requests[entry.numbers[0]] = story
        self.stories[story.type, story.number].append(story)

    def failures(
        self, outcomes: Sequence[Outcome], waiting: set[int], settled: set[str], emitted: Counter[int]
    ) -> Iterator[str]:
        """Yield what is wrong.

        Args:
            outcomes: what the clients were told.
            waiting: the numbers of the commands whose clients have gone.
            settled: the ids of the commands in doubt, and of dead letters, that were settled or deleted.
            emitted: the numbers of the events of clients, how often each was confirmed.
        """
        for outcome in outcomes:
            yield from self._compare(outcome)
        for stories in self.stories.values():
            if len(stories) > 1 and stories[0].number >= 0:
                yield f"{stories[0]} is in the journal {len(stories)} times"
            for story in stories:
                yield from self._check_fate(story, settled)
                if story.number >= 0:
                    yield from self._check_executions(story)
                    yield from self._check_messages(story)
                    yield from self._check_letter(story, settled)
        yield from self._check_origins({*waiting, *(outcome.number for outcome in outcomes)}, emitted)
        if self.open_timers:
            yield f"{len(self.open_timers)} scheduled messages are open"

    def _compare(self, outcome: Outcome) -> Iterator[str]:
        """A client is told what the journal says."""
        stories = self.stories.get((outcome.type, outcome.number))
        if stories is None:
            yield f"{outcome} is not in the journal"
        elif stories[0].answers[:1] != [outcome.answer]:
            yield f"{outcome} was the answer, and the journal says {stories[0]}"

    def _check_fate(self, story: Story, settled: set[str]) -> Iterator[str]:
        """Each command has one answer; one in doubt may have got another one, when it was settled."""
        is_settled = story.id in settled and story.answers[:1] == ["Sys.InDoubt"]
        fates = len(story.answers) + story.is_ended
        if story.is_ended and not is_settled and story.type != "Waiter.Wait":
            yield f"{story} has ended without an answer"
        if not 1 <= fates <= (2 if is_settled else 1):
            yield f"{story} has not exactly one fate"

    def _check_executions(self, story: Story) -> Iterator[str]:
        if story.type.startswith("Timer."):
            return
        count, answer = self.executions[story.type, story.number], story.answers[0] if story.answers else ""
        is_retry_safe = story.type.endswith("Again")
        if count > story.begun:
            yield f"{story} was executed {count} times"
        if story.begun > (MAX_ATTEMPTS if is_retry_safe else 1):
            yield f"{story} was begun too often"
        if answer == "Sys.InDoubt":
            if is_retry_safe:
                yield f"{story} is retry_safe and in doubt"
            if story.is_of_client != story.is_doubtful:
                yield f"{story} does not stay in doubt"
        elif not count:
            # If a handler fails, those that run beside it are cancelled, perhaps before their first step.
            if not story.is_ended and answer != "Sys.ActorCrash":
                yield f"{story} was not executed"
        elif not is_retry_safe and count != 1:
            yield f"{story} was executed {count} times, and is not retry_safe"
        if story.way == "end" and answer != ("Sys.ActorCrash" if is_retry_safe else "Sys.InDoubt"):
            yield f"{story} has ended the process, and has another answer"
        if story.way == "end" and count != (MAX_ATTEMPTS if is_retry_safe else 1):
            yield f"{story} has ended {count} processes"

    def _check_messages(self, story: Story) -> Iterator[str]:
        """What a handler sends happens exactly once if it has answered, and never if it has not."""
        answer, number = story.answers[0] if story.answers else "", story.number
        is_kept = answer in {"reply", "Sys.Refused"}
        expected: tuple[tuple[str, int, bool], ...]
        if story.type in {"Sender.Send", "Sender.SendAgain"}:
            expected = (
                ("event", self.events[number], is_kept),
                ("Worker.Work", len(self.stories.get(("Worker.Work", number + 1), ())), is_kept),
                (
                    "Worker.WorkAgain",
                    len(self.stories.get(("Worker.WorkAgain", number + 2), ())),
                    answer == "reply",
                ),
            )
        elif story.type in {"Sender.Plan", "Sender.PlanAgain", "Timer.Schedule"}:
            expected = (
                ("scheduled message", self.timers[number + 1], is_kept),
                ("Worker.Work", len(self.stories.get(("Worker.Work", number + 1), ())), is_kept),
            )
        else:
            expected = ()
        for name, count, is_expected in expected:
            if count != is_expected:
                yield f"of {story} there is {name} {count} times"

    def _check_letter(self, story: Story, settled: set[str]) -> Iterator[str]:
        """A command in doubt, or that has crashed, is a dead letter until that is removed."""
        reason = {"Sys.InDoubt": "inDoubt", "Sys.ActorCrash": "crashed"}.get(
            story.answers[0] if story.answers else ""
        )
        letter = self.dead.get(story.id)
        found = None if letter is None else letter.reason
        if story.type == "Waiter.Wait" and story.answers == ["reply"] and story.is_late:
            # Its client was gone, and does not come back.
            reason = "abandoned"
        elif found == "abandoned":
            # Its client was gone when it was answered. That it has come back may be unknown: the process was killed then.
            return
        if found != (None if story.id in settled else reason):
            yield f"{story} is a dead letter with the reason {found}"

    def _check_origins(self, known: set[int], emitted: Counter[int]) -> Iterator[str]:
        """Nothing comes from nowhere, and no event that was confirmed is lost."""
        for name, number in self.stories:
            if number >= 0 and number - number % CHILDREN not in known:
                yield f"{name} {number} is in the journal, and nobody has sent it"
        for name, number in self.executions:
            if name == "Sender.Sent":
                if not self.events[number]:
                    yield f"event {number} was heard, and is not in the journal"
            elif (name, number) not in self.stories:
                yield f"{name} {number} was executed, and is not in the journal"
        for number, count in emitted.items():
            if not count <= self.events[number] <= 1:
                yield f"event {number} was confirmed {count} times, and is in the journal {self.events[number]} times"


def decode(frame: Frame) -> dict[str, Any]:
    """Return the data of a message."""
    data: dict[str, Any] = msgspec.json.decode(frame.data)
    return data


def number_of(frame: Frame) -> int:
    """Return the number of a message; of `Timer.Schedule`, the one before that of its message; -1 for one without."""
    data = decode(frame)
    if frame.type == "Timer.Schedule":
        number: int = data["message"]["data"]["number"] - 1
    else:
        number = data.get("number", -1)
    return number


# -- the run -----------------------------------------------------------------------------------------------------------


def draw_plans(random: Random, count: int) -> list[Plan]:
    """Return when the node is killed: at every kind of record and both ways of poison before anything again, and often at random moments."""
    plans: list[Plan] = []
    while len(plans) < count:
        others: list[Plan] = ["random", "random", "random", "poison", "poison again"]
        several: list[Plan] = [*(_moment(random, kind) for kind in KINDS), *others]
        random.shuffle(several)
        plans += several
    return plans[:count]


def _moment(random: Random, kind: int) -> Moment:
    return Moment(kind, random.randint(1, 1 if kind in _RARE else _FEW), random.choice(STEPS))


class Chaos:
    """One node with its journal, over all its processes, and its clients.

    Args:
        folder: where its files are; a new one.
        seed: of all decisions.
        plans: when it is killed.
        tell: called with the report after each kill.
        patience: the seconds in which anything must be done.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        plans: Sequence[Plan],
        tell: Callable[[Report], object] = lambda _report: None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.report = Report(seed)
        self._folder = folder
        self._plans = plans
        self._tell = tell
        self._patience = patience
        self._random = Random(seed)
        self._address = f"unix:{folder / 'socket'}"
        self._config = ClientConfig(
            timeout=2 * patience,
            window=CALLS_AT_ONCE,
            wait=patience,
            give_up_after=patience,
            connect_timeout=patience,
            backoff=Backoff(initial=0.005, maximum=0.04, jitter=0.005),
        )
        self._is_over = False
        self._next = 0
        self._padding = ""
        self._poison: list[str] = []
        self._outcomes: list[Outcome] = []
        self._waiting: set[int] = set()
        self._settled: set[str] = set()
        self._emitted: Counter[int] = Counter()
        # The ids of commands in doubt, and of dead letters, that wait for the operator.
        self._doubts: list[str] = []
        self._crashes: list[str] = []
        self._listed: list[tuple[str, str]] = []

    async def play(self) -> Report:
        """Kill the node as often as planned, let the last process finish, and compare."""
        begin = time.monotonic()
        try:
            async with (
                asyncio.timeout(self._patience * (2 + len(self._plans))),
                asyncio.TaskGroup() as group,
            ):
                clients = [group.create_task(self._client()) for _ in range(CLIENTS)]
                clients += [group.create_task(self._impatient_client()), group.create_task(self._operator())]
                for plan in self._plans:
                    await self._kill(plan)
                    if plan == "poison again":
                        # It is tried again by the next processes.
                        for _ in range(MAX_ATTEMPTS - 1):
                            await self._kill("poisoned")
                    self.report.seconds = time.monotonic() - begin
                    self.report.requests = len(self._outcomes)
                    self._tell(self.report)
                last = self._start(None)
                group.create_task(self._finish(last, clients))
        except (BaseExceptionGroup, TimeoutError) as error:
            self.report.failures.append(f"{error!r} was raised\n{self._output()[-3000:]}")
        else:
            self._compare()
        self.report.seconds = time.monotonic() - begin
        return self.report

    # -- the node ------------------------------------------------------------------------------------------------------

    def _start(self, moment: Moment | None) -> Any:
        process = _processes.Process(target=run_node, args=(str(self._folder), moment), daemon=True)
        process.start()
        return process

    async def _kill(self, plan: Plan) -> None:
        """Start the node, and kill it, or wait until it has killed itself."""
        begin = time.monotonic()
        process = self._start(plan if isinstance(plan, Moment) else None)
        try:
            if plan == "random":
                # From its first instruction on.
                await asyncio.sleep(self._random.expovariate(1 / 0.25))
                process.kill()
            elif isinstance(plan, Moment):
                self._padding = "x" * 200_000 if plan.kind == CHECKPOINT else ""
            elif plan != "poisoned":
                self._poison.append("Worker.WorkAgain" if plan == "poison again" else "Worker.Work")
            await asyncio.to_thread(process.join, self._patience)
            self._padding = ""
        finally:
            process.kill()
            process.join(self._patience)
        name = plan if isinstance(plan, str) else KIND_NAMES[plan.kind]
        self.report.kills[name] += 1
        if process.exitcode != -signal.SIGKILL or time.monotonic() - begin > self._patience:
            raise AssertionError(f"with {plan}, the node has ended with {process.exitcode}")

    async def _finish(self, process: Any, clients: Sequence[asyncio.Task[None]]) -> None:
        """Let the clients and the node finish, and stop it."""
        self._is_over = True
        try:
            # Not only until the node has no client: one that has lost its connection may not have tried again yet.
            await asyncio.wait(clients)
            async with connect(self._address, self._config) as connection:
                await self._wait_idle(connection)
            process.terminate()
            await asyncio.to_thread(process.join, self._patience)
        finally:
            process.kill()
            process.join(self._patience)
        if process.exitcode != 0:
            raise AssertionError(f"asked to stop, the node has ended with {process.exitcode}")

    async def _wait_idle(self, connection: Connection) -> None:
        """Wait until nothing is open; note what is wrong with the counters."""
        while True:
            stats: dict[str, Any] = await connection.query("Syscall.Stats")
            requests = stats["requests"]
            # The question itself is in flight; the other clients have gone.
            if stats["clients"] == 1 and requests["inFlight"] == 1 and not stats["timers"]["scheduled"]:
                break
            await asyncio.sleep(0.02)
        ended = sum(requests[name] for name in ("answered", "abandoned", "withdrawn"))
        lost = requests["admitted"] - ended - sum(requests["failed"].values()) - requests["inFlight"]
        if lost:
            self.report.failures.append(f"the counters do not account for {lost} requests: {requests}")
        if requests["timersScheduled"] != requests["timersFired"] + requests["timersCancelled"]:
            self.report.failures.append(f"the counters do not account for all timers: {requests}")
        letters = stats["deadLetters"]
        if letters["made"] != letters["held"] + letters["fallen"] + letters["removed"]:
            self.report.failures.append(f"the counters do not account for all dead letters: {letters}")
        self._listed = await self._list(connection)

    async def _list(self, connection: Connection) -> list[tuple[str, str]]:
        """Return the ids and the reasons of the dead letters, the newest first."""
        found: list[tuple[str, str]] = []
        while True:
            before = {"before": found[-1][0]} if found else {}
            page: dict[str, Any] = await connection.query("Dead.List", {"limit": 1000, **before})
            found += [(each["id"], each["reason"]) for each in page["letters"]]
            if len(page["letters"]) < 1000:
                return found

    # -- the clients ---------------------------------------------------------------------------------------------------

    async def _client(self) -> None:
        async with connect(self._address, self._config) as connection, asyncio.TaskGroup() as group:
            for _ in range(CALLS_AT_ONCE):
                group.create_task(self._call_always(connection))

    async def _call_always(self, connection: Connection) -> None:
        while not self._is_over:
            number, self._next = self._next, self._next + CHILDREN
            if self._random.random() < 0.05:
                await self._emit(connection, number)
            else:
                await self._call(connection, number)
            await asyncio.sleep(self._random.uniform(0, 0.02))

    async def _emit(self, connection: Connection, number: int) -> None:
        self._emitted[number] = 0
        # It is not sent again if the connection is lost before it is confirmed.
        with suppress(NodeGoneError):
            await connection.emit("Sender.Sent", {"number": number})
            self._emitted[number] = 1

    async def _call(self, connection: Connection, number: int) -> None:
        type_name, data = self._draw(number)
        answer = await connection.exchange("command", type_name, data)
        request_id = answer.metadata.causation
        assert request_id is not None
        outcome = Outcome(type_name, number, request_id, answer_of(answer))
        self._outcomes.append(outcome)
        self.report.answers[outcome.answer] += 1
        if outcome.answer == "Sys.InDoubt" and self._random.random() < 0.5:
            self._doubts.append(outcome.id)
        elif outcome.answer == "Sys.ActorCrash" and self._random.random() < 0.5:
            self._crashes.append(outcome.id)

    def _draw(self, number: int) -> tuple[str, dict[str, Any]]:
        if self._poison:
            return self._poison.pop(), {"number": number, "way": "end"}
        random = self._random
        (type_name,) = random.choices(
            (
                "Worker.Work",
                "Worker.WorkAgain",
                "Sender.Send",
                "Sender.SendAgain",
                "Sender.Plan",
                "Sender.PlanAgain",
                "Timer.Schedule",
            ),
            (40, 20, 10, 10, 5, 5, 5),
        )
        if type_name == "Timer.Schedule":
            metadata = {"id": f"later-{number}", "timestamp": 0}
            message = {
                "kind": "command",
                "type": "Worker.Work",
                "data": {"number": number + 1},
                "metadata": metadata,
            }
            return type_name, {"delay": random.randint(0, 100), "message": message}
        (way,) = random.choices(("answer", "wait", "refuse", "raise"), (66, 25, 6, 3))
        padding = {"padding": self._padding} if type_name == "Worker.Work" and self._padding else {}
        return type_name, {"number": number, "way": way, **padding}

    async def _impatient_client(self) -> None:
        """Disconnect before the answer comes, and never come back."""
        config = dataclasses.replace(self._config, give_up_after=0)
        while not self._is_over:
            number, self._next = self._next, self._next + CHILDREN
            with suppress(NodeGoneError):
                async with connect(self._address, config) as connection:
                    self._waiting.add(number)
                    call = asyncio.create_task(
                        connection.exchange("command", "Waiter.Wait", {"number": number})
                    )
                    await asyncio.wait([call], timeout=self._random.uniform(0, 0.05))
                # The end of the connection has ended the call.
                await call

    async def _operator(self) -> None:
        """Settle some of the commands in doubt, and delete some dead letters."""
        async with connect(self._address, self._config) as connection:
            while not self._is_over:
                if self._doubts:
                    name = self._doubts.pop()
                    outcome = self._random.choice(("done", "failed", "again"))
                    answer = await connection.exchange(
                        "command", "Dead.Settle", {"id": name, "outcome": outcome, "data": 0}
                    )
                elif self._crashes:
                    name = self._crashes.pop()
                    answer = await connection.exchange("command", "Dead.Purge", {"id": name})
                else:
                    await asyncio.sleep(0.005)
                    continue
                if answer.kind == "reply":
                    self._settled.add(name)
                elif answer.type != "Sys.ActorCrash":
                    # That it has ended with three processes is possible, and then it was not done.
                    self.report.failures.append(f"{name} was settled or deleted, and the answer is {answer}")

    # -- the comparison ------------------------------------------------------------------------------------------------

    def contradictions(self, books: Books) -> list[str]:
        """Return what the books say otherwise than the clients."""
        return list(books.failures(self._outcomes, self._waiting, self._settled, self._emitted))

    def _compare(self) -> None:
        report, folder = self.report, self._folder
        books = Books(folder)
        report.failures += self.contradictions(books)
        held = [(name, letter.reason) for name, letter in reversed(books.dead.items())]
        if held != self._listed:
            report.failures.append(
                f"{len(held)} dead letters are in the journal, {len(self._listed)} were listed"
            )
        report.requests = len(self._outcomes)
        report.executions = books.executions.total()
        report.pages, report.records, report.checkpoints = books.pages, books.records, books.checkpoints
        report.failures += [line for line in self._output().splitlines() if ESCAPED.search(line)]
        for command in (("verify",), ("replay", "--check")):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "bandstand",
                    "log",
                    *command,
                    "--journal",
                    folder / "journal",
                    "--json",
                ],
                capture_output=True,
                text=True,
                timeout=2 * self._patience,
                check=False,
            )
            if done.returncode:
                report.failures.append(
                    f"log {' '.join(command)}: {done.returncode}\n{done.stdout[:1000]}{done.stderr[:1000]}"
                )

    def _output(self) -> str:
        return (self._folder / "output").read_text("utf-8", "replace")
