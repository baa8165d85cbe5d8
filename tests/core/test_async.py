"""Async behaviors: real tasks, one message at a time, verdicts, cancellation, context variables.

Most tests are driven in three ways: by `run()`, tick by tick with `poll_once()`, and inside somebody's event loop.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import (
    FAIL,
    OK,
    STOP,
    ActorId,
    ActorStatus,
    ChildExit,
    Context,
    ExitReason,
    Lane,
    Loop,
    LoopConfig,
    Verdict,
    coroutines,
)
from bandstand.errors import InvalidVerdictError, LoopBusyError, NoSuchActorError
from bandstand.testing import VirtualClock, run_async, shuffle
from tests.core.support import (
    USER_LANES,
    Boom,
    HostFactory,
    LoopMaker,
    RecordingObserver,
    Seen,
    call_in,
    check_statistics,
    downs,
    exits,
    guarded,
    idle,
    record,
    run_message,
)

PATIENCE = 30  # seconds to wait for what must come

var: ContextVar[str] = ContextVar("var", default="unset")

Drive = Callable[[Loop], None]
Deed = Callable[[Context[Any]], Coroutine[Any, Any, Any]]


# --- how a loop is driven -----------------------------------------------------------------------------------------------


def is_quiet(loop: Loop) -> bool:
    books = loop.statistics()
    return books.in_flight == 0 and books.ready == 0


def by_run(loop: Loop) -> None:
    loop.run(until_idle=True)


def by_hand(loop: Loop) -> None:
    deadline = monotonic() + PATIENCE
    loop.poll_once()
    while not is_quiet(loop):
        loop.poll_once()
        assert monotonic() < deadline, loop.statistics()


@pytest.fixture(params=["run", "poll_once", "async with"])
def drive(request: pytest.FixtureRequest, loop_factory: HostFactory) -> Iterator[Drive]:
    """Drive a loop until nothing is ready and nothing in flight; may be called again."""
    if request.param != "async with":
        yield by_run if request.param == "run" else by_hand
        return
    escaped: list[dict[str, Any]] = []
    guests: list[Loop] = []

    async def quiet(loop: Loop) -> None:
        if loop not in guests:
            guests.append(loop)
            await loop.__aenter__()
        await until(lambda: is_quiet(loop))

    with asyncio.Runner(loop_factory=guarded(loop_factory, escaped)) as runner:
        yield lambda loop: runner.run(quiet(loop))
        for loop in guests:
            runner.run(loop.__aexit__(None, None, None))
    assert escaped == [], "an exception escaped into the event loop"


# --- the cast -----------------------------------------------------------------------------------------------------------


async def aidle(ctx: Context[Any], data: object) -> None:
    """Handle a message by doing nothing, without a suspension."""


async def acollect(ctx: Context[list[Any]], data: object) -> None:
    """Append each message's data to the state, after a suspension."""
    await asyncio.sleep(0)
    ctx.state.append(data)


async def aobey(ctx: Context[Any], data: Deed) -> Any:
    """Do what the message says."""
    return await data(ctx)


async def forever() -> None:
    await asyncio.Event().wait()


async def until(condition: Callable[[], object]) -> None:
    """Give the host turns until something holds; what never comes true is ended by the test's timeout."""
    while not condition():  # noqa: ASYNC110 -- any condition, most have no event
        await asyncio.sleep(0)


def order(loop: Loop, actor: ActorId, deed: Deed) -> None:
    """Have an actor whose behavior is `aobey` do something."""
    loop.send(actor, deed)


def warm(loop: Loop, drive: Drive) -> None:
    """Have a driver parked, so that the next coroutine takes its first step inside the tick."""
    actor = loop.spawn(aidle)
    loop.send(actor, None)
    drive(loop)
    loop.stop_actor(actor)


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


FRESH, INLINE, LATER = "begun by a new task", "inside the tick", "after a suspension"


class Moment:
    """When something happens in a coroutine's life."""

    def __init__(self, name: str, drive: Drive) -> None:
        self.name = name
        self._drive = drive

    def prepare(self, loop: Loop) -> None:
        if self.name != FRESH:
            warm(loop, self._drive)

    async def come(self) -> None:
        if self.name == LATER:
            await asyncio.sleep(0)

    def play(self, loop: Loop, *deeds: Deed, supervisor: ActorId | None = None) -> ActorId:
        """Have a new actor do one deed after the other, and drive the loop until all is quiet."""
        self.prepare(loop)
        actor = loop.spawn(aobey, supervisor=supervisor)
        for deed in deeds:
            order(loop, actor, deed)
        self._drive(loop)
        return actor


@pytest.fixture(params=[FRESH, INLINE, LATER])
def moment(request: pytest.FixtureRequest, drive: Drive) -> Moment:
    return Moment(cast("str", request.param), drive)


class Play:
    """An actor in flight, waiting, and all that is needed to look at its end."""

    def __init__(self, loop: Loop, drive: Drive, *, name: str | None = None) -> None:
        self.loop = loop
        self.drive = drive
        self.seen: list[Seen] = []
        self.log: list[str] = []
        self.gate = asyncio.Event()
        self.raising: BaseException | None = None
        self.error: BaseException | None = None
        self.boss = loop.spawn(record, self.seen)
        self.watcher = loop.spawn(record, self.seen)
        self.actor = loop.spawn(self._wait, supervisor=self.boss, name=name)
        loop.monitor(self.watcher, self.actor)
        self.hand = loop.spawn(aobey)
        loop.send(self.actor, "first")

    async def _wait(self, ctx: Context[Any], data: object) -> None:
        self.log.append(f"begin {data}")
        try:
            await self.gate.wait()
            self.log.append(f"finish {data}")
        finally:
            # A clean-up may take its time.
            await asyncio.sleep(0)
            self.log.append(f"finally {data}")
            if self.raising is not None:
                raise self.raising

    def act(self, deed: Callable[[], object]) -> None:
        """Have the loop itself call `deed` once the actor has begun to wait; drive it until all is quiet."""

        async def when(ctx: Context[Any]) -> None:
            await until(lambda: self.log)
            try:
                deed()
            except BaseException as error:  # noqa: BLE001 -- raised below, where it is the test's
                self.error = error
                self.gate.set()

        order(self.loop, self.hand, when)
        self.drive(self.loop)
        if self.error is not None:
            raise self.error


@pytest.fixture
def play(loop: Loop, drive: Drive) -> Play:
    return Play(loop, drive)


@pytest.mark.guarantee("G6", "G15", "G31")
def test_the_context_holds_while_urgent_messages_arrive(loop: Loop, drive: Drive) -> None:
    gate = asyncio.Event()
    seen: list[tuple[Seen, Seen]] = []

    async def behavior(ctx: Context[int], data: str) -> None:
        before = Seen(data, ctx.tag, ctx.sender, ctx.lane)
        assert ctx.state == len(seen)
        if data == "slow":
            for lane in USER_LANES:
                loop.send(ctx.self_id, lane.name, tag=100 + lane, lane=lane, sender=other)
            call_in(loop, other, lambda ctx: gate.set())
            await gate.wait()
        seen.append((before, Seen(data, ctx.tag, ctx.sender, ctx.lane)))
        ctx.state += 1

    actor, other = loop.spawn(behavior, 0), loop.spawn(run_message)
    loop.send(actor, "slow", tag=7, lane=Lane.MANAGEMENT, sender=actor)
    drive(loop)
    assert [before for before, _ in seen] == [after for _, after in seen]
    assert seen[0][0] == Seen("slow", 7, actor, Lane.MANAGEMENT)
    assert [before for before, _ in seen[1:]] == [
        Seen(lane.name, 100 + lane, other, lane) for lane in USER_LANES
    ], "most urgent first"


# --- a real task ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G31")
def test_a_coroutine_keeps_its_task(loop: Loop, moment: Moment, drive: Drive) -> None:
    tasks: list[list[asyncio.Task[Any]]] = []

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        mine = [this_task()]
        for _ in range(3):
            await asyncio.sleep(0)
            mine.append(this_task())
        async with asyncio.timeout(None):
            await asyncio.sleep(0)
            mine.append(this_task())
        tasks.append(mine)
        assert mine[0] in asyncio.all_tasks()
        assert asyncio.get_running_loop() is mine[0].get_loop()

    moment.prepare(loop)
    for _ in range(3):
        order(loop, loop.spawn(aobey), deed)
    drive(loop)
    assert [len(set(mine)) for mine in tasks] == [1, 1, 1]
    assert len({mine[0] for mine in tasks}) == 3, "three in flight at one time are three tasks"


@pytest.mark.guarantee("G31")
@pytest.mark.parametrize(
    "timeout",
    [
        lambda: asyncio.timeout(0),
        lambda: asyncio.wait_for(forever(), 0),
        lambda: anyio.move_on_after(0),
        lambda: anyio.fail_after(0),
    ],
    ids=["asyncio.timeout", "asyncio.wait_for", "anyio.move_on_after", "anyio.fail_after"],
)
def test_timeouts_interrupt_only_the_coroutine(
    loop: Loop, moment: Moment, timeout: Callable[[], Any]
) -> None:
    log: list[str] = []

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        with suppress(TimeoutError):
            how = timeout()
            if asyncio.iscoroutine(how):
                await how
            elif isinstance(how, asyncio.Timeout):
                async with how:
                    await forever()
            else:
                with how:
                    await forever()
        assert this_task().cancelling() == 0
        await asyncio.sleep(0)
        log.append("went on")

    actor = moment.play(loop, deed, deed, lambda ctx: asyncio.sleep(0))
    assert log == ["went on"] * 2
    assert loop.status(actor) is ActorStatus.RUNNING


@pytest.mark.guarantee("G31", "G32")
@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("kind", ["asyncio", "anyio"])
def test_a_task_group_cancels_its_tasks(
    loop: Loop, moment: Moment, caught: bool, kind: str, seen: list[Seen]
) -> None:
    log: list[str] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise Boom("child")

    async def patient() -> None:
        try:
            await forever()
        finally:
            log.append("cancelled")

    async def group() -> None:
        if kind == "asyncio":
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(patient())
                tasks.create_task(failing())
                await patient()
        else:
            async with anyio.create_task_group() as scope:
                scope.start_soon(patient)
                scope.start_soon(failing)
                await patient()

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        if not caught:
            await group()
        with pytest.raises(BaseExceptionGroup) as raised:
            await group()
        assert raised.value.subgroup(Boom) is not None
        log.append("caught")
        assert this_task().cancelling() == 0
        await asyncio.sleep(0)

    bystander_log: list[Any] = []
    bystander = loop.spawn(acollect, bystander_log)
    for number in range(5):
        loop.send(bystander, number)
    actor = moment.play(loop, deed, supervisor=loop.spawn(record, seen))
    assert log == ["cancelled", "cancelled", "caught"][: 3 if caught else 2]
    assert bystander_log == [0, 1, 2, 3, 4]
    if caught:
        assert loop.status(actor) is ActorStatus.RUNNING
    else:
        (told,) = exits(seen)
        assert isinstance(told.cause, BaseExceptionGroup)


class Nonsense:
    """Waits for something that nobody can wait for."""

    def __await__(self) -> Generator[Any, Any, str]:
        try:
            yield "nonsense"
        except RuntimeError as error:
            return str(error)
        return "nobody minded"


@pytest.mark.guarantee("G31")
def test_awaiting_a_non_future_raises(loop: Loop, moment: Moment) -> None:
    log: list[str] = []

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        log.append(await Nonsense())

    actor = moment.play(loop, deed)
    assert len(log) == 1
    assert "bad yield" in log[0]
    assert loop.status(actor) is ActorStatus.RUNNING


# --- what it costs ------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.guarantee("G31")
@pytest.mark.parametrize("actors", [1, 100])
def test_no_task_without_suspension(
    make_loop: LoopMaker, monkeypatch: pytest.MonkeyPatch, actors: int, seen: list[Any]
) -> None:
    made: list[str] = []

    def make(coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(options["name"])
        return asyncio.Task(coroutine, **options)

    monkeypatch.setattr(coroutines, "Task", make)
    loop = make_loop(default_mailbox_cap=10_004)
    most = 0

    async def behavior(ctx: Context[Any], data: object) -> None:
        nonlocal most
        seen.append(data)
        most = max(most, len(asyncio.all_tasks()))

    ids = [loop.spawn(behavior) for _ in range(actors)]
    for number in range(10_000):
        loop.send(ids[number % actors], number)
    loop.run(until_idle=True)
    assert len(seen) == 10_000
    assert most <= 2
    assert len(made) == 1


@pytest.mark.guarantee("G31")
def test_a_coroutine_that_never_suspends_costs_no_turn_of_the_host(make_loop: LoopMaker) -> None:
    turns: dict[str, int] = {}
    for kind, behavior in (("sync", idle), ("async", aidle)):
        loop = make_loop()
        warm(loop, by_run)
        actors = [loop.spawn(behavior) for _ in range(10)]
        for actor in actors:
            for _ in range(50):
                loop.send(actor, None)
        before = loop.statistics()
        loop.run(until_idle=True)
        after = loop.statistics()
        assert after.handled - before.handled == 500
        turns[kind] = after.wakeups - before.wakeups
    assert turns["async"] == turns["sync"] == 1


@pytest.mark.guarantee("G31")
def test_few_idle_driver_tasks_are_kept(loop: Loop) -> None:
    gate = asyncio.Event()
    after: list[int] = []

    async def waiting(ctx: Context[Any], data: object) -> None:
        await gate.wait()

    def open_it(ctx: Context[Any]) -> None:
        assert loop.statistics().in_flight == 1000
        gate.set()

    async def count(ctx: Context[Any], data: object) -> None:
        after.append(len(asyncio.all_tasks()))

    for _ in range(1000):
        loop.send(loop.spawn(waiting), None)
    call_in(loop, loop.spawn(run_message), open_it)
    loop.run(until_idle=True)
    loop.send(loop.spawn(count), None)
    loop.run(until_idle=True)
    assert after[0] <= 257


@pytest.mark.slow
@pytest.mark.guarantee("G31")
def test_a_parked_driver_holds_nothing_of_what_it_drove(loop: Loop, moment: Moment, drive: Drive) -> None:
    class Thing:
        pass

    things = [Thing(), Thing()]
    refs = [weakref.ref(thing) for thing in things]
    var: ContextVar[object] = ContextVar("var")

    async def behavior(ctx: Context[Any], data: object) -> None:
        var.set(ctx.state)
        await moment.come()

    moment.prepare(loop)
    actor = loop.spawn(behavior, things.pop())
    loop.send(actor, things.pop())
    drive(loop)
    loop.stop_actor(actor)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


# --- verdicts -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22", "G23", "G31")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [(STOP, ExitReason.NORMAL), (FAIL, ExitReason.FAIL), (None, None), (OK, None)],
    ids=["STOP", "FAIL", "None", "OK"],
)
def test_a_coroutine_returns_a_verdict(
    loop: Loop, moment: Moment, answer: Verdict | None, reason: ExitReason | None, seen: list[Seen]
) -> None:
    handled: list[int] = []

    async def deed(ctx: Context[Any]) -> Verdict | None:
        handled.append(len(handled))
        await moment.come()
        return answer

    actor = moment.play(loop, deed, deed, deed, supervisor=loop.spawn(record, seen))
    if reason is None:
        assert handled == [0, 1, 2]
        assert loop.status(actor) is ActorStatus.RUNNING
    else:
        assert handled == [0]
        assert exits(seen) == [ChildExit(actor, reason, None)]
        assert loop.statistics().dead == 2


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22", "G31")
@pytest.mark.parametrize("answer", [0, True, "stop", Verdict, object(), aidle], ids=repr)
def test_a_wrong_verdict_is_a_panic(loop: Loop, moment: Moment, answer: Any, seen: list[Seen]) -> None:
    """Another coroutine is a wrong verdict, too, and is not run."""
    made = aidle(cast("Any", None), None) if answer is aidle else answer

    async def deed(ctx: Context[Any]) -> Any:
        await moment.come()
        return made

    moment.play(loop, deed, supervisor=loop.spawn(record, seen))
    if answer is aidle:
        assert inspect.getcoroutinestate(made) == inspect.CORO_CREATED
        made.close()
    (told,) = exits(seen)
    assert told.reason is ExitReason.PANIC
    assert isinstance(told.cause, InvalidVerdictError)
    assert repr(made) in str(told.cause)


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22", "G31", "G32")
@pytest.mark.parametrize(
    "error",
    [Boom("x"), asyncio.CancelledError("not ours"), GeneratorExit(), BaseException("bare"), TimeoutError()],
    ids=repr,
)
def test_an_exception_of_a_coroutine_is_a_panic(
    loop: Loop, moment: Moment, drive: Drive, error: BaseException, seen: list[Seen]
) -> None:
    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        raise error

    other_log: list[Any] = []
    other = loop.spawn(acollect, other_log)
    loop.send(other, 1)
    actor = moment.play(loop, deed, deed, supervisor=loop.spawn(record, seen))
    assert exits(seen) == [ChildExit(actor, ExitReason.PANIC, error)]
    assert loop.status(actor) is ActorStatus.FAILED
    loop.send(other, 2)
    drive(loop)
    assert other_log == [1, 2]


# --- what counts as an async behavior -----------------------------------------------------------------------------------


class Callable_:  # noqa: N801 -- an object that is called
    async def __call__(self, ctx: Context[list[Any]], data: object) -> Verdict | None:
        await asyncio.sleep(0)
        ctx.state.append(data)
        return STOP if data == "stop" else None

    async def method(self, ctx: Context[list[Any]], data: object) -> Verdict | None:
        return await self(ctx, data)

    def plain(self, ctx: Context[list[Any]], data: object) -> Coroutine[Any, Any, Verdict | None]:
        return self(ctx, data)

    async def three(self, prefix: str, ctx: Context[list[Any]], data: object) -> Verdict | None:
        return await self(ctx, data)


class Handmade(Coroutine[Any, Any, Any]):
    """A coroutine of another make than Python's own."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any, /) -> Any:
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()


it = Callable_()
KINDS: dict[str, Callable[[Context[list[Any]], Any], Any]] = {
    "object": it,
    "method": it.method,
    "plain method": it.plain,
    "lambda": lambda ctx, data: it.three("prefix", ctx, data),
    "partial": functools.partial(it.three, "prefix"),
    "partial of an object": functools.partial(it),
    "handmade": lambda ctx, data: Handmade(it(ctx, data)),
}


@pytest.mark.guarantee("G31", "G33")
@pytest.mark.parametrize("kind", KINDS)
def test_every_callable_that_returns_a_coroutine_is_async(
    loop: Loop, drive: Drive, setting: Callable[[str], None], kind: str
) -> None:
    """And runs in the context of its spawn."""

    class Spying(list[Any]):
        def append(self, item: Any) -> None:
            super().append((item, var.get()))

    seen = Spying()
    setting("spawn")
    actor = loop.spawn(KINDS[kind], cast("list[Any]", seen))
    setting("after")
    for data in (1, 2, "stop", 3):
        loop.send(actor, data)
    drive(loop)
    assert seen == [(1, "spawn"), (2, "spawn"), ("stop", "spawn")]
    assert loop.status(actor) is ActorStatus.STOPPED


@pytest.mark.slow
@pytest.mark.guarantee("G25", "G31")
def test_a_coroutine_of_a_stopped_actor_is_not_run(loop: Loop, drive: Drive) -> None:
    ran: list[object] = []

    def behavior(ctx: Context[list[Any]], data: object) -> Coroutine[Any, Any, None]:
        ctx.loop.stop_actor(ctx.self_id)
        return acollect(ctx, data)

    actor = loop.spawn(behavior, ran)
    loop.send(actor, 1)
    drive(loop)
    assert loop.status(actor) is ActorStatus.STOPPED
    assert ran == []
    gc.collect()  # Where nobody closes it, it warns now.


# --- cancellation between messages --------------------------------------------------------------------------------------


async def cancels_itself_and_returns(ctx: Context[Any]) -> None:
    this_task().cancel()


async def swallows_its_own_cancellation(ctx: Context[Any]) -> None:
    this_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)


async def is_cancelled_from_outside(ctx: Context[Any]) -> None:
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(this_task().cancel)
    with pytest.raises(asyncio.CancelledError):
        await forever()


async def is_cancelled_while_it_is_handed_over(ctx: Context[Any]) -> None:
    # The first step of a message may be made in the tick: the cancellation comes before the task takes over.
    asyncio.get_running_loop().call_soon(this_task().cancel)
    with pytest.raises(asyncio.CancelledError):
        await forever()


async def is_cancelled_while_it_yields(ctx: Context[Any]) -> None:
    asyncio.get_running_loop().call_soon(this_task().cancel)
    with pytest.raises(asyncio.CancelledError):
        await until(lambda: False)


POISONS: list[Deed] = [
    cancels_itself_and_returns,
    swallows_its_own_cancellation,
    is_cancelled_from_outside,
    is_cancelled_while_it_is_handed_over,
    is_cancelled_while_it_yields,
]


@pytest.mark.guarantee("G32", "G31")
@pytest.mark.parametrize("poison", POISONS, ids=lambda deed: deed.__name__)
def test_a_cancellation_affects_one_message(loop: Loop, moment: Moment, drive: Drive, poison: Deed) -> None:
    log: list[Any] = []

    async def poisoned(ctx: Context[Any]) -> None:
        await moment.come()
        await poison(ctx)
        log.append("poisoned")

    async def healthy(ctx: Context[Any]) -> None:
        assert this_task().cancelling() == 0
        await asyncio.sleep(0)
        async with asyncio.timeout(None):
            await asyncio.sleep(0)
        assert this_task().cancelling() == 0
        log.append(ctx.self_id)

    moment.prepare(loop)
    actor, other = loop.spawn(aobey), loop.spawn(aobey)
    order(loop, actor, poisoned)
    order(loop, actor, healthy)
    drive(loop)
    order(loop, other, healthy)
    order(loop, actor, healthy)
    drive(loop)
    assert log[:2] == ["poisoned", actor]
    assert sorted(log[2:], key=repr) == sorted([actor, other], key=repr)
    assert loop.statistics().ended_panic == 0


@pytest.mark.guarantee("G31", "G32")
@pytest.mark.parametrize("caught", [False, True])
def test_a_cancellation_in_the_first_tick(loop: Loop, moment: Moment, drive: Drive, caught: bool) -> None:
    tasks: list[asyncio.Task[Any]] = []
    log: list[str] = []
    seen: list[Seen] = []

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        tasks.append(this_task())
        try:
            await forever()
        except asyncio.CancelledError:
            log.append("cancelled")
            if not caught:
                raise
        assert this_task() is tasks[0]
        this_task().uncancel()
        # It has all the powers of a task still: it can time out, and be stopped.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await forever()
        log.append("timed out")
        call_in(loop, hand, lambda ctx: loop.stop_actor(actor))
        try:
            await forever()
        finally:
            log.append("stopped")

    async def cancel(ctx: Context[Any]) -> None:
        # In the tick of the first step if that was made there, else as soon as there is a task.
        await until(lambda: tasks)
        tasks[0].cancel()

    moment.prepare(loop)
    hand = loop.spawn(run_message)
    actor = loop.spawn(aobey, supervisor=loop.spawn(record, seen))
    order(loop, actor, deed)
    order(loop, loop.spawn(aobey), cancel)
    drive(loop)
    if caught:
        assert log == ["cancelled", "timed out", "stopped"]
        assert [told.reason for told in exits(seen)] == [ExitReason.NORMAL]
    else:
        assert log == ["cancelled"]
        assert [told.reason for told in exits(seen)] == [ExitReason.PANIC]


# --- ends while in flight -----------------------------------------------------------------------------------------------


@pytest.mark.spec("J3", "J11")
@pytest.mark.guarantee("G3", "G21", "G23", "G25", "G32")
@pytest.mark.parametrize("failing", [False, True], ids=["stop_actor", "fail_actor"])
def test_an_actor_in_flight_is_cancelled(play: Play, diary: RecordingObserver, failing: bool) -> None:
    loop, log = play.loop, play.log
    cause = Boom("because")
    for data in ("second", "third"):
        loop.send(play.actor, data)
    timer = loop.send_after(play.actor, 1000.0, "timer")

    def end() -> None:
        assert loop.status(play.actor) is ActorStatus.RUNNING
        if failing:
            loop.fail_actor(play.actor, cause)
        else:
            loop.stop_actor(play.actor)
        # It has not ended, but it accepts nothing any more.
        assert loop.status(play.actor) is ActorStatus.STOPPING
        assert log == ["begin first"]
        assert diary.stopped == []
        assert timer.pending
        for call in (loop.send, loop.send_async, loop.stop_actor, loop.fail_actor):
            arguments = ("late",) if call in (loop.send, loop.send_async) else ()
            with pytest.raises(NoSuchActorError):
                cast("Any", call)(play.actor, *arguments)
        assert not loop.try_send(play.actor, "late")
        assert loop.statistics().dead == 0
        log.append("asked")

    play.act(end)
    reason = ExitReason.FAIL if failing else ExitReason.NORMAL
    assert log == ["begin first", "asked", "finally first"]
    assert loop.status(play.actor) is (ActorStatus.FAILED if failing else ActorStatus.STOPPED)
    assert [(told.child, told.reason, told.cause) for told in exits(play.seen)] == [
        (play.actor, reason, cause if failing else None)
    ]
    assert [(told.actor, told.reason) for told in downs(play.seen)] == [(play.actor, reason)]
    assert diary.stopped == [(play.actor, reason)]
    assert [data for _, _, data, _, _ in diary.dead] == ["second", "third"]
    assert not timer.pending
    assert loop.statistics().in_flight == 0


@pytest.mark.guarantee("G32", "G23")
def test_an_exception_while_stopping_is_logged(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    play.raising = Boom("in finally")
    play.act(lambda: play.loop.stop_actor(play.actor))
    assert [(told.reason, told.cause) for told in exits(play.seen)] == [(ExitReason.NORMAL, None)]
    assert [told.reason for told in downs(play.seen)] == [ExitReason.NORMAL]
    (entry,) = [entry for entry in caplog.records if entry.name == "bandstand.core"]
    assert repr(play.actor) in entry.getMessage()
    assert entry.exc_info
    assert entry.exc_info[1] is play.raising


@pytest.mark.guarantee("G25", "G32")
@pytest.mark.parametrize("goes_on", [False, True], ids=["returns", "awaits"])
@pytest.mark.parametrize("failing", [False, True], ids=["stop_actor", "fail_actor"])
def test_a_coroutine_that_stops_its_own_actor(
    loop: Loop, moment: Moment, drive: Drive, goes_on: bool, failing: bool, seen: list[Seen]
) -> None:
    log: list[str] = []

    async def deed(ctx: Context[Any]) -> Verdict:
        await moment.come()
        if failing:
            loop.fail_actor(ctx.self_id, "myself")
        else:
            loop.stop_actor(ctx.self_id)
        assert loop.status(ctx.self_id) is ActorStatus.STOPPING
        log.append("step")
        if goes_on:
            try:
                await forever()
            finally:
                log.append("cancelled")
        return OK

    moment.prepare(loop)
    actor = loop.spawn(aobey, supervisor=loop.spawn(record, seen))
    order(loop, actor, deed)
    loop.send(actor, "behind")
    dead = loop.statistics().dead
    drive(loop)
    assert log == ["step", "cancelled"][: 1 + goes_on]
    assert [told.reason for told in exits(seen)] == [ExitReason.FAIL if failing else ExitReason.NORMAL]
    assert loop.statistics().dead - dead == 1
    # And whoever drives next is none the worse.
    others: list[Any] = []
    loop.send(loop.spawn(acollect, others), 1)
    drive(loop)
    assert others == [1]


# --- context variables --------------------------------------------------------------------------------------------------


@pytest.fixture
def setting() -> Iterator[Callable[[str], None]]:
    """Set `var` for the length of the test."""
    token = var.set("outside")

    def put(value: str) -> None:
        var.set(value)

    yield put
    var.reset(token)


@pytest.mark.guarantee("G33")
def test_context_of_the_spawn(
    loop: Loop, moment: Moment, drive: Drive, setting: Callable[[str], None]
) -> None:
    seen: list[tuple[int, str, str, str]] = []

    async def behavior(ctx: Context[int], data: str) -> None:
        at_first = var.get()
        var.set(f"{ctx.state} {data}")
        await moment.come()
        here = var.get()
        await asyncio.sleep(0)
        seen.append((ctx.state, at_first, here, var.get()))

    moment.prepare(loop)
    actors: list[ActorId] = []
    for number in range(3):
        setting(f"spawn {number}")
        actors.append(loop.spawn(behavior, number))
    setting("after")
    for data in ("a", "b"):
        for actor in actors:
            loop.send(actor, data)
    drive(loop)
    assert sorted(seen) == [
        (number, f"spawn {number}", f"{number} {data}", f"{number} {data}")
        for number in range(3)
        for data in "ab"
    ]
    assert var.get() == "after"


@pytest.mark.guarantee("G33")
@pytest.mark.parametrize("by", ["send", "send_after", "send_async", "stop_actor"])
def test_context_does_not_leak_to_functions(
    setting: Callable[[str], None], loop: Loop, clock: VirtualClock, moment: Moment, drive: Drive, by: str
) -> None:
    seen: list[str] = []
    heard: list[str] = []

    class Ear:
        def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
            if id == victim:
                heard.append(var.get())

    def look(ctx: Context[Any], data: object) -> None:
        seen.append(var.get())

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        var.set("secret")
        if by == "send":
            loop.send(onlooker, None)
        elif by == "send_after":
            loop.send_after(onlooker, 0, None)
        elif by == "send_async":
            loop.send_async(onlooker, None)
        else:
            loop.stop_actor(victim)

    moment.prepare(loop)
    onlooker = loop.spawn(look)
    victim = loop.spawn(idle, supervisor=onlooker)
    loop.set_observer(Ear())
    actor = loop.spawn(aobey)
    order(loop, actor, deed)
    drive(loop)
    clock.advance(0.001)
    drive(loop)
    assert seen == ["outside"]
    # The hook runs inside the call: what it sees is the caller's.
    assert heard == (["secret"] if by == "stop_actor" else [])
    # And not to a new task either, made in the same turn.
    loop.send(onlooker, None)
    drive(loop)
    assert seen == ["outside", "outside"]


# --- by hand, and as a guest ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G28")
def test_a_loop_in_flight_cannot_change_event_loops(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop()
    seen: list[Any] = []
    loop.send(loop.spawn(acollect, seen), 1)
    loop.poll_once()
    assert loop.statistics().in_flight == 1

    async def main() -> None:
        with pytest.raises(LoopBusyError, match="suspended on another event loop"):
            async with loop:
                pytest.fail("it was let in")

    run_async(main, loop_factory=loop_factory)
    loop.run(until_idle=True)
    assert seen == [1]


@pytest.mark.guarantee("G28")
def test_an_idle_loop_can_change_event_loops(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    loop = make_loop()
    seen: list[Any] = []
    actor = loop.spawn(acollect, seen)
    loop.send(actor, 1)
    loop.run(until_idle=True)

    async def main() -> None:
        async with loop:
            loop.send(actor, 2)
            await until(lambda: len(seen) == 2)

    run_async(main, loop_factory=loop_factory)
    assert seen == [1, 2]


@pytest.mark.guarantee("G26", "G31")
def test_a_coroutine_cannot_drive_or_destroy_its_loop(loop: Loop, moment: Moment) -> None:
    refused: list[str] = []

    async def deed(ctx: Context[Any]) -> None:
        await moment.come()
        for name in ("run", "destroy"):
            with pytest.raises(LoopBusyError):
                getattr(loop, name)()
            refused.append(name)

    actor = moment.play(loop, deed)
    assert refused == ["run", "destroy"]
    assert loop.status(actor) is ActorStatus.RUNNING


STEPS = st.one_of(
    st.just(("yield", 0)),
    st.just(("future", 0)),
    st.tuples(st.just("send"), st.integers(0, 5)),
    st.tuples(st.just("send_control"), st.integers(0, 5)),
    st.tuples(st.just("stop"), st.integers(0, 5)),
)
SCRIPTS = st.lists(STEPS, max_size=5)


class Troupe:
    """Functions and coroutines by turns, that yield, wait, send and stop each other as their messages say."""

    def __init__(self, loop: Loop, kinds: list[bool]) -> None:
        self.loop = loop
        self.inside: set[int] = set()
        self.sent: dict[tuple[int, Lane], list[int]] = {}
        self.begun: dict[tuple[int, Lane], list[int]] = {}
        self.ended: set[int] = set()
        self.dead: list[int] = []
        self.number = 0
        self.opener = loop.spawn(self._open)
        self.actors = [
            loop.spawn(self._async if kind else self._sync, index) for index, kind in enumerate(kinds)
        ]
        self.is_async = kinds
        loop.set_observer(self)

    def on_dead_letter(self, target: ActorId, lane: Lane, data: Any, tag: int, sender: ActorId | int) -> None:
        if target != self.opener:
            self.dead.append(data[0])

    def send(self, index: int, script: list[tuple[str, int]], lane: Lane = Lane.DATA) -> None:
        index %= len(self.actors)
        if self.loop.try_send(self.actors[index], (self.number, script), lane=lane):
            self.sent.setdefault((index, lane), []).append(self.number)
        self.number += 1

    def _open(self, ctx: Context[Any], data: asyncio.Future[None]) -> None:
        # Whoever was cancelled while it waited has cancelled its future.
        if not data.done():
            data.set_result(None)

    def _begin(self, ctx: Context[int], number: int) -> None:
        assert ctx.state not in self.inside
        self.inside.add(ctx.state)
        self.begun.setdefault((ctx.state, ctx.lane), []).append(number)
        check_statistics(self.loop)

    def _end(self, ctx: Context[int], number: int) -> None:
        self.inside.remove(ctx.state)
        self.ended.add(number)
        check_statistics(self.loop)

    def _act(self, what: str, index: int) -> None:
        if what == "send":
            self.send(index, [])
        elif what == "send_control":
            self.send(index, [("yield", 0)], Lane.CONTROL)
        elif what == "stop":
            actor = self.actors[index % len(self.actors)]
            if self.loop.status(actor) < ActorStatus.STOPPING:
                self.loop.stop_actor(actor)

    def _sync(self, ctx: Context[int], data: tuple[int, list[tuple[str, int]]]) -> None:
        self._begin(ctx, data[0])
        for what, index in data[1]:
            self._act(what, index)
        self._end(ctx, data[0])

    async def _async(self, ctx: Context[int], data: tuple[int, list[tuple[str, int]]]) -> None:
        self._begin(ctx, data[0])
        try:
            for what, index in data[1]:
                if what == "yield":
                    await asyncio.sleep(0)
                elif what == "future":
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self.loop.send(self.opener, future)
                    await future
                else:
                    self._act(what, index)
        finally:
            self._end(ctx, data[0])


@pytest.mark.slow
@pytest.mark.spec("J7", "J24")
@pytest.mark.guarantee("G4", "G5", "G10", "G15", "G31", "G32")
@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=6),
    plan=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(USER_LANES), SCRIPTS), max_size=25),
    seed=st.none() | st.integers(0, 1 << 32),
    is_by_hand=st.booleans(),
)
def test_functions_and_coroutines_keep_order_and_counters(
    loop_factory: HostFactory,
    kinds: list[bool],
    plan: list[tuple[int, Lane, list[tuple[str, int]]]],
    seed: int | None,
    is_by_hand: bool,
) -> None:
    escaped: list[dict[str, Any]] = []
    loop = Loop(LoopConfig(loop_factory=guarded(loop_factory, escaped)), clock=VirtualClock())
    with loop:
        if seed is not None:
            shuffle(loop, seed)
        troupe = Troupe(loop, kinds)
        for index, lane, script in plan:
            troupe.send(index, script, lane)
        (by_hand if is_by_hand else by_run)(loop)
        check_statistics(loop)
        books = loop.statistics()
        assert (books.waiting, books.in_flight, books.ended_panic, books.ended_fail) == (0, 0, 0, 0)
        assert troupe.inside == set()
        begun = [number for numbers in troupe.begun.values() for number in numbers]
        assert sorted(begun + troupe.dead) == sorted(
            number for numbers in troupe.sent.values() for number in numbers
        ), "each was seen once, or is a dead letter"
        assert set(begun) == troupe.ended, "what was begun has come to its end"
        for where, numbers in troupe.begun.items():
            assert numbers == troupe.sent[where][: len(numbers)], "in the order of the sends"
    assert escaped == []
