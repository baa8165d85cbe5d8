"""Statistics: every message and every timer is counted once."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

from bandstand.core import Lane, Loop, Overflow
from bandstand.errors import BandstandError, InvalidArgumentError, LoopClosedError
from bandstand.testing import VirtualClock
from tests.core.support import check_statistics, fill, idle, panicker, settle


def test_a_snapshot_is_frozen_and_starts_at_zero(loop: Loop) -> None:
    books = loop.statistics()
    assert set(dataclasses.asdict(books).values()) == {0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        books.sent = 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # on purpose
    loop.spawn(idle)
    assert books.spawned == 0


@pytest.mark.guarantee("G10")
def test_each_fate_is_counted_once(loop: Loop, clock: VirtualClock) -> None:
    before = dataclasses.asdict(loop.statistics())

    def step(**expected: int) -> None:
        nonlocal before
        check_statistics(loop)
        now = dataclasses.asdict(loop.statistics())
        changed = {key: now[key] - before[key] for key in now if now[key] != before[key] and key != "ticks"}
        assert changed == expected
        before = now

    actor = loop.spawn(idle, mailbox_cap=6)
    step(spawned=1, alive=1)
    loop.send(actor, 1)
    step(sent=1, waiting=1, ready=1)
    loop.try_send(actor, 2, lane=Lane.CONTROL)
    step(sent=1, waiting=1)
    settle(loop)
    step(handled=2, waiting=-2, ready=-1)
    fill(loop, actor)
    step(sent=3, waiting=2, refused=1, ready=1)
    timer = loop.send_after(actor, 0.005, "x")
    loop.send_after(actor, 0.005, "x")
    step(timers_set=2, timers_pending=2)
    loop.cancel_timer(timer)
    step(timers_cancelled=1, timers_pending=-1)
    clock.advance(0.005)
    settle(loop)
    step(sent=1, handled=3, waiting=-2, ready=-1, timers_fired=1, timers_pending=-1)
    loop.send(actor, "unread")
    loop.send_after(actor, 0.005, "x")
    loop.stop_actor(actor)
    # The ended actor still stands in the queue, until the queue is looked at.
    settle(loop)
    step(sent=1, dead=1, alive=-1, ended_normal=1, timers_set=1, timers_released=1)
    assert not loop.try_send(actor, "x")
    with pytest.raises(BandstandError):
        loop.send(actor, "x")
    step(sent=2, refused=2)
    dropping = loop.spawn(idle, mailbox_cap=5, overflow=Overflow.CONFLATE)
    for number in range(3):
        loop.send(dropping, number)
    step(spawned=1, alive=1, sent=3, dropped=2, waiting=1, ready=1)
    settle(loop)
    step(handled=1, waiting=-1, ready=-1)
    child = loop.spawn(idle, supervisor=dropping)
    loop.monitor(dropping, child)
    step(spawned=1, alive=1)
    loop.fail_actor(child)
    step(alive=-1, ended_fail=1, sent=2, waiting=2, ready=1)
    settle(loop)
    step(handled=2, waiting=-2, ready=-1)
    loop.send(loop.spawn(panicker), "x")
    settle(loop)
    step(spawned=1, ended_panic=1, sent=1, handled=1)
    for refused in (
        lambda: loop.send(dropping, "x", tag=-1),
        lambda: loop.send(dropping, "x", lane=Lane.SYSTEM),
        lambda: loop.send_after(dropping, -0.001, "x"),
        lambda: loop.send(cast("Any", "nobody"), "x"),
    ):
        with pytest.raises(InvalidArgumentError):
            refused()
    step()
    loop.request_stop()
    with pytest.raises(LoopClosedError):
        loop.send(dropping, "x")
    now = loop.statistics()
    assert (now.sent, now.refused) == (before["sent"] + 1, before["refused"] + 1)
    loop.destroy()
