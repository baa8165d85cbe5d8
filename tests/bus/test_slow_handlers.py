"""Handlers that block the loop: what is answered in time counts, what is too late never begins, and others are served between.

Time passes only inside handlers.
"""

from __future__ import annotations

import pytest

from bandstand.bus import Capability, Command, Query
from bandstand.testing import VirtualClock
from tests.bus.virtual_node import Stages

pytestmark = [pytest.mark.guarantee("G75", "G270"), pytest.mark.spec("C8")]


class Work(Command[float], type="Slow.Work"):
    """Block the loop for so long."""

    ms: float = 100.0


class Look(Query[float], type="Quick.Look"):
    """Ask what time it is."""


class Hall:
    """A capability that blocks, another that does not, and what they have done."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.begun: list[float] = []
        hall = self

        class Slow(Capability):
            """Blocks."""

            id = "Slow"

            def work(self, msg: Work) -> float:
                hall.begun.append(hall.now_ms)
                clock.advance(msg.ms / 1000)
                return hall.now_ms

        class Quick(Capability):
            """Does not."""

            id = "Quick"

            def look(self, msg: Look) -> float:
                return hall.now_ms

        self.capabilities = (Slow, Quick)

    @property
    def now_ms(self) -> float:
        return self.clock.now_ns() / 1e6


@pytest.fixture
def hall(bandstand_clock: VirtualClock) -> Hall:
    return Hall(bandstand_clock)


async def test_requests_that_are_too_late_never_begin(stages: Stages, hall: Hall) -> None:
    async with stages(*hall.capabilities) as stage:
        clients = [stage.connect() for _ in range(20)]
        asked = [client.command("Slow.Work", {"ms": 95}, timeout=1000) for client in clients]
        await stage.wait(5000)
        # The last of them begins 950 ms after it was asked for; its answer is there when the deadline is looked at.
        for client, name in list(zip(clients, asked, strict=True))[:11]:
            client.reply(name)
        for client, name in list(zip(clients, asked, strict=True))[11:]:
            assert "has not started" in client.fault(name, "Sys.Timeout").message
        assert len(hall.begun) == 11
        stats = await stage.stats()
        assert (stats.answered, stats.late, stats.expired) == (11, 0, 9)


async def test_a_bystander_is_served_between_two_messages(stages: Stages, hall: Hall) -> None:
    async with stages(*hall.capabilities) as stage:
        start = hall.now_ms
        client, bystander = stage.connect(), stage.connect()
        asked = [client.command("Slow.Work") for _ in range(20)]
        look = bystander.query("Quick.Look")
        await stage.wait(5000)
        assert bystander.reply(look) - start <= 201
        assert [client.answer(name).kind for name in asked] == ["reply"] * 20


async def test_answers_go_out_while_others_still_wait(stages: Stages, hall: Hall) -> None:
    async with stages(*hall.capabilities) as stage:
        asked = [stage.command("Slow.Work", name=f"work-{number}") for number in range(20)]
        counts: list[int] = []

        def look(frame: object, _destination: str) -> None:
            counts.append(len(hall.begun))

        stage.node.tap(look)
        await stage.wait(5000)
        assert [stage.is_answered(name) for name in asked] == [True] * 20
        # Twenty requests and twenty answers have passed; each answer before the second handler after it had begun.
        answers = counts[-20:]
        assert all(begun <= number + 2 for number, begun in enumerate(answers))


async def test_an_answer_on_its_way_beats_the_deadline(stages: Stages, hall: Hall) -> None:
    async with stages(*hall.capabilities) as stage:
        # The deadline passes while the handler runs, and is due in the tick in which the router finds the answer.
        asked = stage.command("Slow.Work", {"ms": 60}, timeout=50)
        await stage.wait(1000)
        stage.reply(asked)
        stats = await stage.stats()
        assert (stats.answered, stats.late) == (1, 0)


async def test_a_capability_that_becomes_slow_answers_in_time(stages: Stages, hall: Hall) -> None:
    async with stages(*hall.capabilities) as stage:
        for _ in range(200):
            stage.command("Slow.Work", {"ms": 0})
        await stage.wait(100)
        asked = [stage.command("Slow.Work", {"ms": 95}, timeout=1000) for _ in range(20)]
        hall.begun.clear()
        await stage.wait(5000)
        kinds = [stage.answer(name).kind for name in asked]
        assert kinds == ["reply"] * 11 + ["error"] * 9
        assert len(hall.begun) == 11
