"""A failure costs one request; a capability that fails too often is out of service until it is reset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.bus import BufferedWorker, Capability, Contract, Message, RestartLimits
from bandstand.bus.syscall import Reset
from bandstand.errors import Refused, RequestFailed
from tests.bus.cast import Do, Player, Told, told
from tests.bus.stage import Stage, hushed, play, staged
from tests.core.stage import Boom

pytestmark = [pytest.mark.spec("C20", "C19"), pytest.mark.guarantee("G80")]


class TestCrash:
    @pytest.mark.parametrize("how", ["Cast.Do", "Cast.Wait"])
    def test_the_message_at_hand_is_answered_and_the_rest_waits(self, how: str) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            data = {"what": "raise"} | ({"ms": 1} if how == "Cast.Wait" else {})
            failing = client.command(how, data, correlation="work")
            waiting = [client.query("Cast.Echo", {"text": str(number)}) for number in range(3)]
            await stage.wait(5)
            fault = client.fault(failing, "Sys.ActorCrash")
            assert "by wish" in fault.message
            assert fault.capability_id == "Cast"
            assert client.answer(failing).metadata.correlation == "work"
            assert not any(client.is_answered(name) for name in waiting)
            await stage.wait(1000)
            assert [client.reply(name)["text"] for name in waiting] == ["0", "1", "2"]

        play(act, Player)

    @staged(Player)
    async def test_it_is_started_again_a_second_later_and_not_before(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Do", {"what": "raise"})
        await stage.wait(990)
        assert (await stage.health("Cast")).state == "restarting"
        waiting = client.query("Cast.Echo")
        await stage.settle()
        assert (await stage.health("Cast")).waiting == 1
        await stage.wait(12)
        client.reply(waiting)
        health = await stage.health("Cast")
        assert (health.state, health.crashes, health.restarts) == ("running", 1, 1)
        assert "by wish" in str(health.last_fault)

    @staged(Player)
    async def test_a_deadline_is_kept_while_there_is_nobody(self, stage: Stage) -> None:
        client = stage.connect()
        texts = told(stage)
        client.command("Cast.Do", {"what": "raise"})
        await stage.wait(100)
        waiting = client.command("Cast.Do", {"what": "late"}, timeout=50)
        await stage.wait(60)
        client.fault(waiting, "Sys.Timeout")
        await stage.wait(2000)
        assert texts == ["do raise"]

    @staged(Player)
    async def test_refusing_is_an_answer_and_ends_nothing(self, stage: Stage) -> None:
        client = stage.connect()
        for _ in range(10):
            asked = client.command("Cast.Do", {"what": "refuse"})
            await stage.settle()
            assert client.fault(asked, "Sys.Refused").message == "not today"
        assert (await stage.health("Cast")).crashes == 0

    @staged(Player)
    async def test_others_do_not_notice(self, stage: Stage) -> None:
        client = stage.connect()
        for _ in range(5):
            client.command("Cast.Do", {"what": "raise"})
            ping = client.query("Syscall.Ping")
            await stage.settle()
            client.reply(ping)
            await stage.wait(1100)

    @staged(Player, mailbox_cap=8)
    async def test_a_mailbox_that_was_full_at_the_crash_is_worked_off(self, stage: Stage) -> None:
        client = stage.connect()
        client.command("Cast.Wait", {"ms": 10, "what": "raise"})
        await stage.settle()
        waiting = [client.query("Cast.Echo") for _ in range(8)]
        await stage.wait(20)
        waiting += [client.query("Cast.Echo") for _ in range(8)]
        await stage.wait(1100)
        assert {client.answer(name).kind for name in waiting} == {"reply"}
        after = client.query("Cast.Echo")
        await stage.settle()
        client.reply(after)

    @staged(Player)
    async def test_an_actor_that_is_killed_has_crashed(self, stage: Stage) -> None:
        client = stage.connect()
        asked = client.command("Cast.Wait", {"ms": 5000})
        await stage.settle()
        stage.node.loop.kill_actor(stage.actor("Cast"))
        await stage.settle()
        client.fault(asked, "Sys.ActorCrash")
        await stage.wait(1001)
        assert (await stage.health("Cast")).state == "running"

    @staged(Player)
    async def test_a_handler_that_is_cancelled_has_crashed(self, stage: Stage) -> None:
        client = stage.connect()
        asked = client.command("Cast.Wait", {"ms": 5000})
        await stage.settle()
        (task,) = [each for each in asyncio.all_tasks() if "driver" in each.get_name() and not each.done()][
            :1
        ]
        task.cancel()
        await stage.settle()
        client.fault(asked, "Sys.ActorCrash")


class TestOutOfService:
    async def exhaust(self, stage: Stage) -> None:
        client = stage.connect()
        with hushed():
            for number in range(4):
                asked = client.command("Cast.Do", {"what": "raise"})
                await stage.settle()
                client.fault(asked, "Sys.ActorCrash")
                assert (await stage.health("Cast")).state == ("restarting" if number < 3 else "unhealthy")
                await stage.wait(1001)

    @staged(Player)
    async def test_three_restarts_in_a_minute_and_no_more(self, stage: Stage) -> None:
        await self.exhaust(stage)
        client = stage.connect()
        before = (await stage.stats()).sunk
        asked = client.query("Cast.Echo")
        await stage.settle()
        fault = client.fault(asked, "Sys.Unhealthy")
        assert fault.retryable
        assert "by wish" in fault.message
        assert (await stage.stats()).sunk == before + 1
        await stage.wait(100_000)
        assert (await stage.health("Cast")).state == "unhealthy"

    @staged(Player)
    async def test_four_failures_over_more_than_a_minute_are_fine(self, stage: Stage) -> None:
        client = stage.connect()
        for _ in range(8):
            client.command("Cast.Do", {"what": "raise"})
            await stage.wait(21_000)
        assert (await stage.health("Cast")).state == "running"

    @staged(Player)
    async def test_what_waits_is_answered_when_it_is_given_up(self, stage: Stage) -> None:
        client = stage.connect()
        with hushed():
            failing = [client.command("Cast.Do", {"what": "raise"}) for _ in range(4)]
            waiting = client.query("Cast.Echo")
            await stage.wait(3100)
        assert {client.answer(name).type for name in failing} == {"Sys.ActorCrash"}
        client.fault(waiting, "Sys.Unhealthy")

    @staged(Player)
    async def test_a_reset_puts_it_back_to_work(self, stage: Stage) -> None:
        await self.exhaust(stage)
        await stage.bus.ask(Reset("Cast"))
        client = stage.connect()
        asked = client.query("Cast.Echo", {"text": "back"})
        await stage.settle()
        assert client.reply(asked)["text"] == "back"
        # With a new budget of restarts.
        await self.exhaust(stage)

    @staged(Player)
    async def test_what_is_not_out_of_service_is_not_reset(self, stage: Stage) -> None:
        with pytest.raises(RequestFailed, match="nothing to reset"):
            await stage.bus.ask(Reset("Cast"))
        with pytest.raises(RequestFailed, match="there are Cast"):
            await stage.bus.ask(Reset("Kast"))

    def test_one_that_cannot_start_stays_out_of_service(self) -> None:
        starts: list[int] = []

        class Weak(Player):
            """Starts once."""

            policy = RestartLimits(max_restarts=0)

            def on_start(self) -> None:
                starts.append(1)
                if len(starts) > 1:
                    raise Boom("no more")

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Cast.Do", {"what": "raise"})
            await stage.settle()
            for _ in range(2):
                with pytest.raises(RequestFailed, match="no more"):
                    await stage.bus.ask(Reset("Cast"))
                asked = client.query("Cast.Echo")
                await stage.settle()
                client.fault(asked, "Sys.Unhealthy")

        with hushed():
            play(act, Weak)

    def test_an_event_for_it_is_a_dead_letter(self) -> None:
        class Hearing(Player):
            """Hears as well."""

            def told(self, msg: Told) -> None:
                pass

        async def act(stage: Stage) -> None:
            await self.exhaust(stage)
            before = (await stage.stats()).dead_letters
            stage.connect().event("Cast.Told", {"text": "x"})
            await stage.settle()
            assert (await stage.stats()).dead_letters == before + 1

        play(act, Hearing)


def over_event(how: str) -> Any:
    def handle(message: Any) -> object:
        message = message.data if isinstance(message, Message) else message
        if isinstance(message, Told):
            raise Refused("no") if message.text == "refuse" else Boom(message.text)
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
    def test_a_failure_over_an_event_is_a_crash_that_nobody_is_told_of(self, form: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.event("Cast.Told", {"text": "raise"})
            asked = client.command("Cast.Do")
            await stage.wait(1010)
            assert (await stage.health("Over")).restarts == 1
            assert [frame.kind for frame in client.frames if frame.metadata.causation != asked] == []
            assert {frame.type for frame in client.frames} <= {"Cast.Do", "Sys.ActorCrash"}

        play(act, form)

    def test_refusing_an_event_ends_nothing(self, form: Any) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.event("Cast.Told", {"text": "refuse"})
            await stage.wait(10)
            assert (await stage.health("Over")).crashes == 0

        play(act, form)
