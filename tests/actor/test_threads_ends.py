"""Asks from other threads that do not end well: deadlines with the loop stuck, cancellation, ends; and waiting for room."""

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio import Event
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_futures
from time import monotonic
from typing import cast

import pytest

from bandstand.actor import Actor, Loop, ask
from bandstand.actor.cross_thread import CrossThreadReply
from bandstand.core import ExitReason, LoopConfig, MonotonicClock, Overflow
from bandstand.errors import (
    AskTimeout,
    BandstandError,
    LoopBusy,
    LoopClosed,
    MessageDropped,
    NoSuchActor,
    TargetEnded,
)
from tests.actor.abroad import PATIENCE, Sink, Stage, books, elsewhere, looping, staged
from tests.actor.asking import CAP, Oracle, audit, ended, got, outcome, turns
from tests.core.stage import HostFactory

pytestmark = pytest.mark.guarantee("G59")


@pytest.fixture
def stage(loop_factory: HostFactory) -> Iterator[Stage]:
    with staged(loop_factory) as stage:
        yield stage


# --- deadlines, with the loop stuck -----------------------------------------------------------------------------------

STUCK = pytest.mark.real_time(reason="a thread that waits for a stuck loop waits by the machine's own clock")


@pytest.fixture
def stuck(stage: Stage) -> Iterator[Sink]:
    """An actor whose loop is stuck in a handler for as long as the test runs."""
    sink = stage.do(lambda: stage.loop.spawn(Sink, []))
    begun, gate = threading.Event(), threading.Event()
    elsewhere(lambda: sink.hold_thread(begun, gate))
    assert begun.wait(PATIENCE)
    yield sink
    gate.set()
    stage.settle()
    # What was too late is answered now, and dropped.
    assert stage.do(stage.loop.ask_statistics).late >= 1


@STUCK
@pytest.mark.guarantee("G71", "G61")
def test_blocking_ends_in_time_though_the_loop_is_stuck(stuck: Sink) -> None:
    def go() -> tuple[float, AskTimeout]:
        start = monotonic()
        with pytest.raises(AskTimeout) as caught:
            stuck.count.within(30).blocking()
        return (monotonic() - start) * 1000, caught.value

    waited, error = elsewhere(go)
    assert 30 <= waited < 10_000
    assert error.waited_ms >= 30
    assert error.method == "Sink.count()"
    assert "Sink" in error.target


@STUCK
@pytest.mark.guarantee("G61")
def test_an_await_on_another_event_loop_ends_in_time_though_the_loop_is_stuck(stuck: Sink) -> None:
    async def main() -> tuple[float, object]:
        start = monotonic()
        end = await outcome(stuck.count.within(30)())
        return (monotonic() - start) * 1000, end

    waited, end = looping(main)
    assert 29 <= waited < 10_000
    assert isinstance(end, AskTimeout)


@STUCK
@pytest.mark.guarantee("G61")
def test_a_timed_out_ask_from_afar_is_counted_and_not_kept(stage: Stage) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()
    future = elsewhere(lambda: oracle.held.within(20).future(gate, 1))
    assert isinstance(future.exception(PATIENCE), AskTimeout)
    assert books(stage) == {"expired": 1}
    stage.do(gate.set)
    stage.settle()
    assert books(stage) == {"expired": 1, "late": 1}


@pytest.mark.guarantee("G71")
def test_a_timeout_that_is_an_answer_is_not_taken_for_a_deadline(stage: Stage) -> None:
    class Late(Actor):
        @ask(raises=TimeoutError)
        def find(self) -> int:
            raise TimeoutError("not found in time")

    late = stage.do(lambda: stage.loop.spawn(Late))
    with pytest.raises(TimeoutError, match="not found in time") as caught:
        elsewhere(late.find.blocking)
    assert not isinstance(caught.value, AskTimeout)
    assert books(stage) == {"failed": 1}


def test_a_loop_that_nobody_runs_answers_nobody(loop_factory: HostFactory) -> None:
    loop = Loop(LoopConfig(loop_factory=loop_factory), clock=MonotonicClock())
    oracle = loop.spawn(Oracle)
    with pytest.raises(AskTimeout):
        elsewhere(lambda: oracle.plain.within(5).blocking(1))
    future = elsewhere(lambda: oracle.plain.within(None).future(2))
    loop.destroy()
    assert isinstance(future.exception(PATIENCE), TargetEnded)
    assert ended(audit(loop)) == {"expired": 1, "failed": 1}


# --- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G62")
def test_cancelling_a_future_reaches_the_handler(stage: Stage) -> None:
    log: list[str] = []
    oracle = stage.do(lambda: stage.loop.spawn(Oracle, log))

    def go() -> None:
        future, behind = oracle.held.future(Event(), 1), oracle.plain.future(2)
        stage.settle()
        assert behind.cancel()
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(PATIENCE)
        assert oracle.plain.blocking(3) == 3

    elsewhere(go)
    assert log == ["begins 1", "cancelled 1", "plain 3"]
    assert books(stage) == {"answered": 1, "cancelled": 2}


@pytest.mark.guarantee("G62")
def test_a_cancelled_task_of_another_event_loop_reaches_the_handler(stage: Stage) -> None:
    log: list[str] = []
    oracle = stage.do(lambda: stage.loop.spawn(Oracle, log))

    async def main() -> None:
        task = asyncio.ensure_future(got(oracle.held(Event(), 1)))
        await asyncio.sleep(0)
        # It has been begun when this one is answered by another.
        await asyncio.to_thread(stage.settle)
        task.cancel()
        assert isinstance(await outcome(task), asyncio.CancelledError)
        assert await oracle.plain(2) == 2

    looping(main)
    assert log == ["begins 1", "cancelled 1", "plain 2"]
    assert books(stage) == {"answered": 1, "cancelled": 1}


@pytest.mark.guarantee("G62")
def test_one_of_two_on_another_event_loop_that_is_cancelled_does_not_take_the_ask_back(stage: Stage) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()

    async def main() -> int:
        reply = oracle.held(gate, 5)
        one, two = asyncio.ensure_future(got(reply)), asyncio.ensure_future(got(reply))
        await turns()
        one.cancel()
        await turns()
        assert one.cancelled()
        await asyncio.to_thread(stage.do, gate.set)
        return await two

    assert looping(main) == 5


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G60")
def test_a_loop_that_is_closed_ends_all_asks_from_afar(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))
    asked = threading.Semaphore(0)

    def block() -> object:
        # The one before it is a sign that this one is about to be asked.
        asked.release()
        try:
            return oracle.plain.within(None).blocking(2)
        except (TargetEnded, LoopClosed) as error:
            return error

    async def wait() -> object:
        reply = oracle.plain.within(None)(3)
        asked.release()
        return await outcome(reply)

    def late() -> ExitReason:
        for form in (
            lambda: oracle.plain.blocking(1),
            lambda: oracle.plain.future(1),
            lambda: oracle.note("x"),
        ):
            with pytest.raises(LoopClosed):
                form()
        return oracle.ended.blocking()

    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(lambda: oracle.held.within(None).future(Event())).result(PATIENCE)
        behind = pool.submit(lambda: oracle.plain.within(None).future(1)).result(PATIENCE)
        blocked, awaited = pool.submit(block), pool.submit(lambda: asyncio.run(wait()))
        assert all(asked.acquire(timeout=PATIENCE) for _ in range(2))
        stage.settle()
        stage.close()
        assert type(held.exception(PATIENCE)) is TargetEnded
        assert type(behind.exception(PATIENCE)) is TargetEnded
        assert type(awaited.result(PATIENCE)) is TargetEnded
        assert type(blocked.result(PATIENCE)) in {TargetEnded, LoopClosed}
        assert pool.submit(late).result(PATIENCE) is ExitReason.NORMAL


@pytest.mark.guarantee("G71")
def test_a_thread_with_the_number_of_one_that_has_ended_is_not_taken_for_it(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))
    number = stage.thread.ident
    stage.close()
    ends: list[object] = []
    # Several at a time: none of them has the number of another.
    gate = threading.Barrier(20)

    def look() -> None:
        gate.wait(PATIENCE)
        # The system gives numbers of threads out again.
        if threading.get_ident() == number:
            for form in (oracle.ended.blocking, oracle.plain.blocking):
                try:
                    ends.append(form())
                except BandstandError as error:
                    ends.append(type(error))

    threads = [threading.Thread(target=look) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if not ends:
        pytest.skip("no thread was given that number again")
    assert ends == [ExitReason.NORMAL, LoopClosed]


@pytest.mark.guarantee("G60")
def test_asks_that_race_with_the_end_of_the_loop_all_end(loop_factory: HostFactory) -> None:
    for _ in range(20):
        stage = Stage(loop_factory)
        oracle = stage.do(lambda: stage.loop.options(mailbox_cap=100_000).spawn(Oracle))  # noqa: B023  # called at once
        futures: list[Future[int]] = []

        def send() -> None:
            try:
                while True:
                    futures.append(oracle.plain.within(None).future(1))  # noqa: B023  # joined below
            except LoopClosed:
                pass

        thread = threading.Thread(target=send)
        thread.start()
        stage.is_quiet = False
        stage.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        done, pending = wait_futures(futures, PATIENCE)
        assert not pending
        assert {type(future.exception()) for future in done} <= {type(None), TargetEnded}
        # Its thread has ended: it is ours to look at.
        stage.loop._take_thread()  # pyright: ignore[reportPrivateUsage]  # nobody runs it again
        assert audit(stage.loop).asked == len(futures)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_stop_and_kill_from_afar_and_waiting_for_the_end(stage: Stage, way: str) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))
    reason = ExitReason.NORMAL if way == "stop" else ExitReason.FAIL

    def go() -> ExitReason:
        future = oracle.ended.future()
        assert not future.done()
        getattr(oracle, way)()
        getattr(oracle, way)()
        assert future.result(PATIENCE) is reason
        return oracle.ended.blocking()

    async def main() -> ExitReason:
        return await oracle.ended()

    assert elsewhere(go) is reason
    assert looping(main) is reason
    # A wait for an end is no ask.
    assert stage.do(stage.loop.ask_statistics).asked == 0


def test_a_drain_from_afar_handles_what_was_sent_before(stage: Stage) -> None:
    log: list[str] = []
    oracle = stage.do(lambda: stage.loop.spawn(Oracle, log))

    def go() -> None:
        for number in range(10):
            oracle.note(str(number))
        future = oracle.plain.future(7)
        oracle.stop(drain=True)
        assert future.result(PATIENCE) == 7
        assert oracle.ended.blocking() is ExitReason.NORMAL

    elsewhere(go)
    assert log == [*map(str, range(10)), "plain 7"]


# --- waiting for room -------------------------------------------------------------------------------------------------


def full(stage: Stage, log: list[str]) -> tuple[Oracle, Event]:
    """An actor that is busy until the gate opens, and whose mailbox is full."""
    oracle, gate = stage.do(lambda: stage.loop.options(mailbox_cap=CAP).spawn(Oracle, log)), Event()
    stage.do(lambda: oracle.block(gate))
    stage.settle()
    stage.do(lambda: [oracle.note(f"filler {number}") for number in range(3)])
    return oracle, gate


def test_an_event_loop_waits_for_room_on_another(stage: Stage) -> None:
    log: list[str] = []
    oracle, gate = full(stage, log)

    async def main() -> None:
        tasks = [asyncio.ensure_future(got(oracle.note.when_room(f"afar {number}"))) for number in range(5)]
        await asyncio.to_thread(stage.settle)
        await turns()
        assert not any(task.done() for task in tasks)
        await asyncio.to_thread(stage.do, gate.set)
        assert await asyncio.gather(*tasks) == [None] * 5
        # They are in, which does not mean that they have been handled.
        await asyncio.to_thread(stage.settle)
        assert await oracle.plain(1) == 1

    looping(main)
    assert log == [f"filler {n}" for n in range(3)] + [f"afar {n}" for n in range(5)] + ["plain 1"]
    assert books(stage) == {"answered": 1}


def test_one_that_gives_up_waiting_for_room_sends_nothing(stage: Stage) -> None:
    log: list[str] = []
    oracle, gate = full(stage, log)

    async def main() -> None:
        gone, stays = (asyncio.ensure_future(got(oracle.note.when_room(name))) for name in ("gone", "stays"))
        await asyncio.to_thread(stage.settle)
        gone.cancel()
        assert isinstance(await outcome(gone), asyncio.CancelledError)
        await asyncio.to_thread(stage.settle)
        await asyncio.to_thread(stage.do, gate.set)
        await stays

    looping(main)
    stage.settle()
    assert log == [*(f"filler {n}" for n in range(3)), "stays"]
    # It was no ask, and so is in no book of asks.
    assert books(stage) == {}


def test_the_end_of_the_actor_ends_a_wait_for_room_from_afar(stage: Stage) -> None:
    oracle, _gate = full(stage, [])

    async def main() -> list[object]:
        waiting = asyncio.ensure_future(outcome(oracle.note.when_room("x")))
        await asyncio.to_thread(stage.settle)
        oracle.kill()
        first = await waiting
        return [first, await outcome(oracle.note.when_room("y"))]

    first, second = looping(main)
    assert isinstance(first, TargetEnded)
    assert isinstance(second, NoSuchActor)
    assert books(stage) == {}


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Have threads change over as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.guarantee("G60")
@pytest.mark.usefixtures("quick_switches")
def test_answers_deadlines_and_cancellations_that_race_end_each_ask_once(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=100_000).spawn(Oracle))

    def ask_one(who: int, number: int) -> str:
        if number % 3 == 0:
            future = oracle.quick.future(number)
            future.cancel()
            return "cancelled" if future.cancelled() else "answered"
        try:
            asked = oracle.plain if number % 3 == 1 else oracle.quick
            assert asked.within(0).blocking(number) == number
        except AskTimeout:
            return "expired"
        return "answered"

    def go(who: int) -> Counter[str]:
        return Counter(ask_one(who, number) for number in range(150))

    with ThreadPoolExecutor(4) as pool:
        found = sum(pool.map(go, range(4)), Counter[str]())
    # Whatever is still on its way is handled before this.
    assert elsewhere(lambda: oracle.plain.blocking(1)) == 1
    told = books(stage)
    told.pop("late", None)
    found["answered"] += 1
    assert told == dict(found)


@pytest.mark.guarantee("G60")
@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("overflow", [Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE])
def test_a_flood_of_asks_that_a_stuck_loop_cannot_take_in_ends(stage: Stage, overflow: Overflow) -> None:
    sink = stage.do(lambda: stage.loop.spawn(Sink, []))
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=CAP, overflow=overflow).spawn(Oracle))
    begun, gate = threading.Event(), threading.Event()
    elsewhere(lambda: sink.hold_thread(begun, gate))
    assert begun.wait(PATIENCE)

    def go(who: int) -> list[Future[int]]:
        return [oracle.plain.within(None).future(number) for number in range(200)]

    with ThreadPoolExecutor(4) as pool:
        futures = [future for part in pool.map(go, range(4)) for future in part]
    gate.set()
    done, pending = wait_futures(futures, PATIENCE)
    assert not pending
    kinds = Counter(type(future.exception()) for future in done)
    assert set(kinds) == {type(None), MessageDropped}
    assert books(stage) == {"answered": kinds[type(None)], "failed": kinds[MessageDropped]}


# --- what one holds meanwhile -------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G59")
def test_a_reply_from_afar_says_whether_it_is_there_and_is_no_answer_itself(stage: Stage) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()

    async def main() -> None:
        reply = cast("CrossThreadReply", oracle.held(gate, 5))
        assert not reply.done()
        with pytest.raises(LoopBusy, match="has not answered yet"):
            reply.result()
        with pytest.raises(TypeError, match="would always be true"):
            bool(reply)
        await asyncio.to_thread(stage.do, gate.set)
        assert await reply == 5
        assert reply.done()
        assert reply.result() == 5
        # It is over: nothing to take back, and whoever awaits it once more has the same.
        assert not reply.cancel()
        assert await reply == 5

    looping(main)


@pytest.mark.guarantee("G62")
def test_a_reply_that_is_taken_back_by_hand_is_a_cancellation_to_whoever_looks(stage: Stage) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()

    async def main() -> None:
        reply = cast("CrossThreadReply", oracle.held(gate, 5))
        assert reply.cancel()
        assert reply.done()
        with pytest.raises(asyncio.CancelledError):
            reply.result()
        with pytest.raises(asyncio.CancelledError):
            await reply

    looping(main)
    stage.settle()
    assert books(stage) == {"cancelled": 1}


@pytest.mark.guarantee("G60")
def test_an_answer_to_an_event_loop_that_was_closed_meanwhile_harms_nobody(stage: Stage) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()

    def go() -> CrossThreadReply:
        """Leave in the middle of an await, as an event loop does that is stopped from outside."""
        host = asyncio.new_event_loop()
        replies: list[CrossThreadReply] = []

        async def main() -> None:
            replies.append(cast("CrossThreadReply", oracle.held(gate, 5)))
            step = replies[0].__await__()
            waits.append(step)
            next(step)

        waits: list[object] = []
        host.run_until_complete(main())
        host.close()
        kept.extend(waits)
        return replies[0]

    kept: list[object] = []
    reply = elsewhere(go)
    stage.do(gate.set)
    stage.settle()
    assert reply.result() == 5
    assert books(stage) == {"answered": 1}
