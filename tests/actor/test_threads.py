"""Handles on other threads, plain ones and ones that run an event loop of their own: tells, asks, and what is refused."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_futures
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, ask, id_of
from bandstand.core import ExitReason, Overflow
from bandstand.errors import (
    LoopBusy,
    MailboxFull,
    MessageDropped,
    NoSuchActor,
    TargetEnded,
    WrongThread,
)
from tests.actor.abroad import PATIENCE, Sink, Stage, books, elsewhere, looping, staged
from tests.actor.asking import CAP, Oracle, outcome
from tests.core.stage import Boom, HostFactory

pytestmark = pytest.mark.guarantee("G59")


@pytest.fixture
def stage(loop_factory: HostFactory) -> Iterator[Stage]:
    with staged(loop_factory) as stage:
        yield stage


# --- tells ------------------------------------------------------------------------------------------------------------


def test_tells_of_each_thread_come_in_its_order(stage: Stage) -> None:
    log: list[tuple[int, int]] = []
    sink = stage.do(lambda: stage.loop.options(mailbox_cap=100_000).spawn(Sink, log))

    def send(who: int) -> None:
        for number in range(500):
            sink.put((who, number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(4)))
    assert elsewhere(sink.count.blocking) == 2000
    for who in range(4):
        assert [number for thread, number in log if thread == who] == list(range(500))


def test_a_tell_and_the_ask_after_it_keep_their_order(stage: Stage) -> None:
    sink = stage.do(lambda: stage.loop.spawn(Sink, []))

    def go() -> list[int]:
        counts: list[int] = []
        for number in range(50):
            sink.put(number)
            counts.append(sink.count.blocking())
        return counts

    assert elsewhere(go) == list(range(1, 51))


def test_a_full_mailbox_and_a_dead_target_are_told_to_the_calling_thread(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=CAP).spawn(Oracle))
    gate = Event()
    oracle.block(gate)
    stage.settle()

    def go() -> None:
        futures = [oracle.plain.future(number) for number in range(2)]
        oracle.note("third")
        with pytest.raises(MailboxFull):
            oracle.note("fourth")
        assert not oracle.note.try_send("fourth")
        for form in (oracle.plain.future, oracle.plain.blocking):
            with pytest.raises(MailboxFull):
                form(4)
        stage.do(gate.set)
        assert [future.result(PATIENCE) for future in futures] == [0, 1]
        oracle.stop()
        assert oracle.ended.blocking() is ExitReason.NORMAL
        with pytest.raises(NoSuchActor):
            oracle.note("late")
        assert not oracle.note.try_send("late")
        for form in (oracle.plain.future, oracle.plain.blocking):
            with pytest.raises(NoSuchActor):
                form(5)

    elsewhere(go)
    assert stage.do(stage.loop.ask_statistics).asked == 2


def test_wrong_arguments_are_a_type_error_of_the_calling_thread(stage: Stage) -> None:
    oracle: Any = stage.do(lambda: stage.loop.spawn(Oracle))

    def go() -> None:
        for form in (oracle.plain.future, oracle.plain.blocking, oracle.note, oracle.note.try_send):
            with pytest.raises(TypeError):
                form(1, 2, 3)

    elsewhere(go)


# --- the three forms of an ask ----------------------------------------------------------------------------------------


@pytest.mark.guarantee("G71")
def test_blocking_future_and_await_give_the_same(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))

    async def awaited() -> list[object]:
        return [await oracle.plain(1), await oracle.quick(2), await outcome(oracle.declared(KeyError("x")))]

    def blocked() -> list[object]:
        ends: list[object] = [oracle.plain.blocking(1), oracle.quick.blocking(2)]
        try:
            oracle.declared.blocking(KeyError("x"))
        except KeyError as error:
            ends.append(error)
        return ends

    def futures() -> list[object]:
        declared = oracle.declared.future(KeyError("x"))
        ends: list[object] = [
            oracle.plain.future(1).result(PATIENCE),
            oracle.quick.future(2).result(PATIENCE),
        ]
        return [*ends, declared.exception(PATIENCE)]

    for ends in (looping(awaited), elsewhere(blocked), elsewhere(futures)):
        assert ends[:2] == [1, 2]
        assert isinstance(ends[2], KeyError)
    assert books(stage) == {"answered": 6, "failed": 3}


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("way", ["stop", "kill", "panic"])
def test_the_end_of_the_target_ends_asks_from_afar(stage: Stage, way: str) -> None:
    oracle, gate = stage.do(lambda: stage.loop.spawn(Oracle)), Event()

    def go() -> list[BaseException | None]:
        at_hand, queued = oracle.held.future(gate), oracle.plain.future(1)
        stage.settle()
        if way == "panic":
            stage.do(lambda: stage.loop.fail_actor(id_of(oracle), Boom()))
        else:
            getattr(oracle, way)()
        return [at_hand.exception(PATIENCE), queued.exception(PATIENCE)]

    ends = elsewhere(go)
    assert [type(end) for end in ends] == [TargetEnded, TargetEnded]


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("overflow", [Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE])
def test_asks_from_afar_that_a_policy_gives_up_end(stage: Stage, overflow: Overflow) -> None:
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=CAP, overflow=overflow).spawn(Oracle))
    gate = Event()
    oracle.block(gate)
    stage.settle()

    def go() -> list[Future[int]]:
        futures = [oracle.plain.future(number) for number in range(100)]
        stage.settle()
        stage.do(gate.set)
        wait_futures(futures, PATIENCE)
        return futures

    futures = elsewhere(go)
    answered = [future.result() for future in futures if future.exception() is None]
    assert {type(future.exception()) for future in futures} == {type(None), MessageDropped}
    assert len(answered) == 3
    assert (99 in answered) == (overflow is not Overflow.DROP_NEWEST)
    assert books(stage) == {"answered": 3, "failed": 97}


def test_many_threads_ask_and_every_ask_ends_once(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=100_000).spawn(Oracle))

    def go(who: int) -> int:
        return sum(oracle.plain.blocking(who * 100 + number) for number in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(go, range(4))) == sum(range(400))
    assert books(stage) == {"answered": 400}


def test_an_event_loop_asks_another_ones_actors_many_at_a_time(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.options(mailbox_cap=100_000).spawn(Oracle))

    async def main() -> list[int]:
        return await asyncio.gather(*(oracle.quick(number) for number in range(300)))

    assert looping(main) == list(range(300))


def test_two_loops_ask_each_others_actors(stage: Stage, loop_factory: HostFactory) -> None:
    class Relay(Actor):
        @ask
        async def relay(self, oracle: Oracle, value: int) -> int:
            return await oracle.plain(value)

    with staged(loop_factory) as other:
        oracle, relay = stage.do(lambda: stage.loop.spawn(Oracle)), other.do(lambda: other.loop.spawn(Relay))
        assert elsewhere(lambda: [relay.relay.blocking(oracle, number) for number in range(20)]) == list(
            range(20)
        )
    assert books(stage) == {"answered": 20}


# --- where it makes no sense ------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G71")
def test_blocking_where_a_loop_runs_is_refused_at_once(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))

    def refused() -> None:
        with pytest.raises(LoopBusy):
            oracle.plain.blocking(1)
        with pytest.raises(LoopBusy):
            oracle.ended.blocking()

    async def main() -> None:
        refused()

    # On the actor's own thread, and on another one that runs an event loop.
    stage.do(refused)
    looping(main)
    assert stage.do(stage.loop.ask_statistics).asked == 0


@pytest.mark.guarantee("G71")
def test_blocking_on_the_thread_that_owns_the_loop_is_refused_though_nobody_runs_it(loop: Loop) -> None:
    with pytest.raises(LoopBusy):
        loop.spawn(Oracle).plain.blocking(1)


@pytest.mark.guarantee("G71")
def test_what_is_to_be_awaited_is_refused_where_nothing_can_be(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))

    def go() -> None:
        for form in (lambda: oracle.plain(1), lambda: oracle.note.when_room("x"), oracle.ended):
            with pytest.raises(LoopBusy):
                form()

    elsewhere(go)
    assert stage.do(stage.loop.ask_statistics).asked == 0


def test_a_future_can_be_asked_for_on_the_loops_own_thread(stage: Stage) -> None:
    oracle = stage.do(lambda: stage.loop.spawn(Oracle))

    async def ask_there() -> int:
        return await asyncio.wrap_future(oracle.plain.future(1))

    assert stage.submit(ask_there()).result(PATIENCE) == 1


def test_what_is_not_made_for_other_threads_says_so(stage: Stage) -> None:
    with pytest.raises(WrongThread):
        elsewhere(stage.loop.ask_statistics)
    with pytest.raises(WrongThread):
        elsewhere(lambda: stage.loop.spawn(Oracle))
