"""What a user of entities may write: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, assert_type

from msgspec import Struct

from bandstand.bus import Capability, Command, Decision, Entity, Node, Query, provide
from bandstand.persistence import Upcaster

E = TypeVar("E", bound=Struct)


class Opened(Struct):
    owner: str


class Deposited(Struct):
    amount: int


class State(Struct):
    balance: int


class Deposit(Command[int], type="Account.Deposit"):
    account: str
    amount: int


class Open(Command[None], type="Account.Open"):
    account: str
    owner: str


class Look(Query[int | None], type="Account.Look"):
    account: str


def in_euro(data: dict[str, Any]) -> Deposited | None:
    return Deposited(data["amount"]) if data else None


class Account(Entity[Opened | Deposited], key="account", entity="account"):
    """Accounts."""

    snapshot_every = 50
    idle_after = 5
    max_in_memory = 100
    upcasters: ClassVar[Mapping[str, Upcaster]] = {"Paid": in_euro}

    def __init__(self, limit: int = 100) -> None:
        self.balance = 0
        self.limit = limit

    def deposit(self, msg: Deposit) -> Decision[int]:
        assert_type(self.key, str)
        decision = self.decide(self.balance + msg.amount, Deposited(msg.amount))
        assert_type(decision, Decision[int])
        assert_type(decision.reply, int)
        assert_type(decision.events, tuple[Struct, ...])
        return decision

    def open(self, msg: Open) -> Decision[None]:
        if self.balance:
            return self.decide(None)
        return self.decide(None, Opened(msg.owner), Deposited(0))

    def look(self, msg: Look) -> int | None:
        return self.balance or None

    def wide(self) -> Decision[int | None]:
        return self.decide(None)

    def apply(self, event: Opened | Deposited) -> None:
        if isinstance(event, Deposited):
            self.balance += event.amount

    def snapshot(self) -> State:
        return State(self.balance)

    def restore(self, state: State) -> None:
        self.balance = state.balance


class OneEvent(Entity[Deposited], key="account"):
    """One kind of event."""

    idle_after = None

    def deposit(self, msg: Deposit) -> Decision[int]:
        return self.decide(1, Deposited(msg.amount))

    def apply(self, event: Deposited) -> None: ...


class Base(Entity[E]):
    """A base of others."""

    def apply(self, event: E) -> None: ...


class Derived(Base[Deposited], key="account"):
    """Derived."""

    def deposit(self, msg: Deposit) -> Decision[int]:
        return self.decide(1, Deposited(msg.amount))


async def use() -> None:
    kinds: list[type[Capability]] = [Account, OneEvent, Derived]
    async with Node([*kinds, provide(Account, limit=5)], journal="journal") as node:
        assert_type(await node.bus.ask(Deposit("alice", 5)), int)
        assert_type(await node.bus.ask(Look("alice")), int | None)
