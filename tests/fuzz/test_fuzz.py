"""A short fuzz run: the corpus and a second of mutants, and the faults that it must find. `make soak` runs it for minutes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import fuzz_run
from tests.fuzz.expected_answers import Expected, expected_after_authentication, expected_for
from tests.fuzz.fuzz_run import CORPUS, Entry, read_corpus, run
from tests.fuzz.mutator import MOST, Mutator
from tests.soak import node_process
from tests.soak.node_process import ROOT

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.spec("C10", "C11", "C17"),
    pytest.mark.real_time(reason="it needs a real node in a process of its own"),
]


@pytest.mark.guarantee("G201")
def test_no_input_harms_a_node() -> None:
    report = run(1, 1.0)
    assert report.failures == [], f"{report.saved}"
    assert report.inputs > len(read_corpus())
    assert report.answers > report.inputs
    assert report.pings > 0


def test_the_corpus_has_all_kinds_and_is_small() -> None:
    entries = read_corpus()
    kinds = Counter(entry.name.partition("/")[0] for entry in entries)
    assert set(kinds) == {
        "controls", "data", "envelopes", "events", "halves", "handshakes", "http", "ids", "keys", "lines", "nesting", "numbers", "surrogates",
        "syscalls", "timers", "utf8",
    }  # fmt: skip
    assert all(len(entry.text) < 32_000 for entry in entries)
    readme = (CORPUS / "README.md").read_text("utf-8")
    assert [kind for kind in kinds if f"`{kind}`" not in readme] == []


def test_a_seed_repeats_the_inputs() -> None:
    corpus = [entry.text for entry in read_corpus()]
    first, second = Mutator(Random(5), corpus), Mutator(Random(5), corpus)
    made = [first.make() for _ in range(300)]
    assert made == [second.make() for _ in range(300)]
    assert len(set(made)) > 200
    assert max(map(len, made)) <= MOST


# --- faults that it must find -------------------------------------------------------------------------------------------------------------


PING = b'{"kind":"query","type":"Syscall.Ping","metadata":{"id":"p","timestamp":0}}\n'
EVENT = PING.replace(b"query", b"event")


def answer(name: str | None, kind: str = "reply", type_name: str = "Syscall.Ping") -> dict[str, object]:
    return {"kind": kind, "type": type_name, "metadata": {} if name is None else {"causation": name}}


@pytest.mark.parametrize(
    ("text", "heard", "said"),
    [
        (PING, [answer("p")], None),
        (PING, [], "not answered: {'p': 1}"),
        (PING, [answer("p"), answer("p")], "answered too often: {'p': 1}"),
        (PING * 2, [answer("p")], "not answered: {'p': 1}"),
        (PING, [answer("p"), answer("q")], "answered too often: {'q': 1}"),
        (EVENT, [], None),
        (EVENT, [answer("p", "error")] * 2, "answered too often"),
        (b"nonsense\n" + PING, [answer(None, "error"), answer("p")], None),
        (b"nonsense\n" + PING, [answer("p")], "not answered: {None: 1}"),
        (b"GET / HTTP/1.1\r\n" + PING, [answer(None, "error")], None),
        (b"x" * 101 + b"\n \n\n" + PING[:20], [answer(None, "error")] * 2, None),
    ],
)
def test_answers_are_counted(text: bytes, heard: list[dict[str, object]], said: str | None) -> None:
    complaints = expected_for(text, 100).complaints(heard)
    assert complaints == [] if said is None else said in complaints[0]


def test_an_unauthenticated_client_gets_one_error() -> None:
    expected = expected_after_authentication(PING, 100, "token")
    assert expected.complaints([answer(None, "error", "Sys.Unauthorized")]) == []
    assert "an unauthenticated client was sent" in expected.complaints([answer("p")])[0]
    assert expected_after_authentication(b"", 100, "token") == Expected()


BROKEN = """
import os
import sys
from bandstand.bus import TcpAdapter, UnixAdapter
from tests.faulty_ingress import FaultyIngress, start_with
from tests.fuzz import node_program

class Broken(FaultyIngress):
    held = []

    def wrap(self, line):
        if fault == "leak":
            self.held.append(os.pipe())
        return line

    def refuse(self, line, problem):
        if fault == "die":
            os._exit(3)
        if fault != "lose":
            super().refuse(line, problem)

fault = open(sys.argv[1] + "/../fault").read()
for adapter in (UnixAdapter, TcpAdapter):
    adapter.start = start_with(Broken, adapter)
sys.exit(node_program.main())
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("lose", "not answered: {None: 1}"),
        ("leak", "descriptors are open"),
        ("die", "the node has died, or does not answer"),
    ],
)
def test_it_finds_a_fault(fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad lines are not answered, each client leaves a descriptor, or a bad line ends the process."""
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "fault").write_text(fault)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setattr(fuzz_run, "MODULE", "broken")
    monkeypatch.setattr(fuzz_run, "FOUND", tmp_path / "found")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fuzz_run, "PATIENCE", 2.0)
    monkeypatch.setattr(node_process, "PATIENCE", 5.0)
    report = run(1, 0.1, entries=[Entry("good", PING), Entry("bad", b"nonsense\n")])
    assert any(said in failure for failure in report.failures), report.failures
    saved = Path(report.saved)
    assert [path.read_bytes() for path in sorted(saved.glob("*.bin"))] == [PING, b"nonsense\n"]


# --- the program -------------------------------------------------------------------------------------------------------------------


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_program_sends_given_inputs(tmp_path: Path) -> None:
    (tmp_path / "one.bin").write_bytes(PING)
    (tmp_path / "other.bin").write_bytes(b"nonsense\n")
    result = fuzz(str(tmp_path / "one.bin"), str(tmp_path), "--seed", "5", "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["seed"], report["inputs"], report["failures"]) == (5, 3, [])
    assert "seed 5" in result.stderr
