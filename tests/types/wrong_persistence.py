"""What a user of persistent actors must not write: both checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from bandstand import ActorSystem, ask, child
from bandstand.actor import Actor
from bandstand.journal import Journal, JournalIndex, Record
from bandstand.persistence import EventStore, PersistentActor, Upcaster, open_event_store


class Opened(Struct):
    owner: str


class Deposited(Struct):
    amount: int


class Closed(Struct):
    pass


class NoEvents(PersistentActor[int]):  # E:
    pass


class Plain(Actor):
    pass


class Account(PersistentActor[Opened | Deposited]):
    snapshot_every = "often"  # E:
    upcasters: ClassVar[Mapping[str, Upcaster]] = {"Paid": len}  # E:

    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store)  # E:

    def apply(self, event: Deposited) -> None:  # E:
        pass

    def snapshot(self) -> int:  # E:
        return 1

    @ask
    async def deposit(self, amount: int) -> int:
        await self.persist(Closed())  # E:
        await self.persist(amount)  # E:
        await self.persist(Deposited(amount), Closed())  # E:
        await self.persist([Deposited(amount)])  # E:
        self.persist(Deposited(amount))  # E:
        return await self.persist(Deposited(amount))  # E:


def no_keys(record: Record) -> Iterable[str]:
    return []


async def use(journal: Journal, index: JournalIndex) -> None:
    open_event_store("journal", Plain)  # E:
    open_event_store("journal", Account())  # E:
    open_event_store("journal", Account, on_failure=print, poll=1)  # E:
    JournalIndex("journal", no_keys)  # E:
    index.find("key", "alice", after=1)  # E:
    index.find("key", 5)  # E:
    index.wake(5)  # E:
    async with open_event_store("journal", Account) as store, ActorSystem() as system:
        system.spawn(Account, store)  # E:
        system.spawn(Account, "journal", "alice")  # E:
        child("alice").of(Account, store, 5)  # E:
        account = system.spawn(Account, store, "alice")
        await account.deposit("5")  # E:
        await store.register(Account)  # E:
    async with EventStore("journal"):  # E:
        pass
