"""Accounts for the tests of persistent actors. As a program, it deposits until it is killed: `python -m tests.persistence.accounts DIRECTORY`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from bandstand import ActorSystem, ask, child, tell
from bandstand.errors import JournalFullError
from bandstand.persistence import EventStore, PersistentActor, open_event_store
from bandstand.supervision import Supervisor, SupervisorSpec, spawn_supervisor


class Opened(Struct, frozen=True):
    owner: str


class Deposited(Struct, frozen=True):
    amount: int


AccountEvent = Opened | Deposited


class Account(PersistentActor[AccountEvent], ask_timeout=None):
    def __init__(self, store: EventStore, key: str) -> None:
        super().__init__(store, key)
        self.owner = ""
        self.balance = 0
        self.applied = 0

    def apply(self, event: AccountEvent) -> None:
        self.applied += 1
        if isinstance(event, Opened):
            self.owner = event.owner
        elif event.amount == 13:
            raise ValueError("13 brings bad luck")
        else:
            self.balance += event.amount

    @ask(raises=JournalFullError)
    async def open(self, owner: str, *amounts: int) -> int:
        await self.persist(Opened(owner), *map(Deposited, amounts))
        return self.balance

    @ask(raises=JournalFullError)
    async def deposit(self, amount: int) -> int:
        await self.persist(Deposited(amount))
        return self.balance

    @ask
    def total(self) -> int:
        return self.balance

    @ask
    def applied_here(self) -> int:
        """How many events this incarnation has applied."""
        return self.applied

    @tell
    def crash(self) -> None:
        raise RuntimeError("the account has crashed")


class AccountState(Struct):
    owner: str
    balance: int


class QuickAccount(Account, entity="Account"):
    """The same account with snapshots."""

    snapshot_every = 5

    def snapshot(self) -> AccountState:
        return AccountState(self.owner, self.balance)

    def restore(self, state: AccountState) -> None:
        self.owner, self.balance = state.owner, state.balance


class WideState(Struct):
    owner: str
    balance: int
    currency: str = "EUR"


class WideAccount(Account, entity="Account"):
    """The same account with other snapshots."""

    snapshot_every = 5

    def snapshot(self) -> WideState | None:
        return WideState(self.owner, self.balance)

    def restore(self, state: WideState) -> None:
        self.owner, self.balance = state.owner, state.balance


@asynccontextmanager
async def supervised(
    directory: Path, kind: type[Account] = Account, *keys: str, **options: Any
) -> AsyncGenerator[tuple[Supervisor, EventStore]]:
    """Run accounts under a supervisor; its children are named after their keys."""
    async with open_event_store(directory, kind) as store, ActorSystem() as system:
        children = [child(key, **options).of(kind, store, key) for key in keys or ("alice",)]
        yield spawn_supervisor(system, SupervisorSpec(children=children)), store


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until something is the case."""
    while not condition():  # noqa: ASYNC110  # there is no event to wait for
        await asyncio.sleep(0)


async def deposit_for_ever(directory: Path, kind: type[Account], *, deletes: bool) -> None:
    async with supervised(directory, kind, "alice", "bob") as (root, store):
        accounts = [root.handle(kind, key) for key in ("alice", "bob")]
        while True:
            balances = await asyncio.gather(*[account.deposit(1) for account in accounts])
            if deletes and balances[0] % 7 == 0:
                await store.delete_unneeded()
            print(*balances, flush=True)  # noqa: T201  # the output of the program


if __name__ == "__main__":
    how = sys.argv[2]
    asyncio.run(
        deposit_for_ever(
            Path(sys.argv[1]), Account if how == "plain" else QuickAccount, deletes=how == "deleting"
        )
    )
