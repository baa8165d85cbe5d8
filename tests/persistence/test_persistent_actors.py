"""Persistent actors: what was persisted is there after a crash of the actor and of the process, and nothing else is."""

# Classes that are refused are not used.
# pyright: reportUnusedClass=false

from __future__ import annotations

import asyncio
import gc
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import Struct

from bandstand import ActorSystem, ask, tell
from bandstand.errors import (
    DeclarationError,
    EventStoreError,
    InvalidArgumentError,
    JournalError,
    JournalFullError,
    StartError,
    TargetEndedError,
)
from bandstand.journal import Journal, JournalReader, Record
from bandstand.persistence import EventStore, EventStream, PersistentActor, open_event_store
from bandstand.persistence.records import ENTITY_EVENT, ENTITY_SNAPSHOT, read_head
from bandstand.supervision import Supervisor
from tests.persistence.accounts import (
    Account,
    AccountEvent,
    AccountState,
    Deposited,
    Opened,
    QuickAccount,
    WideAccount,
    supervised,
    until,
)

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def alice(root: Supervisor, kind: type[Account] = Account) -> Account:
    return root.handle(kind, "alice")


class SlowJournal:
    """A journal that reports a write only when it is told to. It is written at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.held: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def write(self, records: Sequence[Record], done: Callable[[int, JournalError | None], object]) -> None:
        def hold(page: int, error: JournalError | None) -> None:
            self.held = partial(done, page, error)

        self._journal.write(records, hold)

    def release(self) -> None:
        assert self.held is not None
        self.held()


def versions(directory: Path, kind: int) -> list[int]:
    """Return the versions of the events, or of the snapshots, in a journal."""
    with JournalReader(directory) as reader:
        return [
            read_head(record.data)[0].version
            for page in reader.pages()
            for record in page.records
            if record.kind == kind
        ]


@pytest.mark.guarantee("G485")
class TestPersist:
    def test_it_returns_when_the_events_are_durable_and_applied(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory) as (root, store):
                before = store.journal.stats().records
                assert await alice(root).open("Alice", 1, 2) == 3
                stats = store.journal.stats()
                assert stats.records == before + 3
                # In one page.
                with JournalReader(directory) as reader:
                    (page,) = reader.pages(since=stats.last)
                assert [record.kind for record in page.records] == [ENTITY_EVENT] * 3

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1, 2, 3]

    def test_an_event_that_cannot_be_written_changes_nothing(self, directory: Path, run: Run) -> None:
        class Wrong(Account, entity="Account"):
            @ask(raises=InvalidArgumentError)
            async def put(self, *events: Any) -> None:
                await self.persist(*events)

        class Other(Struct):
            amount: int

        async def body() -> None:
            async with open_event_store(directory, Wrong) as store, ActorSystem() as system:
                account = system.spawn(Wrong, store, "alice")
                unreadable: Any = "ten"
                for events in ([Other(1)], [Deposited(unreadable)], [Deposited(1), 5], [Deposited]):
                    with pytest.raises(InvalidArgumentError, match="Account"):
                        await account.put(*events)
                await account.put()
                assert await account.total() == 0
                assert await account.deposit(2) == 2

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1]

    def test_what_is_applied_is_what_will_be_read_back(self, directory: Path, run: Run) -> None:
        class Added(Struct):
            products: list[str]

        class Basket(PersistentActor[Added], ask_timeout=None):
            def __init__(self, store: EventStore, key: str) -> None:
                super().__init__(store, key)
                self.products: list[str] = []

            def apply(self, event: Added) -> None:
                self.products = event.products

            @ask
            async def add(self, *products: str) -> list[str]:
                event = Added(list(products))
                await self.persist(event)
                event.products.clear()
                return self.products

            @ask
            def content(self) -> list[str]:
                return self.products

        async def body() -> None:
            async with open_event_store(directory, Basket) as store, ActorSystem() as system:
                assert await system.spawn(Basket, store, "1").add("tea") == ["tea"]
                assert await system.spawn(Basket, store, "1").content() == ["tea"]

        run(body())

    def test_actors_share_commits(self, directory: Path, run: Run) -> None:
        keys = [f"account-{number}" for number in range(50)]

        async def body() -> None:
            async with supervised(directory, Account, *keys) as (root, store):
                accounts = [root.handle(Account, key) for key in keys]
                await asyncio.gather(*[account.total() for account in accounts])
                before = store.journal.stats().pages
                await asyncio.gather(*[account.deposit(1) for account in accounts])
                assert store.journal.stats().pages - before < 25

        run(body())

    def test_calls_that_overlap_are_written_in_order(self, directory: Path, run: Run) -> None:
        class Busy(Account, entity="Account"):
            @ask
            async def deposit_all(self, *amounts: int) -> int:
                await asyncio.gather(*[self.persist(Deposited(amount)) for amount in amounts])
                return self.balance

        async def body() -> None:
            async with open_event_store(directory, Busy) as store, ActorSystem() as system:
                account = system.spawn(Busy, store, "alice")
                assert await account.deposit_all(1, 2, 3, 4) == 10

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1, 2, 3, 4]


@pytest.mark.guarantee("G486")
class TestRecovery:
    def test_a_restarted_actor_has_its_state(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory, Account, "alice", "bob") as (root, _):
                account, other = alice(root), root.handle(Account, "bob")
                await account.open("Alice", 5)
                await other.deposit(100)
                account.crash()
                assert await account.total() == 5
                assert await account.applied_here() == 2
                assert await account.deposit(1) == 6
                assert await other.total() == 100

        run(body())

    def test_the_next_process_has_the_state(self, directory: Path, run: Run) -> None:
        async def deposit(amount: int) -> int:
            async with supervised(directory) as (root, _):
                return await alice(root).deposit(amount)

        assert [run(deposit(amount)) for amount in (1, 2, 3)] == [1, 3, 6]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["plain", "quick", "deleting"])
    def test_a_killed_process_loses_nothing_that_it_has_answered(
        self, directory: Path, run: Run, kind: str
    ) -> None:
        random_ = random.Random(7)
        answered = [0, 0]
        program = [sys.executable, "-m", "tests.persistence.accounts", str(directory), kind]
        for _ in range(4):
            with subprocess.Popen(program, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
                assert process.stdout is not None
                for _ in range(random_.randrange(1, 60)):
                    answered = list(map(int, process.stdout.readline().split()))
                process.send_signal(signal.SIGKILL)
                rest = process.stdout.read().splitlines()
                if rest:
                    answered = list(map(int, rest[-1].split()))

            async def balances() -> list[int]:
                counted = Account if kind == "plain" else QuickAccount
                async with supervised(directory, counted, "alice", "bob") as (root, _):
                    return [await root.handle(counted, key).total() for key in ("alice", "bob")]

            found = run(balances())
            # One deposit of each may have been on its way.
            assert all(known <= balance <= known + 1 for known, balance in zip(answered, found, strict=True))

    def test_on_recovered_sees_the_state_and_may_persist(self, directory: Path, run: Run) -> None:
        class Greeted(Account, entity="Account"):
            async def on_recovered(self) -> None:
                if not self.owner:
                    await self.persist(Opened(self.me_key()))

            def me_key(self) -> str:
                return "somebody"

            @ask
            def who(self) -> str:
                return self.owner

        async def body() -> str:
            async with open_event_store(directory, Greeted) as store, ActorSystem() as system:
                return await system.spawn(Greeted, store, "alice").who()

        assert [run(body()), run(body())] == ["somebody"] * 2
        assert versions(directory, ENTITY_EVENT) == [1]

    def test_keys_and_classes_do_not_mix(self, directory: Path, run: Run) -> None:
        class Purse(Account):
            pass

        async def body() -> None:
            async with open_event_store(directory, Account, Purse) as store, ActorSystem() as system:
                await system.spawn(Account, store, "a/b").deposit(1)
                await system.spawn(Account, store, "a").deposit(2)
                await system.spawn(Purse, store, "a").deposit(3)
                for kind, key, balance in ((Account, "a/b", 1), (Account, "a", 2), (Purse, "a", 3)):
                    assert await system.spawn(kind, store, key).total() == balance

        run(body())


@pytest.mark.guarantee("G487")
class TestOneIncarnation:
    def test_the_newest_actor_of_a_key_writes(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with open_event_store(directory, Account) as store, ActorSystem() as system:
                first = system.spawn(Account, store, "alice")
                await first.deposit(1)
                second = system.spawn(Account, store, "alice")
                assert await second.deposit(1) == 2
                with pytest.raises(TargetEndedError) as caught:
                    await first.deposit(1)
                assert isinstance(caught.value.__cause__, EventStoreError)
                assert "taken over by a newer actor" in str(caught.value.__cause__)
                assert await second.total() == 2

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1, 2]

    def test_an_actor_that_was_killed_during_a_write_is_followed_by_one_that_has_it(
        self, directory: Path, run: Run
    ) -> None:
        async def body() -> None:
            async with open_event_store(directory, Account) as store, ActorSystem() as system:
                for total in range(1, 20):
                    account = system.spawn(Account, store, "alice")
                    await account.total()
                    answer = account.deposit(1)
                    # Until the handler waits for the disk.
                    await until(lambda: store.journal.stats().waiting_bytes > 0)
                    account.kill()
                    with pytest.raises(TargetEndedError):
                        await answer
                    assert await system.spawn(Account, store, "alice").total() == total

        run(body())

    def test_actors_that_have_ended_leave_nothing_in_the_store(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with open_event_store(directory, Account) as store, ActorSystem() as system:
                for number in range(20):
                    account = system.spawn(Account, store, f"account-{number}")
                    await account.deposit(1)
                    account.stop()
                    await account.ended()
                gc.collect()
                assert sum(isinstance(found, EventStream) for found in gc.get_objects()) <= 1

        run(body())


@pytest.mark.guarantee("G488")
class TestCancel:
    def test_a_cancelled_ask_is_applied_before_the_next_message(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory) as (root, store):
                account = alice(root)
                await account.total()
                journal = SlowJournal(store.journal)
                store.journal = cast("Journal", journal)
                answer = asyncio.ensure_future(account.deposit(1))
                await until(lambda: journal.held is not None)
                answer.cancel()
                total = asyncio.ensure_future(account.total())
                for _ in range(100):
                    await asyncio.sleep(0)
                assert answer.cancelled()
                assert not total.done()
                journal.release()
                assert await total == 1
                assert await account.applied_here() == 1

        run(body())


@pytest.mark.guarantee("G489")
class TestRefusedWrites:
    def test_a_write_that_is_refused_changes_nothing_and_can_be_repeated(
        self, directory: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def body() -> None:
            async with supervised(directory) as (root, store):
                account = alice(root)
                await account.deposit(1)
                write = store.journal.write
                errors: list[JournalFullError | None] = [
                    JournalFullError("no room"),
                    JournalFullError("no room"),
                    None,
                ]

                class Full:
                    """A journal whose disk is full at first."""

                    def __getattr__(self, name: str) -> Any:
                        return getattr(journal, name)

                    def write(self, records: Any, done: Callable[[int, Any], object]) -> None:
                        error = errors.pop(0)
                        if error is None:
                            write(records, done)
                        else:
                            asyncio.get_running_loop().call_soon(done, 0, error)

                journal = store.journal
                full: Any = Full()
                store.journal = full
                for _ in range(2):
                    with pytest.raises(JournalFullError):
                        await account.deposit(1)
                assert await account.total() == 1
                assert await account.deposit(1) == 2
                assert await account.applied_here() == 2

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1, 2]


@pytest.mark.guarantee("G490")
class TestApplyThatRaises:
    def test_it_fails_the_actor_and_every_incarnation_after_it(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with open_event_store(directory, Account) as store, ActorSystem() as system:
                account = system.spawn(Account, store, "alice")
                with pytest.raises(TargetEndedError) as caught:
                    await account.deposit(13)
                assert isinstance(caught.value.__cause__, ValueError)
                again = system.spawn(Account, store, "alice")
                with pytest.raises(TargetEndedError) as caught:
                    await again.total()
                assert "bad luck" in str(caught.value.__cause__)

        run(body())

    def test_an_actor_that_swallows_the_error_can_write_no_more(self, directory: Path, run: Run) -> None:
        class Careless(Account, entity="Account"):
            @tell
            async def try_deposit(self, amount: int) -> None:
                with suppress(ValueError):
                    await self.persist(Deposited(amount), Deposited(1))

        async def body() -> None:
            async with open_event_store(directory, Careless) as store, ActorSystem() as system:
                account = system.spawn(Careless, store, "alice")
                account.try_deposit(13)
                with pytest.raises(TargetEndedError) as caught:
                    await account.deposit(1)
                assert "could not apply an event" in str(caught.value.__cause__)

        run(body())
        assert versions(directory, ENTITY_EVENT) == [1, 2]


@pytest.mark.guarantee("G491")
class TestSnapshots:
    def test_a_start_applies_only_what_follows_the_snapshot(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory, QuickAccount) as (root, _):
                account = alice(root, QuickAccount)
                await account.open("Alice")
                for _ in range(12):
                    await account.deposit(1)
                account.crash()
                assert (await account.total(), await account.applied_here()) == (12, 3)
                assert await account.deposit(1) == 13

        run(body())
        assert versions(directory, ENTITY_SNAPSHOT) == [5, 10]
        assert versions(directory, ENTITY_EVENT) == list(range(1, 15))

    def test_a_snapshot_of_another_class_is_ignored(self, directory: Path, run: Run) -> None:
        async def deposit(kind: type[Account], times: int) -> tuple[int, int]:
            async with open_event_store(directory, kind) as store, ActorSystem() as system:
                account = system.spawn(kind, store, "alice")
                applied = await account.applied_here()
                for _ in range(times):
                    await account.deposit(1)
                return applied, await account.total()

        assert run(deposit(QuickAccount, 7)) == (0, 7)
        assert run(deposit(WideAccount, 7)) == (7, 14)
        assert run(deposit(WideAccount, 0)) == (1, 14)
        # The other one is still there, for a program that has gone back.
        assert run(deposit(QuickAccount, 0)) == (9, 14)
        assert run(deposit(Account, 0)) == (14, 14)

    def test_a_snapshot_that_fails_is_logged_and_has_no_other_effect(
        self, directory: Path, run: Run, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Failing(QuickAccount, entity="Account"):
            def snapshot(self) -> AccountState:
                if self.balance == 5:
                    raise RuntimeError("no snapshot today")
                wrong: Any = Opened("nobody")
                return wrong if self.balance == 10 else AccountState(self.owner, self.balance)

        async def body() -> None:
            async with open_event_store(directory, Failing) as store, ActorSystem() as system:
                account = system.spawn(Failing, store, "alice")
                assert [await account.deposit(1) for _ in range(17)] == list(range(1, 18))

        run(body())
        assert versions(directory, ENTITY_SNAPSHOT) == [15]
        assert "no snapshot today" in caplog.text
        assert "is of type Opened, not AccountState" in caplog.text


@pytest.mark.guarantee("G492")
class TestDeletion:
    def test_pages_before_the_snapshots_can_be_deleted(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory, QuickAccount, "alice", "bob") as (root, store):
                accounts = [root.handle(QuickAccount, key) for key in ("alice", "bob")]
                for _ in range(5):
                    await accounts[0].deposit(1)
                for _ in range(12):
                    await accounts[1].deposit(1)
                assert await store.delete_unneeded() > 4
                assert await store.delete_unneeded() == 0
                for account in accounts:
                    account.crash()
                assert [await account.total() for account in accounts] == [5, 12]

        async def again() -> None:
            async with supervised(directory, QuickAccount, "alice", "bob") as (root, store):
                accounts = [root.handle(QuickAccount, key) for key in ("alice", "bob")]
                assert [await account.total() for account in accounts] == [5, 12]
                # What is left of Alice is a snapshot, and it is still needed.
                assert await accounts[1].deposit(1) == 13
                for _ in range(10):
                    await accounts[1].deposit(1)
                await store.delete_unneeded()
                accounts[0].crash()
                assert await accounts[0].total() == 5

        run(body())
        run(again())

    def test_without_snapshots_everything_is_kept(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory) as (root, store):
                for _ in range(12):
                    await alice(root).deposit(1)
                # The first page has the schemas.
                assert await store.delete_unneeded() == 1
                alice(root).crash()
                assert await alice(root).total() == 12

        run(body())
        assert versions(directory, ENTITY_EVENT) == list(range(1, 13))

    @pytest.mark.parametrize("later", [0, 2])
    def test_an_actor_whose_events_were_deleted_does_not_begin_anew(
        self, directory: Path, run: Run, later: int
    ) -> None:
        async def delete() -> None:
            async with supervised(directory, QuickAccount) as (root, store):
                for _ in range(5 + later):
                    await alice(root, QuickAccount).deposit(1)
                # The snapshot is written behind the answer.
                await until(lambda: store.journal.stats().waiting_bytes == 0)
                assert await store.delete_unneeded() > 1

        async def start() -> None:
            async with open_event_store(directory, Account) as store, ActorSystem() as system:
                account = system.spawn(Account, store, "alice")
                with pytest.raises(TargetEndedError) as caught:
                    await account.total()
                assert isinstance(caught.value.__cause__, EventStoreError)
                assert "has had 5 events at one point, and only 0" in str(caught.value.__cause__)

        run(delete())
        run(start())


@pytest.mark.guarantee("G495")
class TestDeclarations:
    def test_the_events_are_declared_as_structs(self) -> None:
        with pytest.raises(DeclarationError, match="without its events: write PersistentActor"):

            class NoEvents(PersistentActor):  # type: ignore[type-arg]  # pyright: ignore[reportMissingTypeArgument]
                pass

        with pytest.raises(DeclarationError, match=r"is not a class derived from msgspec\.Struct"):

            class Plain(PersistentActor[int]):  # type: ignore[type-var]  # pyright: ignore[reportInvalidTypeArguments]
                pass

        class Row(Struct, array_like=True):
            amount: int

        with pytest.raises(DeclarationError, match="Row is array_like"):

            class Rows(PersistentActor[Row]):
                pass

        class Strange(Struct):
            amount: complex

        with pytest.raises(DeclarationError, match="Strange has a field that JSON does not have"):

            class Strangers(PersistentActor[Strange]):
                pass

        class Twice(Struct, tag="Deposited"):
            amount: int

        with pytest.raises(DeclarationError, match="two events with the name 'Deposited'"):

            class Twins(PersistentActor[Deposited | Twice]):
                pass

        with pytest.raises(DeclarationError, match="choose one without slashes"):

            class Slashed(Account, entity="a/b"):
                pass

    def test_what_recovers_cannot_be_overridden(self) -> None:
        with pytest.raises(DeclarationError, match=r"overrides on_start, .* override on_recovered"):

            class OwnStart(Account):
                async def on_start(self) -> None:
                    pass

        with pytest.raises(DeclarationError, match="overrides persist"):

            class OwnPersist(Account):
                async def persist(self, *events: AccountEvent) -> None:
                    pass

        with pytest.raises(DeclarationError, match="apply is async"):

            class AsyncApply(Account):
                async def apply(self, event: AccountEvent) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
                    pass

    def test_a_snapshot_is_annotated_with_a_struct(self, directory: Path) -> None:
        class Untyped(Account):
            def snapshot(self):  # type: ignore[no-untyped-def]
                return None

        class Wrong(Account):
            def snapshot(self) -> int:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
                return 1

        class Unresolved(Account):
            def snapshot(self) -> Missing:  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
                return None

        for kind in (Untyped, Wrong, Unresolved):
            with pytest.raises(DeclarationError, match=f"{kind.__name__}.snapshot"):
                open_event_store(directory, kind)

    def test_a_generic_base_class_leaves_the_events_open(self, directory: Path, run: Run) -> None:
        from typing import TypeVar

        E = TypeVar("E", bound=Struct)

        class Counting(PersistentActor[E]):
            count = 0

            def apply(self, event: E) -> None:
                self.count += 1

            @ask
            def counted(self) -> int:
                return self.count

        class Deposits(Counting[Deposited], ask_timeout=None):
            @tell
            async def put(self) -> None:
                await self.persist(Deposited(1))

        async def body() -> None:
            with pytest.raises(DeclarationError, match="has no events"):
                open_event_store(directory, Counting)
            async with open_event_store(directory, Deposits) as store, ActorSystem() as system:
                deposits = system.spawn(Deposits, store, "all")
                deposits.put()
                assert await deposits.counted() == 1

        run(body())

    def test_wrong_arguments_are_named(self, directory: Path, run: Run) -> None:
        class Forgetful(Account):
            def __init__(self, store: EventStore, key: str) -> None:
                self.balance = 0

        class Quick(Account):
            pass

        class Careful(Account):
            snapshot_every = 0

        wrong: Any = int
        with pytest.raises(DeclarationError, match="is not a class derived from PersistentActor"):
            open_event_store(directory, wrong)

        async def body() -> None:
            async with (
                open_event_store(directory, Careful, Forgetful, Quick) as store,
                ActorSystem() as system,
            ):
                number: Any = 5
                for kind, key, text in (
                    (Forgetful, "a", "call super.*__init__"),
                    (Account, "a", "does not know Account: pass the class to open_event_store"),
                    (Quick, number, "Quick: key is 5: pass a string"),
                    (Quick, "", "Quick: key is '': pass a string"),
                    (Quick, "\udcff", "Quick: key is .*: pass a string"),
                    (Careful, "a", "snapshot_every"),
                ):
                    account = system.spawn(kind, store, key)
                    with pytest.raises((TargetEndedError, StartError)) as caught:
                        await account.total()
                    assert caught.value.__cause__ is not None
                    with pytest.raises(InvalidArgumentError, match=text):
                        raise caught.value.__cause__

        run(body())

    def test_two_classes_cannot_be_the_same_entity(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            with pytest.raises(InvalidArgumentError, match="two classes have the entity 'Account'"):
                async with open_event_store(directory, Account, QuickAccount):
                    pass
            async with open_event_store(directory, Account, Account):
                pass

        run(body())

    def test_a_store_belongs_to_one_event_loop(self, directory: Path, run: Run) -> None:
        async def elsewhere(store: EventStore) -> None:
            async with ActorSystem() as system:
                account = system.spawn(Account, store, "alice")
                with pytest.raises(TargetEndedError) as caught:
                    await account.total()
                assert "runs on another event loop" in str(caught.value.__cause__)

        async def body() -> None:
            async with open_event_store(directory, Account) as store:
                await asyncio.to_thread(asyncio.run, elsewhere(store))

        run(body())

    def test_handles_do_not_offer_what_is_for_the_actor_itself(self, directory: Path, run: Run) -> None:
        async def body() -> None:
            async with supervised(directory) as (root, _):
                with pytest.raises(AttributeError):
                    await alice(root).persist(Deposited(1))
                assert msgspec.json.encode(Deposited(await alice(root).total())) == b'{"amount":0}'

        run(body())
