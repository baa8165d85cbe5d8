"""The bank as an example: real processes, and one that is killed."""

from __future__ import annotations

import subprocess
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
    client: subprocess.Popen[str] | None = None
    lines: list[str] = []
    try:
        with served(folder) as node:
            client = subprocess.Popen(
                command("bank", "transfer", folder, "--count", total),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert client.stdout is not None
            lines += [client.stdout.readline() for _ in range(60)]
            node.kill()
            node.wait(30)
        with served(folder):
            out, err = client.communicate(timeout=90)
            assert (client.returncode, err) == (0, "")
            lines += out.splitlines()
            done = running.run("bank", "check", folder)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "together: 40000, expected: 40000" in done.stdout
    finally:
        if client is not None:
            client.kill()
            client.wait(30)
    assert len({line.split()[0] for line in lines}) == total
    assert {line.split()[-1] for line in lines} == {"completed", "refused"}
    # It is continued by the next process.
    with served(folder):
        done = running.run("bank", "transfer", folder, "--count", 5)
        assert (done.returncode, done.stderr) == (0, "")
        assert running.run("bank", "check", folder).returncode == 0
