"""An init that raises `IgnoreChild`: its supervisor continues without the child, as OTP does when an init returns `ignore`."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask
from bandstand.actor import child as typed_child
from bandstand.core import Context, ExitReason, Loop
from bandstand.errors import IgnoreChild, NoSuchChildError, StartError
from bandstand.supervision import (
    AutoShutdown,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    RestartPolicy,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.supervision.spec import required_init
from tests.core.support import record, settle
from tests.supervision.helpers import NameRecorder, child, crash, order, phases, running, spin, supervise

pytestmark = pytest.mark.guarantee("G279")

GROUPS = [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE]


def start(loop: Loop, *children: Any, **fields: Any) -> Supervisor:
    return spawn_supervisor(loop, SupervisorSpec(children=children, **fields))


class Ignores:
    """An init that says so at some starts, counted from 1."""

    def __init__(self, *starts: int) -> None:
        self.starts = starts
        self.calls = 0

    def __call__(self, ctx: Context[Any], *_: object) -> int:
        self.calls += 1
        if not self.starts or self.calls in self.starts:
            raise IgnoreChild("not needed here")
        return self.calls


def slowly(init: Ignores) -> Any:
    """The same as a coroutine function."""

    async def slow(ctx: Context[Any], *more: object) -> int:
        return init(ctx, *more)

    return slow


def made(how: str, *starts: int) -> Any:
    return Ignores(*starts) if how == "plain" else slowly(Ignores(*starts))


HOW = pytest.mark.parametrize("how", ["plain", "async"])


@HOW
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("mode", [RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE])
def test_a_supervisor_starts_without_a_child_that_is_not_needed(
    loop: Loop,
    recorder: NameRecorder,
    how: str,
    strategy: Strategy,
    mode: RestartPolicy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "bandstand.supervision")
    odd = child("odd", init=made(how), restart=mode)
    sup = start(loop, child("a"), odd, child("z"), strategy=strategy)
    spin(loop)
    assert phases(sup) == {"a": "up", "odd": "down", "z": "up"}
    assert sup.child("odd") is None
    assert recorder.restarts == []
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "continues without child 'odd': IgnoreChild: not needed here" in caplog.text


@HOW
def test_a_temporary_child_that_is_not_needed_is_forgotten(loop: Loop, how: str) -> None:
    sup = start(loop, child("a"), child("odd", init=made(how), restart=RestartPolicy.NEVER))
    spin(loop)
    assert phases(sup) == {"a": "up"}


@HOW
def test_start_child_returns_the_id_of_an_ended_actor(loop: Loop, how: str) -> None:
    sup = start(loop, child("a"))
    actor = sup.start_child(child("odd", init=made(how)))
    spin(loop)
    assert not actor.is_alive
    assert phases(sup) == {"a": "up", "odd": "down"}
    once = sup.start_child(child("once", init=made(how), restart=RestartPolicy.NEVER))
    spin(loop)
    assert not once.is_alive
    assert phases(sup) == {"a": "up", "odd": "down"}


@HOW
def test_restart_child_tries_again(loop: Loop, recorder: NameRecorder, how: str) -> None:
    sup = start(loop, child("odd", init=made(how, 1, 2)))
    spin(loop)
    assert not sup.restart_child("odd").is_alive or how == "async"
    spin(loop)
    assert phases(sup) == {"odd": "down"}
    sup.restart_child("odd")
    spin(loop)
    assert phases(sup) == {"odd": "up"}
    assert recorder.restarts == [], "a start on request is no restart"
    sup.stop_child("odd")
    sup.delete_child("odd")
    with pytest.raises(NoSuchChildError):
        sup.child("odd")


@HOW
@pytest.mark.parametrize("strategy", GROUPS)
def test_a_group_restarts_without_the_one_that_is_not_needed(
    loop: Loop, how: str, strategy: Strategy
) -> None:
    sup = start(loop, child("a"), child("odd", init=made(how, 2)), child("z"), strategy=strategy)
    spin(loop)
    assert len(running(sup)) == 3
    order(loop, sup, "a", crash)
    spin(loop)
    assert phases(sup) == {"a": "up", "odd": "down", "z": "up"}
    order(loop, sup, "a", crash)
    spin(loop)
    assert phases(sup) == {"a": "up", "odd": "up", "z": "up"}


@HOW
def test_a_dynamic_supervisor_forgets_a_child_that_is_not_needed(loop: Loop, how: str) -> None:
    spec: ChildSpec[Any] = child("job", init=made(how, 1, 4))
    sup = spawn_supervisor(loop, DynamicSpec(child=spec, max_children=1))
    assert not sup.start_child("first").is_alive or how == "async"
    spin(loop)
    assert sup.count_children().specs == 0
    sup.start_child("second")
    spin(loop)
    assert running(sup) == ["job-2"]
    order(loop, sup, "job-2", crash)
    spin(loop)
    assert running(sup) == ["job-2"]
    order(loop, sup, "job-2", crash)
    spin(loop)
    assert sup.count_children().specs == 0, "its restart was ignored"


@HOW
def test_a_partition_that_is_not_needed_has_no_route(loop: Loop, how: str) -> None:
    spec: ChildSpec[Any] = child("shard", init=made(how, 2))
    sup = spawn_supervisor(loop, PartitionSpec(child=spec, partitions=3))
    spin(loop)
    assert phases(sup) == {"shard-0": "up", "shard-1": "down", "shard-2": "up"}
    routes = {sup.route(key) for key in range(100)}
    assert routes == {sup.child("shard-0"), sup.child("shard-2"), None}


@HOW
def test_a_significant_child_that_is_ignored_does_not_stop_its_supervisor(loop: Loop, how: str) -> None:
    odd = child("odd", init=made(how), restart=RestartPolicy.ON_FAILURE, significant=True)
    sup = start(loop, odd, child("a"), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    spin(loop)
    assert phases(sup) == {"odd": "down", "a": "up"}


@HOW
def test_the_end_is_a_normal_one(loop: Loop, how: str) -> None:
    """Who monitors the child, and what counts ends, see a normal end."""
    sup = start(loop, child("a"))
    before = loop.statistics()
    actor = sup.start_child(child("odd", init=made(how)))
    watcher: list[Any] = []
    loop.monitor(loop.spawn(record, watcher), actor)
    spin(loop)
    after = loop.statistics()
    assert after.ended_normal == before.ended_normal + 1
    assert (after.ended_fail, after.ended_panic) == (before.ended_fail, before.ended_panic)
    assert [down.data.reason for down in watcher] == [ExitReason.NORMAL]


@HOW
def test_a_child_that_something_waits_for_must_start(
    loop: Loop, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    sup = start(loop, child("store", init=required_init(made(how, 2), "the store")))
    spin(loop)
    assert phases(sup) == {"store": "up"}
    sup.stop_child("store")
    if how == "plain":
        with pytest.raises(StartError, match="the store"):
            sup.restart_child("store")
    else:
        sup.restart_child("store")
        spin(loop)
        assert "the store" in caplog.text
    assert phases(sup) == {"store": "down"}


def test_raised_by_a_behavior_it_is_a_panic_like_any_other(loop: Loop, recorder: NameRecorder) -> None:
    def behave(ctx: Context[Any], data: object) -> None:
        raise IgnoreChild("too late")

    sup = start(loop, child("late", behave))
    loop.send(sup.address("late"), "x")
    settle(loop)
    assert recorder.restarts == [("root", "late", 1)]


class Gpu(Actor):
    """A typed actor that needs something that may not be there."""

    def __init__(self, where: str) -> None:
        if where == "__init__":
            raise IgnoreChild("there is no GPU")
        self.where = where

    def on_start(self) -> None:
        if self.where == "on_start":
            raise IgnoreChild("there is no GPU")

    @ask
    def name(self) -> str:
        return self.where


class SlowGpu(Gpu):
    async def on_start(self) -> None:  # type: ignore[override]  # a coroutine, as it may be
        super().on_start()


@pytest.mark.parametrize("kind", [Gpu, SlowGpu])
@pytest.mark.parametrize("where", ["__init__", "on_start"])
def test_a_typed_actor_says_so_in_its_init_or_its_on_start(kind: type[Gpu], where: str) -> None:
    with ActorSystem() as loop:
        sup = supervise(loop, typed_child("gpu").of(kind, where), typed_child("cpu").of(kind, "cpu"))
        spin(loop)
        assert phases(sup) == {"gpu": "down", "cpu": "up"}


def test_without_a_supervisor_it_is_a_start_that_failed() -> None:
    with ActorSystem() as loop:
        with pytest.raises(StartError, match="there is no GPU") as caught:
            loop.spawn(Gpu, "on_start")
        assert isinstance(caught.value.__cause__, IgnoreChild)
        assert loop.statistics().alive == 0
