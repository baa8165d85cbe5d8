"""Exactly one CHILD_EXIT per exit, of whatever kind: for a plain parent, and for supervisors that restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from bandstand.core import (
    ActorId,
    ActorStatus,
    Context,
    ExitReason,
    Lane,
    Loop,
)
from bandstand.errors import ActorKilledError, RestartLimitError
from bandstand.supervision import (
    DynamicSpec,
    RestartPolicy,
    Shutdown,
    Strategy,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import (
    Boom,
    LoopMaker,
    Seen,
    call_in,
    check_statistics,
    exits,
    failer,
    record,
    run_message,
    settle,
)
from tests.supervision.helpers import (
    StubbornCoroutine,
    begin,
    below,
    child,
    crash,
    id_of,
    spin,
    supervise,
)

MANY = 20_000

pytestmark = [pytest.mark.spec("J18"), pytest.mark.guarantee("G23")]


class Family:
    """A plain actor that counts the exits of its children."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.seen: list[Seen] = []
        self.actor = loop.spawn(record, self.seen, name="counter")

    def child(
        self, behavior: Callable[..., Any] = run_message, init: Callable[[Any], Any] | None = None
    ) -> ActorId:
        return self.loop.kernel.actors.spawn_child(
            behavior,
            init,
            name="child",
            cap=self.loop.kernel.actors.checked_cap(None),
            supervisor=self.actor,
            context=copy_context(),
        )

    def exits(self) -> list[tuple[ActorId, ExitReason, type[BaseException] | None]]:
        spin(self.loop)
        check_statistics(self.loop)
        assert all(seen.lane is Lane.SYSTEM for seen in self.seen)
        return [
            (note.child, note.reason, None if note.cause is None else type(note.cause))
            for note in exits(self.seen)
        ]


@pytest.fixture
def family(loop: Loop) -> Family:
    return Family(loop)


# --- one for each, however it ended ---------------------------------------------------------------------------------------


@pytest.mark.guarantee("G44", "G32")
@pytest.mark.parametrize("how", ["stop_actor", "fail_actor", "kill_actor"])
def test_ended_while_its_init_is_in_flight(loop: Loop, family: Family, how: str) -> None:
    async def init(ctx: Context[Any]) -> None:
        await asyncio.Event().wait()

    actor = family.child(init=init)
    spin(loop)
    getattr(loop, how)(actor)
    (note,) = family.exits()
    assert note[:2] == (actor, ExitReason.NORMAL if how == "stop_actor" else ExitReason.FAIL)
    assert loop.statistics().in_flight == 0


@pytest.mark.guarantee("G44", "G32")
def test_stopped_while_its_init_is_in_flight_and_that_ends_well_all_the_same(
    loop: Loop, family: Family
) -> None:
    with StubbornCoroutine() as gate:

        async def init(ctx: Context[Any]) -> str:
            await gate.wait()
            return "state"

        actor = family.child(init=init)
        spin(loop)
        loop.stop_actor(actor)
        spin(loop)
        gate.open()
        assert family.exits() == [(actor, ExitReason.NORMAL, None)]
        assert len(family.seen) == 1, "no ChildStart of one that was stopped"


def test_dies_together_with_its_supervisor(loop: Loop, family: Family) -> None:
    """The supervisor and its children end in one tick: the parent receives one exit, that of the supervisor."""
    sup = supervise(loop, child("a"), child("b"), parent=family.actor)
    loop.send(id_of(sup, "a"), crash)
    loop.send(id_of(sup, "b"), crash)
    call_in(loop, loop.spawn(run_message), lambda ctx: ctx.loop.fail_actor(sup.actor))
    assert family.exits() == [(sup.actor, ExitReason.FAIL, None)]
    assert loop.statistics().alive == 2
    assert loop.statistics().waiting == 0


def test_a_child_that_ends_its_plain_parent_and_itself(loop: Loop, family: Family) -> None:
    actor = family.child()

    def act(ctx: Context[Any]) -> Any:
        ctx.loop.stop_actor(family.actor)
        raise Boom("both")

    call_in(loop, actor, act)
    assert family.exits() == []
    assert loop.statistics().alive == 0


@pytest.mark.parametrize("how", ["stop", "stop twice", "stop, then kill", "stop, then stop_actor"])
def test_a_supervisor_that_is_stopped(loop: Loop, family: Family, how: str) -> None:
    with StubbornCoroutine() as gate:
        sup = supervise(loop, child("a"), child("deaf", gate), parent=family.actor)
        begin(loop, sup, "deaf")
        sup.stop()
        if how == "stop twice":
            sup.stop()
        elif how == "stop, then kill":
            loop.kill_actor(sup.actor)
        elif how == "stop, then stop_actor":
            loop.stop_actor(sup.actor)
        gate.open()
        is_killed = how == "stop, then kill"
        expected = (ExitReason.FAIL, ActorKilledError) if is_killed else (ExitReason.NORMAL, None)
        assert family.exits() == [(sup.actor, *expected)]
        assert loop.statistics().alive == 1
        sup.stop()
        assert len(family.exits()) == 1


# --- restarts: one for each exit ------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G52")
def test_a_child_killed_by_its_supervisor_while_it_fails(loop: Loop, clock: VirtualClock) -> None:
    """Its time is up in the very tick in which its coroutine ends: one exit, and no stale deadline hits the next one."""
    with StubbornCoroutine() as gate:
        sup = supervise(loop, child("deaf", gate, shutdown=0.1))
        before = id_of(sup, "deaf")
        loop.send(before, "begin")
        spin(loop)
        sup.stop_child("deaf")
        gate.open()
        clock.advance(0.1)
        spin(loop)
        assert loop.status(before) >= ActorStatus.STOPPED
        again = sup.restart_child("deaf")
        clock.advance(1.0)
        spin(loop)
        assert loop.status(again) is ActorStatus.RUNNING
        assert loop.statistics().timers_pending == 0


@pytest.mark.guarantee("G52", "G57")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_stop_child_again_and_again_is_one_stop(
    loop: Loop, clock: VirtualClock, strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    with StubbornCoroutine() as gate:
        sup = supervise(loop, child("deaf", gate, shutdown=0.1), strategy=strategy)
        begin(loop, sup, "deaf")
        for _ in range(5):
            assert not sup.stop_child("deaf")
        assert loop.statistics().timers_pending == 1
        spin(loop)
        assert gate.cancels == 1
        clock.advance(0.05)
        assert not sup.stop_child("deaf")
        clock.advance(0.05)
        spin(loop)
        assert sup.child("deaf") is None
        assert sup.stop_child("deaf")
        assert loop.statistics().timers_pending == 0
        assert sum("kills child" in line.getMessage() for line in caplog.records) == 1


@pytest.mark.guarantee("G52", "G57")
def test_stop_child_of_a_supervisor_again_and_again_does_not_flood_it(loop: Loop) -> None:
    sup = supervise(loop, below("mid", SupervisorSpec(children=[child("x")])))
    mid = id_of(sup, "mid")
    for _ in range(3000):
        sup.stop_child("mid")
    settle(loop)
    assert loop.status(mid) is ActorStatus.STOPPED


# --- many -----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J6", "J19")
@pytest.mark.guarantee("G8", "G48", "G56")
@pytest.mark.heavy
@pytest.mark.parametrize("how", ["killed by one message", "each by its own verdict"])
def test_20000_children_die_in_one_tick_under_a_dynamic_supervisor_that_restarts_each(
    make_loop: LoopMaker, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "bandstand.supervision")
    loop = make_loop(max_actors_per_tick=MANY + 10, max_tick=60.0)
    sup = spawn_supervisor(loop, DynamicSpec(child=child("a", failer), max_restarts=10**9))
    children = [sup.start_child() for _ in range(MANY)]
    restarts: list[ActorId] = []

    class Watching:
        def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
            assert attempt == 1
            restarts.append(child)

    loop.set_observer(Watching())
    if how == "killed by one message":

        def act(ctx: Context[Any]) -> None:
            for actor in children:
                ctx.loop.fail_actor(actor)

        call_in(loop, loop.spawn(run_message), act)
    else:
        for actor in children:
            loop.send(actor, "die")
    before = loop.statistics().ticks
    loop.poll_once()
    assert loop.statistics().ticks == before + 1
    assert loop.statistics().ended_fail == MANY
    settle(loop)
    assert loop.status(sup.actor) is ActorStatus.RUNNING
    assert len(restarts) == len(set(restarts)) == MANY
    assert {loop.status(actor) for actor in restarts} == {ActorStatus.RUNNING}
    assert not set(restarts) & set(children)
    assert [info.actor for info in sup.children()] == restarts
    assert {info.restarts for info in sup.children()} == {1}
    check_statistics(loop)
    sup.stop()
    settle(loop)
    assert loop.statistics().alive == (1 if how == "killed by one message" else 0)


@pytest.mark.spec("J6")
@pytest.mark.guarantee("G48", "G54")
@pytest.mark.heavy
def test_20000_children_die_with_their_supervisor(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "bandstand.supervision")
    loop = make_loop(max_actors_per_tick=MANY + 10, max_tick=60.0)
    family = Family(loop)
    spec = DynamicSpec(
        child=child("a", failer, restart=RestartPolicy.ON_FAILURE, shutdown=Shutdown.KILL), max_restarts=0
    )
    sup = spawn_supervisor(loop, spec, parent=family.actor)
    for _ in range(MANY):
        loop.send(sup.start_child(), "die")
    settle(loop)
    assert [(note.child, type(note.cause)) for note in exits(family.seen)] == [(sup.actor, RestartLimitError)]
    assert loop.statistics().alive == 1
    check_statistics(loop)
