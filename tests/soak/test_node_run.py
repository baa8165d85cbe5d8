"""A short node run: some ten thousand requests to a real node, and the faults that it must find. `make soak` asks a million times."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.soak import node_process, node_run
from tests.soak.node_process import ROOT
from tests.soak.node_run import NodeRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.spec("C11", "C17", "C20", "C30"),
    pytest.mark.real_time(reason="it needs processes that are killed"),
]


@pytest.mark.guarantee("G74", "G80", "G200")
def test_clients_that_live_are_answered_and_counters_balance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Short lives, so that some clients are killed even where requests are quick.
    monkeypatch.setattr(node_run, "LIVES", (0.02, 0.2))
    report = NodeRun(2, 12_000).play()
    assert report.failures == []
    assert report.requests >= 12_000
    assert report.killed > 0
    assert report.seen["answered"] == report.seen["asked"] > 0
    assert report.seen["again"] > 0


# --- faults that it must find -----------------------------------------------------------------------------------------

BROKEN = """
import os
import sys
from bandstand.bus import UnixAdapter
from tests.faulty_ingress import FaultyIngress, FaultyLine, start_with
from tests.soak import node_program

count = 0

def deliver(line, frame, settles):
    global count
    count += settles
    # Not the questions of the run itself.
    if count % 50 or not settles or frame.type in ("Syscall.Ping", "Syscall.Stats", "Counter.Total"):
        return line.deliver(frame, settles)
    if fault == "lose":
        return True
    return line.deliver(frame, settles) and line.deliver(frame, False)

class Broken(FaultyIngress):
    held = []

    def wrap(self, line):
        if fault == "leak":
            self.held.append(os.pipe())
            return line
        return FaultyLine(line, deliver)

if __name__ == "__main__":
    # Without a process of its own, the isolated capability is there at once.
    node_program.isolated = lambda kind: kind
    fault = open(sys.argv[1] + "/../fault").read()
    UnixAdapter.start = start_with(Broken)
    sys.exit(node_program.main())
"""


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("lose", "requests are not answered"),
        ("double", "answered too often"),
        ("leak", "descriptors are open"),
    ],
)
def test_it_finds_a_fault(fault: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer of fifty is lost or given twice, or each client leaves a descriptor."""
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "fault").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("CLIENT_PATIENCE", "1")
    monkeypatch.setattr(node_run, "NODE", "broken")
    monkeypatch.setattr(node_run, "KILLED", 0.0)
    monkeypatch.setattr(node_process, "PATIENCE", 5.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failures = NodeRun(1, 5000).play().failures
    assert any(sentence in failure for failure in failures), failures


@pytest.mark.parametrize(
    ("noticed", "totals", "failure"),
    [
        (5, {"again": 0, "most": 1}, None),
        (5, {"again": 3, "most": 2}, "3 requests were handled more than once, one 2 times"),
        (3, {"again": 0, "most": 1}, "5 were repeated, and the node has noticed 3"),
    ],
)
def test_it_finds_what_was_handled_twice(noticed: int, totals: dict[str, int], failure: str | None) -> None:
    run = NodeRun(1, 10)
    run.report.seen["again"] = 5
    run.compare_handled(totals, {"repeated": noticed - 1, "joined": 1})
    assert run.report.failures == ([] if failure is None else [failure])


# --- the program ------------------------------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.soak.node_run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)


def test_the_program_reports_its_seed_and_its_result() -> None:
    result = program("--requests", "1", "--seed", "5", "--json")
    assert result.returncode == 0, result.stderr
    assert "seed 5" in result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["failures"]) == (5, [])
