"""The benchmark runs, checks its results, and says so in the right shape. Its times are nobody's business here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bandstand import mode
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.cases import CASES
from bench.child import measure
from bench.report import Report
from bench.runner import Cell
from bench.system import SYSTEMS, System
from bench.table import render
from bench.target import at_most, times_limit

ROOT = Path(__file__).resolve().parents[2]
NAMES = [system.name for system in SYSTEMS]
HERE = [system for system in SYSTEMS if system.mode in {None, mode.mode()}]
"""The two kernels cannot live in one process: the other is measured in its own lane."""


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False
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
            marks=[] if system.mode is not None else [pytest.mark.once],
        )
        for case in CASES
        for system in HERE
        if system.measure(case) is not None
    ],
)
def test_every_case_handles_what_it_sends(case: Case, system: System) -> None:
    if refusal := system.refusal():
        assert system.name in {"uvloop", "erlang"}, refusal
        pytest.skip(refusal)
    setting = Setting(case.size.quick, is_quick=True, loop_factory=system.loop_factory())
    outcome = measure(case, system, setting, 1)
    assert outcome.handled == outcome.sent > 0
    assert outcome.operations > 0


def test_the_registry_lists_every_file_and_no_name_twice() -> None:
    files = {path.stem for path in (ROOT / "bench" / "cases").glob("*.py")} - {"__init__"}
    homes = {measure.__module__ for case in CASES for measure in _functions(case)}
    assert {f"bench.cases.{file}" for file in files} == homes
    assert len({case.name for case in CASES}) == len({case.title for case in CASES}) == len(CASES)


def _functions(case: Case) -> list[Any]:
    return [getattr(measure, "func", measure) for measure in case.measures.values()]


def test_a_case_that_loses_a_message_has_no_figure() -> None:
    def lossy(setting: Setting) -> Outcome:
        return Outcome(total=1.0, operations=setting.size, sent=setting.size, handled=setting.size - 1)

    case = Case(name="x", title="x", what="x", size=Size(9, 9, 9), measures={"limit": lossy})
    with pytest.raises(WrongResultError, match="9 were sent and 8 handled"):
        measure(case, SYSTEMS[0], Setting(9), 1)


# --- the program ------------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.slow
def test_quick_run_is_checked_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    run = bench("--quick", "--case", "ping-pong", "--json", str(file))
    assert run.returncode == 0, run.stderr
    assert "ping-pong" in run.stdout
    assert "all that was sent was handled" in run.stdout
    assert "round 1/1  ping-pong" in run.stderr
    assert "\x1b" not in run.stderr

    report = json.loads(file.read_text("utf-8"))
    assert {"machine", "python", "bandstand", "cython", "uvloop", "host", "load"} == set(report["machine"])
    assert (report["quick"], report["rounds"]) == (True, 1)
    assert [system["name"] for system in report["systems"]] == NAMES
    (case,) = report["cases"]
    assert (case["name"], case["unit"], case["target"]) == ("ping-pong", "ns", {"most": 1.5, "unit": "x"})
    assert case["verdict"] is None
    refused = {system["name"] for system in report["systems"] if system["refusal"]}
    # Where it is installed, it has no measure for this case.
    refused.add("erlang")
    assert {name for name, cell in case["cells"].items() if cell is None} == refused
    assert "limit" not in refused
    for name in set(NAMES) - refused:
        cell = case["cells"][name]
        assert cell["is_checked"], name
        assert cell["best"]["sent"] == cell["best"]["handled"] == 2000
        assert cell["value"] == cell["best"]["value"] > 0
        assert len(cell["readings"]) == 1


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


# --- the table --------------------------------------------------------------------------------------------------------

MACHINE: dict[str, str] = dict.fromkeys(
    ("machine", "load", "python", "bandstand", "cython", "uvloop", "host"), "x"
)


def nothing(setting: Setting) -> Outcome:
    return Outcome(total=setting.size, operations=1, sent=1, handled=1)


def report_of(case: Case, *, is_quick: bool = False, **values: float) -> Report:
    cells = {(case.name, system): Cell([{"value": value}]) for system, value in values.items()}
    return Report([case], cells, {}, MACHINE, 5, is_quick)


def case_with(target: object) -> Case:
    size = Size(1, 1, 1)
    return Case(name="x", title="the x", what="x", size=size, measures={"limit": nothing}, target=target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "compiled", "verdict"),
    [
        (times_limit(1.5), 150.0, "met"),
        (times_limit(1.5), 150.1, "missed"),
        (at_most(300, "ns"), 300.0, "met"),
        (at_most(300, "ns"), 301.0, "missed"),
        (None, 1.0, None),
    ],
)
def test_verdicts(target: object, compiled: float, verdict: str | None) -> None:
    case = case_with(target)
    report = report_of(case, limit=100.0, compiled=compiled, interpreted=1.0)
    assert report.verdict(case) == verdict
    assert report.ratio(case, "compiled") == compiled / 100
    assert (verdict or "") in render(report)


def test_a_bound_of_the_run_itself_comes_before_the_target() -> None:
    case = case_with(None)
    report = report_of(case, limit=1.0, compiled=2.31)
    assert report.verdict(case) is None
    for bound, verdict in ((2.311, "met"), (2.301, "missed")):
        report.cells["x", "compiled"].readings[0]["bound"] = bound
        assert report.verdict(case) == verdict
    assert "≤ 2.3 ns" in render(report)


def test_no_verdict_on_tiny_sizes_nor_without_a_limit() -> None:
    case = case_with(times_limit(1.5))
    assert report_of(case, is_quick=True, limit=100.0, compiled=1.0).verdict(case) is None
    assert report_of(case, compiled=1.0).verdict(case) is None


def test_the_best_round_counts_unless_one_was_wrong() -> None:
    cell = Cell([{"value": 3.0}, {"value": 2.0}, {"value": 5.0}])
    assert cell.value == 2.0
    cell = Cell(cell.readings, "9 were sent and 8 handled")
    assert cell.value is None
    case = case_with(None)
    report = Report(
        [case], {("x", "limit"): cell}, {"uvloop": "uvloop is not installed"}, MACHINE, 5, is_quick=False
    )
    text = render(report)
    assert "FAILED: x on limit: 9 were sent and 8 handled" in text
    assert "Not measured: uvloop (uvloop is not installed)." in text
    assert "Every figure was checked" not in text
