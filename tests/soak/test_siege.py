"""The siege, short: some ten thousand requests to a real node, clients killed, capabilities crashing; and whether it would notice. `make soak` asks
a million times."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.soak import siege
from tests.soak.memory import MEBIBYTE
from tests.soak.process import ROOT
from tests.soak.siege import Siege, besiege

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.spec("C11", "C17", "C20", "C30"),
    pytest.mark.real_time(reason="processes that are killed are what a siege is about"),
]


@pytest.mark.guarantee("G74", "G80", "G200")
def test_whoever_lives_is_answered_and_the_books_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    # Short lives, so that some clients are killed also where requests are quick.
    monkeypatch.setattr(siege, "LIVES", (0.02, 0.2))
    report = besiege(2, 12_000)
    assert report.failures == []
    assert report.requests >= 12_000
    assert report.killed > 0
    assert report.seen["answered"] == report.seen["asked"] > 0
    assert report.seen["again"] > 0


# --- would it notice? -------------------------------------------------------------------------------------------------------------


BROKEN = """
import os
import sys
from bandstand.bus import UnixAdapter
from tests.faulty_ingress import FaultyIngress, FaultyLine, start_with
from tests.soak import siege_node

count = 0

def deliver(line, frame, settles):
    global count
    count += settles
    # Not the questions of the siege itself.
    if count % 50 or not settles or frame.type in ("Syscall.Ping", "Syscall.Stats", "Ledger.Sum"):
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
    # Without a process of its own the hermit is there at once.
    siege_node.isolated = lambda kind: kind
    fault = open(sys.argv[1] + "/../fault").read()
    UnixAdapter.start = start_with(Broken)
    sys.exit(siege_node.main())
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lose", "requests are not answered"),
        ("double", "answered too often"),
        ("leak", "descriptors are open"),
    ],
)
def test_it_notices(fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with a fault: an answer in so many is lost or given twice, or a descriptor is left for each client."""
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "fault").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("SIEGE_PATIENCE", "1")
    monkeypatch.setattr(siege, "NODE", "broken")
    monkeypatch.setattr(siege, "PATIENCE", 1.0)
    monkeypatch.setattr(siege, "KILLED", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failures = besiege(1, 5000).failures
    assert any(said in failure for failure in failures), failures


class Told:
    """What a node that has heard it all says of itself."""

    def __init__(self, **sums: int) -> None:
        self._sums = {"noted": 10, "again": 0, "most": 1, **sums}

    def ask(self, _type: str) -> dict[str, int]:
        return self._sums


@pytest.mark.parametrize(
    ("stats", "sums", "said"),
    [
        ({"requests": {}}, {"again": 3, "most": 2}, None),
        ({"requests": {"repeated": 4, "joined": 1}}, {}, None),
        ({"requests": {}, "repeated": 5}, {}, None),
        (
            {"requests": {"repeated": 5}},
            {"again": 3, "most": 2},
            "3 requests were handled more than once, one 2 times",
        ),
        ({"requests": {"repeated": 2, "joined": 1}}, {}, "5 were said again, and the node has noticed 3"),
    ],
)
def test_a_node_that_remembers_must_handle_all_once(
    stats: dict[str, Any], sums: dict[str, int], said: str | None
) -> None:
    one = Siege(1, 10, lambda _report: None)
    one.report.seen["again"] = 5
    one._compare_handled(Told(**sums), stats)  # type: ignore[arg-type]  # pyright: ignore[reportPrivateUsage, reportArgumentType]  # as much of it as is asked for
    assert one.report.failures == [] if said is None else said in one.report.failures[0]


def test_memory_that_grows_is_a_sentence() -> None:
    one = Siege(1, siege.JUDGED_FROM, lambda _report: None)
    one._warm, one._late = [40 * MEBIBYTE, 41 * MEBIBYTE], [60 * MEBIBYTE, 50 * MEBIBYTE]  # pyright: ignore[reportPrivateUsage]
    one._compare_memory()  # pyright: ignore[reportPrivateUsage]
    assert one.report.failures == ["9.0 MiB more are resident than after the warm-up; 8 would pass"]


# --- the program -------------------------------------------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.soak.siege", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


def test_the_program_reports_its_seed_and_its_result() -> None:
    result = program("--requests", "1", "--seed", "5", "--json")
    assert result.returncode == 0, result.stderr
    assert "seed 5" in result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["failures"]) == (5, [])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--requests", "0"], "--requests is 0: pass a number from 1 to"),
        (["--requests", "many"], "invalid int value: 'many'"),
    ],
)
def test_a_wrong_option_is_a_sentence(arguments: list[str], sentence: str) -> None:
    result = program(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
