"""Who is let in: by who it is, by its token, and by how many there are; and what those are told who are not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import TcpAdapter, UnixAdapter
from bandstand.bus.adapters import authentication, listener
from bandstand.bus.adapters.unix import UnixEndpoint
from bandstand.errors import InvalidArgumentError
from tests.bus.adapters import PATIENCE, Client, Venue, VenueMaker, open_descriptors, request
from tests.bus.socket_clients import frame

pytestmark = pytest.mark.spec("C17")

TOKEN = "a-token-of-24-characters"


def show(token: Any = TOKEN, number: int = 0, **metadata: Any) -> bytes:
    """The line that shows a token."""
    return frame(f"t{number}", "Syscall.Authenticate", "command", metadata=metadata, token=token)


@pytest.fixture
def guarded(venues: VenueMaker) -> Iterator[Callable[..., Venue]]:
    """Make venues over TCP that want to see a token."""
    with ExitStack() as stack:

        def make(**options: Any) -> Venue:
            return stack.enter_context(venues("tcp", make=partial(TcpAdapter, token=TOKEN), **options))

        yield make


def refusal(client: Client) -> dict[str, Any]:
    """The one line that a client gets who is turned away, before the end."""
    (line,) = [line for line in client.rest().split(b"\n") if line]
    said: dict[str, Any] = json.loads(line)
    assert said["kind"] == "error"
    return said


@pytest.mark.guarantee("G196")
class TestTokens:
    def test_one_that_shows_it_is_let_in(self, guarded: Callable[..., Venue]) -> None:
        venue = guarded()
        client = venue.client()
        client.send(show(correlation="c"))
        answer = client.line()
        assert (answer["kind"], answer["type"], answer["data"]) == (
            "reply",
            "Syscall.Authenticate",
            {"ok": True},
        )
        assert answer["metadata"]["causation"] == "t0"
        assert answer["metadata"]["correlation"] == "c"
        client.send(request(1))
        assert client.answers(1) == ["q1"]
        assert [each.metadata.id for each in venue.desk.admitted] == ["q1"]

    def test_the_token_may_come_with_requests_or_in_pieces(self, guarded: Callable[..., Venue]) -> None:
        client = guarded(window=3).client()
        client.send(show() + b"".join(request(number) for number in range(500)))
        assert client.answers(501) == ["t0", *(f"q{number}" for number in range(500))]
        client = guarded().client()
        for byte in show() + request(1):
            client.send(bytes((byte,)))
        assert client.answers(2) == ["t0", "q1"]

    @pytest.mark.parametrize(
        "first",
        [
            request(1),
            b"\n",
            b"hello\n",
            b"POST / HTTP/1.1\r\n",
            show().replace(b'"command"', b'"query"'),
            show().replace(b'"command"', b'"event"'),
            show(None),
            show(["x"]),
            show(""),
            show("\ud800" * 20),
            frame("t0", "Syscall.Authenticate", "command"),
            frame("t0", "Memory.Set", "command", token=TOKEN, note="Syscall.Authenticate"),
            b"\xff" + show(),
            b"\xef\xbb\xbf" + show(),
            b"x" * 20_000,
            b"x" * 17_000 + b"\n",
            show()[:40],
        ],
        ids=lambda first: first[:30].decode("ascii", "replace"),
    )
    def test_anything_else_first_is_the_end(self, guarded: Callable[..., Venue], first: bytes) -> None:
        venue = guarded()
        client = venue.client()
        client.send(first + show() + request(2))
        client.half_close()
        said = refusal(client)
        assert said["type"] == "Sys.Unauthorized"
        assert "must be the command Syscall.Authenticate with the token" in said["data"]["message"]
        assert (venue.desk.opened, venue.desk.admitted) == (0, [])

    @pytest.mark.parametrize("wrong", [TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ä" * 20])
    def test_a_wrong_token_closes_the_connection(self, guarded: Callable[..., Venue], wrong: str) -> None:
        venue = guarded()
        client = venue.client()
        client.send(show(wrong, 7) + request(1))
        said = refusal(client)
        assert said["type"] == "Sys.Unauthorized"
        assert said["metadata"]["causation"] == said["data"]["originalId"] == "t7"
        assert "not the token of this node" in said["data"]["message"]
        assert TOKEN not in json.dumps(said)
        assert venue.desk.opened == 0

    @pytest.mark.guarantee("G197")
    def test_one_that_says_nothing_is_let_go_after_a_while(self, guarded: Callable[..., Venue]) -> None:
        client = guarded(handshake_timeout=0.03).client()
        client.send(b'{"kind":')
        said = refusal(client)
        assert said["type"] == "Sys.Unauthorized"
        assert "no token was received within 0.03 s" in said["data"]["message"]

    @pytest.mark.guarantee("G197")
    def test_those_who_wait_longest_make_room(self, guarded: Callable[..., Venue]) -> None:
        venue = guarded(unauthenticated=5, handshake_timeout=600)
        idle = [venue.client() for _ in range(20)]
        sane = venue.client()
        sane.send(show() + request(1))
        assert sane.answers(2) == ["t0", "q1"]
        # Only some of them are still listened to, and these can still come in.
        assert {refusal(client)["type"] for client in idle[:14]} == {"Sys.Unauthorized"}
        idle[-1].send(show() + request(2))
        assert idle[-1].answers(2) == ["t0", "q2"]
        # Those who are in do not count.
        assert venue.desk.opened == 2

    def test_closing_does_not_wait_for_strangers(self, guarded: Callable[..., Venue]) -> None:
        before = open_descriptors()
        venue = guarded(handshake_timeout=600)
        clients = [venue.client() for _ in range(3)]
        clients[0].send(show())
        assert clients[0].answers(1) == ["t0"]
        venue.settle()
        venue.close()
        assert all(client.rest() == b"" for client in clients)
        for client in clients:
            client.close()
        assert open_descriptors() - before < 10

    @pytest.mark.parametrize("kind", ["unix", "tcp", "pipe"])
    @pytest.mark.parametrize("step", [1, 50, 1000])
    def test_a_token_that_is_not_needed_is_accepted(self, kind: str, step: int, venues: VenueMaker) -> None:
        with venues(kind) as venue:
            client = venue.client()
            # However it comes: what is no request gets neither to the router nor into a log.
            for place in range(0, len(show()), step):
                client.send(show()[place : place + step])
            client.send(request(1))
            answer = client.line()
            assert (answer["data"], answer["metadata"]["causation"]) == ({"ok": True}, "t0")
            assert client.answers(1) == ["q1"]
            assert [each.metadata.id for each in venue.desk.admitted] == ["q1"]

    def test_one_that_goes_without_a_word_is_told_nothing(self, guarded: Callable[..., Venue]) -> None:
        venue = guarded()
        client = venue.client()
        client.half_close()
        assert client.rest() == b""
        venue.client().close()

    def test_limits_hold_for_those_who_have_shown_it(self, guarded: Callable[..., Venue]) -> None:
        venue = guarded(connections=1)
        first, second = venue.client(), venue.client()
        first.send(show())
        assert first.answers(1) == ["t0"]
        second.send(show(number=2))
        told, said = [json.loads(line) for line in second.rest().split(b"\n") if line]
        assert told["metadata"]["causation"] == "t2"
        assert said["type"] == "Sys.TooManyConnections"


@pytest.mark.guarantee("G198")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
class TestHowMany:
    def test_one_more_is_told_so_and_let_go(self, kind: str, venues: VenueMaker) -> None:
        with venues(kind, connections=3) as venue:
            clients = [venue.client() for _ in range(3)]
            late = venue.client()
            late.send(request(9))
            said = refusal(late)
            assert said["type"] == "Sys.TooManyConnections"
            assert said["data"]["retryable"]
            assert said["data"]["message"].startswith(
                f"{venue.adapter.name} has reached its limit of 3 connections"
            )
            for number, client in enumerate(clients):
                client.send(request(number))
                assert client.answers(1) == [f"q{number}"]
            assert venue.desk.opened == 3
            # One goes, and there is room for another.
            clients[0].close()
            venue.until(lambda: venue.desk.closed)
            late = venue.client()
            late.send(request(10))
            assert late.answers(1) == ["q10"]

    def test_many_more_are_all_told_and_few_lines_are_logged(
        self, kind: str, venues: VenueMaker, caplog: pytest.LogCaptureFixture
    ) -> None:
        with venues(kind, connections=1) as venue:
            sane = venue.client()
            late = [venue.client() for _ in range(200)]
            # More than are shown out at a time.
            assert len(late) > 2 * listener.MAX_LINGERING
            assert {refusal(client)["type"] for client in late} == {"Sys.TooManyConnections"}
            sane.send(request(1))
            assert sane.answers(1) == ["q1"]
        assert caplog.text.count("rejected a connection") == 1


@pytest.fixture
def meeting_place() -> Iterator[Path]:
    """A directory that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


KNOCK = """
import os, socket, sys
os.setgid(54321); os.setuid(54321)
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(30)
    try:
        client.connect(sys.argv[1])
    except OSError as error:
        print(type(error).__name__); sys.exit()
    client.sendall(sys.argv[2].encode() + b"\\n")
    client.shutdown(socket.SHUT_WR)
    print(client.makefile().read())
"""


def knock(path: Path) -> str:
    """What somebody else is told there."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", KNOCK, str(path), request(1).decode().strip()],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout


@pytest.mark.guarantee("G195")
@pytest.mark.skipif(
    not authentication.HAS_PEER_CREDENTIALS, reason="this platform does not tell who connects"
)
class TestWhoItIs:
    @pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
    @pytest.mark.slow
    def test_another_user_is_turned_away(self, venues: VenueMaker, meeting_place: Path) -> None:
        with venues("unix", directory=meeting_place) as venue:
            path = meeting_place / "bus.sock"
            assert knock(path) == "PermissionError\n"
            path.chmod(0o666)
            said = json.loads(knock(path))
            assert said["type"] == "Sys.Unauthorized"
            assert said["data"]["message"].startswith(
                "the node belongs to user 0, and you are user 54321: ask its owner"
            )
            assert venue.desk.opened == 0

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
    @pytest.mark.slow
    def test_somebody_else_who_is_allowed_comes_in(self, venues: VenueMaker, meeting_place: Path) -> None:
        path = meeting_place / "bus.sock"
        make = partial(UnixAdapter, path, allow_uids=[54321])
        with venues("unix", directory=meeting_place, make=make):
            assert path.stat().st_mode & 0o777 == 0o666
            assert (meeting_place / "bus.sock.lock").stat().st_mode & 0o777 == 0o600
            assert json.loads(knock(path))["metadata"]["causation"] == "q1"

    @pytest.mark.parametrize(
        ("uid", "is_welcome"), [(0, True), (4242, False), (4243, True), (1 << 31, False)]
    )
    def test_root_its_own_user_and_guests_are_let_in(
        self,
        uid: int,
        is_welcome: bool,
        venues: VenueMaker,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def peer_uid(_connection: socket.socket) -> int:
            return uid

        monkeypatch.setattr(authentication, "peer_uid", peer_uid)
        make = partial(UnixAdapter, tmp_path / "bus.sock", allow_uids={4243})
        with venues("unix", make=make) as venue:
            client = venue.client()
            client.send(request(1))
            if is_welcome:
                assert client.answers(1) == ["q1"]
            else:
                assert refusal(client)["type"] == "Sys.Unauthorized"

    def test_it_is_the_uid_that_the_system_tells(self) -> None:
        one, other = socket.socketpair(socket.AF_UNIX)
        with one, other:
            assert authentication.peer_uid(one) == os.geteuid()

    def test_an_unknown_user_is_refused(self, venues: VenueMaker, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_connection: socket.socket) -> int:
            raise OSError(5, "on purpose")

        monkeypatch.setattr(authentication, "peer_uid", fail)
        with venues("unix") as venue:
            assert "does not tell who has connected: on purpose" in refusal(venue.client())["data"]["message"]

    def test_guests_who_are_all_let_in_anyway_do_not_open_the_socket(self) -> None:
        assert UnixEndpoint("bus.sock", allow_uids=[0, os.geteuid()]).mode == 0o600

    @pytest.mark.parametrize("uids", [[-1], ["root"], [True], [1 << 32]])
    def test_what_is_no_user_is_refused(self, uids: list[Any]) -> None:
        with pytest.raises(InvalidArgumentError, match="pass the numbers of users"):
            UnixAdapter("x", allow_uids=uids)


def test_where_nobody_can_tell_who_connects_guests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "HAS_PEER_CREDENTIALS", False)
    UnixAdapter("x")
    with pytest.raises(InvalidArgumentError, match="this platform does not tell who connects"):
        UnixAdapter("x", allow_uids=[1000])


@pytest.mark.guarantee("G199")
class TestHalfLines:
    @pytest.mark.parametrize("kind", ["unix", "tcp"])
    def test_one_that_does_not_end_its_line_is_let_go(self, kind: str, venues: VenueMaker) -> None:
        with venues(kind, line_timeout=0.03) as venue:
            client = venue.client()
            client.send(request(1) + b'{"kind":')
            assert client.answers(1) == ["q1"]
            said = refusal(client)
            assert said["type"] == "Sys.SchemaError"
            assert "a line was not complete within 0.03 s" in said["data"]["message"]

    def test_it_still_gets_what_it_is_owed(self, venues: VenueMaker) -> None:
        with venues("unix", line_timeout=0.03) as venue:
            venue.desk.is_holding = True
            client = venue.client()
            client.send(request(1) + b"x")
            assert client.line()["kind"] == "error"
            assert venue.desk.closed == []
            # Whatever it says now, nobody listens.
            client.offer(b"\n" + request(2))
            venue.do(venue.desk.release)
            assert client.answers(1) == ["q1"]
            assert client.rest() == b""
            assert len(venue.desk.admitted) == 1

    def test_one_that_is_not_read_from_cannot_end_it(self, venues: VenueMaker) -> None:
        with venues("unix", line_timeout=0.02, window=1) as venue:
            venue.desk.is_holding = True
            client = venue.client()
            client.send(request(1) + request(2) + request(3)[:10])
            venue.until(lambda: venue.desk.held)
            begun = venue.do(venue.host.time)
            venue.until(lambda: venue.host.time() - begun > 0.1)
            assert venue.desk.refused == []
            client.send(request(3)[10:])
            for _ in range(3):
                venue.until(lambda: venue.desk.held)
                venue.do(venue.desk.release)
            assert client.answers(3) == ["q1", "q2", "q3"]

    @pytest.mark.parametrize(("kind", "limit"), [("pipe", 10), ("unix", 0)])
    def test_without_a_limit_a_line_may_take_long(self, kind: str, limit: int, venues: VenueMaker) -> None:
        with venues(kind, line_timeout=limit / 1000) as venue:
            client = venue.client()
            client.send(request(1)[:9])
            begun = venue.do(venue.host.time)
            venue.until(lambda: venue.host.time() - begun > 0.06)
            client.send(request(1)[9:])
            assert client.answers(1) == ["q1"]


NODE = """
import asyncio, resource, sys
from bandstand.bus import Memory, Node, UnixAdapter
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

async def main():
    async with Node([Memory], adapters=[UnixAdapter(sys.argv[1])]):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G198")
def test_a_node_without_descriptors_lives_and_does_not_spin(tmp_path: Path) -> None:
    path = tmp_path / "bus.sock"

    with (
        subprocess.Popen(
            [sys.executable, "-c", NODE, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as node,
        ExitStack() as stack,
    ):
        assert node.stdout is not None
        assert node.stderr is not None
        assert node.stdout.readline() == "ready\n"

        def connect() -> socket.socket:
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.settimeout(PATIENCE)
            made.connect(str(path))
            return made

        def is_answered(client: socket.socket, name: str) -> bool:
            client.sendall(frame(name, "Syscall.Ping"))
            return name in json.loads(client.makefile().readline())["metadata"]["causation"]

        inside = connect()
        assert is_answered(inside, "before")
        # More than it can have: some of them wait.
        crowd = [connect() for _ in range(60)]
        assert "no connections are accepted for 1 s" in node.stderr.readline()
        before = processor(node.pid)
        for number in range(100):
            assert is_answered(inside, f"among-{number}")
        assert "no connections are accepted for 1 s" in node.stderr.readline()
        # Between two lines of the log lies a second, in which it has done nothing but answer.
        assert processor(node.pid) - before < 0.5
        for client in crowd[:50]:
            client.close()
        assert is_answered(crowd[-1], "after")
        assert node.poll() is None
        node.communicate("go\n", timeout=PATIENCE)
        assert node.returncode == 0


def processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
