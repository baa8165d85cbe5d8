"""The benchmark runs, checks its results, and says so in the right shape. Its times are nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.actor import ask as ask_mark
from bench import caller, lines, runner, stages
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.cases import CASES, ask, by_name
from bench.child import measure
from bench.progress import Progress
from bench.system import SYSTEMS, System, systems_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = [system.name for system in systems_of("actors")]
OPTIONAL = {
    *(
        "uvloop",
        "pykka",
        "pykka-1",
        "thespian",
        "xoscar",
        "erlang",
        "erlang-all",
        "uvicorn",
        "Pykka",
        "Ray",
        "eventsourcing",
        "DBOS",
    )
}
OURS = {"typed", "bus", "pod", "queued", "one", "persistent"}
HERE = [
    # Typed actors, pods and the bus have one column, compiled; that they get all messages is proved in either mode.
    replace(system, mode=_build_mode.mode()) if system.kind in OURS else system
    for system in SYSTEMS
    if system.kind in OURS or system.mode in {None, _build_mode.mode()}
]
"""The two kernels cannot live in one process: the other is measured in its own lane."""


STOPPING = "a node, or a troupe, that stops looks every few milliseconds whether all is done"
STOPS = {"bus", "pod", "one"}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False
    )


# --- every cell, in this lane's mode ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "system"),
    [
        # The peers know nothing of lanes: once is enough for them.
        pytest.param(
            case,
            system,
            id=f"{case.name}-{system.name}",
            marks=[
                *([] if system.mode is not None else [pytest.mark.once]),
                *([pytest.mark.real_time(reason=STOPPING)] if system.kind in STOPS else []),
            ],
        )
        for case in CASES
        for system in HERE
        if system.measure(case) is not None
    ],
)
def test_every_case_handles_what_it_sends(case: Case, system: System) -> None:
    if system.python is not None:
        # It cannot be imported here: it has an environment of its own.
        prove_elsewhere(case, system)
        return
    if refusal := system.refusal():
        assert system.name in OPTIONAL, refusal
        pytest.skip(refusal)
    setting = Setting(case.size.quick, is_quick=True, loop_factory=system.loop_factory())
    outcome, _ = measure(case, system, setting, 1)
    assert outcome.handled == outcome.sent > 0
    assert outcome.operations > 0


def prove_elsewhere(case: Case, system: System) -> None:
    if refusal := runner.probe([system]).get(system.name):
        assert system.name in OPTIONAL, refusal
        pytest.skip(refusal)
    cells: runner.Cells = {}
    plan = runner.plan([case], [system], rounds=1)
    runner.run(plan, cells, Progress(plan), scale="quick")
    cell = cells[case.name, system.name]
    assert cell.failure is None
    assert cell.best is not None
    assert cell.best["handled"] == cell.best["sent"] > 0


def test_the_registry_lists_every_file_and_no_name_twice() -> None:
    files = {path.stem for path in (ROOT / "bench" / "cases").glob("*.py")} - {"__init__"}
    homes = {measure.__module__ for case in CASES for measure in _functions(case)}
    assert {f"bench.cases.{file}" for file in files} == homes
    assert len({case.name for case in CASES}) == len({case.title for case in CASES}) == len(CASES)


def _functions(case: Case) -> list[Any]:
    """What is written in the case's file: of what a stage plays, that is the program."""
    found: list[Any] = []
    # Any: a function, or a partial of one.
    made: Any
    for made in case.measures.values():
        function = getattr(made, "func", made)
        found.append(made.args[-1] if function.__module__ == stages.__name__ else function)
    return found


def test_a_case_that_loses_a_message_has_no_figure() -> None:
    def lossy(setting: Setting) -> Outcome:
        return Outcome(total=1.0, operations=setting.size, sent=setting.size, handled=setting.size - 1)

    case = Case(name="x", title="x", what="x", size=Size(9, 9, 9), measures={"limit": lossy})
    with pytest.raises(WrongResultError, match="9 were sent and 8 handled"):
        measure(case, SYSTEMS[0], Setting(9), 1)


class ForgetfulAsked(ask.Adder):
    @ask_mark
    def add(self, one: int) -> int:
        self.total = min(self.total + one, 1_000)
        return self.total


@pytest.mark.parametrize("name", ["ask", "ask-pipelined", "ask-inside"])
def test_a_typed_actor_that_forgets_has_no_figure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "Adder", ForgetfulAsked)
    system = next(system for system in HERE if system.kind == "typed")
    words = r"2000 (were sent and 1000 handled|asks were answered with other sums)"
    with pytest.raises(WrongResultError, match=words):
        measure(by_name(name), system, Setting(2_000), 1)


def test_a_peer_without_its_environment_is_refused_in_a_sentence() -> None:
    system = replace(SYSTEMS[0], python=ROOT / "nowhere" / "python")
    assert runner.probe([system]) == {
        "limit": "there is no nowhere/python; `make bench` makes it where it can"
    }


# --- children that go wrong -------------------------------------------------------------------------------------------


def played(folder: Path, script: str, mode: int = 0o755) -> System:
    """A system whose Python is this script of a shell."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    python.chmod(mode)
    return replace(SYSTEMS[0], python=python)


def failure(system: System) -> str | None:
    """What is said of its cell."""
    cells: runner.Cells = {}
    plan = runner.plan([by_name("ping-pong")], [system], rounds=1)
    runner.run(plan, cells, Progress(plan), scale="quick")
    return cells["ping-pong", system.name].failure


@pytest.mark.parametrize(
    ("script", "mode", "refusals", "said"),
    [
        ("""echo hello; echo '{"refusal": "not today"}'; echo 7""", 0o755, {"limit": "not today"}, ""),
        ("echo 'KeyError: 7' >&2; exit 3", 0o755, {}, "KeyError: 7"),
        ("echo hello", 0o755, {}, "gave no figure, but said 'hello'"),
        ("echo hello", 0o644, {}, "python cannot be run (Permission denied)"),
    ],
)
def test_a_child_that_goes_wrong_costs_its_own_cell_and_what_it_says_beside_a_figure_is_passed_over(
    script: str, mode: int, refusals: dict[str, str], said: str, tmp_path: Path
) -> None:
    system = played(tmp_path, script, mode)
    assert runner.probe([system]) == refusals
    if said:
        assert str(failure(system)).removeprefix(f"{tmp_path}/") == said


def test_a_slow_child_and_its_children_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "DEADLINE", 0.3)
    # As long as the grandchild lives, what it holds of the child's output is open, and is waited for.
    assert failure(played(tmp_path, "sleep 100 & wait")) == "gave no figure within 0.3 s"


def test_an_answer_that_is_lost_doubled_or_of_another_kind_does_not_count() -> None:
    def answer(number: int, kind: str = "reply") -> bytes:
        return b'{"kind":"%s","type":"Memory.Get","data":{},"metadata":{"id":"x","causation":"%026d"}}' % (
            kind.encode(),
            number,
        )

    assert caller.answered(b"\n".join(map(answer, (2, 0, 1))), 3) == 3
    assert caller.answered(b"\n".join(map(answer, (0, 1))), 3) == 2
    assert caller.answered(b"\n".join(map(answer, (0, 1, 1, 2))), 3) == 2
    assert caller.answered(b"\n".join((answer(0), answer(1, "error"))), 2) == 1


@pytest.mark.real_time(reason=STOPPING)
def test_a_server_that_fails_its_caller_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "node", partial(lines.node, capabilities=[lines.Speaker]))
    system = next(system for system in HERE if system.kind == "bus")
    with pytest.raises(WrongResultError, match="the node's books say"):
        measure(by_name("bus-pipelined"), system, Setting(10), 1)


# --- the program ------------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.slow
def test_quick_run_is_checked_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    run = bench("--quick", "--case", "ping-pong", "--json", str(file))
    assert run.returncode == 0, run.stderr
    assert "all that was sent was handled" in run.stdout
    assert "round 1/1  1/" in run.stderr
    assert "left  ping-pong" in run.stderr
    assert "\x1b" not in run.stderr

    report = json.loads(file.read_text("utf-8"))
    assert (report["scale"], report["rounds"], report["partial"]) == ("quick", 1, False)
    assert [system["name"] for system in report["systems"]] == [system.name for system in SYSTEMS]
    (case,) = report["cases"]
    assert (case["name"], case["unit"]) == ("ping-pong", "ns")
    reads = {name: target["reads"] for name, target in case["targets"].items()}
    assert reads == {"compiled": "≤ 1.5 × limit", "typed": "≤ 2.5 × limit"}
    refused = {system["name"] for system in report["systems"] if system["refusal"]} & set(NAMES)
    assert {name for name, cell in case["cells"].items() if cell is None} == refused
    assert refused <= OPTIONAL
    for name in set(NAMES) - refused:
        cell = case["cells"][name]
        assert cell["is_checked"], name
        assert cell["best"]["sent"] == cell["best"]["handled"] == 2000
        assert cell["value"] == cell["best"]["value"] > 0
        assert cell["ratio"] == pytest.approx(case["cells"]["compiled"]["value"] / cell["value"])
    assert {place["system"] for place in report["ranking"]} == set(NAMES) - refused


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--case", "pingpong"), "no case 'pingpong'; the cases are counting, "),
        (("--rounds", "0"), "--rounds is 0: pass a number from 1 to 1000"),
        (("--rounds", "many"), "invalid int value: 'many'"),
        (("--json", "/nowhere/x.json"), "--json is '/nowhere/x.json': it cannot be written"),
        (("--fast",), "unrecognized arguments: --fast"),
    ],
)
def test_a_wrong_option_is_a_sentence_and_code_2(arguments: tuple[str, ...], sentence: str) -> None:
    run = bench(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.once
@pytest.mark.slow
def test_help_has_examples_and_names_every_case() -> None:
    run = bench("--help")
    assert run.returncode == 0
    assert "python -m bench --case ping-pong" in run.stdout
    assert [case.name for case in CASES if f"  {case.name} " not in run.stdout] == []
