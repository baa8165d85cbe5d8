"""Types are tests: right uses are clean and infer what they say, each wrong use is an error in mypy and in pyright."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BESIDE = Path(sys.executable).parent


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{BESIDE}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"{name} is not installed here; make check runs it")
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "MYPY_FORCE_COLOR": "0"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        command, capture_output=True, check=False, text=True, cwd=ROOT, env=environment, timeout=280
    )


# Several tests look at the same file: each checker reads it once.
@cache
def mypy(path: Path) -> dict[int, str]:
    """The first error of each line; what is wrong in other files is `make check`'s business."""
    done = run(tool("mypy"), "--no-error-summary", "--no-pretty", "--show-error-codes", str(path))
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    errors: dict[int, str] = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match and Path(ROOT, match[1]).resolve() == path:
            errors.setdefault(int(match[2]), match[3])
    return errors


@cache
def pyright(path: Path) -> dict[int, str]:
    tool("node")
    done = run(tool("pyright"), "--outputjson", "--project", str(project()), str(path))
    report: dict[str, Any] = json.loads(done.stdout)
    errors: dict[int, str] = {}
    for entry in report["generalDiagnostics"]:
        if entry["severity"] == "error":
            assert Path(entry["file"]) == path, entry
            errors.setdefault(entry["range"]["start"]["line"] + 1, entry["message"])
    return errors


def project() -> Path:
    """The project's own settings, without its excludes: pyright does not look at a file that is excluded."""
    path = ROOT / "build" / "pyright-types.json"
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    for key in ("include", "exclude", "ignore"):
        settings.pop(key, None)
    for key in ("extraPaths",):
        settings[key] = [str((ROOT / entry).resolve()) for entry in settings[key]]
    settings["stubPath"] = str(ROOT / settings["stubPath"])
    settings["venvPath"] = str(ROOT)
    settings["include"] = [str(HERE)]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings), "utf-8")
    return path


CHECKERS = {"mypy": mypy, "pyright": pyright}


FINDING = pytest.mark.guarantee("G202", "G206", "G207")
POOLS = pytest.mark.guarantee("G220", "G234")
PODS = pytest.mark.spec("S13")
RIGHT = ["uses", "services", "bus", "channels", "shutdown"]
SPECIAL = [
    pytest.param("finding", marks=FINDING),
    pytest.param("pools", marks=POOLS),
    pytest.param("pods", marks=PODS),
]


@pytest.mark.parametrize("name", [*RIGHT, *SPECIAL])
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_clean(checker: str, name: str) -> None:
    assert CHECKERS[checker](HERE / f"right_{name}.py") == {}


@pytest.mark.parametrize("name", ["uses", *SPECIAL])
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_use_is_an_error_and_nothing_else_is(checker: str, name: str) -> None:
    path = HERE / f"wrong_{name}.py"
    lines = path.read_text("utf-8").splitlines()
    marked = {number: line.strip() for number, line in enumerate(lines, 1) if line.endswith("# E:")}
    assert len(marked) > 15
    found = CHECKERS[checker](path)
    assert {at: line for at, line in marked.items() if at not in found} == {}, "wrong, and accepted"
    assert {at: error for at, error in found.items() if at not in marked} == {}, "unexpected"


def test_mypy_says_which_argument_of_a_constructor_is_wrong() -> None:
    path = HERE / "wrong_uses.py"
    lines = path.read_text("utf-8").splitlines()
    found = mypy(path)

    def error_at(code: str) -> str:
        (number,) = [at for at, line in enumerate(lines, 1) if line.strip() == f"{code}  # E:"]
        return found[number]

    expected = {
        'loop.spawn(Tally, "x")': 'Argument 2 to "spawn" of "ActorSystem" has incompatible type "str"; expected "int"',
        "loop.spawn(Tally, begin=1)": 'Unexpected keyword argument "begin" for "spawn" of "ActorSystem"',
        'loop.options(name="x").spawn(Tally, "x")': 'Argument 2 to "spawn" of "Spawner" has incompatible type "str"; expected "int"',
        'self.spawn(Tally, "x")': 'Argument 2 to "spawn" of "BaseActor" has incompatible type "str"; expected "int"',
        "loop.spawn(Implementation)": 'Missing positional argument "start" in call to "spawn" of "ActorSystem"',
    }
    for code, text in expected.items():
        assert text in error_at(code)


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checkers_really_check(checker: str) -> None:
    path = HERE / "wrong_uses.py"
    assert len(CHECKERS[checker](path)) > 300
