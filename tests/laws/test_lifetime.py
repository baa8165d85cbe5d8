"""A loop that has ended: no callback runs, and every call but `destroy` raises."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import Loop
from bandstand.errors import InvalidTimerError, LoopClosedError
from bandstand.testing import VirtualClock
from tests.core.support import RecordingObserver, check_statistics, collect, idle


@pytest.mark.slow
@pytest.mark.spec("J24", "J1")
@pytest.mark.guarantee("G26")
@given(
    actors=st.integers(0, 5),
    sends=st.integers(0, 20),
    timers=st.integers(0, 5),
    how=st.sampled_from(["destroy", "request_stop", "both"]),
)
def test_a_loop_that_has_ended_does_nothing(actors: int, sends: int, timers: int, how: str) -> None:
    calls: list[Any] = []
    loop = Loop(clock=VirtualClock())
    diary = RecordingObserver()
    loop.set_observer(diary)
    ids = [loop.spawn(collect, calls) for _ in range(actors)]
    for number in range(sends if ids else 0):
        loop.send(ids[number % actors], number)
    handles = [loop.send_after(ids[number % actors], 0, number) for number in range(timers if ids else 0)]
    if how != "destroy":
        loop.request_stop()
    if how != "request_stop":
        loop.destroy()
        before = list(diary.entries)
        assert len(diary.stopped) == actors
    else:
        before = []
    target = ids[0] if ids else 1
    for call in (
        loop.run,
        lambda: loop.run(until_idle=True),
        loop.poll_once,
        lambda: loop.spawn(idle),
        lambda: loop.send(target, "x"),
        lambda: loop.send_after(target, 0, "x"),
        lambda: loop.stop_actor(target),
        lambda: loop.fail_actor(target),
    ):
        with pytest.raises(LoopClosedError):
            call()
    assert not loop.try_send(target, "x")
    for timer in handles:
        with suppress(InvalidTimerError):
            loop.cancel_timer(timer)
    assert calls == []
    if how != "request_stop":
        assert diary.entries == before
    loop.destroy()
    loop.destroy()
    assert len(diary.stopped) == actors
    assert calls == []
    check_statistics(loop)
