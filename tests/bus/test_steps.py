"""Durable steps: what is on the disk when, what a step is after a crash, and who says what has become of one that is unknown.

A crash is a copy of the journal's files at that moment, as in `test_durable_lane`. `test_steps_killed` kills real processes.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from bandstand.bus import Capability, Command, Done, Event, Query, Retry
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.dead_letters import ListDeadLetters, Purge, Replay, Settle
from bandstand.bus.durable.records import ANSWER, CHECKPOINT, DATA, DataEntry, read_json
from bandstand.bus.durable.steps import (
    ReplayStarted,
    Scope,
    StepClaimed,
    StepDone,
    StepRecord,
    StepReleased,
    StepTable,
    WorkflowEnded,
)
from bandstand.bus.step_capability import (
    ForgetSteps,
    ListSteps,
    SettleStep,
    ShowStep,
)
from bandstand.errors import (
    ContractError,
    InvalidArgumentError,
    JournalClosedError,
    JournalCorruptError,
    JournalError,
    JournalFailedError,
    JournalFullError,
    LoopBusyError,
    RefusedError,
    RequestFailedError,
    StepResultError,
    StepUnknownError,
)
from bandstand.journal import JournalReader
from bandstand.journal.storage import Storage
from tests.bus.virtual_node import Stage, hushed, play

Act = Callable[[Stage], Coroutine[Any, Any, None]]


class Receipt(Struct):
    """What the bank says."""

    number: int


class Follow(Command[str], type="Shop.Follow", retry_safe=True):
    """Follow a plan."""

    plan: str


class FollowAgain(
    Command[str], type="Shop.FollowAgain", retry_safe=True, retry=Retry(attempts=3, on=("Sys.ActorCrash",))
):
    """The same, and try again after a failure."""

    plan: str


class FollowOnce(Command[str], type="Shop.FollowOnce"):
    """The same, but not retry_safe."""

    plan: str


class Look(Query[str], type="Shop.Look"):
    """Try a step in a query."""

    plan: str


class Happened(Event, type="Shop.Happened"):
    """Try a step for an event."""

    plan: str


class Charge(Command[int], type="Bank.Charge"):
    """Never answers, or fails."""

    way: str


Plan = Callable[["Shop"], Awaitable[str]]


class Shop(Capability):
    """Follows plans."""

    outbound = Charge
    plans: ClassVar[dict[str, Plan]] = {}
    calls: ClassVar[list[str]] = []
    """The functions that steps have called, in their order."""

    async def follow(self, msg: Follow) -> str:
        return await self.plans[msg.plan](self)

    async def follow_again(self, msg: FollowAgain) -> str:
        return await self.plans[msg.plan](self)

    async def follow_once(self, msg: FollowOnce) -> str:
        return await self.plans[msg.plan](self)

    async def look(self, msg: Look) -> str:
        return await self.plans[msg.plan](self)

    async def happened(self, msg: Happened) -> None:
        await self.plans[msg.plan](self)


class BusyShop(Shop):
    """Follows several plans at a time."""

    id = "Shop"
    concurrency = 8
    timeout = 10


class Bank(Capability):
    """Fails."""

    timeout = 1

    async def charge(self, msg: Charge) -> int:
        if msg.way == "crash":
            raise ValueError("on purpose")
        if msg.way == "refuse":
            raise RefusedError("no money")
        await asyncio.sleep(1000)
        return 0


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    Shop.calls.clear()
    Shop.plans.clear()
    return Shop.calls


def plan(function: Plan) -> Plan:
    """Let the shop know a plan, by the name of the function."""
    Shop.plans[function.__name__] = function
    return function


async def charge(number: int = 1) -> Receipt:
    """Charge a card."""
    Shop.calls.append(f"charge {number}")
    return Receipt(number)


def ship() -> str:
    """Ship a parcel."""
    Shop.calls.append("ship")
    return "shipped"


async def hang() -> int:
    """Do what does not end."""
    Shop.calls.append("hang")
    await asyncio.sleep(1000)
    return 1


async def charge_and_ship(shop: Shop) -> str:
    receipt = await shop.step("charge", charge)
    return f"{receipt.number} {await shop.step('ship', ship)}"


async def charge_and_hang(shop: Shop) -> str:
    receipt = await shop.step("charge", charge)
    return f"{receipt.number} {await shop.step('hang', hang)}"


class Disk:
    """The journal of a node, and copies of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = directory / "journal"
        self._copies = 0

    def crash(self) -> None:
        """Keep the files as they are now, for the next node."""
        self._copies += 1
        shutil.copytree(self.journal, self._directory / str(self._copies))

    def play(self, act: Act, *kinds: type[Capability], **fields: Any) -> None:
        """Run a node on the journal; then put back what the last crash has left, if there was one."""
        before = self._copies
        with hushed():
            play(act, *(kinds or (Shop,)), journal=self.journal, **fields)
        if self._copies > before:
            shutil.rmtree(self.journal)
            shutil.copytree(self._directory / str(self._copies), self.journal)

    def die_in(self, name: str, kind: str = "Shop.Follow", message: str = "order") -> None:
        """Begin a plan, and crash when nothing more can happen."""

        async def act(stage: Stage) -> None:
            stage.connect().command(kind, {"plan": name}, name=message)
            await stage.settle()
            self.crash()

        self.play(act)

    def steps(self) -> list[list[str]]:
        """Return what is written about steps, page by page."""
        with JournalReader(self.journal) as reader:
            return [
                found
                for page in reader.pages()
                if (
                    found := [
                        text for record in page.records if record.kind == DATA and (text := said(record.data))
                    ]
                )
            ]


def said(data: bytes) -> str:
    fields = msgspec.json.decode(read_json(DATA, data, DataEntry).data)
    return f"{fields['is']} {fields.get('name', '')}".strip()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def table_of(stage: Stage) -> StepTable:
    steps = stage.node._router.steps  # pyright: ignore[reportPrivateUsage]  # its size is not public
    assert steps is not None
    return steps.table


async def listed(stage: Stage, **fields: Any) -> list[tuple[str, str]]:
    page = await stage.bus.ask(ListSteps(**fields))
    return [(each.id, each.state) for each in page.steps]


async def letters(stage: Stage) -> dict[str, str]:
    page = await stage.bus.ask(ListDeadLetters())
    return {each.id: each.reason for each in page.letters}


@pytest.mark.guarantee("G537")
class TestAStepIsCarriedOutOnce:
    def test_its_claim_is_durable_before_it_is_called_and_its_result_before_it_returns(
        self, disk: Disk
    ) -> None:
        seen: list[list[list[str]]] = []

        async def look() -> int:
            seen.append(disk.steps())
            return 5

        @plan
        async def looks(shop: Shop) -> str:
            value = await shop.step("look", look)
            seen.append(disk.steps())
            return str(value)

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "looks"}) == "5"
            assert seen == [[["claimed look"]], [["claimed look"], ["done look"]]]
            assert disk.steps()[2:] == [["ended"]]

        disk.play(act)

    def test_after_a_crash_it_returns_its_result(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def charges_and_waits(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            await asyncio.sleep(0 if is_restarted else 1000)
            return f"{receipt.number} {await shop.step('ship', ship)}"

        is_restarted = False
        disk.die_in("charges_and_waits")
        is_restarted = True
        assert calls == ["charge 1"]

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charges_and_waits"}, name="order")
            await stage.settle()
            assert client.reply("order") == "1 shipped"
            assert calls == ["charge 1", "ship"]
            assert not table_of(stage).workflows

        disk.play(after)

    def test_a_step_that_is_retry_safe_is_not_claimed(self, disk: Disk) -> None:
        @plan
        async def twice(shop: Shop) -> str:
            await shop.step("charge", charge, retry_safe=True)
            return await shop.step("ship", ship, retry_safe=True)

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "twice"}) == "shipped"
            assert disk.steps() == [["done charge"], ["done ship"], ["ended"]]

        disk.play(act)

    def test_steps_side_by_side_share_pages(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def many(shop: Shop) -> str:
            async with asyncio.TaskGroup() as group:
                for number in range(10):
                    group.create_task(shop.step(f"charge {number}", partial(charge, number)))
            return "all"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "many"}) == "all"
            assert len(calls) == 10
            assert [len(page) for page in disk.steps()] == [10, 10, 1]

        disk.play(act)

    def test_it_survives_checkpoints(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bandstand.bus.durable.lane._CHECKPOINT_BYTES", 1)
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")
        with JournalReader(disk.journal) as reader:
            assert any(record.kind == CHECKPOINT for page in reader.pages() for record in page.records)

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert calls == ["charge 1", "hang"]
            assert await listed(stage, state="done") == [("order/charge", "done")]
            assert await listed(stage) == [("order/hang", "unknown")]

        disk.play(after)


@pytest.mark.guarantee("G538")
class TestAStepWithoutAResult:
    def test_is_not_repeated_and_its_command_is_in_doubt(self, disk: Disk, calls: list[str]) -> None:
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.settle()
            said = client.fault("order", "Sys.InDoubt").message
            assert "step 'hang' of Shop.Follow order may have been carried out or not" in said
            assert "Step.Settle id=order/hang" in said
            assert await letters(stage) == {"order": "inDoubt"}
            assert calls == ["charge 1", "hang"]

        disk.play(after)
        # Also not after another restart.
        disk.play(after)

    def test_is_repeated_if_it_is_retry_safe(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def safe(shop: Shop) -> str:
            return str(await shop.step("hang", hang if not calls else charge_number, retry_safe=True))

        async def charge_number() -> int:
            return (await charge(7)).number

        disk.die_in("safe")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "safe"}, name="order")
            await stage.settle()
            assert client.reply("order") == "7"
            assert calls == ["hang", "charge 7"]

        disk.play(after)

    @pytest.mark.parametrize(
        ("found", "answer", "called"),
        [(Done(9), "9", ["hang", "check"]), (None, "1", ["hang", "check", "now"])],
    )
    def test_is_settled_by_its_check(
        self, disk: Disk, calls: list[str], found: Done[int] | None, answer: str, called: list[str]
    ) -> None:
        async def check() -> Done[int] | None:
            calls.append("check")
            return found

        async def hang_once() -> int:
            if not calls:
                return await hang()
            calls.append("now")
            return 1

        @plan
        async def checked(shop: Shop) -> str:
            return str(await shop.step("hang", hang_once, check=check))

        disk.die_in("checked")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "checked"}, name="order")
            await stage.settle()
            assert client.reply("order") == answer
            assert calls == called

        disk.play(after)

    @pytest.mark.parametrize(
        ("way", "text"), [("raise", "its check has raised OSError"), ("other", "its check has returned 5")]
    )
    def test_stays_unknown_if_its_check_fails(
        self, disk: Disk, calls: list[str], way: str, text: str
    ) -> None:
        async def check() -> Any:
            if way == "raise":
                raise OSError("no bank")
            return 5

        @plan
        async def checked(shop: Shop) -> str:
            return str(await shop.step("hang", hang, check=check))

        disk.die_in("checked")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "checked"}, name="order")
            await stage.settle()
            assert text in client.fault("order", "Sys.InDoubt").message
            assert calls == ["hang"]
            assert await listed(stage) == [("order/hang", "unknown")]

        disk.play(after)

    def test_a_handler_can_catch_the_error(self, disk: Disk) -> None:
        @plan
        async def catches(shop: Shop) -> str:
            try:
                return str(await shop.step("hang", hang))
            except StepUnknownError as error:
                return error.step

        disk.die_in("catches")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "catches"}, name="order")
            await stage.settle()
            assert client.reply("order") == "order/hang"
            assert await listed(stage) == []

        disk.play(after)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def in_a_circle(error: Exception) -> Exception:
    return caused(error, caused(ValueError(), error))


@pytest.mark.guarantee("G539")
class TestWhatAnExceptionSays:
    @pytest.mark.parametrize(
        "error",
        [
            ValueError("no"),
            ConnectionRefusedError(),
            RefusedError("no"),
            caused(OSError("of a library"), ConnectionRefusedError()),
            ExceptionGroup("several", [ValueError()]),
        ],
    )
    def test_nothing_was_done(self, disk: Disk, calls: list[str], error: Exception) -> None:
        async def fail() -> int:
            calls.append("fail")
            raise error

        @plan
        async def tries(shop: Shop) -> str:
            with pytest.raises(type(error)):
                await shop.step("charge", fail)
            return str((await shop.step("charge", charge)).number)

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "tries"}) == "1"
            assert calls == ["fail", "charge 1"]
            assert disk.steps()[:2] == [
                ["claimed charge"],
                ["released charge", "claimed charge"],
            ] or disk.steps()[:3] == [["claimed charge"], ["released charge"], ["claimed charge"]]

        disk.play(act)

    def test_the_policy_of_the_command_tries_again(self, disk: Disk, calls: list[str]) -> None:
        def fail_twice() -> str:
            calls.append("try")
            if len(calls) < 4:
                raise ValueError("not yet")
            return "third"

        @plan
        async def tries(shop: Shop) -> str:
            await shop.step("charge", charge)
            return await shop.step("try", fail_twice)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.FollowAgain", {"plan": "tries"})
            await stage.wait(20_000)
            assert client.reply(name) == "third"
            assert calls == ["charge 1", "try", "try", "try"]
            assert not table_of(stage).workflows

        disk.play(act)

    @pytest.mark.parametrize(
        "error",
        [
            TimeoutError(),
            ConnectionResetError(),
            BrokenPipeError(),
            StepUnknownError("the bank is silent"),
            ExceptionGroup("several", [ValueError(), ExceptionGroup("more", [TimeoutError()])]),
            caused(OSError("of a library"), TimeoutError()),
            in_a_circle(OSError()),
        ],
    )
    def test_no_answer_came(self, disk: Disk, error: Exception) -> None:
        async def fail() -> int:
            raise error

        @plan
        async def tries(shop: Shop) -> str:
            with pytest.raises(StepUnknownError) as caught:
                await shop.step("charge", fail)
            assert caught.value.__cause__ is error
            return str(await shop.step("charge", charge))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.Follow", {"plan": "tries"})
            await stage.settle()
            client.fault(name, "Sys.InDoubt")
            assert await listed(stage) == [(f"{name}/charge", "unknown")]

        disk.play(act)

    @pytest.mark.parametrize(("way", "is_unknown"), [("hang", True), ("crash", True), ("refuse", False)])
    def test_the_answer_of_another_capability(self, disk: Disk, way: str, is_unknown: bool) -> None:
        @plan
        async def asks(shop: Shop) -> str:
            return str(await shop.step("ask", lambda: shop.bus.ask(Charge(way)), returns=int))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.Follow", {"plan": "asks"})
            await stage.wait(2000)
            client.fault(name, "Sys.InDoubt" if is_unknown else "Sys.Refused")
            assert bool(await listed(stage)) is is_unknown

        disk.play(act, Shop, Bank)

    def test_a_check_is_asked_at_once(self, disk: Disk, calls: list[str]) -> None:
        answers: list[Done[int] | None] = [None, Done(8)]

        async def fail() -> int:
            calls.append("fail")
            raise TimeoutError("too slow")

        async def check() -> Done[int] | None:
            return answers.pop(0)

        @plan
        async def tries(shop: Shop) -> str:
            with pytest.raises(TimeoutError, match="too slow"):
                await shop.step("charge", fail, check=check)
            return str(await shop.step("charge", fail, check=check))

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "tries"}) == "8"
            assert calls == ["fail", "fail"]

        disk.play(act)

    def test_a_cancelled_step_is_unknown(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def gives_up(shop: Shop) -> str:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await shop.step("hang", hang)
            return str(await shop.step("hang", hang))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.Follow", {"plan": "gives_up"})
            await stage.wait(2000)
            client.fault(name, "Sys.InDoubt")
            assert calls == ["hang"]

        disk.play(act)

    def test_one_that_is_cancelled_before_its_claim_is_durable_was_not_begun(
        self, disk: Disk, calls: list[str]
    ) -> None:
        @plan
        async def hurries(shop: Shop) -> str:
            first = asyncio.create_task(shop.step("charge", charge))
            # It has asked for its claim, and waits for the disk.
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert calls == []
            return str((await shop.step("charge", charge)).number)

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "hurries"}) == "1"
            assert calls == ["charge 1"]

        disk.play(act)

    def test_a_crash_of_the_capability_leaves_the_others_unknown(self, disk: Disk) -> None:
        plan(charge_and_hang)

        @plan
        async def crashes(_shop: Shop) -> str:
            raise ValueError("on purpose")

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.settle()
            client.command("Shop.Follow", {"plan": "crashes"})
            await stage.wait(2000)
            client.fault("order", "Sys.ActorCrash")
            assert await listed(stage) == [("order/hang", "unknown")]
            answer = await stage.bus.ask(Replay("order"))
            assert answer.outcome == "failed"
            assert answer.answer.type == "Sys.InDoubt"

        disk.play(act, BusyShop)


@pytest.mark.guarantee("G540")
class TestOneRunAtATime:
    def test_a_name_is_used_once(self, disk: Disk) -> None:
        @plan
        async def clashes(shop: Shop) -> str:
            await shop.step("charge", partial(charge, 1))
            with pytest.raises(
                InvalidArgumentError, match=r"has called a step with that name already.*f'charge \{number\}'"
            ):
                await shop.step("charge", partial(charge, 2))
            # With another key it is another step.
            return str((await shop.step("charge", partial(charge, 3), key="other")).number)

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "clashes"}) == "3"

        disk.play(act)

    def test_also_side_by_side(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def clashes(shop: Shop) -> str:
            results = await asyncio.gather(
                shop.step("charge", charge), shop.step("charge", charge), return_exceptions=True
            )
            assert isinstance(results[1], InvalidArgumentError)
            return "one"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "clashes"}) == "one"
            assert calls == ["charge 1"]

        disk.play(act)

    def test_commands_with_one_key_share_a_result(self, disk: Disk, calls: list[str]) -> None:
        async def slow() -> int:
            calls.append("slow")
            await asyncio.sleep(1)
            return len(calls)

        @plan
        async def shares(shop: Shop) -> str:
            return str(await shop.step("slow", slow, key="today"))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            names = [client.command("Shop.Follow", {"plan": "shares"}) for _ in range(5)]
            await stage.wait(500)
            assert await listed(stage) == [("today/slow", "running")]
            await stage.wait(2000)
            assert [client.reply(name) for name in names] == ["1"] * 5
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "shares"}) == "1"

        disk.play(act, BusyShop)

        async def after(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "shares"}) == "1"
            assert calls == ["slow"]

        disk.play(after)

    def test_the_next_one_runs_if_the_first_has_failed(self, disk: Disk, calls: list[str]) -> None:
        async def fail_first() -> int:
            calls.append("slow")
            await asyncio.sleep(1)
            if len(calls) == 1:
                raise RefusedError("not yet")
            return len(calls)

        @plan
        async def shares(shop: Shop) -> str:
            return str(await shop.step("slow", fail_first, key="today"))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            names = [client.command("Shop.Follow", {"plan": "shares"}) for _ in range(3)]
            await stage.wait(5000)
            client.fault(names[0], "Sys.Refused")
            assert [client.reply(name) for name in names[1:]] == ["2", "2"]
            assert calls == ["slow", "slow"]

        disk.play(act, BusyShop)

    def test_a_key_and_the_id_of_a_command_are_never_the_same(self, disk: Disk) -> None:
        @plan
        async def keyed(shop: Shop) -> str:
            return str((await shop.step("charge", partial(charge, 1), key="order-7")).number)

        @plan
        async def own(shop: Shop) -> str:
            return str((await shop.step("charge", partial(charge, 2))).number)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "keyed"})
            client.command("Shop.Follow", {"plan": "own"}, name="order-7")
            await stage.settle()
            assert client.reply("order-7") == "2"

        disk.play(act)


@pytest.mark.guarantee("G541")
class TestAPersonSettlesAStep:
    @pytest.mark.parametrize(
        ("settle", "answer", "called"),
        [
            (SettleStep("order/hang", "done", Raw(b"5")), '"1 5"', ["charge 1", "hang"]),
            (SettleStep("order/hang", "again"), '"1 2"', ["charge 1", "hang", "now"]),
        ],
    )
    def test_and_a_replay_continues(
        self, disk: Disk, calls: list[str], settle: SettleStep, answer: str, called: list[str]
    ) -> None:
        async def hang_once() -> int:
            if "hang" not in calls:
                return await hang()
            calls.append("now")
            return 2

        @plan
        async def follows(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            return f"{receipt.number} {await shop.step('hang', hang_once)}"

        disk.die_in("follows")

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert await listed(stage) == [("order/hang", "unknown")]
            assert (await stage.bus.ask(settle)).id == "order/hang"
            replayed = await stage.bus.ask(Replay("order"))
            assert replayed.outcome == "replied"
            assert bytes(replayed.answer.data).decode() == answer
            assert calls == called
            assert await letters(stage) == {}
            # A repeat of the command gets the reply of the replay.
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "follows"}, name="order")
            await stage.settle()
            assert client.reply("order") == msgspec.json.decode(answer)
            assert calls == called
            assert not table_of(stage).workflows

        disk.play(after)

    def test_and_a_repeat_continues(self, disk: Disk, calls: list[str]) -> None:
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")

        async def after(stage: Stage) -> None:
            await stage.settle()
            await stage.bus.ask(SettleStep("order/hang", "done", Raw(b"5")))
            await stage.bus.ask(Settle("order", "again"))
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.settle()
            assert client.reply("order") == "1 5"
            assert calls == ["charge 1", "hang"]

        disk.play(after)

    def test_a_replay_that_the_node_dies_in_continues_too(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def follows(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            await shop.step("hang", hang)
            await asyncio.sleep(0 if is_restarted else 1000)
            return f"{receipt.number} {await shop.step('ship', ship)}"

        is_restarted = False
        disk.die_in("follows")

        async def replay(stage: Stage) -> None:
            await stage.settle()
            await stage.bus.ask(SettleStep("order/hang", "done", Raw(b"5")))
            asking = asyncio.ensure_future(stage.bus.ask(Replay("order")))
            await stage.settle()
            disk.crash()
            asking.cancel()
            await asyncio.wait([asking])

        disk.play(replay)
        is_restarted = True

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert calls == ["charge 1", "hang", "ship"]
            # The letter is still there, and so are the steps: replayed again, nothing is repeated.
            assert (await stage.bus.ask(Replay("order"))).outcome == "replied"
            assert calls == ["charge 1", "hang", "ship"]
            await stage.settle()
            assert not table_of(stage).workflows

        disk.play(after)

    def test_two_replays_at_a_time_repeat_nothing(self, disk: Disk, calls: list[str]) -> None:
        waits = [1000, 1000, 5, 0]

        @plan
        async def follows(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            await asyncio.sleep(waits.pop(0))
            return f"{receipt.number} {await shop.step('ship', ship)}"

        async def begin(stage: Stage) -> None:
            stage.connect().command("Shop.Follow", {"plan": "follows"}, name="order", timeout=1000)
            await stage.wait(2000)
            asking = asyncio.ensure_future(stage.bus.ask(Replay("order"), timeout=1000))
            await stage.settle()
            disk.crash()
            asking.cancel()
            await asyncio.wait([asking])

        disk.play(begin, BusyShop)

        async def after(stage: Stage) -> None:
            # The first replay goes on after the crash, and takes longer than the second.
            await stage.settle()
            assert (await stage.bus.ask(Replay("order"))).outcome == "replied"
            await stage.wait(6000)
            assert calls == ["charge 1", "ship"]
            assert waits == []

        disk.play(after, BusyShop)

    def test_a_settled_step_survives_a_crash(self, disk: Disk) -> None:
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")

        async def settle(stage: Stage) -> None:
            await stage.settle()
            await stage.bus.ask(SettleStep("order/hang", "done", Raw(b"5")))
            disk.crash()

        disk.play(settle)

        async def after(stage: Stage) -> None:
            await stage.settle()
            details = await stage.bus.ask(ShowStep("order/hang"))
            assert (details.step.state, bytes(details.result)) == ("done", b"5")

        disk.play(after)

    def test_the_result_is_checked(self, disk: Disk) -> None:
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")

        async def after(stage: Stage) -> None:
            await stage.settle()
            with pytest.raises(RequestFailedError, match=r"Expected `int`, got `str`, at \$\.data\.data$"):
                await stage.bus.ask(SettleStep("order/hang", "done", Raw(b'"five"')))
            assert await listed(stage) == [("order/hang", "unknown")]

        disk.play(after)

    def test_what_cannot_be_settled(self, disk: Disk) -> None:
        plan(charge_and_hang)

        async def act(stage: Stage) -> None:
            stage.connect().command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.settle()
            for name, text in (
                ("order/hang", "step order/hang is running"),
                ("order/charge", "step order/charge is done"),
                ("order/ship", "there is no step order/ship"),
                ("nothing", "there is no step nothing"),
            ):
                with pytest.raises(RequestFailedError, match=text):
                    await stage.bus.ask(SettleStep(name, "again"))

        disk.play(act)

    def test_a_key_and_a_command_with_the_same_id_are_told_apart(self, disk: Disk) -> None:
        @plan
        async def both(shop: Shop) -> str:
            await shop.step("charge", partial(charge, 1))
            await shop.step("charge", partial(charge, 2), key="order")
            return str(await shop.step("hang", hang))

        disk.die_in("both")

        async def after(stage: Stage) -> None:
            await stage.settle()
            with pytest.raises(RequestFailedError, match="add scope=command or scope=key"):
                await stage.bus.ask(ShowStep("order/charge"))
            found = [
                bytes((await stage.bus.ask(ShowStep("order/charge", scope))).result)
                for scope in ("command", "key")
            ]
            assert found == [b'{"number":1}', b'{"number":2}']

        disk.play(after)

    def test_steps_are_listed_in_pages(self, disk: Disk) -> None:
        @plan
        async def many(shop: Shop) -> str:
            for number in range(25):
                await shop.step(f"charge {number}", partial(charge, number))
            return str(await shop.step("hang", hang))

        async def act(stage: Stage) -> None:
            stage.connect().command("Shop.Follow", {"plan": "many"}, name="order")
            await stage.settle()
            found: list[str] = []
            while page := await listed(stage, state="done", limit=10, before=found[-1] if found else None):
                found += [name for name, _ in page]
            assert found == [f"order/charge {number}" for number in range(25)]
            assert await listed(stage, key="other", state="done") == []
            assert (await stage.bus.ask(ListSteps())).held == 26

        disk.play(act)

    def test_steps_with_a_key_are_forgotten_on_demand(self, disk: Disk, calls: list[str]) -> None:
        @plan
        async def keyed(shop: Shop) -> str:
            return str((await shop.step("charge", charge, key="today")).number)

        async def act(stage: Stage) -> None:
            for _ in range(2):
                await stage.reply_to("command", "Shop.Follow", {"plan": "keyed"})
            assert calls == ["charge 1"]
            assert (await stage.bus.ask(ForgetSteps("today"))).forgotten == 1
            await stage.reply_to("command", "Shop.Follow", {"plan": "keyed"})
            assert calls == ["charge 1", "charge 1"]
            with pytest.raises(RequestFailedError, match="no steps with the key tomorrow are recorded"):
                await stage.bus.ask(ForgetSteps("tomorrow"))

        disk.play(act)

    def test_those_that_are_needed_are_not_forgotten(self, disk: Disk) -> None:
        @plan
        async def keyed(shop: Shop) -> str:
            return str(await shop.step("hang", hang, key="today"))

        async def act(stage: Stage) -> None:
            stage.connect().command("Shop.Follow", {"plan": "keyed"}, name="order")
            await stage.settle()
            with pytest.raises(RequestFailedError, match="one of them is running"):
                await stage.bus.ask(ForgetSteps("today"))

        disk.play(act)
        plan(charge_and_hang)
        disk.die_in("charge_and_hang", message="other")

        async def after(stage: Stage) -> None:
            await stage.settle()
            with pytest.raises(RequestFailedError, match="the command is open, or has a dead letter"):
                await stage.bus.ask(ForgetSteps("other", "command"))

        disk.play(after)


class Parcel(Struct):
    """A type that is changed by an upgrade."""

    weight: int


class HeavyParcel(Struct):
    """The same type after the upgrade."""

    weight: str


class Unwritable:
    """Is no JSON."""


@pytest.mark.guarantee("G542")
class TestResults:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (None, None),
            (str, "\x00é\U0001f600"),
            (int, -(2**62)),
            (float, 0.1),
            (bytes, b"\xff\x00"),
            (list[Receipt], [Receipt(1), Receipt(2)]),
            (dict[str, int | None], {"a": None}),
            (tuple[int, str], (1, "a")),
        ],
    )
    def test_the_same_type_before_and_after_a_restart(
        self, disk: Disk, annotation: Any, value: object
    ) -> None:
        @plan
        async def makes(shop: Shop) -> str:
            first = await shop.step("make", lambda: value, returns=annotation, key="kept")
            assert (type(first), first) == (type(value), value)
            return "same"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "makes"}) == "same"

        disk.play(act)
        disk.play(act)

    def test_what_is_returned_is_a_copy(self, disk: Disk) -> None:
        made = Receipt(1)

        @plan
        async def makes(shop: Shop) -> str:
            receipt = await shop.step("make", lambda: made, returns=Receipt)
            assert receipt == made
            assert receipt is not made
            return "copy"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "makes"}) == "copy"

        disk.play(act)

    def test_the_type_comes_from_the_annotation(self, disk: Disk) -> None:
        class Maker:
            def __call__(self) -> Receipt:
                return Receipt(2)

            async def make(self, number: int) -> Receipt:
                return Receipt(number)

        def start() -> Awaitable[Receipt]:
            return asyncio.ensure_future(charge(4))

        @plan
        async def makes(shop: Shop) -> str:
            found = [
                await shop.step("function", charge),
                await shop.step("object", Maker()),
                await shop.step("partial", partial(Maker().make, 3)),
                await shop.step("awaitable", start),
            ]
            return str([each.number for each in found])

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "makes"}) == "[1, 2, 3, 4]"

        disk.play(act)

    @pytest.mark.parametrize(
        ("value", "annotation", "text"),
        [
            (
                Unwritable(),
                int,
                r"its result cannot be recorded: the result of the step does not allow .*Unwritable",
            ),
            ("five", int, r"Expected `int`, got `str`"),
            (float("nan"), float | None, r"not a finite number"),
            (Receipt("x"), Receipt, r"Expected `int`, got `str`, at \$\.data\.number"),  # type: ignore[arg-type]
            ("\ud800", str, r"its result cannot be recorded"),
        ],
    )
    def test_one_that_cannot_be_written_leaves_the_step_unknown(
        self, disk: Disk, value: object, annotation: Any, text: str
    ) -> None:
        @plan
        async def makes(shop: Shop) -> str:
            with pytest.raises(
                StepResultError, match=rf"step 'make' of Shop.Follow order was carried out.*{text}"
            ):
                await shop.step("make", lambda: value, returns=annotation)
            await shop.step("make", lambda: 1, returns=int)
            return ""

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "makes"}, name="order")
            await stage.settle()
            client.fault("order", "Sys.InDoubt")
            assert await listed(stage) == [("order/make", "unknown")]
            assert stage.node.loop.statistics() is not None

        disk.play(act)

    def test_one_that_does_not_fit_the_type_any_more_is_named(self, disk: Disk, calls: list[str]) -> None:
        kind: Any = Parcel

        @plan
        async def packs(shop: Shop) -> str:
            parcel = await shop.step("pack", lambda: kind(1), returns=kind)
            await asyncio.sleep(1000 if kind is Parcel else 0)
            return f"{parcel.weight} {await shop.step('ship', ship)}"

        disk.die_in("packs")
        kind = HeavyParcel

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "packs"}, name="order")
            await stage.settle()
            said = client.fault("order", "Sys.ActorFault").message
            assert "step 'pack' of Shop.Follow order is done, and its recorded result cannot be read" in said
            assert "Expected `str`, got `int`, at $.weight" in said
            assert await letters(stage) == {"order": "fault"}
            # The capability was not restarted, and a person can correct the result.
            assert (await stage.health("Shop")).crashes == 0
            await stage.bus.ask(SettleStep("order/pack", "done", Raw(b'{"weight": "1 kg"}')))
            replayed = await stage.bus.ask(Replay("order"))
            assert msgspec.json.decode(replayed.answer.data) == "1 kg shipped"
            assert calls == ["ship"]

        disk.play(after)


@pytest.mark.guarantee("G543")
class TestTheEndOfSteps:
    def test_they_end_in_the_page_of_the_answer(self, disk: Disk) -> None:
        plan(charge_and_ship)

        async def act(stage: Stage) -> None:
            await stage.reply_to("command", "Shop.Follow", {"plan": "charge_and_ship"})
            with JournalReader(disk.journal) as reader:
                *_, last = reader.pages()
            assert [record.kind for record in last.records] == [ANSWER, DATA]
            assert said(last.records[1].data) == "ended"

        disk.play(act)

    def test_after_a_refusal_too(self, disk: Disk) -> None:
        @plan
        async def refuses(shop: Shop) -> str:
            await shop.step("charge", charge)
            raise RefusedError("sold out")

        async def act(stage: Stage) -> None:
            await stage.fault_of("Sys.Refused", "command", "Shop.Follow", {"plan": "refuses"})
            assert not table_of(stage).workflows
            assert not table_of(stage).ended

        disk.play(act)

    @pytest.mark.slow
    def test_nothing_is_left_of_many_workflows(self, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bandstand.bus.durable.lane._CHECKPOINT_BYTES", 100_000)
        plan(charge_and_ship)
        sizes: list[int] = []

        async def act(stage: Stage) -> None:
            client = stage.connect()
            for _ in range(20):
                for _ in range(50):
                    client.command("Shop.Follow", {"plan": "charge_and_ship"})
                await stage.settle()
                table = table_of(stage)
                sizes.append(len(list(table.entries())))
                runner = stage.node._router.steps  # pyright: ignore[reportPrivateUsage]  # likewise
                assert runner is not None
                assert not runner._running  # pyright: ignore[reportPrivateUsage]
                assert not runner._runs  # pyright: ignore[reportPrivateUsage]
            assert len(client.frames) == 1000

        disk.play(act, BusyShop)
        assert set(sizes) == {0}
        with JournalReader(disk.journal) as reader:
            found = [
                sum(record.kind == DATA for record in page.records)
                for page in reader.pages()
                if page.records[0].kind == CHECKPOINT
            ]
        # What is in a checkpoint are the steps of the commands that are open at that moment.
        assert len(found) > 5
        assert max(found) <= 6 * BusyShop.concurrency

    @pytest.mark.slow
    def test_steps_with_a_key_are_forgotten_after_a_time(
        self, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        days = 0

        @plan
        async def keyed(shop: Shop) -> str:
            return str((await shop.step("charge", partial(charge, days), key=f"day {days}")).number)

        async def act(stage: Stage) -> None:
            nonlocal days
            runner = stage.node._router.steps  # pyright: ignore[reportPrivateUsage]  # its clock is that of the system

            def now(_runner: object) -> int:
                return 1_000_000 + days * 86_400_000

            monkeypatch.setattr(type(runner), "_now", now)
            for days in range(100):  # noqa: B007  # the plan and the clock read it
                await stage.reply_to("command", "Shop.Follow", {"plan": "keyed"})
                assert len(table_of(stage).workflows) <= 9
            assert len(table_of(stage).workflows) >= 7

        disk.play(act)

    def test_those_of_a_dead_letter_are_kept(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_broken = True

        @plan
        async def breaks(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            if is_broken:
                raise ValueError("broken")
            return str(receipt.number)

        plan(charge_and_ship)
        day = 0

        async def act(stage: Stage) -> None:
            nonlocal day, is_broken
            runner = stage.node._router.steps  # pyright: ignore[reportPrivateUsage]  # its clock is that of the system

            def now(_runner: object) -> int:
                return 1_000_000 + day * 86_400_000

            monkeypatch.setattr(type(runner), "_now", now)
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "breaks"}, name="order")
            await stage.wait(2000)
            client.fault("order", "Sys.ActorCrash")
            for day in (10, 20, 30):  # noqa: B007  # the clock reads it
                await stage.reply_to("command", "Shop.Follow", {"plan": "charge_and_ship"})
            is_broken = False
            assert (await stage.bus.ask(Replay("order"))).outcome == "replied"
            assert calls.count("charge 1") == 4
            await stage.settle()
            assert not table_of(stage).workflows

        disk.play(act)

    def test_unknown_steps_are_kept_until_a_person_forgets_them(
        self, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @plan
        async def keyed(shop: Shop) -> str:
            await shop.step("charge", charge)
            return str(await shop.step("hang", hang, key="today"))

        plan(charge_and_ship)
        disk.die_in("keyed")
        day = 0

        async def after(stage: Stage) -> None:
            nonlocal day
            runner = stage.node._router.steps  # pyright: ignore[reportPrivateUsage]  # its clock is that of the system
            start = time.time_ns() // 1_000_000

            def now(_runner: object) -> int:
                return start + day * 86_400_000

            monkeypatch.setattr(type(runner), "_now", now)
            await stage.settle()
            await stage.bus.ask(Purge())
            await stage.bus.ask(Settle("order", "again"))
            for day in (10, 20, 30):  # noqa: B007  # the clock reads it
                await stage.reply_to("command", "Shop.Follow", {"plan": "charge_and_ship"})
            # Those of the command, which cannot be replayed any more, are gone.
            assert await listed(stage, state="done") == []
            assert await listed(stage) == [("today/hang", "unknown")]
            assert (await stage.bus.ask(ForgetSteps("today"))).forgotten == 1
            assert await listed(stage) == []

        disk.play(after)

    def test_the_dead_letter_of_an_answer_that_was_not_delivered_repeats_nothing(
        self, disk: Disk, calls: list[str]
    ) -> None:
        @plan
        async def takes_long(shop: Shop) -> str:
            receipt = await shop.step("charge", charge)
            await asyncio.sleep(1)
            return str(receipt.number)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "takes_long"}, name="order")
            await stage.settle()
            client.close()
            await stage.wait(2000)
            assert await letters(stage) == {"order": "abandoned"}
            disk.crash()

        disk.play(act)

        async def after(stage: Stage) -> None:
            assert (await stage.bus.ask(Replay("order"))).outcome == "replied"
            assert calls == ["charge 1"]
            await stage.settle()
            assert not table_of(stage).workflows
            assert not table_of(stage).ended

        disk.play(after)

    def test_an_answer_that_a_person_gives_ends_them(self, disk: Disk) -> None:
        plan(charge_and_hang)
        disk.die_in("charge_and_hang")

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.settle()
            await stage.bus.ask(Settle("order", "done", Raw(b'"by hand"')))
            with JournalReader(disk.journal) as reader:
                *_, last = reader.pages()
            # The answer to the settlement, the answer that it gives, and the end of the steps; a kill leaves all of it or nothing.
            assert [record.kind for record in last.records][:3] == [ANSWER, ANSWER, DATA]
            assert said(last.records[2].data) == "ended"
            await stage.settle()
            assert not table_of(stage).workflows

        disk.play(after)

    def test_another_command_with_the_same_id_does_not_get_them(self, disk: Disk) -> None:
        @plan
        async def breaks(shop: Shop) -> str:
            await shop.step("charge", charge)
            raise ValueError("broken")

        plan(charge_and_ship)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "breaks"}, name="order")
            await stage.wait(2000)
            other = stage.connect()
            other.command("Shop.Follow", {"plan": "charge_and_ship"}, name="order")
            await stage.settle()
            assert (
                "with other content, whose steps are recorded" in other.fault("order", "Sys.Conflict").message
            )

        disk.play(act, remember_count=0)


@pytest.mark.guarantee("G544")
class TestWhereThereAreNoSteps:
    def test_without_a_journal(self) -> None:
        @plan
        async def fails(shop: Shop) -> str:
            with pytest.raises(
                JournalClosedError, match=r"step 'charge': the node has no journal.*pass journal="
            ):
                await shop.step("charge", charge)
            return "no journal"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "fails"}) == "no journal"
            with pytest.raises(RequestFailedError, match=r"Sys\.RoutingError"):
                await stage.bus.ask(ListSteps())

        play(act, Shop)

    def test_outside_of_a_capability(self) -> None:
        async def fails() -> None:
            with pytest.raises(LoopBusyError, match="this Shop does not run as a capability"):
                await Shop().step("charge", charge)

        asyncio.run(fails())

    def test_outside_of_the_handler_of_a_command(self, disk: Disk) -> None:
        found: list[str] = []

        @plan
        async def tries(shop: Shop) -> str:
            with pytest.raises(LoopBusyError, match="outside of the handler of a command"):
                await shop.step("charge", charge)
            found.append("error")
            return "error"

        @plan
        async def later(shop: Shop) -> str:
            shop.after(1, tries, shop)
            return "later"

        async def act(stage: Stage) -> None:
            client = stage.connect()
            assert await client.reply_to("query", "Shop.Look", {"plan": "tries"}) == "error"
            client.event("Shop.Happened", {"plan": "tries"})
            await client.reply_to("command", "Shop.Follow", {"plan": "later"})
            await stage.wait(2000)
            assert found == ["error"] * 3

        disk.play(act)

    def test_in_a_command_that_is_not_retry_safe(self, disk: Disk) -> None:
        @plan
        async def fails(shop: Shop) -> str:
            with pytest.raises(ContractError, match=r"Shop\.FollowOnce is not declared retry_safe"):
                await shop.step("charge", charge)
            return "error"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.FollowOnce", {"plan": "fails"}) == "error"

        disk.play(act)

    def test_after_the_command_was_answered(self, disk: Disk, calls: list[str]) -> None:
        found: list[str] = []

        @plan
        async def leaves_a_task(shop: Shop) -> str:
            async def late() -> None:
                await asyncio.sleep(1)
                with pytest.raises(RefusedError, match="has been answered"):
                    await shop.step("charge", charge)
                found.append("error")

            found.append(repr(asyncio.ensure_future(late())))
            return "left"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "leaves_a_task"}) == "left"
            await stage.wait(2000)
            assert found[1:] == ["error"]
            assert calls == []

        disk.play(act)

    @pytest.mark.parametrize(
        ("arguments", "options", "text"),
        [
            (("", charge), {}, "its name is ''"),
            (("a/b", charge), {}, "its name is 'a/b': pass up to 100 characters without a slash"),
            (("x" * 101, charge), {}, "its name is"),
            (("\ud800", charge), {}, "its name is"),
            ((5, charge), {}, "its name is 5"),
            (("a", charge()), {}, "the function is <coroutine"),
            (("a", charge), {"key": ""}, "key is ''"),
            (("a", charge), {"key": 5}, "key is 5"),
            (("a", charge), {"key": "x" * 201}, "key is"),
            (("a", charge), {"check": 5}, "check is 5"),
            (("a", charge), {"retry_safe": 1}, "retry_safe is 1: pass True or False"),
            (("a", lambda: 5), {}, "its function has no return annotation, as every lambda"),
            (("a", lambda: 5), {"returns": Unwritable}, "Unwritable"),
        ],
    )
    def test_wrong_arguments(self, disk: Disk, arguments: Any, options: Any, text: str) -> None:
        @plan
        async def fails(shop: Shop) -> str:
            step: Any = shop.step
            with pytest.raises(InvalidArgumentError, match="step ") as caught:
                await step(*arguments, **options)
            return str(caught.value)

        async def act(stage: Stage) -> None:
            assert text in await stage.reply_to("command", "Shop.Follow", {"plan": "fails"})
            assert disk.steps() == []

        disk.play(act)
        if asyncio.iscoroutine(arguments[1]):
            arguments[1].close()

    def test_an_annotation_that_cannot_be_resolved(self, disk: Disk) -> None:
        def make() -> Missing:  # type: ignore[name-defined]  # noqa: F821  # on purpose
            return 5

        @plan
        async def fails(shop: Shop) -> str:
            with pytest.raises(
                InvalidArgumentError, match="cannot be resolved: name 'Missing' is not defined"
            ):
                await shop.step("make", make)  # pyright: ignore[reportUnknownArgumentType]  # on purpose
            return "error"

        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Shop.Follow", {"plan": "fails"}) == "error"

        disk.play(act)

    def test_a_handler_cannot_have_its_name(self) -> None:
        class Stairs(Capability):
            """Has steps."""

            def step(self, msg: Follow) -> str:  # type: ignore[override]
                return ""

        with pytest.raises(ContractError, match=r"step\(\) is a method that every capability has"):
            read_capability(Stairs)


@pytest.mark.guarantee("G545")
class TestLongWorkflows:
    def test_one_that_makes_progress_is_tried_as_often_as_the_node_dies(
        self, disk: Disk, calls: list[str]
    ) -> None:
        attempts = 0

        @plan
        async def long(shop: Shop) -> str:
            nonlocal attempts
            attempts += 1
            own = attempts
            for number in range(own):
                await shop.step(f"charge {number}", partial(charge, number))
            await asyncio.sleep(0 if own == 8 else 1000)
            return "done"

        async def die(stage: Stage) -> None:
            if not attempts:
                stage.connect().command("Shop.Follow", {"plan": "long"}, name="order", timeout=86_400_000)
            await stage.settle()
            disk.crash()

        for _ in range(7):
            disk.play(die)

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "long"}, name="order", timeout=86_400_000)
            await stage.settle()
            assert client.reply("order") == "done"
            assert calls == [f"charge {number}" for number in range(8)]

        disk.play(after)

    @pytest.mark.parametrize("with_checkpoints", [False, True])
    def test_one_that_makes_none_is_a_dead_letter(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch, with_checkpoints: bool
    ) -> None:
        if with_checkpoints:
            monkeypatch.setattr("bandstand.bus.durable.lane._CHECKPOINT_BYTES", 1)

        @plan
        async def stuck(shop: Shop) -> str:
            await shop.step("charge", charge)
            calls.append("poison")
            await asyncio.sleep(1000)
            return ""

        async def die(stage: Stage) -> None:
            if not calls:
                stage.connect().command("Shop.Follow", {"plan": "stuck"}, name="order")
            await stage.settle()
            disk.crash()

        for _ in range(3):
            disk.play(die)

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert calls == ["charge 1", *["poison"] * 3]
            assert await letters(stage) == {"order": "crashed"}

        disk.play(after)

    def test_one_that_has_timed_out_stops_at_its_next_step_and_continues_when_it_is_replayed(
        self, disk: Disk, calls: list[str]
    ) -> None:
        async def slow() -> int:
            calls.append("slow")
            await asyncio.sleep(5)
            return 5

        @plan
        async def slowly(shop: Shop) -> str:
            number = await shop.step("slow", slow)
            return f"{number} {await shop.step('ship', ship)}"

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "slowly"}, name="order", timeout=1000)
            await stage.wait(2000)
            client.fault("order", "Sys.Timeout")
            # The result is recorded although the command was answered; the next step is not begun.
            await stage.wait(10_000)
            assert await listed(stage, state="done") == [("order/slow", "done")]
            assert calls == ["slow"]
            assert (await stage.health("Shop")).crashes == 0
            assert (await stage.bus.ask(Replay("order"))).outcome == "replied"
            assert calls == ["slow", "ship"]

        disk.play(act)

    def test_a_repeat_waits_for_the_handler_that_still_runs(self, disk: Disk, calls: list[str]) -> None:
        async def slow() -> int:
            calls.append("slow")
            await asyncio.sleep(5)
            return 5

        @plan
        async def slowly(shop: Shop) -> str:
            return str(await shop.step("slow", slow))

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "slowly"}, name="order", timeout=1000)
            await stage.wait(2000)
            again = stage.connect()
            again.command("Shop.Follow", {"plan": "slowly"}, name="order")
            await stage.wait(5000)
            assert again.reply("order") == "5"
            assert calls == ["slow"]

        disk.play(act, BusyShop)

    def test_a_handler_that_is_cancelled_at_its_deadline_leaves_its_step_unknown(self, disk: Disk) -> None:
        class HastyShop(Shop):
            """Cancels its handlers."""

            id = "Shop"
            on_timeout = "cancel"
            timeout = 1

        plan(charge_and_hang)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Shop.Follow", {"plan": "charge_and_hang"}, name="order")
            await stage.wait(2000)
            client.fault("order", "Sys.Timeout")
            assert await listed(stage) == [("order/hang", "unknown")]

        disk.play(act, HastyShop)


@contextmanager
def broken_disk(monkeypatch: pytest.MonkeyPatch, error: JournalError) -> Generator[None]:
    """Every commit fails. `test_durable_lane` has a disk that is really full."""

    def fail(*_args: object) -> int:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "commit", fail)
        yield


class TestBrokenDisks:
    @pytest.mark.guarantee("G537")
    def test_on_a_full_disk_nothing_is_called_and_nothing_returns(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_open = [asyncio.Event(), asyncio.Event()]

        async def slow() -> str:
            calls.append("slow")
            await is_open[1].wait()
            return "slow"

        @plan
        async def follows(shop: Shop) -> str:
            await is_open[0].wait()
            return await shop.step("slow", slow)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.Follow", {"plan": "follows"})
            await stage.settle()
            with broken_disk(monkeypatch, JournalFullError("the disk is full")):
                is_open[0].set()
                await stage.wait(2000)
                assert calls == []
            await stage.wait(1000)
            assert calls == ["slow"]
            with broken_disk(monkeypatch, JournalFullError("the disk is full")):
                is_open[1].set()
                await stage.wait(2000)
                assert not client.is_answered(name)
                assert await listed(stage) == [(f"{name}/slow", "running")]
            await stage.wait(1000)
            assert client.reply(name) == "slow"
            assert calls == ["slow"]

        with hushed("bus", "journal"):
            disk.play(act)

    @pytest.mark.guarantee("G545")
    def test_a_step_whose_command_times_out_before_its_claim_is_durable_is_not_begun(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_open = asyncio.Event()

        @plan
        async def follows(shop: Shop) -> str:
            await is_open.wait()
            return str((await shop.step("charge", charge)).number)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            name = client.command("Shop.Follow", {"plan": "follows"}, timeout=1000)
            await stage.settle()
            with broken_disk(monkeypatch, JournalFullError("the disk is full")):
                is_open.set()
                await stage.wait(2000)
            await stage.wait(1000)
            client.fault(name, "Sys.Timeout")
            assert calls == []
            assert await listed(stage) == []
            assert (await stage.bus.ask(Replay(name))).outcome == "replied"
            assert calls == ["charge 1"]

        with hushed("bus", "journal"):
            disk.play(act)

    @pytest.mark.guarantee("G537")
    def test_on_a_failed_disk_nothing_is_called(
        self, disk: Disk, calls: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_open = asyncio.Event()

        @plan
        async def follows(shop: Shop) -> str:
            await is_open.wait()
            return str(await shop.step("charge", charge))

        async def act(stage: Stage) -> None:
            stage.connect().command("Shop.Follow", {"plan": "follows"})
            await stage.settle()
            with broken_disk(monkeypatch, JournalFailedError("cannot write: Input/output error")):
                is_open.set()
                await stage.wait(1000)

        with hushed("bus", "journal", "core"), pytest.raises(JournalFailedError, match="cannot write"):
            disk.play(act)
        assert calls == []


# -- any workflow, and crashes anywhere --------------------------------------------------------------------------------


class StepPlan(Struct):
    """A step of a random workflow."""

    is_retry_safe: bool
    has_check: bool
    fails: int
    """How often its function says that nothing was done."""


step_plans = st.builds(StepPlan, st.booleans(), st.booleans(), st.integers(0, 1))


@pytest.mark.slow
@pytest.mark.guarantee("G546")
@given(
    plans=st.lists(step_plans, min_size=1, max_size=5),
    crashes=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=5),
    side_by_side=st.booleans(),
)
def test_every_step_is_carried_out_once_whatever_crashes(
    tmp_path_factory: pytest.TempPathFactory,
    plans: list[StepPlan],
    crashes: list[tuple[int, bool]],
    side_by_side: bool,
) -> None:
    """The node dies at some call of a function, before its effect or after it. A person settles what is unknown, as it is."""
    disk = Disk(tmp_path_factory.mktemp("steps"))
    begun: list[int] = []
    """The steps whose functions were called, in all processes."""
    effects: list[int] = []
    """The steps that were carried out, in the world outside."""
    failures = [plan.fails for plan in plans]
    crash: tuple[int, bool] | None = None
    is_over = bool(begun)

    async def act_outside(number: int) -> int:
        nonlocal crash
        if is_over:
            # The process is dead.
            await asyncio.sleep(100_000)
        begun.append(number)
        if failures[number]:
            failures[number] -= 1
            raise RefusedError("not now")
        if crash is not None:
            left, is_after = crash
            crash = (left - 1, is_after)
            if left == 0:
                if is_after:
                    effects.append(number)
                await die()
        effects.append(number)
        return number * 10

    def has_died() -> bool:
        return is_over

    async def die() -> None:
        nonlocal is_over
        is_over = True
        disk.crash()
        await asyncio.sleep(100_000)

    async def check(number: int) -> Done[int] | None:
        return Done(number * 10) if number in effects else None

    async def one(shop: Shop, number: int) -> int:
        each = plans[number]
        asked = partial(check, number) if each.has_check else None
        for _ in range(2):
            try:
                return await shop.step(
                    str(number), partial(act_outside, number), retry_safe=each.is_retry_safe, check=asked
                )
            except StepUnknownError:
                raise
            except RefusedError:
                continue
        raise AssertionError

    async def workflow(shop: Shop) -> str:
        if side_by_side:
            found = await asyncio.gather(*(one(shop, number) for number in range(len(plans))))
        else:
            found = [await one(shop, number) for number in range(len(plans))]
        return str(found)

    Shop.plans["workflow"] = workflow
    answers: list[str] = []

    async def run(stage: Stage) -> None:
        client = stage.connect()
        client.command("Shop.Follow", {"plan": "workflow"}, name="order", timeout=86_400_000)
        await stage.settle()
        if has_died():
            return
        (answer,) = client.answers("order")
        for _ in range(20):
            if answer.kind == "reply":
                answers.append(msgspec.json.decode(answer.data))
                return
            # A person looks outside, settles what is unknown, and replays.
            for each in (await stage.bus.ask(ListSteps())).steps:
                number = int(each.id.rpartition("/")[2])
                if number in effects:
                    settle = SettleStep(each.id, "done", Raw(str(number * 10).encode()))
                else:
                    settle = SettleStep(each.id, "again")
                await stage.bus.ask(settle)
            asking = asyncio.ensure_future(stage.bus.ask(Replay("order"), timeout=1000))
            await stage.settle()
            if has_died():
                asking.cancel()
                await asyncio.wait([asking])
                return
            answer = (await asking).answer

    with hushed():
        for moment in crashes:
            crash, is_over = moment, False
            disk.play(run, drain_timeout=0)
            if answers:
                break
        if not answers:
            crash, is_over = None, False
            disk.play(run)
    assert answers == [str([number * 10 for number in range(len(plans))])]
    for number, drawn in enumerate(plans):
        assert number in effects
        if not drawn.is_retry_safe:
            assert effects.count(number) == 1
    if not crashes:
        assert len(begun) == len(plans) + sum(each.fails for each in plans)


# -- the records -------------------------------------------------------------------------------------------------------

_keys = st.sampled_from(["a", "b"])
_names = st.sampled_from(["x", "y"])
_scopes: st.SearchStrategy[Scope] = st.sampled_from(["command", "key"])
_times = st.integers(1, 5)
_records: st.SearchStrategy[StepRecord] = st.one_of(
    st.builds(StepClaimed, _scopes, _keys, _names, _times, _keys, st.just("Shop.Follow"), st.just("hash")),
    st.builds(
        StepDone,
        _scopes,
        _keys,
        _names,
        _times,
        _keys,
        st.just("Shop.Follow"),
        st.sampled_from([Raw(b"1"), Raw(b'"two"')]),
        st.just("hash"),
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    st.builds(StepReleased, _scopes, _keys, _names, _times),
    st.builds(WorkflowEnded, _scopes, _keys),
    # The id of a replay is new: it belongs to one command.
    st.sampled_from([ReplayStarted("c", "a", 1), ReplayStarted("d", "b", 1)]),
)


def content_of(table: StepTable) -> object:
    """Return what a table says, whatever the order."""
    workflows = [*table.workflows.values(), *table.ended.values()]
    return sorted(
        (
            each.key,
            each.key.key in table.ended and table.ended[each.key.key] is each,
            sorted(
                (name, step.at, None if step.result is None else bytes(step.result))
                for name, step in each.steps.items()
            ),
            sorted(set(each.replays)),
            (each.request, each.attempt),
        )
        for each in workflows
        if each.steps or each.replays or each.request
    ), {name: table.root_of(name) for name in "abcd"}


@pytest.mark.guarantee("G537", "G543")
@given(st.lists(_records, max_size=20))
def test_a_checkpoint_says_what_the_records_before_it_say(records: list[StepRecord]) -> None:
    table, again = StepTable(), StepTable()
    for record in records:
        table.apply(Raw(msgspec.json.encode(record)), 0, 0)
    for entry in list(table.entries()):
        again.apply(entry, 0, 0)
    assert content_of(again) == content_of(table)
    table.clear()
    assert not list(table.entries())


def test_a_record_of_another_program_is_an_error() -> None:
    with pytest.raises(JournalCorruptError, match="a record of a step cannot be read"):
        StepTable().apply(Raw(b'{"is":"other"}'), 0, 0)
