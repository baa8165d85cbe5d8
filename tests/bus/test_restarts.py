"""A failure costs one request; a capability that fails too often is out of service until it is tried again, or reset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.bus import BufferedWorker, Capability, Contract, Message, RestartLimits
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.syscall import Reset
from bandstand.errors import BootError, ContractError, IgnoreChild, RefusedError, RequestFailedError
from tests.bus.capabilities import Do, Player, Told, told
from tests.bus.virtual_node import Stage, Stages, hushed, play, staged
from tests.core.support import Boom

pytestmark = [pytest.mark.spec("C20", "C19"), pytest.mark.guarantee("G80")]


class Impatient(Player):
    """Has little room, and gives its requests little time."""

    mailbox = 8
    timeout = 0.5


class TestCrash:
    @pytest.mark.parametrize("how", ["Cast.Do", "Cast.Wait"])
    @staged(Player)
    async def test_the_message_at_hand_is_answered_and_the_rest_waits(self, stage: Stage, how: str) -> None:
        data = {"what": "raise"} | ({"ms": 1} if how == "Cast.Wait" else {})
        failing = stage.command(how, data, correlation="work")
        waiting = [stage.query("Cast.Echo", {"text": str(number)}) for number in range(3)]
        await stage.wait(5)
        fault = stage.fault(failing, "Sys.ActorCrash")
        assert "by wish" in fault.message
        assert fault.capability_id == "Cast"
        assert stage.answer(failing).metadata.correlation == "work"
        assert not any(stage.is_answered(name) for name in waiting)
        await stage.wait(1000)
        assert [stage.reply(name)["text"] for name in waiting] == ["0", "1", "2"]

    @staged(Player)
    async def test_it_is_started_again_a_second_later_and_not_before(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"})
        await stage.wait(990)
        assert (await stage.health("Cast")).state == "restarting"
        waiting = stage.query("Cast.Echo")
        await stage.settle()
        assert (await stage.health("Cast")).waiting == 1
        await stage.wait(12)
        stage.reply(waiting)
        health = await stage.health("Cast")
        assert (health.state, health.crashes, health.restarts) == ("running", 1, 1)
        assert "by wish" in str(health.last_fault)

    @staged(Player)
    async def test_a_deadline_is_kept_while_there_is_nobody(self, stage: Stage) -> None:
        texts = told(stage)
        stage.command("Cast.Do", {"what": "raise"})
        await stage.wait(100)
        waiting = stage.command("Cast.Do", {"what": "late"}, timeout=50)
        await stage.wait(60)
        stage.fault(waiting, "Sys.Timeout")
        await stage.wait(2000)
        assert texts == ["do raise"]

    @staged(Player, mailbox=8)
    async def test_a_mailbox_that_was_full_at_the_crash_is_worked_off(self, stage: Stage) -> None:
        stage.command("Cast.Wait", {"ms": 10, "what": "raise"})
        await stage.settle()
        waiting = [stage.query("Cast.Echo") for _ in range(8)]
        await stage.wait(20)
        waiting += [stage.query("Cast.Echo") for _ in range(8)]
        await stage.wait(1100)
        assert {stage.answer(name).kind for name in waiting} == {"reply"}
        await stage.reply_to("query", "Cast.Echo")

    @staged(Impatient)
    async def test_a_mailbox_full_of_expired_requests_takes_new_ones(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"})
        for _ in range(16):
            stage.command("Cast.Do")
        await stage.wait(1500)
        await stage.reply_to("command", "Cast.Do")

    @staged(Player)
    async def test_an_actor_that_is_killed_has_crashed(self, stage: Stage) -> None:
        asked = stage.command("Cast.Wait", {"ms": 5000})
        await stage.settle()
        stage.node.loop.kill_actor(stage.actor("Cast"))
        await stage.settle()
        stage.fault(asked, "Sys.ActorCrash")
        await stage.wait(1001)
        assert (await stage.health("Cast")).state == "running"

    @staged(Player)
    async def test_a_handler_that_is_cancelled_has_crashed(self, stage: Stage) -> None:
        asked = stage.command("Cast.Wait", {"ms": 5000})
        await stage.settle()
        # Some of them may be idle.
        for task in asyncio.all_tasks():
            if "driver" in task.get_name():
                task.cancel()
        await stage.settle()
        stage.fault(asked, "Sys.ActorCrash")


class TestOutOfService:
    async def exhaust(self, stage: Stage) -> None:
        with hushed():
            for number in range(4):
                await stage.fault_of("Sys.ActorCrash", "command", "Cast.Do", {"what": "raise"})
                assert (await stage.health("Cast")).state == ("restarting" if number < 3 else "unhealthy")
                await stage.wait(1001)

    @staged(Player)
    async def test_three_restarts_in_a_minute_and_no_more(self, stage: Stage) -> None:
        await self.exhaust(stage)
        before = (await stage.stats()).sunk
        fault = await stage.fault_of("Sys.Unhealthy", "query", "Cast.Echo")
        assert fault.retryable
        assert "by wish" in fault.message
        assert (await stage.stats()).sunk == before + 1
        # The last second has passed already, in `exhaust`.
        await stage.wait(58_990)
        health = await stage.health("Cast")
        assert (health.state, health.on_trial) == ("unhealthy", False)
        assert health.trial_in_ms is not None
        assert 0 <= health.trial_in_ms <= 10

    @pytest.mark.guarantee("G306")
    @staged(Player)
    async def test_it_is_tried_again_when_its_window_has_passed(self, stage: Stage) -> None:
        await self.exhaust(stage)
        await stage.wait(59_000)
        assert (await stage.reply_to("query", "Cast.Echo", {"text": "back"}))["text"] == "back"
        health = await stage.health("Cast")
        assert (health.state, health.on_trial, health.trial_in_ms) == ("running", True, None)
        # It has proved itself when the window has passed once more: then it has all its restarts again.
        await stage.wait(60_000)
        assert not (await stage.health("Cast")).on_trial
        await self.exhaust(stage)

    @pytest.mark.guarantee("G306")
    @staged(Player)
    async def test_one_failure_on_trial_puts_it_out_of_service_for_another_window(self, stage: Stage) -> None:
        await self.exhaust(stage)
        await stage.wait(59_000)
        for _ in range(3):
            await stage.wait(10)
            assert (await stage.health("Cast")).on_trial
            with hushed():
                failing = stage.command("Cast.Do", {"what": "raise"})
                waiting = stage.query("Cast.Echo")
                await stage.settle()
            stage.fault(failing, "Sys.ActorCrash")
            stage.fault(waiting, "Sys.Unhealthy")
            health = await stage.health("Cast")
            assert (health.state, health.on_trial, health.trial_in_ms) == ("unhealthy", False, 60_000)
            await stage.wait(59_990)
            assert (await stage.health("Cast")).state == "unhealthy"
            await stage.wait(10)

    @pytest.mark.guarantee("G306")
    @staged(Player)
    async def test_a_reset_takes_the_place_of_the_trial(self, stage: Stage) -> None:
        await self.exhaust(stage)
        await stage.bus.ask(Reset("Cast"))
        await stage.wait(50_000)
        with hushed():
            stage.command("Cast.Do", {"what": "raise"})
            await stage.settle()
        # With all its restarts, and no second start when the trial would have been.
        assert (await stage.health("Cast")).state == "restarting"
        await stage.wait(20_000)
        health = await stage.health("Cast")
        assert (health.state, health.restarts, health.on_trial) == ("running", 4, False)

    @pytest.mark.guarantee("G306")
    async def test_one_that_cannot_start_is_tried_again_all_the_same(self, stages: Stages) -> None:
        starts: list[int] = []

        class Weak(Player):
            """Starts at first, and then only at the third attempt."""

            restarts = RestartLimits(max_restarts=0, period=1)

            def on_start(self) -> None:
                starts.append(1)
                if 1 < len(starts) < 4:
                    raise Boom("not yet")

        async with stages(Weak, hush=True) as stage:
            stage.command("Cast.Do", {"what": "raise"})
            await stage.wait(2990)
            health = await stage.health("Cast")
            assert (health.state, len(starts)) == ("unhealthy", 3)
            assert "not yet" in str(health.last_fault)
            await stage.wait(20)
            assert (await stage.health("Cast")).state == "running"

    @pytest.mark.guarantee("G279")
    @pytest.mark.parametrize("is_async", [False, True], ids=["at once", "later"])
    def test_a_capability_cannot_be_ignored(self, is_async: bool) -> None:
        class Shy(Player):
            """Asks to be left out, though the node waits for it."""

            def on_start(self) -> Any:
                if not is_async:
                    raise IgnoreChild("not needed")
                return self.later()

            async def later(self) -> None:
                raise IgnoreChild("not needed")

        async def act(stage: Stage) -> None:
            raise AssertionError("the node must not start")

        with hushed(), pytest.raises(BootError, match=r"capability Cast .*IgnoreChild"):
            play(act, Shy)

    @staged(Player)
    async def test_what_is_not_out_of_service_is_not_reset(self, stage: Stage) -> None:
        with pytest.raises(RequestFailedError, match="nothing to reset"):
            await stage.bus.ask(Reset("Cast"))
        with pytest.raises(RequestFailedError, match="there are Cast"):
            await stage.bus.ask(Reset("Kast"))

    async def test_one_that_cannot_start_stays_out_of_service(self, stages: Stages) -> None:
        starts: list[int] = []

        class Weak(Player):
            """Starts once."""

            restarts = RestartLimits(max_restarts=0)

            def on_start(self) -> None:
                starts.append(1)
                if len(starts) > 1:
                    raise Boom("no more")

        async with stages(Weak, hush=True) as stage:
            stage.command("Cast.Do", {"what": "raise"})
            await stage.settle()
            for _ in range(2):
                with pytest.raises(RequestFailedError, match="no more"):
                    await stage.bus.ask(Reset("Cast"))
                await stage.fault_of("Sys.Unhealthy", "query", "Cast.Echo")

    async def test_an_event_for_it_is_a_dead_letter(self, stages: Stages) -> None:
        class Hearing(Player):
            """Hears as well."""

            def told(self, msg: Told) -> None:
                pass

        async with stages(Hearing) as stage:
            await self.exhaust(stage)
            before = (await stage.stats()).undelivered
            stage.connect().event("Cast.Told", {"text": "x"})
            await stage.settle()
            assert (await stage.stats()).undelivered == before + 1


def over_event(how: str) -> Any:
    def handle(message: Any) -> object:
        message = message.data if isinstance(message, Message) else message
        if isinstance(message, Told):
            raise RefusedError("no") if message.text == "refuse" else Boom(message.text)
        return None if how == "function" else Message(kind="reply", type="Cast.Do", data=None)

    return handle


class Over(Capability):
    """Fails over events."""

    id = "Over"

    def told(self, msg: Told) -> None:
        over_event("class")(msg)

    def do(self, msg: Do) -> None:
        pass


FORMS = [
    Over,
    Contract(id="Over", description="x", inbound=Told | Do, spawn=lambda: over_event("function")),
    Contract(
        id="Over", description="x", inbound=Told | Do, spawn=lambda: BufferedWorker(over_event("worker"))
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=["class", "function", "worker"])
class TestEvents:
    @staged("form")
    async def test_a_failure_at_an_event_is_a_crash(self, stage: Stage, form: Any) -> None:
        stage.event("Cast.Told", {"text": "raise"})
        asked = stage.command("Cast.Do")
        await stage.wait(1010)
        assert (await stage.health("Over")).restarts == 1
        assert [frame.kind for frame in stage.frames if frame.metadata.causation != asked] == []
        assert {frame.type for frame in stage.frames} <= {"Cast.Do", "Sys.ActorCrash"}

    @staged("form")
    async def test_refusing_an_event_ends_nothing(self, stage: Stage, form: Any) -> None:
        stage.event("Cast.Told", {"text": "refuse"})
        await stage.wait(10)
        assert (await stage.health("Over")).crashes == 0


class Wrapped(Player):
    """Wraps code that raises exceptions of its own."""

    refuses = (Boom, LookupError)

    def told(self, msg: Told) -> None:
        raise Boom(msg.text)

    def act(self, what: str) -> None:
        if what == "key":
            raise KeyError("k")
        super().act(what)


def wrapped(message: Any) -> Any:
    data = message.data if isinstance(message, Message) else message
    if isinstance(data, Told):
        raise Boom("event")
    if data.what == "raise":
        raise Boom("by wish")
    if data.what == "key":
        raise KeyError("k")
    if data.what == "other":
        raise ValueError("other")
    return None if data.what == "silent" else Message(kind="reply", type="Cast.Do", data=None)


def contract(spawn: Any) -> Contract:
    return Contract(id="Cast", description="x", inbound=Told | Do, spawn=spawn, refuses=(Boom, LookupError))


WRAPPED = [Wrapped, contract(lambda: wrapped), contract(lambda: BufferedWorker(wrapped))]


@pytest.mark.guarantee("G305")
class TestDeclaredRefusals:
    @pytest.mark.parametrize("form", WRAPPED, ids=["class", "function", "worker"])
    @staged("form", hush=True)
    async def test_a_declared_exception_is_an_answer(self, stage: Stage, form: Any) -> None:
        for _ in range(10):
            fault = await stage.fault_of("Sys.Refused", "command", "Cast.Do", {"what": "raise"})
            assert (fault.message, fault.capability_id) == ("Boom: by wish", "Cast")
        # Of a class that derives from a declared one.
        assert (
            await stage.fault_of("Sys.Refused", "command", "Cast.Do", {"what": "key"})
        ).message == "KeyError: 'k'"
        stage.event("Cast.Told", {"text": "x"})
        await stage.settle()
        health = await stage.health("Cast")
        assert (health.state, health.crashes, health.restarts) == ("running", 0, 0)

    @pytest.mark.parametrize("form", WRAPPED, ids=["class", "function", "worker"])
    async def test_what_is_not_declared_is_a_failure_as_ever(self, stages: Stages, form: Any) -> None:
        class Other(Wrapped):
            """Raises something else."""

            def act(self, what: str) -> None:
                raise ValueError(what)

        async with stages(Other if form is Wrapped else form, hush=True) as stage:
            assert (
                "ValueError: other"
                in (await stage.fault_of("Sys.ActorCrash", "command", "Cast.Do", {"what": "other"})).message
            )
            assert (await stage.health("Cast")).crashes == 1

    async def test_what_the_contract_does_not_allow_is_never_a_refusal(self, stages: Stages) -> None:
        class Wide(Player):
            """Declares everything."""

            refuses = (Exception,)

        async with stages(Wide, hush=True) as stage:
            await stage.fault_of("Sys.ActorFault", "command", "Cast.Do", {"what": "unsaid"})

    async def test_one_whose_words_cannot_be_read_is_refused_all_the_same(self, stages: Stages) -> None:
        class MuteError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        class Mute(Player):
            """Raises what cannot be shown."""

            refuses = (MuteError,)

            def act(self, what: str) -> None:
                raise MuteError

        async with stages(Mute) as stage:
            assert (await stage.fault_of("Sys.Refused", "command", "Cast.Do")).message.startswith("MuteError")

    @pytest.mark.parametrize("wrong", [ValueError, [ValueError], (KeyboardInterrupt,), ("ValueError",)])
    def test_what_is_no_class_of_exceptions_is_refused_at_boot(self, wrong: Any) -> None:
        bad = Contract(id="Cast", description="x", inbound=Do, spawn=lambda: wrapped, refuses=wrong)
        with pytest.raises(ContractError, match="capability Cast: refuses"):
            read_capability(bad)
        with pytest.raises(ContractError, match="capability Cast: refuses"):
            read_capability(type("Bad", (Player,), {"__doc__": "x", "refuses": wrong}))
