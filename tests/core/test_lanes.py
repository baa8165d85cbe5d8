"""The order of messages: FIFO inside a lane, strict priority between lanes, checked for every message."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop
from tests.core.support import USER_LANES, Seen, idle, record, settle


@pytest.mark.spec("J7")
@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("lane", USER_LANES)
def test_fifo_inside_a_lane_whoever_sent(loop: Loop, lane: Lane, seen: list[Seen]) -> None:
    target = loop.spawn(record, seen)

    def pass_on(ctx: Context[Any], data: object) -> None:
        ctx.loop.send(target, data, lane=lane, sender=ctx.self_id)

    senders = [loop.spawn(pass_on) for _ in range(3)]
    for number in range(150):
        loop.send(target, (0, number), lane=lane)
        for which, sender in enumerate(senders, 1):
            loop.send(sender, (which, number))
    settle(loop)
    for which in range(4):
        assert [number for who, number in (one.data for one in seen) if who == which] == list(range(150))


@pytest.mark.spec("S4")
@pytest.mark.guarantee("G6")
@pytest.mark.parametrize(
    "order", [*permutations(USER_LANES)], ids=lambda o: "-".join(lane.name for lane in o)
)
def test_lanes_are_taken_by_priority_whatever_the_order_of_sends(
    loop: Loop, order: tuple[Lane, ...], seen: list[Seen]
) -> None:
    actor = loop.spawn(record, seen)
    child = loop.spawn(idle, supervisor=actor)
    for lane in order:
        for number in range(3):
            loop.send(actor, number, lane=lane)
    loop.stop_actor(child)
    settle(loop)
    assert [message.lane for message in seen] == [
        Lane.SYSTEM,
        *(lane for lane in (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA) for _ in range(3)),
    ]
    assert [message.data for message in seen[1:]] == [0, 1, 2] * 3


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
