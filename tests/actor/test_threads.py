"""Handles on other threads, with and without an event loop: tells, asks, and errors."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_futures

import pytest

from bandstand.actor import Actor, ask, id_of
from bandstand.core import ExitReason, Overflow
from bandstand.errors import (
    LoopBusyError,
    MailboxFullError,
    MessageDroppedError,
    NoSuchActorError,
    TargetEndedError,
    WrongThreadError,
)
from tests.actor.asking import CAP, Oracle, outcome
from tests.actor.thread_loop import (
    PATIENCE,
    ThreadLoop,
    ask_counts,
    on_event_loop,
    on_thread,
    thread_loop,
)
from tests.core.support import Boom, HostFactory

pytestmark = pytest.mark.guarantee("G59")


@pytest.fixture
def owner(loop_factory: HostFactory) -> Iterator[ThreadLoop]:
    with thread_loop(loop_factory) as owner:
        yield owner


# --- tells ------------------------------------------------------------------------------------------------------------


def test_a_full_mailbox_and_an_ended_target_raise_in_the_calling_thread(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.options(mailbox=CAP).spawn(Oracle))
    gate = Event()
    oracle.block(gate)
    owner.settle()

    def go() -> None:
        futures = [oracle.plain.future(number) for number in range(2)]
        oracle.note("third")
        with pytest.raises(MailboxFullError):
            oracle.note("fourth")
        assert not oracle.note.try_send("fourth")
        for form in (oracle.plain.future, oracle.plain.blocking):
            with pytest.raises(MailboxFullError):
                form(4)
        owner.do(gate.set)
        assert [future.result(PATIENCE) for future in futures] == [0, 1]
        oracle.stop()
        assert oracle.ended.blocking() is ExitReason.NORMAL
        with pytest.raises(NoSuchActorError):
            oracle.note("late")
        assert not oracle.note.try_send("late")
        for form in (oracle.plain.future, oracle.plain.blocking):
            with pytest.raises(NoSuchActorError):
                form(5)

    on_thread(go)
    assert owner.do(owner.loop.ask_statistics).asked == 2


# --- the three forms of an ask ----------------------------------------------------------------------------------------


@pytest.mark.guarantee("G71")
def test_blocking_future_and_await_give_the_same_result(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))

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

    for ends in (on_event_loop(awaited), on_thread(blocked), on_thread(futures)):
        assert ends[:2] == [1, 2]
        assert isinstance(ends[2], KeyError)
    assert ask_counts(owner) == {"answered": 6, "failed": 3}


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("way", ["stop", "kill", "panic"])
def test_the_exit_of_the_target_ends_asks_from_other_threads(owner: ThreadLoop, way: str) -> None:
    oracle, gate = owner.do(lambda: owner.loop.spawn(Oracle)), Event()

    def go() -> list[BaseException | None]:
        at_hand, queued = oracle.held.future(gate), oracle.plain.future(1)
        owner.settle()
        if way == "panic":
            owner.do(lambda: owner.loop.fail_actor(id_of(oracle), Boom()))
        else:
            getattr(oracle, way)()
        return [at_hand.exception(PATIENCE), queued.exception(PATIENCE)]

    ends = on_thread(go)
    assert [type(end) for end in ends] == [TargetEndedError, TargetEndedError]


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("overflow", [Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE])
def test_asks_from_other_threads_that_a_policy_drops_end(owner: ThreadLoop, overflow: Overflow) -> None:
    oracle = owner.do(lambda: owner.loop.options(mailbox=CAP, overflow=overflow).spawn(Oracle))
    gate = Event()
    oracle.block(gate)
    owner.settle()

    def go() -> list[Future[int]]:
        futures = [oracle.plain.future(number) for number in range(100)]
        owner.settle()
        owner.do(gate.set)
        wait_futures(futures, PATIENCE)
        return futures

    futures = on_thread(go)
    answered = [future.result() for future in futures if future.exception() is None]
    assert {type(future.exception()) for future in futures} == {type(None), MessageDroppedError}
    assert len(answered) == 3
    assert (99 in answered) == (overflow is not Overflow.DROP_NEWEST)
    assert ask_counts(owner) == {"answered": 3, "failed": 97}


def test_two_loops_ask_each_others_actors(owner: ThreadLoop, loop_factory: HostFactory) -> None:
    class Relay(Actor):
        @ask
        async def relay(self, oracle: Oracle, value: int) -> int:
            return await oracle.plain(value)

    with thread_loop(loop_factory) as other:
        oracle, relay = owner.do(lambda: owner.loop.spawn(Oracle)), other.do(lambda: other.loop.spawn(Relay))
        assert on_thread(lambda: [relay.relay.blocking(oracle, number) for number in range(20)]) == list(
            range(20)
        )
    assert ask_counts(owner) == {"answered": 20}


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G71")
def test_blocking_on_a_thread_with_a_running_loop_is_refused(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))

    def refused() -> None:
        with pytest.raises(LoopBusyError):
            oracle.plain.blocking(1)
        with pytest.raises(LoopBusyError):
            oracle.ended.blocking()

    async def main() -> None:
        refused()

    # On the actor's own thread, and on another thread with an event loop.
    owner.do(refused)
    on_event_loop(main)
    assert owner.do(owner.loop.ask_statistics).asked == 0


@pytest.mark.guarantee("G71")
def test_an_awaitable_is_refused_on_a_thread_without_event_loop(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))

    def go() -> None:
        for form in (lambda: oracle.plain(1), lambda: oracle.note.when_room("x"), oracle.ended):
            with pytest.raises(LoopBusyError):
                form()

    on_thread(go)
    assert owner.do(owner.loop.ask_statistics).asked == 0


def test_a_future_can_be_requested_on_the_loops_own_thread(owner: ThreadLoop) -> None:
    oracle = owner.do(lambda: owner.loop.spawn(Oracle))

    async def ask_there() -> int:
        return await asyncio.wrap_future(oracle.plain.future(1))

    assert owner.submit(ask_there()).result(PATIENCE) == 1


def test_methods_of_the_loop_refuse_other_threads(owner: ThreadLoop) -> None:
    with pytest.raises(WrongThreadError):
        on_thread(owner.loop.ask_statistics)
    with pytest.raises(WrongThreadError):
        on_thread(lambda: owner.loop.spawn(Oracle))
