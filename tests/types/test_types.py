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
RIGHT = ("right_uses.py", "right_services.py", "right_bus.py", "right_channels.py", "right_shutdown.py")
WRONG = "wrong_uses.py"
FILES = [HERE / name for name in (*RIGHT, WRONG)]


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


# A checker reads the whole package before the first of these files, so one run checks all of them.
@cache
def mypy() -> dict[Path, dict[int, str]]:
    """Return the first error of each line of each file; errors in other files are the subject of `make check`."""
    done = run(tool("mypy"), "--no-error-summary", "--no-pretty", "--show-error-codes", *map(str, FILES))
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    errors: dict[Path, dict[int, str]] = {path: {} for path in FILES}
    for line in done.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match and (path := Path(ROOT, match[1]).resolve()) in errors:
            errors[path].setdefault(int(match[2]), match[3])
    return errors


@cache
def pyright() -> dict[Path, dict[int, str]]:
    tool("node")
    done = run(tool("pyright"), "--outputjson", "--project", str(project()), *map(str, FILES))
    report: dict[str, Any] = json.loads(done.stdout)
    errors: dict[Path, dict[int, str]] = {path: {} for path in FILES}
    for entry in report["generalDiagnostics"]:
        if entry["severity"] == "error":
            errors[Path(entry["file"])].setdefault(entry["range"]["start"]["line"] + 1, entry["message"])
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


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_clean(checker: str, name: str) -> None:
    assert CHECKERS[checker]()[HERE / name] == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_use_is_an_error_and_nothing_else_is(checker: str) -> None:
    path = HERE / WRONG
    lines = path.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# E:")}
    found = CHECKERS[checker]()[path]
    accepted = {number: lines[number - 1].strip() for number in sorted(marked - set(found))}
    unmarked = {
        number: f"{lines[number - 1].strip()}: {found[number]}" for number in sorted(set(found) - marked)
    }
    assert not accepted, "\n".join(
        ["wrong, and accepted:", *(f"{at}: {line}" for at, line in accepted.items())]
    )
    assert not unmarked, "\n".join(["unexpected:", *(f"{at}: {line}" for at, line in unmarked.items())])


def test_mypy_says_which_argument_of_a_constructor_is_wrong() -> None:
    path = HERE / WRONG
    lines = path.read_text("utf-8").splitlines()
    found = mypy()[path]

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
    """A gate that cannot fail is none."""
    path = HERE / WRONG
    assert len(CHECKERS[checker]()[path]) > 330
