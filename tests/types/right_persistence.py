"""What a user of persistent actors may write: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, assert_type

from msgspec import Struct

from bandstand import ActorSystem, ask, child, tell
from bandstand.journal import Journal, JournalIndex, Record, RecordPosition
from bandstand.persistence import EventStore, PersistentActor, Upcaster, event_keys, open_event_store
from bandstand.supervision import Supervisor, SupervisorSpec, spawn_supervisor

E = TypeVar("E", bound=Struct)


class Opened(Struct):
    owner: str


class Deposited(Struct):
    amount: int


class State(Struct):
    balance: int


def in_euro(data: dict[str, Any]) -> Deposited | None:
    return Deposited(data["amount"]) if data else None


class Account(PersistentActor[Opened | Deposited], ask_timeout=3, entity="account"):
    snapshot_every = 50
    upcasters: ClassVar[Mapping[str, Upcaster]] = {"Paid": in_euro}

    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.balance = 0

    def apply(self, event: Opened | Deposited) -> None:
        if isinstance(event, Deposited):
            self.balance += event.amount

    def snapshot(self) -> State:
        return State(self.balance)

    def restore(self, state: State) -> None:
        self.balance = state.balance

    async def on_recovered(self) -> None: ...

    @ask
    async def deposit(self, amount: int) -> int:
        await self.persist(Deposited(amount))
        await self.persist(Opened("Alice"), Deposited(amount))
        return self.balance

    @tell
    async def put(self, *deposits: Deposited) -> None:
        await self.persist(*deposits)


class OneEvent(PersistentActor[Deposited]):
    def apply(self, event: Deposited) -> None: ...


class Base(PersistentActor[E]):
    def apply(self, event: E) -> None: ...


class Derived(Base[Deposited]):
    @tell
    async def put(self) -> None:
        await self.persist(Deposited(1))


async def use() -> None:
    async with open_event_store("journal", Account, OneEvent, Derived) as store, ActorSystem() as system:
        assert_type(store, EventStore)
        account = system.spawn(Account, store, "alice")
        assert_type(account, Account)
        assert_type(await account.deposit(5), int)
        spec = SupervisorSpec(children=[child("alice").of(Account, store, key="alice")])
        root: Supervisor = spawn_supervisor(system, spec)
        assert_type(root.handle(Account, "alice"), Account)
        assert_type(await store.delete_unneeded(), int)
    async with Journal("journal") as journal, JournalIndex("journal", event_keys) as index:
        EventStore("journal", journal, index)
        assert_type(index.find("key", "account/alice", after=RecordPosition(1, 1)), list[RecordPosition])
        await index.rebuild(lambda page, last: page / last)
        JournalIndex("journal", lambda record: [("kind", str(record.kind))])
    list(event_keys(Record(1, b"")))
