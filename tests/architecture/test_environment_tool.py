"""tools/environment.py: `make run` installs no development tools, and does not undo what `make test` installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import package_layout
from tests.architecture.build_tree import Tree
from tools import environment

pytestmark = pytest.mark.once


def pins(name: str) -> set[str]:
    lines = (package_layout.ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    return {re.split(r"[\[=]", line)[0] for line in lines if line and line[0] not in "#-"}


def test_running_installs_no_tools() -> None:
    assert [name for name, _, _ in environment.steps_for("run")] == ["run", "package", "extensions"]
    assert [name for name, _, _ in environment.steps_for("dev")] == ["run", "tools", "package", "extensions"]


def test_what_is_installed_for_running_is_what_the_package_requires() -> None:
    project = package_layout.config()["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["fast"]]
    assert pins("run") == {re.split(r"[<>=]", one)[0] for one in required}


@pytest.mark.parametrize(
    ("target", "is_lean"), [("run", True), ("tour", True), ("test", False), ("docs", False)]
)
def test_a_make_target_prepares_what_it_needs(target: str, is_lean: bool) -> None:
    plan = subprocess.run(
        ["make", "--dry-run", target],
        cwd=package_layout.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    ).stdout
    assert ("tools/environment.py --run)" in plan) is is_lean
    assert ("tools/environment.py\n" in plan) is not is_lean


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_run_is_interpreted_and_compiles_in_the_background(tmp_path: Path) -> None:
    """The real tool and the real compiler, in a tree with a few modules and an environment in which everything is installed."""
    tree = Tree(tmp_path)
    for name in ("tools", "requirements"):
        shutil.copytree(package_layout.ROOT / name, tmp_path / name)
    # What it is told about the environment is true of the interpreter that runs this test.
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    os.mkfifo(tmp_path / "built")
    python.write_text(
        f'#!/bin/sh\n"{sys.executable}" "$@"\ncode=$?\n[ "$1" = setup.py ] && echo $code >built\nexit $code\n'
    )
    python.chmod(0o755)
    digests = 'import json; from tools.environment import steps_for; print(json.dumps({name: digest for name, digest, _ in steps_for("run")}))'
    done = json.loads(tree.run("-c", digests).stdout)
    del done["extensions"]
    (tmp_path / ".venv" / ".prepared.json").write_text(json.dumps(done))

    first = tree.run("tools/environment.py", "--run")
    assert first.stdout == "1\n"
    assert (
        "-- .venv: this runs interpreted, with the same behaviour, but several times slower\n" in first.stderr
    )
    assert "compiling" not in first.stderr
    assert (tmp_path / "built").read_text() == "0\n"
    # It waits until the process in the background has written down that it is done.
    assert "compiling" not in tree.run("tools/environment.py", "--run", "--compile").stderr
    assert "compiled module 4 of 4" in (tmp_path / "build" / "compile.log").read_text()
    assert tree.mode() == ["compiled", []]

    second = tree.run("tools/environment.py", "--run")
    assert (second.stdout, second.stderr) == ("0\n", "")
    assert tree.run("tools/environment.py", "--run", BANDSTAND_PURE="1").stdout == "1\n"
