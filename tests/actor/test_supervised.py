"""Typed actors under supervisors of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from bandstand.actor import (
    Actor,
    ActorSystem,
    Implements,
    Interface,
    ask,
    child,
    is_alive,
    tell,
)
from bandstand.core import ExitReason
from bandstand.core import Loop as CoreLoop
from bandstand.errors import (
    BandstandError,
    InvalidArgumentError,
    NoSuchChildError,
    RestartLimitError,
    StartError,
    TargetEndedError,
    WrongThreadError,
)
from bandstand.supervision import (
    AutoShutdown,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    RestartPolicy,
    Strategy,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.actor.players import Book, Lively, Noter, Slow, elsewhere, ride, spin, turns
from tests.actor.workers import Worker, one_for_one
from tests.core.support import Boom, RecordingObserver, settle

pytestmark = [pytest.mark.guarantee("G67"), pytest.mark.spec("J21")]

LoopMaker = Callable[..., ActorSystem]


@pytest.fixture(autouse=True)
def first_incarnation() -> None:
    Worker.born = 0


# --- under every kind of supervisor ---------------------------------------------------------------------------------------


async def test_a_panic_is_a_failure_under_its_supervisor(loop: ActorSystem) -> None:
    book: Book = []
    root = one_for_one(loop, child("worker").of(Worker, book, start=3))
    handle = root.handle(Worker, "worker")
    assert await handle.arguments() == (3,)
    assert await handle.incarnation() == 1
    with pytest.raises(TargetEndedError, match=r"PANIC.*Boom") as caught:
        await handle.crash_ask()
    assert isinstance(caught.value.__cause__, Boom)
    assert await handle.incarnation() == 2  # a new object, from the same arguments
    assert await handle.arguments() == (3,)


async def test_a_dynamic_supervisor_appends_the_childs_arguments(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, DynamicSpec(child=child("session").of(Worker, [], 3), max_restarts=10))
    root.start_child("ann", 1)
    root.start_child()
    ann = root.handle(Worker, "session-1")
    nobody = root.handle(Worker, "session-2")
    assert await ann.arguments() == (3, "ann", 1)
    assert await nobody.arguments() == (3,)
    ann.crash()
    await ann.ended()
    await turns()
    assert await ann.arguments() == (3, "ann", 1)
    assert await ann.incarnation() == 3
    with pytest.raises(NoSuchChildError, match="session-3"):
        root.handle(Worker, "session-3")


def test_arguments_that_the_constructor_does_not_take_fail_the_start(loop: ActorSystem) -> None:
    root = spawn_supervisor(loop, DynamicSpec(child=child("noter").each_of(Noter, [])))
    with pytest.raises(StartError) as caught:
        root.start_child("too many")
    assert isinstance(caught.value.__cause__, TypeError)
    assert root.children() == ()


async def test_a_partition_supervisor_appends_the_partition(loop: ActorSystem) -> None:
    spec = PartitionSpec(child=child("shard").of(Worker, [], 3), partitions=3, max_restarts=10)
    root = spawn_supervisor(loop, spec)
    names = [info.name for info in root.children()]
    handles = [root.handle(Worker, name) for name in names]
    assert [await handle.arguments() for handle in handles] == [(3, 0), (3, 1), (3, 2)]
    handles[1].crash()
    await handles[1].ended()
    await turns()
    assert await handles[1].arguments() == (3, 1)
    assert handles[1] in {root.route(key) for key in range(50)}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_restarts_typed_children(loop: ActorSystem, strategy: Strategy) -> None:
    book: Book = []
    specs = [child(name).of(Worker, book) for name in "abc"]
    root = one_for_one(loop, *specs, strategy=strategy)
    settle(loop)
    handles = [root.handle(Worker, name) for name in "abc"]
    handles[1].crash()
    settle(loop)
    for handle in handles:
        handle.note("x")
    settle(loop)
    born = {
        Strategy.ONE_FOR_ONE: {1, 3, 4},
        Strategy.ONE_FOR_ALL: {4, 5, 6},
        Strategy.REST_FOR_ONE: {1, 4, 5},
    }
    assert {number for number, _ in book} == born[strategy]


def test_hooks_run_for_every_incarnation(loop: ActorSystem) -> None:
    book: Book = []
    root = one_for_one(loop, child("lively").of(Lively, book))
    settle(loop)
    handle = root.handle(Lively, "lively")
    for _ in range(2):
        handle.crash()
        settle(loop)
    assert book == ["start", ("stop", "PANIC", "Boom"), "start", ("stop", "PANIC", "Boom"), "start"]


def test_a_supervisor_waits_for_an_async_start(loop: ActorSystem) -> None:
    book: Book = []
    root = one_for_one(loop, child("slow").of(Slow, book), child("lively").of(Lively, book))
    spin(loop)
    assert book == ["starting", "started", "start"]
    assert is_alive(root.handle(Slow, "slow"))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failed_start_of_a_child_fails_the_start_of_its_supervisor(
    loop: ActorSystem, is_async: bool
) -> None:
    class Plain(Noter):
        def on_start(self) -> None:
            raise Boom("start")

    class Async(Noter):
        async def on_start(self) -> None:
            await turns()
            raise Boom("start")

    spec = child("bad").of(Async if is_async else Plain, [])

    def begin() -> None:
        one_for_one(loop, spec)
        spin(loop)

    with pytest.raises(StartError) as caught:
        begin()
    chain: BaseException | None = caught.value
    while chain is not None and not isinstance(chain, Boom):
        chain = chain.__cause__
    assert isinstance(chain, Boom)


def test_modes_mean_the_same_as_for_raw_children(loop: ActorSystem) -> None:
    modes = {mode.name: mode for mode in RestartPolicy}
    root = one_for_one(loop, *[child(name, restart=mode).of(Worker, []) for name, mode in modes.items()])
    settle(loop)
    handles = {name: root.handle(Worker, name) for name in modes}
    for handle in handles.values():
        handle.stop()
    settle(loop)
    assert {name for name, handle in handles.items() if is_alive(handle)} == {"ALWAYS"}


def test_a_significant_child_can_end_its_supervisor(loop: ActorSystem) -> None:
    spec = child("main", restart=RestartPolicy.ON_FAILURE, significant=True).of(Worker, [])
    outer = SupervisorSpec(children=[spec], auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    root = one_for_one(loop, ChildSpec("outer", outer, restart=RestartPolicy.NEVER))
    settle(loop)
    handle = root.handle(Worker, "outer", "main")
    handle.stop()
    settle(loop)
    assert not is_alive(handle)
    assert root.children() == ()


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...

    @ask
    def total(self) -> int: ...


class Counter(Implements[Counting]):
    def __init__(self, start: int) -> None:
        self.sum = start

    def add(self, n: int) -> None:
        if n < 0:
            raise Boom("negative")
        self.sum += n

    def total(self) -> int:
        return self.sum


async def test_an_implementation_is_supervised_and_its_handle_typed_as_its_interface(
    loop: ActorSystem,
) -> None:
    root = one_for_one(loop, child("counter").of(Counter, start=3))
    handle: Counting = root.handle(Counter, "counter")
    handle.add(4)
    assert await handle.total() == 7
    handle.add(-1)
    await turns()
    assert await handle.total() == 3


# --- errors ---------------------------------------------------------------------------------------------------------------


def test_a_core_loop_is_refused_with_a_clear_error(clock: VirtualClock) -> None:
    with CoreLoop(clock=clock) as loop:
        spec = SupervisorSpec(children=[child("worker").of(Worker, [])])
        with pytest.raises(StartError) as caught:
            spawn_supervisor(loop, spec)
        causes: list[str] = []
        error: BaseException | None = caught.value
        while error is not None:
            causes.append(str(error))
            error = error.__cause__
        assert any("use bandstand.ActorSystem" in cause for cause in causes)


def test_supervised_needs_a_loop_with_typed_actors(clock: VirtualClock) -> None:
    with CoreLoop(clock=clock) as loop:
        root = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("raw", lambda ctx, data: None)]))
        with pytest.raises(InvalidArgumentError, match=r"bandstand\.ActorSystem"):
            root.handle(Worker, "raw")


def test_supervised_refuses_wrong_arguments(loop: ActorSystem) -> None:
    inner: ChildSpec[Any] = ChildSpec("inner", SupervisorSpec(children=[child("deep").of(Worker, [])]))
    root = one_for_one(loop, child("worker").of(Worker, []), inner)
    settle(loop)
    untyped: Any = root
    with pytest.raises(InvalidArgumentError, match="name of a child"):
        root.handle(Worker)
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        untyped.handle(int, "worker")
    with pytest.raises(NoSuchChildError, match="nobody"):
        root.handle(Worker, "nobody")
    with pytest.raises(NoSuchChildError, match="not a supervisor"):
        root.handle(Worker, "worker", "below")
    with pytest.raises(NoSuchChildError, match="nobody"):
        root.handle(Worker, "inner", "nobody")
    with pytest.raises(WrongThreadError):
        elsewhere(lambda: root.handle(Worker, "worker"))


@pytest.mark.parametrize("path", [("worker",), ("inner", "deep"), ("raw",)])
def test_a_child_of_another_class_is_refused(loop: ActorSystem, path: tuple[str, ...]) -> None:
    inner: ChildSpec[Any] = ChildSpec("inner", SupervisorSpec(children=[child("deep").of(Worker, [])]))
    raw: ChildSpec[Any] = ChildSpec("raw", lambda ctx, data: None)
    root = one_for_one(loop, child("worker").of(Worker, []), inner, raw)
    settle(loop)
    with pytest.raises(InvalidArgumentError, match="Noter"):
        root.handle(Noter, *path)


def test_a_base_class_of_the_child_is_accepted(loop: ActorSystem) -> None:
    book: Book = []
    root = one_for_one(loop, child("lively").of(Lively, book))
    settle(loop)
    handle = root.handle(Noter, "lively")
    handle.note(1)
    settle(loop)
    assert book == ["start", 1]


@pytest.mark.parametrize("kind", [int, "Worker", None, Actor.stop])
def test_of_takes_only_actor_classes(kind: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="not an actor class"):
        child("worker").of(kind)


def test_invalid_options_are_refused_when_the_spec_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="restart is NEVER"):
        child("worker", restart=RestartPolicy.NEVER, keep_mailbox=True).of(Worker, [])
    with pytest.raises(InvalidArgumentError, match="name"):
        child("").of(Worker, [])
    with pytest.raises(InvalidArgumentError, match="mailbox"):
        child("worker", mailbox=-1).of(Worker, [])


# --- crash loops ------------------------------------------------------------------------------------------------------------


def test_a_crash_loop_is_logged_and_ends_in_gave_up(
    loop: ActorSystem, diary: RecordingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    class Crashing(Worker):
        def on_start(self) -> None:
            self.me.crash()

    spec = SupervisorSpec(children=[child("crashing").of(Crashing, [])], max_restarts=3)
    spawn_supervisor(loop, spec, name="root")
    with pytest.raises(RestartLimitError) as caught:
        spin(loop, 100)
    assert "crashing" in caplog.text
    assert "root" in caplog.text
    assert isinstance(caught.value.__cause__, BaseExceptionGroup)
    assert Crashing.born == 4
    reasons = [why for _, why in diary.stopped]
    assert reasons.count(ExitReason.PANIC) >= 4


def test_a_handle_below_a_root_that_gave_up_is_refused(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("worker").of(Worker, []), max_restarts=0)
    settle(loop)
    handle = root.handle(Worker, "worker")
    handle.crash()
    with pytest.raises(RestartLimitError):
        settle(loop)
    with pytest.raises(BandstandError):
        handle.note("lost")
    assert handle.note.try_send("lost") is False
    assert not is_alive(handle)
    handle.stop()
    handle.kill()


def test_asks_of_a_tree_that_gives_up_all_end(make_loop: LoopMaker) -> None:
    loop = make_loop()
    replies: list[Any] = []

    async def body() -> None:
        root = one_for_one(
            loop, child("worker").of(Worker, []), child("other").of(Worker, []), max_restarts=0
        )
        worker, other = root.handle(Worker, "worker"), root.handle(Worker, "other")
        worker.crash()
        replies.extend([worker.incarnation(), other.incarnation()])
        await asyncio.Event().wait()

    with pytest.raises(RestartLimitError):
        ride(loop, body)
    assert all(reply.done() for reply in replies)
    assert loop.ask_statistics().pending == 0
