"""Accounts as entities, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from bandstand.bus import Command, Decision, Entity, Event, Query
from bandstand.errors import RefusedError


class Balance(Struct):
    """A balance."""

    cents: int


class Deposit(Command[Balance], type="Account.Deposit"):
    """Add to the balance of an account."""

    account: str
    cents: int
    then: str = ""
    """What the handler does besides."""
    padding: str = ""
    """Fills the journal."""


class DepositTwice(Command[Balance], type="Account.DepositTwice"):
    """Add two amounts."""

    account: str
    cents: int


class Empty(Command[None], type="Account.Empty"):
    """Take everything."""

    account: str


class Look(Query[Balance], type="Account.Look"):
    """Read the balance of an account."""

    account: str
    then: str = ""


class Noted(Event, type="Account.Noted"):
    """A deposit was made."""

    account: str
    cents: int


class Deposited(Struct, frozen=True):
    cents: int


class Emptied(Struct, frozen=True):
    cents: int


class State(Struct):
    cents: int


UNLUCKY = 13
"""`apply` raises for a deposit of this amount."""


class Account(Entity[Deposited | Emptied], key="account"):
    """The balance of each account."""

    outbound = Noted | Deposit
    hooks: ClassVar[list[Callable[[], object]]] = []
    """Called by a handler whose message says `hook`."""
    broken: ClassVar[set[str]] = set()
    """The keys of accounts whose events cannot be applied."""

    def __init__(self) -> None:
        self.cents = 0
        self.applied = 0

    def deposit(self, msg: Deposit) -> Decision[Balance]:
        self._go_on(msg)
        event = Deposited(msg.cents)
        return self.decide(Balance(self.cents + msg.cents), event)

    def deposit_twice(self, msg: DepositTwice) -> Decision[Balance]:
        return self.decide(Balance(self.cents + 2 * msg.cents), Deposited(msg.cents), Deposited(msg.cents))

    def empty(self, msg: Empty) -> Decision[None]:
        return self.decide(None, Emptied(self.cents)) if self.cents else self.decide(None)

    def look(self, msg: Look) -> Balance:
        match msg.then:
            case "raise":
                raise ValueError("by wish")
            case "refuse":
                raise RefusedError(f"there are {self.cents}")
            case _:
                return Balance(self.cents)

    def apply(self, event: Deposited | Emptied) -> None:
        if self.key in self.broken:
            raise ValueError("it is broken")
        self.applied += 1
        match event:
            case Deposited(cents):
                if cents == UNLUCKY:
                    self.cents = -1_000_000
                    raise ValueError("13 brings bad luck")
                self.cents += cents
            case Emptied():
                self.cents = 0

    def _go_on(self, msg: Deposit) -> None:
        match msg.then:
            case "hook":
                for hook in self.hooks:
                    hook()
            case "raise":
                self.cents = -1_000_000
                raise ValueError("by wish")
            case "exit":
                raise SystemExit(3)
            case "refuse":
                raise RefusedError("not today")
            case "send":
                self.bus.emit(Noted(msg.account, msg.cents))
                self.bus.send(Deposit(f"{msg.account} sent", msg.cents))
                self.bus.send_later(Deposit(f"{msg.account} later", msg.cents), 60)
            case "send and raise":
                self.bus.emit(Noted(msg.account, msg.cents))
                self.bus.send(Deposit(f"{msg.account} sent", msg.cents))
                self.bus.send_later(Deposit(f"{msg.account} later", msg.cents), 60)
                raise ValueError("by wish")
            case _:
                pass


class QuickAccount(Account, entity="Account"):
    """The same accounts with snapshots."""

    id = "Account"
    snapshot_every = 5
    restored: ClassVar[list[str]] = []

    def snapshot(self) -> State:
        return State(self.cents)

    def restore(self, state: State) -> None:
        self.restored.append(self.key)
        self.cents = state.cents
