"""Pools against a model: sends, asks, deaths, resizes and drains in any order, in virtual time.

Nothing is foreseen. After every step the books balance and say what the workers and the askers have seen: each message has exactly one
fate. What has one key was begun in the order in which it was sent.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bandstand.actor import Actor, ActorSystem, Reply, ask, tell
from bandstand.core.events import DeadLetter, RuntimeEvent
from bandstand.errors import MailboxFullError, TargetEndedError
from bandstand.pool import ByKey, OnDeath, Pool, Routing, pooled
from bandstand.testing import VirtualClock, leaks_of
from tests.core.support import Boom, RecordingObserver, check_statistics

R = TypeVar("R")

ONE_WAY = ("note", "hold", "crash", "crash_later")
ASKS = ("answer", "answer_later", "refuse")
TRIES = 3


@pytest.fixture(autouse=True, scope="module")
def discreet() -> Iterator[None]:
    """Supervisors tell of every restart; nobody wants to read all of that."""
    logger = logging.getLogger("bandstand.supervision")
    logger.disabled = True
    yield
    logger.disabled = False


class Declined(Exception):  # noqa: N818 -- it is an answer
    """What a worker declines with."""


class Task:
    """One message."""

    def __init__(self, number: int, key: int, kind: str) -> None:
        self.number = number
        self.key = key
        self.kind = kind
        self.begun = 0
        self.done = 0
        self.reply: Reply[int] | None = None
        self.gate = asyncio.Event()

    def __repr__(self) -> str:
        return f"<{self.kind} {self.number} of {self.key}>"


def key_of(task: Task) -> int:
    return task.key


class Hand(Actor):
    """Does what the message says, and writes it down in the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self, task: Task) -> None:
        task.begun += 1
        self.world.begun.append(task)

    @tell
    def note(self, task: Task) -> None:
        self.begin(task)
        task.done += 1

    @tell
    async def hold(self, task: Task) -> None:
        self.begin(task)
        await task.gate.wait()
        task.done += 1

    @tell
    def crash(self, task: Task) -> None:
        self.begin(task)
        raise Boom(task.number)

    @tell
    async def crash_later(self, task: Task) -> None:
        self.begin(task)
        await task.gate.wait()
        raise Boom(task.number)

    @ask(raises=Declined)
    def refuse(self, task: Task) -> int:
        self.begin(task)
        task.done += 1
        raise Declined(task.number)

    @ask
    def answer(self, task: Task) -> int:
        self.begin(task)
        task.done += 1
        return task.number

    @ask
    async def answer_later(self, task: Task) -> int:
        self.begin(task)
        await task.gate.wait()
        task.done += 1
        return task.number


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_event_loop)
        self.loop = ActorSystem(clock=self.clock)
        self.pool: Pool[Hand] | None = None
        self.tasks: list[Task] = []
        self.begun: list[Task] = []
        self.dead: set[Task] = set()
        self.diary = RecordingObserver()

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    def hear(self, event: RuntimeEvent) -> None:
        if isinstance(event, DeadLetter):
            assert isinstance(event.data, Task)
            self.dead.add(event.data)

    @initialize(
        size=st.integers(1, 4),
        routing=st.sampled_from(["round", "load", "key"]),
        on_death=st.sampled_from(OnDeath),
        ahead=st.integers(1, 3),
    )
    def begin(self, size: int, routing: str, on_death: OnDeath, ahead: int) -> None:
        self.is_keyed = routing == "key"
        self.on_death = on_death
        chosen = {"round": Routing.ROUND_ROBIN, "load": Routing.LEAST_LOADED}.get(routing)

        async def enter() -> None:
            await self.loop.__aenter__()
            self.loop.set_observer(self.diary)
            self.loop.events.listen(self.hear)
            self.pool = pooled(
                self.loop,
                size,
                routing=chosen or ByKey(key_of),
                on_death=on_death,
                ahead=1 if on_death is OnDeath.REQUEUE_ALL else ahead,
                max_tries=TRIES,
                mailbox=20,
                max_restarts=10**6,
                ask_timeout=None,
            ).spawn(Hand, self)

        self.do(enter())

    @property
    def there(self) -> Pool[Hand]:
        assert self.pool is not None
        return self.pool

    @rule(kind=st.sampled_from(ONE_WAY + ASKS), key=st.integers(0, 4), count=st.integers(1, 3))
    def send(self, kind: str, key: int, count: int) -> None:
        async def go() -> None:
            for _ in range(count):
                task = Task(len(self.tasks), key, kind)
                try:
                    task.reply = getattr(self.there.handle, kind)(task)
                except MailboxFullError:
                    assert self.held() >= 20
                else:
                    self.tasks.append(task)

        self.do(go())

    def held(self) -> int:
        status = self.there.status()
        return status.waiting + status.outstanding

    @rule(which=st.integers(0, 50))
    def open_gate(self, which: int) -> None:
        shut = [task for task in self.tasks if not task.gate.is_set()]
        if shut:
            shut[which % len(shut)].gate.set()

    @rule(which=st.integers(0, 50))
    def take_back(self, which: int) -> None:
        async def go() -> None:
            pending = [task.reply for task in self.tasks if task.reply is not None and not task.reply.done()]
            if pending:
                pending[which % len(pending)].cancel()

        self.do(go())

    @rule(which=st.integers(0, 5), way=st.sampled_from(["kill", "stop"]))
    def end_worker(self, which: int, way: str) -> None:
        async def go() -> None:
            workers = [worker.actor for worker in self.there.status().workers if worker.actor is not None]
            if workers:
                actor = workers[which % len(workers)]
                (self.loop.kill_actor if way == "kill" else self.loop.stop_actor)(actor)

        self.do(go())

    @rule(size=st.integers(1, 5))
    def resize(self, size: int) -> None:
        async def go() -> None:
            _ = self.there.resize(size)
            assert self.there.status().size == size

        self.do(go())

    @rule(passes=st.integers(0, 3))
    def go_on(self, passes: int) -> None:
        async def turns() -> None:
            for _ in range(passes):
                await asyncio.sleep(0)

        self.do(turns())

    @rule()
    def settle(self) -> None:
        async def nap() -> None:
            await asyncio.sleep(0.01)

        self.do(nap())
        # Whoever could work has: there is either nothing left, or nobody free.
        status = self.there.status()
        if not self.is_keyed and status.waiting:
            assert all(worker.outstanding for worker in status.workers)

    @invariant()
    def books_balance(self) -> None:
        if self.pool is None:
            return
        status = self.pool.status()
        ended = status.handled + status.failed + status.withdrawn + status.dead
        assert status.accepted == ended + status.waiting + status.outstanding == len(self.tasks)
        assert status.outstanding == sum(worker.outstanding for worker in status.workers)

    @invariant()
    def nothing_is_done_twice(self) -> None:
        most = TRIES if self.pool is not None and self.on_death is OnDeath.REQUEUE_ALL else 1
        for task in self.tasks:
            assert task.begun <= most
            assert task.done <= 1
            assert not (task.done and task in self.dead)

    @invariant()
    def keys_keep_their_order(self) -> None:
        if self.pool is None or not self.is_keyed:
            return
        last: dict[int, int] = {}
        for task in self.begun:
            assert last.get(task.key, -1) <= task.number
            last[task.key] = task.number

    def teardown(self) -> None:
        try:
            if self.pool is not None:
                self.do(self.finish())
                self.books_balance()
                self.nothing_is_done_twice()
                self.keys_keep_their_order()
                assert leaks_of(self.loop) == []
                check_statistics(self.loop)
        finally:
            self.runner.close()

    async def finish(self) -> None:
        for task in self.tasks:
            task.gate.set()
        assert await self.there.drain(1.0)
        status = self.there.status()
        assert (status.waiting, status.outstanding) == (0, 0)
        # What the loop itself has buried.
        self.dead |= {letter[2] for letter in self.diary.dead if isinstance(letter[2], Task)}
        ends: Counter[str] = Counter()
        for task in self.tasks:
            ends[await self.end_of(task)] += 1
        told = {"handled": status.handled, "failed": status.failed, "withdrawn": status.withdrawn}
        assert told == {name: ends[name] for name in told}
        assert status.dead == ends["dead"]
        await self.loop.__aexit__(None, None, None)

    async def end_of(self, task: Task) -> str:
        if task.reply is None:
            assert (task.done == 1) != (task in self.dead)
            return "dead" if task in self.dead else "handled"
        assert task.reply.done()
        try:
            assert await task.reply == task.number
        except CancelledError:
            return "withdrawn"
        except Declined:
            return "failed"
        except TargetEndedError:
            assert task in self.dead
            return "dead"
        return "handled"


TestPools = pytest.mark.guarantee("G221", "G223", "G226", "G228", "G229")(World.TestCase)
TestPools.settings = settings(stateful_step_count=30)
