"""Clients that ask faster than a capability works are slowed and not refused: fairly, and not for ever."""

from __future__ import annotations

import threading

import pytest

from bandstand.bus import Memory, NodeConfig
from tests.bus.capabilities import Player, Wait
from tests.bus.socket_clients import Hall, HallMaker, frame
from tests.bus.virtual_node import ScriptedLine, Stage, staged

pytestmark = pytest.mark.guarantee("G299")


class Small(Player):
    """Has room for eight messages, six of them requests of clients."""

    mailbox = 8


def kinds(client: ScriptedLine | Stage, names: list[str]) -> list[str]:
    return [answer.kind for name in names for answer in client.answers(name)]


class TestSlowed:
    @pytest.mark.parametrize("count", [1, 3, 10])
    @staged(Player)
    async def test_pipelining_clients_are_all_answered(self, stage: Stage, count: int) -> None:
        clients = [stage.connect() for _ in range(count)]
        asked = [
            [client.command("Cast.Wait", {"ms": 0}, timeout=600_000) for _ in range(512)]
            for client in clients
        ]
        while any(client.backlog for client in clients):
            await stage.wait(10)
        await stage.wait(10_000)
        for client, names in zip(clients, asked, strict=True):
            assert kinds(client, names) == ["reply"] * 512
        stats = await stage.stats()
        assert (stats.failed, stats.admitted) == ({}, 512 * count)

    @staged(Small)
    async def test_one_at_a_time_as_there_is_room(self, stage: Stage) -> None:
        asked = [stage.command("Cast.Wait", {"ms": 100}) for _ in range(10)]
        await stage.settle()
        assert len(stage.backlog) == 4
        await stage.wait(150)
        assert len(stage.backlog) == 3
        await stage.wait(1000)
        assert kinds(stage, asked) == ["reply"] * 10

    @staged(Small)
    async def test_room_is_shared_out_evenly(self, stage: Stage) -> None:
        clients = [stage.connect() for _ in range(3)]
        asked = [[client.command("Cast.Wait", {"ms": 10}) for _ in range(60)] for client in clients]
        for _ in range(17):
            await stage.wait(100)
            done = [len(kinds(client, names)) for client, names in zip(clients, asked, strict=True)]
            # The first one came when there was room for six.
            assert max(done) - min(done) <= 8, done
        await stage.wait(1000)
        assert [kinds(client, names) for client, names in zip(clients, asked, strict=True)] == [
            ["reply"] * 60
        ] * 3

    @staged(Small)
    async def test_one_that_is_gone_is_not_waited_for(self, stage: Stage) -> None:
        greedy, other = stage.connect(), stage.connect()
        for _ in range(10):
            greedy.command("Cast.Wait", {"ms": 10})
        asked = [other.query("Cast.Echo") for _ in range(10)]
        await stage.settle()
        assert len(other.backlog) == 10
        greedy.close()
        await stage.wait(500)
        assert kinds(other, asked) == ["reply"] * 10
        # And the fast way is open again.
        asked = [other.query("Cast.Echo") for _ in range(6)]
        assert not other.backlog
        await stage.settle()
        assert kinds(other, asked) == ["reply"] * 6

    @staged(Small)
    async def test_one_that_does_not_use_its_room_leaves_it_to_others(self, stage: Stage) -> None:
        idle, other = stage.connect(), stage.connect()
        holding = [other.command("Cast.Wait", {"ms": 10}) for _ in range(6)]
        idle.query("Cast.Echo")
        # It will not ask again when it is told that it may: it does not take its answers, say.
        idle.backlog.clear()
        asked = [other.query("Cast.Echo") for _ in range(20)]
        await stage.wait(200)
        assert kinds(other, holding + asked) == ["reply"] * 26


class TestNotForEver:
    @staged(Small, Memory, hold_timeout=0.5)
    async def test_what_is_behind_goes_on_after_a_while(self, stage: Stage) -> None:
        asked = [stage.command("Cast.Wait", {"ms": 10**6}) for _ in range(20)]
        behind = stage.query("Memory.Get", {"key": "a"})
        await stage.wait(400)
        assert not stage.is_answered(behind)
        await stage.wait(200)
        stage.reply(behind)
        # One is at hand and eight wait: the others were refused, and nothing was done.
        refused = [name for name in asked if stage.is_answered(name)]
        assert refused == asked[9:]
        for name in refused:
            assert stage.fault(name, "Sys.Overloaded").retryable

    @staged(Small, hold_timeout=0.5)
    async def test_while_it_is_jammed_one_more_is_refused_at_once(self, stage: Stage) -> None:
        client, other = stage.connect(), stage.connect()
        for _ in range(20):
            client.command("Cast.Wait", {"ms": 10**6})
        await stage.wait(600)
        await other.fault_of("Sys.Overloaded", "query", "Cast.Echo")

    @staged(Small, hold_timeout=0.5)
    async def test_when_there_is_room_again_clients_are_slowed_again(self, stage: Stage) -> None:
        for _ in range(20):
            stage.command("Cast.Wait", {"ms": 1000})
        await stage.wait(20_000)
        refused = (await stage.stats()).failed["Sys.Overloaded"]
        asked = [stage.command("Cast.Wait", {"ms": 10}) for _ in range(20)]
        assert len(stage.backlog) == 14
        await stage.wait(1000)
        assert kinds(stage, asked) == ["reply"] * 20
        assert (await stage.stats()).failed == {"Sys.Overloaded": refused}

    @staged(Small)
    async def test_inside_it_is_refused_at_once(self, stage: Stage) -> None:
        for _ in range(8):
            stage.bus.send(Wait(1000))
        await stage.settle()
        stage.bus.send(Wait(1000))
        await stage.settle()
        asked = stage.query("Cast.Echo")
        await stage.settle()
        # Others than clients have filled it: there is nothing to wait for that a client could have caused.
        stage.fault(asked, "Sys.Overloaded")


@pytest.fixture
def hall(halls: HallMaker) -> Hall:
    return halls("unix", config=NodeConfig(hold_timeout=60))


@pytest.mark.slow
@pytest.mark.real_time(reason="clients with sockets, on threads of their own, are the subject")
class TestOverSockets:
    def test_pipelining_clients_are_all_answered(self, hall: Hall) -> None:
        count = 3
        heard: dict[int, list[str]] = {}

        def ask(number: int) -> None:
            guest = hall.guest()
            # Quick answers first, which widen the window.
            quick = [frame(f"{number}-quick{each}", "Memory.Get", key="a") for each in range(600)]
            guest.exchange(b"".join(quick), f"{number}-quick599")
            lines = [frame(f"{number}-{each}", "Sleeper.Sleep", name="a") for each in range(1500)]
            answers = guest.exchange(b"".join(lines), f"{number}-1499")
            heard[number] = [message["kind"] for message in answers]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        # As many as clients may have; more of them are on their way.
        while hall.books().in_flight < 768:
            pass
        hall.wake()
        for thread in threads:
            thread.join(120)
        assert heard == {number: ["reply"] * 1500 for number in range(count)}
        assert hall.books().failed == {}
