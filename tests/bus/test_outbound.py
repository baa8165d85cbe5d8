"""What a capability says is held against its contract, and what is not in it never leaves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bandstand.bus import BufferedWorker, Capability, Command, Contract, Message
from tests.bus.capabilities import Do, Echo, Echoed, Player, Told, Unsaid
from tests.bus.virtual_node import Stage, staged

pytestmark = [pytest.mark.spec("C14", "C19"), pytest.mark.guarantee("G79")]

# Any, in this file: values that are not what they should be.
WRONG: dict[str, Any] = {
    "another type": "no Echoed",
    "nothing": None,
    "a wrong field": Echoed(5),  # type: ignore[arg-type]  # that is the point  # pyright: ignore[reportArgumentType]
    "no number": Echoed("x", math.nan),
    "endless": Echoed("x", math.inf),
    "unwritable": object(),
    "half a character": Echoed("\ud800"),
}


class Wrong(Capability):
    """Replies with something else."""

    value: Any = None

    def echo(self, msg: Echo) -> Echoed:
        value: Any = WRONG[msg.text]
        return value  # type: ignore[no-any-return]  # it is none


def reply(message: Any) -> object:
    return Message(kind="reply", type="Cast.Echo", data=WRONG[getattr(message, "data", message).text])


FUNCTION = Contract(id="Wrong", description="x", inbound=Echo, spawn=lambda: reply)
WORKER = Contract(id="Wrong", description="x", inbound=Echo, spawn=lambda: BufferedWorker(reply))


class TestReplies:
    @pytest.mark.parametrize("name", WRONG)
    @pytest.mark.parametrize("form", [Wrong, FUNCTION, WORKER], ids=["class", "function", "worker"])
    @staged("form")
    async def test_a_wrong_reply_is_a_fault_and_a_restart(
        self, stage: Stage, name: str, form: type[Capability] | Contract
    ) -> None:
        asked = stage.query("Cast.Echo", {"text": name})
        await stage.wait(1)
        fault = stage.fault(asked, "Sys.ActorFault")
        assert fault.capability_id == "Wrong"
        assert (await stage.health("Wrong")).state == "restarting"
        await stage.wait(1001)
        health = await stage.health("Wrong")
        assert (health.state, health.crashes, health.restarts) == ("running", 1, 1)


class TestOthers:
    @staged(Player)
    async def test_an_event_that_the_contract_does_not_name_never_leaves(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["*"]})
        fault = await stage.fault_of("Sys.ActorFault", "command", "Cast.Do", {"what": "unsaid"})
        assert "Cast.Unsaid" in fault.message
        assert "event Cast.Told" in fault.message
        assert stage.events("Cast.Unsaid") == []

    @staged(Player)
    async def test_a_failure_that_it_names_is_an_answer(self, stage: Stage) -> None:
        asked = stage.command("Cast.Do", {"what": "miss"}, correlation="work")
        await stage.settle()
        answer = stage.answer(asked)
        assert (answer.kind, answer.type, bytes(answer.data)) == ("error", "Cast.NotFound", b'{"key":"k"}')
        assert answer.metadata.correlation == "work"
        assert (await stage.health("Cast")).crashes == 0

    @staged(Player)
    async def test_a_program_may_say_what_no_contract_names(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["*"]})
        await stage.settle()
        stage.bus.emit(Unsaid())
        await stage.settle()
        assert stage.events("Cast.Unsaid") == [{}]


class Go(Command[Echoed], type="Say.Go"):
    which: str


SAID: dict[str, object] = {
    "a reply to something else": Message(kind="reply", type="Cast.Echo", data=Echoed("x")),
    "two replies": [Message(kind="reply", type="Say.Go", data=Echoed("x"))] * 2,
    "no reply": [],
    "nothing": None,
    "no message": 5,
    "a type of nobody's": Message(kind="event", type="Cast.Unsaid", data={}),
    "an error of nobody's": Message(kind="error", type="Cast.NotNamed", data={}),
    "an error of the node's": Message(kind="error", type="Sys.Timeout", data={}),
}


def say(message: Any) -> object:
    return SAID[message.which]


def speak(_do: Do) -> Told:
    return Told("x")


SAYING = Contract(id="Say", description="x", inbound=Go | Echo, outbound=Told | Do, spawn=lambda: say)
MOUTH = Contract(id="Mouth", description="Speaks.", inbound=Do, outbound=Told, spawn=lambda: speak)


class TestFunctions:
    @pytest.mark.parametrize("which", SAID)
    @staged(SAYING)
    async def test_a_function_that_says_something_else_is_at_fault(self, stage: Stage, which: str) -> None:
        stage.command("Syscall.Subscribe", {"types": ["*"]})
        asked = stage.command("Say.Go", {"which": which})
        await stage.settle()
        answer = stage.answer(asked)
        # The first of two replies has gone out when the second one comes.
        expected = "Say.Go" if which == "two replies" else "Sys.ActorFault"
        assert answer.type == expected
        assert (await stage.health("Say")).crashes == 1
        assert stage.events() == []

    @staged(MOUTH)
    async def test_a_function_need_not_return_an_empty_reply(self, stage: Stage) -> None:
        await stage.reply_to("command", "Cast.Do")
