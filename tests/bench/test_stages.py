"""Every stage plays a program to its end, counts what arrived, and says so when a handler fails instead of waiting for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import threads
from bench.stages import STAGES

ROOT = Path(__file__).resolve().parents[2]
OURS = {"raw", "queues"}
PEERS = {"pykka": {"pykka"}, "thespian": {"thespian"}, "xoscar": {"xoscar", "uvloop"}}
"""What a stage needs that may not be installed."""

pytestmark = [pytest.mark.once, pytest.mark.slow]


def told(kind: str, program: str) -> tuple[int, str]:
    """What a child says that plays a program of `tests.bench.programs` on a stage: its figures, or the sentence."""
    python = Path(sys.executable) if kind in OURS else threads.PYTHON
    if not python.exists():
        pytest.skip("there is no environment of the peers here; `make bench` makes it")
    done = subprocess.run(
        [str(python), "-m", "tests.bench.programs", STAGES[kind], program],  # type: ignore[index]
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src", "BANDSTAND_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    said = (done.stdout or done.stderr).strip().splitlines()
    if any(said[-1].endswith(f"No module named '{name}'") for name in PEERS.get(kind, ())):
        pytest.skip(said[-1])
    return done.returncode, said[-1]


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(("program", "count"), [("ping_pong", 100), ("mayflies", 20)])
def test_a_stage_counts_actors_that_handlers_make(kind: str, program: str, count: int) -> None:
    code, said = told(kind, program)
    assert code == 0, said
    assert json.loads(said) == {"sent": count, "handled": count, "operations": count}


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize(
    ("program", "sentence"),
    [("lossy", "100 were sent and 99 handled"), ("failing", "a handler failed")],
)
def test_a_program_that_goes_wrong_has_no_figure(kind: str, program: str, sentence: str) -> None:
    code, said = told(kind, program)
    assert (code, sentence in said) == (1, True), said


# Pykka's threads are waited for.
@pytest.mark.parametrize("kind", sorted(set(STAGES) - {"pykka"}))
def test_an_actor_that_does_not_end_costs_the_figure(kind: str) -> None:
    assert told(kind, "immortal") == (1, "21 actors were to end, 20 did")
