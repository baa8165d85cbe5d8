"""The accounts of the bank: what can be done with them, and what has happened to them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bandstand.bus import Command, Decision, Entity, Query
from bandstand.errors import RefusedError

Name = Annotated[str, Meta(min_length=1, max_length=100)]
Cents = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class Balance(Struct):
    """What is in an account."""

    cents: int
    transfers: int
    """How many transfers it has taken part in."""


class Deposit(Command[Balance], type="Account.Deposit"):
    """Pay in. Send it again with the same id if there was no answer: it is counted once."""

    account: Name
    cents: Cents


class Look(Query[Balance], type="Account.Look"):
    """Read the balance."""

    account: Name


class Debit(Command[None], type="Account.Debit"):
    """Take the money of a transfer, if there is enough. A transfer sends this."""

    account: Name
    transfer: Name
    cents: Cents


class Credit(Command[None], type="Account.Credit"):
    """Add the money of a transfer. A transfer sends this."""

    account: Name
    transfer: Name
    cents: Cents


class ReportStep(Command[None], type="Transfer.ReportStep"):
    """An account has done its part of a transfer, or cannot. Accounts send this."""

    transfer: Name
    step: str
    """`debited`, `credited` or `refused`."""


class Deposited(Struct, frozen=True):
    cents: int


class Debited(Struct, frozen=True):
    transfer: str
    cents: int


class Credited(Struct, frozen=True):
    transfer: str
    cents: int


class AccountState(Struct):
    """What an account knows, for snapshots."""

    cents: int
    done: list[str]


class Account(Entity[Deposited | Debited | Credited], key="account"):
    """The accounts. None is ever overdrawn."""

    outbound = ReportStep

    def __init__(self) -> None:
        self.cents = 0
        self.done: set[str] = set()
        """The steps that it has taken: a repeated one changes nothing."""

    def deposit(self, msg: Deposit) -> Decision[Balance]:
        return self.decide(Balance(self.cents + msg.cents, len(self.done)), Deposited(msg.cents))

    def look(self, msg: Look) -> Balance:  # noqa: ARG002  # its class says what it is
        return Balance(self.cents, len(self.done))

    def debit(self, msg: Debit) -> Decision[None]:
        if f"debit {msg.transfer}" in self.done:
            return self.report(msg.transfer, "debited")
        if msg.cents > self.cents:
            return self.report(msg.transfer, "refused")
        return self.report(msg.transfer, "debited", Debited(msg.transfer, msg.cents))

    def credit(self, msg: Credit) -> Decision[None]:
        if f"credit {msg.transfer}" in self.done:
            return self.report(msg.transfer, "credited")
        return self.report(msg.transfer, "credited", Credited(msg.transfer, msg.cents))

    def report(self, transfer: str, step: str, *events: Debited | Credited) -> Decision[None]:
        """Tell the transfer, in the same page as the events."""
        self.bus.send(ReportStep(transfer, step))
        return self.decide(None, *events)

    def apply(self, event: Deposited | Debited | Credited) -> None:
        match event:
            case Deposited(cents):
                self.cents += cents
            case Debited(transfer, cents):
                self.cents -= cents
                self.done.add(f"debit {transfer}")
            case Credited(transfer, cents):
                self.cents += cents
                self.done.add(f"credit {transfer}")

    def snapshot(self) -> AccountState:
        return AccountState(self.cents, sorted(self.done))

    def restore(self, state: AccountState) -> None:
        self.cents, self.done = state.cents, set(state.done)


# -- transfers ---------------------------------------------------------------------------------------------------------


class Progress(Struct):
    """How far a transfer is."""

    status: str
    """`unknown`, `requested`, `debited`, `completed` or `refused`."""


class Transfer(Command[Progress], type="Transfer.Transfer"):
    """Move money from one account to another. The same transfer sent again changes nothing."""

    transfer: Name
    source: Name
    target: Name
    cents: Cents


class Follow(Query[Progress], type="Transfer.Follow"):
    """Read how far a transfer is."""

    transfer: Name


class Requested(Struct, frozen=True):
    source: str
    target: str
    cents: int


class Moved(Struct, frozen=True):
    status: str


class Transfers(Entity[Requested | Moved], key="transfer"):
    """The transfers. Each one takes its steps in order: debit the source, then credit the target."""

    outbound = Debit | Credit

    def __init__(self) -> None:
        self.request = Requested("", "", 0)
        self.status = "unknown"

    def transfer(self, msg: Transfer) -> Decision[Progress]:
        request = Requested(msg.source, msg.target, msg.cents)
        if self.status != "unknown":
            if request != self.request:
                raise RefusedError(f"{msg.transfer} is another transfer: choose a new name")
            return self.decide(Progress(self.status))
        if msg.source == msg.target:
            raise RefusedError("source and target are the same account")
        # Sent when the event is durable, and not without it.
        self.bus.send(Debit(msg.source, msg.transfer, msg.cents))
        return self.decide(Progress("requested"), request)

    def follow(self, msg: Follow) -> Progress:  # noqa: ARG002  # its class says what it is
        return Progress(self.status)

    def report_step(self, msg: ReportStep) -> Decision[None]:
        match self.status, msg.step:
            case "requested", "debited":
                self.bus.send(Credit(self.request.target, msg.transfer, self.request.cents))
                return self.decide(None, Moved("debited"))
            case "requested", "refused":
                return self.decide(None, Moved("refused"))
            case "debited", "credited":
                return self.decide(None, Moved("completed"))
            case _:
                return self.decide(None)

    def apply(self, event: Requested | Moved) -> None:
        match event:
            case Requested():
                self.request, self.status = event, "requested"
            case Moved(status):
                self.status = status
