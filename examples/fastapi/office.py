"""The ticket office. One actor handles one message at a time, so no seat is ever sold twice.

The state that must survive a crash is in a `Ledger` outside of the actor: an office that fails is restarted with it,
and handles stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from bandstand import Actor, ActorSystem, ask, child, tell
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.topic import Topic

HOLD_MS = 10_000
"""How long a seat that is not paid is held, in milliseconds."""


class SoldOutError(Exception):
    """There is no free seat at the moment."""


class NoSuchTicketError(Exception):
    """There is no such ticket: it never existed, or was not paid in time."""


@dataclass(frozen=True, slots=True)
class Ticket:
    number: int
    seat: int
    is_paid: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a ticket, for subscribers."""

    what: str
    ticket: Ticket
    free: int


@dataclass
class Ledger:
    """The seats and tickets. It outlives the incarnations of the office."""

    free: list[int]
    tickets: dict[int, Ticket] = field(default_factory=dict[int, Ticket])
    numbers: count[int] = field(default_factory=lambda: count(1))


class Office(Actor, ask_timeout=2.0):
    def __init__(self, ledger: Ledger, changes: Topic[Change], hold_ms: float) -> None:
        self._ledger = ledger
        self._changes = changes
        self._hold_ms = hold_ms

    def on_start(self) -> None:
        """Set the timers again, because those of the last incarnation have ended with it."""
        for ticket in self._ledger.tickets.values():
            if not ticket.is_paid:
                self.after(self._hold_ms / 1000, self.give_up, ticket.number)

    @ask(raises=SoldOutError)
    def hold(self) -> Ticket:
        """Hold a seat until it is paid, or until the time to pay is over."""
        if not self._ledger.free:
            raise SoldOutError("there is no seat left; one that is not paid in time is free again")
        ticket = Ticket(next(self._ledger.numbers), self._ledger.free.pop())
        self._ledger.tickets[ticket.number] = ticket
        self.after(self._hold_ms / 1000, self.give_up, ticket.number)
        self._tell("held", ticket)
        return ticket

    @ask(raises=NoSuchTicketError)
    def pay(self, number: int) -> Ticket:
        held = self._ledger.tickets.get(number)
        if held is None:
            raise NoSuchTicketError(f"there is no ticket {number}: hold a seat first, and pay in time")
        ticket = Ticket(held.number, held.seat, is_paid=True)
        self._ledger.tickets[number] = ticket
        self._tell("paid", ticket)
        return ticket

    @ask
    def free(self) -> int:
        return len(self._ledger.free)

    @tell
    def stumble(self) -> None:
        """Fail, to show a restart."""
        raise RuntimeError("the office has stumbled")

    def give_up(self, number: int) -> None:
        ticket = self._ledger.tickets.get(number)
        if ticket is not None and not ticket.is_paid:
            del self._ledger.tickets[number]
            self._ledger.free.append(ticket.seat)
            self._tell("given up", ticket)

    def _tell(self, what: str, ticket: Ticket) -> None:
        self._changes.publish(Change(what, ticket, len(self._ledger.free)))


def open_office(system: ActorSystem, seats: int, hold_ms: float = HOLD_MS) -> tuple[Office, Topic[Change]]:
    """Start an office under a supervisor. Return its handle and the topic of its changes."""
    changes = Topic(system, Change, name="changes")
    ledger = Ledger(list(range(seats, 0, -1)))
    office = child("office", keep_mailbox=True).of(Office, ledger, changes, hold_ms)
    root = spawn_supervisor(system, SupervisorSpec(children=[office], max_restarts=10), name="theatre")
    return root.handle(Office, "office"), changes
