"""What a user of entities must not write: both checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from msgspec import Struct

from bandstand.bus import Command, Decision, Entity, provide


class Opened(Struct):
    owner: str


class Deposited(Struct):
    amount: int


class Closed(Struct):
    pass


class Deposit(Command[int], type="Account.Deposit"):
    account: str
    amount: int


class NoEvents(Entity[int], key="account"):  # E:
    pass


class NumberedKey(Entity[Deposited], key=5):  # E:
    pass


class Account(Entity[Opened | Deposited], key="account"):
    """Accounts."""

    snapshot_every = "often"  # E:
    idle_after = "soon"  # E:
    max_in_memory = 2.5  # E:

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def deposit(self, msg: Deposit) -> Decision[int]:
        self.key = 5  # E:
        self.decide()  # E:
        self.decide(1, Closed())  # E:
        self.decide(1, Deposited(1), Closed())  # E:
        self.decide(1, [Deposited(1)])  # E:
        self.decide(1, msg.amount)  # E:
        if msg.amount:
            return self.decide("one", Deposited(1))  # E:
        return 1  # E:

    def apply(self, event: Deposited) -> None:  # E:
        pass

    def snapshot(self) -> int:  # E:
        return 1


def use() -> None:
    provide(Account, "five")  # E:
