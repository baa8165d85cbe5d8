"""tools/lanes.py: which lanes there are, how it parses the output of pytest, and the summary."""

from collections import Counter
from pathlib import Path

import pytest

from tools import lanes
from tools.environment import Interpreter

OTHER = Interpreter("3.12", "3.12.1", "/somewhere/python3.12")


def test_four_lanes_for_this_python_and_two_for_each_other() -> None:
    assert [lane.name for lane in lanes.plan([OTHER])] == [
        "compiled-uvloop",
        "compiled-asyncio",
        "interpreted-asyncio",
        "interpreted-uvloop",
        "3.12-compiled-uvloop",
        "3.12-interpreted-asyncio",
    ]


def test_a_lane_demands_its_mode_and_loop() -> None:
    demanded = [lane.environment() for lane in lanes.plan([])]
    assert [
        (env["BANDSTAND_PURE"], env["BANDSTAND_TEST_MODE"], env["BANDSTAND_TEST_LOOP"]) for env in demanded
    ] == [
        ("0", "compiled", "uvloop"),
        ("0", "compiled", "asyncio"),
        ("1", "interpreted", "asyncio"),
        ("1", "interpreted", "uvloop"),
    ]


def test_subprocesses_share_compiled_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (first, *_) = [lane.environment() for lane in lanes.plan([])]
    assert "PYTHONDONTWRITEBYTECODE" not in first
    assert first["PYTHONPYCACHEPREFIX"].endswith("build/bytecode")


def test_one_lane_measures_coverage_and_one_runs_the_tests_marked_once() -> None:
    commands = [lane.command("python", []) for lane in lanes.plan([OTHER])]
    assert [command for command in commands if "coverage" in command] == [commands[2]]
    assert [command for command in commands if "not once and not heavy" not in " ".join(command)] == [
        commands[0]
    ]
    # Slow tests run in both modes and on both event loops.
    assert [command for command in commands if "not slow" not in " ".join(command)] == [
        commands[0],
        commands[2],
    ]


def test_only_the_first_lane_uses_the_full_hypothesis_profile_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BANDSTAND_TEST_PROFILE", raising=False)
    profiles = [lane.environment()["BANDSTAND_TEST_PROFILE"] for lane in lanes.plan([OTHER])]
    assert profiles == ["suite", *["brief"] * 5]
    monkeypatch.setenv("BANDSTAND_TEST_PROFILE", "thorough")
    assert lanes.plan([])[1].environment()["BANDSTAND_TEST_PROFILE"] == "thorough"


@pytest.mark.once
@pytest.mark.slow
def test_parallel_lanes_write_to_separate_logs_and_a_failed_log_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lanes, "LOGS", tmp_path / "logs")
    chosen = lanes.plan([])[:2]
    nothing = ["--collect-only", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    (tmp_path / "test_it.py").write_text("import os\nassert os.environ['BANDSTAND_TEST_LOOP'] == 'uvloop'\n")
    outcomes = {outcome.lane.name: outcome for outcome in lanes.run_together(chosen, nothing, 2)}
    assert {name: outcome.is_good for name, outcome in outcomes.items()} == {
        "compiled-uvloop": False,  # collecting no tests is not a success
        "compiled-asyncio": False,
    }
    assert "no tests" in (tmp_path / "logs" / "compiled-uvloop.log").read_text("utf-8")
    assert "AssertionError" in (tmp_path / "logs" / "compiled-asyncio.log").read_text("utf-8")
    assert "AssertionError" in capsys.readouterr().out


def test_it_reads_the_progress_of_a_lane(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lanes, "LOGS", tmp_path)
    lane = lanes.plan([])[0]
    seen = [lanes.progress(lane)]
    for text in ("tests/x.py ...", " [  3%]\n", "tests/y.py .. [ 42%]\n", "tests/z.py .. [100%]\n"):
        with lane.log.open("a") as log:
            log.write(text)
        seen.append(lanes.progress(lane))
    assert seen == ["", "", "compiled-uvloop 3 %", "compiled-uvloop 42 %", ""]


@pytest.mark.parametrize(
    ("line", "tally"),
    [
        ("===== 3 passed in 0.10s =====", {"passed": 3}),
        (
            "\x1b[31m= \x1b[1m1 failed\x1b[0m, 2 passed, 1 skipped, 2 errors in 63.10s (0:01:03) =\x1b[0m",
            {"failed": 1, "passed": 2, "skipped": 1, "error": 2},
        ),
        ("1 passed, 4 deselected in 0.01s", {"passed": 1, "deselected": 4}),
        ("no tests ran in 0.01s", {}),
    ],
)
def test_it_reads_the_summary_line(line: str, tally: dict[str, int]) -> None:
    summary, counted = lanes.read_summary(f"noise 7 passed\n{line}\nFile  Stmts  Miss\n")
    assert counted == Counter(tally)
    assert " in " in summary


def test_a_lane_that_crashed_counts_nothing() -> None:
    assert lanes.read_summary("Segmentation fault\n") == ("pytest did not finish", Counter())


def test_the_last_line_is_the_total() -> None:
    first, second, *_ = lanes.plan([])
    good = lanes.Outcome(first, is_good=True, summary="", tally=Counter(passed=3), seconds=1)
    bad = lanes.Outcome(second, is_good=False, summary="", tally=Counter(passed=2, failed=1), seconds=2)
    assert lanes.total_line([good, good]) == "6 passed, 0 failed in 2s over 2 lanes"
    assert lanes.total_line([good, bad]) == "5 passed, 1 failed in 3s over 2 lanes; failed lanes: 1"
