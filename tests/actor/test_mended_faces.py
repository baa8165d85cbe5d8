"""What once went wrong with classes, declarations and what callers see."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from bandstand.actor import Actor, Loop, Reply, ask, is_alive
from bandstand.testing import VirtualClock
from tests.actor.abroad import looping, staged
from tests.actor.answers import answer
from tests.actor.asking import Oracle, Play, in_time, outcome, turns
from tests.actor.players import Book
from tests.core.stage import HostFactory

T = TypeVar("T")


@pytest.fixture
def play(clock: VirtualClock) -> Play:
    return in_time(clock)


# --- what can be spawned ------------------------------------------------------------------------------------------------


# --- what can be declared -----------------------------------------------------------------------------------------------


# --- what callers see ---------------------------------------------------------------------------------------------------


class Wrapped(Actor):
    """Its plain methods return coroutines, as those do that a careless decorator has wrapped."""

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
        return work  # type: ignore[no-any-return]  # what checkers would refuse

    @ask(raises=LookupError)
    def declared(self, value: int) -> int:
        work: Any = self._work(value)
        return work  # type: ignore[no-any-return]  # likewise

    @ask
    def seen(self) -> Book:
        return self.log


@pytest.mark.guarantee("G60")
def test_a_coroutine_that_a_plain_handler_returns_is_performed_and_not_the_answer(play: Play) -> None:
    async def story(loop: Loop) -> None:
        wrapped = loop.spawn(Wrapped)
        assert await wrapped.value(7) == 7
        assert await wrapped.declared(8) == 8
        error = await outcome(wrapped.declared(-1))
        assert isinstance(error, LookupError)
        assert is_alive(wrapped)

        gate = Event()
        waiting = loop.spawn(Wrapped, gate)
        reply = waiting.value(9)
        await turns()
        assert not reply.done()
        reply.cancel()
        assert await waiting.seen() == ["gone"]

    play(story)


def refuse_truth(reply: Reply[Any]) -> None:
    truth: Callable[[object], bool] = bool
    with pytest.raises(TypeError, match="await it"):
        truth(reply)


@pytest.mark.guarantee("G60")
def test_a_reply_is_neither_true_nor_false(loop: Loop) -> None:
    oracle = loop.spawn(Oracle)
    reply = oracle.plain(1)
    refuse_truth(reply)
    assert answer(loop, reply) == 1
    refuse_truth(reply)
    refuse_truth(oracle.ended())


@pytest.mark.guarantee("G60")
def test_a_reply_on_another_thread_is_neither_true_nor_false(loop_factory: HostFactory) -> None:
    with staged(loop_factory) as stage:
        oracle = stage.do(lambda: stage.loop.spawn(Oracle))

        async def main() -> int:
            reply = oracle.plain(2)
            refuse_truth(reply)
            return await reply

        assert looping(main) == 2
