"""The client: calls, events and subscriptions, with a real node over a real socket in virtual time, and over the end of that node."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeAlias

import pytest
from msgspec import Struct

from bandstand.bus import (
    Capability,
    ClientConfig,
    Command,
    Event,
    Gap,
    Memory,
    Message,
    Node,
    NodeConfig,
    Passed,
    Query,
    TcpAdapter,
    UnixAdapter,
    connect,
    syscall,
)
from bandstand.bus.memory import Get, Set
from bandstand.bus.syscall import StatsQuery
from bandstand.errors import (
    AskTimeoutError,
    BandstandError,
    ContractViolationError,
    InvalidArgumentError,
    InvalidMessageError,
    LoopBusyError,
    NodeGoneError,
    RequestFailedError,
)
from bandstand.supervision import Backoff
from bandstand.testing import VirtualClock

pytestmark = [pytest.mark.spec("C17", "C23")]

Act: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Echoed(Struct):
    text: str


class Say(Query[Echoed], type="Room.Say"):
    """Say it again."""

    text: str


class Rest(Command[None], type="Room.Rest"):
    """Take some time."""

    ms: int


class Tell(Command[int], type="Room.Tell"):
    """Tell everybody, so many times."""

    times: int = 1


class Told(Event, type="Room.Told"):
    """It was told."""

    number: int


class Room(Capability):
    """Answers, in its time."""

    outbound = Told
    handled = 0

    def say(self, msg: Say) -> Echoed:
        Room.handled += 1
        return Echoed(msg.text)

    async def rest(self, msg: Rest) -> None:
        await asyncio.sleep(msg.ms / 1000)

    def tell(self, msg: Tell) -> int:
        for number in range(msg.times):
            self.bus.emit(Told(number))
        return msg.times


@pytest.fixture
def clock(bandstand_clock: VirtualClock) -> VirtualClock:
    return bandstand_clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.sock"


@pytest.fixture
def play(
    bandstand_clock: VirtualClock, bandstand_leak_check: None
) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    return bandstand_clock.run


@asynccontextmanager
async def node(path: Path, clock: VirtualClock, **config: Any) -> AsyncGenerator[Node]:
    settings = NodeConfig(health_period=0, **config)
    async with Node([Room, Memory], adapters=[UnixAdapter(path)], config=settings, clock=clock) as made:
        yield made


def config(**fields: Any) -> ClientConfig:
    return ClientConfig(backoff=Backoff(initial=0.01, maximum=0.1), **fields)


Play: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


class Script:
    """Somebody at the other end who is no node: it answers as a function says."""

    def __init__(self, path: Path, answer: Callable[[dict[str, Any], Script], None]) -> None:
        self.path = path
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self._writer: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        if self._writer is not None:
            self._writer.close()
        await self._server.wait_closed()
        await asyncio.sleep(0.001)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.connections += 1
        while line := await reader.readline():
            request = json.loads(line)
            if request["type"] == "Syscall.Ping":
                self.reply(request, {})
            else:
                self.requests.append(request)
                self.answer(request, self)
        writer.close()

    def say(self, line: bytes) -> None:
        assert self._writer is not None
        self._writer.write(line)

    def reply(self, request: dict[str, Any], data: object, kind: str = "reply", type_name: str = "") -> None:
        metadata = {"id": "r", "timestamp": 1, "causation": request["metadata"]["id"]}
        frame = {"kind": kind, "type": type_name or request["type"], "data": data, "metadata": metadata}
        self.say(json.dumps(frame).encode() + b"\n")

    def error(self, type_name: str, message: str) -> None:
        frame = {"kind": "error", "type": type_name, "data": {"message": message}}
        self.say(json.dumps({**frame, "metadata": {"id": "e", "timestamp": 1}}).encode() + b"\n")

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.transport.abort()


@pytest.mark.guarantee("G185")
class TestACall:
    def test_of_a_class_is_answered_with_what_the_class_says(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                assert await bus.call(Say(text="a")) == Echoed("a")
                assert await bus.query(Say(text="b")) == Echoed("b")
                await bus.call(Set(key="k", value=[1]))
                assert (await bus.query(Get(key="k"))).value == [1]

        play(act())

    def test_of_a_type_is_answered_with_plain_data(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                assert await bus.query("Room.Say", {"text": "a"}) == {"text": "a"}
                assert await bus.call("Room.Tell", b'{"times":0}') == 0
                assert await bus.call("Room.Tell") == 1
                answer = await bus.exchange("query", "Room.Say", {"text": "b"})
                assert (answer.kind, bytes(answer.data)) == ("reply", b'{"text":"b"}')

        play(act())

    @pytest.mark.parametrize(
        ("request_", "data", "type_name"),
        [
            ("Room.None", {}, "Sys.RoutingError"),
            ("Room.Tell", {"times": "x"}, "Sys.SchemaError"),
            ("Room.Tell", [[[1]]], "Sys.SchemaError"),
        ],
    )
    def test_that_fails_is_an_exception(
        self, play: Play, path: Path, clock: VirtualClock, request_: str, data: object, type_name: str
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                with pytest.raises(RequestFailedError) as caught:
                    await bus.call(request_, data)
                assert caught.value.type == type_name
                assert request_ in str(caught.value)

        play(act())

    def test_that_can_never_work_is_not_sent(self, play: Play, path: Path, clock: VirtualClock) -> None:
        wrong: Any = Told(1)
        number: Any = "x"

        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                before = made.recent(1)
                with pytest.raises(InvalidArgumentError, match="cannot be sent"):
                    await bus.call(wrong)
                with pytest.raises(InvalidArgumentError, match="not a Query"):
                    await bus.query(wrong)
                with pytest.raises(ContractViolationError):
                    await bus.call(Tell(times=number))
                with pytest.raises(InvalidArgumentError, match="not a type"):
                    await bus.call("")
                with pytest.raises(InvalidArgumentError, match="not JSON"):
                    await bus.call("A.B", b"{")
                with pytest.raises(InvalidArgumentError, match="levels"):
                    await bus.call("A.B", b"[" * 5000 + b"]" * 5000)
                for timeout in (0, -1, True, "1", 10**6, timedelta(days=2)):
                    with pytest.raises(InvalidArgumentError, match="timeout is"):
                        await bus.call("A.B", {}, timeout=timeout)  # type: ignore[arg-type]
                assert made.recent(1) == before

        play(act())

    def test_has_its_deadline_from_the_node(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                began = asyncio.get_running_loop().time()
                with pytest.raises(RequestFailedError) as caught:
                    await bus.call(Rest(ms=60_000), timeout=0.5)
                assert caught.value.type == "Sys.Timeout"
                assert 0.5 <= asyncio.get_running_loop().time() - began < 0.6

        play(act())

    def test_to_somebody_who_never_answers_ends(self, play: Play, path: Path) -> None:
        async def act() -> None:
            async with Script(path, lambda _request, _script: None), connect(f"unix:{path}") as bus:
                began = asyncio.get_running_loop().time()
                with pytest.raises(AskTimeoutError, match=r"query A\.B got no reply in time"):
                    await bus.query("A.B", timeout=1)
                assert 1 <= asyncio.get_running_loop().time() - began < 4

        play(act())

    def test_answers_that_come_too_late_or_twice_are_nobodys(self, play: Play, path: Path) -> None:
        def late(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 2:
                for each in (*script.requests, *script.requests):
                    script.reply(each, each["data"])

        async def act() -> None:
            async with Script(path, late), connect(f"unix:{path}") as bus:
                with pytest.raises(AskTimeoutError):
                    await bus.query("A.B", 1, timeout=0.1)
                assert await bus.query("A.B", 2) == 2

        play(act())

    def test_a_line_that_is_too_long_fails_the_call_it_was(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                long = asyncio.ensure_future(bus.query(Say(text="x" * 2_000_000)))
                others = [bus.query(Say(text=str(each))) for each in range(20)]
                assert [each.text for each in await asyncio.gather(*others)] == list(map(str, range(20)))
                with pytest.raises(RequestFailedError, match="1048576 bytes"):
                    await long

        play(act())

    def test_over_tcp(self, play: Play, clock: VirtualClock) -> None:
        async def act() -> None:
            adapter = TcpAdapter()
            async with Node([Room], adapters=[adapter], clock=clock), connect(adapter.name) as bus:
                assert await bus.query(Say(text="a")) == Echoed("a")

        play(act())


@pytest.mark.guarantee("G186")
class TestManyCalls:
    def test_are_under_way_at_once(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                answers = await asyncio.gather(*(bus.query(Say(text=str(each))) for each in range(600)))
                assert [each.text for each in answers] == list(map(str, range(600)))

        play(act())

    def test_respect_the_window(self, play: Play, path: Path) -> None:
        most = 0

        def answer(request: dict[str, Any], script: Script) -> None:
            nonlocal most
            held.append(request)
            most = max(most, len(held))
            if len(held) == 4:
                asyncio.get_running_loop().call_later(0.01, release, script)

        def release(script: Script) -> None:
            for each in held:
                script.reply(each, each["data"])
            held.clear()

        held: list[dict[str, Any]] = []

        async def act() -> None:
            async with Script(path, answer), connect(f"unix:{path}", config(window=4)) as bus:
                assert await asyncio.gather(*(bus.query("A.B", each) for each in range(40))) == list(
                    range(40)
                )
            assert most == 4

        play(act())

    def test_one_that_is_cancelled_is_forgotten(self, play: Play, path: Path) -> None:
        async def act() -> None:
            async with (
                Script(path, lambda _request, _script: None) as script,
                connect(f"unix:{path}", config(window=1)) as bus,
            ):
                first = asyncio.ensure_future(bus.query("A.One"))
                second = asyncio.ensure_future(bus.query("A.Two"))
                third = asyncio.ensure_future(bus.query("A.Three"))
                await asyncio.sleep(0.01)
                for each in (first, second):
                    each.cancel()
                await asyncio.wait([first, second])
                # What was sent still counts until it is answered; what was not never is.
                assert [each["type"] for each in script.requests] == ["A.One"]
                script.reply(script.requests[0], 1)
                await asyncio.sleep(0.01)
                assert [each["type"] for each in script.requests] == ["A.One", "A.Three"]
                script.reply(script.requests[1], 3)
                assert await third == 3

        play(act())

    def test_what_waits_for_the_window_has_its_deadline_too(self, play: Play, path: Path) -> None:
        async def act() -> None:
            async with (
                Script(path, lambda _request, _script: None),
                connect(f"unix:{path}", config(window=1)) as bus,
            ):
                first = asyncio.ensure_future(bus.query("A.One", timeout=10))
                await asyncio.sleep(0.01)
                with pytest.raises(
                    AskTimeoutError, match=r"was not sent in time: 1 other calls had no reply"
                ):
                    await bus.query("A.Two", timeout=0.1)
                first.cancel()

        play(act())


@pytest.mark.guarantee("G187")
class TestALostConnection:
    def test_is_made_again_and_the_same_request_sent_again(self, play: Play, path: Path) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 1:
                script.hang_up()
            else:
                script.reply(request, "done")

        async def act() -> None:
            slow = ClientConfig(backoff=Backoff(initial=0.1, maximum=0.1))
            async with Script(path, answer) as script, connect(f"unix:{path}", slow) as bus:
                assert await bus.call("A.B", {"a": 1}, timeout=5) == "done"
            first, second = script.requests
            assert first["metadata"]["id"] == second["metadata"]["id"]
            assert (first["data"], first["kind"]) == (second["data"], second["kind"])
            assert (first["metadata"]["timeout"], second["metadata"]["timeout"]) == (5000, 4900)
            assert script.connections == 2

        play(act())

    def test_what_was_open_is_sent_before_what_is_new(self, play: Play, path: Path) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 3:
                script.hang_up()
            elif len(script.requests) > 3:
                script.reply(request, request["data"])

        async def act() -> None:
            async with Script(path, answer) as script, connect(f"unix:{path}", config(window=3)) as bus:
                assert await asyncio.gather(*(bus.query("A.B", each) for each in range(6))) == list(range(6))
            assert [each["data"] for each in script.requests] == [0, 1, 2, 0, 1, 2, 3, 4, 5]

        play(act())

    def test_a_node_that_is_started_again_is_found_again(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock):
                bus = await connect(f"unix:{path}", config()).__aenter__()
                seen = [bus.is_connected]
            await asyncio.sleep(0.01)
            assert [*seen, bus.is_connected] == [True, False]
            waiting = asyncio.ensure_future(bus.query(Say(text="later")))
            await asyncio.sleep(5)
            async with node(path, clock):
                assert await waiting == Echoed("later")
                await bus.__aexit__(None, None, None)

        play(act())

    def test_the_deadline_stays_what_it_was(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock):
                bus = await connect(f"unix:{path}", config()).__aenter__()
            await asyncio.sleep(0.01)
            began = asyncio.get_running_loop().time()
            with pytest.raises(
                NodeGoneError, match=r"got no reply in time: no node is listening .*; it was never sent"
            ):
                await bus.query(Say(text="a"), timeout=0.7)
            assert 0.699 < asyncio.get_running_loop().time() - began < 0.8
            await bus.__aexit__(None, None, None)

        play(act())

    def test_somebody_who_hangs_up_all_the_time_is_not_called_all_the_time(
        self, play: Play, path: Path
    ) -> None:
        async def act() -> None:
            async with (
                Script(path, lambda _request, script: script.hang_up()) as script,
                connect(f"unix:{path}", config()) as bus,
            ):
                with pytest.raises(NodeGoneError, match="it may have been carried out"):
                    await bus.call("A.B", timeout=2)
                assert script.connections <= 2000 / 10

        play(act())

    def test_a_node_that_does_not_come_back_is_given_up(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock):
                bus = await connect(f"unix:{path}", config(give_up_after=3)).__aenter__()
                events = await bus.subscribe("Room.*").__aenter__()
            began = asyncio.get_running_loop().time()
            with pytest.raises(NodeGoneError, match="before it replied to query"):
                await bus.query(Say(text="a"), timeout=60)
            assert 2.5 < asyncio.get_running_loop().time() - began < 4
            with pytest.raises(NodeGoneError):
                await anext(events)
            with pytest.raises(NodeGoneError, match="this connection is closed"):
                await bus.query(Say(text="a"))
            await bus.__aexit__(None, None, None)

        play(act())

    @pytest.mark.parametrize("kind", ["Sys.Unauthorized", "Sys.TooManyConnections"])
    def test_a_node_that_sends_it_away_says_why(self, play: Play, path: Path, kind: str) -> None:
        async def act() -> None:
            async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                frame = {"kind": "error", "type": kind, "data": {"message": "not you"}}
                writer.write(json.dumps({**frame, "metadata": {"id": "e", "timestamp": 1}}).encode() + b"\n")
                await writer.drain()
                writer.close()

            server = await asyncio.start_unix_server(greet, path)
            expected: type[BandstandError] = (
                RequestFailedError if kind == "Sys.Unauthorized" else NodeGoneError
            )
            with pytest.raises(expected, match="not you"):
                await connect(f"unix:{path}").__aenter__()
            server.close()
            await server.wait_closed()

        play(act())

    def test_a_node_that_is_not_there_yet_can_be_waited_for(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            early = connect(f"unix:{path}", config())
            for _ in range(2):
                with pytest.raises(NodeGoneError, match="no node is listening"):
                    await early.__aenter__()
            waiting = asyncio.ensure_future(connect(f"unix:{path}", config(wait=5)).__aenter__())
            await asyncio.sleep(2)
            async with node(path, clock):
                bus = await waiting
                assert await bus.query(Say(text="a")) == Echoed("a")
                await bus.__aexit__(None, None, None)

        play(act())


@pytest.mark.guarantee("G188")
class TestTheEnd:
    def test_closing_fails_what_is_open_with_a_sentence(self, play: Play, path: Path) -> None:
        async def act() -> None:
            async with Script(path, lambda _request, _script: None):
                async with connect(f"unix:{path}", config(window=1)) as bus:
                    sent = asyncio.ensure_future(bus.query("A.One"))
                    unsent = asyncio.ensure_future(bus.query("A.Two"))
                    await asyncio.sleep(0.01)
                with pytest.raises(NodeGoneError, match=r"closed .* A\.One; it may have been carried out"):
                    await sent
                with pytest.raises(NodeGoneError, match=r"closed .* A\.Two; it was never sent"):
                    await unsent
                with pytest.raises(NodeGoneError, match="this connection is closed"):
                    await bus.query("A.B")

        play(act())

    def test_closing_writes_out_what_was_sent(self, play: Play, path: Path) -> None:
        much = "x" * (1 << 22)

        async def act() -> None:
            async with Script(path, lambda _request, _script: None) as script:
                async with connect(f"unix:{path}", config()) as bus:
                    await bus.query("Syscall.Ping")
                    await bus.emit("Room.Told", {"text": much}, confirm=False)
                await asyncio.sleep(0.01)
                assert [request["data"]["text"] for request in script.requests] == [much]

        play(act())

    def test_closing_ends_subscriptions(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock):
                async with connect(f"unix:{path}") as bus:
                    events = await bus.subscribe(Told).__aenter__()
                    await bus.call(Tell())
                # What has come is still read.
                assert [each async for each in events] == [Told(0)]

        play(act())

    def test_it_is_used_by_async_with(self) -> None:
        with pytest.raises(InvalidArgumentError, match="async with"):
            connect("unix:/x").subscribe("A.*")
        with pytest.raises(InvalidArgumentError, match="not an address"):
            connect("nix:/x")
        wrong: Any = {"window": 1}
        with pytest.raises(InvalidArgumentError, match="pass a ClientConfig"):
            connect("unix:/x", wrong)

    def test_two_do_not_enter_one(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock):
                bus = connect(f"unix:{path}")
                for _ in range(2):
                    async with bus:
                        with pytest.raises(InvalidArgumentError, match="open already"):
                            await bus.__aenter__()
                        assert await bus.query(Say(text="a")) == Echoed("a")

        play(act())

    def test_somebody_who_is_no_node_ends_it(self, play: Play, path: Path) -> None:
        async def act() -> None:
            nonsense = b"HTTP/1.1 400 Bad Request\r\n"
            async with (
                Script(path, lambda _request, script: script.say(nonsense)),
                connect(f"unix:{path}", config()) as bus,
            ):
                with pytest.raises(InvalidMessageError, match="is not a node"):
                    await bus.query("A.B")

        play(act())

    @pytest.mark.parametrize(
        "fields",
        [
            {"timeout": 0},
            {"timeout": True},
            {"timeout": timedelta(days=2)},
            {"window": 0},
            {"buffer": 0},
            {"wait": -1},
            {"connect_timeout": 0},
            {"give_up_after": "1"},
            {"backoff": 5},
            {"token": ""},
        ],
    )
    def test_a_configuration_is_checked(self, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match=f"ClientConfig: {next(iter(fields))} is"):
            ClientConfig(**fields)

    def test_durations_may_be_timedeltas_and_are_kept_in_seconds(self) -> None:
        half = timedelta(milliseconds=500)
        made = ClientConfig(timeout=half, wait=half, connect_timeout=half, give_up_after=half)
        assert made == ClientConfig(timeout=0.5, wait=0.5, connect_timeout=0.5, give_up_after=0.5)
        assert made.timeout == 0.5

    def test_a_token_is_not_shown(self) -> None:
        assert "sesame" not in repr(ClientConfig(token="sesame"))


@pytest.mark.guarantee("G189")
class TestEvents:
    def test_are_emitted_and_heard_as_classes_and_as_plain_data(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus, connect(f"unix:{path}") as other:
                async with bus.subscribe(Told) as typed, bus.subscribe("Room.*", "Free.*") as plain:
                    assert (typed.unknown, plain.unknown) == ((), ())
                    await other.emit(Told(7))
                    await other.emit("Free.Word", {"a": 1})
                    assert await anext(typed) == Told(7)
                    first, second = await anext(plain), await anext(plain)
                    assert isinstance(first, Message)
                    assert isinstance(second, Message)
                    assert (first.type, first.data) == ("Room.Told", {"number": 7})
                    assert (second.type, second.data) == ("Free.Word", {"a": 1})
                async with bus.subscribe("Room.Tolt") as misspelt:
                    assert misspelt.unknown == ("Room.Tolt",)

        play(act())

    def test_one_that_is_refused_is_told(
        self, play: Play, path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                with pytest.raises(RequestFailedError) as caught:
                    await bus.emit("Room.Told", {"number": "x"})
                assert caught.value.type == "Sys.SchemaError"
                with pytest.raises(RequestFailedError, match=r"Sys\.RoutingError"):
                    await bus.emit("Sys.Lagged")
                await bus.emit("Room.Told", {"number": "x"}, confirm=False)
                assert await bus.query(Say(text="a")) == Echoed("a")
                wrong: Any = Say(text="a")
                with pytest.raises(InvalidArgumentError, match="pass an Event"):
                    await bus.emit(wrong)

        with caplog.at_level(logging.WARNING, "bandstand.bus"):
            play(act())
        assert "Sys.SchemaError" in caplog.text

    def test_one_that_was_on_its_way_when_the_node_hung_up_is_not_sent_again(
        self, play: Play, path: Path
    ) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            script.hang_up()

        async def act() -> None:
            async with Script(path, answer) as script, connect(f"unix:{path}", config()) as bus:
                with pytest.raises(NodeGoneError, match="it may have been delivered"):
                    await bus.emit("A.B")
                await asyncio.sleep(1)
                assert len(script.requests) == 1

        play(act())

    def test_a_subscription_goes_on_after_a_reconnect_and_says_so(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock):
                bus = await connect(f"unix:{path}", config()).__aenter__()
                events = await bus.subscribe(Told).__aenter__()
                silent = await bus.subscribe(Told, gaps=False).__aenter__()
                await bus.call(Tell())
            async with node(path, clock):
                await bus.call(Tell(times=2))
                assert [await anext(events) for _ in range(4)] == [
                    Told(0),
                    Gap("reconnected"),
                    Told(0),
                    Told(1),
                ]
                assert [await anext(silent) for _ in range(3)] == [Told(0), Told(0), Told(1)]
                assert (events.gaps, silent.gaps) == (1, 1)
                await bus.__aexit__(None, None, None)

        play(act())

    def test_a_reader_that_does_not_keep_up_is_told_what_it_has_missed(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with (
                node(path, clock),
                connect(f"unix:{path}") as bus,
                bus.subscribe(Told, buffer=3) as events,
            ):
                await bus.call(Tell(times=10))
                seen = [await anext(events) for _ in range(4)]
                assert seen == [Told(0), Told(1), Told(2), Gap("overflow", 7)]
                await bus.call(Tell(times=1))
                assert await anext(events) == Told(0)

        play(act())

    def test_what_the_node_had_to_drop_is_told(self, play: Play, path: Path) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            script.reply(request, {"types": ["A.*"]})
            frame = {"kind": "event", "metadata": {"id": "e", "timestamp": 1}}
            for type_name, data in (("A.B", {}), ("Sys.Lagged", {"missed": 5}), ("A.B", {})):
                script.say(json.dumps({**frame, "type": type_name, "data": data}).encode() + b"\n")

        async def act() -> None:
            async with Script(path, answer), connect(f"unix:{path}") as bus, bus.subscribe("A.*") as events:
                seen = [await anext(events) for _ in range(3)]
                assert seen[1] == Gap("lagged", 5)

        play(act())

    def test_one_that_nobody_holds_is_given_up(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                await bus.call(Tell())
                asyncio.get_running_loop().call_later(0.01, lambda: asyncio.ensure_future(bus.call(Tell())))
                async for event in bus.subscribe(Told, gaps=False):
                    assert event == Told(0)
                    break
                async with bus.subscribe("Room.*"):
                    gc.collect()
                    await asyncio.sleep(0.01)
                    (client,) = made._ingress.clients.values()
                    assert client.wants == {"Room.*"}
                await asyncio.sleep(0.01)
                assert client.wants == frozenset()

        play(act())

    def test_one_whose_first_wait_is_cancelled_can_be_waited_for_again(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                events = bus.subscribe("Zed.*")
                for _ in range(2):
                    waiting = asyncio.ensure_future(anext(events))
                    # It has asked the node, and not been answered.
                    await asyncio.sleep(0)
                    waiting.cancel()
                    await asyncio.wait([waiting])
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.1)
                await bus.emit("Zed.A")
                event = await waiting
                assert isinstance(event, Message)
                assert event.type == "Zed.A"
                events.close()
                with pytest.raises(StopAsyncIteration):
                    await anext(events)

        play(act())

    def test_two_do_not_read_one(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus, bus.subscribe(Told) as events:
                first = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.01)
                with pytest.raises(LoopBusyError, match="two tasks read one subscription"):
                    await anext(events)
                first.cancel()

        play(act())

    def test_an_event_that_is_not_what_its_class_says_ends_the_subscription(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        class Other(Event, type="Room.Told"):
            name: str

        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus, bus.subscribe(Other) as events:
                await bus.call(Tell())
                with pytest.raises(InvalidMessageError, match="does not match the subscription"):
                    await anext(events)

        play(act())

    @pytest.mark.parametrize("wanted", [(), (5,), (Say,), (Told, "Room.*"), ("Ro*m",)])
    def test_what_cannot_be_subscribed_to_is_refused(
        self, play: Play, path: Path, clock: VirtualClock, wanted: Any
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus:
                with pytest.raises(InvalidArgumentError):
                    bus.subscribe(*wanted)
                with pytest.raises(RequestFailedError):
                    await bus.subscribe("1.2").__aenter__()

        play(act())


@pytest.mark.guarantee("G190")
class TestWatching:
    def test_shows_everything_that_passes_and_who_it_goes_to(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus, connect(f"unix:{path}") as other:
                async with bus.watch("Room.*") as seen:
                    await other.call(Tell())
                    found = [await anext(seen) for _ in range(3)]
                assert [
                    (each.message.kind, each.message.type, each.to)
                    for each in found
                    if isinstance(each, Passed)
                ] == [
                    ("command", "Room.Tell", "Room"),
                    ("event", "Room.Told", "none"),
                    ("reply", "Room.Tell", "requester"),
                ]

        play(act())

    def test_shows_what_is_nested_as_deep_as_a_node_takes(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        # In its frame it has as many levels as may be; whoever is shown it is shown it in another.
        deep = b'{"value":' + b"[" * 126 + b"]" * 126 + b"}"

        async def act() -> None:
            async with node(path, clock), connect(f"unix:{path}") as bus, connect(f"unix:{path}") as other:
                async with bus.watch("Lost.*") as seen:
                    with pytest.raises(RequestFailedError, match="no capability handles"):
                        await other.call("Lost.Deep", deep)
                    found = await anext(seen)
                    assert isinstance(found, Passed)
                    assert bytes(found.message.data) == deep
                letter = (await other.query("Dead.List"))["letters"][0]
                async with connect(f"unix:{path}") as third, third.watch("Dead.*", kinds=["reply"]) as seen:
                    shown = await other.query("Dead.Show", {"id": letter["id"]})
                    assert shown["message"]["type"] == "Lost.Deep"
                    assert isinstance(await anext(seen), Passed)

        play(act())

    def test_is_taken_for_no_answer_and_watches_itself_not(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                async with bus.watch() as seen, bus.subscribe("*") as events:
                    assert await bus.query(Say(text="a")) == Echoed("a")
                    await bus.emit(Told(1))
                    kinds = [await anext(seen) for _ in range(8)]
                    assert not any(
                        each.message.type == "Sys.Traffic" for each in kinds if isinstance(each, Passed)
                    )
                    only = await anext(events)
                    assert isinstance(only, Message)
                    assert only.type == "Room.Told"
                    with pytest.raises(InvalidArgumentError, match="watches already"):
                        await bus.watch().__aenter__()
                    assert len(made._internals.watchers) == 1
                await asyncio.sleep(0.01)
                assert (len(made._internals.watchers), len(made._taps)) == (0, 0)

        play(act())

    def test_only_the_kinds_that_are_wanted(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with (
                node(path, clock),
                connect(f"unix:{path}") as bus,
                bus.watch("Room.*", kinds=["event"]) as seen,
            ):
                await bus.call(Tell(times=2))
                for number in range(2):
                    each = await anext(seen)
                    assert isinstance(each, Passed)
                    assert json.loads(bytes(each.message.data)) == {"number": number}

        play(act())

    def test_one_that_has_gone_costs_nothing(self, play: Play, path: Path, clock: VirtualClock) -> None:
        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                for _ in range(5):
                    async with connect(f"unix:{path}") as other:
                        await other.watch("None.*").__aenter__()
                    await bus.query(Say(text="a"))
                assert (len(made._internals.watchers), len(made._taps)) == (0, 0)

        play(act())

    @pytest.mark.slow
    def test_one_that_does_not_keep_up_is_told_and_nobody_waits_for_it(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                reader, writer = await asyncio.open_unix_connection(path, limit=1 << 26)
                frame = {"kind": "command", "type": "Syscall.Watch", "data": {"types": ["Room.*"]}}
                writer.write(json.dumps({**frame, "metadata": {"id": "w", "timestamp": 1}}).encode() + b"\n")
                assert json.loads(await reader.readline())["kind"] == "reply"
                # It reads nothing of what it is shown.
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(40):
                    assert (await bus.query(Say(text="x" * 100_000))).text
                lagged = made._router.counters.lagged
                assert lagged > 0
                writer.transport.resume_reading()  # type: ignore[attr-defined]
                missed = 0
                while missed < lagged:
                    told = json.loads(await reader.readline())
                    missed += told["data"]["missed"] if told["type"] == "Sys.Lagged" else 0
                assert missed == lagged
                writer.close()
                await writer.wait_closed()

        play(act())

    def test_nobody_but_a_connection_watches(self, play: Play, path: Path, clock: VirtualClock) -> None:
        from bandstand.bus.syscall import Watch

        async def act() -> None:
            async with node(path, clock) as made:
                with pytest.raises(RequestFailedError, match="only a connection"):
                    await made.bus.ask(Watch())

        play(act())

    def test_a_second_wish_takes_the_place_of_the_first(
        self, play: Play, path: Path, clock: VirtualClock
    ) -> None:
        async def act() -> None:
            async with node(path, clock) as made, connect(f"unix:{path}") as bus:
                for types in (["Room.*"], ["Memory.*"]):
                    shown = await bus.call("Syscall.Watch", {"types": types})
                    assert shown == {"types": types, "kinds": []}
                assert (len(made._internals.watchers), len(made._taps)) == (1, 1)
                await bus.call("Syscall.Unwatch")
                await bus.call("Syscall.Unwatch")
                assert (len(made._internals.watchers), len(made._taps)) == (0, 0)

        play(act())

    def test_so_many_and_no_more(
        self, play: Play, path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(syscall, "MAX_WATCHERS", 1)

        async def act() -> None:
            async with (
                node(path, clock),
                connect(f"unix:{path}") as bus,
                connect(f"unix:{path}") as other,
                bus.watch(),
            ):
                with pytest.raises(RequestFailedError, match="which is the limit"):
                    await other.watch().__aenter__()

        play(act())


@pytest.mark.guarantee("G188")
class TestGreeting:
    """What is said before anything else, with somebody at a port who plays the node."""

    def greet(
        self,
        play: Play,
        answers: dict[str, tuple[str, str]],
        act: Callable[[str, list[Any]], Coroutine[Any, Any, None]],
    ) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                request = json.loads(line)
                heard.append((request["type"], request["data"]))
                kind, type_name = answers.get(request["type"], ("reply", request["type"]))
                if kind != "silence":
                    metadata = {"id": "r", "timestamp": 1, "causation": request["metadata"]["id"]}
                    frame = {"kind": kind, "type": type_name, "data": {"message": "so"}, "metadata": metadata}
                    writer.write(json.dumps(frame).encode() + b"\n")
            writer.close()

        async def run() -> None:
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            await act(f"tcp:127.0.0.1:{port}", heard)
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0.01)

        heard: list[Any] = []
        play(run())

    @pytest.mark.parametrize("answer", [("reply", "Syscall.Authenticate"), ("error", "Sys.RoutingError")])
    def test_a_token_goes_first(self, play: Play, answer: tuple[str, str]) -> None:
        """A node that has never heard of tokens asks for none."""

        async def act(url: str, heard: list[Any]) -> None:
            async with connect(url, config(token="sesame")) as bus:
                await bus.call("A.B")
            assert heard == [
                ("Syscall.Authenticate", {"token": "sesame"}),
                ("Syscall.Ping", {}),
                ("A.B", {}),
            ]

        self.greet(play, {"Syscall.Authenticate": answer}, act)

    def test_a_token_may_come_from_the_environment(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BANDSTAND_TOKEN", "sesame")

        async def act(url: str, heard: list[Any]) -> None:
            async with connect(url):
                assert heard[0] == ("Syscall.Authenticate", {"token": "sesame"})

        self.greet(play, {}, act)

    def test_a_wrong_token_is_told(self, play: Play) -> None:
        async def act(url: str, heard: list[Any]) -> None:
            with pytest.raises(RequestFailedError) as caught:
                await connect(url, config(token="simsim", wait=60)).__aenter__()
            assert caught.value.type == "Sys.Unauthorized"
            assert len(heard) == 1

        self.greet(play, {"Syscall.Authenticate": ("error", "Sys.Unauthorized")}, act)

    def test_a_node_that_is_stopping_does_not_serve(self, play: Play) -> None:
        async def act(url: str, _heard: list[Any]) -> None:
            with pytest.raises(NodeGoneError, match=r"refuses requests: .*Sys\.ShuttingDown"):
                await connect(url).__aenter__()

        self.greet(play, {"Syscall.Ping": ("error", "Sys.ShuttingDown")}, act)

    def test_somebody_who_is_silent_is_not_waited_for(self, play: Play) -> None:
        async def act(url: str, _heard: list[Any]) -> None:
            with pytest.raises(NodeGoneError, match="did not reply within 5 s"):
                await connect(url).__aenter__()

        self.greet(play, {"Syscall.Ping": ("silence", "")}, act)

    def test_a_node_that_does_not_let_it_in_any_more_ends_it(self, play: Play) -> None:
        async def act(url: str, _heard: list[Any]) -> None:
            async with connect(url, config()) as bus:
                with pytest.raises(RequestFailedError) as caught:
                    await bus.call("A.B")
                assert caught.value.type == "Sys.Unauthorized"
                with pytest.raises(NodeGoneError, match="this connection is closed"):
                    await bus.call("A.B")

        self.greet(play, {"A.B": ("error", "Sys.Unauthorized")}, act)


class Narrow(Capability):
    """Takes its time, and has little room."""

    mailbox = 8

    async def rest(self, msg: Rest) -> None:
        await asyncio.sleep(msg.ms / 1000)


@asynccontextmanager
async def narrow(path: Path, clock: VirtualClock) -> AsyncGenerator[Node]:
    settings = NodeConfig(health_period=0, hold_timeout=0)
    async with Node([Narrow], adapters=[UnixAdapter(path)], config=settings, clock=clock) as made:
        yield made


@pytest.mark.guarantee("G300")
class TestOverloaded:
    def test_a_call_is_sent_again_until_there_is_room(
        self, path: Path, clock: VirtualClock, play: Play
    ) -> None:
        async def main() -> None:
            async with narrow(path, clock) as made, connect(f"unix:{path}", config()) as bus:
                await asyncio.gather(*(bus.call(Rest(50)) for _ in range(60)))
                stats = (await made.bus.ask(StatsQuery())).requests
                assert stats.failed["Sys.Overloaded"] > 0
                assert stats.is_balanced

        play(main())

    def test_not_beyond_its_deadline(self, path: Path, clock: VirtualClock, play: Play) -> None:
        async def main() -> None:
            async with narrow(path, clock), connect(f"unix:{path}", config()) as bus:
                holding = [asyncio.ensure_future(bus.call(Rest(60_000))) for _ in range(9)]
                await asyncio.sleep(1)
                before = clock.now_ns()
                with pytest.raises(RequestFailedError) as caught:
                    await bus.call(Rest(1), timeout=5)
                assert caught.value.type == "Sys.Overloaded"
                assert 3_000 <= (clock.now_ns() - before) / 1e6 <= 5_000
                for each in holding:
                    each.cancel()

        play(main())

    def test_not_if_it_was_given_up(self, path: Path, clock: VirtualClock, play: Play) -> None:
        async def main() -> None:
            asked = 0

            def answer(request: dict[str, Any], script: Script) -> None:
                nonlocal asked
                asked += 1
                script.reply(request, {"message": "no room"}, "error", "Sys.Overloaded")

            async with Script(path, answer), connect(f"unix:{path}", config()) as bus:
                call = asyncio.ensure_future(bus.call(Rest(1)))
                await asyncio.sleep(0.005)
                call.cancel()
                before = asked
                await asyncio.sleep(10)
                # The first waits are random: it may have been sent again before, but not since.
                assert asked == before

        play(main())

    def test_not_if_the_configuration_says_so(self, path: Path, clock: VirtualClock, play: Play) -> None:
        async def main() -> None:
            settings = config(retry_overloaded=False)
            async with narrow(path, clock), connect(f"unix:{path}", settings) as bus:
                done = await asyncio.gather(*(bus.call(Rest(50)) for _ in range(60)), return_exceptions=True)
                assert {getattr(each, "type", "") for each in done} == {"", "Sys.Overloaded"}

        play(main())

    def test_a_lost_connection_sends_it_again_once(self, path: Path, clock: VirtualClock, play: Play) -> None:
        async def main() -> None:
            def answer(request: dict[str, Any], script: Script) -> None:
                if script.connections > 1:
                    script.reply(request, None)
                elif len(script.requests) == 4:
                    # While it waits, for some tens of milliseconds.
                    script.reply(request, {"message": "no room"}, "error", "Sys.Overloaded")
                    assert script._writer is not None
                    script._writer.close()
                else:
                    script.reply(request, {"message": "no room"}, "error", "Sys.Overloaded")

            async with Script(path, answer) as script, connect(f"unix:{path}", config()) as bus:
                await bus.call(Rest(1))
                await asyncio.sleep(5)
                assert len(script.requests) == 5
                assert len({request["metadata"]["id"] for request in script.requests}) == 1

        play(main())

    def test_only_true_and_false_can_be_said(self) -> None:
        with pytest.raises(InvalidArgumentError, match="retry_overloaded"):
            ClientConfig(retry_overloaded="yes")  # type: ignore[arg-type]  # callers without types
