"""A node with a journal: what is on the disk when, what a crash leaves, and what becomes of it.

A crash is a copy of the journal's files at that moment: what a `kill -9` would leave. `test_kill_nine` kills real processes.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from bandstand.bus import Capability, Command, Event, Query, Retry
from bandstand.bus.dead_letters import ListDeadLetters, Settle
from bandstand.bus.durable.records import (
    BEGAN,
    KIND_NAMES,
    REQUEST,
    read_numbers,
    read_request,
)
from bandstand.bus.request import PendingRequest
from bandstand.errors import JournalFailedError, RefusedError, RequestFailedError
from bandstand.journal import JournalReader
from bandstand.journal.storage import Storage
from tests.bus.virtual_node import Stage, hushed, play

Act = Callable[[Stage], Coroutine[Any, Any, None]]


class Balance(msgspec.Struct):
    """A balance."""

    cents: int


class Deposit(Command[Balance], type="Bank.Deposit"):
    """Add to the balance."""

    cents: int
    then: str = ""
    """What the handler does next."""


class Put(Command[Balance], type="Bank.Put", retry_safe=True):
    """Set the balance."""

    cents: int
    then: str = ""


class Look(Query[Balance], type="Bank.Look"):
    """Read the balance."""


class Notify(Command[None], type="Bank.Notify"):
    """Note a text."""

    text: str


class Deposited(Event, type="Bank.Deposited"):
    """The balance has grown."""

    cents: int


class Bank(Capability):
    """Keeps a balance, and a list of what it was told."""

    id = "Bank"
    outbound = Deposited | Notify

    ledger: ClassVar[list[str]] = []
    """What the handlers of all incarnations have done, newest last. A test clears it."""
    hooks: ClassVar[list[Callable[[], object]]] = []
    """Called by a handler whose command says `hook`."""

    def __init__(self) -> None:
        self.cents = 0

    async def deposit(self, msg: Deposit) -> Balance:
        self.cents += msg.cents
        self.ledger.append(f"deposit {msg.cents}")
        self.bus.emit(Deposited(msg.cents))
        await self.go_on(msg.then)
        return Balance(self.cents)

    async def put(self, msg: Put) -> Balance:
        self.cents = msg.cents
        self.ledger.append(f"put {msg.cents}")
        await self.go_on(msg.then)
        return Balance(self.cents)

    def look(self, msg: Look) -> Balance:
        return Balance(self.cents)

    async def go_on(self, then: str) -> None:
        match then:
            case "hook":
                for hook in self.hooks:
                    hook()
            case "wait":
                await asyncio.sleep(10)
            case "hang":
                await asyncio.sleep(1000)
            case "raise":
                raise ValueError("by wish")
            case "refuse":
                raise RefusedError("not today")
            case "send":
                self.bus.send(Notify("sent"))
                self.bus.send_later(Notify("later"), 60)
            case "send and raise":
                self.bus.send(Notify("sent"))
                self.bus.send_later(Notify("later"), 60)
                raise ValueError("by wish")
            case _:
                pass

    def notify(self, msg: Notify) -> None:
        self.ledger.append(f"notify {msg.text}")


@pytest.fixture(autouse=True)
def ledger() -> list[str]:
    Bank.ledger.clear()
    Bank.hooks.clear()
    return Bank.ledger


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

    def play(self, act: Act, **fields: Any) -> None:
        """Run a node on the journal; then put back what the last crash has left, if there was one."""
        before = self._copies
        with hushed():
            play(act, Bank, journal=self.journal, **fields)
        if self._copies > before:
            shutil.rmtree(self.journal)
            shutil.copytree(self._directory / str(self._copies), self.journal)

    def kinds(self) -> list[list[str]]:
        """Return the kinds of the records, page by page, without those of the start of a node."""
        with JournalReader(self.journal) as reader:
            pages = [[KIND_NAMES[record.kind] for record in page.records] for page in reader.pages()]
        return [page for page in pages if page != ["boot"]]

    def begun(self) -> set[int]:
        """Return the numbers of the commands that are marked as begun."""
        found: set[int] = set()
        with JournalReader(self.journal) as reader:
            for page in reader.pages():
                for record in page.records:
                    if record.kind == BEGAN:
                        found.update(read_numbers(BEGAN, record.data))
                    elif record.kind == REQUEST and read_request(record.data).flags & 1:
                        found.add(read_request(record.data).number)
        return found


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.mark.spec("C28")
@pytest.mark.guarantee("G460")
class TestWhatIsOnTheDisk:
    def test_a_command_before_its_handler_and_its_answer_before_the_client(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            seen: list[list[list[str]]] = []
            Bank.hooks.append(lambda: seen.append(disk.kinds()))
            client = stage.connect()
            name = client.command("Bank.Deposit", {"cents": 5, "then": "hook"})
            await stage.settle()
            assert client.reply(name) == {"cents": 5}
            assert seen == [[["request"]]]
            assert disk.kinds() == [["request"], ["answer", "event"]]

        disk.play(act)

    def test_nothing_of_a_query(self, disk: Disk) -> None:
        async def look(stage: Stage) -> None:
            client = stage.connect()
            name = client.query("Bank.Look")
            await stage.settle()
            assert client.reply(name) == {"cents": 0}
            assert disk.kinds() == []

        disk.play(look)

    def test_a_command_that_waits_is_marked_before_its_turn(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for _ in range(20):
                client.command("Bank.Deposit", {"cents": 1, "then": "wait"})
            await stage.settle()
            # It works on the first one; the others are on the disk, and not marked.
            assert disk.begun() == {1}
            await stage.wait(10_000)
            assert len(disk.begun()) <= 3

        disk.play(act, timeout=600)


@pytest.mark.guarantee("G547")
def test_answers_to_what_a_page_has_delivered_are_in_one_page(disk: Disk) -> None:
    async def act(stage: Stage) -> None:
        client = stage.connect()

        async def send(count: int) -> None:
            for _ in range(count):
                client.command("Bank.Notify", {"text": "hello"})
            await stage.settle()

        # The capability gets more places as it keeps up.
        await send(200)
        before = len(disk.kinds())
        # More than an actor handles in a turn.
        await send(100)
        assert disk.kinds()[before:] == [["request"] * 100, ["answer"] * 100]

    disk.play(act)


@pytest.mark.guarantee("G461")
class TestTheFateOfACommand:
    def test_one_that_was_not_begun_is_carried_out(self, disk: Disk, ledger: list[str]) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="first")
            client.command("Bank.Deposit", {"cents": 2}, name="second")
            await stage.settle()
            disk.crash()

        disk.play(before)
        ledger.clear()

        async def after(stage: Stage) -> None:
            client = stage.connect()
            # The client comes back, and asks for its answers again.
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="first")
            client.command("Bank.Deposit", {"cents": 2}, name="second")
            await stage.settle()
            client.fault("first", "Sys.InDoubt")
            assert client.reply("second") == {"cents": 2}
            assert ledger == ["deposit 2"]

        disk.play(after)

    def test_one_that_is_retry_safe_is_carried_out_three_times_at_most(
        self, disk: Disk, ledger: list[str]
    ) -> None:
        async def die(stage: Stage) -> None:
            stage.connect().command("Bank.Put", {"cents": 7, "then": "wait"}, name="put")
            await stage.settle()
            disk.crash()

        async def die_again(stage: Stage) -> None:
            await stage.settle()
            disk.crash()

        disk.play(die)
        disk.play(die_again)
        disk.play(die_again)
        assert ledger == ["put 7"] * 3

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Put", {"cents": 7, "then": "wait"}, name="put")
            await stage.settle()
            client.fault("put", "Sys.ActorCrash")
            assert len(ledger) == 3
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason) for each in letters] == [("put", "crashed")]

        disk.play(after)

    def test_one_whose_client_has_waited_too_long_is_not_carried_out(
        self, disk: Disk, ledger: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"})
            client.command("Bank.Deposit", {"cents": 2}, name="late", timeout=1)
            await stage.settle()
            disk.crash()

        disk.play(before)
        ledger.clear()

        async def after(stage: Stage) -> None:
            await stage.settle()
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert {each.reason for each in letters if each.id == "late"} == {"timeout"}
            assert ledger == []

        disk.play(after)

    def test_a_command_without_a_client_is_carried_out(self, disk: Disk, ledger: list[str]) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"})
            stage.bus.send(Notify("hello"))
            await stage.settle()
            disk.crash()

        disk.play(before)
        ledger.clear()

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert ledger == ["notify hello"]

        disk.play(after)

    def test_one_of_a_type_that_is_not_handled_any_more_is_a_dead_letter(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="begun")
            client.command("Bank.Deposit", {"cents": 1}, name="waiting")
            await stage.settle()
            disk.crash()

        disk.play(before)

        async def after(stage: Stage) -> None:
            await stage.settle()
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert {each.id: each.reason for each in letters} == {"begun": "inDoubt", "waiting": "unrouted"}

        with hushed():
            play(after, journal=disk.journal)


@pytest.mark.guarantee("G462")
class TestDoubt:
    def in_doubt(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            stage.connect().command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            disk.crash()

        disk.play(before)
        Bank.ledger.clear()

    def test_it_stays_over_restarts_until_it_is_settled(self, disk: Disk, ledger: list[str]) -> None:
        self.in_doubt(disk)

        async def ask(stage: Stage) -> None:
            client = stage.connect()
            for _ in range(2):
                client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
                await stage.wait(1)
            assert [answer.type for answer in client.answers("it")] == ["Sys.InDoubt"] * 2

        async def settle(stage: Stage) -> None:
            await ask(stage)
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 99}, name="it")
            await stage.wait(1)
            client.fault("it", "Sys.Conflict")
            await stage.bus.ask(Settle(id="it", outcome="done", data=msgspec.Raw(b'{"cents": 17}')))

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.wait(1)
            assert client.reply("it") == {"cents": 17}
            assert (await stage.bus.ask(ListDeadLetters())).letters == []

        for act in (ask, settle, after, after):
            disk.play(act)
        assert ledger == []

    @pytest.mark.parametrize("outcome", ["failed", "again"])
    def test_it_is_settled_as_failed_or_carried_out_again(
        self, disk: Disk, ledger: list[str], outcome: Any
    ) -> None:
        self.in_doubt(disk)

        async def act(stage: Stage) -> None:
            await stage.bus.ask(Settle(id="it", outcome=outcome, message="the customer has left"))
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.wait(20_000)
            if outcome == "failed":
                assert client.fault("it", "Sys.Refused").message == "the customer has left"
            else:
                assert client.reply("it") == {"cents": 1}
            assert ledger == ([] if outcome == "failed" else ["deposit 1"])

        disk.play(act)

    @pytest.mark.parametrize(
        ("settle", "type_name"),
        [
            (Settle(id="other", outcome="again"), "Sys.Refused"),
            (Settle(id="it", outcome="done", data=msgspec.Raw(b'{"cents": "x"}')), "Sys.SchemaError"),
        ],
    )
    def test_settling_it_wrongly_changes_nothing(self, disk: Disk, settle: Settle, type_name: str) -> None:
        self.in_doubt(disk)

        async def act(stage: Stage) -> None:
            with pytest.raises(RequestFailedError) as caught:
                await stage.bus.ask(settle)
            assert caught.value.type == type_name
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.wait(1)
            client.fault("it", "Sys.InDoubt")

        disk.play(act)

    def test_a_timeout_of_a_handler_that_runs_is_not_handled_anew(
        self, disk: Disk, ledger: list[str]
    ) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for _ in range(3):
                client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it", timeout=1000)
                await stage.wait(1001)
            assert [answer.type for answer in client.answers("it")] == ["Sys.Timeout"] * 3
            # The handler ends: now it is known what has become of it.
            await stage.wait(10_000)
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it", timeout=1000)
            await stage.wait(1)
            assert client.answers("it")[-1].kind == "reply"
            assert ledger == ["deposit 1"]

        disk.play(act)


@pytest.mark.guarantee("G463")
class TestWhatAHandlerSends:
    def test_takes_effect_with_the_answer(self, disk: Disk, ledger: list[str]) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            listener = stage.connect()
            listener.command("Syscall.Subscribe", {"types": ["Bank.*"]})
            await stage.settle()
            client.command("Bank.Deposit", {"cents": 1, "then": "send"}, name="it")
            await stage.settle()
            assert [event["cents"] for event in listener.events("Bank.Deposited")] == [1]
            assert ledger == ["deposit 1", "notify sent"]
            assert disk.kinds()[:2] == [["request"], ["answer", "event", "request", "timer"]]
            await stage.wait(61_000)
            assert ledger[-1] == "notify later"

        disk.play(act)

    @pytest.mark.parametrize("then", ["send and raise"])
    def test_is_dropped_if_it_fails(self, disk: Disk, ledger: list[str], then: str) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            listener = stage.connect()
            listener.command("Syscall.Subscribe", {"types": ["Bank.*"]})
            await stage.settle()
            client.command("Bank.Deposit", {"cents": 1, "then": then}, name="it")
            await stage.wait(100_000)
            client.fault("it", "Sys.ActorCrash")
            assert listener.events("Bank.Deposited") == []
            assert ledger == ["deposit 1"]

        disk.play(act)

    def test_takes_effect_if_it_refuses(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client, listener = stage.connect(), stage.connect()
            listener.command("Syscall.Subscribe", {"types": ["Bank.*"]})
            await stage.settle()
            client.command("Bank.Deposit", {"cents": 1, "then": "refuse"}, name="it")
            await stage.settle()
            client.fault("it", "Sys.Refused")
            assert len(listener.events("Bank.Deposited")) == 1

        disk.play(act)


@pytest.mark.guarantee("G464")
class TestWhatSurvives:
    def test_answers(self, disk: Disk, ledger: list[str]) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 3}, name="it")
            await stage.settle()
            disk.crash()

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 3}, name="it")
            await stage.settle()
            assert client.reply("it") == {"cents": 3}
            assert ledger == ["deposit 3"]

        disk.play(before)
        disk.play(after)
        disk.play(after)

    def test_dead_letters(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 3, "then": "raise"}, name="a")
            client.command("Bank.None", {}, name="b")
            await stage.wait(5000)
            client.command("Dead.Purge", {"id": "b"})
            await stage.settle()
            disk.crash()

        async def after(stage: Stage) -> None:
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason, each.capability) for each in letters] == [("a", "crashed", "Bank")]
            assert "by wish" in letters[0].said

        disk.play(before)
        disk.play(after)

    def test_scheduled_messages(self, disk: Disk, ledger: list[str]) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            inner = {
                "kind": "command",
                "type": "Bank.Notify",
                "data": {"text": "on time"},
                "metadata": {"id": "x", "timestamp": 0},
            }
            client.command("Timer.Schedule", {"delay": 60_000, "message": inner})
            cancelled = client.command("Timer.Schedule", {"delay": 60_000, "message": inner})
            stage.bus.send_later(Notify("from the program"), 60)
            await stage.settle()
            client.command("Timer.Cancel", {"timerId": client.reply(cancelled)["timerId"]})
            await stage.settle()
            disk.crash()

        async def after(stage: Stage) -> None:
            await stage.wait(50_000)
            assert ledger == []
            await stage.wait(11_000)
            assert sorted(ledger) == ["notify from the program", "notify on time"]
            disk.crash()

        async def later(stage: Stage) -> None:
            await stage.wait(100_000)
            assert ledger == []

        disk.play(before)
        disk.play(after)
        ledger.clear()
        disk.play(later)

    def test_a_checkpoint_says_what_the_records_say(
        self, disk: Disk, ledger: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1}, name="answered")
            client.command("Bank.Deposit", {"cents": 2, "then": "raise"}, name="dead")
            stage.bus.send_later(Notify("later"), 60)
            await stage.wait(5000)
            client.command("Bank.Deposit", {"cents": 4, "then": "hang"}, name="begun")
            client.command("Bank.Deposit", {"cents": 8}, name="waiting")
            # More than a checkpoint's distance.
            for number in range(70):
                stage.connect().event("Bank.Noise", {"text": "x" * 100_000, "number": number})
                await stage.settle()
            assert ["checkpoint" in page for page in disk.kinds()].count(True) == 1
            disk.crash()

        disk.play(before)
        ledger.clear()

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1}, name="answered")
            await stage.wait(61_000)
            assert client.reply("answered") == {"cents": 1}
            assert ledger == ["deposit 8", "notify later"]
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert sorted((each.id, each.reason) for each in letters) == [
                ("begun", "inDoubt"),
                ("dead", "crashed"),
                ("waiting", "abandoned"),
            ]

        disk.play(after)


def test_a_client_continues_behind_the_last_event_it_got(disk: Disk) -> None:
    offsets: list[str] = []

    async def first(stage: Stage) -> None:
        client, follower = stage.connect(), stage.connect()
        follower.command("Syscall.Subscribe", {"types": ["Bank.Deposited"], "after": "0-0"})
        for cents in (1, 2):
            client.command("Bank.Deposit", {"cents": cents})
        await stage.wait(1000)
        logged = follower.events("Sys.Logged")
        assert [each["message"]["data"]["cents"] for each in logged] == [1, 2]
        offsets.append(logged[-1]["offset"])
        client.command("Bank.Deposit", {"cents": 3})
        follower.close()
        await stage.settle()

    async def second(stage: Stage) -> None:
        client, follower = stage.connect(), stage.connect()
        client.command("Bank.Deposit", {"cents": 4})
        follower.command("Syscall.Subscribe", {"types": ["Bank.Deposited"], "after": offsets[0]})
        await stage.wait(1000)
        assert [each["message"]["data"]["cents"] for each in follower.events("Sys.Logged")] == [3, 4]

    disk.play(first)
    disk.play(second)


@pytest.mark.guarantee("G465")
class TestOrder:
    def test_a_query_sees_the_commands_before_it(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            names: list[tuple[int, str]] = []
            for number in range(1, 40):
                client.command("Bank.Deposit", {"cents": 1})
                names.append((number, client.query("Bank.Look")))
            await stage.wait(1000)
            assert [client.reply(name)["cents"] for _, name in names] == [number for number, _ in names]

        disk.play(act)

    def test_commands_are_handled_in_their_order(self, disk: Disk, ledger: list[str]) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for number in range(300):
                client.command("Bank.Deposit", {"cents": number})
            await stage.wait(1000)
            assert ledger == [f"deposit {number}" for number in range(300)]

        disk.play(act)

    def test_a_query_waits_for_a_command_whose_page_is_being_written(
        self, disk: Disk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            event_loop = asyncio.get_running_loop()
            names: list[str] = []
            commit = Storage.commit

            def look(is_routed: threading.Event) -> None:
                names.append(client.query("Bank.Look"))
                turn(is_routed, 20)

            def turn(is_routed: threading.Event, left: int) -> None:
                if left:
                    event_loop.call_soon(turn, is_routed, left - 1)
                else:
                    is_routed.set()

            def commit_after_a_query(self: Storage, at: int, count: int, body: bytes) -> int:
                if not names:
                    is_routed = threading.Event()
                    event_loop.call_soon_threadsafe(look, is_routed)
                    assert is_routed.wait(30)
                return commit(self, at, count, body)

            monkeypatch.setattr(Storage, "commit", commit_after_a_query)
            client.command("Bank.Deposit", {"cents": 1})
            await stage.wait(1000)
            assert client.reply(names[0]) == {"cents": 1}

        disk.play(act)


@pytest.mark.guarantee("G466")
class TestStopping:
    def test_a_command_that_nobody_waits_for_stays_for_the_next_start(
        self, disk: Disk, ledger: list[str]
    ) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "hang"}, name="begun")
            client.command("Bank.Deposit", {"cents": 2}, name="waiting")
            stage.bus.send(Notify("hello"))
            await stage.settle()

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert ledger == ["notify hello"]
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "hang"}, name="begun")
            client.command("Bank.Deposit", {"cents": 2}, name="waiting")
            await stage.settle()
            client.fault("begun", "Sys.InDoubt")
            # It was answered with Sys.ShuttingDown, so this is a new request.
            assert client.reply("waiting") == {"cents": 2}

        disk.play(before, drain_timeout=0.1)
        ledger.clear()
        disk.play(after)


class WithdrawIt:
    """Tell the router to withdraw the command `it`."""


@pytest.mark.guarantee("G461", "G463")
def test_a_command_that_is_withdrawn_when_its_handler_has_answered_has_ended(
    disk: Disk, ledger: list[str]
) -> None:
    async def before(stage: Stage) -> None:
        router = stage.node.bus._router  # pyright: ignore[reportPrivateUsage]  # two messages in one order

        def withdraw(_message: WithdrawIt) -> None:
            pending = router.requests.find("it")
            assert isinstance(pending, PendingRequest)
            # Its answer is the next message in the mailbox of the router.
            assert pending.is_answered
            assert pending.is_queued
            router.withdraw(pending)

        router.handlers[WithdrawIt] = withdraw
        Bank.hooks.append(lambda: router.post(WithdrawIt()))
        client = stage.connect()
        client.command("Bank.Deposit", {"cents": 1, "then": "hook"}, name="it")
        await stage.settle()
        # What the handler has sent takes effect: it has carried the command out.
        assert disk.kinds() == [["request"], ["answer", "event"]]
        disk.crash()

    async def after(stage: Stage) -> None:
        await stage.settle()
        assert ledger == ["deposit 1"]
        assert (await stage.bus.ask(ListDeadLetters())).letters == []

    disk.play(before)
    disk.play(after)


@pytest.mark.guarantee("G555")
class TestDeadLettersAndAnswers:
    """What happens to a dead letter because of a command is in the page of its answer."""

    def test_a_purge(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.None", {}, name="b")
            await stage.settle()
            purge = client.command("Dead.Purge", {"id": "b"})
            # It is gone for all that comes behind.
            shown = client.query("Dead.List")
            await stage.settle()
            assert client.reply(purge) == {"purged": 1}
            assert client.reply(shown)["letters"] == []
            assert disk.kinds()[-2:] == [["request"], ["answer", "deadEnded"]]

        disk.play(act)

    def test_a_settlement(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            stage.connect().command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            disk.crash()

        async def act(stage: Stage) -> None:
            await stage.bus.ask(Settle(id="it", outcome="done", data=msgspec.Raw(b'{"cents": 17}')))
            assert disk.kinds()[-1] == ["answer", "answer", "deadEnded"]
            disk.crash()

        async def after(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            assert client.reply("it") == {"cents": 17}
            assert (await stage.bus.ask(ListDeadLetters())).letters == []

        for each in (before, act, after):
            disk.play(each)

    def test_a_replay(self, disk: Disk, ledger: list[str]) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it", timeout=1000)
            await stage.wait(20_000)
            replay = client.command("Dead.Replay", {"id": "it"})
            await stage.wait(20_000)
            assert client.reply(replay)["outcome"] == "replied"
            assert ledger == ["deposit 1"] * 2
            assert disk.kinds()[-1] == ["answer", "deadEnded"]

        disk.play(act)

    def test_one_that_comes_back_meanwhile_stays(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.None", {}, name="b")
            await stage.settle()
            router = stage.node.bus._router  # pyright: ignore[reportPrivateUsage]  # two things in one turn
            letters = router.dead_letters

            def remove_and_add() -> None:
                letter, parent = letters.find("b"), router.requests.find("it")
                assert letter is not None
                assert isinstance(parent, PendingRequest)
                letters.remove(letter, parent)
                letters.add(letter.frame, "unrouted", letter.at_ms)

            Bank.hooks.append(remove_and_add)
            client.command("Bank.Deposit", {"cents": 1, "then": "hook"}, name="it")
            await stage.settle()
            disk.crash()

        async def after(stage: Stage) -> None:
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [each.id for each in letters] == ["b"]

        disk.play(before)
        disk.play(after)

    def test_an_answer_without_a_client(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            client.close()
            await stage.wait(10_000)
            assert disk.kinds()[-1] == ["answer", "event", "dead"]
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason, each.attempts) for each in letters] == [("it", "abandoned", 1)]
            assert (await stage.stats()).abandoned == 1
            # The client comes back.
            again = stage.connect()
            again.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            assert again.reply("it") == {"cents": 1}
            assert (await stage.bus.ask(ListDeadLetters())).letters == []

        disk.play(act)

    def test_an_answer_whose_client_was_there_before_a_restart(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="begun")
            client.command("Bank.Notify", {"text": "x"}, name="waiting")
            await stage.settle()
            disk.crash()

        async def after(stage: Stage) -> None:
            await stage.settle()
            assert [page for page in disk.kinds() if "answer" in page][-1] == ["answer", "dead"]
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert {each.id: each.reason for each in letters} == {"begun": "inDoubt", "waiting": "abandoned"}

        disk.play(before)
        disk.play(after)

    def test_an_answer_whose_client_is_back_in_time_makes_none(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client, again = stage.connect(), stage.connect()
            client.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.settle()
            client.close()
            again.command("Bank.Deposit", {"cents": 1, "then": "wait"}, name="it")
            await stage.wait(10_000)
            assert again.reply("it") == {"cents": 1}
            assert (await stage.bus.ask(ListDeadLetters())).letters == []

        disk.play(act)


class Try(Command[None], type="Flaky.Try", retry=Retry(attempts=3)):
    """Fails twice."""


class Flaky(Capability):
    """Fails until its third attempt."""

    id = "Flaky"
    attempts = 0

    def try_it(self, msg: Try) -> None:
        Flaky.attempts += 1
        if Flaky.attempts % 3:
            raise ValueError("not yet")


def test_a_retry_keeps_its_request(disk: Disk) -> None:
    async def act(stage: Stage) -> None:
        client = stage.connect()
        name = client.command("Flaky.Try")
        await stage.wait(10_000)
        assert client.reply(name) == {}
        kinds = [kind for page in disk.kinds() for kind in page]
        assert kinds.count("request") == kinds.count("answer") == 1
        assert kinds.count("began") == 2

    with hushed():
        play(act, Flaky, journal=disk.journal)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "small"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room on a file system."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return ballast


@pytest.mark.guarantee("G467")
class TestFullDisk:
    def test_commands_are_refused_until_there_is_room_and_queries_go_on(self, small_disk: Path) -> None:
        disk = Disk(small_disk)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            owed = client.command("Bank.Deposit", {"cents": 1, "then": "wait"})
            await stage.settle()
            ballast = fill(small_disk)
            # The answer is owed, and too large for what is left in the files.
            refused = [
                client.command("Bank.Notify", {"text": "x" * 100_000}, name=f"n{number}")
                for number in range(3)
            ]
            await stage.wait(100)
            for name in refused:
                assert client.fault(name, "Sys.Unavailable").retryable
            event = client.event("Bank.Noise", {"text": "x" * 100_000})
            look = client.query("Bank.Look")
            await stage.wait(12_000)
            assert client.reply(look) == {"cents": 1}
            ballast.unlink()
            await stage.wait(1000)
            assert client.reply(owed) == {"cents": 1}
            again = client.command("Bank.Notify", {"text": "y"})
            await stage.settle()
            assert client.reply(again) == {}
            assert Bank.ledger == ["deposit 1", "notify y"]
            assert event

        with hushed("bus", "journal"):
            play(act, Bank, journal=disk.journal)

    @pytest.mark.guarantee("G556")
    def test_a_ping_confirms_the_events_of_its_client_only_when_they_are_durable(
        self, small_disk: Path
    ) -> None:
        disk = Disk(small_disk)

        async def act(stage: Stage) -> None:
            client, other = stage.connect(), stage.connect()
            ballast = fill(small_disk)
            client.event("Bank.Noise", {"text": "x" * 100_000})
            pings = [client.query("Syscall.Ping")]
            await stage.wait(100)
            pings.append(client.query("Syscall.Ping"))
            others = [other.query("Syscall.Ping"), client.query("Bank.Look")]
            await stage.wait(1000)
            assert all(other.is_answered(name) or client.is_answered(name) for name in others)
            assert not any(client.is_answered(name) for name in pings)
            ballast.unlink()
            await stage.wait(1000)
            assert [client.answer(name).kind for name in pings] == ["reply", "reply"]
            assert ["event"] in disk.kinds()

        with hushed("bus", "journal"):
            play(act, Bank, journal=disk.journal)


@pytest.mark.guarantee("G468")
def test_a_failing_disk_ends_the_node(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        client = stage.connect()
        client.command("Bank.Deposit", {"cents": 1})
        await stage.settle()
        with damaged_storage(monkeypatch):
            client.command("Bank.Deposit", {"cents": 1})
            await stage.wait(1000)

    with hushed("bus", "journal"), pytest.raises(JournalFailedError, match="cannot write"):
        play(act, Bank, journal=disk.journal)


@contextmanager
def damaged_storage(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Every commit fails, as after an error of the disk. `tests/journal` has real ones."""

    def fail(*_args: object) -> int:
        raise JournalFailedError("cannot write: Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "commit", fail)
        yield


@pytest.mark.guarantee("G469")
def test_old_pages_are_deleted(disk: Disk) -> None:
    async def act(stage: Stage) -> None:
        client = stage.connect()
        client.command("Bank.Deposit", {"cents": 4, "then": "hang"}, name="open")
        for number in range(200):
            stage.connect().event("Bank.Noise", {"text": "x" * 100_000, "number": number})
            await stage.settle()
        await stage.wait(1)

    disk.play(act, journal_keep_bytes=5_000_000, timeout=600)
    with JournalReader(disk.journal) as reader:
        assert reader.first > 100
        assert sum(size for _, _, size in reader.sizes()) < 10_000_000

    async def after(stage: Stage) -> None:
        client = stage.connect()
        client.command("Bank.Deposit", {"cents": 4, "then": "hang"}, name="open")
        await stage.settle()
        client.fault("open", "Sys.InDoubt")

    disk.play(after)
