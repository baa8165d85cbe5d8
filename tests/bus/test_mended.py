"""What a close reading has found: each was wrong once, and is held here."""

from __future__ import annotations

import asyncio
import json

import pytest

from bandstand.bus import Capability, Command, Frame, MemoryLog, Node, connect_blocking
from bandstand.bus.client.config import parse_int
from bandstand.bus.loading import load_capabilities
from bandstand.bus.memory import Changed, Get, Memory
from bandstand.bus.wire import read_frame
from bandstand.errors import ContractError, InvalidMessageError, LoopClosedError
from tests.bus.cast import Do, Player
from tests.bus.stage import Stage, staged
from tests.core.support import Boom


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
        stage.adapter.ingress.refuse(client, InvalidMessageError.of("not a message"))
        client.say("reply", "Cast.Do")
        client.event("Sys.HealthTick")
        await stage.settle()
        assert seen.count(("Sys.SchemaError", client.name)) == 2
        assert ("Sys.RoutingError", "requester") in seen
        assert sum(frame.type == "Sys.SchemaError" for frame in stage.node.recent()) == 2

    def test_they_do_not_repeat_a_megabyte(self) -> None:
        line = json.dumps({"kind": "x" * 500_000, "type": "A.B", "metadata": {"id": "a", "timestamp": 1}})
        with pytest.raises(InvalidMessageError) as caught:
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
        assert parse_int(text, 1, 65535) == number

    def test_a_host_that_no_name_can_be_is_told_in_a_sentence(self) -> None:
        with pytest.raises(OSError, match="is not a host name"), connect_blocking("tcp:a..b:80"):
            pass

    def test_a_function_that_exits_is_told_in_a_sentence(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        file = tmp_path_factory.mktemp("exits") / "exits.py"
        file.write_text("def capabilities():\n    raise SystemExit(3)\n")
        with pytest.raises(ContractError, match="SystemExit"):
            load_capabilities(f"{file}:capabilities")


class Slow(Capability):
    """Waits for a word."""

    mailbox = 8
    timeout = 0.5

    def do(self, msg: Do) -> None:
        if msg.what == "boom":
            raise Boom


class TestSeats:
    @pytest.mark.guarantee("G80")
    @staged(Slow)
    async def test_a_mailbox_full_of_what_has_expired_holds_up_nobody(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Do", {"what": "boom"})
        for _ in range(16):
            client.command("Cast.Do", {"what": ""})
        await stage.wait(1500)
        asked = client.command("Cast.Do", {"what": ""})
        await stage.settle()
        client.reply(asked)

    @staged(Memory)
    async def test_a_connection_that_is_gone_does_not_listen(self, stage: Stage) -> None:
        client, other = stage.connect(), stage.connect()
        inner = {
            "kind": "command",
            "type": "Syscall.Subscribe",
            "data": {"types": ["*"]},
            "metadata": {"id": "later", "timestamp": 0},
        }
        client.command("Timer.Schedule", {"delay": 10, "message": inner})
        await stage.settle()
        client.close()
        await stage.wait(20)
        other.command("Memory.Set", {"key": "a", "value": 1})
        await stage.settle()
        assert client.events("Memory.Changed") == []

    @staged(Memory)
    async def test_a_connection_listens_to_so_many_types_and_no_more(self, stage: Stage) -> None:
        client = stage.connect()
        asked = [
            client.command("Syscall.Subscribe", {"types": [f"A{turn}.B{n}" for n in range(600)]})
            for turn in range(2)
        ]
        await stage.settle()
        assert len(client.reply(asked[0])["types"]) == 600
        client.fault(asked[1], "Sys.Refused")


class Left(Command[None], type="Left.Go"):
    """Ask the other."""


class Right(Command[None], type="Right.Go"):
    """Ask the other."""


class LeftSide(Capability):
    """Asks the right one."""

    id = "Left"
    outbound = Right

    async def go(self, _msg: Left) -> None:
        await asyncio.sleep(0.01)
        await self.bus.ask(Right())


class RightSide(Capability):
    """Asks the left one."""

    id = "Right"
    outbound = Left

    async def go(self, _msg: Right) -> None:
        await asyncio.sleep(0.01)
        await self.bus.ask(Left())


class Early(Capability):
    """Says something before it has started."""

    outbound = Do | Get

    async def on_start(self) -> None:
        self.found = await self.bus.ask(Get(key="a"))
        self.bus.send_later(Do("later"), 0.01)

    def do(self, msg: Do) -> None:
        pass


class TestLife:
    @pytest.mark.guarantee("G90")
    @staged(LeftSide, RightSide)
    async def test_two_that_ask_each_other_over_different_requests_are_told(self, stage: Stage) -> None:
        client = stage.connect()
        asked = [client.command("Left.Go"), client.command("Right.Go")]
        await stage.wait(100)
        told = [client.answer(name) for name in asked]
        # Who asks and is not answered has refused, and lives on.
        assert all(answer.type == "Sys.Refused" for answer in told)
        assert (await stage.health("Left")).crashes == (await stage.health("Right")).crashes == 0
        assert any(b"Sys.Cycle" in bytes(answer.data) for answer in told)

    @staged(Memory, Early)
    async def test_what_is_said_at_the_start_goes_to_whom_it_is_for(self, stage: Stage) -> None:
        await stage.wait(20)
        assert (await stage.health("Early")).handled == 1

    def test_a_node_that_does_not_run_says_so(self) -> None:
        with pytest.raises(LoopClosedError, match="has not started"):
            Node([Memory]).bus.emit(Changed(key="a"))

    @pytest.mark.guarantee("G80")
    @staged(Memory)
    async def test_a_log_that_cannot_be_read_is_told_and_costs_nothing(self, stage: Stage) -> None:
        class Broken(MemoryLog):
            def recent(self, limit: int) -> tuple[Frame, ...]:
                raise OSError("disk")

        client = stage.connect()
        stage.node._router.log = Broken()  # pyright: ignore[reportPrivateUsage]  # the stage has no door for it
        asked = client.query("Syscall.Recent")
        await stage.settle()
        assert "disk" in client.fault(asked, "Sys.Refused").message
        assert (await stage.health("Syscall")).crashes == 0
