"""Overflow policies: what a full lane drops, and that it is counted and reported."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.core import Loop, Overflow
from bandstand.errors import InvalidArgumentError
from bandstand.testing import VirtualClock
from tests.core.support import RecordingObserver, Seen, idle, record, settle

# Six numbered messages into a lane of three: what arrives, and what was given up in which order.
OUTCOMES = {
    Overflow.DROP_NEWEST: ([0, 1, 2], [3, 4, 5]),
    Overflow.DROP_OLDEST: ([3, 4, 5], [0, 1, 2]),
    Overflow.CONFLATE: ([0, 1, 5], [2, 3, 4]),
}
DROPPING = tuple(OUTCOMES)


@pytest.mark.spec("J13")
@pytest.mark.guarantee("G9", "G20")
@pytest.mark.parametrize("policy", [*DROPPING, Overflow.REJECT])
def test_a_due_timer_drops_nothing(
    loop: Loop, clock: VirtualClock, diary: RecordingObserver, policy: Overflow, seen: list[Seen]
) -> None:
    # Two user slots; the actor before it in the queue keeps the tick from reaching it before the timer is due.
    actor = loop.spawn(record, seen, mailbox_cap=6, overflow=policy)
    for number in range(3):
        loop.send_after(actor, 0.005, f"timer {number}")
    loop.send(actor, "first")
    loop.send(actor, "second")
    clock.advance(0.005)
    loop.poll_once()
    settle(loop)
    assert [message.data for message in seen] == ["first", "second", "timer 0", "timer 1", "timer 2"]
    assert diary.dropped == []
    assert diary.full == []


@pytest.mark.parametrize("policy", ["drop_oldest", None, 1, True], ids=repr)
def test_what_is_no_policy_is_an_invalid_argument(loop: Loop, policy: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="overflow"):
        loop.spawn(idle, overflow=policy)
