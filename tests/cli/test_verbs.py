"""The verbs of the command line against a running node: what they print, and what their exit codes say."""

from __future__ import annotations

import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Raw

from bandstand.bus import Frame, Gap, Metadata, Passed, connect_blocking
from bandstand.bus.dead_letters import Reason
from bandstand.cli.commands.bench import BenchOptions, Progress
from bandstand.cli.commands.status import duration
from bandstand.cli.commands.tail import TailOptions, format_message, report_gap
from bandstand.cli.commands.trace import _print_tree  # pyright: ignore[reportPrivateUsage]  # a reply at once cannot be had at will
from bandstand.cli.output import (
    Colours,
    ExitCode,
    clock_time,
    format_table,
    print_answer,
    printable,
    truncate,
)
from bandstand.cli.parser import REASONS
from bandstand.errors import RequestFailedError
from tests.cli.conftest import Run
from tests.cli.node_thread import Store, served
from tests.core.support import HostFactory

pytestmark = [
    pytest.mark.spec("C11", "C17", "C24", "C26"),
    pytest.mark.guarantee("G191"),
    pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done"),
]


@pytest.fixture
def store(tmp_path: Path, loop_factory: HostFactory) -> Iterator[Store]:
    with served(tmp_path / "bus.sock", loop_factory) as store:
        yield store


@pytest.fixture
def run(run: Run, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command with the node of a test, and without the settings of this folder."""
    monkeypatch.setenv("BANDSTAND_BUS", f"unix:{tmp_path}/bus.sock")
    monkeypatch.chdir(tmp_path)
    return run


def break_it(tmp_path: Path, times: int = 1) -> None:
    with connect_blocking(f"unix:{tmp_path}/bus.sock") as bus:
        for number in range(times):
            with pytest.raises(RequestFailedError, match=r"Sys\.ActorCrash"):
                bus.call("Glass.Fall", {"by": f"cat {number}"})


class TestTail:
    def tail(self, run: Run, tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
        """Watch while something happens."""

        def act() -> None:
            with connect_blocking(f"unix:{tmp_path}/bus.sock") as bus:
                while not done.is_set():
                    bus.emit("Glass.Broken", {"by": "dog"})

        done = threading.Event()
        thread = threading.Thread(target=act)
        thread.start()
        try:
            return run("tail", *arguments)
        finally:
            done.set()
            thread.join(30)

    def test_shows_what_passes(self, run: Run, tmp_path: Path) -> None:
        code, out, err = self.tail(run, tmp_path, "Glass.*", "--count", "2")
        assert (code, err) == (0, "bandstand: watching\n")
        first, second = out.splitlines()
        assert re.fullmatch(
            r'\d\d:\d\d:\d\d\.\d{3} event   Glass\.Broken → none  \w{26}  {"by":"dog"}', first
        )
        assert "\x1b" not in second

    def test_as_json_and_without_small_talk(self, run: Run, tmp_path: Path) -> None:
        _, out, _ = self.tail(run, tmp_path, "--json", "--count", "3")
        for line in out.splitlines():
            seen = json.loads(line)
            assert (seen["message"]["type"], seen["to"]) == ("Glass.Broken", "none")

    @pytest.mark.parametrize(
        ("gap", "words"),
        [
            (Gap("reconnected"), "some messages are missing here: the connection was lost and is back"),
            (
                Gap("lagged", 5),
                "5 messages are missing here: this client was too slow, so the node dropped them",
            ),
        ],
    )
    def test_what_is_missing_is_told(self, gap: Gap, words: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        report_gap(gap, TailOptions(), out, err)
        assert (out.getvalue(), err.getvalue()) == ("", f"bandstand: {words}\n")
        report_gap(gap, TailOptions(is_json=True), out, err)
        assert json.loads(out.getvalue())["gap"]["why"] == gap.why


class TestLooking:
    def test_stats_are_all_there_are(self, run: Run) -> None:
        code, out, _ = run("stats")
        assert code == 0
        rows = dict(line.split(None, 1) for line in out.splitlines())
        assert rows["clients"] == "1"
        assert int(rows["requests.admitted"].replace(",", "")) > 0
        assert json.loads(run("stats", "--json")[1])["data"]["requests"]["inFlight"] == 1

    @pytest.mark.parametrize(
        ("ms", "words"), [(1500, "1.5 s"), (200_000, "3 min"), (10**7, "2.8 h"), (10**9, "11.6 d")]
    )
    def test_a_duration_is_for_people(self, ms: int, words: str) -> None:
        assert duration(ms) == words


class TestDeadLetters:
    def letters(self, run: Run) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run("dead", "list", "--json")[1])["data"]["letters"]
        return found

    def test_are_listed(self, run: Run, tmp_path: Path) -> None:
        assert run("dead", "list") == (0, "0 of 0 dead letters\n", "")
        break_it(tmp_path, 2)
        code, out, _ = run("dead", "list", "--type", "Glass.*", "--reason", "crashed")
        head, *rows, last = out.splitlines()
        assert (code, last) == (0, "2 of 2 dead letters")
        assert head.split() == ["id", "at", "reason", "message", "attempts", "error"]
        assert all("crashed" in row and "command Glass.Fall" in row and "fallen" in row for row in rows)
        assert run("dead", "list", "--limit", "1")[1].endswith("\n1 of 2 dead letters\n")
        assert run("dead", "list", "--reason", "timeout")[1] == "0 of 2 dead letters\n"

    def test_are_thrown_away_on_purpose_only(self, run: Run, tmp_path: Path) -> None:
        break_it(tmp_path, 3)
        code, _, err = run("dead", "purge")
        assert code == ExitCode.USAGE
        assert "or --all" in err
        first = self.letters(run)[0]["id"]
        assert run("dead", "purge", first)[1] == "deleted 1 dead letter\n"
        assert run("dead", "purge", "--all")[1] == "deleted 2 dead letters\n"
        assert json.loads(run("dead", "purge", "--all", "--json")[1])["data"] == {"purged": 0}

    def test_their_reasons_are_those_of_the_bus(self) -> None:
        assert get_args(Reason) == REASONS


class TestTrace:
    def test_what_comes_at_once_comes_after_0_ms(self) -> None:
        child = {"id": "b", "kind": "reply", "type": "A.B", "timestamp": 0, "afterMs": 0}
        tree = {"id": "a", "kind": "query", "type": "A.B", "timestamp": 0, "children": [child]}
        out = io.StringIO()
        _print_tree({"ancestors": [], "tree": tree, "complete": True}, "a", out, io.StringIO())
        assert re.search(r"└── reply A\.B.* \+0 ms$", out.getvalue(), re.MULTILINE)


class TestBench:
    def test_measures_and_looks_at_every_answer(self, run: Run) -> None:
        code, out, err = run("bench", "--count", "300")
        assert (code, err) == (0, "")
        first, second = out.splitlines()
        assert re.match(r"300 answers to Syscall\.Ping in [\d.]+ s: [\d,]+ per second$", first)
        assert re.match(r"p50 [\d.]+ ms, p99 [\d.]+ ms, max [\d.]+ ms$", second)
        run("call", "Memory.Set", "key=a", "value=1")
        code, out, _ = run(
            "bench",
            "Memory.Get",
            "key=a",
            "--count",
            "50",
            "--expect",
            '{"value": 1}',
            "--json",
            "--connections",
            "2",
        )
        found = json.loads(out)
        assert (code, found["answered"], found["wrong"]) == (0, 50, {})
        assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]

    def test_its_data_may_come_from_standard_input(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO('{"key": "a"}'))
        code, out, _ = run("bench", "Memory.Get", "-", "--count", "5", "--json")
        assert (code, json.loads(out)["wrong"]) == (0, {})

    def test_a_wrong_answer_fails_it(self, run: Run) -> None:
        run("call", "Memory.Set", "key=a", "value=2")
        code, out, _ = run("bench", "Memory.Get", "key=a", "--for", "20ms", "--expect", '{"value": 1}')
        assert code == ExitCode.FAILED
        assert "× another answer than --expect" in out
        code, out, _ = run("bench", "Memory.Get", "key=", "--count", "5", "--json")
        assert (code, json.loads(out)["wrong"]) == (ExitCode.FAILED, {"Sys.SchemaError": 5})

    def test_a_bar_is_drawn_where_somebody_looks(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        now = [0.0]
        seen = Terminal()
        bar = Progress(BenchOptions(duration=1.0), seen, lambda: now[0])
        for moment in (0.0, 0.05, 0.5):
            now[0] = moment
            bar.draw(int(moment * 1000))
        bar.clear()
        assert seen.getvalue().count("\r") == 3
        assert "[████████████············]  50%  1,000/s" in seen.getvalue()


FORGED = "A.B\n01FORGED  12:00:00.000  unrouted  command Bank.Pay\x85\u2028\x1b[2J"


@pytest.mark.guarantee("G308")
class TestStrangers:
    """A type and an id are whatever a client makes them: they cannot pretend to be more than one row."""

    @pytest.fixture(autouse=True)
    def stranger(self, store: Store, tmp_path: Path) -> None:
        frame = {"kind": "command", "type": FORGED, "data": {}, "metadata": {"id": FORGED, "timestamp": 0}}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(tmp_path / "bus.sock"))
            line.sendall(json.dumps(frame).encode() + b"\n")
            assert b"Sys.RoutingError" in line.recv(10_000)

    def check(self, shown: str) -> list[str]:
        lines = shown.removesuffix("\n").split("\n")
        assert all(line.isprintable() for line in lines)
        assert not any(line.startswith("01FORGED") for line in lines)
        return lines

    def test_in_the_list_of_dead_letters(self, run: Run) -> None:
        code, out, _ = run("dead", "list")
        assert code == 0
        head, row, count = self.check(out)
        assert head.startswith("id ")
        assert "A.B\\n01FORGED" in row
        assert count == "1 of 1 dead letters"

    def test_in_a_letter(self, run: Run) -> None:
        name = json.loads(run("dead", "list", "--json")[1])["data"]["letters"][0]["id"]
        code, out, _ = run("dead", "show", name)
        assert code == 0
        self.check(out)
        code, out, err = run("dead", "replay", name)
        assert code == ExitCode.FAILED
        self.check(out)
        self.check(err)

    def test_in_a_trace(self, run: Run) -> None:
        code, out, _ = run("trace", FORGED)
        assert code == 0
        first, *rest = self.check(out)
        assert first.startswith("command A.B\\n01FORGED")
        assert all(line.startswith(("└── ", "├── ")) for line in rest)

    def test_in_sentences(self, run: Run) -> None:
        code, _, err = run("call", FORGED)
        assert code == ExitCode.ROUTING
        assert len(self.check(err)) == 1
        code, _, err = run("trace", FORGED + "?")
        assert len(self.check(err)) == 1


class TestTheTerminal:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [("a\x1b[31mb", "a\\x1b[31mb"), ("é ü\n", "é ü\\n"), ("\x9b5n", "\\x9b5n"), ("\u202e", "\\u202e")],
    )
    def test_is_given_no_orders(self, text: str, shown: str) -> None:
        assert printable(text) == shown

    def test_has_colours_only_if_it_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert Colours(Terminal())("a", "red") == "\x1b[31ma\x1b[0m"
        assert Colours(io.StringIO())("a", "red") == "a"
        monkeypatch.setenv("NO_COLOR", "1")
        assert Colours(Terminal())("a", "red") == "a"

    def test_small_things(self) -> None:
        assert [truncate("abcdef", width) for width in (4, 6, 0)] == ["abc…", "abcdef", "abcdef"]
        assert format_table([("a", "bcd"), ("ef", "g")], ("x", "y")) == "x   y\na   bcd\nef  g"
        assert clock_time(1e300) == "1e+300"
        assert clock_time(10**400) == "?"

    def test_is_given_no_orders_by_an_id(self) -> None:
        metadata = Metadata("\x1b]0;mine\x07\x9b31m\n", 10**400)
        item = Passed(Frame(kind="query", type="A.B", data=Raw(b"{}"), metadata=metadata), "A")
        for width in (0, 200):
            line = format_message(item, Colours(io.StringIO()), width)
            assert line.isprintable()
            assert "\\x1b]0;mine\\x07\\x9b31m" in line

    @pytest.mark.parametrize("is_json", [False, True])
    def test_is_given_no_orders_by_an_answer(self, is_json: bool) -> None:
        text = "\x9b31m\u202e\U000e0001 é"
        data = Raw(msgspec.json.encode({"value": text}))
        answer = Frame(kind="reply", type="A.B", data=data, metadata=Metadata("a", 0))
        out = io.StringIO()
        assert print_answer(answer, out, io.StringIO(), is_json=is_json) == 0
        assert out.getvalue().replace("\n", "").isprintable()
        found = json.loads(out.getvalue())
        assert (found["data"] if is_json else found) == {"value": text}
