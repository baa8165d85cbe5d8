"""How asks end: with an answer, a declared error, the exit of the actor, or dropped by a full mailbox."""

from __future__ import annotations

import asyncio
from asyncio import Event
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask, id_of, is_alive
from bandstand.core import ExitReason, Overflow
from bandstand.errors import (
    ActorKilledError,
    MessageDroppedError,
    NoSuchActorError,
    TargetEndedError,
)
from tests.actor.asking import CAP, Oracle, RunSystem, ended, is_pending, outcome, turns, watch
from tests.actor.players import Book
from tests.core.support import Boom

pytestmark = pytest.mark.guarantee("G60")


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_an_answer_is_what_the_handler_returns(system: ActorSystem) -> None:
    oracle, gate = system.spawn(Oracle), Event()
    assert await oracle.plain(1) == 1
    assert await oracle.plain(value=2) == 2
    assert await oracle.plain() == 0
    assert await oracle.quick(3) == 3
    held = watch(oracle.held(gate, value=4))
    await turns()
    assert not held.done()
    gate.set()
    assert await held == 4
    assert ended(system.ask_statistics()) == {"answered": 5}


@pytest.mark.guarantee("G64")
@pytest.mark.parametrize("method", ["declared", "declared_later"])
async def test_a_declared_exception_is_an_answer(system: ActorSystem, method: str) -> None:
    oracle = system.spawn(Oracle)
    # LookupError, the base of KeyError, is declared.
    error = KeyError("x")
    with pytest.raises(KeyError) as caught:
        await getattr(oracle, method)(error)
    assert caught.value is error
    assert await oracle.plain(1) == 1
    assert ended(system.ask_statistics()) == {"answered": 1, "failed": 1}


# --- the exit of the actor --------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G64")
@pytest.mark.parametrize("method", ["broken", "broken_later"])
async def test_a_panic_fails_the_current_and_the_queued_asks(system: ActorSystem, method: str) -> None:
    oracle = system.options(name="delphi").spawn(Oracle)
    replies: list[Reply[int]] = [getattr(oracle, method)(), oracle.plain(1), oracle.quick(2)]
    ends: list[Any] = [await outcome(reply) for reply in replies]
    for end, asked in zip(ends, (method, "plain", "quick"), strict=True):
        assert type(end) is TargetEndedError
        assert type(end.__cause__) is Boom
        assert end.reason == "PANIC"
        assert "'delphi'" in end.target
        assert end.method == f"Oracle.{asked}()"
        assert "'delphi'" in str(end)
        assert f"Oracle.{asked}()" in str(end)
        assert "Boom" in str(end)
    assert ends[0].__cause__ is ends[1].__cause__
    assert not is_alive(oracle)
    assert ended(system.ask_statistics()) == {"failed": 3}


@pytest.mark.parametrize("at_hand", [True, False], ids=["in flight", "idle"])
@pytest.mark.parametrize(
    ("way", "reason", "cause"),
    [("stop", "NORMAL", None), ("kill", "FAIL", ActorKilledError), ("fail", "FAIL", Boom)],
)
async def test_an_exit_ends_the_current_ask_and_the_queued_ones(
    system: ActorSystem, way: str, reason: str, cause: type[BaseException] | None, at_hand: bool
) -> None:
    oracle = system.spawn(Oracle)
    replies: list[Reply[int]] = []
    if at_hand:
        replies.append(oracle.held(Event()))
        await turns()
    replies += [oracle.plain(1), oracle.quick(2)]
    if way == "fail":
        system.fail_actor(id_of(oracle), Boom("from outside"))
    else:
        getattr(oracle, way)()
    with pytest.raises(NoSuchActorError):
        oracle.plain(3)  # type: ignore[unused-awaitable]  # the call raises
    for reply in replies:
        end = await outcome(reply)
        assert type(end) is TargetEndedError
        assert end.reason == reason
        assert type(end.__cause__) is (cause or type(None))
    assert system.ask_statistics().failed == len(replies)


async def test_an_answer_of_a_handler_that_is_being_stopped_counts(system: ActorSystem) -> None:
    oracle, second = system.spawn(Oracle), Event()
    at_hand, queued = watch(oracle.stubborn(Event(), second, 7)), oracle.plain()
    await turns()
    oracle.stop()
    await turns()
    assert not at_hand.done()
    second.set()
    assert await at_hand == 7
    assert type(await outcome(queued)) is TargetEndedError


async def test_an_actor_that_stops_in_an_ask_answers_only_that_one(system: ActorSystem) -> None:
    oracle = system.spawn(Oracle)
    last, queued = oracle.last(1), oracle.plain(2)
    assert await last == 1
    assert type(await outcome(queued)) is TargetEndedError
    assert await oracle.ended() is ExitReason.NORMAL


@pytest.mark.guarantee("G65")
async def test_a_drain_answers_queued_asks_and_refuses_new_ones(system: ActorSystem) -> None:
    oracle, gate = system.spawn(Oracle), Event()
    replies = [oracle.held(gate, 1), oracle.plain(2), oracle.quick(3)]
    await turns()
    oracle.stop(drain=True)
    with pytest.raises(NoSuchActorError):
        oracle.plain(4)  # type: ignore[unused-awaitable]  # the call raises
    assert is_pending(*replies)
    gate.set()
    assert [await reply for reply in replies] == [1, 2, 3]
    assert await oracle.ended() is ExitReason.NORMAL


def test_the_end_of_the_loop_ends_every_ask(run_everywhere: RunSystem) -> None:
    tasks: list[asyncio.Task[Any]] = []
    replies: list[Reply[int]] = []

    async def story(loop: ActorSystem) -> None:
        oracle, idle = loop.spawn(Oracle), loop.spawn(Oracle)
        replies.extend([oracle.held(Event()), oracle.plain(), oracle.quick()])
        tasks.extend(watch(reply) for reply in replies)
        await turns()
        # Asked, and the loop ends before the ask is handled.
        replies.append(idle.plain())

    loop = run_everywhere(story)
    assert all(type(task.result()) is TargetEndedError for task in tasks)
    assert len(tasks) == 3
    assert all(reply.done() for reply in replies)
    assert ended(loop.ask_statistics()) == {"failed": 4}


async def test_a_handler_that_raises_its_own_cancelled_error_fails_the_actor(system: ActorSystem) -> None:
    class Confused(Actor):
        @ask
        async def confused(self) -> int:
            never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            never.cancel()
            return await never

    end = await outcome(system.spawn(Confused).confused())
    assert type(end) is TargetEndedError
    assert end.reason == "PANIC"
    assert type(end.__cause__) is asyncio.CancelledError


# --- full mailboxes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overflow", "lost"), [(Overflow.DROP_NEWEST, 3), (Overflow.DROP_OLDEST, 0), (Overflow.CONFLATE, 2)]
)
async def test_an_ask_that_a_policy_drops_ends(system: ActorSystem, overflow: Overflow, lost: int) -> None:
    oracle = system.options(name="delphi", mailbox=CAP, overflow=overflow).spawn(Oracle)
    replies = [oracle.plain(number) for number in range(4)]
    assert [reply.done() for reply in replies] == [number == lost for number in range(4)]
    with pytest.raises(MessageDroppedError, match=r"Oracle\.plain\(\), asked of 'delphi'"):
        await replies[lost]
    rest = [number for number in range(4) if number != lost]
    assert [await replies[number] for number in rest] == rest
    assert ended(system.ask_statistics()) == {"answered": 3, "failed": 1}


# --- counters ---------------------------------------------------------------------------------------------------------


class Wrapped(Actor):
    """Its plain methods return coroutines, as a careless decorator would make them."""

    def __init__(self, gate: Event | None = None) -> None:
        self.gate = gate
        self.log: Book = []

    async def _work(self, value: int) -> int:
        if self.gate is not None:
            try:
                await self.gate.wait()
            finally:
                self.log.append("gone")
        if value < 0:
            raise LookupError(value)
        return value

    @ask
    def value(self, value: int) -> int:
        work: Any = self._work(value)
        return work  # type: ignore[no-any-return]  # type checkers would refuse it

    @ask(raises=LookupError)
    def declared(self, value: int) -> int:
        work: Any = self._work(value)
        return work  # type: ignore[no-any-return]  # likewise

    @ask
    def seen(self) -> Book:
        return self.log


@pytest.mark.guarantee("G60")
async def test_a_coroutine_returned_by_a_plain_handler_is_awaited(system: ActorSystem) -> None:
    wrapped = system.spawn(Wrapped)
    assert await wrapped.value(7) == 7
    assert await wrapped.declared(8) == 8
    error = await outcome(wrapped.declared(-1))
    assert isinstance(error, LookupError)
    assert is_alive(wrapped)

    gate = Event()
    waiting = system.spawn(Wrapped, gate)
    reply = waiting.value(9)
    await turns()
    assert not reply.done()
    reply.cancel()
    assert await waiting.seen() == ["gone"]
