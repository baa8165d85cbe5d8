"""What hardly ever happens, and must go well all the same."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from msgspec import Raw, Struct
from pydantic import BaseModel, field_validator

from bandstand.bus import (
    Capability,
    Command,
    Contract,
    Frame,
    Listeners,
    Message,
    MessageEvent,
    Metadata,
    Node,
    RestartLimits,
)
from bandstand.bus.admission import CreditLimit
from bandstand.bus.memory import Changed, Memory
from bandstand.bus.request import PendingRequest
from bandstand.bus.wire import with_whole_numbers
from bandstand.errors import (
    BootError,
    ContractViolationError,
    InternalError,
    InvalidArgumentError,
    MailboxFullError,
)
from bandstand.testing import VirtualClock
from tests.bus.capabilities import Do, Echo, Echoed, Player
from tests.bus.virtual_node import ScriptedAdapter, Stage, hushed, play, staged
from tests.core.support import Boom

# The tests look at what is kept where nobody should look: whether all of it is given back.
# pyright: reportPrivateUsage=false


def frame_of(kind: Any, type_name: str, name: str = "x", data: bytes = b"{}") -> Frame:
    return Frame(kind=kind, type=type_name, data=Raw(data), metadata=Metadata(name, 0))


class TestWithdrawals:
    @pytest.mark.guarantee("G81")
    @staged(Player)
    async def test_a_cancelled_ask_gives_its_credit_back_later(self, stage: Stage) -> None:
        router = stage.node._router
        asking = stage.bus.ask(Echo("x"))
        asking.send(None)
        with pytest.raises(asyncio.CancelledError):
            asking.throw(asyncio.CancelledError())
        assert router.internal_credit.used == 1
        await stage.settle()
        assert router.internal_credit.used == 0
        assert (await stage.stats()).withdrawn == 1

    @staged(Player)
    async def test_so_does_one_whose_answer_is_on_its_way(self, stage: Stage) -> None:
        router = stage.node._router
        pending = PendingRequest(
            Deaf(), frame_of("query", "Cast.Echo"), router.internal_credit, settles=False
        )
        assert router.submit(pending)
        router.answer(pending, frame_of("reply", "Cast.Echo", "y", b'{"text":"x"}'))
        router.withdraw(pending)
        router.withdraw(pending)
        assert router.internal_credit.used == 1
        await stage.settle()
        assert router.internal_credit.used == 0

    @staged(Player)
    async def test_one_who_cannot_take_his_answer_takes_nobody_along(self, stage: Stage) -> None:
        router = stage.node._router
        assert router.submit(
            PendingRequest(Deaf(), frame_of("query", "Cast.Echo"), router.internal_credit, settles=False)
        )
        with hushed():
            await stage.settle()
        assert (await stage.stats()).abandoned == 1


class Deaf:
    def settle(self, frame: Frame, settles: bool, /) -> bool:
        raise Boom


class TestSayingIt:
    @staged(Player, max_timers=1)
    async def test_what_is_sent_later_is_checked_now(self, stage: Stage) -> None:
        bus = stage.bus
        kept = bus.send_later(Do(""), 0.01)
        with pytest.raises(MailboxFullError, match="not scheduled"):
            bus.send_later(Do(""), 0.01)
        assert bus.take_back(kept)
        assert not bus.take_back(kept)
        for delay in (-1, float("nan"), True, 10**9):
            with pytest.raises(InvalidArgumentError, match="delay is"):
                bus.send_later(Do(""), delay)

        class Lost(Command[None], type="Lost.Go"):
            """Nobody handles it."""

        with pytest.raises(InvalidArgumentError, match=r"Lost\.Go was not scheduled: no capability handles"):
            bus.send_later(Lost(), timedelta(milliseconds=10))

    @staged(Player)
    async def test_what_is_no_message_is_refused(self, stage: Stage) -> None:
        class Untyped(Command[None]):
            """Has no type."""

        with pytest.raises(InvalidArgumentError, match="is no Event"):
            stage.bus.emit(Do(""))
        with pytest.raises(ContractViolationError, match="has no type"):
            stage.bus.send(Untyped())
        for timeout in (0, -1.5, True):
            with pytest.raises(InvalidArgumentError, match="timeout is"):
                await stage.bus.ask(Echo(""), timeout=timeout)


class Exits(Capability):
    """Calls sys.exit."""

    restarts = RestartLimits(backoff=None, max_restarts=100)

    def do(self, msg: Do) -> None:
        sys.exit(3)

    async def echo(self, msg: Echo) -> Echoed:
        sys.exit(4)


def exits(_message: Do) -> None:
    sys.exit(5)


class TestExits:
    @pytest.mark.guarantee("G74", "G80")
    @staged(Exits)
    async def test_a_handler_that_exits_is_a_crash_of_its_capability(self, stage: Stage) -> None:
        for asked in (stage.command("Cast.Do"), stage.query("Cast.Echo")):
            await stage.settle()
            assert "sys.exit" in stage.fault(asked, "Sys.ActorCrash").message
        assert (await stage.health("Exits")).restarts == 2

    def test_so_is_a_function(self) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            asked = client.command("Cast.Do")
            await stage.settle()
            assert "sys.exit(5)" in client.fault(asked, "Sys.ActorCrash").message

        play(act, Contract(id="Exits", description="Exits.", inbound=Do, spawn=lambda: exits))


class TestWorkers:
    def test_a_number_as_a_handler_does_not_boot(self, bandstand_clock: VirtualClock) -> None:
        async def main() -> None:
            contract = Contract(id="Odd", description="Is odd.", inbound=Do, spawn=lambda: 5)
            async with Node([contract], clock=bandstand_clock):
                pass

        with pytest.raises(BootError, match="function of one message"):
            bandstand_clock.run(main())

    def test_one_that_replies_to_something_else_is_at_fault(self) -> None:
        class Confused(Listeners):
            def post_message(self, message: Message, /) -> None:
                assert message.metadata is not None
                reply = Message(kind="reply", type="Cast.Echo", data={"text": "x"})
                self.dispatch_event(MessageEvent(reply, message.metadata.id))

            def terminate(self) -> None:
                pass

        async def act(stage: Stage) -> None:
            assert (
                "is no reply to Cast.Do"
                in (await stage.fault_of("Sys.ActorFault", "command", "Cast.Do")).message
            )

        play(
            act, Contract(id="Confused", description="Is.", inbound=Do | Echo, outbound=None, spawn=Confused)
        )


class Envelope(BaseModel):
    kind: Literal["command"]
    type: Literal["Shaped.Go"]
    data: dict[str, int]
    metadata: Any = None

    @field_validator("data")
    @classmethod
    def check(cls, data: dict[str, int]) -> dict[str, int]:
        if "bad" in data:
            raise ValueError("not that")
        return data


class Shaped(Capability):
    """Takes whole envelopes."""

    def go(self, msg: Envelope) -> Annotated[int, "the sum"]:
        return sum(msg.data.values())


@dataclass
class KeepColour:
    """Keep a colour."""

    kind: Literal["command"]
    type: Literal["Painter.Keep"]
    data: dict[str, str]

    def __post_init__(self) -> None:
        self.data["colour"]


class Painter(Capability):
    """Keeps colours."""

    def keep(self, msg: KeepColour) -> None:
        pass


class TestShapes:
    @staged(Painter)
    async def test_any_exception_of_an_envelope_is_a_schema_error(self, stage: Stage) -> None:
        for _ in range(5):
            await stage.fault_of("Sys.SchemaError", "command", "Painter.Keep", {"color": "red"})
        assert (await stage.health("Painter")).crashes == 0

    @staged(Shaped)
    async def test_a_check_of_the_envelopes_own_is_a_schema_error(self, stage: Stage) -> None:
        good, bad = stage.command("Shaped.Go", {"a": 1, "b": 2}), stage.command("Shaped.Go", {"bad": 1})
        await stage.settle()
        assert bytes(stage.answer(good).data) == b"3"
        stage.fault(bad, "Sys.SchemaError")
        assert (await stage.health("Shaped")).crashes == 0


class Quick(Capability):
    """Is started again at once."""

    restarts = RestartLimits(backoff=None, max_restarts=100)

    async def do(self, msg: Do) -> None:
        raise Boom


class TestLife:
    @pytest.mark.guarantee("G74")
    @staged(Quick)
    async def test_a_restart_before_the_router_notices_loses_no_answer(self, stage: Stage) -> None:
        asked = [stage.command("Cast.Do") for _ in range(20)]
        await stage.wait(100)
        for name in asked:
            stage.fault(name, "Sys.ActorCrash")

    def test_a_node_whose_router_fails_ends_and_says_so(self, bandstand_clock: VirtualClock) -> None:
        async def main() -> None:
            async with Node([Memory], clock=bandstand_clock) as node:
                node._router.handlers[Struct] = lambda _item: 1 / 0  # type: ignore[assignment]  # it is to fail
                node._router.post(Struct())
                await asyncio.sleep(10)

        with pytest.raises(InternalError, match="router of the node has failed"):
            bandstand_clock.run(main())

    @staged(Memory)
    async def test_what_the_router_has_no_use_for_is_said_and_no_more(self, stage: Stage) -> None:
        with hushed():
            stage.node._router.post(object())
            await stage.settle()
        assert (await stage.health("Memory")).state == "running"

    def test_an_adapter_that_cannot_stop_holds_up_nobody(
        self, bandstand_clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Broken(ScriptedAdapter):
            async def stop(self) -> None:
                raise Boom

            async def close(self, timeout: float) -> None:
                raise Boom

        good = ScriptedAdapter()

        async def main() -> None:
            async with Node([Memory], adapters=[Broken(), good], clock=bandstand_clock):
                pass

        with caplog.at_level(logging.CRITICAL, "bandstand.bus"):
            bandstand_clock.run(main())
        assert good.life == ["start", "stop", "close"]

    def test_wrong_arguments_are_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match="NodeConfig"):
            Node([Memory], config=5)  # type: ignore[arg-type]  # callers without types
        with pytest.raises(InvalidArgumentError, match="has not started"):
            _ = Node([Memory]).summary


class Heard(Struct):
    kind: Literal["event"]
    type: Literal["Memory.Changed"]
    data: dict[str, int]


class Numbers(Capability):
    """Hears numbers, where words are said."""

    def hear(self, msg: Heard) -> None:
        pass


class TestEvents:
    @staged(Memory, Numbers)
    async def test_another_declaration_is_sunk(self, stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.CRITICAL, "bandstand.bus"):
            stage.bus.emit(Changed(key="a", value="words"))
            await stage.settle()
        assert (await stage.stats()).sunk == 1

    @staged(Memory)
    async def test_types_that_clients_make_up_are_not_remembered_for_ever(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["*"]})
        await stage.settle()
        for number in range(5000):
            stage.event(f"Made.Up{number}")
            if number % 1000 == 0:
                await stage.settle()
        await stage.settle()
        assert len(stage.node._fanout._listeners_by_type) <= 4096
        assert len(stage.events()) >= 5000


@pytest.mark.parametrize(
    "text", [b"[1e99999999999999999999]", b"[1e500]", b"[NaN]", b"[-Infinity]", b"nonsense"]
)
def test_what_has_no_number_of_jsons_is_not_made_whole(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"number|JSON|Expecting"):
        with_whole_numbers(text)


def test_what_is_whole_is_made_an_integer() -> None:
    assert with_whole_numbers(b"[1.0, 1e3, 1.5, 2, -0.0]") == b"[1,1000,1.5,2,0]"
    assert repr(CreditLimit(3)) == "<CreditLimit 0 of 3>"
