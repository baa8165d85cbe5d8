"""The soak, short: a few seeds in this lane's mode and on its event loop. `make soak` runs it for minutes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.bus import Frame, UnixAdapter, node
from bandstand.bus.stats import BusCounters
from bandstand.core import ActorId, Loop, LoopConfig, TimerId
from tests.faulty_ingress import FaultyIngress, FaultyLine, start_with
from tests.soak import world
from tests.soak.alarms import listening
from tests.soak.concert import Concert
from tests.soak.marathon import run
from tests.soak.memory import BLOCKS_TOLERANCE, RESIDENT_TOLERANCE, Memory
from tests.soak.plan import LoopFactory, Plan

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow]


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.soak", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.real_time(reason="threads, descriptors and timers of the machine are what a soak is about")
@pytest.mark.guarantee("G4", "G5", "G10", "G16", "G17", "G21", "G23", "G36", "G37")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_books_balance_in_a_storm(
    seed: int, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    report = run(seed, 1.6, loop_factories=(loop_factory,))
    assert report.failures == [], f"seed {seed}"
    assert report.mode == _build_mode.mode()
    assert report.counts["handled"] > 0


@pytest.mark.real_time(reason="sockets, threads and timers of the machine are what a soak is about")
@pytest.mark.spec("C11", "C17", "C30")
@pytest.mark.guarantee("G74", "G80", "G81", "G82", "G85", "G87")
@pytest.mark.parametrize("seed", range(4))
def test_the_books_of_a_node_balance_whatever_its_clients_do(
    seed: int, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    assert performed(seed, loop_factory) == []


def performed(seed: int, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> list[str]:
    """What is wrong with a short concert."""
    failures: list[str] = []
    concert = Concert(f"test/{seed}", 0.6, loop_factory)
    with listening(failures.append):
        concert.play(failures.append)
    assert concert.counts["bus_answered"] > 0
    return failures


@pytest.mark.once
@pytest.mark.real_time(reason="the soak itself needs it")
def test_it_notices_an_answer_that_is_given_twice(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(line: Any, frame: Frame, settles: bool) -> bool | None:
        # Only answers to requests settle.
        return line.deliver(frame, settles) and (not settles or line.deliver(frame, settles=False))

    class Twice(FaultyIngress):
        def wrap(self, line: Any) -> Any:
            return FaultyLine(line, twice)

    monkeypatch.setattr(UnixAdapter, "start", start_with(Twice))
    assert any("answered more than once" in failure for failure in performed(1, loop_factory))


@pytest.mark.once
@pytest.mark.real_time(reason="the soak itself needs it")
def test_it_notices_a_failure_that_is_counted_twice(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    class CountsFailuresTwice(BusCounters):
        def fail(self, error_type: str) -> None:
            super().fail(error_type)
            super().fail(error_type)

    monkeypatch.setattr(node, "BusCounters", CountsFailuresTwice)
    assert any("of the node do not balance" in failure for failure in performed(1, loop_factory))


@pytest.mark.once
def test_the_program_reports_its_seed_and_its_result() -> None:
    result = soak("--seconds", "0.5", "--seed", "5", "--json")
    assert result.returncode == 0, result.stderr
    assert "seed 5" in result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["failures"]) == (5, [])
    assert report["worlds"] >= 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seconds", "0"], "--seconds is 0: pass a number above 0"),
        (["--seconds", "long"], "invalid float value: 'long'"),
        (["--world", "-1"], "--world is -1: pass a number from 0 on"),
        (["--wet"], "unrecognized arguments: --wet"),
    ],
)
def test_a_wrong_option_is_a_sentence(arguments: list[str], sentence: str) -> None:
    result = soak(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


@pytest.mark.once
def test_help_has_examples() -> None:
    result = soak("--help")
    assert result.returncode == 0
    assert "python -m tests.soak --seed 7 --seconds 10" in result.stdout


# --- would it notice? -------------------------------------------------------------------------------------------------


class Saboteur(Loop):
    """A loop with a fault, one call in so many."""

    every = 100
    calls = 0

    def is_time(self) -> bool:
        self.calls += 1
        return self.calls % self.every == 0


class Losing(Saboteur):
    def send(self, *arguments: Any, **options: Any) -> None:
        if not self.is_time():
            super().send(*arguments, **options)


class Doubling(Saboteur):
    def send(self, *arguments: Any, **options: Any) -> None:
        super().send(*arguments, **options)
        if self.is_time():
            super().send(*arguments, **options)


class Hasty(Saboteur):
    def send_after(self, target: Any, delay: Any, *arguments: Any, **options: Any) -> TimerId:
        return super().send_after(target, delay / 2 if self.is_time() else delay, *arguments, **options)


class Forgetful(Saboteur):
    def cancel_timer(self, timer: TimerId) -> None:
        if not self.is_time():
            super().cancel_timer(timer)


class Deaf(Saboteur):
    """Forgets that somebody wants to hear of a child's end."""

    every = 3

    def spawn(self, *arguments: Any, **options: Any) -> ActorId:
        if self.is_time():
            options["supervisor"] = None
        return super().spawn(*arguments, **options)


class Mixed(Saboteur):
    """Holds a message back until the next one has gone before it."""

    held: tuple[Any, Any] | None = None

    def send(self, *arguments: Any, **options: Any) -> None:
        if self.held is None and self.is_time():
            self.held = arguments, options
            return
        super().send(*arguments, **options)
        if self.held is not None and self.held[0][0] == arguments[0]:
            (arguments, options), self.held = self.held, None
            super().send(*arguments, **options)


class Leaky(Loop):
    """Leaves a descriptor behind."""

    left: tuple[int, ...] = ()

    def destroy(self) -> None:
        super().destroy()
        Leaky.left += os.pipe()


@pytest.mark.once
@pytest.mark.real_time(reason="the soak itself needs it")
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Losing, "messages were lost|have no fate|sent by users"),
        (Doubling, "it came twice, or was never accepted"),
        (Hasty, "ns early|out of order"),
        (Forgetful, "cancelled"),
        (Deaf, "never heard of the end"),
        (Mixed, "out of order|sent by users|messages were lost"),
        (Leaky, "descriptor [0-9]+ is still open"),
    ],
)
def test_it_notices(fault: type[Loop], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "Loop", fault)
    monkeypatch.setattr(Plan, "draw", classmethod(_storm))
    failures: list[str] = []
    # Longer where that was too short: on a machine that is busy, little happens in four seconds.
    for seed, seconds in ((1, 4.0), (2, 12.0), (3, 36.0)):
        failures += run(seed, seconds).failures
        for left in Leaky.left:
            os.close(left)
        Leaky.left = ()
        if any(re.search(sentence, failure) for failure in failures):
            return
    pytest.fail(f"nobody noticed that {fault.__doc__}: {failures}")


def _storm(_plan: type[Plan], _random: Random, _seconds: float, factories: tuple[LoopFactory, ...]) -> Plan:
    return Plan(
        drive="run",
        end="settle",
        seconds=0.5,
        config=LoopConfig(loop_factory=factories[0]),
        loop_factory=factories[0],
        population=60,
        threads=0,
        is_observed=True,
        mischief=0.0,
        is_shuffled=False,
    )


@pytest.mark.once
def test_memory_that_grows_is_a_sentence() -> None:
    then = Memory(0, 0)
    assert Memory(RESIDENT_TOLERANCE, BLOCKS_TOLERANCE).growth(then) == []
    resident, blocks = Memory(RESIDENT_TOLERANCE + 1, BLOCKS_TOLERANCE + 1).growth(then)
    assert "MiB more are resident" in resident
    assert f"{BLOCKS_TOLERANCE + 1} more blocks" in blocks
