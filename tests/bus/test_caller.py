"""The caller: one request, one answer, and a sentence for whatever comes between."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bandstand.bus.client.address import Address
from bandstand.bus.client.caller import Caller
from bandstand.bus.wire import write_frame
from bandstand.errors import BadMessage, InvalidArgument

pytestmark = [pytest.mark.spec("C17")]

# A script takes a request, as it was sent, and the connection to answer it on.
Script = Callable[[dict[str, Any], socket.socket], None]
Serve = Callable[[Script], Address]


def frame(kind: str, causation: str | None, data: object = None, type: str = "A.B") -> bytes:  # noqa: A002  # its name on the wire
    metadata: dict[str, Any] = {"id": "r1", "timestamp": 1}
    if causation is not None:
        metadata["causation"] = causation
    return json.dumps({"kind": kind, "type": type, "data": data, "metadata": metadata}).encode() + b"\n"


class Stand:
    """A node that is none: it listens for one client, and answers each line as a script says."""

    def __init__(self, listener: socket.socket, script: Script) -> None:
        self.listener = listener
        self.script = script
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        with client, client.makefile("rb") as lines:
            try:
                for line in lines:
                    # A number stays as it was written.
                    self.script(json.loads(line, parse_float=str), client)
            except OSError:
                return

    def close(self) -> None:
        # Wakes the thread if nobody has ever connected.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture(params=["unix", "tcp"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serve]:
    stands: list[Stand] = []

    def serve(script: Script) -> Address:
        if request.param == "unix":
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            address = Address(path=str(tmp_path / "s"))
        else:
            listener = socket.create_server(("127.0.0.1", 0))
            address = Address(host="127.0.0.1", port=listener.getsockname()[1])
        stands.append(Stand(listener, script))
        return address

    yield serve
    for stand in stands:
        stand.close()


@pytest.fixture
def serve_unix(tmp_path: Path) -> Iterator[Serve]:
    """For what does not depend on the kind of socket."""
    stands: list[Stand] = []

    def serve(script: Script) -> Address:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        stands.append(Stand(listener, script))
        return Address(path=str(tmp_path / "s"))

    yield serve
    for stand in stands:
        stand.close()


def echo(request: dict[str, Any], client: socket.socket) -> None:
    client.sendall(frame("reply", request["metadata"]["id"], request, request["type"]))


def plain(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


class TestARequest:
    def test_is_sent_as_a_message_and_its_answer_comes_back(self, serve: Serve) -> None:
        with Caller(serve(echo), 30) as caller:
            answer = caller.request("query", "Memory.Get", {"key": "a"})
        sent = plain(answer.data)
        assert (answer.kind, answer.type) == ("reply", "Memory.Get")
        assert (sent["kind"], sent["type"], sent["data"]) == ("query", "Memory.Get", {"key": "a"})
        assert answer.metadata.causation == sent["metadata"]["id"]
        assert set(sent["metadata"]) == {"id", "timestamp"}
        assert len(sent["metadata"]["id"]) == 26

    def test_several_go_one_after_the_other_by_one_connection(self, serve: Serve) -> None:
        with Caller(serve(echo), 30) as caller:
            answers = [caller.request("command", "A.B", {"number": number}) for number in range(20)]
        assert [plain(answer.data)["data"]["number"] for answer in answers] == list(range(20))
        assert len({answer.metadata.causation for answer in answers}) == 20

    def test_tells_how_long_it_may_take(self, serve_unix: Serve) -> None:
        with Caller(serve_unix(echo), 30) as caller:
            assert (
                plain(caller.request("query", "A.B", {}, timeout_ms=250).data)["metadata"]["timeout"] == 250
            )

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"{}", {}),
            (b' {"a":\n\n [1,\t2]\r\n} ', {"a": [1, 2]}),
            (b"5", 5),
            ('{"text"}', '{"text"}'),
            (None, None),
            ([1, {"é": "ü"}], [1, {"é": "ü"}]),
            ('"é"'.encode(), "é"),
        ],
    )
    def test_has_data_of_json_or_of_values_in_one_line(
        self, serve_unix: Serve, data: object, expected: object
    ) -> None:
        with Caller(serve_unix(echo), 30) as caller:
            assert plain(caller.request("query", "A.B", data).data)["data"] == expected

    def test_a_number_is_not_rounded_on_its_way(self, serve_unix: Serve) -> None:
        with Caller(serve_unix(echo), 30) as caller:
            answer = caller.request("query", "A.B", b'{"a": 1.00000000000000000001}')
        assert plain(answer.data)["data"] == {"a": "1.00000000000000000001"}

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"{} {}", b"{'a': 1}", b'"\xff"', b"[" * 200_000, object(), {1j: 2}, "\ud800"]
    )
    def test_with_data_that_is_no_json_is_not_sent(self, serve_unix: Serve, data: object) -> None:
        with Caller(serve_unix(echo), 30) as caller:
            with pytest.raises(InvalidArgument, match="the data "):
                caller.request("query", "A.B", data)
            assert caller.request("query", "A.B", {}).kind == "reply", (
                "and the connection is good for the next"
            )

    def test_that_is_owed_no_answer_is_not_sent(self, serve_unix: Serve) -> None:
        wrong: Any = "event"
        with (
            Caller(serve_unix(echo), 30) as caller,
            pytest.raises(InvalidArgument, match="'event' is owed no answer"),
        ):
            caller.request(wrong, "A.B")

    def test_needs_a_connection(self) -> None:
        with pytest.raises(InvalidArgument, match="use it by `with"):
            Caller(Address(path="/x")).request("query", "A.B")


class TestTheAnswer:
    def test_is_found_among_whatever_else_comes(self, serve_unix: Serve) -> None:
        def chatter(request: dict[str, Any], client: socket.socket) -> None:
            own = request["metadata"]["id"]
            client.sendall(
                frame("event", own)
                + frame("reply", "another", "not mine")
                + frame("error", "another", "not mine")
                + frame("reply", None, "nobody's")
                + frame("reply", own, "mine")
                + frame("reply", own, "again")
            )

        with Caller(serve_unix(chatter), 30) as caller:
            assert plain(caller.request("query", "A.B").data) == "mine"
            assert plain(caller.request("query", "A.B").data) == "mine", (
                "what was left over is not taken for an answer"
            )

    def test_may_be_an_error(self, serve_unix: Serve) -> None:
        def fail(request: dict[str, Any], client: socket.socket) -> None:
            client.sendall(frame("error", request["metadata"]["id"], {"message": "no"}, "Sys.RoutingError"))

        with Caller(serve_unix(fail), 30) as caller:
            answer = caller.request("query", "A.B")
        assert (answer.kind, answer.type) == ("error", "Sys.RoutingError")

    def test_may_be_an_error_about_a_line_that_could_not_be_read(self, serve_unix: Serve) -> None:
        """Then it names no request; but there is only one that it can be about."""

        def refuse(request: dict[str, Any], client: socket.socket) -> None:
            client.sendall(frame("error", None, {"message": "too long"}, "Sys.SchemaError"))

        with Caller(serve_unix(refuse), 30) as caller:
            assert caller.request("query", "A.B").type == "Sys.SchemaError"

    def test_may_come_in_pieces(self, serve_unix: Serve) -> None:
        def drip(request: dict[str, Any], client: socket.socket) -> None:
            for byte in frame("event", None) + frame("reply", request["metadata"]["id"], "drop by drop"):
                client.sendall(bytes([byte]))

        with Caller(serve_unix(drip), 30) as caller:
            assert plain(caller.request("query", "A.B").data) == "drop by drop"

    @pytest.mark.slow
    def test_may_be_huge(self, serve_unix: Serve) -> None:
        def flood(request: dict[str, Any], client: socket.socket) -> None:
            client.sendall(frame("reply", request["metadata"]["id"], "x" * 5_000_000))

        with Caller(serve_unix(flood), 30) as caller:
            assert len(plain(caller.request("query", "A.B").data)) == 5_000_000

    def test_can_be_written_again(self, serve_unix: Serve) -> None:
        with Caller(serve_unix(echo), 30) as caller:
            assert b"\n" not in write_frame(caller.request("query", "A.B"))


class TestWhatGoesWrong:
    def test_nobody_listens(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectionRefusedError) as caught, Caller(Address(path=str(tmp_path / "none"))):
            pass
        assert str(caught.value).startswith(
            f"nobody listens at unix:{tmp_path}/none: start a node with `bandstand serve`"
        )

    def test_nobody_listens_any_more(self, tmp_path: Path) -> None:
        path = tmp_path / "stale"
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(path))
        left.close()
        with pytest.raises(ConnectionRefusedError, match="nobody listens"), Caller(Address(path=str(path))):
            pass

    def test_nobody_listens_on_that_port(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with pytest.raises(ConnectionRefusedError, match=f"nobody listens at tcp:127.0.0.1:{port}"):
            Caller(Address(host="127.0.0.1", port=port)).__enter__()

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (TimeoutError("timed out"), "no connection to unix:/x in 5 s"),
            (PermissionError(13, "Permission denied"), "you may not connect to unix:/x"),
            (socket.gaierror(-2, "Name or service not known"), "cannot connect to unix:/x: "),
        ],
    )
    def test_it_cannot_connect_for_another_reason(
        self, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
    ) -> None:
        """What the system says is not to be had at will: nobody keeps root from connecting."""

        def fail(caller: Caller) -> None:
            raise error

        monkeypatch.setattr(Caller, "_connect", fail)
        with pytest.raises(OSError, match="unix:/x") as caught:
            Caller(Address(path="/x"), 5).__enter__()
        assert told in str(caught.value)
        assert caught.value.__cause__ is error

    def test_it_is_no_place_to_listen_at(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"cannot connect to unix:.*too long"):
            Caller(Address(path="/" + "x" * 500)).__enter__()

    def test_the_node_hangs_up(self, serve: Serve) -> None:
        def leave(request: dict[str, Any], client: socket.socket) -> None:
            client.sendall(b'{"kind":')
            client.shutdown(socket.SHUT_RDWR)

        with Caller(serve(leave), 30) as caller, pytest.raises(ConnectionError) as caught:
            caller.request("command", "Memory.Set")
        assert "has hung up before it answered command Memory.Set" in str(caught.value)

    def test_the_node_does_not_answer(self, serve_unix: Serve) -> None:
        with (
            Caller(serve_unix(lambda request, client: None), 0.01) as caller,
            pytest.raises(TimeoutError) as caught,
        ):
            caller.request("query", "Memory.Get")
        assert "has not answered query Memory.Get in 0.01 s" in str(caught.value)

    def test_the_node_talks_and_talks_and_does_not_answer(self, serve_unix: Serve) -> None:
        """What comes does not put off the end."""

        def talk(request: dict[str, Any], client: socket.socket) -> None:
            while True:
                client.sendall(frame("event", None))

        with Caller(serve_unix(talk), 0.05) as caller, pytest.raises(TimeoutError):
            caller.request("query", "Memory.Get")

    def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(self, serve_unix: Serve) -> None:
        held: list[bytes] = []

        def late(request: dict[str, Any], client: socket.socket) -> None:
            own = request["metadata"]["id"]
            held.append(frame("reply", own, len(held)))
            if len(held) == 2:
                client.sendall(b"".join(held))

        with Caller(serve_unix(late), 0.05) as caller:
            with pytest.raises(TimeoutError):
                caller.request("query", "A.B")
            assert plain(caller.request("query", "A.B", timeout_ms=30_000).data) == 1

    @pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n", b"\xff\xff\n", b"{}\n", b"\n"])
    def test_it_is_no_node(self, serve_unix: Serve, nonsense: bytes) -> None:
        with (
            Caller(serve_unix(lambda request, client: client.sendall(nonsense)), 30) as caller,
            pytest.raises(BadMessage, match="is no node, or a broken one"),
        ):
            caller.request("query", "A.B")

    def test_a_directory_of_last_resort_that_is_somebody_elses_is_not_entered(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from bandstand.bus.client import address

        folder = tmp_path / "open"
        folder.mkdir()
        folder.chmod(0o777)
        monkeypatch.setattr(address, "_last_resort", lambda: folder)
        with pytest.raises(PermissionError, match="only you may enter"):
            Caller(Address(path=str(folder / "bus.sock"))).__enter__()

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_no_time_at_all_is_refused(self, seconds: float) -> None:
        with pytest.raises(InvalidArgument, match="timeout_s"):
            Caller(Address(path="/x"), seconds)


def test_leaving_without_having_entered_does_nothing() -> None:
    Caller(Address(path="/x")).__exit__(None, None, None)


def test_it_can_be_entered_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        caller = Caller(Address(path=str(path)), 30)
        for _ in range(2):
            with caller:
                listener.accept()[0].close()
            with pytest.raises(InvalidArgument):
                caller.request("query", "A.B")
