"""What a close reading has found: each was wrong once, and is held here."""

from __future__ import annotations

import json

import pytest

from bandstand.bus.client.address import Address, whole_number
from bandstand.bus.client.caller import Caller
from bandstand.bus.loading import load_capabilities
from bandstand.bus.memory import Memory
from bandstand.bus.wire import read_frame
from bandstand.errors import BadContract, BadMessage
from tests.bus.cast import Player
from tests.bus.stage import Stage, staged


class TestFieldsThatNobodyKnows:
    @staged(Memory)
    async def test_those_of_a_request_are_refused_by_name(self, stage: Stage) -> None:
        client = stage.connect()
        asked = client.query("Memory.List", {"perfix": "a"})
        await stage.settle()
        fault = client.fault(asked, "Sys.SchemaError")
        assert "perfix" in fault.message
        assert fault.path == "$.data"

    @staged(Memory)
    async def test_those_of_an_event_are_tolerated(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Syscall.Subscribe", {"types": ["Memory.*"]})
        await stage.settle()
        client.event("Memory.Changed", {"key": "a", "value": 1, "by": "ada"})
        await stage.settle()
        assert client.events("Memory.Changed") == [{"key": "a", "value": 1, "by": "ada"}]


@pytest.mark.spec("C26")
@pytest.mark.guarantee("G88")
class TestRefusals:
    @staged(Player)
    async def test_they_pass_the_tap_and_the_log_too(self, stage: Stage) -> None:
        client = stage.connect()
        seen: list[tuple[str, str]] = []
        stage.node.tap(lambda frame, where: seen.append((frame.type, where)))
        stage.adapter.ingress.refuse(client, BadMessage.of("not a message"))
        client.say("reply", "Cast.Do")
        client.event("Sys.HealthTick")
        await stage.settle()
        assert seen.count(("Sys.SchemaError", client.name)) == 2
        assert ("Sys.RoutingError", "requester") in seen
        assert sum(frame.type == "Sys.SchemaError" for frame in stage.node.recent()) == 2

    def test_they_do_not_repeat_a_megabyte(self) -> None:
        line = json.dumps({"kind": "x" * 500_000, "type": "A.B", "metadata": {"id": "a", "timestamp": 1}})
        with pytest.raises(BadMessage) as caught:
            read_frame(line.encode())
        assert len(str(caught.value)) < 600


class TestCommandLine:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("1", 1),
            ("0007", 7),
            ("65535", 65535),
            ("65536", None),
            ("0000199999", None),
            ("", None),
            ("-1", None),
            ("١", None),
        ],
    )
    def test_a_number_is_looked_at_whole(self, text: str, number: int | None) -> None:
        assert whole_number(text, 1, 65535) == number

    def test_a_host_that_no_name_can_be_is_told_in_a_sentence(self) -> None:
        with pytest.raises(OSError, match="no name of a host"), Caller(Address.parse("tcp:a..b:80"), 1.0):
            pass

    def test_a_function_that_exits_is_told_in_a_sentence(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        file = tmp_path_factory.mktemp("exits") / "exits.py"
        file.write_text("def capabilities():\n    raise SystemExit(3)\n")
        with pytest.raises(BadContract, match="SystemExit"):
            load_capabilities(f"{file}:capabilities")
