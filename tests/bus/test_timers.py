"""Messages that are sent later."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus import Capability
from bandstand.bus.memory import Get, Memory
from tests.bus.capabilities import Do, Player, watch
from tests.bus.virtual_node import ScriptedLine, Stage, staged

pytestmark = [pytest.mark.spec("C7"), pytest.mark.guarantee("G84")]


def message(
    kind: str = "query",
    type_name: str = "Cast.Echo",
    data: object = None,
    name: str = "inner",
    **metadata: object,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "type": type_name,
        "data": {} if data is None else data,
        "metadata": {"id": name, "timestamp": 0} | metadata,
    }


def schedule(client: ScriptedLine | Stage, delay: int, inner: dict[str, Any], **more: Any) -> str:
    return client.command("Timer.Schedule", {"delay": delay, "message": inner}, **more)


class SchedulesAtStart(Capability):
    """Asks, and sends itself a message, while it starts."""

    outbound = Do | Get

    async def on_start(self) -> None:
        self.found = await self.bus.ask(Get(key="a"))
        self.bus.send_later(Do("later"), 0.01)

    def do(self, msg: Do) -> None:
        pass


class TestSchedule:
    @staged(Player)
    async def test_it_is_sent_when_its_time_has_come_and_not_before(self, stage: Stage) -> None:
        asked = schedule(stage, 5000, message(data={"text": "later"}))
        await stage.settle()
        assert stage.reply(asked)["timerId"]
        await stage.wait(4998)
        assert not stage.is_answered("inner")
        await stage.wait(4)
        assert stage.reply("inner")["text"] == "later"
        assert "inner" not in stage.settled

    @staged(Player)
    async def test_its_lineage_is_that_of_the_schedule(self, stage: Stage) -> None:
        seen = watch(stage, "Cast.Echo")
        asked = schedule(stage, 10, message(), correlation="work")
        schedule(stage, 10, message(name="own", correlation="its own"), correlation="work")
        await stage.wait(20)
        first, second = [frame for frame in seen if frame.kind == "query"]
        assert (first.metadata.causation, first.metadata.correlation) == (asked, "work")
        assert second.metadata.correlation == "its own"
        assert first.metadata.timestamp > 0
        assert stage.answer("inner").metadata.correlation == "work"

    @staged(Player)
    async def test_it_has_a_deadline_of_its_own_from_when_it_is_sent(self, stage: Stage) -> None:
        schedule(stage, 1000, message("command", "Cast.Wait", {"ms": 10**7}, timeout=50))
        await stage.wait(1045)
        assert not stage.is_answered("inner")
        await stage.wait(10)
        stage.fault("inner", "Sys.Timeout")

    @staged(Player)
    async def test_a_client_that_has_gone_gets_nothing_and_it_is_counted(self, stage: Stage) -> None:
        client = stage.connect()
        schedule(client, 100, message())
        await stage.settle()
        client.close()
        await stage.wait(200)
        stats = await stage.stats()
        assert (stats.abandoned, stats.timers_fired, stats.in_flight) == (1, 1, 0)

    @staged(Memory, SchedulesAtStart)
    async def test_a_capability_may_ask_and_schedule_while_it_starts(self, stage: Stage) -> None:
        await stage.wait(20)
        assert (await stage.health("SchedulesAtStart")).handled == 1

    @staged(Memory)
    async def test_a_scheduled_subscription_of_a_closed_connection_has_no_effect(self, stage: Stage) -> None:
        client, other = stage.connect(), stage.connect()
        schedule(client, 10, message("command", "Syscall.Subscribe", {"types": ["*"]}))
        await stage.settle()
        client.close()
        await stage.wait(20)
        other.command("Memory.Set", {"key": "a", "value": 1})
        await stage.settle()
        assert client.events("Memory.Changed") == []

    @given(delays=st.lists(st.integers(0, 20), min_size=1, max_size=20))
    @settings(max_examples=20)
    @pytest.mark.spec("C6")
    @staged()
    async def test_never_early_and_equal_ones_in_their_order(self, stage: Stage, delays: list[int]) -> None:
        arrived: list[tuple[str, float]] = []
        stage.node.tap(lambda frame, _to: arrived.append((frame.metadata.id, stage.now_ms)))
        start = stage.now_ms
        for number, delay in enumerate(delays):
            schedule(stage, delay, message("event", "Any.Thing", name=f"{number}"))
        await stage.wait(30)
        fired = [(int(name), at - start) for name, at in arrived if name.isdigit()]
        assert [number for number, _ in fired] == sorted(range(len(delays)), key=lambda each: delays[each])
        assert all(delays[number] <= at < delays[number] + 3 for number, at in fired)


class TestChecked:
    @pytest.mark.parametrize(
        ("inner", "fault", "path"),
        [
            (message(type_name="Cast.Ecco"), "Sys.RoutingError", "$.data.message.type"),
            (message(data={"text": 5}), "Sys.SchemaError", "$.data.message.data.text"),
            (message("reply"), "Sys.SchemaError", "$.data.message.kind"),
            (message("event", "Cast.Told", {"text": 5}), "Sys.SchemaError", "$.data.message.data.text"),
            (message("event", "Sys.HealthTick"), "Sys.RoutingError", "$.data.message.type"),
            ({"kind": "query", "type": "Cast.Echo"}, "Sys.SchemaError", "$.data.message"),
            (message(name=""), "Sys.SchemaError", "$.data.message.metadata.id"),
        ],
    )
    @staged(Player)
    async def test_what_could_not_be_sent_now_is_not_scheduled(
        self, stage: Stage, inner: dict[str, Any], fault: str, path: str
    ) -> None:
        client, listener = stage.connect(), stage.connect()
        listener.command("Syscall.Subscribe", {"types": ["*"]})
        asked = schedule(client, 10, inner)
        await stage.wait(20)
        assert client.fault(asked, fault).path == path
        stats = await stage.stats()
        assert stats.timers_scheduled == 0
        assert listener.events() == []

    @pytest.mark.parametrize("delay", [-1, 10**12, 1.5, "5"])
    @staged(Player)
    async def test_a_delay_that_is_none_is_refused(self, stage: Stage, delay: Any) -> None:
        asked = schedule(stage, delay, message())
        await stage.settle()
        assert stage.fault(asked, "Sys.SchemaError").path == "$.data.delay"

    @staged(Player, max_timers=8)
    async def test_what_one_client_schedules_leaves_something_for_others(self, stage: Stage) -> None:
        client, other = stage.connect(), stage.connect()
        asked = [schedule(client, 10, message()) for _ in range(3)]
        fair = schedule(other, 10, message())
        await stage.settle()
        client.reply(asked[1])
        client.fault(asked[2], "Sys.Overloaded")
        other.reply(fair)
        assert stage.bus.send_later(Do(""), 0.01)

    @staged(Player, max_timers=1)
    async def test_no_more_than_may_be_are_scheduled(self, stage: Stage) -> None:
        schedule(stage, 10, message("command", "Cast.Wait", {"ms": 100}))
        asked = schedule(stage, 10, message())
        await stage.settle()
        assert stage.fault(asked, "Sys.Overloaded").retryable
        # A message that was sent is paid for until it has been answered.
        await stage.wait(50)
        asked = schedule(stage, 10, message())
        await stage.settle()
        stage.fault(asked, "Sys.Overloaded")
        await stage.wait(300)
        asked = schedule(stage, 10, message())
        await stage.settle()
        stage.reply(asked)


class TestCancel:
    @staged(Player)
    async def test_what_was_taken_back_is_not_sent(self, stage: Stage) -> None:
        asked = schedule(stage, 100, message())
        await stage.settle()
        timer = stage.reply(asked)["timerId"]
        first = stage.command("Timer.Cancel", {"timerId": timer})
        second = stage.command("Timer.Cancel", {"timerId": timer})
        await stage.wait(200)
        assert (stage.reply(first), stage.reply(second)) == ({"cancelled": True}, {"cancelled": False})
        assert not stage.is_answered("inner")
        stats = await stage.stats()
        assert (stats.timers_cancelled, stats.timers_pending) == (1, 0)
