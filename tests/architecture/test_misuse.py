"""Wrong arguments and wrong objects never crash the process, whatever is called through public names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import misuse, package_layout

pytestmark = pytest.mark.slow

# The number of processes that the classes are divided between: starting one takes as long as ten classes.
SHARES = 4
TIMEOUT_S = 170


class Misuse:
    """Misuses classes in separate processes."""

    def __init__(self, last: Path) -> None:
        self.last = last

    def __call__(self, names: list[str], **environment: str) -> str:
        """Misuse some classes; return what went wrong, or an empty string."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.architecture.misuse", str(self.last), *names],
                cwd=package_layout.ROOT,
                env={**os.environ, **environment},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return f"timeout in {self.last_call()!r}"
        if done.returncode == 0 and self.last_call() == "all done":
            return ""
        return f"exit code {done.returncode} in {self.last_call()!r}\n{done.stderr[-3000:]}"

    def last_call(self) -> str:
        return self.last.read_bytes().partition(b"\n")[0].decode(errors="replace")


@pytest.fixture
def run(tmp_path: Path) -> Misuse:
    return Misuse(tmp_path / "last")


@pytest.mark.heavy
@pytest.mark.guarantee("G273")
@pytest.mark.parametrize("share", range(SHARES))
def test_misuse_of_classes_does_not_crash(run: Misuse, share: int) -> None:
    names = [misuse.full_name(cls) for cls in misuse.classes()][share::SHARES]
    assert len(names) > 20
    assert run(names) == ""


@pytest.mark.guarantee("G273")
def test_misuse_of_functions_does_not_crash(run: Misuse) -> None:
    assert len(misuse.functions()) > 20
    assert run([misuse.FUNCTIONS]) == ""


@pytest.mark.guarantee("G273")
def test_misuse_of_interpreted_modules_does_not_hang(run: Misuse) -> None:
    names = [
        "bandstand.core.loop.Loop",
        "bandstand.scope.channel.Channel",
        "bandstand.core.timer_wheel.Timer",
    ]
    assert run(names, BANDSTAND_PURE="1") == ""


def test_a_crash_is_reported(run: Misuse) -> None:
    assert run(["no.such.Class"]).startswith("exit code 1 in ")
    assert re.match(r"exit code -\d+ in 'crash'", run([misuse.CRASH]))
