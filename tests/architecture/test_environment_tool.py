"""The environment's tool: who only wants to see bandstand run waits for no tools, and nothing is undone by it."""

import re
import subprocess

import pytest

from tests.architecture import package_layout
from tools import environment

pytestmark = pytest.mark.once


def pins(name: str) -> set[str]:
    lines = (package_layout.ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines()
    return {re.split(r"[\[=]", line)[0] for line in lines if line and line[0] not in "#-"}


def test_to_run_no_tools_are_installed() -> None:
    assert [name for name, _, _ in environment.steps_for("run")] == ["run", "package", "extensions"]
    assert [name for name, _, _ in environment.steps_for("dev")] == ["run", "tools", "package", "extensions"]


def test_what_was_done_to_run_is_done_for_the_tools_and_the_other_way_round() -> None:
    needed = {name: digest for name, digest, _ in environment.steps_for("run")}
    full = {name: digest for name, digest, _ in environment.steps_for("dev")}
    assert needed.items() <= full.items()


def test_what_is_installed_to_run_is_what_the_package_asks_for() -> None:
    project = package_layout.config()["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["fast"]]
    assert pins("run") == {re.split(r"[<>=]", one)[0] for one in asked}


@pytest.mark.parametrize(
    ("verb", "is_lean"), [("run", True), ("tour", True), ("test", False), ("docs", False)]
)
def test_a_verb_sets_up_what_it_needs(verb: str, is_lean: bool) -> None:
    plan = subprocess.run(
        ["make", "--dry-run", verb],
        cwd=package_layout.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    ).stdout
    assert ("tools/environment.py --run\n" in plan) is is_lean
    assert ("tools/environment.py\n" in plan) is not is_lean
