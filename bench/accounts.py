"""A persistent account, for `deposits`. It needs msgspec, which the peers' environment may lack."""

from __future__ import annotations

from msgspec import Struct

from bandstand.actor import ask
from bandstand.persistence import EventStore, PersistentActor


class Opened(Struct, frozen=True):
    owner: str


class Deposited(Struct, frozen=True):
    amount: int


class Account(PersistentActor[Opened | Deposited], ask_timeout=None):
    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.owner = ""
        self.balance = 0

    def apply(self, event: Opened | Deposited) -> None:
        if isinstance(event, Opened):
            self.owner = event.owner
        else:
            self.balance += event.amount

    @ask
    async def open(self, owner: str) -> None:
        await self.persist(Opened(owner))

    @ask
    async def deposit(self, amount: int) -> int:
        await self.persist(Deposited(amount))
        return self.balance

    @ask
    def total(self) -> int:
        return self.balance
