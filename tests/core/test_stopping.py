"""Stopping: coroutines in flight are cancelled and waited for, with a limit, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Loop
from bandstand.errors import LoopClosedError
from bandstand.testing import VirtualClock
from tests.core.support import (
    PATIENCE,
    HostFactory,
    LoopMaker,
    OnStop,
    RecordingObserver,
    check_statistics,
    forever,
    idle,
    run_message,
    turns,
    until,
)

Deed = Callable[[Context[Any]], Coroutine[Any, Any, Any]]


async def aobey(ctx: Context[Any], data: Deed) -> Any:
    """Do what the message says."""
    return await data(ctx)


class Stubborn:
    """A behavior that does not listen when it is told to stop, until it is released."""

    def __init__(self, *, uncancels: bool = False) -> None:
        self.cancellations = 0
        self.is_released = False
        self.has_begun = False
        self._uncancels = uncancels

    async def __call__(self, ctx: Context[Any], data: object) -> None:
        self.has_begun = True
        while not self.is_released:
            try:
                await forever()
            except asyncio.CancelledError:
                self.cancellations += 1
                task = asyncio.current_task()
                if self._uncancels and task is not None:
                    task.uncancel()


class Tidy:
    """A behavior that waits, and cleans up when it is cancelled."""

    def __init__(self, log: list[str], *, seconds: float = 0) -> None:
        self.log = log
        self._seconds = seconds

    async def __call__(self, ctx: Context[Any], data: str) -> None:
        self.log.append(f"begin {data}")
        try:
            await forever()
        finally:
            await asyncio.sleep(self._seconds)
            self.log.append(f"finally {data}")


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        entry.getMessage()
        for entry in caplog.records
        if entry.name == "bandstand.core" and entry.levelno == level
    ]


@pytest.fixture
def virtual(clock: VirtualClock, make_loop: LoopMaker) -> Callable[..., Loop]:
    """Make loops all of whose time is virtual: asyncio's, too."""

    def make(**fields: Any) -> Loop:
        return make_loop(loop_factory=clock.new_event_loop, **fields)

    return make


# --- what is in flight is cancelled and waited for --------------------------------------------------------------------------


@pytest.mark.spec("J1", "J3")
@pytest.mark.guarantee("G26", "G30", "G32")
def test_stop_waits(
    virtual: Callable[..., Loop], clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    loop, diary, log = virtual(), RecordingObserver(), list[str]()
    loop.set_observer(diary)
    actors = [loop.spawn(Tidy(log, seconds=seconds)) for seconds in (0.25, 1.0, 0.5)]
    for number, actor in enumerate(actors):
        loop.send(actor, str(number))
        loop.send(actor, "unread")
    hand = loop.spawn(run_message)
    stop: Callable[[Context[Any]], None] = lambda ctx: ctx.loop.request_stop()  # noqa: E731
    loop.send_after(hand, 0.01, stop)
    start = clock.now_ns()
    loop.run()
    assert log == ["begin 0", "begin 1", "begin 2", "finally 0", "finally 2", "finally 1"]
    assert (clock.now_ns() - start) / 1e9 == pytest.approx(1.01, abs=0.002), "the longest, not the sum"
    assert diary.stopped == [(actor, ExitReason.NORMAL) for actor in (hand, actors[0], actors[2], actors[1])]
    assert [data for _, _, data, _, _ in diary.dead] == ["unread"] * 3
    assert [loop.status(actor) for actor in actors] == [ActorStatus.STOPPED] * 3
    assert said(caplog, logging.ERROR) == []
    books = loop.statistics()
    assert (books.alive, books.in_flight, books.waiting) == (0, 0, 0)
    check_statistics(loop)


@pytest.mark.guarantee("G30", "G28")
@pytest.mark.parametrize("turns_before", [0, 1, 2, 5])
@pytest.mark.parametrize("polled", [False, True])
def test_a_fast_stop(make_loop: LoopMaker, clock: VirtualClock, turns_before: int, polled: bool) -> None:
    loop, log = make_loop(), list[str]()

    async def main() -> None:
        before = asyncio.all_tasks()
        async with loop:
            loop.send(loop.spawn(Tidy(log)), "x")
            if polled:
                loop.poll_once()
            await turns(turns_before)
        assert asyncio.all_tasks() == before

    start = clock.now_ns()
    clock.run(main())
    assert clock.now_ns() == start
    assert log in ([], ["begin x", "finally x"])
    books = loop.statistics()
    assert (books.handled, books.dead) == ((1, 0) if log else (0, 1))


@pytest.mark.spec("J1")
@pytest.mark.guarantee("G26", "G30")
def test_coroutines_are_cancelled_youngest_first(loop: Loop, diary: RecordingObserver) -> None:
    log: list[str] = []
    kinds: list[ActorId] = []
    for number in range(4):
        kinds.append(loop.spawn(Tidy(log)))
        loop.send(kinds[-1], str(number))
        kinds.append(loop.spawn(idle))

    async def stop(ctx: Context[Any]) -> None:
        await until(lambda: len(log) == 4)
        # And until their tasks have taken over.
        await turns()
        loop.request_stop()

    hand = loop.spawn(aobey)
    loop.send(hand, stop)
    loop.run()
    assert log[4:] == ["finally 3", "finally 2", "finally 1", "finally 0"]
    order = [actor for actor, _ in diary.stopped]
    assert [actor for actor in order if actor in kinds[1::2]] == kinds[1::2][::-1]
    assert [actor for actor in order if actor in kinds[::2]] == kinds[::2][::-1]
    assert set(order) == {*kinds, hand}


@pytest.mark.guarantee("G26", "G30")
def test_clean_up_in_a_closed_loop(
    loop: Loop, diary: RecordingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[bool] = []

    async def behavior(ctx: Context[Any], data: object) -> None:
        try:
            await forever()
        finally:
            for call in (
                lambda: loop.send(ctx.self_id, "x"),
                lambda: loop.send_async(ctx.self_id, "x"),
                lambda: loop.send_after(ctx.self_id, 0, "x"),
                lambda: loop.spawn(idle),
            ):
                with pytest.raises(LoopClosedError):
                    call()
                refused.append(True)
            loop.send(ctx.self_id, "and this one comes out")

    async def stop(ctx: Context[Any]) -> None:
        await asyncio.sleep(0)
        loop.request_stop()

    actor = loop.spawn(behavior, name="untidy")
    loop.send(actor, None)
    loop.send(loop.spawn(aobey), stop)
    loop.run()
    assert refused == [True] * 4
    assert (actor, ExitReason.NORMAL) in diary.stopped
    (message,) = said(caplog, logging.ERROR)
    assert "untidy" in message


# --- but not for ever -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G30")
@pytest.mark.parametrize("uncancels", [False, True])
@pytest.mark.parametrize("ms", [5000, 100])
def test_run_gives_up_coroutines_that_ignore_cancellation(
    virtual: Callable[..., Loop],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    uncancels: bool,
    ms: int,
) -> None:
    loop, log, start = virtual(stop_timeout=ms / 1000), list[str](), clock.now_ns()
    ended: dict[ActorId, tuple[float, ExitReason]] = {}

    def note(actor: ActorId, reason: ExitReason) -> None:
        ended[actor] = ((clock.now_ns() - start) / 1e6, reason)

    loop.set_observer(OnStop(note))
    stubborn = [Stubborn(uncancels=uncancels) for _ in range(3)]
    actors = [loop.spawn(behavior) for behavior in stubborn]
    tidy = loop.spawn(Tidy(log))
    for actor in (*actors, tidy):
        loop.send(actor, "message")
    loop.send(actors[0], "unread")

    async def stop(ctx: Context[Any]) -> None:
        await until(lambda: log and all(one.has_begun for one in stubborn))
        loop.request_stop()

    loop.send(loop.spawn(aobey), stop)
    loop.run()
    assert all(one.cancellations > 0 for one in stubborn)
    assert log == ["begin message", "finally message"]
    assert ended[tidy] == (0, ExitReason.NORMAL)
    assert [ended[actor][0] for actor in actors] == pytest.approx([ms] * 3, abs=1), "all together"
    assert {ended[actor][1] for actor in actors} == {ExitReason.NORMAL}
    assert (clock.now_ns() - start) / 1e6 == pytest.approx(ms, abs=1), "and run() returns then"
    (message,) = said(caplog, logging.ERROR)
    assert "3 actors" in message
    assert f"{ms / 1000:g} s" in message
    assert (loop.statistics().alive, loop.statistics().dead) == (0, 1)
    with pytest.raises(LoopClosedError):
        loop.run()
    gc.collect()
    assert loop.statistics().in_flight == 0, "once its event loop is gone, nothing is in flight"


@pytest.mark.guarantee("G30")
def test_async_with_gives_up(
    make_loop: LoopMaker, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    loop, log = make_loop(stop_timeout=0.7), list[str]()
    stubborn = Stubborn()

    async def main() -> None:
        async with loop:
            actor, tidy = loop.spawn(stubborn), loop.spawn(Tidy(log))
            loop.send(actor, "x")
            loop.send(tidy, "x")
            await until(lambda: stubborn.has_begun and log)
            start = clock.now_ns()
        assert (clock.now_ns() - start) / 1e6 == pytest.approx(700, abs=1)
        assert loop.status(actor) is ActorStatus.STOPPED
        assert log == ["begin x", "finally x"]
        # Nobody can end it, but it may end later, and that harms nobody.
        (rest,) = asyncio.all_tasks() - {asyncio.current_task()}
        stubborn.is_released = True
        rest.cancel()
        await asyncio.wait([rest])

    clock.run(main())
    (message,) = said(caplog, logging.ERROR)
    assert "1 actors" in message
    assert "0.7 s" in message
    books = loop.statistics()
    assert (books.alive, books.in_flight) == (0, 0)


# --- who asks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G28", "G30")
def test_a_cancelled_body_stops_waiting(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(stop_timeout=1000.0)
    stubborn = Stubborn()

    async def body() -> None:
        async with loop:
            loop.send(loop.spawn(stubborn), "x")
            await until(lambda: stubborn.has_begun)

    async def main() -> None:
        task = asyncio.create_task(body())
        await until(lambda: stubborn.cancellations)
        assert not task.done()
        start = clock.now_ns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert clock.now_ns() - start < 10_000_000_000, "it does not wait for the rest of the time"
        stubborn.is_released = True

    clock.run(main())
    assert loop.statistics().alive == 0


# --- who leaves -------------------------------------------------------------------------------------------------------------

LEAVING = [KeyboardInterrupt(), SystemExit(3)]


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22", "G30")
@pytest.mark.parametrize("error", LEAVING, ids=repr)
@pytest.mark.parametrize("late", [False, True], ids=["before a suspension", "after a suspension"])
@pytest.mark.parametrize("way", ["run", "poll_once"])
def test_an_interrupt(
    loop: Loop, diary: RecordingObserver, error: BaseException, late: bool, way: str
) -> None:
    log: list[str] = []

    async def deed(ctx: Context[Any]) -> None:
        await until(lambda: log) if late else None
        raise error

    def poll() -> None:
        for _ in range(100):
            loop.poll_once()

    others = [loop.spawn(Tidy(log)), loop.spawn(idle)]
    actor = loop.spawn(aobey)
    loop.send(others[0], "x")
    loop.send(actor, deed)
    with pytest.raises(type(error)) as caught:
        (loop.run if way == "run" else poll)()
    assert caught.value is error
    assert [reason for _, reason in diary.stopped] == [ExitReason.NORMAL] * 3
    assert {who for who, _ in diary.stopped} == {actor, *others}
    assert log in (["begin x", "finally x"], [])
    with pytest.raises(LoopClosedError):
        loop.run()


@pytest.mark.guarantee("G22", "G28")
@pytest.mark.parametrize("late", [False, True], ids=["before a suspension", "after a suspension"])
def test_a_system_exit_in_a_coroutine(make_loop: LoopMaker, loop_factory: HostFactory, late: bool) -> None:
    loop = make_loop()

    async def deed(ctx: Context[Any]) -> None:
        if late:
            await turns()
        raise SystemExit(7)

    async def main() -> None:
        async with loop:
            loop.send(loop.spawn(aobey), deed)
            await forever()

    with pytest.raises(SystemExit) as caught, asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
    assert caught.value.code == 7
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G26", "G30")
def test_many_requests_are_one_stop(loop: Loop, diary: RecordingObserver) -> None:
    log: list[str] = []
    begun = threading.Event()

    def ask() -> None:
        assert begun.wait(PATIENCE)
        for _ in range(1000):
            loop.request_stop()

    async def behavior(ctx: Context[Any], data: object) -> None:
        begun.set()
        try:
            await forever()
        finally:
            loop.request_stop()
            await asyncio.sleep(0)
            loop.request_stop()
            log.append("finally")

    actor = loop.spawn(behavior)
    loop.send(actor, None)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    loop.run()
    for thread in threads:
        thread.join(PATIENCE)
    assert log == ["finally"]
    assert diary.stopped == [(actor, ExitReason.NORMAL)]
