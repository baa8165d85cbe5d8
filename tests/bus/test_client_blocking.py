"""The blocking client with whoever is at the other end: one request, one answer, and a sentence for whatever comes between."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bandstand.bus import Address, BlockingConnection, ClientConfig, connect_blocking
from bandstand.bus.client import config, connection
from bandstand.bus.client.blocking import EventLoopThread
from bandstand.bus.contracts.describe import CapabilityDescription, Description, MessageDescription
from bandstand.bus.memory import Get, Set
from bandstand.cli.commands.bench import BenchOptions, bench
from bandstand.cli.output import ExitCode
from bandstand.cli.settings import Target
from bandstand.errors import (
    AskTimeoutError,
    InvalidArgumentError,
    NodeGoneError,
    RequestFailedError,
)
from tests.cli.node_thread import Broken, served
from tests.core.support import HostFactory

pytestmark = [pytest.mark.spec("C17"), pytest.mark.guarantee("G187", "G193")]

# A script takes a request, as it was sent, and the connection to answer it on.
Script = Callable[[dict[str, Any], socket.socket], None]
Serve = Callable[[Script], Address]


def caller_of(address: Address, timeout_ms: int = 30_000) -> BlockingConnection:
    """A client that does not look for a node that has hung up."""
    return connect_blocking(
        address, ClientConfig(timeout=timeout_ms / 1000, connect_timeout=timeout_ms / 1000, give_up_after=0)
    )


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
                    request = json.loads(line, parse_float=str)
                    if request["type"] == "Syscall.Ping":
                        client.sendall(frame("reply", request["metadata"]["id"], {}))
                    else:
                        self.script(request, client)
            except OSError:
                return

    def close(self) -> None:
        # Wakes the thread if nobody has ever connected.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def stands() -> Iterator[list[Stand]]:
    stands: list[Stand] = []
    yield stands
    for stand in stands:
        stand.close()


@pytest.fixture
def serve_unix(tmp_path: Path, stands: list[Stand]) -> Serve:
    """For what does not depend on the kind of socket."""

    def serve(script: Script) -> Address:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        stands.append(Stand(listener, script))
        return Address(path=str(tmp_path / "s"))

    return serve


@pytest.fixture(params=["unix", "tcp"])
def serve(request: pytest.FixtureRequest, serve_unix: Serve, stands: list[Stand]) -> Serve:
    def serve_tcp(script: Script) -> Address:
        listener = socket.create_server(("127.0.0.1", 0))
        stands.append(Stand(listener, script))
        return Address(host="127.0.0.1", port=listener.getsockname()[1])

    return serve_unix if request.param == "unix" else serve_tcp


def echo(request: dict[str, Any], client: socket.socket) -> None:
    client.sendall(frame("reply", request["metadata"]["id"], request, request["type"]))


def plain(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


class TestARequest:
    def test_is_sent_as_a_message_and_its_answer_comes_back(self, serve: Serve) -> None:
        with caller_of(serve(echo)) as caller:
            answer = caller.exchange("query", "Memory.Get", {"key": "a"})
        sent = plain(answer.data)
        assert (answer.kind, answer.type) == ("reply", "Memory.Get")
        assert (sent["kind"], sent["type"], sent["data"]) == ("query", "Memory.Get", {"key": "a"})
        assert answer.metadata.causation == sent["metadata"]["id"]
        assert set(sent["metadata"]) == {"id", "timestamp", "timeout"}
        assert len(sent["metadata"]["id"]) == 26

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
    def test_has_data_in_one_line(self, serve_unix: Serve, data: object, expected: object) -> None:
        with caller_of(serve_unix(echo)) as caller:
            assert plain(caller.exchange("query", "A.B", data).data)["data"] == expected

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"{} {}", b"{'a': 1}", b'"\xff"', b"[" * 200_000, object(), {1j: 2}, "\ud800"]
    )
    def test_with_data_that_is_no_json_is_not_sent(self, serve_unix: Serve, data: object) -> None:
        with caller_of(serve_unix(echo)) as caller:
            with pytest.raises(InvalidArgumentError, match="the data "):
                caller.exchange("query", "A.B", data)
            assert caller.exchange("query", "A.B", {}).kind == "reply", (
                "and the connection is good for the next"
            )


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

        with caller_of(serve_unix(chatter)) as caller:
            assert plain(caller.exchange("query", "A.B").data) == "mine"
            assert plain(caller.exchange("query", "A.B").data) == "mine", (
                "what was left over is not taken for an answer"
            )


class TestWhatGoesWrong:
    @pytest.mark.parametrize("kind", ["nothing", "stale", "tcp"])
    def test_nobody_listens(self, tmp_path: Path, kind: str) -> None:
        address = Address(path=str(tmp_path / "s"))
        if kind == "stale":
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(tmp_path / "s"))
        elif kind == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as taken:
                address = Address(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(NodeGoneError) as caught, caller_of(address):
            pass
        assert str(caught.value).startswith(
            f"no node is listening at {address}: start one with `bandstand serve`"
        )

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (TimeoutError("timed out"), "no connection to unix:/x within 5 s"),
            (PermissionError(13, "Permission denied"), "you may not connect to unix:/x"),
            (socket.gaierror(-2, "Name or service not known"), "cannot connect to unix:/x: "),
        ],
    )
    def test_it_cannot_connect_for_another_reason(
        self, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
    ) -> None:
        """What the system says is not to be had at will: nobody keeps root from connecting."""

        async def fail(_address: Address, _make: object) -> None:
            raise error

        monkeypatch.setattr(connection, "_dial", fail)
        with pytest.raises(OSError, match="unix:/x") as caught:
            caller_of(Address(path="/x"), 5000).__enter__()
        assert told in str(caught.value)
        assert caught.value.__cause__ is error

    def test_it_is_no_place_to_listen_at(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=r"cannot connect to unix:.*too long"):
            caller_of(Address(path="/" + "x" * 500)).__enter__()

    def test_an_invalid_host_name(self) -> None:
        with pytest.raises(OSError, match="is not a host name"), connect_blocking("tcp:a..b:80"):
            pass

    def test_a_directory_of_others_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "open"
        folder.mkdir()
        folder.chmod(0o777)
        monkeypatch.setattr(config, "_fallback_directory", lambda: folder)
        with pytest.raises(PermissionError, match="only you may enter"):
            caller_of(Address(path=str(folder / "bus.sock"))).__enter__()


def test_it_can_be_entered_again_and_is_closed_in_between(serve_unix: Serve) -> None:
    caller = caller_of(serve_unix(echo))
    # Leaving without having entered does nothing.
    caller.__exit__(None, None, None)
    with caller:
        wrong: Any = "event"
        with pytest.raises(InvalidArgumentError, match="'event' gets no reply"):
            caller.exchange(wrong, "A.B")
        seen = [caller.is_connected]
        with pytest.raises(InvalidArgumentError, match="open already"):
            caller.__enter__()
    assert [*seen, caller.is_connected] == [True, False]
    with pytest.raises(InvalidArgumentError, match="there is no connection"):
        caller.exchange("query", "A.B")


def test_who_comes_while_it_is_closed_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = EventLoopThread()
    is_ending, is_posted = threading.Event(), threading.Event()
    post = asyncio.run_coroutine_threadsafe
    ends: list[Exception] = []

    async def nothing() -> None: ...

    def come() -> None:
        try:
            runner.run(nothing())
        except NodeGoneError as error:
            ends.append(error)

    def posting(coroutine: Any, event_loop: asyncio.AbstractEventLoop) -> Any:
        future = post(coroutine, event_loop)
        is_posted.set()
        return future

    def end() -> None:
        # What is posted from here on is not done any more.
        asyncio.get_running_loop().stop()
        is_ending.set()
        is_posted.wait(30)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", posting)
    runner.call_soon(end)
    is_ending.wait(30)
    thread = threading.Thread(target=come, daemon=True)
    thread.start()
    thread.join(5)
    runner.close()
    assert [str(end) for end in ends] == ["this connection was closed during the call"]


def test_it_can_be_closed_while_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = EventLoopThread()
    cancel_waits = runner.cancel_waits

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    def closing() -> None:
        # What `close` has done over there comes when the event loop has stopped, before its last turns.
        monkeypatch.setattr(runner, "cancel_waits", cancel_waits)
        runner.call_soon(cancel_all)
        cancel_waits()

    monkeypatch.setattr(runner, "cancel_waits", closing)
    runner.call_soon(lambda: asyncio.get_running_loop().stop())
    runner.close()
    assert runner.is_closed


def test_a_bench_whose_node_is_gone_ends_with_a_sentence(serve_unix: Serve) -> None:
    message = MessageDescription(type="A.B", kind="query", description="", schema={}, reply={})
    capability = CapabilityDescription(id="A", description="", handles=[message], emits=[], subscribes=[])
    described = Description(capabilities=[capability], envelope={}, fault={}, faults=[])

    def script(request: dict[str, Any], client: socket.socket) -> None:
        if request["type"] == "Syscall.Describe":
            client.sendall(frame("reply", request["metadata"]["id"], msgspec.to_builtins(described)))
        else:
            client.shutdown(socket.SHUT_RDWR)

    out, err = io.StringIO(), io.StringIO()
    target = Target(address=serve_unix(script))
    assert bench(BenchOptions(type="A.B", concurrency=3), target, out, err) is ExitCode.NO_NODE
    assert out.getvalue() == ""
    assert re.fullmatch(r"bandstand: .*before it replied to query A\.B.*\n", err.getvalue())


@pytest.fixture
def address(tmp_path: Path, loop_factory: HostFactory) -> Iterator[str]:
    with served(tmp_path / "bus.sock", loop_factory):
        yield f"unix:{tmp_path}/bus.sock"


@pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done")
class TestWithANode:
    def test_the_verbs_are_the_same(self, address: str) -> None:
        with connect_blocking(address) as bus:
            bus.call(Set(key="a", value=1))
            assert bus.query(Get(key="a")).value == 1
            assert bus.query("Memory.Get", {"key": "a"}) == {"value": 1}
            with pytest.raises(RequestFailedError, match=r"Sys\.RoutingError"):
                bus.call("No.Such")
            with pytest.raises(RequestFailedError, match=r"Sys\.SchemaError"):
                bus.emit("Memory.Changed", {"key": 5})

    def test_a_subscription_is_an_iterator_that_is_over_when_nothing_comes(self, address: str) -> None:
        with connect_blocking(address) as bus, bus.subscribe(Broken, timeout=0.05) as events:
            for by in ("cat", "dog"):
                bus.emit(Broken(by))
            assert list(events) == [Broken("cat"), Broken("dog")]
            with pytest.raises(AskTimeoutError, match="no event came within 0"):
                events.next(0.01)
            bus.emit(Broken("cow"))
            assert (events.next(30), events.gaps, events.unknown) == (Broken("cow"), 0, ())
            events.close()
            assert list(events) == []

    def test_any_thread_may_use_it_and_none_is_left(self, address: str) -> None:
        with connect_blocking(address) as bus:
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(bus.query, ["Memory.Get"] * 64, [{"key": "none"}] * 64))
            assert len(found) == 64
            events = bus.subscribe("Glass.*")
        assert [each.name for each in threading.enumerate() if each.name == "bandstand client"] == []
        with pytest.raises(NodeGoneError):
            events.next(1)
        events.close()

    def test_closing_it_wakes_whoever_waits(self, address: str) -> None:
        with ThreadPoolExecutor(1) as pool:
            with connect_blocking(address) as bus:
                events = bus.subscribe("Glass.*")
                waiting = pool.submit(list, events)
                bus.query(Get(key="a"))
            assert waiting.result(30) == []
