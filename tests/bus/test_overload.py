"""Too much of everything: it is said at once, nobody waits for it, and what was let in is answered."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.bus import Capability
from bandstand.errors import MailboxFullError, RequestFailedError
from tests.bus.capabilities import Do, Echo, Echoed, Player, Told, Wait
from tests.bus.virtual_node import Stage, staged


class Small(Player):
    """Has little room."""

    mailbox = 8


class Slow(Capability):
    """Has little room, and takes its time over events."""

    mailbox = 8

    async def told(self, msg: Told) -> None:
        if msg.text == "hold":
            await asyncio.sleep(1)


class Stuck(Capability):
    """Never answers."""

    async def do(self, msg: Do) -> None:
        await asyncio.Event().wait()

    async def echo(self, msg: Echo) -> Echoed:
        await asyncio.Event().wait()
        return Echoed("")


@pytest.mark.spec("C30")
@pytest.mark.guarantee("G81")
class TestFullMailbox:
    @staged(Small, hold_timeout=0)
    async def test_one_more_than_there_is_room_for_is_overloaded_at_once(self, stage: Stage) -> None:
        held = stage.command("Cast.Wait", {"ms": 100})
        await stage.settle()
        waiting = [stage.query("Cast.Echo") for _ in range(8)]
        more = [stage.query("Cast.Echo") for _ in range(3)]
        await stage.settle()
        for name in more:
            fault = stage.fault(name, "Sys.Overloaded")
            assert fault.retryable
            assert fault.capability_id == "Cast"
        assert not any(stage.is_answered(name) for name in [held, *waiting])
        await stage.wait(200)
        assert {stage.answer(name).kind for name in [held, *waiting]} == {"reply"}

    @staged(Slow)
    async def test_an_event_for_it_is_a_dead_letter_and_counted(self, stage: Stage) -> None:
        stage.event("Cast.Told", {"text": "hold"})
        await stage.settle()
        for _ in range(10):
            stage.event("Cast.Told", {"text": ""})
        await stage.settle()
        stats = await stage.stats()
        assert (stats.deliveries, stats.undelivered) == (9, 2)

    @staged(Small, hold_timeout=0)
    async def test_while_there_is_nobody_no_more_may_wait(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"})
        await stage.settle()
        waiting = [stage.query("Cast.Echo") for _ in range(10)]
        await stage.settle()
        assert [stage.is_answered(name) for name in waiting] == [False] * 8 + [True] * 2
        stage.fault(waiting[-1], "Sys.Overloaded")
        await stage.wait(1100)
        assert {stage.answer(name).kind for name in waiting[:8]} == {"reply"}


@pytest.mark.spec("C30")
@pytest.mark.guarantee("G81")
class TestCredit:
    @staged(Player, max_in_flight=3)
    async def test_a_client_that_asks_too_much_waits_and_goes_on(self, stage: Stage) -> None:
        asked = [stage.command("Cast.Wait", {"ms": 10}) for _ in range(10)]
        assert len(stage.backlog) == 7
        await stage.wait(35)
        assert len(stage.backlog) == 4
        await stage.wait(200)
        assert stage.backlog == type(stage.backlog)()
        for name in asked:
            stage.reply(name)
        assert set(stage.settled) == set(asked)

    @staged(Player, max_in_flight=3)
    async def test_those_who_waited_longest_go_on_first(self, stage: Stage) -> None:
        clients = [stage.connect() for _ in range(4)]
        for _ in range(3):
            clients[0].command("Cast.Wait", {"ms": 10})
        asked = [client.command("Cast.Do", {"what": client.name}) for client in clients]
        await stage.wait(15)
        assert [client.is_answered(name) for client, name in zip(clients, asked, strict=True)] == [False] * 4
        await stage.wait(20)
        assert not clients[3].backlog
        await stage.wait(20)
        for client, name in zip(clients, asked, strict=True):
            client.reply(name)

    @staged(Stuck, max_in_flight=2)
    async def test_several_closed_connections_that_wait_do_not_block_the_next_one(self, stage: Stage) -> None:
        greedy = stage.connect()
        for _ in range(2):
            greedy.command("Cast.Do", timeout=100)
        waiting = [stage.connect() for _ in range(5)]
        asked = [client.command("Cast.Do", timeout=10) for client in waiting]
        await stage.settle()
        for client in waiting[:4]:
            client.close()
        await stage.wait(500)
        waiting[4].fault(asked[4], "Sys.Timeout")

    @staged(Stuck, max_in_flight=8)
    async def test_health_is_answered_when_all_credit_is_used(self, stage: Stage) -> None:
        greedy, operator = stage.connect(), stage.connect()
        for _ in range(20):
            greedy.command("Cast.Do", timeout=86_400_000)
        await stage.settle()
        assert (await operator.reply_to("query", "Syscall.Health"))["capabilities"]["Stuck"][
            "at"
        ] == "Cast.Do"

    @staged(Player, max_in_flight=2)
    async def test_events_need_credit_as_well(self, stage: Stage) -> None:
        for _ in range(50):
            stage.event("Cast.Told", {"text": ""})
        assert len(stage.backlog) == 48
        await stage.settle()
        assert not stage.backlog
        assert (await stage.stats()).events == 51

    @staged(Player, max_inside=2)
    async def test_more_inside_than_may_be_is_refused_at_once(self, stage: Stage) -> None:
        asking = [asyncio.ensure_future(stage.bus.ask(Wait(100))) for _ in range(2)]
        await stage.settle()
        with pytest.raises(RequestFailedError, match="the node allows 2") as caught:
            await stage.bus.ask(Echo())
        assert caught.value.type == "Sys.Overloaded"
        with pytest.raises(MailboxFullError, match="max_inside"):
            stage.bus.send(Do())
        await asyncio.gather(*asking)
        await stage.bus.ask(Echo())

    @staged(Player, max_inside=3)
    async def test_more_events_than_may_wait_are_refused_at_once(self, stage: Stage) -> None:
        for _ in range(3):
            stage.bus.emit(Told())
        with pytest.raises(MailboxFullError, match="max_inside"):
            stage.bus.emit(Told())
        await stage.settle()
        stage.bus.emit(Told())

    @pytest.mark.parametrize("clients", [1, 5])
    @staged(Player, max_in_flight=64, max_inside=1, max_timers=0)
    async def test_the_router_is_never_full(self, stage: Stage, clients: int) -> None:
        lines = [stage.connect() for _ in range(clients)]
        asked = [(line, line.query("Cast.Echo")) for _ in range(400) for line in lines]
        for line in lines:
            line.command("Cast.Wait", {"ms": 10**7}, timeout=5)
        await stage.wait(100)
        assert all(line.is_answered(name) for line, name in asked)


@pytest.mark.spec("C30", "C17")
@pytest.mark.guarantee("G82")
class TestSlowListeners:
    @staged(Player)
    async def test_what_a_client_does_not_take_it_misses_alone(self, stage: Stage) -> None:
        slow, quick = stage.connect(), stage.connect()
        for client in (slow, quick):
            client.command("Syscall.Subscribe", {"types": ["Cast.Told"]})
        await stage.settle()
        slow.is_writable = False
        for number in range(5):
            stage.bus.emit(Told(str(number)))
        await stage.settle()
        assert len(quick.events("Cast.Told")) == 5
        assert slow.events() == []
        slow.take()
        assert slow.events("Sys.Lagged") == [{"missed": 5}]
        stage.bus.emit(Told("now"))
        await stage.settle()
        assert slow.events("Cast.Told") == [{"text": "now"}]
        assert slow.events("Sys.Lagged") == [{"missed": 5}]
        assert (await stage.stats()).lagged == 5


class Flooding(Capability):
    """Emits more than there is room for."""

    outbound = Told

    def do(self, msg: Do) -> None:
        for _ in range(100):
            self.bus.emit(Told())


@pytest.mark.guarantee("G81")
class TestFlood:
    @staged(Flooding, max_inside=10)
    async def test_a_handler_that_emits_without_end_costs_one_request(self, stage: Stage) -> None:
        assert "max_inside" in (await stage.fault_of("Sys.Refused", "command", "Cast.Do")).message
        await stage.reply_to("query", "Syscall.Ping")
