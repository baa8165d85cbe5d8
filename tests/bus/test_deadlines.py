"""Every request has a deadline, and what comes after it is too late."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.bus import Capability
from tests.bus.capabilities import Do, Player, Wait, told
from tests.bus.virtual_node import Stage, Stages, staged

pytestmark = [pytest.mark.spec("C8", "C19"), pytest.mark.guarantee("G75")]


class Patient(Player):
    """Gives itself little time."""

    timeout = 0.2


class TestWhen:
    @pytest.mark.parametrize(
        ("own", "node", "capability", "expected"),
        [
            (None, 30_000, Player, 30_000),
            (None, 700, Player, 700),
            (50, 700, Player, 50),
            (900, 700, Player, 900),
            (None, 30_000, Patient, 200),
            (50, 30_000, Patient, 50),
            (900, 30_000, Patient, 900),
        ],
    )
    async def test_the_request_says_or_else_the_capability_or_else_the_node(
        self, stages: Stages, own: int | None, node: int, capability: type[Capability], expected: int
    ) -> None:
        async with stages(capability, timeout=node / 1000) as stage:
            asked = stage.command("Cast.Wait", {"ms": 10**8}, timeout=own)
            await stage.wait(expected - 2)
            assert not stage.is_answered(asked)
            await stage.wait(4)
            fault = stage.fault(asked, "Sys.Timeout")
            assert (fault.original_id, fault.capability_id) == (asked, "Cast")
            assert f"{expected} ms" in fault.message

    @staged(Player)
    async def test_an_answer_in_time_takes_the_deadline_back(self, stage: Stage) -> None:
        asked = stage.command("Cast.Wait", {"ms": 10}, timeout=50)
        await stage.wait(1000)
        stage.reply(asked)
        assert stage.node.loop.statistics().timers_pending == 0


class TestLate:
    @pytest.mark.parametrize(("what", "crashes"), [("refuse", 0), ("raise", 1)])
    @staged(Player)
    async def test_a_late_refusal_or_crash_is_no_answer(self, stage: Stage, what: str, crashes: int) -> None:
        asked = stage.command("Cast.Wait", {"ms": 100, "what": what}, timeout=50)
        await stage.wait(200)
        stage.fault(asked, "Sys.Timeout")
        assert (await stage.health("Cast")).crashes == crashes

    @staged(Player)
    async def test_what_has_not_begun_never_begins(self, stage: Stage) -> None:
        texts = told(stage)
        stage.command("Cast.Wait", {"ms": 100})
        waiting = stage.command("Cast.Do", {"what": "late"}, timeout=50)
        other = stage.command("Cast.Do", {"what": "fine"})
        await stage.wait(60)
        assert "has not started" in stage.fault(waiting, "Sys.Timeout").message
        await stage.wait(100)
        stage.reply(other)
        assert texts == ["wait ", "do fine"]
        assert (await stage.stats()).expired == 1

    @staged(Player)
    async def test_a_handler_that_hangs_costs_only_its_own_capability(self, stage: Stage) -> None:
        hanging = stage.command("Cast.Wait", {"ms": 10**8}, timeout=50)
        await stage.wait(100)
        await stage.reply_to("query", "Syscall.Ping")
        assert "is handling it" in stage.fault(hanging, "Sys.Timeout").message


@pytest.mark.guarantee("G74")
class TestWithdrawn:
    @staged(Player)
    async def test_who_is_cancelled_while_asking_owes_and_is_owed_nothing(self, stage: Stage) -> None:
        texts = told(stage)
        busy = asyncio.ensure_future(stage.bus.ask(Wait(100)))
        await stage.settle()
        asking = asyncio.ensure_future(stage.bus.ask(Do("never")))
        await stage.settle()
        asking.cancel()
        await busy
        await stage.settle()
        assert texts == ["wait "]
        stats = await stage.stats()
        assert (stats.withdrawn, stats.in_flight, stats.expired) == (1, 0, 1)
