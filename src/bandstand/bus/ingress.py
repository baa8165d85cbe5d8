"""The ingress of a node: what its adapters hand in for their clients.

Each connected client has a `Peer` here: its subscriptions, and how many events it has missed. A request is admitted only if there is credit for
it, and capacity at its capability. A line that had to wait is resumed when there is some again, in the order in which the lines came.

The common case is a few comparisons: `ClientIngress.admit`, then `Router.admit`.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw

from bandstand.bus.admission import RESERVED_CREDIT, CapabilityAdmission, CreditLimit, SendBudget
from bandstand.bus.contracts.messages import Event
from bandstand.bus.faults import SCHEMA_ERROR, SHUTTING_DOWN
from bandstand.bus.frame import Frame, Metadata, is_request
from bandstand.bus.request import DUPLICATE
from bandstand.bus.tap import Filter
from bandstand.core import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bandstand.bus.fanout import EventFanout
    from bandstand.bus.protocols import Line
    from bandstand.bus.router import Router
    from bandstand.errors import InvalidMessageError

__all__ = ("ClientEvent", "ClientIngress", "CreditCheck", "EventsMissed", "Peer")

Count: TypeAlias = int
Flag: TypeAlias = bool


class EventsMissed(Event, type="Sys.Lagged"):
    """This connection did not keep up, and has missed this many events since the last one that it got."""

    missed: Annotated[int, Meta(ge=1)]


class CreditCheck(Enum):
    """A timer message: give credit to waiting lines."""

    CREDIT_CHECK = "credit check"


class ClientEvent:
    """An event of a client, in the router's mailbox."""

    __slots__ = ("frame", "peer")

    def __init__(self, peer: Peer, frame: Frame) -> None:
        self.peer = peer
        self.frame = frame


class Peer:
    """A connected client: the requester of its requests, and a subscriber to events."""

    __slots__ = ("_deliver", "_filter", "_ingress", "is_open", "line", "missed", "wants")

    def __init__(self, ingress: ClientIngress, line: Line) -> None:
        self._ingress = ingress
        self.line = line
        # Looked up once: it is called for every answer.
        self._deliver = line.deliver
        self.is_open: Flag = True
        # The types of events it subscribes to, or prefixes of types, such as `Memory.*`.
        self.wants: frozenset[str] = frozenset()
        self.missed: Count = 0
        self._filter: Filter | None = None

    def settle(self, frame: Frame, settles: Flag) -> Flag:
        """Write an answer to the client. Return False if it has disconnected."""
        # A line that returns None has written it.
        return self.is_open and self._deliver(frame, settles) is not False

    def subscribe(self, types: Iterable[str]) -> None:
        """Replace its subscriptions."""
        self.wants = frozenset(types)
        self._filter = Filter(types=self.wants) if self.wants else None

    def hears(self, frame: Frame) -> bool:
        """Return whether it subscribes to an event."""
        return self._filter is not None and self._filter.matches(frame)

    def publish(self, frame: Frame) -> None:
        """Write an event to the client if it keeps up; else count it as missed."""
        if not self.is_open:
            return
        if not self.line.is_writable:
            self.missed += 1
            self._ingress.count_missed()
            return
        self.catch_up()
        self.line.deliver(frame, settles=False)

    def catch_up(self) -> None:
        """Tell the client how many events it has missed, if any."""
        if self.missed:
            missed, self.missed = self.missed, 0
            self._ingress.tell(self.line, self._ingress.make_events_missed(missed))


class ClientIngress:
    """The `Ingress` of a node."""

    __slots__ = (
        "_credit",
        "_fanout",
        "_is_check_due",
        "_is_free",
        "_is_open",
        "_reserved_credit",
        "_router",
        "_waiting",
        "_watch",
        "admission",
        "clients",
        "unsent",
    )

    def __init__(self, router: Router, fanout: EventFanout) -> None:
        self._router = router
        self._fanout = fanout
        self._credit = router.client_credit
        self._reserved_credit = CreditLimit(RESERVED_CREDIT, True)  # noqa: FBT003  # by position: it is compiled
        self.clients: dict[Line, Peer] = {}
        # The clients that wait for capacity at a capability.
        self.admission = CapabilityAdmission(router)
        # The unsent bytes of all clients.
        self.unsent = SendBudget(router.config.max_unsent_bytes)
        # The node is ready. Until then, clients wait.
        self._is_open: Flag = False
        # The node is ready, and not stopping.
        self._is_free: Flag = False
        # The lines that wait for credit, in their order.
        self._waiting: dict[Line, None] = {}
        self._is_check_due: Flag = False
        # Called whenever credit is released.
        self._watch: Callable[[], object] | None = None

    def __len__(self) -> int:
        return len(self.clients)

    # -- Ingress -----------------------------------------------------------------------------------------------------------

    def open(self, line: Line) -> None:
        """Add a client."""
        self.clients[line] = Peer(self, line)

    def admit(self, line: Line, frame: Frame) -> Flag:
        """Admit a message of a client. Return False if there is no credit, or no capacity at its capability, now."""
        if not self._is_free or not is_request(frame):
            return self._admit_other(line, frame)
        peer = self.clients[line]
        if self._router.admit(peer, frame, self._credit):
            return True
        if self._credit.used < self._credit.limit:
            return self.admission.admit(line, peer, frame)
        # Without credit, Syscall is still reachable, so that an operator can find out why.
        if frame.type.startswith("Syscall.") and self._router.admit(peer, frame, self._reserved_credit):
            return True
        return self._wait_for_credit(line)

    def _admit_other(self, line: Line, frame: Frame) -> bool:
        """Admit what is not a request; or any message while the node starts or stops."""
        if not self._is_open:
            return self._wait_for_credit(line)
        router = self._router
        peer = self.clients[line]
        kind = frame.kind
        if kind in {"command", "query"}:
            router.counters.refused += 1
            fault = router.faults.make(SHUTTING_DOWN, "the node is stopping", request=frame)
            self.tell(line, fault, settles=True)
        elif kind == "event":
            credit = self._credit
            if credit.used >= credit.limit:
                return self._wait_for_credit(line)
            credit.used += 1
            router.post(ClientEvent(peer, frame))
        else:
            router.counters.refused += 1
            text = f"{frame.type}: only the node sends a message of kind {kind}: send a command, a query or an event"
            self.tell(line, router.faults.make(SCHEMA_ERROR, text, request=frame, path="$.kind"))
        return True

    def refuse(self, line: Line, problem: InvalidMessageError) -> None:
        """Answer a line that is not a message."""
        router = self._router
        router.counters.refused += 1
        fault = router.faults.make(
            SCHEMA_ERROR, str(problem), request_id=problem.request_id, path=problem.path or None
        )
        self.tell(line, fault)

    def drained(self, line: Line) -> None:
        """A line is writable again."""
        peer = self.clients.get(line)
        if peer is not None:
            peer.catch_up()

    def close(self, line: Line) -> None:
        """Remove a client that has disconnected."""
        peer = self.clients.pop(line, None)
        self._waiting.pop(line, None)
        self.admission.forget(line)
        if peer is not None:
            peer.is_open = False
            self._withdraw_queries(peer)
            self._withdraw_cancellable(peer)
            if peer.wants:
                peer.subscribe(())
                self._fanout.update_listener(peer)

    def _withdraw_queries(self, peer: Peer) -> None:
        """Where credit is short, free what a disconnected client holds: its queries that have not started have no effect, and no reader."""
        credit = self._credit
        if credit.used * 2 > credit.limit:
            for pending in self._router.open_requests():
                if pending.requester is peer and pending.frame.kind == "query" and not pending.is_begun:
                    self._router.withdraw(pending)

    def _withdraw_cancellable(self, peer: Peer) -> None:
        """Withdraw the requests of a client to capabilities that declare `on_timeout = "cancel"`: their handlers are cancelled."""
        router = self._router
        if not any(slot.spec.on_timeout == "cancel" for slot in router.slots.values()):
            return
        for pending in router.open_requests():
            if pending.requester is not peer or pending.is_answered or pending.stage == DUPLICATE:
                # A duplicate ends with the request that it has joined, and cancels nothing.
                continue
            route = pending.route or router.find(pending.frame.kind, pending.frame.type)
            if route is not None and route.slot.spec.on_timeout == "cancel":
                router.withdraw(pending)

    def unlock(self) -> None:
        """The node is ready: let clients in."""
        self._is_open = self._is_free = True
        self._give_credit()

    def lock(self) -> None:
        """The node is stopping: answer further requests with a fault."""
        self._is_free = False

    # -- credit ------------------------------------------------------------------------------------------------------------

    def _wait_for_credit(self, line: Line) -> bool:
        """Resume a line when there is credit. Returns False, for `admit`."""
        self._waiting[line] = None
        self._subscribe_to_credit()
        return False

    def watch_credit(self, callback: Callable[[], object] | None) -> None:
        """Set a callback for every release of credit; None for no callback."""
        self._watch = callback
        self._subscribe_to_credit()

    def _subscribe_to_credit(self) -> None:
        """Have the router call back while a line waits or a callback is set."""
        is_wanted = bool(self._waiting) or self._watch is not None
        self._router.on_credit = self._on_credit if is_wanted else None

    def _on_credit(self) -> None:
        self._give_credit()
        if self._watch is not None:
            self._watch()

    def _give_credit(self) -> None:
        """Resume the lines that have waited longest, as many as there is credit for."""
        credit, waiting = self._credit, self._waiting
        free = credit.limit - credit.used
        if free <= 0:
            return
        for line in list(islice(waiting, free)):
            del waiting[line]
            line.resume()
        if not waiting:
            self._subscribe_to_credit()
        elif not self._is_check_due:
            # The resumed lines may have nothing to send. If so, the next check resumes others.
            self._is_check_due = True
            self._router.loop.send_after(
                self._router.actor, 0.001, CreditCheck.CREDIT_CHECK, lane=Lane.CONTROL
            )

    def check_credit(self, _check: CreditCheck) -> None:
        """Give credit that the resumed lines have not used to others."""
        self._is_check_due = False
        self._give_credit()

    # -- messages to clients -----------------------------------------------------------------------------------------------

    def route_event(self, event: ClientEvent) -> None:
        """Route an event of a client."""
        self._fanout.publish(event.frame, event.peer, self._credit)

    def tell(self, line: Line, frame: Frame, *, settles: bool = False) -> None:
        """Send a client a message of the node itself. It is logged like all others."""
        self._router.note(frame, line.name)
        line.deliver(frame, settles)

    def count_missed(self) -> None:
        """Count an event that a client has missed."""
        self._router.counters.lagged += 1

    def make_events_missed(self, missed: int) -> Frame:
        """Make the event that tells a client how many events it has missed."""
        ids = self._router.ids
        return Frame(
            kind="event",
            type=EventsMissed.message_type,
            data=Raw(msgspec.json.encode(EventsMissed(missed))),
            metadata=Metadata(ids(), ids.last_ms),
        )
