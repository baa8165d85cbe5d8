"""Tokens with a deadline: never early, visible even while the loop is blocked, timers only for listeners."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import InvalidArgumentError, LoopClosedError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.scope.deadline import DelayedCall
from bandstand.testing import VirtualClock
from tests.core.support import LoopMaker
from tests.scope.support import (
    CountingListener,
    has_timers,
    in_thread,
    is_cancelled,
    iterate,
    listener_count,
    sleep_virtual,
)

pytestmark = pytest.mark.spec("K4")


# -- when it passes ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
async def test_it_cancels_on_time_and_never_earlier(clock: VirtualClock) -> None:
    start = clock.now_ns()
    token = CancelToken(timeout=0.05)
    assert await token.child().wait() == "its deadline of 50 ms has passed"
    assert clock.now_ns() - start == 50_000_000
    assert isinstance(token.cause, TimeoutError)
    assert token.origin == token.number
    assert not token.cancel("too late")


@pytest.mark.guarantee("G103")
def test_float_rounding_does_not_make_it_late(loop: Loop, clock: VirtualClock) -> None:
    """It passes at the first full millisecond that is not too early, although clocks return floats."""
    epoch = clock.now_ns()
    for _ in range(300):
        clock.advance(0.000370001)
        token, listener = CancelToken(timeout=0.05, loop=loop), CountingListener()
        token.add_listener(listener)
        passed = clock.now_ns() - epoch
        left = (50 - -passed // 1_000_000) * 1_000_000 - passed
        clock.advance((left - 1) / 1e9)
        loop.poll_once()
        assert listener.calls == 0
        clock.advance(1 / 1e9)
        loop.poll_once()
        assert listener.calls == 1


@pytest.mark.guarantee("G103")
async def test_a_wait_with_a_token_ends_at_its_deadline(clock: VirtualClock) -> None:
    start = clock.now_ns()
    root = CancelToken(timeout=0.08)
    child = root.child(timeout=0.03)
    with pytest.raises(TokenCancelledError, match="its deadline of 30 ms has passed") as caught:
        await Channel[int]().receive(token=child)
    assert clock.now_ns() - start == 30_000_000
    assert caught.value.token == child.number
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert not root.cancelled
    with pytest.raises(TokenCancelledError) as caught:
        await Channel[int]().receive(token=root.child(timeout=0.5))
    assert clock.now_ns() - start == 80_000_000
    assert caught.value.token == root.number


@pytest.mark.guarantee("G103")
async def test_cpu_bound_code_sees_it_while_the_loop_is_blocked(clock: VirtualClock) -> None:
    """The timer wheel does not run, so the clock is read. Listeners are notified when the wheel runs again."""
    root = CancelToken(timeout=0.05)
    child, listener = root.child(), CountingListener()
    child.add_listener(listener)
    clock.advance(0.049)
    assert not is_cancelled(child)
    clock.advance(0.001)
    assert is_cancelled(child)
    assert child.reason == "its deadline of 50 ms has passed"
    with pytest.raises(TokenCancelledError):
        child.raise_if_cancelled()
    assert listener.calls == 0, "reading notifies no listener"
    await sleep_virtual(1)
    assert listener.calls == 1


@pytest.mark.guarantee("G103")
@pytest.mark.real_time(reason="an event loop that keeps real time, and calls before its time")
def test_a_timer_of_the_event_loop_that_is_early_is_set_again() -> None:
    """uvloop counts whole milliseconds from the one in which a timer was set, so its timers are early by less than that."""

    class EarlyEventLoop(asyncio.SelectorEventLoop):
        def call_later(self, delay: float, *args: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]  # passes everything on
            return super().call_later(delay / 2, *args, **options)

    async def main() -> None:
        start = time.monotonic()
        await CancelToken(timeout=0.02).wait()
        assert time.monotonic() - start >= 0.02

    with asyncio.Runner(loop_factory=EarlyEventLoop) as runner:
        runner.run(main())


@pytest.mark.guarantee("G103")
async def test_a_parents_cancellation_has_priority_over_an_unnoticed_own_deadline(
    clock: VirtualClock,
) -> None:
    root = CancelToken()
    unseen, seen, called = root.child(timeout=0.01), root.child(timeout=0.01), root.child(timeout=0.01)
    called.on_cancel(lambda _: None)
    clock.advance(0.02)
    assert seen.reason == "its deadline of 10 ms has passed"
    await sleep_virtual(1)
    root.cancel("all")
    assert unseen.reason == "all"
    assert seen.reason == called.reason == "its deadline of 10 ms has passed"


@pytest.mark.guarantee("G100")
def test_a_token_that_is_cancelled_during_a_walk_to_the_root_keeps_its_reason(
    loop: Loop, clock: VirtualClock
) -> None:
    """Cancelled after the walk has passed it, and before the walk sees that the root's deadline has passed."""
    root = CancelToken(timeout=0.05, loop=loop)
    middle = root.child()
    leaf = middle.child()
    deadline = root.deadline  # pyright: ignore[reportPrivateUsage]  # there is no other way to that moment
    assert deadline is not None
    read = deadline._now  # pyright: ignore[reportPrivateUsage]  # likewise

    def meddle() -> float:
        deadline._now = read  # pyright: ignore[reportPrivateUsage]  # likewise
        assert middle.cancel("first")
        clock.advance(0.05)
        return read()

    deadline._now = meddle  # pyright: ignore[reportPrivateUsage]  # likewise
    assert leaf.reason == "first"
    assert middle.reason == "first"
    assert root.reason == "its deadline of 50 ms has passed"


# -- which clock and timer ---------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
@pytest.mark.no_loop
async def test_without_a_loop_the_event_loop_keeps_the_timer(clock: VirtualClock) -> None:
    start = clock.now_ns()
    token = CancelToken(timeout=0.05)
    clock.advance(0.01)
    assert not token.cancelled
    assert await token.wait() == "its deadline of 50 ms has passed"
    assert clock.now_ns() - start == 50_000_000
    clock.advance(0.005)
    early = CancelToken(timeout=0.005)
    clock.advance(0.005)
    assert early.cancelled


@pytest.mark.guarantee("G103")
def test_without_an_event_loop_a_loop_must_be_given(loop: Loop, clock: VirtualClock) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no clock here: pass loop="):
        CancelToken(timeout=0.05)
    with pytest.raises(InvalidArgumentError, match="there is no clock here"):
        CancelToken().child(timeout=0.05)
    token = CancelToken(timeout=0.05, loop=loop)
    listener = CountingListener()
    token.child().add_listener(listener)
    clock.advance(0.049)
    loop.poll_once()
    assert listener.calls == 0
    clock.advance(0.001)
    loop.poll_once()
    assert listener.calls == 1
    child = CancelToken(loop=loop).child().child(timeout=0.005)
    clock.advance(0.005)
    assert child.cancelled, "children use the loop of the parent"


@pytest.mark.guarantee("G103")
def test_a_closed_loop_is_refused(loop: Loop) -> None:
    loop.destroy()
    with pytest.raises(LoopClosedError, match="the loop that would keep the deadline is closed"):
        CancelToken(timeout=0.05, loop=loop)
    CancelToken(loop=loop)


# -- when the loop ends ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_heard_before", [True, False])
@pytest.mark.no_loop
async def test_if_its_loop_ends_the_event_loop_takes_over(
    clock: VirtualClock, *, is_heard_before: bool
) -> None:
    start = clock.now_ns()
    listener = CountingListener()
    async with Loop(clock=clock):
        token = CancelToken(timeout=0.05)
        if is_heard_before:
            token.add_listener(listener)
        await asyncio.sleep(0.02)
    assert not token.cancelled
    if not is_heard_before:
        token.add_listener(listener)
    assert await token.wait() == "its deadline of 50 ms has passed"
    assert listener.calls == 1
    assert clock.now_ns() - start == 50_000_000


@pytest.mark.guarantee("G103")
def test_if_no_event_loop_is_left_the_token_is_cancelled_at_once(make_loop: LoopMaker) -> None:
    loop = make_loop()
    token, listener = CancelToken(timeout=0.05, loop=loop), CountingListener()
    unheard = CancelToken(timeout=0.05, loop=loop)
    token.child().add_listener(listener)
    loop.destroy()
    assert listener.calls == 1
    assert token.reason == "the loop that kept its deadline has ended"
    assert not unheard.cancelled, "it has no listeners"
    unheard.add_listener(listener)
    assert listener.calls == 2
    assert unheard.reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
def test_a_listener_that_raises_does_not_prevent_the_loop_from_ending(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    token = CancelToken(timeout=0.05, loop=loop)
    second = CancelToken(timeout=0.05, loop=loop)
    called: list[str] = []

    def interrupted(_: CancelToken) -> None:
        raise KeyboardInterrupt

    token.on_cancel(interrupted)
    take_back = second.on_cancel(lambda _: called.append("second"))
    token.on_cancel(lambda _: take_back())
    loop.destroy()
    assert "raised while the loop that kept a deadline ended" in caplog.text
    assert called in ([], ["second"])
    assert listener_count(second) == 0


# -- while the event loop pauses ---------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_attached", [True, False])
def test_a_listener_added_between_two_runs_of_the_event_loop_is_notified_in_time(
    clock: VirtualClock, *, is_attached: bool
) -> None:
    start = clock.now_ns()
    loop, listener, gone = Loop(clock=clock), CountingListener(), CountingListener()

    async def make() -> CancelToken:
        if is_attached:
            await loop.__aenter__()
        return CancelToken(timeout=0.05)

    async def go_on() -> None:
        await asyncio.sleep(0.049)
        assert (listener.calls, is_cancelled(token)) == (0, False)
        await asyncio.sleep(0.001)
        await iterate()
        assert (listener.calls, gone.calls, clock.now_ns() - start) == (1, 0, 50_000_000)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        token = runner.run(make())
        token.add_listener(listener)
        token.add_listener(gone)
        token.remove_listener(gone)
        assert (listener.calls, is_cancelled(token)) == (0, False)
        runner.run(go_on())
        loop.destroy()
    assert token.reason == "its deadline of 50 ms has passed"


@pytest.mark.guarantee("G103")
def test_a_wait_whose_event_loop_is_closed_before_its_loop_is_harmless(clock: VirtualClock) -> None:
    loop, host = Loop(clock=clock), clock.new_event_loop()
    alarm, listener = CountingListener(), CountingListener()

    async def begin() -> CancelToken:
        await loop.__aenter__()
        DelayedCall(50, alarm.on_cancelled)
        token = CancelToken(timeout=0.05)
        token.add_listener(listener)
        return token

    token = host.run_until_complete(begin())
    host.close()
    loop.destroy()
    assert (alarm.calls, listener.calls) == (0, 1)
    assert token.reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("drives", ["run", "poll_once"])
def test_an_event_loop_that_ends_with_its_loop_keeps_no_timer(make_loop: LoopMaker, drives: str) -> None:
    """The loop owns it: it stops when the loop ends, and never runs again."""
    loop = make_loop()
    tokens: list[CancelToken] = []
    listener = CountingListener()

    async def behavior(ctx: Context[None], data: object) -> None:
        tokens.append(CancelToken(timeout=5.0))
        tokens[0].add_listener(listener)
        await asyncio.sleep(0)
        if drives == "run":
            ctx.loop.request_stop()

    loop.send(loop.spawn(behavior), "go")
    if drives == "run":
        loop.run()
    else:
        loop.poll_once()
        loop.poll_once()
        assert listener.calls == 0
    loop.destroy()
    assert listener.calls == 1
    assert tokens[0].reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G102")
@pytest.mark.no_loop
async def test_there_is_a_timer_exactly_while_there_are_listeners(clock: VirtualClock) -> None:
    async with Loop(clock=clock) as loop:
        token = CancelToken(timeout=5.0)
        leaf, one, two = token.child().child(), CountingListener(), CountingListener()
        assert not has_timers(loop)
        leaf.add_listener(one)
        leaf.add_listener(two)
        assert has_timers(loop)
        leaf.remove_listener(one)
        assert has_timers(loop)
        leaf.remove_listener(two)
        assert not has_timers(loop)
        leaf.add_listener(one)
        assert has_timers(loop)
        token.cancel()
        assert not has_timers(loop)


@pytest.mark.guarantee("G102")
@pytest.mark.parametrize("meddler", ["comes", "goes", "cancels"])
def test_a_finalizer_that_runs_while_the_timer_is_set_leaves_at_most_one_timer(
    loop: Loop, meddler: str
) -> None:
    token, first, second = CancelToken(timeout=0.05, loop=loop), CountingListener(), CountingListener()
    deadline = token.deadline  # pyright: ignore[reportPrivateUsage]  # there is no other way to that moment
    assert deadline is not None
    read = deadline._now  # pyright: ignore[reportPrivateUsage]  # likewise

    def meddle() -> float:
        if deadline._is_updating:  # pyright: ignore[reportPrivateUsage]  # likewise
            deadline._now = read  # pyright: ignore[reportPrivateUsage]  # likewise
            if meddler == "comes":
                token.add_listener(second)
            elif meddler == "goes":
                token.remove_listener(first)
            else:
                token.cancel()
        return read()

    deadline._now = meddle  # pyright: ignore[reportPrivateUsage]  # likewise
    token.add_listener(first)
    assert deadline._now is read, "the finalizer did not run"  # pyright: ignore[reportPrivateUsage]  # likewise
    assert has_timers(loop) == (meddler == "comes")
    token.remove_listener(first)
    token.remove_listener(second)
    assert not has_timers(loop)
    assert first.calls == (meddler == "cancels")


# -- from other threads ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
def test_a_listener_of_another_thread_sets_the_timer_on_the_loops_thread(
    loop: Loop, clock: VirtualClock
) -> None:
    threads: list[str] = []
    token = CancelToken(timeout=0.05, loop=loop)
    take_back: list[Callable[[], bool]] = []

    def listen() -> None:
        take_back.append(token.on_cancel(lambda _: threads.append(threading.current_thread().name)))
        take_back.append(token.on_cancel(lambda _: threads.append("second")))

    in_thread(listen)
    assert not has_timers(loop)
    loop.poll_once()
    assert has_timers(loop)
    in_thread(take_back[0])
    in_thread(take_back[1])
    assert has_timers(loop)
    loop.poll_once()
    assert not has_timers(loop)
    assert threads == []
    in_thread(listen)
    loop.poll_once()
    clock.advance(0.05)
    loop.poll_once()
    assert threads == [threading.current_thread().name, "second"]


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_attached", [True, False])
def test_a_thread_that_waits_is_woken_by_a_deadline_of_the_event_loop(
    clock: VirtualClock, *, is_attached: bool
) -> None:
    async def main() -> None:
        token = CancelToken(timeout=0.005)
        reason = await asyncio.to_thread(token.child().wait().blocking)
        assert reason == "its deadline of 5 ms has passed"
        assert listener_count(token) == 0

    async def attached() -> None:
        async with Loop(LoopConfig()):
            await main()

    del clock
    asyncio.run(attached() if is_attached else main())
