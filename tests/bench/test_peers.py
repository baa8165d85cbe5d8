"""The environment of the benchmark's peers: made once, again when its list changes, and done without where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import environment

pytestmark = pytest.mark.once


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would be run, somewhere else than here."""
    said: list[list[str]] = []

    def run(command: list[str], **_environment: str) -> None:
        said.append(command)
        if command[1:3] == ["-m", "venv"]:
            inside = Path(command[-1]) / "bin" / "python"
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()

    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "peers.txt").write_text("Pykka==4.5.0\n", "utf-8")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "_run", run)
    return said


def test_it_is_made_once_and_again_when_its_list_changes(commands: list[list[str]], tmp_path: Path) -> None:
    environment.prepare_peers("python")
    (venv, pip) = commands
    folder = tmp_path / ".venvs" / "bench"
    assert venv == ["python", "-m", "venv", "--clear", str(folder)]
    assert (pip[0], pip[-1]) == (
        str(folder / "bin" / "python"),
        str(tmp_path / "requirements" / "peers.txt"),
    )
    environment.prepare_peers("python")
    assert len(commands) == 2
    (tmp_path / "requirements" / "peers.txt").write_text("Pykka==4.4.2\n", "utf-8")
    environment.prepare_peers("python")
    assert commands[2:] == [pip]


@pytest.mark.usefixtures("commands")
def test_without_it_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str], **_environment: str) -> None:
        raise SystemExit(f"This step failed (exit code 1): {command[0]}")

    monkeypatch.setattr(environment, "_run", fail)
    environment.prepare_peers("python")
    assert "This step failed (exit code 1): python" in capsys.readouterr().err
