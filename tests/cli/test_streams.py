"""Commands whose standard streams are closed, or cannot be written to. They are real processes: descriptors are the subject."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bandstand.cli.output import ExitCode
from tests.cli.test_serve import Served

pytestmark = [
    pytest.mark.spec("C17"),
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.real_time(reason="the descriptors of real processes are what is looked at"),
]

CLOSED: Final = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")

COMMANDS: Final = {
    "doctor": ("doctor",),
    "call": ("call", "Memory.Set", "key=a", "value=1"),
    "tail": ("tail", "--for", "10ms"),
    "bench": ("bench", "--count", "3"),
    "config": ("config",),
    "completion": ("completion", "bash"),
    "help": ("--help",),
    "batch": ("serve", "--batch"),
}

SILENT: Final = {"tail"}
"""What writes nothing to standard output here."""


def started(
    arguments: tuple[str, ...], redirections: str, cwd: Path, address: str = ""
) -> subprocess.Popen[str]:
    """Start a command the way a shell does that was given these redirections."""
    # Without this variable, as usual, output waits in a buffer until Python ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, *arguments],
        cwd=cwd,
        env={**environment, "BANDSTAND_BUS": address},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("node") / "bus.sock"
    served = Served("--unix", str(path), cwd=path.parent)
    assert served.boot()["type"] == "Sys.BootComplete"
    yield f"unix:{path}"
    assert served.end(signal.SIGTERM) == 0
    served.close()


@pytest.mark.guarantee("G303")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_stream_is_an_empty_one(command: str, address: str, tmp_path: Path) -> None:
    arguments = ("-m", "bandstand", *COMMANDS[command])
    usual, *others = [started(arguments, each, tmp_path, address) for each in ("", *CLOSED)]
    code, out, err = ended(usual)
    assert code == 0, err
    for closed, process in zip(CLOSED, others, strict=True):
        found, shown, said = ended(process)
        assert (found, "Traceback" in said) == (0, False), (closed, said)
        assert bool(shown) == (bool(out) and ">&-" not in closed.split()), closed


@pytest.mark.guarantee("G303")
@pytest.mark.parametrize("closed", CLOSED)
def test_a_node_serves_with_closed_streams(closed: str, tmp_path: Path) -> None:
    path = tmp_path / "bus.sock"
    serve = ("-m", "bandstand", "serve", "--unix", str(path), "--isolate", "Memory")
    node = started(serve, closed, tmp_path)
    try:
        call = ("-m", "bandstand", "call", "Memory.Set", "key=a", "value=1")
        while (result := ended(started(call, "", tmp_path, f"unix:{path}")))[0] == ExitCode.NO_NODE:
            assert node.poll() is None
        assert result[0] == 0, result
        node.send_signal(signal.SIGTERM)
        code, _, err = ended(node)
        assert (code, "Traceback" in err) == (0, False), err
    finally:
        if node.poll() is None:
            node.kill()
            ended(node)


TROUPE = """
import os, sys
from bandstand import Actor, ask
from bandstand.pod import ThreadModel, Troupe, pod

class Painter(Actor):
    @ask
    def process(self) -> int:
        if sys.stdout is not None:
            print("from the child", flush=True)
        print("from the child", file=sys.stderr, flush=True)
        return os.getpid()

class Studio(Troupe):
    painter = pod(thread=ThreadModel.PROCESS).expose(Painter)

if __name__ == "__main__":
    with Studio() as studio:
        assert studio.painter.process.blocking() != os.getpid()
    os.write(int(sys.argv[1]), b"done")
"""


@pytest.mark.guarantee("G303")
@pytest.mark.parametrize("closed", CLOSED)
def test_a_program_with_closed_streams_has_process_pods(closed: str, tmp_path: Path) -> None:
    script = tmp_path / "studio.py"
    script.write_text(TROUPE)
    marker = tmp_path / "marker"
    code, _, err = ended(started((str(script), "9"), f"{closed} 9>{marker}", tmp_path))
    assert code == 0, err
    assert marker.read_text() == "done"


@pytest.mark.guarantee("G304")
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in SILENT])
def test_unwritable_output_has_an_exit_code(command: str, address: str, tmp_path: Path) -> None:
    arguments = ("-m", "bandstand", *COMMANDS[command])
    full = started(arguments, ">/dev/full", tmp_path, address)
    mute = started(arguments, "2>/dev/full", tmp_path, address)
    code, _, err = ended(full)
    assert code == ExitCode.OUTPUT
    assert err.endswith(
        "cannot write the output: No space left on device. A request that was sent is not undone.\n"
    )
    # What cannot be said to people does not change what became of the command.
    code, _, err = ended(mute)
    assert (code, err) == (0, "")


@pytest.mark.guarantee("G304")
def test_what_went_wrong_is_told_by_the_exit_code_though_it_cannot_be_said(tmp_path: Path) -> None:
    nobody = started(("-m", "bandstand", "call", "A.B"), "2>/dev/full", tmp_path, f"unix:{tmp_path}/none")
    typing = started(("-m", "bandstand", "call", "--nonsense"), "2>/dev/full", tmp_path)
    assert (ended(nobody)[0], ended(typing)[0]) == (ExitCode.NO_NODE, ExitCode.USAGE)


@pytest.mark.guarantee("G304")
def test_answers_of_a_batch_that_cannot_be_written(tmp_path: Path) -> None:
    ask = {"kind": "query", "type": "Syscall.Ping", "data": {}, "metadata": {"id": "1", "timestamp": 0}}
    (tmp_path / "asked").write_text(json.dumps(ask) + "\n")
    code, _, err = ended(
        started(("-u", "-m", "bandstand", "serve", "--batch"), "<asked >/dev/full", tmp_path)
    )
    assert code == ExitCode.OUTPUT
    assert "cannot write the output: No space left on device" in err
