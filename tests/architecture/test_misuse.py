"""Wrong arguments and wrong objects never crash the process, whatever is called through public names."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture import misuse, package_layout

# The number of processes that the classes are divided between: starting one takes as long as ten classes.
SHARES = 4
TIMEOUT_S = 170


def run(names: list[str], **environment: str) -> str:
    """Misuse some classes in a separate process; return what went wrong, or an empty string."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.architecture.misuse", *names],
            cwd=package_layout.ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        return f"timeout; the last lines: {(error.stdout or b'')[-500:]!r}"
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines[-1:] == ["all done"]:
        return ""
    return f"exit code {done.returncode} after {lines[-1:]}\n{done.stderr[-3000:]}"


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.guarantee("G273")
@pytest.mark.parametrize("share", range(SHARES))
def test_misuse_of_classes_does_not_crash(share: int) -> None:
    names = [misuse.full_name(cls) for cls in misuse.classes()][share::SHARES]
    assert len(names) > 20
    assert run(names) == ""


@pytest.mark.slow
@pytest.mark.guarantee("G273")
def test_misuse_of_functions_does_not_crash() -> None:
    assert len(misuse.functions()) > 20
    assert run([misuse.FUNCTIONS]) == ""


@pytest.mark.slow
@pytest.mark.guarantee("G273")
def test_misuse_of_interpreted_modules_does_not_hang() -> None:
    names = [
        "bandstand.core.loop.Loop",
        "bandstand.scope.channel.Channel",
        "bandstand.core.timer_wheel.Timer",
    ]
    assert run(names, BANDSTAND_PURE="1") == ""


@pytest.mark.slow
def test_a_crash_is_reported() -> None:
    assert "exit code" in run(["no.such.Class"])
