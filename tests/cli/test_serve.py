"""The command line of the bus: real processes, real sockets, and what the exit codes say."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from bandstand import app
from bandstand.bus import Node, NodeConfig, UnixAdapter, serving
from bandstand.cli.output import ExitCode
from bandstand.cli.parser import program_name
from bandstand.testing import VirtualClock
from tests.cli.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.spec("C4", "C5", "C18", "C21", "C22")]

STAGE = '''
"""Capabilities that take their time, or do what they should not."""
import asyncio
from typing import Literal
from msgspec import Struct
from bandstand.bus import Capability, Command, Contract, Event, Message

class Begun(Event, type="Slow.Begun"):
    """It has been begun."""

class Nap(Command[None], type="Slow.Nap"):
    """Take so many seconds."""
    seconds: float

class Fall(Command[None], type="Glass.Fall"):
    """Break."""

class Slow(Capability):
    """Takes its time."""
    outbound = Begun

    async def nap(self, msg: Nap) -> None:
        self.bus.emit(Begun())
        await asyncio.sleep(msg.seconds)

class Glass(Capability):
    """Breaks."""

    def fall(self, msg: Fall) -> None:
        raise RuntimeError("fallen")

class Both(Struct):
    """Can be said both ways."""
    kind: Literal["command", "query"]
    type: Literal["Odd.Both"]
    data: dict[str, int] = {}

def make():
    return lambda message: Message(kind="reply", type="Odd.Both", data=None)

odd = Contract(id="Odd.One", description="Says odd things.", inbound=Both, spawn=make)
capabilities = [Slow, Glass, odd]
'''


class Served:
    """A node in a process of its own."""

    def __init__(self, *options: str, cwd: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bandstand", "serve", *options],
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def out(self) -> Any:
        return self.process.stdout

    @property
    def err(self) -> Any:
        return self.process.stderr

    def boot(self) -> dict[str, Any]:
        """The first line of its output."""
        line = self.out.readline()
        assert line, self.err.read()
        boot: dict[str, Any] = json.loads(line)
        return boot

    def until(self, words: str) -> None:
        """Read standard error up to a line with these words."""
        for line in self.err:
            if words in line:
                return
        raise AssertionError(f"it has never said {words!r}")

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self.out.close()
        self.err.close()


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start nodes, whose current directory has the module `stage`."""
    (tmp_path / "stage.py").write_text(STAGE)
    with ExitStack() as stack:

        def start(*options: str, **environment: str) -> Served:
            served = Served(*options, cwd=tmp_path, **environment)
            stack.callback(served.close)
            return served

        yield start


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a node with the module `stage` listens."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "stage.py").write_text(STAGE)
    path = folder / "bus.sock"
    served = Served("stage", "--unix", str(path), cwd=folder)
    assert served.boot()["type"] == "Sys.BootComplete"
    yield f"unix:{path}"
    assert served.end(signal.SIGTERM) == 0
    served.close()


class Line:
    """A client that is not ours: a raw socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")

    def say(self, kind: str, type_name: str, name: str, **data: object) -> None:
        frame = {"kind": kind, "type": type_name, "data": data, "metadata": {"id": name, "timestamp": 0}}
        self.socket.sendall(json.dumps(frame).encode() + b"\n")

    def hear(self) -> tuple[str, str]:
        frame = json.loads(self.lines.readline())
        return frame["kind"], frame["type"]

    def is_over(self) -> bool:
        return self.lines.readline() == ""

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def connect() -> Iterator[Callable[[Path], Line]]:
    with ExitStack() as stack:

        def make(path: Path) -> Line:
            line = Line(path)
            stack.callback(line.close)
            return line

        yield make


@pytest.fixture
def run(run: Run, address: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command with the node of this file."""
    monkeypatch.setenv("BANDSTAND_BUS", address)
    return run


class TestServe:
    def test_a_node_is_found_where_it_listens_by_default(
        self, serve: Serve, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        environment = {"XDG_RUNTIME_DIR": str(tmp_path), "BANDSTAND_BUS": ""}
        node = serve(**environment)
        boot = node.boot()
        assert boot["kind"] == "event"
        assert [each["id"] for each in boot["data"]["capabilities"]] == [
            "Memory",
            "Syscall",
            "Timer",
            "Reminder",
            "Dead",
        ]
        assert boot["data"]["adapters"] == [f"unix:{tmp_path}/bandstand.sock"]
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert run("call", "Memory.Set", "key=a", "value=1") == (0, "{}\n", "")
        assert run("call", "Memory.Get", "key=a", "--json")[1].startswith(
            '{"kind":"reply","type":"Memory.Get"'
        )
        assert node.end(signal.SIGTERM) == 0
        said = node.err.read()
        assert "bandstand: ready in " in said
        assert "try in another terminal:\n" in said
        assert " call Memory.Set key=greeting value=hello\n" in said
        assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py") == []

    def test_a_signal_drains_what_is_under_way(
        self, serve: Serve, tmp_path: Path, connect: Callable[[Path], Line]
    ) -> None:
        path = tmp_path / "bus.sock"
        node = serve("stage:Slow", "--unix", "bus.sock", "--json")
        node.boot()
        client = connect(path)
        client.say("command", "Syscall.Subscribe", "1", types=["Slow.*"])
        assert client.hear() == ("reply", "Syscall.Subscribe")
        client.say("command", "Slow.Nap", "2", seconds=0.3)
        assert client.hear() == ("event", "Slow.Begun")
        assert node.end(signal.SIGTERM) == 0
        assert client.hear() == ("reply", "Slow.Nap")
        assert client.is_over()
        assert (node.out.read(), node.err.read()) == ("", "")

    def test_whoever_asks_twice_is_not_kept_waiting(
        self, serve: Serve, tmp_path: Path, connect: Callable[[Path], Line]
    ) -> None:
        node = serve("stage", "--unix", "bus.sock")
        node.boot()
        client = connect(tmp_path / "bus.sock")
        client.say("command", "Syscall.Subscribe", "1", types=["Slow.*"])
        client.say("command", "Slow.Nap", "2", seconds=3600)
        assert [client.hear(), client.hear()] == [("reply", "Syscall.Subscribe"), ("event", "Slow.Begun")]
        node.process.send_signal(signal.SIGINT)
        node.until("bandstand: stopping")
        assert node.end(signal.SIGINT) == 1

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("import nonsense", "LOAD failed: broken cannot be imported: ModuleNotFoundError"),
            (
                STAGE.replace('Literal["Odd.Both"]', "str"),
                "DISCOVER failed: capability Odd.One: inbound: Both: the field 'type' is str, which allows any value",
            ),
            (
                STAGE.replace("capabilities = [Slow, Glass, odd]", "capabilities = [Slow, Slow]"),
                "BUILD failed: ",
            ),
            (
                STAGE.replace("    outbound = Begun", "    def on_start(self): raise RuntimeError('no')"),
                "SPAWN failed: child 'Slow' of supervisor 'capability Slow' did not start: RuntimeError",
            ),
        ],
        ids=["load", "discover", "build", "spawn"],
    )
    def test_what_does_not_boot_says_in_which_phase_and_leaves_nothing(
        self, text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "broken.py").write_text(text)
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.chdir(tmp_path)
        serving = app.ServeOptions(target="./broken.py", unix="bus.sock")
        assert app.run_node(serving, out, err) == 1
        failed = json.loads(out.getvalue())
        assert failed["type"] == "Sys.BootFailed"
        assert words.replace("broken cannot", "./broken.py cannot") in failed["data"]["message"]
        assert err.getvalue() == f"bandstand: {failed['data']['message']}\n"
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["broken.py"]

    def test_tcp_is_told_which_port_it_has(self, serve: Serve, run: Run) -> None:
        node = serve("--tcp", "0", "--json")
        (place,) = node.boot()["data"]["adapters"]
        assert run("call", "Syscall.Ping", "--to", place)[0] == 0
        assert node.end(signal.SIGINT) == 0
        assert node.err.read() == ""

    @pytest.mark.guarantee("G196")
    def test_tcp_for_other_machines_has_a_token(self, serve: Serve, tmp_path: Path) -> None:
        secret = "0123456789abcdef0123456789abcdef"
        file = tmp_path / "token"
        file.touch(0o600)
        file.write_text(f"{secret}\n")
        node = serve("--tcp", "0.0.0.0:0", "--public", "--token-file", "token")
        (place,) = node.boot()["data"]["adapters"]
        node.until(f"describe --to {place} --token-file token")
        greeting = {"kind": "command", "type": "Syscall.Authenticate", "data": {"token": secret}}
        recent = {"kind": "query", "type": "Syscall.Recent"}

        def talk(*messages: dict[str, Any]) -> str:
            lines = [json.dumps({**each, "metadata": {"id": "1", "timestamp": 0}}) for each in messages]
            port = int(place.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                connection.sendall("\n".join(lines).encode() + b"\n")
                connection.shutdown(socket.SHUT_WR)
                with connection.makefile() as answers:
                    return answers.read()

        assert '"type":"Sys.Unauthorized"' in talk(recent)
        welcome, history = talk(greeting, recent).splitlines()
        assert json.loads(welcome)["data"] == {"ok": True}
        assert json.loads(history)["kind"] == "reply"
        assert secret not in history
        assert node.end(signal.SIGTERM) == 0
        assert secret not in node.err.read()

    def test_a_default_address_that_is_none_is_told(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BANDSTAND_BUS", "nix:here")
        for command in (["serve"], ["describe"], ["call", "A.B"]):
            code, _, err = run(*command)
            assert code == 2
            assert "BANDSTAND_BUS: 'nix:here' is not an address" in err
        monkeypatch.setenv("BANDSTAND_BUS", "tcp:0.0.0.0:7777")
        assert "--public" in run("serve")[2]


class TestStopping:
    def test_a_client_that_never_reads_does_not_hold_up_the_end(
        self, bandstand_clock: VirtualClock, bandstand_leak_check: None, tmp_path: Path
    ) -> None:
        config = NodeConfig(drain_timeout=2, flush_timeout=3)

        async def stop() -> int:
            adapter = UnixAdapter(tmp_path / "bus.sock")
            line = None
            try:
                async with Node(adapters=[adapter], config=config, clock=bandstand_clock):
                    line = Line(tmp_path / "bus.sock")
                    line.socket.settimeout(0)
                    with suppress(BlockingIOError):
                        # The answers are a hundred times as long as the requests, and none of them is ever read.
                        while True:
                            line.say("query", "Syscall.Describe", "1")
                            await asyncio.sleep(0)
                    begun = bandstand_clock.now_ns()
                assert not (tmp_path / "bus.sock").exists()
            finally:
                if line is not None:
                    line.close()
            return bandstand_clock.now_ns() - begun

        assert 0 < bandstand_clock.run(stop()) <= 5_100_000_000


class TestAdvice:
    @pytest.mark.parametrize(
        ("place", "tools", "words"),
        [
            ("unix:/run/x y.sock", ("nc", "socat"), "nc -N -U '/run/x y.sock'"),
            ("unix:/run/x.sock", ("socat",), "socat - UNIX-CONNECT:/run/x.sock"),
            ("tcp:127.0.0.1:7777", ("nc",), "nc -N 127.0.0.1 7777"),
            ("tcp:127.0.0.1:7777", (), ""),
            ("tcp:[::1]:7777", ("socat",), "socat - TCP:[::1]:7777"),
        ],
    )
    def test_the_advice_names_an_installed_tool(self, place: str, tools: tuple[str, ...], words: str) -> None:
        found = serving.raw_client_command(place, lambda name: name if name in tools else None)
        assert shlex.split(found) == shlex.split(words)

    def test_the_command_is_called_as_it_was(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        script = tmp_path / "bandstand"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "argv", [str(script)])
        monkeypatch.setenv("PATH", str(tmp_path))
        assert program_name() == "bandstand"
        monkeypatch.setenv("PATH", "/nowhere")
        assert program_name() == str(script)


class TestBatch:
    def batch(self, *lines: object, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        done = subprocess.run(
            [sys.executable, "-m", "bandstand", "serve", *options, "--batch", "--json"],
            input=text,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def frame(self, kind: str, type_name: str, name: str, **data: object) -> dict[str, Any]:
        return {"kind": kind, "type": type_name, "data": data, "metadata": {"id": name, "timestamp": 0}}

    def test_it_ends_when_all_is_answered_and_every_timer_has_fired(self) -> None:
        boot, *answers = self.batch(
            self.frame("command", "Memory.Set", "1", key="a", value={"deep": [1]}),
            self.frame(
                "command",
                "Timer.Schedule",
                "2",
                delay=100,
                message=self.frame("query", "Memory.Get", "3", key="a"),
            ),
            self.frame(
                "command",
                "Timer.Schedule",
                "4",
                delay=3_600_000,
                message=self.frame("query", "Memory.List", "5"),
            )
            | {"type": "Timer.Sing"},
            "not a message",
            self.frame("query", "Memory.Get", "6", key=""),
        )
        assert (boot["type"], boot["data"]["adapters"]) == ("Sys.BootComplete", ["stdio"])
        by_cause = {each["metadata"].get("causation"): each for each in answers}
        assert {cause: each["type"] for cause, each in by_cause.items()} == {
            "1": "Memory.Set",
            "2": "Timer.Schedule",
            "3": "Memory.Get",
            "4": "Sys.RoutingError",
            None: "Sys.SchemaError",
            "6": "Sys.SchemaError",
        }
        assert by_cause["3"]["data"] == {"value": {"deep": [1]}}
        assert by_cause["6"]["data"]["path"] == "$.data.key"


class TestCall:
    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            ("Odd.Both", ExitCode.USAGE, "pass --kind command or --kind query"),
            ("Slow.Nap seconds=3600 --timeout 20ms", ExitCode.TIMEOUT, "Sys.Timeout: "),
        ],
    )
    def test_the_exit_code_tells_the_outcome(self, run: Run, arguments: str, code: int, words: str) -> None:
        """The others are in `tests/cli/texts`."""
        given, out, err = run("call", *arguments.split())
        assert (given, out) == (code, "")
        assert words in err
        assert "Traceback" not in err

    def test_options_may_stand_between_the_fields(self, run: Run) -> None:
        code, out, _ = run("call", "Memory.Set", "key=mid", "--json", "value=1")
        assert (code, json.loads(out)["type"]) == (0, "Memory.Set")
        assert run("call", "--timeout", "5", "Memory.Set", "key=mid", "value=2")[0] == 0

    def test_json_is_the_whole_answer_in_one_line(self, run: Run) -> None:
        code, out, err = run("call", "Memory.Get", "key=", "--json")
        answer = json.loads(out)
        assert (code, out.count("\n")) == (ExitCode.SCHEMA, 1)
        assert (answer["kind"], answer["type"], answer["data"]["path"]) == (
            "error",
            "Sys.SchemaError",
            "$.data.key",
        )
        assert answer["data"]["message"] in err

    def test_data_comes_from_standard_input(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO('{"key": "piped",\n "value": 5}\n'))
        assert run("call", "Memory.Set", "-")[0] == 0
        assert json.loads(run("call", "Memory.Get", "key=piped")[1]) == {"value": 5}

    @pytest.mark.parametrize("kind", ["command", "query"])
    def test_a_type_that_is_both_is_called_by_its_kind(self, run: Run, kind: str) -> None:
        assert run("call", "Odd.Both", "--kind", kind, "a=1") == (0, "{}\n", "")

    def test_whoever_has_seen_enough_may_go(self, address: str) -> None:
        script = f"{sys.executable} -m bandstand describe --json --to {address} | head -c 1"
        done = subprocess.run(
            ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=50, check=False
        )
        assert (done.stdout, done.stderr) == ("{", "")


class TestDescribe:
    def test_every_line_to_try_can_be_tried(self, run: Run, address: str) -> None:
        for type_name in (
            "Memory.List",
            "Timer.Schedule",
            "Syscall.Recent",
            "Syscall.Subscribe",
            "Memory.Delete",
        ):
            line = run("describe", type_name, "--to", address)[1].rpartition("try\n")[2]
            words = shlex.split(line)
            assert words[:4] == ["python", "-m", "bandstand", "call"]
            assert run(*words[3:])[0] in {ExitCode.SUCCESS, ExitCode.ROUTING}, line
