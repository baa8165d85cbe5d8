"""Exit messages: one ChildExit for each child, one Down for each monitor, whatever fills the mailbox."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from bandstand.core import ActorStatus, Context, ExitReason, Lane, Loop
from bandstand.errors import InvalidArgumentError
from tests.core.support import (
    Boom,
    LoopMaker,
    Seen,
    check_statistics,
    downs,
    exits,
    failer,
    fill,
    idle,
    panicker,
    record,
    run_message,
    settle,
    stopper,
)

MANY = 20_000


@pytest.mark.spec("J6", "J18")
@pytest.mark.guarantee("G8", "G23")
@pytest.mark.heavy
@pytest.mark.parametrize("how", ["killed by one message", "each by its own verdict"])
def test_20000_exits_in_one_tick_are_received(make_loop: LoopMaker, how: str, seen: list[Seen]) -> None:
    loop = make_loop(max_actors_per_tick=MANY + 10, max_tick=60.0)
    boss = loop.spawn(record, seen, mailbox_cap=5)
    children = [loop.spawn(failer, supervisor=boss) for _ in range(MANY)]
    for child in children[::2]:
        loop.monitor(boss, child)

    def kill(ctx: Context[Any]) -> None:
        for child in children:
            ctx.loop.fail_actor(child)

    if how == "killed by one message":
        loop.send(loop.spawn(run_message), kill)
    else:
        for child in children:
            loop.send(child, "die")
    assert fill(loop, boss, Lane.CONTROL) == 1
    assert fill(loop, boss) == 1
    before = loop.statistics().ticks
    loop.poll_once()
    assert loop.statistics().ended_fail == MANY
    assert loop.statistics().ticks == before + 1
    settle(loop)
    assert loop.status(boss) is ActorStatus.RUNNING
    assert [note.child for note in exits(seen)] == children
    assert {note.reason for note in exits(seen)} == {ExitReason.FAIL}
    assert [note.actor for note in downs(seen)] == children[::2]
    assert len(seen) == MANY + MANY // 2 + 2
    assert fill(loop, boss) == 1, "the mailbox is as it was"


@pytest.mark.spec("J18")
@pytest.mark.guarantee("G23")
@pytest.mark.parametrize(
    ("behavior", "reason", "cause"),
    [
        (stopper, ExitReason.NORMAL, type(None)),
        (failer, ExitReason.FAIL, type(None)),
        (panicker, ExitReason.PANIC, Boom),
    ],
)
def test_a_supervisor_and_each_monitor_hear_once(
    loop: Loop, behavior: Any, reason: ExitReason, cause: type, seen: list[Seen]
) -> None:
    watchers = [loop.spawn(record, seen) for _ in range(3)]
    target = loop.spawn(behavior, supervisor=watchers[0])
    for watcher in (*watchers, watchers[0]):
        loop.monitor(watcher, target)
    loop.monitor(target, target)
    loop.send(target, "x")
    settle(loop)
    assert len(downs(seen)) == 4
    assert {(note.actor, note.reason, type(note.cause)) for note in downs(seen)} == {(target, reason, cause)}
    assert [(note.child, note.reason, type(note.cause)) for note in exits(seen)] == [(target, reason, cause)]
    check_statistics(loop)


@pytest.mark.guarantee("G23")
@pytest.mark.parametrize(
    ("behavior", "reason"),
    [(stopper, ExitReason.NORMAL), (failer, ExitReason.FAIL), (panicker, ExitReason.PANIC)],
)
def test_monitoring_an_ended_actor_reports_its_reason(loop: Loop, behavior: Any, reason: ExitReason) -> None:
    seen: list[Seen] = []
    watcher, target = loop.spawn(record, seen, mailbox_cap=5), loop.spawn(behavior)
    loop.send(target, "x")
    settle(loop)
    fill(loop, watcher)
    late = loop.monitor(watcher, target)
    assert not loop.demonitor(late)
    settle(loop)
    assert [(note.actor, note.reason) for note in downs(seen)] == [(target, reason)]


@pytest.mark.parametrize("monitor", [None, 7, object()], ids=repr)
def test_what_is_no_monitor_is_an_invalid_argument(loop: Loop, monitor: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        loop.demonitor(monitor)


def test_another_loops_monitor_is_not_ours_to_take_back(make_loop: LoopMaker, seen: list[Seen]) -> None:
    here, there = make_loop(), make_loop()
    watcher, target = there.spawn(record, seen), there.spawn(idle)
    monitor = there.monitor(watcher, target)
    with suppress(InvalidArgumentError):
        assert not here.demonitor(monitor)
    there.stop_actor(target)
    settle(there)
    assert len(downs(seen)) == 1
