"""tools/environment.py: `make run` installs no development tools, and does not undo what `make test` installed."""

import re
import subprocess

import pytest

from tests.architecture import package_layout
from tools import environment

pytestmark = pytest.mark.once


def pins(name: str) -> set[str]:
    lines = (package_layout.ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    return {re.split(r"[\[=]", line)[0] for line in lines if line and line[0] not in "#-"}


def test_running_installs_no_tools() -> None:
    assert [name for name, _, _ in environment.steps_for("run")] == ["run", "package", "extensions"]
    assert [name for name, _, _ in environment.steps_for("dev")] == ["run", "tools", "package", "extensions"]


def test_the_steps_for_running_are_part_of_the_steps_for_development() -> None:
    needed = {name: digest for name, digest, _ in environment.steps_for("run")}
    full = {name: digest for name, digest, _ in environment.steps_for("dev")}
    assert needed.items() <= full.items()


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
    assert ("tools/environment.py --run\n" in plan) is is_lean
    assert ("tools/environment.py\n" in plan) is not is_lean
