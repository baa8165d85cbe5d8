"""The bank as an example: real processes, and one that is killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples import running
from tests.examples.running import ROOT, command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.real_time(reason="it needs processes that are killed"),
]


@contextmanager
def served(folder: Path) -> Generator[subprocess.Popen[bytes]]:
    node = subprocess.Popen(
        command("bank", "serve", folder), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield node
    finally:
        node.terminate()
        node.wait(30)


@pytest.mark.guarantee("G524")
def test_no_money_is_made_or_lost_when_the_bank_is_killed(tmp_path: Path) -> None:
    folder, total = tmp_path / "bank", 300
    output, errors = tmp_path / "output", tmp_path / "errors"
    with (
        output.open("w") as out,
        errors.open("w") as err,
        served(folder) as node,
        subprocess.Popen(
            command("bank", "transfer", folder, "--count", total), cwd=ROOT, stdout=out, stderr=err
        ) as client,
    ):
        try:
            while len(output.read_text().splitlines()) < 60:
                assert client.poll() is None
                time.sleep(0.01)
            node.kill()
            node.wait(30)
            with served(folder):
                assert (client.wait(90), errors.read_text()) == (0, "")
                done = running.run("bank", "check", folder)
                assert done.returncode == 0, done.stdout + done.stderr
                assert "together: 40000, expected: 40000" in done.stdout
        finally:
            client.kill()
    lines = output.read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == total
    assert {line.split()[-1] for line in lines} == {"completed", "refused"}
    # It is continued by the next process.
    with served(folder):
        done = running.run("bank", "transfer", folder, "--count", 5)
        assert (done.returncode, done.stderr) == (0, "")
        assert running.run("bank", "check", folder).returncode == 0
