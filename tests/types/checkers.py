"""What mypy and pyright say of the files with right and wrong uses."""

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

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BESIDE = Path(sys.executable).parent
FILES = [*sorted(HERE.glob("right_*.py")), *sorted(HERE.glob("wrong_*.py"))]


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
