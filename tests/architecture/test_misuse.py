"""Nothing that a program does through public names ends the process, whatever it passes and on whatever it calls it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture import misuse, package_layout

# As many processes, each with its share of the classes: to start one and to import everything takes as long as to misuse ten classes.
SHARES = 4
LONGEST_SECONDS = 170


def run(names: list[str], **environment: str) -> str:
    """Misuse some classes in a process of their own; what went wrong with it, or nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.architecture.misuse", *names],
            cwd=package_layout.ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        return f"it hangs; the last lines: {(error.stdout or b'')[-500:]!r}"
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines[-1:] == ["all done"]:
        return ""
    return f"exit code {done.returncode} after {lines[-1:]}\n{done.stderr[-3000:]}"


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.guarantee("G273")
@pytest.mark.parametrize("share", range(SHARES))
def test_no_misuse_of_a_class_ends_the_process(share: int) -> None:
    names = [misuse.full_name(cls) for cls in misuse.classes()][share::SHARES]
    assert len(names) > 20
    assert run(names) == ""


@pytest.mark.slow
@pytest.mark.guarantee("G273")
def test_no_misuse_of_a_function_of_the_compiled_modules_ends_the_process() -> None:
    assert len(misuse.functions()) > 20
    assert run([misuse.FUNCTIONS]) == ""


@pytest.mark.slow
@pytest.mark.guarantee("G273")
def test_no_misuse_of_the_interpreted_modules_hangs() -> None:
    names = ["bandstand.core.loop.Loop", "bandstand.scope.channel.Channel", "bandstand.core.hot.wheel.Timer"]
    assert run(names, BANDSTAND_PURE="1") == ""


@pytest.mark.slow
def test_a_crash_is_reported_with_the_call_that_made_it() -> None:
    assert "exit code" in run(["no.such.Class"])
