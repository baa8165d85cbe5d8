"""Scopes: at the end of the block nothing is left of its children, and no error is lost.

Trees of scopes, tasks, channel actors and actors that end, fail, cancel and clean up at random moments, in virtual time.
"""

# A scope may cancel its own block, so names bound in it may be unbound. The scope awaits the tasks.
# pyright: reportPossiblyUnboundVariable=false
# mypy: disable-error-code="unused-awaitable, possibly-undefined"

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from bandstand.core import Context, Loop
from bandstand.errors import TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import UNBOUNDED, Channel
from bandstand.scope.consumer import ChannelActor
from bandstand.scope.scope import Scope
from bandstand.testing import VirtualClock

pytestmark = [pytest.mark.spec("K6"), pytest.mark.guarantee("G113", "G114", "G115", "G116")]

# The last moment at which somebody from outside ends all of it; and time enough to clean up, one scope after the other.
LATEST = 6
PATIENCE = 1_000_000
DRIVER = "bandstand driver"


class ChildError(Exception):
    """The error of a child, with its number."""


class How(Enum):
    """How a task ends."""

    RETURN = "return"
    RAISE = "raise"
    CANCEL = "cancel its scope, and go on"
    HANG = "wait for ever"


@dataclass(frozen=True)
class TaskPlan:
    after: int
    how: How
    cleanup: int
    fails_at_cleanup: bool


@dataclass(frozen=True)
class ConsumerPlan:
    items: int
    each: int
    fails_at: int | None
    closes_after: int | None


@dataclass(frozen=True)
class ActorPlan:
    messages: int
    each: int
    fails_at: int | None


@dataclass(frozen=True)
class ScopePlan:
    children: tuple[Plan, ...]
    body: TaskPlan
    is_joined: bool
    """Whether it has the token of the scope around it."""
    is_task: bool
    """Whether it runs in a task of that scope, or in its body."""


class Outside(Enum):
    """What ends the outermost scope, if it has not ended by itself."""

    TASK = "the task is cancelled"
    TWICE = "the task is cancelled, and once more a second later"
    TOKEN = "the token is cancelled"
    TIMEOUT = "a timeout around"
    SCOPE = "the scope is cancelled by somebody outside"


Plan: TypeAlias = TaskPlan | ConsumerPlan | ActorPlan | ScopePlan

moments = st.integers(0, 4)
tasks = st.builds(
    TaskPlan,
    after=moments,
    how=st.sampled_from([How.RETURN, How.RETURN, How.HANG, How.RAISE, How.CANCEL]),
    cleanup=st.integers(0, 3),
    fails_at_cleanup=st.sampled_from([False, False, False, True]),
)
consumers = st.builds(
    ConsumerPlan,
    items=st.integers(0, 4),
    each=st.integers(-1, 2),
    fails_at=st.none() | st.integers(0, 3),
    closes_after=st.none() | moments,
)
actors = st.builds(
    ActorPlan, messages=st.integers(0, 3), each=st.integers(-1, 2), fails_at=st.none() | st.integers(0, 2)
)
leaves: st.SearchStrategy[Plan] = tasks | consumers | actors


def scopes_of(children: st.SearchStrategy[Any]) -> st.SearchStrategy[ScopePlan]:
    return st.builds(
        ScopePlan,
        children=st.lists(children, max_size=4).map(tuple),
        body=tasks,
        is_joined=st.booleans(),
        is_task=st.booleans(),
    )


trees = scopes_of(st.recursive(leaves, scopes_of, max_leaves=8))


@dataclass
class Run:
    """One run of a plan, and what was seen."""

    loop: Loop
    scopes: list[Scope] = field(default_factory=list[Scope])
    consumers: list[ChannelActor[int]] = field(default_factory=list[ChannelActor[int]])
    # Who has begun and not ended; and the numbers of all errors that somebody has raised.
    running: set[int] = field(default_factory=set[int])
    raised: list[int] = field(default_factory=list[int])
    serial: int = 0

    def number(self) -> int:
        self.serial += 1
        return self.serial

    def new_error(self) -> ChildError:
        number = self.number()
        self.raised.append(number)
        return ChildError(number)

    # -- playing -------------------------------------------------------------------------------------------------------

    async def run_scope(self, plan: ScopePlan, token: CancelToken | None) -> None:
        async with Scope(token=token, stop_timeout=PATIENCE / 1000) as scope:
            self.scopes.append(scope)
            inner: list[ScopePlan] = []
            for child in plan.children:
                if isinstance(child, TaskPlan):
                    scope.launch(self.run_task(child, scope))
                elif isinstance(child, ConsumerPlan):
                    self.start_consumer(child, scope)
                elif isinstance(child, ActorPlan):
                    self.start_actor(child, scope)
                elif child.is_task:
                    scope.launch(self.run_scope(child, scope.token if child.is_joined else None))
                else:
                    inner.append(child)
            for child in inner:
                await self.run_scope(child, scope.token if child.is_joined else None)
            await self.run_task(plan.body, scope)

    async def run_task(self, plan: TaskPlan, scope: Scope) -> None:
        me = self.number()
        self.running.add(me)
        try:
            await asyncio.sleep(plan.after)
            if plan.how is How.RAISE:
                raise self.new_error()
            if plan.how is How.HANG:
                await asyncio.get_running_loop().create_future()
            elif plan.how is How.CANCEL:
                await scope.cancel(f"by {me}")
                await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(plan.cleanup)
            if plan.fails_at_cleanup:
                raise self.new_error() from None
            raise
        finally:
            self.running.discard(me)

    def start_consumer(self, plan: ConsumerPlan, scope: Scope) -> None:
        channel = Channel[int](UNBOUNDED)
        for number in range(plan.items):
            channel.try_send(number)

        def quickly(number: int) -> None:
            if number == plan.fails_at:
                raise self.new_error()

        async def slowly(number: int) -> None:
            me = self.number()
            self.running.add(me)
            try:
                await asyncio.sleep(plan.each)
                if number == plan.fails_at:
                    raise self.new_error()
            finally:
                self.running.discard(me)

        self.consumers.append(scope.consume(channel, quickly if plan.each < 0 else slowly))
        if plan.closes_after is not None:
            asyncio.get_running_loop().call_later(plan.closes_after, channel.close)

    def start_actor(self, plan: ActorPlan, scope: Scope) -> None:
        def quickly(ctx: Context[Any], number: int) -> None:
            if number == plan.fails_at:
                raise self.new_error()

        async def slowly(ctx: Context[Any], number: int) -> None:
            me = self.number()
            self.running.add(me)
            try:
                await asyncio.sleep(plan.each)
                if number == plan.fails_at:
                    raise self.new_error()
            finally:
                self.running.discard(me)

        actor = scope.spawn(quickly if plan.each < 0 else slowly)
        for number in range(plan.messages):
            self.loop.send(actor, number)

    # -- the law -------------------------------------------------------------------------------------------------------

    def check(self, watcher: asyncio.Task[Any] | None = None) -> None:
        """Check that nothing is left but the current task and the one that watches it."""
        assert self.running == set()
        for scope in self.scopes:
            assert scope.children == ()
            assert scope.token.cancelled
            assert repr(scope) == "<Scope over: 0 in it>"
        for consumer in self.consumers:
            assert consumer.done
        assert self.loop.statistics().alive == 0
        known = (asyncio.current_task(), watcher)
        assert [task for task in asyncio.all_tasks() if task not in known and task.get_name() != DRIVER] == []


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    ones: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if ones is not None:
        for one in ones:
            yield from leaves_of(one)
    else:
        yield error


@pytest.mark.slow
@given(plan=trees, outside=st.sampled_from(Outside), at=st.integers(0, LATEST))
def test_after_the_end_nothing_is_left_and_nothing_was_lost(
    plan: ScopePlan, outside: Outside, at: int
) -> None:
    clock = VirtualClock()
    clock.run(run_plan(plan, outside, at, clock))


async def run_plan(plan: ScopePlan, outside: Outside, at: int, clock: VirtualClock) -> None:
    host = asyncio.get_running_loop()
    escaped: list[dict[str, Any]] = []
    host.set_exception_handler(lambda _host, context: escaped.append(context))
    async with Loop(clock=clock) as loop:
        trial = Trial(Run(loop), CancelToken(), asyncio.current_task())
        task = host.create_task(trial.block(plan, at if outside is Outside.TIMEOUT else None))
        trial.interrupt_later(task, outside, at)
        await asyncio.wait([task])
        if not task.cancelled():
            # From 3.13 on an error that takes the place of a cancellation leaves that to the next await.
            task.result()
        trial.check_error(outside)
        # Nothing comes later, either.
        for _ in range(5):
            await asyncio.sleep(0)
    assert escaped == []


@dataclass
class Trial:
    """A plan, and what interrupts it from outside."""

    run: Run
    token: CancelToken
    watcher: asyncio.Task[Any] | None
    interrupts: list[str] = field(default_factory=list[str])
    ended: list[BaseException | None] = field(default_factory=list[BaseException | None])

    async def block(self, plan: ScopePlan, seconds: int | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.timeout(seconds):
                await self.run.run_scope(plan, self.token)
        except BaseException as error:  # noqa: BLE001  # it is looked at later
            self.ended.append(error)
        else:
            self.ended.append(None)
        # At once, in the turn in which the block has ended.
        self.run.check(self.watcher)
        assert task.cancelling() == self.interrupts.count("task")

    def interrupt_later(self, task: asyncio.Task[None], outside: Outside, at: int) -> None:
        host = asyncio.get_running_loop()

        def interrupt(what: str) -> None:
            if task.done():
                return
            self.interrupts.append(what)
            if what == "task":
                task.cancel()
            elif what == "token":
                self.token.cancel("from outside")
            elif self.run.scopes:
                self.run.scopes[0].token.cancel("from outside")

        what = {Outside.TOKEN: "token", Outside.SCOPE: "scope"}.get(outside, "task")
        if outside is not Outside.TIMEOUT:
            host.call_later(at, interrupt, what)
        if outside is Outside.TWICE:
            host.call_later(at + 1, interrupt, what)
        if outside is Outside.SCOPE:
            # There may have been no scope yet.
            host.call_later(LATEST + 1, interrupt, "task")

    def check_error(self, outside: Outside) -> None:
        """Check that all errors were raised and nothing else; without errors, that the right cancellation was."""
        (error,) = self.ended
        event(f"{outside.name}: {type(error).__name__}")
        if self.run.raised:
            assert error is not None
            assert type(error) is ExceptionGroup
            found = list(leaves_of(error))
            assert all(isinstance(one, ChildError) for one in found), found
            assert Counter(one.args[0] for one in found) == Counter(self.run.raised)
        elif outside is Outside.TIMEOUT:
            assert error is None or isinstance(error, TimeoutError)
        elif "task" in self.interrupts:
            assert isinstance(error, asyncio.CancelledError)
        elif "token" in self.interrupts:
            assert isinstance(error, TokenCancelledError)
            assert error.token == self.token.number
        else:
            assert error is None
