"""Dynamic supervisors: number, names, arguments and exits of the children."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import ref

import pytest

from bandstand.core import STOP, ActorId, Context, Down, ExitReason, Loop, LoopConfig, Verdict
from bandstand.errors import InvalidArgumentError, MaxChildrenError, NoSuchChildError
from bandstand.supervision import (
    ChildSpec,
    Counts,
    DynamicSpec,
    DynamicSupervisor,
    RestartPolicy,
    Shutdown,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock, shuffle
from tests.core.support import LoopMaker, check_statistics, idle, settle
from tests.supervision.helpers import id_of

pytestmark = pytest.mark.guarantee("G56")


def many(loop: Loop, child: ChildSpec[Any], **fields: Any) -> DynamicSupervisor[ActorId]:
    return spawn_supervisor(loop, DynamicSpec(child=child, **fields), name="many")


def names(supervisor: DynamicSupervisor[ActorId]) -> list[str]:
    return [info.name for info in supervisor.children()]


# --- how many ---------------------------------------------------------------------------------------------------------


# --- arguments and names ----------------------------------------------------------------------------------------------


# --- who is forgotten -------------------------------------------------------------------------------------------------


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G46", "G52")
@pytest.mark.parametrize(
    ("takes", "shutdown", "total"),
    [
        ([0.1, 0.3, 0.2], None, 300),
        ([0.1, 0.3, 0.2], Shutdown.INFINITY, 300),
        ([0.1, 0.3, 0.2], 0.25, 250),
        ([60, 60, 60], 1, 1000),
        ([60, 60, 60], Shutdown.KILL, 0),
        ([60, 60, 60], None, 5000),
    ],
)
def test_they_stop_together(
    clock: VirtualClock, takes: list[float], shutdown: float | Shutdown | None, total: float
) -> None:
    ended: list[tuple[float, str]] = []

    async def behavior(ctx: Context[float], data: object) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(ctx.state)

    def init(ctx: Context[float], seconds: float) -> float:
        return seconds

    class Watch:
        def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
            ended.append(((clock.now_ns() - start) / 1e6, reason.name))

    loop = Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=clock)
    supervisor = many(loop, ChildSpec("job", behavior, init=init, shutdown=shutdown))
    for seconds in takes:
        loop.send(supervisor.start_child(seconds), "begin")
    start = 0

    def stop(ctx: Context[None], data: object) -> None:
        nonlocal start
        start = clock.now_ns()
        loop.set_observer(Watch())
        supervisor.stop()

    loop.send_after(loop.spawn(stop), 0.001, "now")
    loop.run(until_idle=True)
    assert len(ended) == len(takes) + 1
    assert ended[-1][0] == pytest.approx(total, abs=2)
    assert ended[-1][1] == "NORMAL"
    expected = sorted(min(seconds * 1000, total) for seconds in takes)
    assert [at for at, _ in ended[:-1]] == pytest.approx(expected, abs=2)
    killed = sum(seconds * 1000 > total for seconds in takes)
    assert [reason for _, reason in ended].count("FAIL") == killed
    loop.destroy()


# --- many of them -----------------------------------------------------------------------------------------------------


class Tally(dict[str, Any]):
    """A dict that counts how many of its entries were gone through, and how often it was looked at."""

    steps = 0

    def values(self) -> Any:
        Tally.steps += len(self)
        return super().values()

    def __iter__(self) -> Any:
        Tally.steps += len(self)
        return super().__iter__()


@pytest.mark.slow
def test_twenty_thousand_come_and_go_without_a_walk_over_the_others(make_loop: LoopMaker) -> None:
    count = 20_000
    loop = make_loop(max_actors=count + 10)
    supervisor = many(loop, ChildSpec("job", idle), max_restarts=count)
    tally = supervisor._actor.children.slots = Tally()  # pyright: ignore[reportPrivateUsage]  # counting is the point
    Tally.steps = 0
    actors = [supervisor.start_child() for _ in range(count)]
    assert len(tally) == count
    for actor in actors[::10]:
        loop.fail_actor(actor)
    settle(loop)
    for number in range(1, count // 2 + 1):
        assert supervisor.stop_child(f"job-{number}")
    settle(loop)
    assert Tally.steps == 0, "starts, restarts and stops touch one child each"
    assert supervisor.count_children() == Counts(count // 2, count // 2, 0, count // 2)
    Tally.steps = 0
    supervisor.stop()
    settle(loop)
    # To end, it goes over all a few times, not once for each.
    assert Tally.steps <= 5 * count
    assert loop.statistics().alive == 0
    check_statistics(loop)


class Argument:
    """Something a child is started with, which a test can see go."""


@pytest.mark.guarantee("G278")
@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("mode", list(RestartPolicy))
def test_arguments_are_kept_only_for_a_restart(loop: Loop, mode: RestartPolicy, is_slow: bool) -> None:
    def plain(ctx: Context[Any], argument: Argument) -> None:
        pass

    async def slow(ctx: Context[Any], argument: Argument) -> None:
        pass

    supervisor = many(loop, ChildSpec("job", idle, init=slow if is_slow else plain, restart=mode))
    argument = Argument()
    seen = ref(argument)
    supervisor.start_child(argument)
    del argument
    loop.run(until_idle=True)
    assert (seen() is None) == (mode is RestartPolicy.NEVER)
    assert supervisor.count_children().active == 1
    supervisor.stop_child("job-1")
    settle(loop)
    assert seen() is None


def test_arguments_without_an_init_are_refused(loop: Loop) -> None:
    tree = spawn_supervisor(loop, DynamicSpec(child=ChildSpec("a", idle)))
    with pytest.raises(InvalidArgumentError, match="has no init, so 'ada' would be lost"):
        tree.start_child("ada")
    assert tree.children() == ()


def test_name_of_follows_an_actor_through_its_restarts(loop: Loop) -> None:
    supervisor = many(loop, ChildSpec("job", idle))
    old = supervisor.start_child()
    other = supervisor.start_child()
    assert supervisor.name_of(old) == "job-1"
    assert supervisor.name_of(other) == "job-2"
    loop.fail_actor(old)
    settle(loop)
    new = id_of(supervisor, "job-1")
    assert new != old
    assert supervisor.name_of(new) == "job-1"
    for stranger in (old, loop.spawn(idle), supervisor.actor):
        with pytest.raises(NoSuchChildError, match="not a child of supervisor 'many'"):
            supervisor.name_of(stranger)
    assert supervisor.stop_child(new), "a child can be named by its id"
    with pytest.raises(NoSuchChildError):
        supervisor.stop_child(new)
    supervisor.start_child()
    assert names(supervisor) == ["job-2", "job-3"], "a name is never used twice"


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("mode", [RestartPolicy.NEVER, RestartPolicy.ON_FAILURE])
def test_a_receiver_of_a_down_can_start_the_next_child(loop: Loop, seed: int, mode: RestartPolicy) -> None:
    shuffle(loop, seed)
    jobs = list(range(12))
    done: list[int] = []

    def work(ctx: Context[int], data: object) -> Verdict:
        done.append(ctx.state)
        return STOP

    def begin(ctx: Context[int], job: int) -> int:
        ctx.loop.send(ctx.self_id, "go")
        return job

    pool = spawn_supervisor(
        loop, DynamicSpec(child=ChildSpec("job", work, init=begin, restart=mode), max_children=2)
    )

    def feed(ctx: Context[None], data: object) -> None:
        assert data == "begin" or isinstance(data, Down)
        for _ in range(2 if data == "begin" else 1):
            if jobs:
                ctx.loop.monitor(ctx.self_id, pool.start_child(jobs.pop()))

    loop.send(loop.spawn(feed), "begin")
    settle(loop)
    assert sorted(done) == list(range(12))
    for _ in range(2):
        pool.start_child(0)
    with pytest.raises(MaxChildrenError):
        pool.start_child(0)
