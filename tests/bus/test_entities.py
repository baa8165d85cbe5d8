"""Entities on a node with a journal."""

from __future__ import annotations

import asyncio
import gc
import shutil
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

import pytest
from msgspec import Struct

from bandstand.__main__ import main
from bandstand.bus import Capability, Command, Decision, Entity, Event
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.dead_letters import ListDeadLetters
from bandstand.bus.durable.records import KIND_NAMES
from bandstand.bus.entity_host import EntityHealth
from bandstand.bus.syscall import Describe
from bandstand.cli.commands.describe import show_all
from bandstand.errors import BootError, ContractError, DeclarationError, JournalFullError, LoopBusyError
from bandstand.isolation import isolated
from bandstand.journal import JournalReader, Record
from bandstand.journal.page import decode_body
from bandstand.journal.storage import Storage
from bandstand.persistence import EventStore, EventStream, Upcaster
from bandstand.persistence.records import ENTITY_EVENT, ENTITY_SNAPSHOT, EVENT_SCHEMA, read_head
from tests.bus.bank import Account, Balance, Deposit, Deposited, Emptied, Look, QuickAccount, State
from tests.bus.virtual_node import Stage, hushed, play

Act = Callable[[Stage], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def clean() -> None:
    Account.hooks.clear()
    Account.broken.clear()
    QuickAccount.restored.clear()


class Disk:
    """The journal of a node, and copies of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = directory / "journal"
        self._copies = 0

    def crash(self) -> None:
        """Keep the journal as it is now, for the next node. Its index is lost."""
        self._copies += 1
        # The thread of the index may be writing.
        ignore = shutil.ignore_patterns("index.*")
        shutil.copytree(self.journal, self._directory / str(self._copies), ignore=ignore)

    def play(self, act: Act, *kinds: type[Capability], **fields: Any) -> None:
        """Run a node on the journal; then put back what the last crash has left, if there was one."""
        before = self._copies
        with hushed():
            play(act, *(kinds or (Account,)), journal=self.journal, **fields)
        if self._copies > before:
            shutil.rmtree(self.journal)
            shutil.copytree(self._directory / str(self._copies), self.journal)

    def kinds(self) -> list[list[str]]:
        """Return the kinds of the records, page by page, without those of the start of a node."""
        with JournalReader(self.journal) as reader:
            pages = [[KIND_NAMES[record.kind] for record in page.records] for page in reader.pages()]
        return [page for page in pages if page != ["boot"] and "eventSchema" not in page]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


class Gate:
    """Delays the loads of entities."""

    def __init__(self) -> None:
        self._closed: set[str] = set()
        self._opened = asyncio.Event()

    def close(self, key: str) -> None:
        self._closed.add(key)

    def open(self) -> None:
        self._closed.clear()
        self._opened.set()

    async def passed(self, key: str) -> None:
        while key in self._closed:
            await self._opened.wait()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, load = Gate(), EventStore.load

    async def load_later(self: EventStore, stream: EventStream) -> tuple[Record | None, list[Record]]:
        await gate.passed(stream.key)
        return await load(self, stream)

    monkeypatch.setattr(EventStore, "load", load_later)
    return gate


class Full:
    """A disk without room for some kinds of records."""

    def __init__(self) -> None:
        self.kinds: set[int] = set()
        self.refused = 0


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Full:
    full, commit = Full(), Storage.commit

    def commit_or_refuse(self: Storage, at: int, count: int, body: bytes) -> int:
        if any(record.kind in full.kinds for record in decode_body(0, count, body)):
            full.refused += 1
            raise JournalFullError("there is no room")
        return commit(self, at, count, body)

    monkeypatch.setattr(Storage, "commit", commit_or_refuse)
    return full


@pytest.mark.guarantee("G510")
class TestDecisions:
    def test_the_events_and_the_answer_are_one_page(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Account.Deposit", {"account": "a", "cents": 5}) == {
                "cents": 5
            }
            assert disk.kinds() == [["request"], ["entityEvent", "answer"]]
            assert await stage.reply_to("query", "Account.Look", {"account": "a"}) == {"cents": 5}
            assert await stage.reply_to("query", "Account.Look", {"account": "b"}) == {"cents": 0}

        disk.play(act)

    def test_state_is_what_the_events_say_after_a_stop(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            for cents in (1, 2):
                await stage.reply_to("command", "Account.Deposit", {"account": "a", "cents": cents})
            await stage.reply_to("command", "Account.DepositTwice", {"account": "a", "cents": 10})
            await stage.reply_to("command", "Account.Deposit", {"account": "b", "cents": 4})
            await stage.reply_to("command", "Account.Empty", {"account": "b"})
            await stage.reply_to("command", "Account.Empty", {"account": "b"})

        disk.play(before)
        Account.broken.add("nobody")

        async def after(stage: Stage) -> None:
            assert await balance(stage, "a") == 23
            assert await balance(stage, "b") == 0

        disk.play(after)
        events = sum(page.count("entityEvent") for page in disk.kinds())
        # A command that changes nothing writes no event.
        assert events == 6

    def test_a_refusal_writes_nothing(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            fault = await stage.fault_of(
                "Sys.Refused", "command", "Account.Deposit", deposit("a", 5, "refuse")
            )
            assert fault.message == "not today"
            assert await balance(stage, "a") == 0
            assert await stage.fault_of(
                "Sys.Refused", "query", "Account.Look", {"account": "a", "then": "refuse"}
            )

        disk.play(act)
        assert disk.kinds() == [["request"], ["answer"]]

    def test_a_repeat_gets_the_first_answer_over_a_restart(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Account.Deposit", deposit("a", 5), name="one")
            await stage.settle()
            assert client.reply("one") == {"cents": 5}
            assert await balance(stage, "a") == 5

        disk.play(act)
        disk.play(act)

    def test_many_commands_for_one_key_share_pages(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            await balance(stage, "a")
            client = stage.connect()
            names = [client.command("Account.Deposit", deposit("a", 1)) for _ in range(500)]
            await stage.settle()
            assert [client.reply(name)["cents"] for name in names] == list(range(1, 501))

        disk.play(act)
        assert len(disk.kinds()) < 100

    def test_state_and_journal_agree_when_the_requester_goes_away(self, disk: Disk) -> None:
        found: list[int] = []

        async def before(stage: Stage) -> None:
            await balance(stage, "a")
            for turns in range(30):
                asked = asyncio.create_task(stage.node.bus.ask(Deposit("a", 4**turns)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asked.cancel()
                await asyncio.wait([asked])
                await stage.settle()
                done = await balance(stage, "a") >> 2 * turns & 3
                assert done in ({1} if not asked.cancelled() else {0, 1})
            found.append(await balance(stage, "a"))

        async def after(stage: Stage) -> None:
            assert await balance(stage, "a") == found[0]

        disk.play(before)
        disk.play(after)

    def test_a_key_must_be_a_key(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            fault = await stage.fault_of("Sys.SchemaError", "command", "Account.Deposit", deposit("", 1))
            assert (fault.message, fault.path) == ("Account.Deposit: the key is empty", "$.data.account")
            fault = await stage.fault_of("Sys.SchemaError", "query", "Account.Look", {"account": "x" * 1025})
            assert "has 1025 characters" in fault.message
            for key in ("ü/ö", "x" * 1024, " "):
                reply = await stage.reply_to("command", "Account.Deposit", deposit(key, 1))
                assert reply == {"cents": 1}

        disk.play(act)


@pytest.mark.guarantee("G511")
class TestAfterACrash:
    def test_an_open_command_is_carried_out_three_times_at_most(self, disk: Disk) -> None:
        attempts: list[str] = []

        def die() -> None:
            attempts.append("attempt")
            disk.crash()

        Account.hooks.append(die)

        async def first(stage: Stage) -> None:
            client = stage.connect()
            client.command("Account.Deposit", deposit("a", 5))
            await stage.settle()
            client.command("Account.Deposit", deposit("a", 7, "hook"), name="hooked")
            await stage.settle()

        async def again(stage: Stage) -> None:
            await stage.settle()

        disk.play(first)
        disk.play(again)
        disk.play(again)
        assert len(attempts) == 3

        async def after(stage: Stage) -> None:
            client = stage.connect()
            await stage.settle()
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason) for each in letters] == [("hooked", "crashed")]
            assert await balance(stage, "a") == 5
            assert len(attempts) == 3
            client.command("Account.Deposit", deposit("a", 1))
            await stage.settle()
            assert await balance(stage, "a") == 6

        disk.play(after)

    def test_one_that_was_begun_once_is_carried_out_once(self, disk: Disk) -> None:
        Account.hooks.append(disk.crash)

        async def before(stage: Stage) -> None:
            client = stage.connect()
            client.command("Account.Deposit", deposit("a", 7, "hook"), name="hooked")
            await stage.settle()

        disk.play(before)
        Account.hooks.clear()

        async def after(stage: Stage) -> None:
            client = stage.connect()
            await stage.settle()
            assert await balance(stage, "a") == 7
            client.command("Account.Deposit", deposit("a", 7, "hook"), name="hooked")
            await stage.settle()
            assert client.reply("hooked") == {"cents": 7}
            assert await balance(stage, "a") == 7

        disk.play(after)

    def test_a_command_that_has_timed_out_has_no_effect(self, disk: Disk, gate: Gate) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            gate.close("a")
            name = client.command("Account.Deposit", deposit("a", 5), timeout=50)
            await stage.wait(100)
            client.fault(name, "Sys.Timeout")
            gate.open()
            await stage.settle()
            assert await balance(stage, "a") == 0

        disk.play(act)


@pytest.mark.guarantee("G512")
class TestWhatHandlersSend:
    def test_it_is_in_the_page_of_the_events(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Syscall.Subscribe", {"types": ["Account.Noted"]})
            client.command("Account.Deposit", deposit("a", 5, "send"))
            await stage.settle()
            assert client.events("Account.Noted") == [{"account": "a", "cents": 5}]
            assert await balance(stage, "a sent") == 5
            assert await balance(stage, "a later") == 0
            await stage.wait(61_000)
            assert await balance(stage, "a later") == 5
            assert disk.kinds()[1] == ["entityEvent", "answer", "event", "request", "timer"]

        disk.play(act)

    def test_nothing_of_it_happens_if_the_handler_fails(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Syscall.Subscribe", {"types": ["Account.Noted"]})
            name = client.command("Account.Deposit", deposit("a", 5, "send and raise"))
            await stage.wait(61_000)
            client.fault(name, "Sys.ActorCrash")
            assert client.events("Account.Noted") == []
            for key in ("a", "a sent", "a later"):
                assert await balance(stage, key) == 0

        disk.play(act)


@pytest.mark.guarantee("G513")
class TestQueries:
    def test_an_answer_waits_until_what_it_has_seen_is_durable(self, disk: Disk, full: Full) -> None:
        async def act(stage: Stage) -> None:
            assert await balance(stage, "a") == 0
            client = stage.connect()
            full.kinds.add(ENTITY_EVENT)
            client.command("Account.Deposit", deposit("a", 5), name="owed")
            await stage.wait(100)
            look = client.query("Account.Look", {"account": "a"})
            refused = client.query("Account.Look", {"account": "a", "then": "refuse"})
            failed = client.query("Account.Look", {"account": "b", "then": "raise"})
            other = client.query("Account.Look", {"account": "b"})
            await stage.wait(2000)
            # Those of another account go on.
            assert client.reply(other) == {"cents": 0}
            client.fault(failed, "Sys.ActorCrash")
            assert full.refused > 1
            for name in ("owed", look, refused):
                assert not client.is_answered(name)
            full.kinds.clear()
            await stage.wait(1000)
            assert client.reply("owed") == {"cents": 5}
            assert client.reply(look) == {"cents": 5}
            assert client.fault(refused, "Sys.Refused").message == "there are 5"

        disk.play(act)

    def test_it_sees_the_commands_before_it(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            looks: list[str] = []
            for _ in range(50):
                client.command("Account.Deposit", deposit("a", 1))
                looks.append(client.query("Account.Look", {"account": "a"}))
            await stage.settle()
            assert [client.reply(look)["cents"] for look in looks] == sorted(
                client.reply(look)["cents"] for look in looks
            )
            for number, look in enumerate(looks, 1):
                assert client.reply(look)["cents"] >= number

        disk.play(act)

    def test_it_sees_a_command_whose_page_is_being_written(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            assert await balance(stage, "a") == 0
            for turns in range(20):
                command = client.command("Account.Deposit", deposit("a", 1))
                for _ in range(turns):
                    await asyncio.sleep(0)
                look = client.query("Account.Look", {"account": "a"})
                await stage.settle()
                assert client.reply(look) == client.reply(command) == {"cents": turns + 1}

        disk.play(act)

    def test_a_query_decides_nothing(self, disk: Disk) -> None:
        class Wrong(Account):
            """Decides in a query."""

            id = "Account"

            def look(self, msg: Look) -> Balance:
                return self.decide(Balance(1), Deposited(1))  # type: ignore[return-value]

        async def act(stage: Stage) -> None:
            fault = await stage.fault_of("Sys.ActorFault", "query", "Account.Look", {"account": "a"})
            assert "a query changes nothing, return the reply" in fault.message

        disk.play(act, Wrong)


@pytest.mark.guarantee("G514")
class TestOrder:
    def test_other_keys_go_on_while_one_is_loaded(self, disk: Disk, gate: Gate) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            gate.close("slow")
            slow = [client.command("Account.Deposit", deposit("slow", cents)) for cents in (1, 2, 3)]
            slow.append(client.query("Account.Look", {"account": "slow"}))
            quick = [client.command("Account.Deposit", deposit("quick", cents)) for cents in (1, 2, 3)]
            await stage.wait(100)
            assert [client.reply(name)["cents"] for name in quick] == [1, 3, 6]
            assert not any(client.is_answered(name) for name in slow)
            slow.append(client.command("Account.Deposit", deposit("slow", 4)))
            gate.open()
            await stage.settle()
            assert [client.reply(name)["cents"] for name in slow] == [1, 3, 6, 6, 10]

        disk.play(act)

    def test_many_that_wait_for_one_load_keep_their_order(self, disk: Disk, gate: Gate) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            gate.close("slow")
            names = [client.command("Account.Deposit", deposit("slow", 1)) for _ in range(300)]
            await stage.wait(100)
            gate.open()
            names += [client.command("Account.Deposit", deposit("slow", 1)) for _ in range(10)]
            await stage.settle()
            assert [client.reply(name)["cents"] for name in names] == list(range(1, 311))

        disk.play(act)

    def test_as_many_wait_as_the_mailbox_allows(self, disk: Disk, gate: Gate) -> None:
        async def act(stage: Stage) -> None:
            assert await balance(stage, "quick") == 0
            gate.close("slow")
            for cents in range(10):
                stage.bus.send(Deposit("slow", cents))
                await stage.wait(1)
            assert (await stage.health("Account")).entities == EntityHealth(1, 1, 1, 0)
            name = stage.client.command("Account.Deposit", deposit("slow", 1))
            await stage.wait(1)
            stage.client.fault(name, "Sys.Overloaded")
            assert await balance(stage, "quick") == 0
            gate.open()
            await stage.settle()
            assert await balance(stage, "slow") == sum(range(10))

        disk.play(act, mailbox=10)


@pytest.mark.guarantee("G515")
class TestFailures:
    @pytest.mark.parametrize(("cents", "then"), [(5, "raise"), (5, "exit"), (13, "")])
    def test_one_command_fails_and_its_entity_is_loaded_anew(self, disk: Disk, cents: int, then: str) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for key in ("a", "b"):
                client.command("Account.Deposit", deposit(key, 1))
            bad = client.command("Account.Deposit", deposit("a", cents, then))
            good = [client.command("Account.Deposit", deposit(key, 2)) for key in ("a", "b")]
            await stage.settle()
            client.fault(bad, "Sys.ActorCrash")
            assert [client.reply(name)["cents"] for name in good] == [3, 3]
            health = await stage.health("Account")
            assert (health.state, health.crashes, health.restarts) == ("running", 1, 0)
            assert health.last_fault is not None
            assert health.entities == EntityHealth(in_memory=2, loading=0, loads=3, evictions=0)
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason) for each in letters] == [(bad, "crashed")]

        disk.play(act)
        assert sum(page.count("entityEvent") for page in disk.kinds()) == 4

    def test_the_restart_limits_do_not_count_them(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for _ in range(20):
                name = client.command("Account.Deposit", deposit("a", 5, "raise"))
                await stage.settle()
                client.fault(name, "Sys.ActorCrash")
            assert (await stage.health("Account")).state == "running"
            assert await balance(stage, "b") == 0

        disk.play(act)

    def test_it_is_loaded_when_what_it_has_decided_is_durable(self, disk: Disk, full: Full) -> None:
        async def act(stage: Stage) -> None:
            assert await balance(stage, "a") == 0
            client = stage.connect()
            full.kinds.add(ENTITY_EVENT)
            names = [client.command("Account.Deposit", deposit("a", 5)) for _ in range(3)]
            bad = client.query("Account.Look", {"account": "a", "then": "raise"})
            await stage.wait(100)
            look = client.query("Account.Look", {"account": "a"})
            await stage.wait(2000)
            assert not client.is_answered(look)
            full.kinds.clear()
            await stage.wait(1000)
            assert [client.reply(name)["cents"] for name in names] == [5, 10, 15]
            client.fault(bad, "Sys.ActorCrash")
            # A query goes on while the disk is full, and so it has overtaken the other two.
            assert client.reply(look) == {"cents": 5}
            assert await balance(stage, "a") == 15

        disk.play(act)

    def test_so_it_is_in_the_next_incarnation_of_the_capability(self, disk: Disk, full: Full) -> None:
        async def act(stage: Stage) -> None:
            assert await balance(stage, "a") == 0
            client = stage.connect()
            full.kinds.add(ENTITY_EVENT)
            name = client.command("Account.Deposit", deposit("a", 5))
            await stage.wait(100)
            held = client.query("Account.Look", {"account": "a"})
            await stage.wait(100)
            stage.node.loop.kill_actor(stage.actor("Account"))
            await stage.wait(2000)
            client.fault(held, "Sys.ActorCrash")
            look = client.query("Account.Look", {"account": "a"})
            await stage.wait(2000)
            assert not client.is_answered(look)
            full.kinds.clear()
            await stage.wait(1000)
            assert client.reply(name) == client.reply(look) == {"cents": 5}

        disk.play(act)

    def test_one_that_cannot_be_loaded_fails_its_messages_and_no_others(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            for key in ("a", "b"):
                client.command("Account.Deposit", deposit(key, 1))
            await stage.settle()
            Account.broken.add("a")
            client.query("Account.Look", {"account": "a", "then": "raise"})
            bad = [
                client.query("Account.Look", {"account": "a"}),
                client.command("Account.Deposit", deposit("a", 1)),
            ]
            await stage.settle()
            for name in bad:
                assert "Account/a cannot be loaded" in client.fault(name, "Sys.ActorCrash").message
            assert await balance(stage, "b") == 1
            Account.broken.clear()
            assert await balance(stage, "a") == 1

        disk.play(act)

    def test_a_full_disk_can_delay_a_load(self, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
        load, is_full = EventStore.load, True

        async def load_or_refuse(self: EventStore, stream: EventStream) -> tuple[Record | None, list[Record]]:
            if is_full:
                raise JournalFullError("there is no room for the index")
            return await load(self, stream)

        monkeypatch.setattr(EventStore, "load", load_or_refuse)

        async def act(stage: Stage) -> None:
            nonlocal is_full
            client = stage.connect()
            name = client.command("Account.Deposit", deposit("a", 5), name="same")
            await stage.settle()
            fault = client.fault(name, "Sys.Unavailable")
            assert fault.retryable
            assert "there is no room for the index; nothing was done" in fault.message
            assert (await stage.health("Account")).crashes == 0
            is_full = False
            again = stage.connect("again")
            again.command("Account.Deposit", deposit("a", 5), name="same")
            await stage.settle()
            assert again.reply("same") == {"cents": 5}

        disk.play(act)

    def test_a_reset_of_the_capability_loses_nothing(self, disk: Disk, gate: Gate) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Account.Deposit", deposit("a", 1))
            await stage.settle()
            gate.close("slow")
            waiting = client.command("Account.Deposit", deposit("slow", 1))
            names = [client.command("Account.Deposit", deposit("a", 1)) for _ in range(20)]
            await stage.wait(1)
            stage.node.loop.kill_actor(stage.actor("Account"))
            await stage.wait(2000)
            gate.open()
            await stage.settle()
            client.fault(waiting, "Sys.ActorCrash")
            done = [name for name in names if client.answer(name).kind == "reply"]
            assert await balance(stage, "a") == 1 + len(done)
            assert await balance(stage, "slow") == 0

        disk.play(act)


@pytest.mark.guarantee("G516")
class TestMemory:
    def test_an_idle_entity_leaves_memory_and_comes_back(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            client.command("Account.Deposit", deposit("a", 1))
            client.command("Account.Deposit", deposit("b", 1))
            await stage.wait(40_000)
            assert (await stage.health("Account")).entities == EntityHealth(2, 0, 2, 0)
            await balance(stage, "b")
            await stage.wait(30_000)
            assert (await stage.health("Account")).entities == EntityHealth(1, 0, 2, 1)
            await stage.wait(40_000)
            assert (await stage.health("Account")).entities == EntityHealth(0, 0, 2, 2)
            assert await balance(stage, "a") == 1
            assert (await stage.health("Account")).entities == EntityHealth(1, 0, 3, 2)

        disk.play(act)

    def test_as_many_are_in_memory_as_the_class_allows(self, disk: Disk) -> None:
        alive: WeakSet[Account] = WeakSet()

        class FewAccounts(Account):
            """Few of them at a time."""

            id = "Account"
            max_in_memory = 5
            idle_after = None

            def __init__(self) -> None:
                super().__init__()
                alive.add(self)

        async def act(stage: Stage) -> None:
            client = stage.connect()
            names = [client.command("Account.Deposit", deposit(f"k{number % 40}", 1)) for number in range(80)]
            await stage.settle()
            assert sorted(client.reply(name)["cents"] for name in names) == [1] * 40 + [2] * 40
            figures = (await stage.health("Account")).entities
            assert figures is not None
            assert figures.in_memory == 5
            assert figures.loads - figures.evictions == 5
            gc.collect()
            assert len(alive) == 5
            await stage.wait(1_000_000)
            assert (await stage.health("Account")).entities == figures
            for number in range(40):
                assert await balance(stage, f"k{number}") == 2

        disk.play(act, FewAccounts)

    def test_one_whose_events_wait_for_the_disk_stays(self, disk: Disk, full: Full) -> None:
        async def act(stage: Stage) -> None:
            client = stage.connect()
            await balance(stage, "a")
            full.kinds.add(ENTITY_EVENT)
            name = client.command("Account.Deposit", deposit("a", 1))
            await stage.wait(200_000)
            assert (await stage.health("Account")).entities == EntityHealth(1, 0, 1, 0)
            full.kinds.clear()
            await stage.wait(1000)
            assert client.reply(name) == {"cents": 1}
            await stage.wait(200_000)
            assert (await stage.health("Account")).entities == EntityHealth(0, 0, 1, 1)

        disk.play(act, timeout=600)


@pytest.mark.guarantee("G517")
class TestSnapshots:
    def test_a_load_begins_with_the_newest_one(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            for _ in range(23):
                await stage.reply_to("command", "Account.Deposit", deposit("a", 1))

        disk.play(before, QuickAccount)
        assert sum(page.count("entitySnapshot") for page in disk.kinds()) == 4
        # The command does not wait for it.
        assert not any("entitySnapshot" in page and "answer" in page for page in disk.kinds())

        async def after(stage: Stage) -> None:
            assert await balance(stage, "a") == 23

        disk.play(after, QuickAccount)
        assert QuickAccount.restored == ["a"]
        # Without the class of the snapshots, all events are applied.
        disk.play(after, Account)

    def test_it_is_behind_its_events_under_load(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            client = stage.connect()
            names = [client.command("Account.Deposit", deposit("a", 1)) for _ in range(200)]
            await stage.wait(1)
            disk.crash()
            await stage.settle()
            assert client.reply(names[-1]) == {"cents": 200}

        disk.play(before, QuickAccount)
        check_snapshots(disk.journal)

        async def after(stage: Stage) -> None:
            assert await balance(stage, "a") == 200

        disk.play(after, QuickAccount)

    def test_one_that_fails_is_left_out(self, disk: Disk) -> None:
        class Failing(QuickAccount, entity="Account"):
            """Makes no snapshot."""

            id = "Account"

            def snapshot(self) -> State:
                raise SystemExit(1) if self.cents > 10 else ValueError("no picture, please")

        async def act(stage: Stage) -> None:
            for _ in range(20):
                await stage.reply_to("command", "Account.Deposit", deposit("a", 1))
            assert (await stage.health("Account")).crashes == 0

        disk.play(act, Failing)
        assert not any("entitySnapshot" in page for page in disk.kinds())


class NewDeposited(Struct, frozen=True, tag="Deposited"):
    cents: int
    currency: str


@pytest.mark.guarantee("G518")
class TestSchemas:
    def test_a_narrowing_is_an_error_at_boot_that_names_the_field(self, disk: Disk) -> None:
        class NewAccount(Entity[NewDeposited | Emptied], key="account", entity="Account"):
            """Accounts with currencies."""

            def look(self, msg: Look) -> Balance:
                return Balance(0)

            def apply(self, event: NewDeposited | Emptied) -> None: ...

        self.deposit_and_fail(disk, NewAccount)

    def deposit_and_fail(self, disk: Disk, kind: type[Capability]) -> None:
        async def before(stage: Stage) -> None:
            await stage.reply_to("command", "Account.Deposit", deposit("a", 1))

        disk.play(before)
        pages = disk.kinds()

        async def never(_stage: Stage) -> None:
            raise AssertionError("it has started")

        with pytest.raises(BootError) as caught:
            disk.play(never, kind)
        assert "field 'currency' is new, and has no default" in str(caught.value)
        assert disk.kinds() == pages

    def test_an_upcaster_reads_the_events_of_before(self, disk: Disk) -> None:
        class UpcastAccount(Entity[NewDeposited | Emptied], key="account", entity="Account"):
            """Accounts with currencies."""

            upcasters: ClassVar[Mapping[str, Upcaster]] = {
                "Deposited": lambda data: NewDeposited(data["cents"], "EUR")
            }

            def __init__(self) -> None:
                self.sums: Counter[str] = Counter()

            def look(self, msg: Look) -> Balance:
                return Balance(self.sums["EUR"])

            def apply(self, event: NewDeposited | Emptied) -> None:
                if isinstance(event, NewDeposited):
                    self.sums[event.currency] += event.cents

        async def before(stage: Stage) -> None:
            await stage.reply_to("command", "Account.Deposit", deposit("a", 3))

        async def after(stage: Stage) -> None:
            assert await balance(stage, "a") == 3

        disk.play(before)
        disk.play(after, UpcastAccount)


@pytest.mark.guarantee("G519")
def test_a_node_without_a_journal_says_what_to_pass() -> None:
    async def never(_stage: Stage) -> None:
        raise AssertionError("it has started")

    with pytest.raises(BootError) as caught:
        play(never, Account)
    assert "Account has entities" in str(caught.value)
    assert "Node(..., journal='data/journal')" in str(caught.value)
    assert "bandstand serve --journal" in str(caught.value)


@pytest.mark.guarantee("G519")
def test_two_classes_with_the_same_name_in_the_journal(disk: Disk) -> None:
    class Saved(Struct):
        pass

    class Savings(Entity[Saved], key="account", entity="Account"):
        """Other accounts."""

        def save(self, msg: Save) -> Decision[None]:
            return self.decide(None, Saved())

        def apply(self, event: Saved) -> None: ...

    async def never(_stage: Stage) -> None:
        raise AssertionError("it has started")

    with pytest.raises(BootError, match="two classes have the entity 'Account'"):
        disk.play(never, Account, Savings)


class Save(Command[None], type="Savings.Save"):
    """Save."""

    account: str


@pytest.mark.guarantee("G520")
class TestRetention:
    def test_pages_that_an_entity_needs_are_kept(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            await give(stage, "old", 7)
            await fill(stage)

        disk.play(act, journal_keep_bytes=1_000_000)
        with JournalReader(disk.journal) as reader:
            assert reader.first <= 4

        async def after(stage: Stage) -> None:
            assert await balance(stage, "old") == 7

        disk.play(after)

    def test_pages_before_the_snapshots_are_deleted_and_schemas_stay(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            for _ in range(5):
                await give(stage, "old", 7)
            await fill(stage)
            for _ in range(5):
                await give(stage, "old", 7)
            await fill(stage)

        disk.play(act, QuickAccount, journal_keep_bytes=1_000_000, timeout=600)
        with JournalReader(disk.journal) as reader:
            assert reader.first > 100
            kinds = {record.kind for page in reader.pages() for record in page.records}
        assert EVENT_SCHEMA in kinds

        async def after(stage: Stage) -> None:
            assert await balance(stage, "old") == 70

        disk.play(after, QuickAccount)

        class NewAccount(Entity[NewDeposited | Emptied], key="account", entity="Account"):
            """Accounts with currencies."""

            def look(self, msg: Look) -> Balance:
                return Balance(0)

            def apply(self, event: NewDeposited | Emptied) -> None: ...

        with pytest.raises(BootError, match="currency"):
            disk.play(after, NewAccount)

    def test_a_program_without_the_class_keeps_its_events(self, disk: Disk) -> None:
        async def before(stage: Stage) -> None:
            await give(stage, "old", 7)

        class Other(Capability):
            """Has no entities."""

            def fill(self, msg: Fill) -> None: ...

        async def without(stage: Stage) -> None:
            await fill(stage)

        disk.play(before)
        disk.play(without, Other, journal_keep_bytes=1_000_000)

        async def after(stage: Stage) -> None:
            assert await balance(stage, "old") == 7

        disk.play(after)

    def test_compact_keeps_them_too(self, disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
        async def act(stage: Stage) -> None:
            await give(stage, "old", 7)
            await fill(stage)

        disk.play(act)
        assert main(["log", "compact", "--journal", str(disk.journal), "--keep-bytes", "1000"]) == 0
        assert "events of entities" in capsys.readouterr().out

        async def after(stage: Stage) -> None:
            assert await balance(stage, "old") == 7

        disk.play(after)


class Fill(Command[None], type="Sink.Fill"):
    """Fill the journal."""

    padding: str


async def fill(stage: Stage) -> None:
    """Fill the journal with more than two checkpoints."""
    client = stage.connect()
    for number in range(120):
        client.event("Bank.Noise", {"text": "x" * 100_000, "number": number})
        await stage.settle()
    await stage.wait(1)


async def give(stage: Stage, account: str, cents: int) -> None:
    """Deposit without a client, so that no answer is remembered, whose page would be needed."""
    stage.bus.send(Deposit(account, cents))
    await stage.settle()


def deposit(account: str, cents: int, then: str = "") -> dict[str, Any]:
    return {"account": account, "cents": cents, "then": then}


async def balance(stage: Stage, account: str) -> int:
    reply = await stage.reply_to("query", "Account.Look", {"account": account})
    return int(reply["cents"])


def check_snapshots(journal: Path) -> None:
    """Check that each snapshot is behind all events that it includes, and before all others."""
    versions: Counter[str] = Counter()
    with JournalReader(journal) as reader:
        for page in reader.pages():
            for record in page.records:
                if record.kind in {ENTITY_EVENT, ENTITY_SNAPSHOT}:
                    head, _ = read_head(record.data)
                    if record.kind == ENTITY_EVENT:
                        versions[head.key] += 1
                    assert head.version == versions[head.key]


class Unkeyed(Command[None], type="Account.Unkeyed"):
    """Has no key."""

    name: str


class Numbered(Command[None], type="Account.Numbered"):
    """Has another key."""

    account: int


class Happened(Event, type="Account.Happened"):
    """Something has happened."""

    account: str


def apply_nothing(self: object, event: object) -> None: ...


def start_nothing(self: object) -> None: ...


def declare(namespace: dict[str, Any], *, key: str | None = "account") -> type[Entity[Deposited]]:
    """Declare a class of entities."""
    body: dict[str, Any] = {"__doc__": "Wrong.", "__module__": __name__, "apply": apply_nothing, **namespace}
    options = {} if key is None else {"key": key}
    made: type[Entity[Deposited]] = types.new_class(
        "Wrong", (Entity[Deposited],), options, lambda namespace: namespace.update(body)
    )
    return made


def handler(message: type, reply: object = None) -> Any:
    def handle(self: object, msg: object) -> None: ...

    handle.__annotations__ = {"msg": message, "return": reply}
    return handle


async def async_handler(self: object, msg: Deposit) -> Balance:
    return Balance(0)


@pytest.mark.guarantee("G521")
class TestDeclarations:
    @pytest.mark.parametrize(
        ("namespace", "text"),
        [
            ({"handle": handler(Unkeyed)}, "handle(): Unkeyed has no field account: str"),
            ({"handle": handler(Numbered)}, "handle(): Numbered has no field account: str"),
            ({"handle": handler(Happened)}, "handle(): an entity handles commands and queries"),
            (
                {"handle": async_handler},
                "handle(): a handler of an entity decides at once: make it a plain method",
            ),
            ({"handle": handler(Deposit, Decision)}, "handle(): returns a Decision of an unknown reply"),
            ({"look": handler(Look, Balance), "apply": vars(Entity)["apply"]}, "has no apply()"),
            ({"look": handler(Look, Balance), "apply": async_handler}, "apply() is async"),
            (
                {"look": handler(Look, Balance), "on_start": start_nothing},
                "on_start() is not called for entities",
            ),
            ({"look": handler(Look, Balance), "concurrency": 2}, "remove concurrency and on_timeout"),
            ({"look": handler(Look, Balance), "on_timeout": "kill"}, "remove concurrency and on_timeout"),
            ({"look": handler(Look, Balance), "idle_after": 0}, "idle_after is 0"),
            ({"look": handler(Look, Balance), "max_in_memory": "2"}, "max_in_memory is '2'"),
            ({"look": handler(Look, Balance), "snapshot_every": 0}, "snapshot_every is 0"),
            ({"look": handler(Look, Balance), "idle_afer": 5}, "idle_afer is not an option"),
            ({"look": handler(Look, Balance), "snapshot": handler(Look, int)}, "snapshot returns"),
        ],
    )
    def test_a_mistake_is_an_error_before_the_start(self, namespace: dict[str, Any], text: str) -> None:
        with pytest.raises(ContractError) as caught:
            read_capability(declare(namespace))
        assert text in str(caught.value)
        assert "Wrong" in str(caught.value)

    def test_a_class_needs_a_key(self) -> None:
        with pytest.raises(ContractError, match="capability Wrong has no key: name the field"):
            read_capability(declare({"look": handler(Look, Balance)}, key=None))
        with pytest.raises(ContractError, match="key is 'no name': pass the name of the field"):
            declare({}, key="no name")

    def test_events_are_structs(self) -> None:
        with pytest.raises(DeclarationError, match=r"is not a class derived from msgspec\.Struct"):
            types.new_class("Wrong", (Entity[int],), {"key": "account"})  # type: ignore[type-var]
        with pytest.raises(DeclarationError, match="derives from Entity without its events"):
            types.new_class("Wrong", (Entity,), {"key": "account"})

    def test_it_does_not_run_in_another_process(self) -> None:
        with pytest.raises(ContractError, match="run in the process of their node"):
            read_capability(isolated(Account))

    def test_it_has_no_timers(self) -> None:
        with pytest.raises(LoopBusyError, match=r"use self\.bus\.send_later"):
            Account().after(1, print)

    def test_a_base_leaves_the_events_open(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Account.Deposit", deposit("a", 5)) == {"cents": 5}

        disk.play(act, Derived)


E = TypeVar("E", bound=Struct)


class Base(Entity[E], key="account"):
    """A base of accounts."""

    def apply(self, event: E) -> None: ...


class Derived(Base[Deposited]):
    """Accounts that forget."""

    def deposit(self, msg: Deposit) -> Decision[Balance]:
        return self.decide(Balance(msg.cents), Deposited(msg.cents))


@pytest.mark.guarantee("G522")
def test_what_the_node_says_of_its_entities(disk: Disk) -> None:
    async def act(stage: Stage) -> None:
        found = (await stage.bus.ask(Describe(capability="Account"))).capabilities
        assert [each.key for each in found] == ["account"]
        commands = [each for each in found[0].handles if each.kind == "command"]
        assert all(each.retry_safe for each in commands)
        assert commands[0].reply["title"] == "Balance"
        text = show_all(await stage.bus.ask(Describe(capability="Account")))
        assert text.splitlines()[0] == "Account: The balance of each account. (one for each account)"
        assert (await stage.bus.ask(Describe(capability="Syscall"))).capabilities[0].key is None
        health = await stage.reply_to("query", "Syscall.Health")
        assert health["capabilities"]["Account"]["entities"] == {
            "inMemory": 0,
            "loading": 0,
            "loads": 0,
            "evictions": 0,
        }
        assert "entities" not in health["capabilities"]["Syscall"]

    disk.play(act)
