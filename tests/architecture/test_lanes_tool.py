"""tools/lanes.py: which lanes there are, how they are split into parts, how it parses the output of pytest, and the summary."""

import re
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


def test_one_lane_measures_coverage_and_one_runs_the_tests_marked_once() -> None:
    commands = [lanes.Job(lane).command([]) for lane in lanes.plan([OTHER])]
    assert [command for command in commands if "coverage" in command] == [commands[2]]
    assert [command for command in commands if "not once and not heavy" not in " ".join(command)] == [
        commands[0]
    ]
    # Slow tests run in both modes and on both event loops.
    assert [command for command in commands if "not slow" not in " ".join(command)] == [
        commands[0],
        commands[2],
    ]


def test_by_default_the_two_long_lanes_run() -> None:
    every = lanes.plan([OTHER])
    long = ["compiled-uvloop", "interpreted-asyncio"]
    assert [lane.name for lane in lanes.chosen_lanes(every)] == long
    assert [lane.name for lane in lanes.chosen_lanes(every, has_others=True)] == [
        *long,
        "3.12-compiled-uvloop",
        "3.12-interpreted-asyncio",
    ]
    assert lanes.chosen_lanes(every, is_all=True) == every


def test_the_parts_of_a_long_lane_have_every_test_file_once() -> None:
    folders = [lanes.TESTS / folder for part in lanes.parts() for folder in part.folders]
    found = [file for folder in folders for file in folder.rglob("test_*.py")]
    assert sorted(found) == sorted(lanes.TESTS.rglob("test_*.py"))
    assert sum(part.weight for part in lanes.parts()) == 100


def test_long_lanes_run_in_parts_and_the_heaviest_part_starts_first() -> None:
    first, short, measured, *_ = lanes.plan([])
    jobs = lanes.jobs_of([first, short, measured], [])
    assert [job.part for job in jobs if job.lane == short] == [None]
    for lane in (first, measured):
        assert {job.part for job in jobs if job.lane == lane} == set(lanes.parts())
    assert [job.weight for job in jobs] == sorted((job.weight for job in jobs), reverse=True)
    assert len({job.log for job in jobs}) == len(jobs)
    assert lanes.Job(first, lanes.Part("x", ("bus", "pod"), 1)).command([])[1:] == [
        "-m",
        "pytest",
        "tests/bus",
        "tests/pod",
    ]


def test_with_arguments_for_pytest_a_lane_is_one_process_without_coverage() -> None:
    every = lanes.plan([])
    jobs = lanes.jobs_of(every, ["-k", "wheel"])
    assert sorted(job.name for job in jobs) == sorted(lane.name for lane in every)
    assert {tuple(job.command(["-k", "wheel"])[1:]) for job in jobs} == {("-m", "pytest", "-k", "wheel")}


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


def test_the_last_line_is_the_total() -> None:
    first, second, *_ = lanes.plan([])
    good = lanes.Outcome(first, is_good=True, summary="", tally=Counter(passed=3, skipped=1), seconds=1)
    bad = lanes.Outcome(second, is_good=False, summary="", tally=Counter(passed=2, failed=1), seconds=2)
    assert lanes.total_line([good, good], 2) == "6 passed, 0 failed, 2 skipped in 2s over 2 lanes"
    assert (
        lanes.total_line([good, bad], 3)
        == "5 passed, 1 failed, 1 skipped in 3s over 2 lanes; failed lanes: 1"
    )


PROJECT = """
[tool.pytest.ini_options]
pythonpath = ["."]
[tool.coverage.run]
branch = true
source_pkgs = ["small"]
data_file = "build/coverage"
[tool.coverage.report]
fail_under = 100
precision = 1
"""

SMALL = """
def sign(number):
    if number < 0:
        return -1
    return 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose suite has two parts, and needs both of them to cover all of its module."""
    files = {
        "pyproject.toml": PROJECT,
        "small.py": SMALL,
        "tests/one/test_one.py": "import small\ndef test_one():\n    assert small.sign(3) == 1\n",
        "tests/two/test_two.py": "import small\ndef test_two():\n    assert small.sign(-3) == -1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(lanes, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(lanes, "LOGS", tmp_path / "build" / "lanes")
    monkeypatch.setattr(lanes, "COVERAGE", tmp_path / "build" / "coverage")
    monkeypatch.setattr(lanes, "PARTS", (lanes.Part("one", ("one",), 50),))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return tmp_path


@pytest.mark.once
@pytest.mark.slow
def test_the_parts_of_a_lane_are_joined(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = lanes.plan([])[2]
    [outcome] = lanes.run_together([measured], [], 2)
    out = capsys.readouterr().out
    assert outcome.is_good, out
    assert outcome.tally == Counter(passed=2)
    assert re.fullmatch(r"2 passed, 0 failed in \d+s of 2 processes; coverage 100\.0 %", outcome.summary)
    assert out == f"-- interpreted-asyncio: pass, {outcome.summary}\n"
    assert sorted(path.name for path in (project / "build" / "lanes").iterdir()) == [
        "interpreted-asyncio.coverage.log",
        "interpreted-asyncio.one.log",
        "interpreted-asyncio.rest.log",
    ]


@pytest.mark.once
@pytest.mark.slow
def test_a_lane_fails_if_its_coverage_is_too_low(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "two" / "test_two.py").write_text("def test_two():\n    pass\n")
    [outcome] = lanes.run_together([lanes.plan([])[2]], [], 2)
    assert not outcome.is_good
    assert outcome.tally == Counter(passed=2)
    assert re.search(r"coverage \d\d\.\d %, which is too low$", outcome.summary), outcome.summary
    assert "small.py" in capsys.readouterr().out


@pytest.mark.once
@pytest.mark.slow
def test_a_failed_part_fails_its_lane(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests" / "one" / "test_one.py").write_text(
        "import os\ndef test_one():\n    assert os.environ['BANDSTAND_TEST_LOOP'] == 'asyncio'\n"
    )
    (project / "tests" / "two" / "test_two.py").write_text("import os\nos._exit(3)\n")
    first, short, *_ = lanes.plan([])
    outcomes = {outcome.lane: outcome for outcome in lanes.run_together([first, short], [], 2)}
    assert [outcome.is_good for outcome in outcomes.values()] == [False, False]
    assert re.fullmatch(
        r"0 passed, 1 failed in \d+s of 2 processes; 1 did not finish", outcomes[first].summary
    )
    assert outcomes[short].summary == "pytest did not finish"
    out = capsys.readouterr().out
    for name in ("compiled-uvloop.one", "compiled-uvloop.rest", "compiled-asyncio"):
        assert out.count(f"---- {name} ----") == 1
    # With CI set, pytest prints it twice: in the traceback and, in full, in its summary.
    assert "AssertionError: assert 'uvloop' == 'asyncio'" in out
