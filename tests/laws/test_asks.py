"""Asks against their promises: everything that can happen to them, in any order, in virtual time.

Nothing is foreseen. After every step each ask is held against what was done to it: it has ended exactly once, in a way that it had
a reason to end in; what must have ended has; and the books of the loop say the same as all the replies together.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError, Event
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.actor import Actor, ActorSystem, Reply, ask, child, is_alive
from bandstand.errors import (
    AskCycleError,
    AskTimeoutError,
    BandstandError,
    MailboxFullError,
    NoSuchActorError,
    TargetEndedError,
)
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock, leaks_of
from tests.core.support import Boom, check_statistics

R = TypeVar("R")

SLACK = 3  # milliseconds that a deadline may be late by: two roundings, and the tick itself
NAMES = ("plain", "other", "fresh", "kept")
SUPERVISED = {"fresh": False, "kept": True}
KINDS = ("now", "later", "held", "refuse", "refuse_later", "fail", "fail_later", "stubborn", "relay")
FATAL = {"fail", "fail_later"}


@pytest.fixture(autouse=True, scope="module")
def discreet() -> Iterator[None]:
    """Supervisors tell of every restart; nobody wants to read all of that."""
    logger = logging.getLogger("bandstand.supervision")
    logger.disabled = True
    yield
    logger.disabled = False


class Declined(Exception):  # noqa: N818 -- it is an answer
    """What a handler declines with; it knows for whom."""


@dataclass(eq=False)
class Question:
    """One ask, and what was done to it."""

    token: int
    target: str
    kind: str
    within: float | None
    asked_at: float
    gate: Event = field(default_factory=Event)
    reply: Reply[int] | None = None
    task: asyncio.Task[Any] | None = None
    awaited_at: float | None = None
    is_withdrawn: bool = False
    is_inner: bool = False
    # How often its handler may begin from now on: never, once it was taken back before it had begun.
    may_begin: bool = True
    begun: int = 0
    # Whether its handler holds its actor up, until its gate opens.
    is_running: bool = False
    # How often its target had been ended when it was asked.
    ends_before: int = 0
    end: object = None


class Player(Actor):
    """Answers in every way there is, and tells the world when it begins."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name

    def begin(self, question: Question) -> None:
        question.begun += 1
        if question.begun > 1 or not question.may_begin:
            self.world.faults.append(f"{question} was begun {question.begun} times")

    @ask
    def now(self, question: Question) -> int:
        self.begin(question)
        return question.token

    @ask
    async def later(self, question: Question) -> int:
        self.begin(question)
        await asyncio.sleep(0.01)
        return question.token

    @ask
    async def held(self, question: Question) -> int:
        self.begin(question)
        question.is_running = True
        try:
            await question.gate.wait()
        finally:
            question.is_running = False
        return question.token

    @ask(raises=Declined)
    def refuse(self, question: Question) -> int:
        self.begin(question)
        raise Declined(question.token)

    @ask(raises=Declined)
    async def refuse_later(self, question: Question) -> int:
        self.begin(question)
        await asyncio.sleep(0.01)
        raise Declined(question.token)

    @ask
    def fail(self, question: Question) -> int:
        self.begin(question)
        self.world.ends[self.name] += 1
        raise Boom(question.token)

    @ask
    async def fail_later(self, question: Question) -> int:
        self.begin(question)
        await asyncio.sleep(0.01)
        self.world.ends[self.name] += 1
        raise Boom(question.token)

    @ask
    async def stubborn(self, question: Question) -> int:
        self.begin(question)
        try:
            await question.gate.wait()
        except CancelledError:
            await asyncio.sleep(0.02)
        return question.token

    @ask(raises=(BandstandError, Declined))
    async def relay(self, question: Question) -> int:
        """Ask somebody else, and answer with what came of it."""
        self.begin(question)
        inner = self.world.pose_inner(question)
        assert inner.reply is not None
        self.world.waits[self.name] += 1
        try:
            await inner.reply
        except AskCycleError:
            # One that was begun has it from further down.
            if not inner.begun and inner.target != self.name and not self.world.waits[inner.target]:
                self.world.faults.append(
                    f"{inner.target} waits for nobody, and yet {self.name} had an AskCycleError"
                )
            raise
        finally:
            self.world.waits[self.name] -= 1
        return question.token


class World(RuleBasedStateMachine):
    """Asks, cancellations, deadlines and ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_event_loop)
        self.questions: list[Question] = []
        self.faults: list[str] = []
        # How often somebody has been ended, or has been told to fail, by name.
        self.ends: Counter[str] = Counter()
        # Who waits in a relay, by name.
        self.waits: Counter[str] = Counter()
        self.players: dict[str, Player] = {}
        self.is_over = False
        self.loop = ActorSystem(clock=self.clock)

    def now(self) -> float:
        return self.clock.now_ns() / 1e6

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    @initialize(cap=st.sampled_from([2, 4, 60]))
    def begin(self, cap: int) -> None:
        async def enter() -> None:
            await self.loop.__aenter__()
            specs = [
                child(name, keep_mailbox=keep_mailbox, mailbox=cap).of(Player, self, name)
                for name, keep_mailbox in SUPERVISED.items()
            ]
            root = spawn_supervisor(self.loop, SupervisorSpec(children=specs, max_restarts=10**6))
            for name in NAMES:
                if name in SUPERVISED:
                    self.players[name] = root.handle(Player, name)
                else:
                    self.players[name] = self.loop.options(name=name, mailbox=cap).spawn(Player, self, name)

        self.do(enter())

    # What happens.

    def pose(self, question: Question) -> Question:
        player = self.players[question.target]
        question.ends_before = self.ends[question.target]
        question.reply = getattr(player, question.kind).within(
            None if question.within is None else question.within / 1000
        )(question)
        self.questions.append(question)
        return question

    def pose_inner(self, outer: Question) -> Question:
        """What a relay asks of somebody else: who and what depends on the token alone."""
        token = -1 - len(self.questions)
        target = NAMES[outer.token // 3 % len(NAMES)]
        kind = ("now", "later", "refuse", "relay", "fail")[outer.token % 5]
        question = Question(token, target, kind, 50, self.now(), is_inner=True)
        # A relay of a relay goes on with smaller numbers, and so comes to an end.
        question.token = outer.token // 4 if kind == "relay" else outer.token
        return self.pose(question)

    @rule(
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        within=st.sampled_from([None, 0, 5, 15, 40]),
        is_awaited=st.booleans(),
        token=st.integers(0, 1000),
    )
    def ask(self, name: str, kind: str, within: float | None, is_awaited: bool, token: int) -> None:
        async def go() -> None:
            question = Question(token, name, kind, within, self.now())
            try:
                self.pose(question)
            except MailboxFullError:
                pass
            except NoSuchActorError:
                assert self.ends[name] or name in SUPERVISED
            else:
                if is_awaited:
                    self.wait_for(question)

        self.do(go())

    def wait_for(self, question: Question) -> None:
        async def outcome(reply: Awaitable[int]) -> object:
            try:
                return await reply
            except (Exception, CancelledError) as error:  # noqa: BLE001 -- to be looked at
                return error

        assert question.reply is not None
        question.awaited_at = self.now()
        question.task = asyncio.ensure_future(outcome(question.reply))

    def open_ones(self) -> list[Question]:
        return [question for question in self.questions if not question.is_inner and question.end is None]

    @precondition(lambda self: self.open_ones())
    @rule(which=st.integers(0, 50), way=st.sampled_from(["await", "cancel", "cancel task", "open"]))
    def touch(self, which: int, way: str) -> None:
        there = self.open_ones()
        question = there[which % len(there)]

        async def go() -> None:
            assert question.reply is not None
            if way == "open":
                question.gate.set()
            elif way == "await":
                if question.task is None:
                    self.wait_for(question)
            elif way == "cancel" or question.task is None:
                self.note_withdrawal(question, question.reply.cancel())
            elif not question.task.done():
                question.task.cancel()
                await asyncio.sleep(0)
                assert question.reply.done()
                self.note_withdrawal(question, isinstance(await self.end_of(question.reply), CancelledError))

        self.do(go())

    def note_withdrawal(self, question: Question, is_withdrawn: bool) -> None:
        if is_withdrawn:
            question.is_withdrawn = True
            question.may_begin = question.begun > 0

    @rule(name=st.sampled_from(NAMES), way=st.sampled_from(["stop", "kill", "drain"]))
    def end(self, name: str, way: str) -> None:
        async def go() -> None:
            player = self.players[name]
            self.ends[name] += 1
            if way == "drain":
                player.stop(drain=True)
            else:
                getattr(player, way)()

        self.do(go())

    @rule(name=st.sampled_from(["plain", "other"]))
    def replace(self, name: str) -> None:
        """Somebody new comes for one who has ended."""

        async def go() -> None:
            if not is_alive(self.players[name]):
                self.players[name] = self.loop.options(name=name).spawn(Player, self, name)

        self.do(go())

    @rule(ms=st.sampled_from([0, 1, 4, 11, 30, 100]))
    def pass_time(self, ms: int) -> None:
        async def nap() -> None:
            await asyncio.sleep(ms / 1000)

        self.do(nap())

    # What holds.

    @invariant()
    def every_ask_has_ended_as_it_may(self) -> None:
        if self.players:
            self.do(self.look())
        assert self.faults == []

    async def look(self) -> None:
        fresh: list[Question] = []
        for _ in range(3):
            await asyncio.sleep(0)
        for question in self.questions:
            # A cancellation has reached the handler by now.
            assert not (question.is_withdrawn and question.is_running)
            reply = question.reply
            assert reply is not None
            if not reply.done():
                assert question.end is None
                self.check_patience(question)
                continue
            end = await self.end_of(reply)
            if question.end is None:
                question.end = end
                fresh.append(question)
            # Once is for ever.
            assert type(end) is type(question.end)
            assert not isinstance(end, Exception) or repr(end) == repr(question.end)
        for question in fresh:
            self.judge(question)
        self.compare_books()

    async def end_of(self, reply: Reply[int]) -> object:
        try:
            return await reply
        except (Exception, CancelledError) as error:  # noqa: BLE001 -- to be looked at
            return error

    def judge(self, question: Question) -> None:
        """Hold an end against what was done."""
        end, kind = question.end, question.kind
        if isinstance(end, int):
            assert end == question.token
            assert kind not in FATAL
            assert not kind.startswith("refuse")
            assert question.begun == 1
        elif isinstance(end, CancelledError):
            assert question.is_withdrawn or question.is_inner
        elif not self.is_own(question):
            # A relay answers with whatever became of its own ask.
            assert kind == "relay"
        elif isinstance(end, AskTimeoutError):
            assert question.within is not None
            assert end.waited * 1000 >= question.within - 1e-6
            assert self.now() - question.asked_at >= question.within
        elif isinstance(end, TargetEndedError):
            assert self.ends[question.target] > question.ends_before or self.is_over
        elif isinstance(end, Declined):
            assert kind.startswith("refuse")
            assert end.args == (question.token,)
        else:
            # What a relay could not even ask, or was not let wait for.
            assert kind == "relay"
            assert isinstance(end, (AskCycleError, MailboxFullError, NoSuchActorError))

    def check_patience(self, question: Question) -> None:
        """What must have ended by now."""
        assert not question.is_withdrawn
        if question.within is not None and question.awaited_at is not None:
            due = max(question.asked_at + question.within, question.awaited_at)
            assert self.now() <= due + SLACK, f"{question} is overdue"

    def compare_books(self) -> None:
        books = self.loop.ask_statistics()
        found: Counter[str] = Counter()
        for question in self.questions:
            end = question.end
            if end is None:
                found["pending"] += 1
            elif isinstance(end, int):
                found["answered"] += 1
            elif isinstance(end, CancelledError):
                found["cancelled"] += 1
            elif isinstance(end, AskTimeoutError) and self.is_own(question):
                found["expired"] += 1
            else:
                found["failed"] += 1
        assert books.asked == len(self.questions)
        told = {
            name: getattr(books, name) for name in ("answered", "failed", "cancelled", "expired", "pending")
        }
        assert told == {name: found[name] for name in told}

    def is_own(self, question: Question) -> bool:
        """Whether an error is that of the ask itself, and not one that a relay has passed on."""
        if isinstance(question.end, AskTimeoutError):
            # Made anew each time it is raised: it is known by its words.
            return question.end.method == f"Player.{question.kind}()" and question.end.target.startswith(
                repr(question.target)
            )
        asked = [inner for inner in self.questions if inner.end is question.end]
        return asked[-1] is question

    def teardown(self) -> None:
        try:
            if self.players:
                self.is_over = True
                self.do(self.loop.__aexit__(None, None, None))
                # With the loop everything has ended.
                self.do(self.look())
                assert all(question.end is not None for question in self.questions)
                assert self.faults == []
                assert leaks_of(self.loop) == []
                check_statistics(self.loop)
        finally:
            self.runner.close()


TestAsks = pytest.mark.guarantee("G60", "G61", "G62", "G63")(World.TestCase)
TestAsks.settings = settings(stateful_step_count=40)
