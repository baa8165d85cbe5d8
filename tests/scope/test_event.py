"""One-shot events: set once, and every wait and callback is notified once."""

from __future__ import annotations

import gc
import logging
from datetime import timedelta
from typing import Any

import pytest

from bandstand.errors import ChannelTimeoutError, InvalidArgumentError
from bandstand.errors.validation import Seconds
from bandstand.scope.event import OneShotEvent
from bandstand.testing import VirtualClock

pytestmark = pytest.mark.spec("K5")


def waits_of(event: Any) -> Any:
    """Return its registered waits."""
    return event._waits


def test_it_is_set_once() -> None:
    event = OneShotEvent[str]("the end of the world")
    assert (event.is_set, event.value) == (False, None)
    assert event.set("fire")
    assert not event.set("ice")
    assert (event.is_set, event.value) == (True, "fire")


def test_what_a_callback_raises_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    event = OneShotEvent[int]("the end of it")
    seen: list[int] = []

    def broken(_: int) -> None:
        raise ValueError("broken")

    event.add_callback(broken)
    event.add_callback(seen.append)
    with caplog.at_level(logging.ERROR, "bandstand.scope"):
        assert event.set(1)
        event.add_callback(broken)
    assert seen == [1]
    assert [record.name for record in caplog.records] == ["bandstand.scope"] * 2
    assert "the end of it" in caplog.text


def test_system_exit_propagates_after_all_callbacks() -> None:
    event = OneShotEvent[int]("it")
    seen: list[int] = []

    def leave(_: int) -> None:
        raise SystemExit

    event.add_callback(leave)
    event.add_callback(seen.append)
    event.add_callback(seen.append)
    with pytest.raises(SystemExit):
        event.set(1)
    assert seen == [1, 1]


@pytest.mark.parametrize("timeout", [0.02, timedelta(milliseconds=20)], ids=repr)
@pytest.mark.virtual_time
async def test_a_wait_times_out_and_is_removed(bandstand_clock: VirtualClock, timeout: Seconds) -> None:
    event = OneShotEvent[int]("the end of it")
    before = bandstand_clock.now_ns()
    with pytest.raises(ChannelTimeoutError, match="the end of it did not come within 20 ms"):
        await event.wait(timeout=timeout)
    assert 20 <= (bandstand_clock.now_ns() - before) / 1e6 <= 22
    with pytest.raises(ChannelTimeoutError):
        await event.wait(timeout=0)
    assert not waits_of(event), "nothing is left behind"


@pytest.mark.slow
def test_a_wait_that_is_never_awaited_warns_unless_it_belongs_to_a_request() -> None:
    event = OneShotEvent[int]("it")
    waits = [event.wait()]
    with pytest.warns(RuntimeWarning, match="<wait for it> was never awaited: nothing waited for it"):
        waits.clear()
    _ = event.wait(is_request=True)
    del _
    gc.collect()


def test_a_wait_that_is_over_cannot_be_resumed() -> None:
    event = OneShotEvent[int]("it")
    event.set(1)
    steps = event.wait().__await__()
    with pytest.raises(StopIteration):
        next(steps)
    with pytest.raises(InvalidArgumentError, match="once"):
        next(steps)
