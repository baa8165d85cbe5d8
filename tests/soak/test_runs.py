"""Short soaks in this lane's mode and on its event loop, and the faults that they must find. `make soak` runs for minutes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.core import ActorId, Loop, LoopConfig, TimerId
from tests.soak import loop_run
from tests.soak.loop_run import LoopFactory, Settings
from tests.soak.memory import BLOCKS_TOLERANCE, RESIDENT_TOLERANCE, Memory
from tests.soak.runs import soak

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow]


@pytest.mark.real_time(reason="it needs threads, descriptors and timers of the machine")
@pytest.mark.guarantee("G4", "G5", "G10", "G16", "G17", "G21", "G23", "G36", "G37")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_loops_keep_their_guarantees_under_random_load(seed: int, loop_factory: LoopFactory) -> None:
    report = soak(seed, 1.6, loop_factories=(loop_factory,))
    assert report.failures == [], f"seed {seed}"
    assert report.mode == _build_mode.mode()
    assert report.counts["handled"] > 0


# --- faults of a loop that a soak must find ---------------------------------------------------------------------------


class FaultyLoop(Loop):
    """A loop with a fault in one call of so many."""

    every = 100
    calls = 0

    def fails_now(self) -> bool:
        self.calls += 1
        return self.calls % self.every == 0


class LosesMessages(FaultyLoop):
    def send(self, *arguments: Any, **options: Any) -> None:
        if not self.fails_now():
            super().send(*arguments, **options)


class SendsTwice(FaultyLoop):
    def send(self, *arguments: Any, **options: Any) -> None:
        super().send(*arguments, **options)
        if self.fails_now():
            super().send(*arguments, **options)


class FiresEarly(FaultyLoop):
    def send_after(self, target: Any, delay: Any, *arguments: Any, **options: Any) -> TimerId:
        return super().send_after(target, delay / 2 if self.fails_now() else delay, *arguments, **options)


class IgnoresCancellation(FaultyLoop):
    def cancel_timer(self, timer: TimerId) -> None:
        if not self.fails_now():
            super().cancel_timer(timer)


class ForgetsSupervisors(FaultyLoop):
    every = 3

    def spawn(self, *arguments: Any, **options: Any) -> ActorId:
        if self.fails_now():
            options["supervisor"] = None
        return super().spawn(*arguments, **options)


class SendsOutOfOrder(FaultyLoop):
    """Holds a message back until the next one to the same actor was sent."""

    held: tuple[Any, Any] | None = None

    def send(self, *arguments: Any, **options: Any) -> None:
        if self.held is None and self.fails_now():
            self.held = arguments, options
            return
        super().send(*arguments, **options)
        if self.held is not None and self.held[0][0] == arguments[0]:
            (arguments, options), self.held = self.held, None
            super().send(*arguments, **options)


class LeavesDescriptors(Loop):
    left: tuple[int, ...] = ()

    def destroy(self) -> None:
        super().destroy()
        LeavesDescriptors.left += os.pipe()


@pytest.mark.once
@pytest.mark.real_time(reason="the soak itself needs it")
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (LosesMessages, "messages were lost"),
        (SendsTwice, "it came twice"),
        (FiresEarly, "ns early|out of order"),
        (IgnoresCancellation, "cancelled"),
        (ForgetsSupervisors, "never heard of the end"),
        (SendsOutOfOrder, "out of order|messages were lost"),
        (LeavesDescriptors, "descriptor [0-9]+ is still open"),
    ],
)
def test_a_loop_run_finds_a_fault(fault: type[Loop], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(
        _settings: type[Settings], _random: Random, _seconds: float, factories: tuple[LoopFactory, ...]
    ) -> Settings:
        return Settings(drive="run", end="idle", seconds=0.5, config=LoopConfig(loop_factory=factories[0]))

    monkeypatch.setattr(loop_run, "Loop", fault)
    monkeypatch.setattr(Settings, "draw", classmethod(draw))
    failures: list[str] = []
    # Longer if that was too short: on a busy machine, little happens in four seconds.
    for seed, seconds in ((1, 4.0), (2, 12.0), (3, 36.0)):
        failures += soak(seed, seconds).failures
        for left in LeavesDescriptors.left:
            os.close(left)
        LeavesDescriptors.left = ()
        if any(re.search(sentence, failure) for failure in failures):
            return
    pytest.fail(f"the fault of {fault.__name__} was not found: {failures}")


@pytest.mark.once
def test_memory_that_grows_is_a_failure() -> None:
    then = Memory(0, 0)
    assert Memory(RESIDENT_TOLERANCE, BLOCKS_TOLERANCE).growth(then) == []
    resident, blocks = Memory(RESIDENT_TOLERANCE + 1, BLOCKS_TOLERANCE + 1).growth(then)
    assert "MiB more are resident" in resident
    assert f"{BLOCKS_TOLERANCE + 1} more blocks" in blocks


# --- the program ------------------------------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.soak", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.once
def test_the_program_reports_its_seed_and_its_result() -> None:
    result = program("--seconds", "0.5", "--seed", "5", "--json")
    assert result.returncode == 0, result.stderr
    assert "seed 5" in result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["failures"]) == (5, [])
    assert report["runs"] >= 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seconds", "0"], "--seconds is 0: pass a number above 0"),
        (["--seconds", "long"], "invalid float value: 'long'"),
        (["--first", "-1"], "--first is -1: pass a number from 0 on"),
        (["--wet"], "unrecognized arguments: --wet"),
    ],
)
def test_the_program_explains_a_wrong_option(arguments: list[str], sentence: str) -> None:
    result = program(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
