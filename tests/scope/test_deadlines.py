"""Tokens with a deadline: never early, seen even where nothing moves, and kept only while somebody listens."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import Cancelled, ChannelTimeout, InvalidArgument, LoopClosed
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.scope.deadline import DelayedCall
from bandstand.testing import VirtualClock
from tests.core.stage import LoopMaker
from tests.scope.tokens import Ear, has_timers, heard, is_over, outcome, pause, perform, turns, waiting

pytestmark = pytest.mark.spec("K4")


# -- coming ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
def test_it_cancels_when_it_has_come_and_never_earlier(clock: VirtualClock) -> None:
    async def main() -> None:
        start = clock.now_ns()
        token = CancelToken(timeout_ms=50)
        assert await token.child().wait() == "its deadline of 50 ms has passed"
        assert clock.now_ns() - start == 50_000_000
        assert isinstance(token.cause, TimeoutError)
        assert token.origin == token.number
        assert not token.cancel("too late")

    perform(main, clock)


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("off_ns", [0, 1, 300_000, 999_999])
@pytest.mark.parametrize("ms", [0.5, 1, 7.25, 64, 4096])
def test_fractions_round_up(clock: VirtualClock, ms: float, off_ns: int) -> None:
    async def main() -> None:
        clock.advance(off_ns / 1e6)
        start = clock.now_ns()
        token = CancelToken(timeout_ms=ms)
        await token.wait()
        passed = (clock.now_ns() - start) / 1e6
        assert ms <= passed < ms + 2

    perform(main, clock)


@pytest.mark.guarantee("G103")
def test_it_is_not_a_hair_late_either(loop: Loop, clock: VirtualClock) -> None:
    """At the first full millisecond that is not too early, though clocks are read as floats."""
    epoch = clock.now_ns()
    for _ in range(300):
        clock.advance(0.370001)
        token, ear = CancelToken(timeout_ms=50, loop=loop), Ear()
        token.add_listener(ear)
        passed = clock.now_ns() - epoch
        left = (50 - -passed // 1_000_000) * 1_000_000 - passed
        clock.advance((left - 1) / 1e6)
        loop.poll_once()
        assert ear.told == 0
        clock.advance(1 / 1e6)
        loop.poll_once()
        assert ear.told == 1


@pytest.mark.guarantee("G103")
def test_zero_is_at_once() -> None:
    async def main() -> None:
        token = CancelToken(timeout_ms=0)
        assert token.cancelled
        with pytest.raises(Cancelled):
            await Channel[int]().receive(token=token)

    perform(main)


@pytest.mark.guarantee("G103")
def test_a_wait_with_a_token_ends_at_its_deadline(clock: VirtualClock) -> None:
    async def main() -> None:
        start = clock.now_ns()
        root = CancelToken(timeout_ms=80)
        child = root.child(timeout_ms=30)
        with pytest.raises(Cancelled, match="its deadline of 30 ms has passed") as caught:
            await Channel[int]().receive(token=child)
        assert clock.now_ns() - start == 30_000_000
        assert caught.value.token == child.number
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert not root.cancelled
        with pytest.raises(Cancelled) as caught:
            await Channel[int]().receive(token=root.child(timeout_ms=500))
        assert clock.now_ns() - start == 80_000_000
        assert caught.value.token == root.number

    perform(main, clock)


@pytest.mark.guarantee("G103")
def test_a_deadline_counts_from_when_the_token_was_made(clock: VirtualClock) -> None:
    async def main() -> None:
        start = clock.now_ns()
        token = CancelToken(timeout_ms=50)
        await pause(30)
        await token.wait()
        assert clock.now_ns() - start == 50_000_000
        late = CancelToken(timeout_ms=10)
        await pause(30)
        ear = Ear()
        late.add_listener(ear)
        assert ear.told == 1

    perform(main, clock)


@pytest.mark.guarantee("G103")
def test_a_busy_function_sees_it_while_the_loop_is_blocked(clock: VirtualClock) -> None:
    """Nothing turns the wheel: the clock itself is looked at. Those who listen are told when the wheel turns."""

    async def main() -> None:
        root = CancelToken(timeout_ms=50)
        child, ear = root.child(), Ear()
        child.add_listener(ear)
        clock.advance(49)
        assert not is_over(child)
        clock.advance(1)
        assert is_over(child)
        assert child.reason == "its deadline of 50 ms has passed"
        with pytest.raises(Cancelled):
            child.raise_if_cancelled()
        assert ear.told == 0, "reading calls nobody"
        await pause(1)
        assert ear.told == 1

    perform(main, clock)


@pytest.mark.guarantee("G103")
@pytest.mark.slow
@pytest.mark.real_time(reason="event loops that keep real time, really blocked")
def test_it_is_seen_and_never_early_while_an_event_loop_without_a_loop_is_blocked(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        for _ in range(40):
            start = time.monotonic()
            token = CancelToken(timeout_ms=2)
            while not is_over(token):
                assert time.monotonic() < start + 30
            assert time.monotonic() - start > 0.001_999
        for _ in range(5):
            start = time.monotonic()
            await CancelToken(timeout_ms=2).wait()
            assert time.monotonic() - start > 0.001_999

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@pytest.mark.guarantee("G103")
def test_what_comes_from_above_goes_before_an_own_deadline_that_nobody_saw(clock: VirtualClock) -> None:
    async def main() -> None:
        root = CancelToken()
        unseen, seen, told = root.child(timeout_ms=10), root.child(timeout_ms=10), root.child(timeout_ms=10)
        told.on_cancel(lambda _: None)
        clock.advance(20)
        assert seen.reason == "its deadline of 10 ms has passed"
        await pause(1)
        root.cancel("all")
        assert unseen.reason == "all"
        assert seen.reason == told.reason == "its deadline of 10 ms has passed"

    perform(main, clock)


@pytest.mark.guarantee("G100")
def test_one_that_is_cancelled_while_another_looks_up_the_tree_keeps_its_reason(
    loop: Loop, clock: VirtualClock
) -> None:
    """Between a look at the middle one, which was open, and a look at the root's deadline, which has passed."""
    root = CancelToken(timeout_ms=50, loop=loop)
    middle = root.child()
    leaf = middle.child()
    deadline = root.deadline  # pyright: ignore[reportPrivateUsage]  # there is no other way to that moment
    assert deadline is not None
    read = deadline._now  # pyright: ignore[reportPrivateUsage]  # likewise

    def meddle() -> float:
        deadline._now = read  # pyright: ignore[reportPrivateUsage]  # likewise
        assert middle.cancel("first")
        clock.advance(50)
        return read()

    deadline._now = meddle  # pyright: ignore[reportPrivateUsage]  # likewise
    assert leaf.reason == "first"
    assert middle.reason == "first"
    assert root.reason == "its deadline of 50 ms has passed"


# -- who keeps it ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
def test_without_a_loop_the_event_loop_keeps_it(clock: VirtualClock) -> None:
    async def main() -> None:
        start = clock.now_ns()
        token = CancelToken(timeout_ms=50)
        clock.advance(10)
        assert not token.cancelled
        assert await token.wait() == "its deadline of 50 ms has passed"
        assert clock.now_ns() - start == 50_000_000
        clock.advance(5)
        early = CancelToken(timeout_ms=5)
        clock.advance(5)
        assert early.cancelled

    clock.run(main())


@pytest.mark.guarantee("G103")
def test_where_there_is_neither_a_loop_must_be_given(loop: Loop, clock: VirtualClock) -> None:
    with pytest.raises(InvalidArgument, match="there is no clock here: pass loop="):
        CancelToken(timeout_ms=50)
    with pytest.raises(InvalidArgument, match="there is no clock here"):
        CancelToken().child(timeout_ms=50)
    token = CancelToken(timeout_ms=50, loop=loop)
    ear = Ear()
    token.child().add_listener(ear)
    clock.advance(49)
    loop.poll_once()
    assert ear.told == 0
    clock.advance(1)
    loop.poll_once()
    assert ear.told == 1
    child = CancelToken(loop=loop).child().child(timeout_ms=5)
    clock.advance(5)
    assert child.cancelled, "children go by the loop that one above was given"


@pytest.mark.guarantee("G103")
def test_a_closed_loop_is_refused(loop: Loop) -> None:
    loop.destroy()
    with pytest.raises(LoopClosed, match="the loop that would keep the deadline is closed"):
        CancelToken(timeout_ms=50, loop=loop)
    CancelToken(loop=loop)


@pytest.mark.guarantee("G103")
def test_a_token_of_an_actor_goes_by_its_loop(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(loop_factory=clock.new_event_loop)
    seen: list[object] = []

    async def behavior(ctx: Context[None], data: object) -> None:
        token = CancelToken(timeout_ms=70)
        seen.append(await token.wait())
        seen.append(clock.now_ns() - start)
        ctx.loop.request_stop()

    start = clock.now_ns()
    loop.send(loop.spawn(behavior), "go")
    loop.run()
    assert seen[0] == "its deadline of 70 ms has passed"
    assert isinstance(seen[1], int)
    assert 70_000_000 <= seen[1] < 72_000_000


# -- when the keeper ends ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_heard_before", [True, False])
def test_if_its_loop_ends_the_event_loop_goes_on(clock: VirtualClock, *, is_heard_before: bool) -> None:
    async def main() -> None:
        start = clock.now_ns()
        ear = Ear()
        async with Loop(clock=clock):
            token = CancelToken(timeout_ms=50)
            if is_heard_before:
                token.add_listener(ear)
            await asyncio.sleep(0.02)
        assert not token.cancelled
        if not is_heard_before:
            token.add_listener(ear)
        assert await token.wait() == "its deadline of 50 ms has passed"
        assert ear.told == 1
        assert clock.now_ns() - start == 50_000_000

    clock.run(main())


@pytest.mark.guarantee("G103")
def test_a_listener_that_leaves_after_the_end_of_the_loop_leaves_no_timer(clock: VirtualClock) -> None:
    async def main() -> None:
        ear = Ear()
        async with Loop(clock=clock):
            token = CancelToken(timeout_ms=50)
            token.add_listener(ear)
        token.remove_listener(ear)
        deadline = token.deadline  # pyright: ignore[reportPrivateUsage]  # what it holds is what this is about
        assert deadline is not None
        assert deadline._cancel is None  # pyright: ignore[reportPrivateUsage]  # likewise
        token.add_listener(ear)
        await asyncio.sleep(0.06)
        assert ear.told == 1

    clock.run(main())


@pytest.mark.guarantee("G103")
def test_if_nobody_is_left_to_keep_it_the_token_is_cancelled_at_once(make_loop: LoopMaker) -> None:
    loop = make_loop()
    token, ear = CancelToken(timeout_ms=50, loop=loop), Ear()
    unheard = CancelToken(timeout_ms=50, loop=loop)
    token.child().add_listener(ear)
    loop.destroy()
    assert ear.told == 1
    assert token.reason == "the loop that kept its deadline has ended"
    assert not unheard.cancelled, "nobody has asked for it to be kept"
    unheard.add_listener(ear)
    assert ear.told == 2
    assert unheard.reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
def test_what_listens_may_raise_and_the_loop_ends_all_the_same(
    make_loop: LoopMaker, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    token = CancelToken(timeout_ms=50, loop=loop)
    second = CancelToken(timeout_ms=50, loop=loop)
    told: list[str] = []

    def interrupted(_: CancelToken) -> None:
        raise KeyboardInterrupt

    token.on_cancel(interrupted)
    take_back = second.on_cancel(lambda _: told.append("second"))
    token.on_cancel(lambda _: take_back())
    loop.destroy()
    assert "raised while the loop that kept a deadline ended" in caplog.text
    assert told in ([], ["second"])
    assert heard(second) == 0


@pytest.mark.guarantee("G103")
def test_a_loop_that_was_asked_to_stop_takes_no_new_timers(clock: VirtualClock) -> None:
    async def main() -> None:
        async with Loop(clock=clock) as loop:
            token, first, second = CancelToken(timeout_ms=50), Ear(), Ear()
            token.add_listener(first)
            loop.request_stop()
            token.remove_listener(first)
            token.add_listener(second)
            await asyncio.sleep(0.06)
            assert (first.told, second.told) == (0, 1)

    clock.run(main())


# -- while the event loop pauses ---------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_ridden", [True, False])
def test_a_listener_that_comes_between_two_runs_of_the_event_loop_is_told_in_time(
    clock: VirtualClock, *, is_ridden: bool
) -> None:
    start = clock.now_ns()
    loop, ear, gone = Loop(clock=clock), Ear(), Ear()

    async def make() -> CancelToken:
        if is_ridden:
            await loop.__aenter__()
        return CancelToken(timeout_ms=50)

    async def go_on() -> None:
        await asyncio.sleep(0.049)
        assert (ear.told, is_over(token)) == (0, False)
        await asyncio.sleep(0.001)
        await turns()
        assert (ear.told, gone.told, clock.now_ns() - start) == (1, 0, 50_000_000)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        token = runner.run(make())
        token.add_listener(ear)
        token.add_listener(gone)
        token.remove_listener(gone)
        assert (ear.told, is_over(token)) == (0, False)
        runner.run(go_on())
        loop.destroy()
    assert token.reason == "its deadline of 50 ms has passed"


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("does_pass", [True, False])
def test_a_listener_of_another_thread_may_come_between_two_runs_as_well(
    clock: VirtualClock, *, does_pass: bool
) -> None:
    async def make() -> CancelToken:
        return CancelToken(timeout_ms=50)

    async def rest(ms: float) -> None:
        await asyncio.sleep(ms / 1000)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        token, ear = runner.run(make()), Ear()
        thread = threading.Thread(target=token.add_listener, args=(ear,))
        thread.start()
        thread.join()
        runner.run(rest(51 if does_pass else 49))
        assert ear.told == does_pass


@pytest.mark.guarantee("G103")
def test_if_its_loop_ends_meanwhile_the_event_loop_goes_on_when_it_runs_again(clock: VirtualClock) -> None:
    start = clock.now_ns()
    loop, ear = Loop(clock=clock), Ear()

    async def make() -> CancelToken:
        await loop.__aenter__()
        token = CancelToken(timeout_ms=50)
        token.add_listener(ear)
        return token

    async def go_on() -> None:
        assert await token.wait() == "its deadline of 50 ms has passed"
        assert (ear.told, clock.now_ns() - start) == (1, 50_000_000)

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        token = runner.run(make())
        loop.destroy()
        assert (ear.told, is_over(token)) == (0, False)
        runner.run(go_on())


@pytest.mark.guarantee("G103")
def test_a_wait_whose_loop_ends_meanwhile_ends_in_time_all_the_same(clock: VirtualClock) -> None:
    """Its own timeout, without a token."""
    start = clock.now_ns()
    loop = Loop(clock=clock)

    async def begin() -> asyncio.Task[int]:
        await loop.__aenter__()
        return await waiting(Channel[int]().receive(timeout_ms=50))

    async def go_on() -> None:
        await asyncio.sleep(0.1)
        assert task.done()
        assert await outcome(task) is ChannelTimeout

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        task = runner.run(begin())
        loop.destroy()
        ended: list[int] = []
        task.add_done_callback(lambda _: ended.append(clock.now_ns() - start))
        runner.run(go_on())
    assert ended == [50_000_000]


@pytest.mark.guarantee("G103")
def test_a_wait_whose_event_loop_is_closed_before_its_loop_ends_harms_nobody(clock: VirtualClock) -> None:
    loop, host = Loop(clock=clock), clock.new_event_loop()
    alarm, ear = Ear(), Ear()

    async def begin() -> CancelToken:
        await loop.__aenter__()
        DelayedCall(50, alarm.on_cancelled)
        token = CancelToken(timeout_ms=50)
        token.add_listener(ear)
        return token

    token = host.run_until_complete(begin())
    host.close()
    loop.destroy()
    assert (alarm.told, ear.told) == (0, 1)
    assert token.reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("drives", ["run", "poll_once"])
def test_an_event_loop_that_ends_with_its_loop_keeps_nothing(make_loop: LoopMaker, drives: str) -> None:
    """It is the loop's own: it only pauses when the loop ends, and never runs again."""
    loop = make_loop()
    tokens: list[CancelToken] = []
    ear = Ear()

    async def behavior(ctx: Context[None], data: object) -> None:
        tokens.append(CancelToken(timeout_ms=5000))
        tokens[0].add_listener(ear)
        await asyncio.sleep(0)
        if drives == "run":
            ctx.loop.request_stop()

    loop.send(loop.spawn(behavior), "go")
    if drives == "run":
        loop.run()
    else:
        loop.poll_once()
        loop.poll_once()
        assert ear.told == 0
    loop.destroy()
    assert ear.told == 1
    assert tokens[0].reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
def test_a_timer_of_an_event_loop_that_was_closed_is_not_relied_on(clock: VirtualClock) -> None:
    async def make() -> CancelToken:
        token = CancelToken(timeout_ms=50)
        token.add_listener(first)
        return token

    first, second = Ear(), Ear()
    token = clock.run(make())
    assert not is_over(token)
    token.add_listener(second)
    assert (first.told, second.told) == (1, 1)
    assert token.reason == "the loop that kept its deadline has ended"


# -- leaving nothing behind --------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G102")
def test_the_timer_is_on_the_wheel_just_while_somebody_listens(clock: VirtualClock) -> None:
    async def main() -> None:
        async with Loop(clock=clock) as loop:
            token = CancelToken(timeout_ms=5000)
            leaf, one, two = token.child().child(), Ear(), Ear()
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

    clock.run(main())


@pytest.mark.guarantee("G102")
@pytest.mark.parametrize("meddler", ["comes", "goes", "cancels"])
def test_a_finalizer_that_comes_while_the_timer_is_set_leaves_one_timer_at_most(
    loop: Loop, meddler: str
) -> None:
    token, first, second = CancelToken(timeout_ms=50, loop=loop), Ear(), Ear()
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
    assert deadline._now is read, "it did not come"  # pyright: ignore[reportPrivateUsage]  # likewise
    assert has_timers(loop) == (meddler == "comes")
    token.remove_listener(first)
    token.remove_listener(second)
    assert not has_timers(loop)
    assert first.told == (meddler == "cancels")


@pytest.mark.guarantee("G102")
@pytest.mark.heavy
def test_a_hundred_thousand_dropped_children_leave_nothing_behind(clock: VirtualClock) -> None:
    """Never listened to, listened to and dismissed, waited with by operations that ended otherwise: all the same."""

    async def main() -> None:
        async with Loop(clock=clock) as loop:
            root, ear = CancelToken(timeout_ms=10**9), Ear()
            channel, child = Channel[int](1), root
            gc.collect()
            gc.disable()
            try:
                before = len(gc.get_objects())
                for number in range(100_000):
                    child = root.child(timeout_ms=60_000 + number)
                    if number % 4 == 1:
                        child.add_listener(ear)
                        child.remove_listener(ear)
                    elif number % 4 == 2:
                        child.on_cancel(lambda _: None)()
                    elif number % 400 == 3:
                        task = await waiting(channel.receive(token=child))
                        channel.try_send(number)
                        assert await task == number
                        del task
                ghost = weakref.ref(child)
                del child
                await turns()
                assert ghost() is None
                assert heard(root) == 0
                assert not has_timers(loop)
                assert loop.statistics().timers_pending == 0
                gc.collect()
                assert len(gc.get_objects()) < before + 100
            finally:
                gc.enable()

    clock.run(main())


# -- from other threads ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G103")
def test_a_listener_of_another_thread_has_it_kept_on_the_loops_thread(
    loop: Loop, clock: VirtualClock
) -> None:
    threads: list[str] = []
    token = CancelToken(timeout_ms=50, loop=loop)
    take_back: list[Callable[[], bool]] = []

    def listen() -> None:
        take_back.append(token.on_cancel(lambda _: threads.append(threading.current_thread().name)))
        take_back.append(token.on_cancel(lambda _: threads.append("second")))

    def elsewhere(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    elsewhere(listen)
    assert not has_timers(loop)
    loop.poll_once()
    assert has_timers(loop)
    elsewhere(take_back[0])
    elsewhere(take_back[1])
    assert has_timers(loop)
    loop.poll_once()
    assert not has_timers(loop)
    assert threads == []
    elsewhere(listen)
    loop.poll_once()
    clock.advance(50)
    loop.poll_once()
    assert threads == [threading.current_thread().name, "second"]


@pytest.mark.guarantee("G102")
def test_a_thread_that_comes_and_goes_asks_the_loop_once(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Callable[[], object]] = []

    def call_afar(_: Loop, function: Callable[[], object]) -> None:
        asked.append(function)

    monkeypatch.setattr("bandstand.scope.deadline.call_afar", call_afar)
    token, ear = CancelToken(timeout_ms=50, loop=loop), Ear()

    def come_and_go() -> None:
        for _ in range(100):
            token.add_listener(ear)
            token.remove_listener(ear)
        token.add_listener(ear)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    thread.join()
    assert len(asked) == 1
    asked.pop()()
    assert has_timers(loop)
    token.remove_listener(ear)


@pytest.mark.guarantee("G103")
def test_the_wheel_of_a_loop_that_is_closed_is_left_alone_by_other_threads(make_loop: LoopMaker) -> None:
    loop = make_loop()
    token, ear = CancelToken(timeout_ms=50, loop=loop), Ear()
    token.add_listener(ear)
    loop.request_stop()
    thread = threading.Thread(target=token.remove_listener, args=(ear,))
    thread.start()
    thread.join()
    assert has_timers(loop)
    loop.destroy()
    assert not has_timers(loop)
    assert ear.told == 0
    assert not token.cancelled


@pytest.mark.guarantee("G103")
def test_what_was_on_its_way_to_an_event_loop_that_has_ended_is_not_waited_for(clock: VirtualClock) -> None:
    async def main() -> tuple[CancelToken, Ear]:
        token, ear = CancelToken(timeout_ms=5000), Ear()
        thread = threading.Thread(target=token.add_listener, args=(ear,))
        thread.start()
        thread.join()
        asyncio.get_running_loop().stop()  # at once: nothing else has its turn
        return token, ear

    host = clock.new_event_loop()
    try:
        token, first = host.run_until_complete(main())
    finally:
        host.close()
    second = Ear()
    token.add_listener(second)
    assert (first.told, second.told) == (1, 1)
    assert token.reason == "the loop that kept its deadline has ended"


@pytest.mark.guarantee("G103")
@pytest.mark.parametrize("is_ridden", [True, False])
def test_a_thread_that_waits_is_woken_by_a_deadline_of_the_event_loop(
    clock: VirtualClock, *, is_ridden: bool
) -> None:
    async def main() -> None:
        token = CancelToken(timeout_ms=5)
        reason = await asyncio.to_thread(token.child().wait().blocking)
        assert reason == "its deadline of 5 ms has passed"
        assert heard(token) == 0

    async def ridden() -> None:
        async with Loop(LoopConfig()):
            await main()

    del clock
    asyncio.run(ridden() if is_ridden else main())


@pytest.mark.guarantee("G103")
def test_an_event_loop_that_is_over_keeps_nothing(clock: VirtualClock) -> None:
    async def main() -> CancelToken:
        return CancelToken(timeout_ms=5000)

    token = clock.run(main())
    assert not token.cancelled
    assert token.wait().blocking() == "the loop that kept its deadline has ended"
    assert token.cancelled


@pytest.mark.guarantee("G103")
def test_a_cancelled_wait_takes_its_timer_with_it(clock: VirtualClock) -> None:
    async def main() -> None:
        async with Loop(clock=clock) as loop:
            token = CancelToken(timeout_ms=5000)
            task = await waiting(token.wait())
            assert has_timers(loop)
            task.cancel()
            await outcome(task)
            assert not has_timers(loop)

    clock.run(main())
