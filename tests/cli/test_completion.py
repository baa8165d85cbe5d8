"""Completion: in a real bash, and word by word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandstand.__main__ import main
from bandstand.cli import make_parser
from bandstand.cli.commands.completion import candidates, script_for
from tests.cli.node_thread import served
from tests.core.support import HostFactory

pytestmark = [
    pytest.mark.once,
    pytest.mark.guarantee("G194"),
    pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done"),
]


@pytest.fixture
def address(tmp_path: Path, loop_factory: HostFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANDSTAND_BUS", f"unix:{tmp_path}/bus.sock")
    with served(tmp_path / "bus.sock", loop_factory):
        yield f"unix:{tmp_path}/bus.sock"


def complete(*words: str) -> list[str]:
    return candidates(words, make_parser())


def test_commands_and_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete("de") == ["dead", "describe"]
    assert complete("dead", "") == ["list", "purge", "replay", "show"]
    assert complete("dead", "list", "--r") == ["--reason"]
    assert complete("dead", "list", "--reason", "c") == ["crashed"]
    assert complete("completion", "") == ["bash", "fish", "zsh"]
    assert complete("serve", "--is") == ["--isolate"]
    assert "--version" in complete("--")
    assert complete() == complete("")
    assert complete("nonsense", "--to") == []


def test_types_are_those_of_the_running_node(address: str) -> None:
    assert complete("call", "Glass.") == ["Glass.Fall", "Glass.Mend"]
    assert complete("query", "Memory.") == ["Memory.Get", "Memory.List"]
    assert complete("emit", "Glass.") == ["Glass.Broken", "Glass.Swept"]
    assert complete("emit", "Glass.Swept", "") == ["by="]
    assert complete("describe", "Gl") == ["Glass", "Glass.Broken", "Glass.Fall", "Glass.Mend", "Glass.Swept"]
    assert complete("tail", "Glass.Fall", "Glass.B") == ["Glass.Broken"]
    assert complete("call", "--to", address, "--json", "Glass.M") == ["Glass.Mend"]
    assert complete("call", "Memory.Set", "") == ["key=", "value="]
    assert complete("call", "Memory.Set", "key=a", "") == ["value="]


def test_without_a_node_there_is_nothing_and_no_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANDSTAND_BUS", f"unix:{tmp_path}/none")
    assert main(["__complete", "call", "Mem"]) == 0
    (tmp_path / "bandstand.toml").write_text("nonsense")
    assert main(["__complete", "call", "Mem"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_in_a_real_bash(address: str, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    command = bin_ / "bandstand"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m bandstand "$@"\n')
    command.chmod(0o755)
    script = """
set -e
eval "$(bandstand completion bash)"
try() { COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMPREPLY=(); _bandstand; echo "${COMPREPLY[*]}"; }
complete -p bandstand
try 'bandstand he'
try "bandstand call --to $BANDSTAND_BUS Glass."
try 'bandstand call Memory.Set key=a '
"""
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    first, *rest = done.stdout.splitlines()
    assert first == "complete -o default -F _bandstand bandstand"
    assert rest == ["health", "Glass.Fall Glass.Mend", "value="]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_that_is_here_can_read_its_script(shell: str, tmp_path: Path) -> None:
    script = script_for(shell)  # type: ignore[arg-type]
    assert "bandstand __complete" in script
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here")
    file = tmp_path / "script"
    file.write_text(script)
    assert (
        subprocess.run([found, "-n", str(file)], capture_output=True, check=False, timeout=50).returncode == 0
    )
