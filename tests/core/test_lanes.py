"""The order of messages: FIFO inside a lane, strict priority between lanes, checked for every message."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop
from tests.core.support import USER_LANES, Seen, idle, record, run_message, settle


@pytest.mark.spec("J7")
@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("lane", USER_LANES)
def test_fifo_inside_a_lane_whoever_sent(loop: Loop, lane: Lane, seen: list[Seen]) -> None:
    target = loop.spawn(record, seen)

    def pass_on(ctx: Context[Any], data: object) -> None:
        ctx.loop.send(target, data, lane=lane, sender=ctx.self_id)

    senders = [loop.spawn(pass_on) for _ in range(3)]
    expected: list[tuple[int, int]] = []
    for number in range(150):
        loop.send(target, (0, number), lane=lane)
        expected.append((0, number))
    for which, sender in enumerate(senders, 1):
        for number in range(70):
            loop.send(sender, (which, number))
    settle(loop)
    order = [message.data for message in seen]
    assert order[:150] == expected
    for which in range(1, 4):
        assert [number for who, number in order if who == which] == list(range(70))


@pytest.mark.spec("S4")
@pytest.mark.guarantee("G6")
@pytest.mark.parametrize(
    "order", list(permutations(USER_LANES)), ids=lambda o: "-".join(lane.name for lane in o)
)
def test_lanes_are_taken_by_priority_whatever_the_order_of_sends(loop: Loop, order: tuple[Lane, ...]) -> None:
    seen: list[Seen] = []
    actor = loop.spawn(record, seen)
    for lane in order:
        for number in range(3):
            loop.send(actor, number, lane=lane)
    settle(loop)
    assert [(message.lane, message.data) for message in seen] == [
        (lane, number) for lane in (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA) for number in range(3)
    ]


@pytest.mark.spec("S4")
@pytest.mark.guarantee("G6")
def test_system_comes_before_control(loop: Loop, seen: list[Seen]) -> None:
    boss = loop.spawn(record, seen)
    child = loop.spawn(idle, supervisor=boss)
    loop.send(boss, "data")
    loop.send(boss, "control", lane=Lane.CONTROL)
    loop.stop_actor(child)
    settle(loop)
    assert [message.lane for message in seen] == [Lane.SYSTEM, Lane.CONTROL, Lane.DATA]


@pytest.mark.spec("S4", "C2")
@pytest.mark.guarantee("G6")
def test_priority_is_looked_at_anew_for_every_message(loop: Loop, seen: list[str]) -> None:
    """A control message that comes while data is being handled is the next one, inside the same visit."""

    def behavior(ctx: Context[Any], data: str) -> None:
        seen.append(data)
        if data == "data 1":
            ctx.loop.send(ctx.self_id, "management", lane=Lane.MANAGEMENT)
            ctx.loop.send(ctx.self_id, "control", lane=Lane.CONTROL)

    actor = loop.spawn(behavior)
    for number in range(4):
        loop.send(actor, f"data {number}")
    assert loop.poll_once() == 6
    assert seen == ["data 0", "data 1", "control", "management", "data 2", "data 3"]


@pytest.mark.slow
@pytest.mark.spec("S4")
@pytest.mark.guarantee("G6")
def test_a_higher_lane_that_never_runs_empty_starves_the_lower_and_the_statistics_show_it(loop: Loop) -> None:
    def again(ctx: Context[list[Lane]], data: object) -> None:
        ctx.state.append(ctx.lane)
        if ctx.lane is Lane.CONTROL:
            ctx.loop.send(ctx.self_id, data, lane=Lane.CONTROL)

    seen: list[Lane] = []
    actor = loop.spawn(again, seen)
    loop.send(actor, "starved")
    loop.send(actor, "for ever", lane=Lane.CONTROL)
    for _ in range(10):
        loop.poll_once()
    assert set(seen) == {Lane.CONTROL}
    assert loop.statistics().waiting == 2


@pytest.mark.spec("S4")
@pytest.mark.guarantee("G6", "G7")
def test_a_flood_of_data_never_holds_control_back(loop: Loop, seen: list[Seen]) -> None:
    actor = loop.spawn(record, seen)
    while loop.try_send(actor, "flood"):
        pass
    loop.send(actor, "urgent", lane=Lane.CONTROL)
    loop.poll_once()
    assert seen[0].data == "urgent"


@pytest.mark.guarantee("G15")
def test_what_ctx_says_holds_for_the_message_at_hand(loop: Loop) -> None:
    seen: list[tuple[int, Lane, object]] = []

    def act(ctx: Context[Any]) -> None:
        before = (ctx.tag, ctx.lane, ctx.sender)
        ctx.loop.send(ctx.self_id, idle, tag=9, lane=Lane.CONTROL, sender=5)
        assert (ctx.tag, ctx.lane, ctx.sender) == before
        seen.append(before)

    actor = loop.spawn(lambda ctx, data: run_message(ctx, data) if data is act else None)
    loop.send(actor, act, tag=3, lane=Lane.MANAGEMENT, sender=4)
    loop.send(actor, act, tag=6)
    settle(loop)
    assert seen == [(3, Lane.MANAGEMENT, 4), (6, Lane.DATA, 0)]
