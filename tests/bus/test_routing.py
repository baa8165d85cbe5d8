"""Where messages go, what comes first, and what is never dispatched."""

from __future__ import annotations

import pytest
from msgspec import Raw

from bandstand.bus import Capability, Contract, Message
from bandstand.bus.memory import Memory
from tests.bus.capabilities import Do, Player, Told, told, watch
from tests.bus.virtual_node import Stage, Stages, staged


class Listener(Capability):
    """Hears what is told."""

    def told(self, msg: Told) -> None:
        pass


class Other(Capability):
    """Hears it as well."""

    def told(self, msg: Told) -> None:
        pass


@pytest.mark.spec("C9")
@pytest.mark.guarantee("G73")
class TestDestinations:
    @staged(Player)
    async def test_a_request_goes_to_the_one_who_handles_it(self, stage: Stage) -> None:
        seen: list[tuple[str, str]] = []
        stage.node.tap(lambda frame, where: seen.append((frame.kind, where)))
        assert (await stage.reply_to("query", "Cast.Echo", {"text": "hello"}))["text"] == "hello"
        assert seen == [("query", "Cast"), ("reply", "requester")]

    @staged(Player, Listener, Other)
    async def test_an_event_goes_to_all_who_subscribe(self, stage: Stage) -> None:
        stage.event("Cast.Told", {"text": "news"})
        await stage.settle()
        assert (await stage.health("Listener")).handled == 1
        assert (await stage.health("Other")).handled == 1
        assert (await stage.stats()).deliveries == 2

    async def test_an_event_without_a_class_comes_as_a_message(self, stages: Stages) -> None:
        received: list[object] = []
        contract = Contract(
            id="Recorder",
            description="Keeps what it receives.",
            inbound=Do,
            subscribes=["Cast.Told", "Cast.Else"],
            spawn=lambda: received.append,
        )
        async with stages(contract) as stage:
            stage.event("Cast.Told", {"text": "x"})
            stage.event("Cast.Else", {"n": 1})
            await stage.reply_to("command", "Cast.Do")
            events = [(one.type, one.data) for one in received if isinstance(one, Message)]
            assert events == [("Cast.Told", {"text": "x"}), ("Cast.Else", {"n": 1})]

    @staged(Memory)
    async def test_an_event_with_an_unknown_field_is_delivered(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["Memory.*"]})
        await stage.settle()
        stage.event("Memory.Changed", {"key": "a", "value": 1, "by": "ada"})
        await stage.settle()
        assert stage.events("Memory.Changed") == [{"key": "a", "value": 1, "by": "ada"}]

    @staged(Player)
    async def test_the_answer_goes_to_whoever_asked_even_by_the_same_id(self, stage: Stage) -> None:
        first, second = stage.connect(), stage.connect()
        first.query("Cast.Echo", {"text": "1"}, name="same")
        second.query("Cast.Echo", {"text": "1"}, name="same")
        await stage.settle()
        assert first.reply("same")["text"] == "1"
        assert second.reply("same")["text"] == "1"
        assert first.answer("same").metadata.id != second.answer("same").metadata.id


@pytest.mark.spec("C10", "C19")
@pytest.mark.guarantee("G73", "G77")
class TestNeverDispatched:
    @staged(Player)
    async def test_an_unknown_type_is_a_routing_error_at_once(self, stage: Stage) -> None:
        asked = stage.query("Cast.Ecco", correlation="work")
        await stage.settle()
        fault = stage.fault(asked, "Sys.RoutingError")
        assert "Cast.Echo" in fault.message
        assert fault.original_id == asked
        assert not fault.retryable
        assert stage.answer(asked).metadata.correlation == "work"

    @pytest.mark.parametrize(
        ("data", "path"),
        [
            (b'{"text": 5}', "$.data.text"),
            (b"[]", "$.data"),
            (b"null", "$.data"),
            (b'{"text": "\\ud800"}', "$.data.text"),
        ],
    )
    @staged(Player)
    async def test_bad_data_is_a_schema_error(self, stage: Stage, data: bytes, path: str) -> None:
        fault = await stage.fault_of("Sys.SchemaError", "query", "Cast.Echo", Raw(data))
        assert path.startswith(fault.path or "?")
        assert (await stage.health("Cast")).handled == 0

    @staged(Memory)
    async def test_an_unknown_field_of_a_request_is_a_schema_error_that_names_it(self, stage: Stage) -> None:
        fault = await stage.fault_of("Sys.SchemaError", "query", "Memory.List", {"perfix": "a"})
        assert "perfix" in fault.message
        assert fault.path == "$.data"

    @pytest.mark.parametrize("kind", ["reply", "error"])
    @pytest.mark.guarantee("G85")
    @pytest.mark.spec("C17")
    @staged(Player)
    async def test_a_client_cannot_answer_anybody(self, stage: Stage, kind: str) -> None:
        asker, rogue = stage.connect(), stage.connect()
        asked = asker.command("Cast.Wait", {"ms": 100})
        await stage.settle()
        said = rogue.say("reply" if kind == "reply" else "error", "Cast.Wait", {}, name=asked)
        await stage.settle()
        assert rogue.fault(said, "Sys.SchemaError").path == "$.kind"
        assert not asker.is_answered(asked)
        await stage.wait(200)
        asker.reply(asked)

    @staged(Player)
    async def test_a_client_does_not_speak_for_the_node(self, stage: Stage) -> None:
        client, listener = stage.connect(), stage.connect()
        listener.command("Syscall.Subscribe", {"types": ["*"]})
        said = client.event("Sys.HealthTick", {"uptimeMs": 1, "inFlight": 0, "unhealthy": []})
        await stage.settle()
        client.fault(said, "Sys.RoutingError")
        assert listener.events("Sys.HealthTick") == []

    @staged(Player, Listener)
    async def test_an_event_with_bad_data_reaches_nobody(self, stage: Stage) -> None:
        client, listener = stage.connect(), stage.connect()
        listener.command("Syscall.Subscribe", {"types": ["*"]})
        await stage.settle()
        said = client.event("Cast.Told", {"text": 5})
        await stage.settle()
        assert client.fault(said, "Sys.SchemaError").path == "$.data.text"
        assert listener.events() == []
        assert (await stage.health("Listener")).handled == 0


@pytest.mark.spec("C2", "C3")
@pytest.mark.guarantee("G83")
class TestOrder:
    @staged(Player)
    async def test_a_deadline_is_handled_before_all_that_waits(self, stage: Stage) -> None:
        held = stage.command("Cast.Wait", {"ms": 5000}, timeout=10)
        await stage.settle()
        seen = watch(stage)
        # In one turn of the event loop the deadline passes, and a hundred requests come.
        stage.clock.advance(0.02)
        for _ in range(100):
            stage.query("Syscall.Ping")
        await stage.settle()
        assert seen[0].type == "Sys.Timeout"
        assert seen[0].metadata.causation == held
        assert len(seen) == 201

    @staged(Player)
    async def test_a_crash_is_answered_before_all_that_waits(self, stage: Stage) -> None:
        seen = watch(stage)
        held = stage.command("Cast.Wait", {"ms": 10, "what": "raise"})
        await stage.settle()
        del seen[:]
        stage.node.loop.kill_actor(stage.actor("Cast"))
        for _ in range(100):
            stage.query("Syscall.Ping")
        await stage.settle()
        assert (seen[0].type, seen[0].metadata.causation) == ("Sys.ActorCrash", held)

    @staged(Player)
    async def test_the_order_holds_over_a_restart(self, stage: Stage) -> None:
        texts = told(stage)
        stage.command("Cast.Wait", {"ms": 10, "what": "raise"})
        for number in range(5):
            stage.command("Cast.Do", {"what": str(number)})
        await stage.wait(500)
        for number in range(5, 10):
            stage.command("Cast.Do", {"what": str(number)})
        await stage.wait(1000)
        assert texts == ["wait raise", *(f"do {number}" for number in range(10))]
