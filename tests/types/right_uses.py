"""What a user may write: both type checkers accept it and infer what is asserted here. Read by checkers, never run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_type

from bandstand.core import (
    FAIL,
    OK,
    STOP,
    ActorId,
    Behavior,
    Clock,
    Context,
    ExitReason,
    Loop,
    LoopConfig,
    MonotonicClock,
    Observer,
    Overflow,
    Verdict,
)
from bandstand.supervision import (
    AnySupervisorSpec,
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    Overseer,
    PartitionSpec,
    PartitionSupervisor,
    RestartPolicy,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock, run_async


@dataclass
class Counter:
    total: int = 0
    notes: list[str] = field(default_factory=list[str])


def count(ctx: Context[Counter], data: int) -> Verdict | None:
    assert_type(ctx.state, Counter)
    assert_type(ctx.state.total, int)
    ctx.state.total += data
    ctx.state = Counter(data)
    if data < 0:
        return FAIL
    if data == 0:
        return STOP
    return OK


def silent(ctx: Context[None], data: str) -> None:
    assert_type(ctx.state, None)


def any_data(ctx: Context[int], data: object) -> Verdict:
    return OK


class Callable:
    """A behavior may be an object."""

    def __call__(self, ctx: Context[Counter], data: int) -> Verdict | None:
        return None


async def count_later(ctx: Context[Counter], data: int) -> Verdict | None:
    return None


def new_counter(ctx: Context[Counter]) -> Counter:
    return Counter()


async def new_counter_later(ctx: Context[Counter]) -> Counter:
    return Counter()


def counter_of(ctx: Context[Counter], name: str, start: int) -> Counter:
    """What a dynamic supervisor's child is made by: its arguments come after the context."""
    return Counter(start)


def partition_of(ctx: Context[Counter], place: int) -> Counter:
    return Counter(place)


class Louder(Observer):
    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None: ...  # noqa: A002 -- the hook's own name

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None: ...

    def on_supervisor_escalate(self, supervisor: ActorId) -> None: ...


class Stopped:
    """A clock of the user's own."""

    def now_ns(self) -> int:
        return 0


def use() -> None:
    loop = Loop(LoopConfig(max_actors=10), clock=VirtualClock())
    Loop(clock=MonotonicClock())
    clock: Clock = Stopped()
    Loop(None, clock=clock)
    counter = loop.spawn(count, Counter())
    assert_type(counter, ActorId)
    loop.spawn(
        count, state=Counter(3), name="three", mailbox_cap=64, supervisor=counter, overflow=Overflow.CONFLATE
    )
    loop.spawn(silent)
    loop.spawn(silent, None)
    loop.spawn(any_data, 5)
    loop.spawn(Callable(), Counter())
    loop.spawn(lambda ctx, data: None)
    stored: Behavior[Counter] = count
    loop.spawn(stored, Counter())
    loop.send(counter, 1)
    assert_type(loop.try_send(counter, 1), bool)
    loop.set_observer(Louder())
    with Loop() as inner:
        assert_type(inner, Loop)


async def use_async() -> None:
    async with Loop() as loop:
        assert_type(loop, Loop)


def use_specs() -> SupervisorSpec:
    child = ChildSpec("counter", count, new_counter)
    assert_type(child, ChildSpec[Counter])
    assert_type(ChildSpec("later", count_later, init=new_counter_later), ChildSpec[Counter])
    assert_type(ChildSpec("object", Callable(), new_counter), ChildSpec[Counter])
    assert_type(ChildSpec("silent", silent), ChildSpec[None])
    ChildSpec("lambda", count, lambda ctx: Counter())
    ChildSpec("lambda", count, init=lambda ctx: Counter())
    ChildSpec("class", count, init=lambda _: Counter(7))
    ChildSpec(
        "all",
        count,
        new_counter,
        restart=RestartPolicy.ON_FAILURE,
        mailbox_cap=64,
        keep_mailbox=True,
        backoff=Backoff(initial=0.05, maximum=5.0005, factor=1.5, jitter=0.01),
        shutdown=Shutdown.KILL,
        significant=True,
    )
    spec = SupervisorSpec(
        children=[
            child,
            ChildSpec("silent", silent),
            ChildSpec("below", SupervisorSpec(children=[child])),
            ChildSpec("crowd", DynamicSpec(child=ChildSpec("one", count, counter_of), max_children=5)),
            ChildSpec("shards", PartitionSpec(child=ChildSpec("one", count, partition_of), partitions=4)),
        ],
        strategy=Strategy.REST_FOR_ONE,
        max_restarts=5,
        period=2.5005,
        auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    )
    SupervisorSpec(children=(child,))
    SupervisorSpec()
    return spec


def use_supervisors(loop: Loop, spec: SupervisorSpec, boss: ActorId) -> None:
    root = spawn_supervisor(loop, spec)
    assert_type(root, Supervisor)
    crowd = spawn_supervisor(loop, DynamicSpec(child=ChildSpec("one", count, counter_of)), name="crowd")
    assert_type(crowd, DynamicSupervisor[ActorId])
    shards = spawn_supervisor(
        loop, PartitionSpec(child=ChildSpec("one", count, partition_of), partitions=4), parent=boss
    )
    assert_type(shards, PartitionSupervisor[ActorId])
    spawn_supervisor(loop, SupervisorSpec(), name="all", parent=None)

    assert_type(root.address("counter"), ActorId)
    loop.send(root.address("counter"), 1)
    assert_type(root.supervisor("below", Supervisor), Supervisor | None)
    assert_type(root.supervisor("crowd", DynamicSupervisor[ActorId]), DynamicSupervisor[ActorId] | None)
    assert_type(root.supervisor("shards", PartitionSupervisor[ActorId]), PartitionSupervisor[ActorId] | None)
    assert_type(root.supervisor("any", Overseer), Overseer | None)
    assert_type(root.start_child(ChildSpec("late", count, new_counter)), ActorId)
    assert_type(crowd.start_child("name", 5), ActorId)
    assert_type(crowd.start_child("name", 5, name="pump"), ActorId)
    for key in ("text", b"bytes", 5):
        assert_type(shards.route(key), ActorId | None)
    some = spawn_supervisor(loop, spec_of("dynamic"))
    assert_type(some, Supervisor | DynamicSupervisor[ActorId] | PartitionSupervisor[ActorId])
    everybody: list[Overseer] = [root, crowd, shards, some]
    for one in everybody:
        one.stop()


def spec_of(kind: str) -> AnySupervisorSpec:
    child = ChildSpec("one", count, new_counter)
    return DynamicSpec(child=child) if kind == "dynamic" else PartitionSpec(child=child, partitions=1)


def async_test_bodies(clock: VirtualClock) -> None:
    async def alone() -> str:
        return "done"

    async def with_loop(loop: Loop) -> int:
        return loop.statistics().alive

    assert_type(run_async(alone), str)
    assert_type(run_async(with_loop, Loop(clock=clock), clock=clock, timeout=None), int)
