"""Trying again: the same request, within its first deadline, and nobody hears of the failures in between."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import Struct

from bandstand.bus import Capability, Command, Contract, Message, RestartLimits, Retry, provide
from bandstand.bus.syscall import Describe, StatsQuery
from bandstand.errors import RefusedError
from bandstand.supervision import Backoff
from tests.bus.virtual_node import Stages
from tests.core.support import Boom

pytestmark = [pytest.mark.spec("C24")]

STEADY = Backoff(initial=0.1, maximum=1.0, factor=2.0)


class Tried(Struct):
    times: int


class Try(Command[Tried], type="Hard.Try", retry=Retry(attempts=4, backoff=STEADY)):
    """Do something that fails at first."""

    fails: int
    items: list[int] = msgspec.field(default_factory=list[int])


class Once(Command[Tried], type="Hard.Once"):
    """The same, without a second chance."""

    fails: int


class Fault(
    Command[Tried], type="Hard.Fault", retry=Retry(backoff=STEADY, on=["Sys.ActorFault", "Sys.Unhealthy"])
):
    """Say at first what the contract does not allow."""

    fails: int


class Hold(Command[None], type="Hard.Hold"):
    """Take some time."""

    ms: int


class Score:
    def __init__(self) -> None:
        self.tried: list[tuple[str, list[int]]] = []


class Hard(Capability):
    """Fails as often as it is told to."""

    restarts = RestartLimits(max_restarts=100, backoff=Backoff(initial=0.001, maximum=0.001))
    mailbox = 8

    def __init__(self, score: Score) -> None:
        self.score = score

    def _go(self, name: str, fails: int, items: list[int]) -> Tried:
        metadata = self.bus.message
        assert metadata is not None
        self.score.tried.append((metadata.id, list(items)))
        items.append(1)
        if len(self.score.tried) <= fails:
            if name == "fault":
                return 5  # type: ignore[return-value]  # on purpose
            if fails == 77:
                raise RefusedError("never")
            raise Boom("again")
        return Tried(len(self.score.tried))

    def attempt(self, msg: Try) -> Tried:
        return self._go("try", msg.fails, msg.items)

    def once(self, msg: Once) -> Tried:
        return self._go("once", msg.fails, [])

    def fault(self, msg: Fault) -> Tried:
        return self._go("fault", msg.fails, [])

    async def hold(self, msg: Hold) -> None:
        await asyncio.sleep(msg.ms / 1000)


@pytest.fixture
def hard() -> Score:
    """What the capability of a test has tried: `async with stages(provide(Hard, hard)) as stage`."""
    return Score()


@pytest.mark.guarantee("G177")
class TestTryingAgain:
    async def test_what_fails_at_first_is_answered_in_the_end(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            stage.command("Hard.Try", {"fails": 2}, name="x")
            await stage.wait(50)
            stats = await stage.node.bus.ask(StatsQuery())
            assert (stats.timers.retry, stats.timers.timeout, stats.requests.retries) == (1, 2, 1)
            await stage.wait(400)
            assert stage.reply("x") == {"times": 3}
            stats = await stage.node.bus.ask(StatsQuery())
            assert (stats.timers.retry, stats.requests.retries, stats.requests.crashes) == (0, 2, 2)
            assert stats.requests.failed == {}
            assert stats.dead_letters.made == 0
        # The same id each time; and data that no handler has had in its hands.
        assert hard.tried == [("x", [])] * 3

    async def test_never_early_and_with_growing_delays(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            stage.command("Hard.Try", {"fails": 9}, name="x")
            counts: list[int] = []
            for ms in (99, 3, 197, 6, 390, 20):
                await stage.wait(ms)
                counts.append(len(hard.tried))
            assert counts == [1, 2, 2, 3, 3, 4]
            fault = stage.fault("x", "Sys.ActorCrash")
            assert "again" in fault.message

        assert len(hard.tried) == 4

    async def test_none_without_a_declaration_and_no_refusal(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            stage.command("Hard.Once", {"fails": 1}, name="x")
            await stage.wait(100)
            stage.fault("x", "Sys.ActorCrash")
            stage.command("Hard.Try", {"fails": 77}, name="y")
            await stage.wait(100)
            stage.fault("y", "Sys.Refused")
            assert (await stage.stats()).retries == 0

    async def test_an_overload_is_waited_for(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard), hold_timeout=0) as stage:
            stage.command("Hard.Hold", {"ms": 150})
            await stage.settle()
            for _ in range(8):
                stage.command("Hard.Once", {"fails": 0})
            stage.command("Hard.Try", {"fails": 0}, name="x")
            await stage.wait(120)
            assert not stage.is_answered("x")
            await stage.wait(400)
            assert stage.reply("x") == {"times": 9}
            assert (await stage.stats()).retries == 2

    async def test_one_out_of_service_may_come_back(self, stages: Stages) -> None:
        class Brittle(Hard):
            """Is out of service after one failure."""

            restarts = RestartLimits(max_restarts=0, backoff=Backoff(initial=0.001, maximum=0.001))

        async with stages(provide(Brittle, Score())) as stage:
            stage.command("Hard.Once", {"fails": 1})
            await stage.settle()
            stage.command("Hard.Fault", {"fails": 0}, name="x")
            stage.command("Hard.Try", {"fails": 0}, name="y")
            await stage.wait(50)
            stage.fault("y", "Sys.Unhealthy")
            assert not stage.is_answered("x")
            reset = stage.command("Syscall.Reset", {"capability": "Brittle"})
            await stage.wait(200)
            stage.reply(reset)
            assert stage.answer("x").kind == "reply"

    async def test_an_attempt_after_the_capability_went_out_of_service(self, stages: Stages) -> None:
        class Brittle(Hard):
            """Is out of service after two failures."""

            restarts = RestartLimits(max_restarts=1, backoff=Backoff(initial=0.001, maximum=0.001))

        async with stages(provide(Brittle, Score())) as stage:
            stage.command("Hard.Try", {"fails": 9}, name="x")
            await stage.wait(50)
            stage.command("Hard.Once", {"fails": 9})
            await stage.wait(40)
            assert not stage.is_answered("x")
            await stage.wait(100)
            stage.fault("x", "Sys.Unhealthy")
            assert (await stage.stats()).is_balanced

    async def test_repeats_join_it_while_it_waits(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            first, second = stage.connect(), stage.connect()
            first.command("Hard.Try", {"fails": 1}, name="x")
            await stage.wait(50)
            second.command("Hard.Try", {"fails": 1}, name="x")
            await stage.wait(100)
            assert first.reply("x") == second.reply("x") == {"times": 2}


@pytest.mark.guarantee("G178")
class TestTheFirstDeadline:
    async def test_an_attempt_beyond_it_is_not_waited_for(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            stage.command("Hard.Try", {"fails": 9}, name="x", timeout=250)
            await stage.wait(90)
            assert not stage.is_answered("x")
            await stage.wait(20)
            # The next would be at 300 ms: so this is the answer, long before the deadline.
            stage.fault("x", "Sys.ActorCrash")
        assert len(hard.tried) == 2

    async def test_it_ends_one_that_waits_for_its_capability(self, stages: Stages) -> None:
        class Slow(Hard):
            """Takes its time to come back."""

            restarts = RestartLimits(max_restarts=100, backoff=Backoff(initial=5, maximum=5))

        async with stages(provide(Slow, Score())) as stage:
            stage.command("Hard.Try", {"fails": 9}, name="x", timeout=1000)
            await stage.wait(1010)
            stage.fault("x", "Sys.Timeout")
            stats = await stage.node.bus.ask(StatsQuery())
            assert (stats.timers.retry, stats.timers.timeout) == (0, 1)

    async def test_one_that_is_withdrawn_is_not_tried_again(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            task = asyncio.get_running_loop().create_task(stage.bus.ask(Try(9)))
            await stage.wait(50)
            task.cancel()
            await stage.wait(1000)
            stats = await stage.node.bus.ask(StatsQuery())
            assert (stats.requests.withdrawn, stats.timers.retry) == (1, 0)
        assert len(hard.tried) == 1


@pytest.mark.guarantee("G179")
class TestDeclaring:
    async def test_it_is_described(self, stages: Stages, hard: Score) -> None:
        async with stages(provide(Hard, hard)) as stage:
            found = await stage.bus.ask(Describe(capability="Hard"))
            retries = {each.type: each.retry for each in found.capabilities[0].handles}
            assert msgspec.to_builtins(retries["Hard.Try"]) == {
                "attempts": 4,
                "on": ["Sys.ActorCrash", "Sys.Overloaded"],
                "initialMs": 100,
                "factor": 2.0,
                "maxMs": 1000,
            }
            assert retries["Hard.Once"] is None

    async def test_a_contract_says_it_for_its_types(self, stages: Stages) -> None:
        tried: list[str] = []

        def handle(message: Once) -> Message:
            tried.append("x")
            if len(tried) == 1:
                raise Boom("again")
            return Message(kind="reply", type="Hard.Once", data=Tried(2))

        contract = Contract(
            id="Hard",
            description="Fails once.",
            inbound=Once,
            spawn=lambda: handle,
            restarts=RestartLimits(backoff=Backoff(initial=0.001, maximum=0.001)),
            retry={"Hard.Once": Retry(backoff=STEADY)},
        )
        async with stages(contract) as stage:
            stage.command("Hard.Once", {"fails": 0}, name="x")
            await stage.wait(200)
            assert stage.reply("x") == {"times": 2}

    def test_the_delays_are_those_of_supervisors(self) -> None:
        retry = Retry(backoff=Backoff(initial=0.01, maximum=0.035, factor=2.0))
        assert [retry.delay(number, 0.5) for number in range(4)] == [0.01, 0.02, 0.035, 0.035]
