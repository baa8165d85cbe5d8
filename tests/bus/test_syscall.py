"""What a node tells about itself, and what it can be told to do."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Capability, Memory
from bandstand.bus.syscall import Describe, HealthTick, Ping, Subscribe
from bandstand.errors import RequestFailedError
from tests.bus.capabilities import Player, Told
from tests.bus.generating import from_schema
from tests.bus.virtual_node import Stage, hushed, play, staged


class TestTelling:
    @staged(Player)
    async def test_ping_and_how_long_it_has_been_there(self, stage: Stage) -> None:
        before = (await stage.bus.ask(Ping())).uptime_ms
        await stage.wait(5000)
        pong = await stage.bus.ask(Ping())
        assert pong.pong
        assert 5000 <= pong.uptime_ms - before <= 5002

    @pytest.mark.spec("C20")
    @staged(Player)
    async def test_health_tells_what_is_out_of_service(self, stage: Stage) -> None:
        assert (await stage.reply_to("query", "Syscall.Health"))["status"] == "healthy"
        with hushed():
            for _ in range(4):
                stage.command("Cast.Do", {"what": "raise"})
            await stage.wait(4000)
        report = await stage.reply_to("query", "Syscall.Health")
        assert report["status"] == "degraded"
        assert report["capabilities"]["Cast"]["state"] == "unhealthy"
        assert "by wish" in report["capabilities"]["Cast"]["lastFault"]

    @pytest.mark.guarantee("G74")
    @staged(Player)
    async def test_the_books_are_open(self, stage: Stage) -> None:
        client, gone = stage.connect(), stage.connect()
        client.query("Cast.Echo")
        client.query("Cast.Nothing")
        gone.command("Cast.Wait", {"ms": 10})
        await stage.settle()
        gone.close()
        await stage.wait(50)
        told = await client.reply_to("query", "Syscall.Stats")
        assert told["clients"] == 1
        requests = told["requests"]
        assert requests["failed"] == {"Sys.RoutingError": 1}
        assert (requests["admitted"], requests["answered"], requests["inFlight"]) == (4, 1, 1)
        assert requests["abandoned"] == 1

    @pytest.mark.spec("C26")
    @pytest.mark.guarantee("G88")
    @staged(Player)
    async def test_the_last_messages_can_be_read(self, stage: Stage) -> None:
        stage.query("Cast.Echo", {"text": "x"}, name="q")
        await stage.settle()
        asked = stage.query("Syscall.Recent", {"types": ["Cast.*"]})
        await stage.settle()
        kinds = [(each["kind"], each["type"]) for each in stage.reply(asked)["messages"]]
        assert kinds == [("query", "Cast.Echo"), ("reply", "Cast.Echo")]
        assert stage.reply(asked)["messages"][0]["metadata"]["id"] == "q"
        only = stage.query("Syscall.Recent", {"kinds": ["reply"], "limit": 1, "types": ["Cast.*"]})
        await stage.settle()
        assert [each["kind"] for each in stage.reply(only)["messages"]] == ["reply"]

    @pytest.mark.parametrize("data", [b"1e999", b"123456789012345678901234567890", b"[" * 900 + b"]" * 900])
    @staged()
    async def test_whatever_has_passed_it_can_be_read(self, stage: Stage, data: bytes) -> None:
        stage.event("A.B", Raw(data))
        await stage.settle()
        asked = stage.query("Syscall.Recent", {"types": ["A.B"]})
        await stage.settle()
        answer = stage.answer(asked)
        assert answer.kind == "reply"
        assert b"A.B" in bytes(answer.data)
        assert (await stage.health("Syscall")).crashes == 0


@pytest.mark.spec("C17", "C9")
class TestSubscribing:
    @staged(Player)
    async def test_a_client_hears_what_it_wants_and_no_more(self, stage: Stage) -> None:
        client, other = stage.connect(), stage.connect()
        assert await client.reply_to(
            "command", "Syscall.Subscribe", {"types": ["Cast.*", "Nobody.Says"]}
        ) == {"types": ["Cast.*", "Nobody.Says"], "unknown": ["Nobody.Says"]}
        stage.bus.emit(Told("x"))
        other.event("Nobody.Says", {"y": 1})
        other.event("Nobody.Cares")
        await stage.settle()
        assert client.events() == [{"text": "x"}, {"y": 1}]
        assert other.events() == []

    @pytest.mark.guarantee("G198")
    @staged(max_subscriptions=3)
    async def test_there_is_a_limit_and_one_more_is_refused_in_a_sentence(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["A.A", "A.B"]})
        said = (
            await stage.fault_of("Sys.Refused", "command", "Syscall.Subscribe", {"types": ["A.C", "A.D"]})
        ).message
        assert said == "a connection can subscribe to 3 types; a pattern, as Memory.*, stands for many"
        # What it listens to already does not count twice.
        assert (await stage.reply_to("command", "Syscall.Subscribe", {"types": ["A.A", "A.C"]}))["types"] == [
            "A.A",
            "A.B",
            "A.C",
        ]

    @staged(Player)
    async def test_it_adds_up_and_can_be_taken_back(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["Cast.Told"]})
        stage.command("Syscall.Subscribe", {"types": ["A.B"]})
        assert (await stage.reply_to("command", "Syscall.Unsubscribe", {"types": ["Cast.Told"]}))[
            "types"
        ] == ["A.B"]
        stage.bus.emit(Told())
        stage.event("A.B")
        await stage.settle()
        assert stage.events() == [{}]
        stage.command("Syscall.Unsubscribe")
        await stage.settle()
        stage.event("A.B")
        await stage.settle()
        assert stage.events() == [{}]

    @pytest.mark.spec("C30")
    @pytest.mark.guarantee("G81")
    @staged(Memory)
    async def test_the_subscriptions_of_a_closed_connection_are_removed(self, stage: Stage) -> None:
        for _ in range(3):
            client = stage.connect()
            client.command("Syscall.Subscribe", {"types": ["*"]})
            await stage.settle()
            client.close()
        fanout = stage.node._fanout  # pyright: ignore[reportPrivateUsage]  # what is kept is what this is about
        assert fanout._listeners == []  # pyright: ignore[reportPrivateUsage]  # likewise

    @staged(Player)
    async def test_only_connections_can(self, stage: Stage) -> None:
        with pytest.raises(RequestFailedError, match="only a connection"):
            await stage.bus.ask(Subscribe(["*"]))


class Ticked(Capability):
    """Does something every so often."""

    outbound = Told

    def tick(self, msg: HealthTick) -> None:
        self.bus.emit(Told(f"{msg.uptime_ms // 1000} {msg.in_flight} {msg.unhealthy}"))


@pytest.mark.spec("C25")
@pytest.mark.guarantee("G83")
class TestTicks:
    @staged(Ticked, health_period=1)
    async def test_they_come_every_so_often_to_capabilities_and_clients(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["Sys.HealthTick", "Cast.Told"]})
        await stage.wait(3500)
        assert len(stage.events("Sys.HealthTick")) == 3
        assert stage.events("Cast.Told") == [{"text": f"{second} 0 []"} for second in (1, 2, 3)]

    @staged(health_period=1)
    async def test_they_come_first(self, stage: Stage) -> None:
        seen: list[str] = []
        stage.node.tap(lambda frame, _to: seen.append(frame.type))
        stage.clock.advance(1.5)
        for _ in range(50):
            stage.query("Syscall.Ping")
        await stage.settle()
        assert seen[0] == "Sys.HealthTick"


@pytest.mark.spec("C22")
@pytest.mark.guarantee("G77")
class TestDescribe:
    @staged(Player)
    async def test_it_names_all_and_a_part(self, stage: Stage) -> None:
        found = await stage.bus.ask(Describe())
        assert [each.id for each in found.capabilities] == ["Cast", "Syscall", "Timer", "Reminder", "Dead"]
        part = await stage.bus.ask(Describe(type="Cast.Echo"))
        assert [each.type for each in part.capabilities[0].handles] == ["Cast.Echo"]
        with pytest.raises(RequestFailedError, match=r"Cast\.Ecco") as caught:
            await stage.bus.ask(Describe(type="Cast.Ecco"))
        assert caught.value.type == "Sys.RoutingError"

    @given(data=st.data())
    @settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    def test_what_is_made_from_it_alone_is_never_a_schema_error(self, data: st.DataObject) -> None:
        payloads = [(each, data.draw(strategy, each["type"])) for each, strategy in described()]

        async def act(stage: Stage) -> None:
            for each, payload in payloads:
                name = stage.say(each["kind"], each["type"], Raw(json.dumps(payload).encode()))
                await stage.settle()
                assert stage.answer(name).type != "Sys.SchemaError", (payload, stage.answer(name).data)

        with hushed():
            play(act, Memory)

    def test_nor_are_its_examples(self) -> None:
        handled = described()

        async def act(stage: Stage) -> None:
            for each, _ in handled:
                name = stage.say(each["kind"], each["type"], each["example"]["data"])
                await stage.settle()
                assert stage.answer(name).type not in {"Sys.SchemaError", "Sys.ActorCrash", "Sys.ActorFault"}

        play(act, Memory)


@cache
def described() -> list[tuple[dict[str, Any], st.SearchStrategy[Any]]]:
    """All that a node takes, as a stranger reads it, and what makes payloads for it. (Any: trees of plain values.)"""
    found: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = []

    async def act(stage: Stage) -> None:
        for capability in (await stage.reply_to("query", "Syscall.Describe"))["capabilities"]:
            found.extend((each, from_schema(each["schema"])) for each in capability["handles"])

    play(act, Memory)
    return found
