"""Calls on the thread of the loop, calls later, and messages with tags: what the core offers other packages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from bandstand.core import Context, Lane, Loop
from bandstand.errors import NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import (
    USER_LANES,
    Boom,
    LoopMaker,
    Seen,
    collect,
    idle,
    record,
    settle,
)

PATIENCE = 30

variable: ContextVar[str] = ContextVar("variable", default="unset")


def elsewhere(deed: Callable[[], object]) -> None:
    thread = threading.Thread(target=deed)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


# --- call_afar ------------------------------------------------------------------------------------------------------------


def test_a_call_from_another_thread_is_made_on_the_loops_own(loop: Loop) -> None:
    threads: list[int] = []
    elsewhere(lambda: loop.kernel.inbox.call_soon(lambda: threads.append(threading.get_ident())))
    assert threads == []
    settle(loop)
    assert threads == [threading.get_ident()]


def test_calls_and_messages_of_one_thread_keep_their_order(loop: Loop) -> None:
    got: list[Any] = []
    actor = loop.spawn(collect, got)
    depths: list[int] = []

    def work() -> None:
        for number in range(5):
            loop.send_async(actor, number)
            loop.kernel.inbox.call_soon(lambda: depths.append(loop.statistics().waiting))

    elsewhere(work)
    settle(loop)
    assert depths == sorted(depths)
    assert got == list(range(5))


def test_a_call_soon_that_raises_is_logged(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    made: list[int] = []

    def bad() -> None:
        raise Boom("call")

    loop.kernel.inbox.call_soon(bad)
    loop.kernel.inbox.call_soon(lambda: made.append(1))
    settle(loop)
    assert made == [1]
    assert "Boom" in caplog.text


def test_a_call_wakes_a_loop_that_sleeps(loop: Loop) -> None:
    def work() -> None:
        started.wait(PATIENCE)
        loop.kernel.inbox.call_soon(loop.request_stop)

    started = threading.Event()

    def starting(ctx: Context[None], data: object) -> None:
        started.set()

    loop.send(loop.spawn(starting), "x")
    thread = threading.Thread(target=work)
    thread.start()
    loop.run()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_after_the_end_of_the_loop_the_call_is_made_here_and_now(make_loop: LoopMaker) -> None:
    loop = make_loop()
    loop.destroy()
    made: list[int] = []
    loop.kernel.inbox.call_soon(lambda: made.append(threading.get_ident()))
    elsewhere(lambda: loop.kernel.inbox.call_soon(lambda: made.append(threading.get_ident())))
    assert len(made) == 2
    assert made[0] != made[1]


def test_calls_that_wait_when_the_loop_ends_are_made(make_loop: LoopMaker) -> None:
    loop = make_loop()
    made: list[int] = []

    def work() -> None:
        for _ in range(3):
            loop.kernel.inbox.call_soon(lambda: made.append(1))

    elsewhere(work)
    loop.destroy()
    assert made == [1, 1, 1]


# --- call_after -----------------------------------------------------------------------------------------------------------


def test_a_call_after_is_made_once_never_early_and_in_no_statistics(loop: Loop, clock: VirtualClock) -> None:
    made: list[int] = []
    loop.kernel.call_later(10, lambda: made.append(1))
    clock.advance(0.0099)
    settle(loop)
    assert made == []
    clock.advance(0.0012)
    settle(loop)
    clock.advance(0.1)
    settle(loop)
    assert made == [1]
    assert loop.statistics().timers_set == 0


def test_a_call_after_can_be_taken_back_also_twice_and_too_late(loop: Loop, clock: VirtualClock) -> None:
    made: list[str] = []
    taken = loop.kernel.call_later(10, lambda: made.append("taken back"))
    kept = loop.kernel.call_later(10, lambda: made.append("kept"))
    taken()
    taken()
    clock.advance(0.012)
    settle(loop)
    kept()
    assert made == ["kept"]


def test_a_call_later_that_raises(loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    def bad() -> None:
        raise Boom("later")

    loop.kernel.call_later(1, bad)
    clock.advance(0.003)
    settle(loop)
    assert "Boom" in caplog.text


# --- send_tagged_after ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", USER_LANES)
def test_a_message_later_with_any_object_for_a_tag(loop: Loop, clock: VirtualClock, lane: Lane) -> None:
    seen: list[Seen] = []
    actor = loop.spawn(record, seen)
    tag = object()
    loop.kernel.start_timer(actor, 3, lane.value, "data", tag)
    clock.advance(0.0029)
    settle(loop)
    assert seen == []
    clock.advance(0.0002)
    settle(loop)
    ((data, seen_tag, sender, seen_lane),) = seen
    assert (data, sender, seen_lane) == ("data", 0, lane)
    assert seen_tag is tag


def test_it_can_be_cancelled_and_goes_with_its_actor(loop: Loop, clock: VirtualClock) -> None:
    got: list[Any] = []
    actor = loop.spawn(collect, got)
    loop.cancel_timer(loop.kernel.start_timer(actor, 5, Lane.DATA.value, 1, object()))
    loop.kernel.start_timer(actor, 5, Lane.DATA.value, 2, object())
    loop.stop_actor(actor)
    clock.advance(0.01)
    settle(loop)
    assert got == []
    books = loop.statistics()
    assert (books.timers_set, books.timers_cancelled, books.timers_released) == (2, 1, 1)


def test_a_timer_needs_an_actor(loop: Loop) -> None:
    actor = loop.spawn(idle)
    loop.stop_actor(actor)
    with pytest.raises(NoSuchActorError):
        loop.kernel.start_timer(actor, 1, Lane.DATA.value, 1, object())
