"""The client: calls, events and subscriptions, with a real node over a real socket in virtual time, and over the end of that node."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec import Struct

from bandstand.bus import (
    Capability,
    ClientConfig,
    Command,
    Connection,
    Event,
    Gap,
    Memory,
    Message,
    Node,
    NodeConfig,
    Passed,
    Query,
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


def config(**fields: Any) -> ClientConfig:
    return ClientConfig(backoff=Backoff(initial=0.01, maximum=0.1), **fields)


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
        with suppress(ConnectionError):
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


def silent(_request: dict[str, Any], _script: Script) -> None:
    """Answer nothing."""


class Site:
    """A socket, with a node or a script at it, and clients."""

    def __init__(self, path: Path, clock: VirtualClock) -> None:
        self.path, self.clock = path, clock

    @asynccontextmanager
    async def node(self, *capabilities: type[Capability], **config: Any) -> AsyncGenerator[Node]:
        settings = NodeConfig(health_period=0, **config)
        adapter = UnixAdapter(self.path)
        made = Node(capabilities or (Room, Memory), adapters=[adapter], config=settings, clock=self.clock)
        async with made:
            yield made

    def connect(self, settings: ClientConfig | None = None) -> Connection:
        return connect(f"unix:{self.path}", settings)

    def script(self, answer: Callable[[dict[str, Any], Script], None]) -> Script:
        return Script(self.path, answer)


@pytest.fixture
def site(tmp_path: Path, bandstand_clock: VirtualClock) -> Site:
    return Site(tmp_path / "bus.sock", bandstand_clock)


@pytest.mark.guarantee("G185")
class TestACall:
    async def test_of_a_class_is_answered_with_what_the_class_says(self, site: Site) -> None:
        async with site.node(), site.connect() as bus:
            assert await bus.call(Say(text="a")) == Echoed("a")
            assert await bus.query(Say(text="b")) == Echoed("b")
            await bus.call(Set(key="k", value=[1]))
            assert (await bus.query(Get(key="k"))).value == [1]

    async def test_of_a_type_is_answered_with_plain_data(self, site: Site) -> None:
        async with site.node(), site.connect() as bus:
            assert await bus.query("Room.Say", {"text": "a"}) == {"text": "a"}
            assert await bus.call("Room.Tell", b'{"times":0}') == 0
            assert await bus.call("Room.Tell") == 1
            answer = await bus.exchange("query", "Room.Say", {"text": "b"})
            assert (answer.kind, bytes(answer.data)) == ("reply", b'{"text":"b"}')

    @pytest.mark.parametrize(
        ("request_", "data", "type_name"),
        [
            ("Room.None", {}, "Sys.RoutingError"),
            ("Room.Tell", {"times": "x"}, "Sys.SchemaError"),
            ("Room.Tell", [[[1]]], "Sys.SchemaError"),
        ],
    )
    async def test_that_fails_is_an_exception(
        self, site: Site, request_: str, data: object, type_name: str
    ) -> None:
        async with site.node(), site.connect() as bus:
            with pytest.raises(RequestFailedError) as caught:
                await bus.call(request_, data)
            assert caught.value.type == type_name
            assert request_ in str(caught.value)

    async def test_that_can_never_work_is_not_sent(self, site: Site) -> None:
        wrong: Any = Told(1)
        number: Any = "x"
        async with site.node() as made, site.connect() as bus:
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

    async def test_answers_that_come_too_late_or_twice_are_nobodys(self, site: Site) -> None:
        def late(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 2:
                for each in (*script.requests, *script.requests):
                    script.reply(each, each["data"])

        async with site.script(late), site.connect() as bus:
            with pytest.raises(AskTimeoutError):
                await bus.query("A.B", 1, timeout=0.1)
            assert await bus.query("A.B", 2) == 2

    async def test_a_line_that_is_too_long_fails_the_call_it_was(self, site: Site) -> None:
        async with site.node(), site.connect() as bus:
            long = asyncio.ensure_future(bus.query(Say(text="x" * 2_000_000)))
            others = [bus.query(Say(text=str(each))) for each in range(20)]
            assert [each.text for each in await asyncio.gather(*others)] == list(map(str, range(20)))
            with pytest.raises(RequestFailedError, match="1048576 bytes"):
                await long


@pytest.mark.guarantee("G186")
class TestManyCalls:
    async def test_respect_the_window(self, site: Site) -> None:
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
        async with site.script(answer), site.connect(config(window=4)) as bus:
            assert await asyncio.gather(*(bus.query("A.B", each) for each in range(40))) == list(range(40))
        assert most == 4

    async def test_one_that_is_cancelled_is_forgotten(self, site: Site) -> None:
        async with (
            site.script(silent) as script,
            site.connect(config(window=1)) as bus,
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

    async def test_what_waits_for_the_window_has_its_deadline_too(self, site: Site) -> None:
        async with (
            site.script(silent),
            site.connect(config(window=1)) as bus,
        ):
            first = asyncio.ensure_future(bus.query("A.One", timeout=10))
            await asyncio.sleep(0.01)
            with pytest.raises(AskTimeoutError, match=r"was not sent in time: 1 other calls had no reply"):
                await bus.query("A.Two", timeout=0.1)
            first.cancel()


@pytest.mark.guarantee("G187")
class TestALostConnection:
    async def test_is_made_again_and_the_same_request_sent_again(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 1:
                script.hang_up()
            else:
                script.reply(request, "done")

        slow = ClientConfig(backoff=Backoff(initial=0.1, maximum=0.1))
        async with site.script(answer) as script, site.connect(slow) as bus:
            assert await bus.call("A.B", {"a": 1}, timeout=5) == "done"
        first, second = script.requests
        assert first["metadata"]["id"] == second["metadata"]["id"]
        assert (first["data"], first["kind"]) == (second["data"], second["kind"])
        assert (first["metadata"]["timeout"], second["metadata"]["timeout"]) == (5000, 4900)
        assert script.connections == 2

    async def test_what_was_open_is_sent_before_what_is_new(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if len(script.requests) == 3:
                script.hang_up()
            elif len(script.requests) > 3:
                script.reply(request, request["data"])

        async with site.script(answer) as script, site.connect(config(window=3)) as bus:
            assert await asyncio.gather(*(bus.query("A.B", each) for each in range(6))) == list(range(6))
        assert [each["data"] for each in script.requests] == [0, 1, 2, 0, 1, 2, 3, 4, 5]

    async def test_a_call_that_ended_meanwhile_frees_its_place(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if request["type"] == "A.One":
                script.hang_up()

        slow = ClientConfig(window=1, backoff=Backoff(initial=1, maximum=1))
        async with site.script(answer) as script, site.connect(slow) as bus:
            with pytest.raises(NodeGoneError):
                await bus.query("A.One", timeout=0.05)
            waiting = [asyncio.ensure_future(bus.query(name)) for name in ("A.Two", "A.Three")]
            await asyncio.sleep(5)
            assert [each["type"] for each in script.requests] == ["A.One", "A.Two"]
            for each in waiting:
                each.cancel()

    async def test_a_node_that_is_started_again_is_found_again(self, site: Site) -> None:
        async with site.node():
            bus = await site.connect(config()).__aenter__()
            seen = [bus.is_connected]
        await asyncio.sleep(0.01)
        assert [*seen, bus.is_connected] == [True, False]
        waiting = asyncio.ensure_future(bus.query(Say(text="later")))
        await asyncio.sleep(5)
        async with site.node():
            assert await waiting == Echoed("later")
            await bus.__aexit__(None, None, None)

    async def test_the_deadline_stays_what_it_was(self, site: Site) -> None:
        async with site.node():
            bus = await site.connect(config()).__aenter__()
        await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        with pytest.raises(
            NodeGoneError, match=r"got no reply in time: no node is listening .*; it was never sent"
        ):
            await bus.query(Say(text="a"), timeout=0.7)
        assert 0.699 < asyncio.get_running_loop().time() - began < 0.8
        await bus.__aexit__(None, None, None)

    async def test_somebody_who_hangs_up_all_the_time_is_not_called_all_the_time(self, site: Site) -> None:
        async with (
            site.script(lambda _request, script: script.hang_up()) as script,
            site.connect(config()) as bus,
        ):
            with pytest.raises(NodeGoneError, match="it may have been carried out"):
                await bus.call("A.B", timeout=2)
            assert script.connections <= 2000 / 10

    async def test_a_node_that_does_not_come_back_is_given_up(self, site: Site) -> None:
        async with site.node():
            bus = await site.connect(config(give_up_after=3)).__aenter__()
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

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [("Sys.Unauthorized", RequestFailedError), ("Sys.TooManyConnections", NodeGoneError)],
    )
    async def test_a_node_that_sends_it_away_says_why(
        self, site: Site, kind: str, expected: type[BandstandError]
    ) -> None:
        async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            frame = {"kind": "error", "type": kind, "data": {"message": "not you"}}
            writer.write(json.dumps({**frame, "metadata": {"id": "e", "timestamp": 1}}).encode() + b"\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_unix_server(greet, site.path)
        with pytest.raises(expected, match="not you"):
            await site.connect().__aenter__()
        server.close()
        await server.wait_closed()

    async def test_a_node_that_is_not_there_yet_can_be_waited_for(self, site: Site) -> None:
        early = site.connect(config())
        for _ in range(2):
            with pytest.raises(NodeGoneError, match="no node is listening"):
                await early.__aenter__()
        waiting = asyncio.ensure_future(site.connect(config(wait=5)).__aenter__())
        await asyncio.sleep(2)
        async with site.node():
            bus = await waiting
            assert await bus.query(Say(text="a")) == Echoed("a")
            await bus.__aexit__(None, None, None)


@pytest.mark.guarantee("G188")
class TestTheEnd:
    async def test_closing_fails_what_is_open_with_a_sentence(self, site: Site) -> None:
        async with site.script(silent):
            async with site.connect(config(window=1)) as bus:
                sent = asyncio.ensure_future(bus.query("A.One"))
                unsent = asyncio.ensure_future(bus.query("A.Two"))
                await asyncio.sleep(0.01)
            with pytest.raises(NodeGoneError, match=r"closed .* A\.One; it may have been carried out"):
                await sent
            with pytest.raises(NodeGoneError, match=r"closed .* A\.Two; it was never sent"):
                await unsent
            with pytest.raises(NodeGoneError, match="this connection is closed"):
                await bus.query("A.B")

    async def test_closing_writes_out_what_was_sent(self, site: Site) -> None:
        much = "x" * (1 << 22)
        async with site.script(silent) as script:
            async with site.connect(config()) as bus:
                await bus.query("Syscall.Ping")
                await bus.emit("Room.Told", {"text": much}, confirm=False)
            await asyncio.sleep(0.01)
            assert [request["data"]["text"] for request in script.requests] == [much]

    def test_it_is_used_by_async_with(self) -> None:
        with pytest.raises(InvalidArgumentError, match="async with"):
            connect("unix:/x").subscribe("A.*")
        with pytest.raises(InvalidArgumentError, match="not an address"):
            connect("nix:/x")
        wrong: Any = {"window": 1}
        with pytest.raises(InvalidArgumentError, match="pass a ClientConfig"):
            connect("unix:/x", wrong)

    async def test_two_do_not_enter_one(self, site: Site) -> None:
        async with site.node():
            bus = site.connect()
            for _ in range(2):
                async with bus:
                    with pytest.raises(InvalidArgumentError, match="open already"):
                        await bus.__aenter__()
                    assert await bus.query(Say(text="a")) == Echoed("a")

    async def test_somebody_who_is_no_node_ends_it(self, site: Site) -> None:
        nonsense = b"HTTP/1.1 400 Bad Request\r\n"
        async with (
            site.script(lambda _request, script: script.say(nonsense)),
            site.connect(config()) as bus,
        ):
            with pytest.raises(InvalidMessageError, match="is not a node"):
                await bus.query("A.B")

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
            {"retry_overloaded": "yes"},
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
    async def test_are_emitted_and_heard_as_classes_and_as_plain_data(self, site: Site) -> None:
        async with site.node(), site.connect() as bus, site.connect() as other:
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

    async def test_one_that_is_refused_is_told(self, site: Site, caplog: pytest.LogCaptureFixture) -> None:
        wrong: Any = Say(text="a")
        with caplog.at_level(logging.WARNING, "bandstand.bus"):
            async with site.node(), site.connect() as bus:
                with pytest.raises(RequestFailedError, match=r"Sys\.SchemaError"):
                    await bus.emit("Room.Told", {"number": "x"})
                with pytest.raises(RequestFailedError, match=r"Sys\.RoutingError"):
                    await bus.emit("Sys.Lagged")
                await bus.emit("Room.Told", {"number": "x"}, confirm=False)
                assert await bus.query(Say(text="a")) == Echoed("a")
                with pytest.raises(InvalidArgumentError, match="pass an Event"):
                    await bus.emit(wrong)
        assert "Sys.SchemaError" in caplog.text

    async def test_one_that_was_on_its_way_when_the_node_hung_up_is_not_sent_again(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            script.hang_up()

        async with site.script(answer) as script, site.connect(config()) as bus:
            with pytest.raises(NodeGoneError, match="it may have been delivered"):
                await bus.emit("A.B")
            await asyncio.sleep(1)
            assert len(script.requests) == 1

    async def test_a_subscription_goes_on_after_a_reconnect_and_says_so(self, site: Site) -> None:
        async with site.node():
            bus = await site.connect(config()).__aenter__()
            events = await bus.subscribe(Told).__aenter__()
            silent = await bus.subscribe(Told, gaps=False).__aenter__()
            await bus.call(Tell())
        async with site.node():
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

    async def test_a_reader_that_does_not_keep_up_is_told_what_it_has_missed(self, site: Site) -> None:
        async with (
            site.node(),
            site.connect() as bus,
            bus.subscribe(Told, buffer=3) as events,
        ):
            await bus.call(Tell(times=10))
            seen = [await anext(events) for _ in range(4)]
            assert seen == [Told(0), Told(1), Told(2), Gap("overflow", 7)]
            await bus.call(Tell(times=1))
            assert await anext(events) == Told(0)

    async def test_what_the_node_had_to_drop_is_told(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            script.reply(request, {"types": ["A.*"]})
            frame = {"kind": "event", "metadata": {"id": "e", "timestamp": 1}}
            for type_name, data in (("A.B", {}), ("Sys.Lagged", {"missed": 5}), ("A.B", {})):
                script.say(json.dumps({**frame, "type": type_name, "data": data}).encode() + b"\n")

        async with site.script(answer), site.connect() as bus, bus.subscribe("A.*") as events:
            seen = [await anext(events) for _ in range(3)]
            assert seen[1] == Gap("lagged", 5)

    async def test_one_that_nobody_holds_is_given_up(self, site: Site) -> None:
        async with site.node() as made, site.connect() as bus:
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

    async def test_one_whose_first_wait_is_cancelled_can_be_waited_for_again(self, site: Site) -> None:
        async with site.node(), site.connect() as bus:
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

    async def test_two_do_not_read_one(self, site: Site) -> None:
        async with site.node(), site.connect() as bus, bus.subscribe(Told) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.01)
            with pytest.raises(LoopBusyError, match="two tasks read one subscription"):
                await anext(events)
            first.cancel()

    async def test_an_event_that_is_not_what_its_class_says_ends_the_subscription(self, site: Site) -> None:
        class Other(Event, type="Room.Told"):
            name: str

        async with site.node(), site.connect() as bus, bus.subscribe(Other) as events:
            await bus.call(Tell())
            with pytest.raises(InvalidMessageError, match="does not match the subscription"):
                await anext(events)

    @pytest.mark.parametrize("wanted", [(), (5,), (Say,), (Told, "Room.*"), ("Ro*m",)])
    async def test_what_cannot_be_subscribed_to_is_refused(self, site: Site, wanted: Any) -> None:
        async with site.node(), site.connect() as bus:
            with pytest.raises(InvalidArgumentError):
                bus.subscribe(*wanted)
            with pytest.raises(RequestFailedError):
                await bus.subscribe("1.2").__aenter__()


@pytest.mark.guarantee("G190")
class TestWatching:
    async def test_shows_everything_that_passes_and_who_it_goes_to(self, site: Site) -> None:
        async with site.node(), site.connect() as bus, site.connect() as other:
            async with bus.watch("Room.*") as seen:
                await other.call(Tell())
                found = [await anext(seen) for _ in range(3)]
            assert [
                (each.message.kind, each.message.type, each.to) for each in found if isinstance(each, Passed)
            ] == [
                ("command", "Room.Tell", "Room"),
                ("event", "Room.Told", "none"),
                ("reply", "Room.Tell", "requester"),
            ]

    async def test_shows_what_is_nested_as_deep_as_a_node_takes(self, site: Site) -> None:
        # In its frame it has as many levels as may be; whoever is shown it is shown it in another.
        deep = b'{"value":' + b"[" * 126 + b"]" * 126 + b"}"
        async with site.node(), site.connect() as bus, site.connect() as other:
            async with bus.watch("Lost.*") as seen:
                with pytest.raises(RequestFailedError, match="no capability handles"):
                    await other.call("Lost.Deep", deep)
                found = await anext(seen)
                assert isinstance(found, Passed)
                assert bytes(found.message.data) == deep
            letter = (await other.query("Dead.List"))["letters"][0]
            async with site.connect() as third, third.watch("Dead.*", kinds=["reply"]) as seen:
                shown = await other.query("Dead.Show", {"id": letter["id"]})
                assert shown["message"]["type"] == "Lost.Deep"
                assert isinstance(await anext(seen), Passed)

    async def test_is_taken_for_no_answer_and_watches_itself_not(self, site: Site) -> None:
        async with site.node() as made, site.connect() as bus:
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

    @pytest.mark.slow
    async def test_one_that_does_not_keep_up_is_told_and_nobody_waits_for_it(self, site: Site) -> None:
        async with site.node() as made, site.connect() as bus:
            reader, writer = await asyncio.open_unix_connection(site.path, limit=1 << 26)
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

    async def test_a_second_wish_takes_the_place_of_the_first(self, site: Site) -> None:
        async with site.node() as made, site.connect() as bus:
            for types in (["Room.*"], ["Memory.*"]):
                shown = await bus.call("Syscall.Watch", {"types": types})
                assert shown == {"types": types, "kinds": []}
            assert (len(made._internals.watchers), len(made._taps)) == (1, 1)
            await bus.call("Syscall.Unwatch")
            await bus.call("Syscall.Unwatch")
            assert (len(made._internals.watchers), len(made._taps)) == (0, 0)

    async def test_so_many_connections_and_no_more(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(syscall, "MAX_WATCHERS", 1)
        async with site.node() as made, site.connect() as bus, site.connect() as other, bus.watch():
            with pytest.raises(RequestFailedError, match="which is the limit"):
                await other.watch().__aenter__()
            with pytest.raises(RequestFailedError, match="only a connection"):
                await made.bus.ask(syscall.Watch())


@asynccontextmanager
async def greeter(**answers: tuple[str, str]) -> AsyncGenerator[tuple[str, list[Any]]]:
    """Somebody at a port who answers requests of these types, with all that it has heard."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            heard.append((request["type"], request["data"]))
            kind, type_name = answers.get(request["type"].rpartition(".")[2], ("reply", request["type"]))
            if kind != "silence":
                metadata = {"id": "r", "timestamp": 1, "causation": request["metadata"]["id"]}
                frame = {"kind": kind, "type": type_name, "data": {"message": "so"}, "metadata": metadata}
                writer.write(json.dumps(frame).encode() + b"\n")
        writer.close()

    heard: list[Any] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.01)


@pytest.mark.guarantee("G188")
class TestGreeting:
    """What is said before anything else, with somebody at a port who plays the node."""

    @pytest.mark.parametrize("answer", [("reply", "Syscall.Authenticate"), ("error", "Sys.RoutingError")])
    async def test_a_token_goes_first(self, answer: tuple[str, str]) -> None:
        """A node that has never heard of tokens asks for none."""
        async with greeter(Authenticate=answer) as (url, heard):
            async with connect(url, config(token="sesame")) as bus:
                await bus.call("A.B")
            authenticate = ("Syscall.Authenticate", {"token": "sesame"})
            assert heard == [authenticate, ("Syscall.Ping", {}), ("A.B", {})]

    async def test_a_token_may_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BANDSTAND_TOKEN", "sesame")
        async with greeter() as (url, heard), connect(url):
            assert heard[0] == ("Syscall.Authenticate", {"token": "sesame"})

    async def test_a_wrong_token_is_told(self) -> None:
        async with greeter(Authenticate=("error", "Sys.Unauthorized")) as (url, heard):
            with pytest.raises(RequestFailedError, match=r"Sys\.Unauthorized"):
                await connect(url, config(token="simsim", wait=60)).__aenter__()
            assert len(heard) == 1

    @pytest.mark.parametrize(
        ("ping", "words"),
        [
            (("error", "Sys.ShuttingDown"), r"refuses requests: .*Sys\.ShuttingDown"),
            (("silence", ""), "did not reply within 5 s"),
        ],
    )
    async def test_a_stopping_or_silent_node_is_no_node(self, ping: tuple[str, str], words: str) -> None:
        async with greeter(Ping=ping) as (url, _):
            with pytest.raises(NodeGoneError, match=words):
                await connect(url).__aenter__()

    async def test_a_node_that_does_not_let_it_in_any_more_ends_it(self) -> None:
        async with greeter(B=("error", "Sys.Unauthorized")) as (url, _), connect(url, config()) as bus:
            with pytest.raises(RequestFailedError, match=r"Sys\.Unauthorized"):
                await bus.call("A.B")
            with pytest.raises(NodeGoneError, match="this connection is closed"):
                await bus.call("A.B")


class Narrow(Capability):
    """Takes its time, and has little room."""

    mailbox = 8

    async def rest(self, msg: Rest) -> None:
        await asyncio.sleep(msg.ms / 1000)


@pytest.mark.guarantee("G300")
class TestOverloaded:
    async def test_a_call_is_sent_again_until_there_is_room(self, site: Site) -> None:
        async with site.node(Narrow, hold_timeout=0) as made, site.connect(config()) as bus:
            await asyncio.gather(*(bus.call(Rest(50)) for _ in range(60)))
            stats = (await made.bus.ask(StatsQuery())).requests
            assert stats.failed["Sys.Overloaded"] > 0
            assert stats.is_balanced

    async def test_not_beyond_its_deadline(self, site: Site) -> None:
        async with site.node(Narrow, hold_timeout=0), site.connect(config()) as bus:
            holding = [asyncio.ensure_future(bus.call(Rest(60_000))) for _ in range(9)]
            await asyncio.sleep(1)
            before = site.clock.now_ns()
            with pytest.raises(RequestFailedError) as caught:
                await bus.call(Rest(1), timeout=5)
            assert caught.value.type == "Sys.Overloaded"
            assert 3_000 <= (site.clock.now_ns() - before) / 1e6 <= 5_000
            for each in holding:
                each.cancel()

    async def test_not_if_it_was_given_up(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            script.reply(request, {"message": "no room"}, "error", "Sys.Overloaded")

        async with site.script(answer) as script, site.connect(config()) as bus:
            call = asyncio.ensure_future(bus.call(Rest(1)))
            await asyncio.sleep(0.005)
            call.cancel()
            before = len(script.requests)
            await asyncio.sleep(10)
            # The first waits are random: it may have been sent again before, but not since.
            assert len(script.requests) == before

    async def test_not_if_the_configuration_says_so(self, site: Site) -> None:
        settings = config(retry_overloaded=False)
        async with site.node(Narrow, hold_timeout=0), site.connect(settings) as bus:
            done = await asyncio.gather(*(bus.call(Rest(50)) for _ in range(60)), return_exceptions=True)
            assert {getattr(each, "type", "") for each in done} == {"", "Sys.Overloaded"}

    async def test_a_lost_connection_sends_it_again_once(self, site: Site) -> None:
        def answer(request: dict[str, Any], script: Script) -> None:
            if script.connections > 1:
                script.reply(request, None)
                return
            script.reply(request, {"message": "no room"}, "error", "Sys.Overloaded")
            if len(script.requests) == 4:
                # While it waits, for some tens of milliseconds.
                assert script._writer is not None
                script._writer.close()

        async with site.script(answer) as script, site.connect(config()) as bus:
            await bus.call(Rest(1))
            await asyncio.sleep(5)
            assert len(script.requests) == 5
            assert len({request["metadata"]["id"] for request in script.requests}) == 1
