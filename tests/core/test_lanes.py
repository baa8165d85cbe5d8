"""The order of messages: FIFO inside a lane, strict priority between lanes, checked for every message."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop


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
