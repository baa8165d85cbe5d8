"""Asks from other threads that fail: deadlines of a stuck loop, cancellations, exits; and waits for room."""

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

from bandstand.actor import Actor, ActorSystem, ask
from bandstand.actor.cross_thread import CrossThreadReply
from bandstand.core import ExitReason, LoopConfig, MonotonicClock
from bandstand.errors import (
    AskTimeoutError,
    BandstandError,
    LoopBusyError,
    LoopClosedError,
    NoSuchActorError,
    TargetEndedError,
)
from tests.actor.asking import CAP, Oracle, audit, ended, got, outcome, turns
from tests.actor.thread_loop import (
    PATIENCE,
    Sink,
    ThreadLoop,
    ask_counts,
    on_event_loop,
    on_thread,
    thread_loop,
)
from tests.core.support import HostFactory

pytestmark = pytest.mark.guarantee("G59")


@pytest.fixture
def owner(loop_factory: HostFactory) -> Iterator[ThreadLoop]:
    with thread_loop(loop_factory) as owner:
        yield owner


# --- deadlines of a stuck loop ----------------------------------------------------------------------------------------

STUCK = pytest.mark.real_time(reason="a thread that waits for a stuck loop waits by the machine's own clock")


@pytest.fixture
def stuck(owner: ThreadLoop) -> Iterator[Sink]:
    """Return an actor whose loop is stuck in a handler during the test."""
    sink = owner.do(lambda: owner.loop.spawn(Sink, []))
    begun, gate = threading.Event(), threading.Event()
    on_thread(lambda: sink.hold_thread(begun, gate))
    assert begun.wait(PATIENCE)
    yield sink
    gate.set()
    owner.settle()
    # The late answers come now, and are dropped.
    assert owner.do(owner.loop.ask_statistics).late >= 1


@STUCK
@pytest.mark.guarantee("G71", "G61")
@pytest.mark.parametrize("form", ["blocking", "await"])
def test_a_wait_of_another_thread_ends_in_time_while_the_loop_is_stuck(stuck: Sink, form: str) -> None:
    async def wait() -> object:
        return await outcome(stuck.count.within(0.03)())

    def block() -> object:
        with pytest.raises(AskTimeoutError) as caught:
            stuck.count.within(0.03).blocking()
        return caught.value

    start = monotonic()
    error = on_thread(block) if form == "blocking" else on_event_loop(wait)
    assert 0.029 <= monotonic() - start < 10
    assert isinstance(error, AskTimeoutError)
    assert error.waited >= 0.029
    assert error.method == "Sink.count()"
    assert "Sink" in error.target


@STUCK
@pytest.mark.guarantee("G61")
def test_a_timed_out_ask_from_another_thread_is_counted_and_released(owner: ThreadLoop) -> None:
    oracle, gate = owner.do(lambda: owner.loop.spawn(Oracle)), Event()
    future = on_thread(lambda: oracle.held.within(0.02).future(gate, 1))
    assert isinstance(future.exception(PATIENCE), AskTimeoutError)
    assert ask_counts(owner) == {"expired": 1}
    owner.do(gate.set)
    owner.settle()
    assert ask_counts(owner) == {"expired": 1, "late": 1}


@pytest.mark.guarantee("G71")
def test_a_timeout_error_that_is_an_answer_is_not_mistaken_for_a_deadline(owner: ThreadLoop) -> None:
    class Late(Actor):
        @ask(raises=TimeoutError)
        def find(self) -> int:
            raise TimeoutError("not found in time")

    late = owner.do(lambda: owner.loop.spawn(Late))
    with pytest.raises(TimeoutError, match="not found in time") as caught:
        on_thread(late.find.blocking)
    assert not isinstance(caught.value, AskTimeoutError)
    assert ask_counts(owner) == {"failed": 1}


def test_a_loop_that_does_not_run_does_not_answer(loop_factory: HostFactory) -> None:
    loop = ActorSystem(LoopConfig(loop_factory=loop_factory), clock=MonotonicClock())
    oracle = loop.spawn(Oracle)
    with pytest.raises(AskTimeoutError):
        on_thread(lambda: oracle.plain.within(0.005).blocking(1))
    future = on_thread(lambda: oracle.plain.within(None).future(2))
    loop.destroy()
    assert isinstance(future.exception(PATIENCE), TargetEndedError)
    assert ended(audit(loop)) == {"expired": 1, "failed": 1}


# --- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G62")
@pytest.mark.parametrize("form", ["future", "task"])
def test_a_cancellation_of_another_thread_reaches_the_handler(owner: ThreadLoop, form: str) -> None:
    log: list[str] = []
    oracle = owner.do(lambda: owner.loop.spawn(Oracle, log))

    def with_future() -> None:
        future, behind = oracle.held.future(Event(), 1), oracle.plain.future(2)
        owner.settle()
        assert behind.cancel()
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(PATIENCE)
        assert oracle.plain.blocking(3) == 3

    async def with_task() -> None:
        task = asyncio.ensure_future(got(oracle.held(Event(), 1)))
        behind = asyncio.ensure_future(got(oracle.plain(2)))
        await asyncio.sleep(0)
        # It has started when the other ask is answered.
        await asyncio.to_thread(owner.settle)
        for each in (behind, task):
            each.cancel()
            assert isinstance(await outcome(each), asyncio.CancelledError)
        assert await oracle.plain(3) == 3

    if form == "future":
        on_thread(with_future)
    else:
        on_event_loop(with_task)
    assert log == ["begins 1", "cancelled 1", "plain 3"]
    assert ask_counts(owner) == {"answered": 1, "cancelled": 2}


@pytest.mark.guarantee("G62")
def test_cancelling_one_of_two_waiters_of_another_event_loop(owner: ThreadLoop) -> None:
    oracle, gate = owner.do(lambda: owner.loop.spawn(Oracle)), Event()

    async def main() -> int:
        reply = oracle.held(gate, 5)
        one, two = asyncio.ensure_future(got(reply)), asyncio.ensure_future(got(reply))
        await turns()
        one.cancel()
        await turns()
        assert one.cancelled()
        await asyncio.to_thread(owner.do, gate.set)
        return await two

    assert on_event_loop(main) == 5


# --- exits ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G60")
def test_a_closed_loop_ends_all_asks_from_other_threads(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))
    asked = threading.Semaphore(0)

    def block() -> object:
        # The ask before it shows that this one is about to be asked.
        asked.release()
        try:
            return oracle.plain.within(None).blocking(2)
        except (TargetEndedError, LoopClosedError) as error:
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
            with pytest.raises(LoopClosedError):
                form()
        return oracle.ended.blocking()

    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(lambda: oracle.held.within(None).future(Event())).result(PATIENCE)
        behind = pool.submit(lambda: oracle.plain.within(None).future(1)).result(PATIENCE)
        blocked, awaited = pool.submit(block), pool.submit(lambda: asyncio.run(wait()))
        assert all(asked.acquire(timeout=PATIENCE) for _ in range(2))
        owner.settle()
        owner.close()
        assert type(held.exception(PATIENCE)) is TargetEndedError
        assert type(behind.exception(PATIENCE)) is TargetEndedError
        assert type(awaited.result(PATIENCE)) is TargetEndedError
        assert type(blocked.result(PATIENCE)) in {TargetEndedError, LoopClosedError}
        assert pool.submit(late).result(PATIENCE) is ExitReason.NORMAL


@pytest.mark.guarantee("G71")
def test_a_thread_that_reuses_an_ident_is_not_taken_for_the_loops_thread(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))
    number = owner.thread.ident
    owner.close()
    ends: list[object] = []
    # Several at the same time, so that their idents differ.
    gate = threading.Barrier(20)

    def look() -> None:
        gate.wait(PATIENCE)
        # The system reuses thread idents.
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
    assert ends == [ExitReason.NORMAL, LoopClosedError]


@pytest.mark.guarantee("G60")
def test_asks_that_race_with_the_end_of_the_loop_all_end(loop_factory: HostFactory) -> None:
    for _ in range(20):
        owner = ThreadLoop(loop_factory)
        oracle = owner.do(lambda: owner.loop.options(mailbox=100_000).spawn(Oracle))  # noqa: B023  # called at once
        futures: list[Future[int]] = []

        def send() -> None:
            try:
                while True:
                    futures.append(oracle.plain.within(None).future(1))  # noqa: B023  # joined below
            except LoopClosedError:
                pass

        thread = threading.Thread(target=send)
        thread.start()
        owner.is_quiet = False
        owner.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        done, pending = wait_futures(futures, PATIENCE)
        assert not pending
        assert {type(future.exception()) for future in done} <= {type(None), TargetEndedError}
        # Its thread has ended, so this one may look at it.
        owner.loop.kernel.claim_thread()  # pyright: ignore[reportPrivateUsage]  # nobody runs it again
        assert audit(owner.loop).asked == len(futures)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_stop_kill_and_ended_from_other_threads(owner: ThreadLoop, way: str) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))
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

    assert on_thread(go) is reason
    assert on_event_loop(main) is reason
    # A wait for an exit is not an ask.
    assert owner.do(owner.loop.ask_statistics).asked == 0


def test_a_drain_from_another_thread_handles_earlier_messages(owner: ThreadLoop, log: list[str]) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle, log))

    def go() -> None:
        for number in range(10):
            oracle.note(str(number))
        future = oracle.plain.future(7)
        oracle.stop(drain=True)
        assert future.result(PATIENCE) == 7
        assert oracle.ended.blocking() is ExitReason.NORMAL

    on_thread(go)
    assert log == [*map(str, range(10)), "plain 7"]


# --- waiting for room -------------------------------------------------------------------------------------------------


def full(owner: ThreadLoop, log: list[str]) -> tuple[Oracle, Event]:
    """Return an actor that is busy until the gate opens, with a full mailbox."""
    oracle, gate = owner.do(lambda: owner.loop.options(mailbox=CAP).spawn(Oracle, log)), Event()
    owner.do(lambda: oracle.block(gate))
    owner.settle()
    owner.do(lambda: [oracle.note(f"filler {number}") for number in range(3)])
    return oracle, gate


def test_an_event_loop_waits_for_room_on_another_loop(owner: ThreadLoop, log: list[str]) -> None:
    """A cancelled wait sends nothing."""
    oracle, gate = full(owner, log)

    async def main() -> None:
        gone, *tasks = (asyncio.ensure_future(got(oracle.note.when_room(f"afar {n}"))) for n in range(5))
        await asyncio.to_thread(owner.settle)
        await turns()
        assert not any(task.done() for task in (gone, *tasks))
        gone.cancel()
        assert isinstance(await outcome(gone), asyncio.CancelledError)
        await asyncio.to_thread(owner.settle)
        await asyncio.to_thread(owner.do, gate.set)
        assert await asyncio.gather(*tasks) == [None] * 4
        # They are in the mailbox, but not necessarily handled.
        await asyncio.to_thread(owner.settle)
        assert await oracle.plain(1) == 1

    on_event_loop(main)
    assert log == [f"filler {n}" for n in range(3)] + [f"afar {n}" for n in range(1, 5)] + ["plain 1"]
    # Waits for room are not asks.
    assert ask_counts(owner) == {"answered": 1}


def test_the_exit_of_the_actor_ends_a_wait_for_room_from_another_thread(owner: ThreadLoop) -> None:
    oracle, _gate = full(owner, [])

    async def main() -> list[object]:
        waiting = asyncio.ensure_future(outcome(oracle.note.when_room("x")))
        await asyncio.to_thread(owner.settle)
        oracle.kill()
        first = await waiting
        return [first, await outcome(oracle.note.when_room("y"))]

    first, second = on_event_loop(main)
    assert isinstance(first, TargetEndedError)
    assert "before there was room for Oracle.note()" in str(first)
    assert "answered" not in str(first)
    assert isinstance(second, NoSuchActorError)
    assert ask_counts(owner) == {}


# --- races ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Switch threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.guarantee("G60")
@pytest.mark.usefixtures("quick_switches")
def test_answers_deadlines_and_cancellations_that_race_end_each_ask_once(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.options(mailbox=100_000).spawn(Oracle))

    def ask_one(who: int, number: int) -> str:
        if number % 3 == 0:
            future = oracle.quick.future(number)
            future.cancel()
            return "cancelled" if future.cancelled() else "answered"
        try:
            asked = oracle.plain if number % 3 == 1 else oracle.quick
            assert asked.within(0).blocking(number) == number
        except AskTimeoutError:
            return "expired"
        return "answered"

    def go(who: int) -> Counter[str]:
        return Counter(ask_one(who, number) for number in range(150))

    with ThreadPoolExecutor(4) as pool:
        found = sum(pool.map(go, range(4)), Counter[str]())
    # Earlier messages are handled before this one.
    assert on_thread(lambda: oracle.plain.blocking(1)) == 1
    told = ask_counts(owner)
    told.pop("late", None)
    found["answered"] += 1
    assert told == dict(found)


# --- replies ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G62")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_reply_from_another_thread_has_done_and_result_but_no_truth_value(
    owner: ThreadLoop, is_cancelled: bool
) -> None:
    oracle, gate = owner.do(lambda: owner.loop.spawn(Oracle)), Event()

    async def main() -> None:
        reply = cast("CrossThreadReply", oracle.held(gate, 5))
        assert not reply.done()
        with pytest.raises(LoopBusyError, match="has not answered yet"):
            reply.result()
        with pytest.raises(TypeError, match="would always be true"):
            bool(reply)
        if is_cancelled:
            assert reply.cancel()
            assert reply.done()
            with pytest.raises(asyncio.CancelledError):
                reply.result()
            with pytest.raises(asyncio.CancelledError):
                await reply
            return
        await asyncio.to_thread(owner.do, gate.set)
        assert await reply == 5
        assert reply.done()
        assert reply.result() == 5
        # It has ended: it cannot be cancelled, and awaiting it again gives the same.
        assert not reply.cancel()
        assert await reply == 5

    on_event_loop(main)
    owner.settle()
    assert ask_counts(owner) == ({"cancelled": 1} if is_cancelled else {"answered": 1})


@pytest.mark.guarantee("G60")
def test_an_answer_to_a_closed_event_loop_is_harmless(owner: ThreadLoop) -> None:
    oracle, gate = owner.do(lambda: owner.loop.spawn(Oracle)), Event()

    def go() -> CrossThreadReply:
        """Leave during an await, as an event loop that is stopped from outside."""
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
    reply = on_thread(go)
    owner.do(gate.set)
    owner.settle()
    assert reply.result() == 5
    assert ask_counts(owner) == {"answered": 1}
