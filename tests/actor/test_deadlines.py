"""Deadlines of asks, in virtual time: where they come from, when they expire, their error, and late answers."""

from __future__ import annotations

import asyncio
import gc
import weakref
from asyncio import Event
from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Reply, ask
from bandstand.errors import AskTimeoutError, DeclarationError, InvalidArgumentError
from bandstand.testing import VirtualClock
from tests.actor.asking import Oracle, ended, is_at_rest, is_pending, outcome, turns, watch

pytestmark = pytest.mark.guarantee("G61")

DEFAULT = 5000


class Patient(Oracle, ask_timeout=30.0):
    """Has a longer deadline."""


class Endless(Oracle, ask_timeout=None):
    """Has no deadline."""


class Heir(Patient):
    """Inherits the deadline."""


def waited(clock: VirtualClock, since: int) -> float:
    return (clock.now_ns() - since) / 1e6


WAYS: dict[str, tuple[Callable[[ActorSystem], Reply[int]], float]] = {
    "default": (lambda loop: loop.spawn(Oracle).held(Event()), DEFAULT),
    "class": (lambda loop: loop.spawn(Patient).held(Event()), 30_000),
    "base class": (lambda loop: loop.spawn(Heir).held(Event()), 30_000),
    "spawn": (lambda loop: loop.options(ask_timeout=0.07).spawn(Patient).held(Event()), 70),
    "call": (lambda loop: loop.options(ask_timeout=0.07).spawn(Patient).held.within(0.009)(Event()), 9),
    "spawn with 0": (lambda loop: loop.options(ask_timeout=0).spawn(Oracle).held(Event()), 0),
    "call with 0": (lambda loop: loop.spawn(Oracle).held.within(0)(Event()), 0),
    "a fraction": (lambda loop: loop.spawn(Oracle).held.within(0.0002)(Event()), 1),
    "a day": (lambda loop: loop.spawn(Oracle).held.within(24 * 3600)(Event()), 24 * 3600 * 1000),
}
ENDLESS: dict[str, Callable[[ActorSystem, Event], Reply[int]]] = {
    "class": lambda loop, gate: loop.spawn(Endless).held(gate),
    "spawn": lambda loop, gate: loop.options(ask_timeout=None).spawn(Oracle).held(gate),
    "call": lambda loop, gate: loop.spawn(Oracle).held.within(None)(gate),
}


@pytest.mark.parametrize("way", WAYS)
async def test_where_a_deadline_comes_from(
    virtual_system: ActorSystem, clock: VirtualClock, way: str
) -> None:
    ask_so, ms = WAYS[way]
    start = clock.now_ns()
    with pytest.raises(AskTimeoutError):
        await ask_so(virtual_system)
    # Never early; late by at most two roundings to whole milliseconds.
    assert ms <= waited(clock, start) <= ms + 2
    assert ended(virtual_system.ask_statistics()) == {"expired": 1}


@pytest.mark.parametrize("way", ENDLESS)
async def test_none_means_no_deadline(virtual_system: ActorSystem, way: str) -> None:
    gate = Event()
    reply = watch(ENDLESS[way](virtual_system, gate))
    oracle = virtual_system.spawn(Oracle)
    assert await oracle.slow.within(None)(365 * 24 * 3600 * 1000, 1) == 1
    assert not reply.done()
    gate.set()
    assert await reply == 0


@pytest.mark.parametrize("ms", [-1, -0.5, nan, inf, "5", True, 10**13, timedelta(seconds=-1)])
def test_an_invalid_deadline_is_refused(loop: ActorSystem, ms: Any) -> None:
    oracle = loop.spawn(Oracle)
    with pytest.raises(InvalidArgumentError, match="pass seconds"):
        oracle.plain.within(ms)
    if ms != -1:  # which means the class's default there
        with pytest.raises(InvalidArgumentError, match="ask_timeout"):
            loop.options(ask_timeout=ms)
        with pytest.raises((InvalidArgumentError, DeclarationError), match="ask_timeout"):
            type("Bad", (Actor,), {}, ask_timeout=ms)


async def test_the_timeout_error_names_target_method_time_and_depth(virtual_system: ActorSystem) -> None:
    oracle = virtual_system.options(name="delphi").spawn(Oracle)
    reply = oracle.held.within(0.25)(Event())
    await turns()
    for number in range(3):
        oracle.note(str(number))
    error = await outcome(reply)
    assert isinstance(error, AskTimeoutError)
    assert isinstance(error, TimeoutError)
    assert "'delphi'" in error.target
    assert error.method == "Oracle.held()"
    assert 0.25 <= error.waited <= 0.252
    assert error.depth == 3
    for part in ("'delphi'", "Oracle.held()", f"{error.waited * 1000:.0f} ms", "3 more messages"):
        assert part in str(error)


async def test_an_ask_that_is_awaited_after_its_deadline_ends_at_once(
    virtual_system: ActorSystem, clock: VirtualClock
) -> None:
    reply = virtual_system.spawn(Oracle).held.within(0.1)(Event())
    await virtual_system.spawn(Oracle).slow(3000)
    assert is_pending(reply)
    before = clock.now_ns()
    error = await outcome(reply)
    assert isinstance(error, AskTimeoutError)
    assert error.waited >= 3
    assert waited(clock, before) <= 1


async def test_an_answer_cancels_the_timer(virtual_system: ActorSystem, clock: VirtualClock) -> None:
    oracle = virtual_system.spawn(Oracle)
    for number in range(50):
        assert await oracle.slow(1, number) == number
    # No timer is left.
    assert is_at_rest(virtual_system)
    start = clock.now_ns()
    assert await oracle.slow.within(None)(2 * DEFAULT) == 0
    assert waited(clock, start) >= 2 * DEFAULT
    assert ended(virtual_system.ask_statistics()) == {"answered": 51}


@pytest.mark.guarantee("G60")
@pytest.mark.parametrize("wait_in", ["handler", "mailbox"])
async def test_a_late_answer_is_dropped_and_counted(virtual_system: ActorSystem, wait_in: str) -> None:
    log: list[str] = []
    oracle, gate = virtual_system.spawn(Oracle, log), Event()
    if wait_in == "mailbox":
        oracle.block(gate)
    reply = oracle.held.within(0.01)(gate, 1)
    first = await outcome(reply)
    assert isinstance(first, AskTimeoutError)
    assert virtual_system.ask_statistics().late == 0
    gate.set()
    await turns()
    # The handler continued, and its answer was dropped.
    assert log == ["begins 1", "goes on 1"]
    assert ended(virtual_system.ask_statistics()) == {"expired": 1, "late": 1}
    assert str(await outcome(reply)) == str(first)
    assert await oracle.plain(2) == 2


class Sleeper(Actor):
    @ask
    async def never(self) -> None:
        await asyncio.Event().wait()


class Token:
    """Held by an asker."""


@pytest.mark.slow
@pytest.mark.guarantee("G61")
def test_a_queued_ask_does_not_keep_its_asker_alive(loop: ActorSystem, clock: VirtualClock) -> None:
    """The traceback of the error must not hold the asker's frames while its message is queued."""
    held: list[weakref.ref[Token]] = []

    async def asker(sleeper: Sleeper) -> None:
        token = Token()
        held.append(weakref.ref(token))
        with pytest.raises(AskTimeoutError):
            await sleeper.never.within(0.01)()

    async def main() -> None:
        async with loop:
            sleeper = loop.spawn(Sleeper)
            for _ in range(3):
                await asker(sleeper)
            gc.collect()
            assert [token() for token in held] == [None] * 3
            assert loop.statistics().waiting == 2

    clock.run(main())
