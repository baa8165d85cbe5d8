"""Everything that the command prints for people, compared with the files in `tests/cli/texts`.

A text that changes is seen in review, because its file changes with it. To write the files again after a change:

    RENEW_TEXTS=1 .venv/bin/python -m pytest tests/cli/test_texts.py

Then look at `git diff tests/cli/texts`. What depends on the run (folders, ids, times, ports, versions, counts of a benchmark) is
replaced by a name in angle brackets. In a transcript, `2> ` marks lines of standard error, and an exit code of 0 is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import bandstand
from bandstand import doctor
from bandstand.__main__ import main
from bandstand.bus import TcpAdapter, Token, serving
from bandstand.bus.durable.records import (
    BEGAN,
    BOOT,
    DATA,
    DEAD_ENDED,
    ENDED,
    IS_BEGUN,
    IS_DOUBTFUL,
    TIMER_ENDED,
)
from bandstand.cli import make_parser
from bandstand.journal import Record
from tests import snapshots
from tests.bus.node_journals import (
    answer,
    checkpoint,
    dead,
    entity_event,
    event,
    frame,
    numbers_record,
    request,
    timer,
    write_journal,
)
from tests.cli.node_thread import served
from tests.core.support import HostFactory

pytestmark = [
    pytest.mark.guarantee("G191"),
    pytest.mark.real_time(reason="a node that stops checks every few milliseconds whether all is done"),
]

TEXTS = Path(__file__).parent / "texts"
TRANSCRIPTS = (
    "answers",
    "connection_errors",
    "doctor",
    "log",
    "node_errors",
    "serve",
    "settings_errors",
    "usage_errors",
)

VARIABLE = re.compile(r"[A-Z_]+=.*")
MASKS = (
    (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "<id>"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\d <time>", "<date> <time>"),
    (r"\b\d{13}(\.\d+)?\b", "<timestamp>"),
    (r"\+[\d.e-]+ ms\b", "+<ms> ms"),
    (r"\bready in \d+ ms\b", "ready in <ms> ms"),
    (r"\bup [\d.]+ s\b", "up <s> s"),
    (r"\d+ answers to (\S+) in [\d.]+ s: [\d,]+ ", r"<n> answers to \1 in <s> s: <n> "),
    (r"\brunning( +)\d+ ", r"running\1<n> "),
    (r"\b(p50|p99|max) [\d.]+ ms", r"\1 <ms> ms"),
    # The options are in the help pages.
    (r"2> usage: (bandstand(?: [a-z]+)*) \S.*\n(?:2> {4,}.*\n)*", r"2> usage: \1 ...\n"),
)


def compare(name: str, text: str) -> None:
    """Compare a text with its file in `texts`."""
    snapshots.compare(TEXTS / f"{name}.txt", text, test="tests/cli/test_texts.py")


class Transcript:
    """Runs command lines in this process, and records what they print."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capsys = capsys
        self._patch = patch
        self._blocks: list[str] = []
        self.hidden: dict[str, str] = {str(folder): "<folder>", bandstand.__version__: "<version>"}

    def write(self, name: str, text: str) -> None:
        """Write a file, and show its content in the transcript."""
        (self.folder / name).write_text(text)
        self._blocks.append(f"$ cat {name}\n{text.rstrip()}\n")

    def run(self, line: str) -> str:
        """Run a line such as `NAME=value bandstand call Memory.Get`, record it, and return its standard output."""
        *_, out = self._run(line)
        return out

    def quietly(self, line: str) -> str:
        """Run a line without recording it."""
        before = list(self._blocks)
        *_, out = self._run(line)
        self._blocks = before
        return out

    def _run(self, line: str) -> tuple[int, str]:
        words = shlex.split(line)
        with self._patch.context() as patch:
            while VARIABLE.fullmatch(words[0]):
                patch.setenv(*words.pop(0).split("=", 1))
            try:
                code: Any = main(words[1:])
            except SystemExit as ended:
                code = ended.code
        seen = self._capsys.readouterr()
        errors = "".join(f"2> {each}\n" for each in seen.err.splitlines())
        ending = f"exit code {int(code)}\n" if code else ""
        self._blocks.append(f"$ {line}\n{seen.out}{errors}{ending}")
        return code, seen.out

    @property
    def text(self) -> str:
        text = "\n".join(self._blocks)
        for found, name in self.hidden.items():
            text = text.replace(found, name)
        for pattern, replacement in MASKS:
            text = re.sub(pattern, replacement, text)
        # Newer Pythons write the choices without quotes.
        return re.sub(r"\(choose from [^)]*\)", lambda found: found[0].replace("'", ""), text)


@pytest.fixture
def transcript(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Transcript]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("BANDSTAND_BUS", "unix:bus.sock")
    monkeypatch.setattr(sys, "argv", ["python -m bandstand"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("BANDSTAND_CONFIG", "BANDSTAND_TOKEN", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    known = set(sys.modules)
    yield Transcript(tmp_path, capsys, monkeypatch)
    for name in set(sys.modules) - known:
        if not name.startswith("bandstand"):
            del sys.modules[name]


# --- help -------------------------------------------------------------------------------------------------------------


def pages(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, the empty ones for the whole command first."""
    yield words
    for action in parser._actions:  # argparse has no public way
        choices: object = action.choices
        if isinstance(choices, dict):
            for name, inner in cast("dict[str, argparse.ArgumentParser]", choices).items():
                yield from pages(inner, *words, name)


PAGES = list(pages(make_parser()))


def page_name(words: tuple[str, ...]) -> str:
    return "help/" + ("_".join(words) or "bandstand")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="its argparse breaks the lines of a usage elsewhere")
@pytest.mark.parametrize("words", PAGES, ids=page_name)
def test_help(words: tuple[str, ...], transcript: Transcript) -> None:
    compare(page_name(words), transcript.run(" ".join(["bandstand", *words, "--help"])))


@pytest.mark.skipif("RENEW_TEXTS" in os.environ, reason="the files are being written")
def test_there_is_no_file_without_a_test() -> None:
    found = {path.relative_to(TEXTS).with_suffix("").as_posix() for path in TEXTS.rglob("*.txt")}
    assert found == {*TRANSCRIPTS, *map(page_name, PAGES)}


# --- errors -----------------------------------------------------------------------------------------------------------


def test_usage_errors(transcript: Transcript) -> None:
    for line in (
        *("sing", "--nonsense", "call", "call Memory.Get --nonsense", "call Memory.Get --timeout soon"),
        *("call Memory.Get --timeout 0", "call Memory.Get --kind event", "call Memory.Get --to here"),
        *("call Memory.Get --to tcp:here", "describe Memory Timer", "tail --count x"),
        *("tail --kind nonsense", "dead", "dead list --reason nonsense", "dead purge", "bench --expect {"),
        *("completion tcsh", "serve one.py two.py", "serve --unix ''", "serve --tcp x:y"),
        *("serve --tcp 70000", "serve --tcp 0.0.0.0:1", "serve --tcp 0.0.0.0:1 --public"),
        *("serve --tcp 1 --token-file missing", "serve --unix x --token-file missing"),
    ):
        transcript.run(f"bandstand {line}")
    compare("usage_errors", transcript.text)


def test_settings_errors(transcript: Transcript) -> None:
    for line in (
        *("bandstand config --set node.timeout", "bandstand config --set node.timout=5"),
        *("bandstand config --set unheard_of=5", "bandstand config --set node.timeout=x"),
        *("bandstand config --set node.timeout_ms=5", "bandstand config --config missing.toml"),
        *("BANDSTAND_CONFIG=missing.toml bandstand config", "BANDSTAND_TIMEOUT=x bandstand config"),
        *("BANDSTAND_TIMEOUT_MS=5 bandstand config", "BANDSTAND_NODE_TIMOUT_MS=5 bandstand config"),
        *("BANDSTAND_SERVE_PUBLIC=perhaps bandstand config", "BANDSTAND_BUS=nix:x bandstand config"),
        "BANDSTAND_BUS=nix:x bandstand call Memory.Get",
    ):
        transcript.run(line)
    for text in (
        *("a = ", "adress = 'unix:/x'", "address = 'x'", "[nodes]\ntimeout = 5", "[node]\ntimout_ms = 5"),
        *("[node]\ntimeout = 'long'", "[node]\ntimeout_ms = 5", "[node]\ntimeout = -1"),
        *("[limits]\nwindow = 0", "[serve]\nisolate = [1]"),
    ):
        transcript.write("bandstand.toml", text)
        transcript.run("BANDSTAND_BUS= bandstand config")
    transcript.write("bandstand.toml", "address = 'tcp:example.org:80'")
    transcript.run("BANDSTAND_BUS= BANDSTAND_TOKEN=0123456789abcdef bandstand call Memory.Get")
    compare("settings_errors", transcript.text)


@contextmanager
def server(behave: Callable[[socket.socket], object]) -> Generator[int]:
    """Listen on a TCP port, and do something with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    behave(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def test_connection_errors(transcript: Transcript, loop_factory: HostFactory) -> None:
    transcript.run("bandstand call Memory.Get key=a")
    transcript.run("bandstand tail")
    transcript.run("bandstand bench")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    transcript.hidden[f"127.0.0.1:{port}"] = "127.0.0.1:<free port>"
    transcript.run(f"bandstand call Memory.Get key=a --to tcp:127.0.0.1:{port}")
    transcript.run(f"bandstand call Memory.Get --to unix:{'x' * 120}")

    def refuse(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")
        # Until the client hangs up.
        connection.recv(1)

    with server(refuse) as port:
        transcript.hidden[f"127.0.0.1:{port}"] = "127.0.0.1:<port of a web server>"
        transcript.run(f"bandstand call Memory.Get key=a --to tcp:127.0.0.1:{port}")
    with server(lambda connection: connection.recv(65536)) as port:
        transcript.hidden[f"127.0.0.1:{port}"] = "127.0.0.1:<port of a server that hangs up>"
        transcript.run(f"bandstand call Memory.Get key=a --to tcp:127.0.0.1:{port}")

    secret, wrong = transcript.folder / "token", transcript.folder / "wrong"
    for path, text in ((secret, "0123456789abcdef0123"), (wrong, "fedcba98765432100123")):
        path.touch(0o600)
        path.write_text(text)
    adapter = TcpAdapter("127.0.0.1", 0, token=Token.read(str(secret)))
    with served(transcript.folder / "other.sock", loop_factory, [adapter]):
        port = int(adapter.name.rpartition(":")[2])
        transcript.hidden[f"127.0.0.1:{port}"] = "127.0.0.1:<port of a node with a token>"
        line = f"bandstand call Memory.Set key=a value=1 --to tcp:127.0.0.1:{port}"
        transcript.run(f"{line} --token-file token")
        transcript.run(f"{line} --token-file wrong")
        transcript.run(line)
        transcript.run(f"{line} --token-file missing")
        secret.chmod(0o644)
        transcript.run(f"{line} --token-file token")
    compare("connection_errors", transcript.text)


@pytest.mark.guarantee("G307")
def test_node_errors(transcript: Transcript, loop_factory: HostFactory) -> None:
    with served(transcript.folder / "bus.sock", loop_factory):
        for line in (
            *("call Memory.Gett key=a", "call Memory.Get", "call Memory.Get kee=a", "call Memory.Get key="),
            *("call Memory.Get x y", "call Memory.Get {", "call Memory.Get key=a key=b"),
            *("call Memory.Get key=a key.b=c", "call Memory.Get key:=x", "call Memory.Changed"),
            *("call Memory.Get --kind command", "call Glass.Fall by=cat", "query Memory.Set key=a value=1"),
            *("emit Glass.Brokn by=cat", "emit Glass.Broken by:=5", "emit Glass.Fall", "describe Nothing"),
            *("describe Nothing.Here", "tail Gl*ss", "trace nothing", "dead show nothing"),
            *("dead replay nothing", "bench No.Such", "bench Glass.Broken"),
        ):
            transcript.run(f"bandstand {line}")
    compare("node_errors", transcript.text)


SHOP = """
import os, signal
from bandstand.bus import BootSummary, Capability, Command

class Sell(Command[int], type="Shop.Sell"):
    '''Sell an item.'''
    item: str

class Shop(Capability):
    '''Sells things.'''

    def sell(self, msg: Sell) -> int:
        return 1

    def stop(self, msg: BootSummary) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
"""


def test_serve(transcript: Transcript, monkeypatch: pytest.MonkeyPatch, loop_factory: HostFactory) -> None:
    # The tool that it suggests depends on what is installed.
    def no_tool(_place: str) -> str:
        return ""

    monkeypatch.setattr(serving, "raw_client_command", no_tool)
    transcript.write("shop.py", SHOP.lstrip())
    boot = transcript.quietly("bandstand serve shop.py --unix bus.sock")
    assert json.loads(boot)["type"] == "Sys.BootComplete"
    for line in ("serve shop.py --unix bus.sock", "serve shop.py"):
        transcript.run(f"bandstand {line}")
    for name, text in {
        "broken.py": "import unheard_of\n",
        "empty.py": "capabilities = []\n",
        "nothing.py": "number = 5\n",
    }.items():
        transcript.write(name, text)
        transcript.run(f"bandstand serve {name}")
    for line in (
        *("serve missing.py", "serve missing", "serve shop.py:Shopp", "serve shop.py:os", "serve 5shop"),
        *("serve shop.py:", "serve shop.py --isolate Shopp"),
    ):
        transcript.run(f"bandstand {line}")
    with served(transcript.folder / "bus.sock", loop_factory):
        transcript.run("bandstand serve")
    compare("serve", re.sub(r"^\{.*\}$", "<one message as JSON>", transcript.text, flags=re.MULTILINE))


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers(transcript: Transcript, loop_factory: HostFactory) -> None:
    with served(transcript.folder / "bus.sock", loop_factory) as store:
        for line in (
            *("--version", "call Memory.Set key=greeting value=hello", "call Memory.Get key=greeting"),
            *("query Memory.List", "emit Glass.Broken by=cat", "emit Garden.Grown --undeclared --json"),
            *("describe", "describe Glass", "describe Memory.Set", "describe Glass.Broken"),
            *("describe Glass.Swept", "tail --for 20ms", "dead list", "health"),
        ):
            transcript.run(f"bandstand {line}")
        transcript.quietly("bandstand call Glass.Fall by=cat")
        found = json.loads(transcript.quietly("bandstand dead list --json"))
        letter = found["data"]["letters"][0]["id"]
        transcript.run("bandstand dead list")
        transcript.run(f"bandstand dead show {letter}")
        transcript.run(f"bandstand dead replay {letter}")
        transcript.run("bandstand health")
        store.is_mended = True
        transcript.run(f"bandstand dead replay {letter}")
        transcript.run("bandstand dead purge --all")
        answer = json.loads(transcript.quietly("bandstand call Glass.Fall by=dog --json"))
        transcript.run(f"bandstand trace {answer['metadata']['causation']}")
        transcript.run("bandstand bench --count 20")
    transcript.run("bandstand config")
    compare("answers", transcript.text)


def test_log(transcript: Transcript) -> None:
    def write(*pages: Sequence[Record]) -> None:
        write_journal(transcript.folder / "journal", pages)

    place = frame("place-1", correlation="task")
    late = frame("late-1", type="Orders.Cancel", cause="place-1", correlation="task", data=b'{"order":1}')
    waiting = request(3, frame("place-2", data=b'{"item":"cup\\u001b[2J"}'), IS_BEGUN)
    failed = frame("failed-1", "error", "Sys.InDoubt", cause="place-3")
    write(
        [
            Record(BOOT, b'{"version":"1.0","at":1767960000000,"pid":7}'),
            request(1, place),
            numbers_record(BEGAN, [1]),
        ],
        [
            event(frame("sold-1", "event", "Shelf.Sold", cause="place-1", correlation="task")),
            timer("t-1", late),
            answer(1, frame("done-1", "reply", cause="place-1", correlation="task")),
        ],
        [Record(TIMER_ENDED, b"t-1"), request(2, late), numbers_record(ENDED, [2]), waiting, dead(late)],
    )
    write(checkpoint(waiting, dead(late)))
    write(
        [
            request(4, frame("place-3", correlation="task"), IS_BEGUN),
            answer(4, failed, IS_DOUBTFUL),
            entity_event("ada", 7, frame("credited-1", "event", "Account.Credited")),
            Record(DATA, b'{"owner":"reminders","data":{"due":1}}'),
            Record(DEAD_ENDED, b"late-1"),
            Record(200, b"later"),
        ]
    )
    for line in (
        "tail",
        "tail --last 1 --json",
        "find Orders.Cancel",
        "find --kind request --copies",
        "find --key bob",
        "find --limit 2 --kind request",
        "lineage place-1",
        "lineage sold-1",
        "lineage failed-1",
        "lineage nothing",
        "index",
        "index --json",
        "find --cause place-1",
        "verify",
        "export old.ndjson.gz --pages 2-3",
        "export old.ndjson.gz",
        "export other.ndjson.gz --pages 1-9",
        "replay --check",
        "compact",
        "compact --keep-for 1h --dry-run",
        "compact --keep-for 1h --export deleted.ndjson.gz",
        "compact --keep-bytes 1GB",
        "verify --journal nowhere",
        "find --since soon",
        "find --after here",
        "compact --keep-bytes many",
    ):
        transcript.run(f"BANDSTAND_JOURNAL=journal bandstand log {line}")
    transcript.run("BANDSTAND_JOURNAL= bandstand log verify")
    compare("log", transcript.text)


def test_doctor() -> None:
    sound = dataclasses.replace(
        doctor.diagnose(),
        version="1.2.3",
        mode="compiled",
        compiled=("bandstand.core.ids", "bandstand.core.kernel"),
        interpreted=(),
        event_loop="uvloop 0.21.0",
        journal="SQLite 3.54.1 of apsw",
        has_wal_reset_bug=False,
        python="CPython 3.11.7 (/usr/bin/python)",
        platform="Linux",
        extras={"fast": {"uvloop": "0.21.0"}, "sqlite": {"apsw": "3.54.1.0"}},
        problems=(),
    )
    mixed = dataclasses.replace(
        sound,
        mode="mixed",
        compiled=("bandstand.core.ids",),
        interpreted=("bandstand.core.kernel",),
        event_loop="asyncio",
        journal="SQLite 3.40.1 of Python",
        has_wal_reset_bug=True,
        extras={"fast": {"uvloop": None}, "sqlite": {"apsw": None}},
        problems=tuple(doctor._build_problems("mixed", ("bandstand.core.ids",))),  # pyright: ignore[reportPrivateUsage]
    )
    slow = dataclasses.replace(sound, mode="interpreted", compiled=(), interpreted=sound.compiled)
    compare("doctor", "\n\n---\n\n".join(map(doctor.render, (sound, mixed, slow))) + "\n")
