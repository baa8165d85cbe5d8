"""Calls on the thread of the loop, calls later, and messages with tags: what the core offers other packages."""

from __future__ import annotations

import threading

import pytest

from bandstand.core import Lane, Loop
from bandstand.errors import NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import Boom, LoopMaker, idle, in_thread, settle

# --- call_afar ------------------------------------------------------------------------------------------------------------


def test_a_call_from_another_thread_is_made_on_the_loops_own(make_loop: LoopMaker) -> None:
    loop = make_loop()
    threads: list[int] = []

    def call() -> None:
        loop.kernel.inbox.call_soon(lambda: threads.append(threading.get_ident()))

    in_thread(call)
    assert threads == []
    settle(loop)
    assert threads == [threading.get_ident()]
    in_thread(call)
    loop.destroy()
    assert threads == [threading.get_ident()] * 2, "what waits when the loop ends is called"
    call()
    in_thread(call)
    assert threads[2] != threads[3], "after the end of the loop the call is made here and now"


@pytest.mark.parametrize("when", ["soon", "later"])
def test_a_call_that_raises_is_logged(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    made: list[int] = []

    def bad() -> None:
        raise Boom("call")

    for call in (bad, lambda: made.append(1)):
        if when == "soon":
            loop.kernel.inbox.call_soon(call)
        else:
            loop.kernel.call_later(1, call)
    clock.advance(0.003)
    settle(loop)
    assert made == [1]
    assert "Boom" in caplog.text


def test_a_call_after_is_made_once_never_early_and_in_no_statistics(loop: Loop, clock: VirtualClock) -> None:
    made: list[int] = []
    kept = loop.kernel.call_later(10, lambda: made.append(1))
    taken = loop.kernel.call_later(10, lambda: made.append(2))
    taken()
    taken()
    clock.advance(0.0099)
    settle(loop)
    assert made == []
    clock.advance(0.0012)
    settle(loop)
    clock.advance(0.1)
    settle(loop)
    assert made == [1]
    kept()
    assert loop.statistics().timers_set == 0


# --- send_tagged_after ----------------------------------------------------------------------------------------------------


def test_a_timer_needs_an_actor(loop: Loop) -> None:
    actor = loop.spawn(idle)
    loop.stop_actor(actor)
    with pytest.raises(NoSuchActorError):
        loop.kernel.start_timer(actor, 1, Lane.DATA.value, 1, object())
