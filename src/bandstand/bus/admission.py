"""Admission: the limits that keep a node within bounds, however much its clients send.

- **Credit** (`CreditLimit`): how many messages may be in flight. Every message that may wait for the router takes a slot of one of a few limits, and
  the router's mailbox has room for all of them together. So it is never full, and no limit can be used up by senders of another.
- **Capacity of a capability** (`CapabilityAdmission`): how many requests of clients may be in flight to one capability.
- **Send budget** (`SendBudget`): how many bytes may wait to be sent to all clients together.

The limits of one connection are in the adapters; their numbers are here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, final

from bandstand.bus.durations import to_whole_ms
from bandstand.core import Lane
from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.bus.capability_slot import CapabilitySlot
    from bandstand.bus.frame import Frame
    from bandstand.bus.ingress import Peer
    from bandstand.bus.protocols import Line
    from bandstand.bus.router import Router
    from bandstand.core import TimerId

__all__ = (
    "RESERVED_CREDIT",
    "BudgetedWriter",
    "CapabilityAdmission",
    "CapabilityCapacity",
    "CapacityTimer",
    "CreditLimit",
    "SendBudget",
)

Count: TypeAlias = int
Flag: TypeAlias = bool

RESERVED_CREDIT: Final[int] = 64
"""How many requests to Syscall are admitted although the clients have used up their credit."""

# A capacity that is never reached: no client has to wait.
UNLIMITED = 1 << 62
# How long, in milliseconds, a client has to use the capacity that it was granted.
GRANT_MS = 5
# Seconds between two warnings about disconnected clients.
LOG_INTERVAL_S = 10.0

logger = SafeLogger("bandstand.bus")


class CreditLimit:
    """A concurrency limit: `used` of `limit` slots are taken. `remembers` if the answers to its requests are remembered by their ids."""

    __slots__ = ("limit", "remembers", "used")

    def __init__(self, limit: Count, remembers: Flag = False) -> None:  # by position: compiled, it is hot
        self.limit = limit
        self.remembers = remembers
        self.used: Count = 0

    def __repr__(self) -> str:
        return f"<CreditLimit {self.used} of {self.limit}>"


# -- the capacity of capabilities ------------------------------------------------------------------------------------------


@final
class CapabilityCapacity:
    """The capacity of one capability, while there is not enough. It is also the message that asks to grant what is free."""

    __slots__ = ("grants", "is_due", "is_overloaded", "slot", "timer", "waiting")

    def __init__(self, slot: CapabilitySlot) -> None:
        self.slot = slot
        # The waiting clients in order, each with the time it began to wait; and the grants: clients that may send so many requests.
        self.waiting: dict[Line, float] = {}
        self.grants: dict[Line, int] = {}
        self.is_overloaded = False
        self.is_due = False
        self.timer: TimerId | None = None

    @property
    def free(self) -> int:
        """How many requests there is capacity for, beyond the grants."""
        return self.slot.client_limit - self.slot.load - sum(self.grants.values())


@final
class CapacityTimer:
    """A timer message: check the clients that wait for capacity."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: CapabilityCapacity) -> None:
        self.capacity = capacity


@final
class CapabilityAdmission:
    """Admits requests of clients to capabilities that have little capacity left.

    Clients may use three quarters of a capability's mailbox (`CapabilitySlot.client_limit`); the rest is for events and for requests of capabilities. If there is
    no capacity for the next request of a client, the node stops reading from it. Clients wait in their order of arrival and share the free capacity
    evenly. So clients that send faster than a capability works are slowed down, not refused.

    What a client has sent after such a request waits too. That is bounded: when a client has waited for `NodeConfig.hold_timeout`, the capability
    is overloaded. From then on requests are admitted without waiting, and answered with `Sys.Overloaded` if the mailbox is full, until there
    is capacity again.

    This is the slow path: while no client waits, a request costs one comparison (`Router.admit`).

    Args:
        router: the router of the capabilities.
    """

    __slots__ = ("_capacities", "_hold_ms", "_router")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._hold_ms = to_whole_ms("hold_timeout", router.config.hold_timeout)
        self._capacities: dict[CapabilitySlot, CapabilityCapacity] = {}

    def admit(self, line: Line, peer: Peer, frame: Frame) -> bool:
        """Admit a request for which there is credit, but was no capacity. Return False if the client has to wait."""
        router = self._router
        route = router.find(frame.kind, frame.type)
        if route is None:
            return router.admit(peer, frame, router.client_credit)
        capacity = self._capacities.get(route.slot)
        if capacity is None:
            capacity = self._capacities[route.slot] = CapabilityCapacity(route.slot)
            router.on_capacity = self._on_capacity
        granted = capacity.grants.get(line, 0)
        if granted and capacity.slot.load < capacity.slot.client_limit:
            if granted == 1:
                del capacity.grants[line]
                self._close_if_idle(capacity)
            else:
                capacity.grants[line] = granted - 1
            return router.admit_to(peer, frame, router.client_credit, route)
        if capacity.is_overloaded:
            return router.admit_to(peer, frame, router.client_credit, route)
        capacity.grants.pop(line, None)
        capacity.waiting.setdefault(line, router.now_ms())
        # New clients wait behind those that wait already.
        capacity.slot.admit_limit = 0
        self._start_timer(capacity)
        if capacity.free > 0:
            self._grant_soon(capacity)
        return False

    def forget(self, line: Line) -> None:
        """Remove a client that has disconnected."""
        for capacity in list(self._capacities.values()):
            if line in capacity.waiting or line in capacity.grants:
                capacity.waiting.pop(line, None)
                capacity.grants.pop(line, None)
                self._close_if_idle(capacity)

    def grant(self, capacity: CapabilityCapacity) -> None:
        """Share the free capacity among the waiting clients."""
        capacity.is_due = False
        free = capacity.free
        if free > 0 and capacity.waiting:
            lines = list(capacity.waiting)[:free]
            each = max(1, free // len(capacity.waiting))
            for line in lines:
                del capacity.waiting[line]
                capacity.grants[line] = each
            self._start_timer(capacity)
            for line in lines:
                line.resume()
        self._close_if_idle(capacity)

    def check_waiting(self, timer: CapacityTimer) -> None:
        """Take back unused grants, and check whether a client has waited too long."""
        capacity = timer.capacity
        capacity.timer = None
        capacity.grants.clear()
        oldest = next(iter(capacity.waiting.values()), None)
        # A timer may fire up to a millisecond early.
        if oldest is not None and self._router.now_ms() - oldest >= self._hold_ms - 1:
            capacity.is_overloaded = True
            lines, capacity.waiting = list(capacity.waiting), {}
            capacity.slot.admit_limit = UNLIMITED
            for line in lines:
                line.resume()
        elif capacity.waiting:
            self._start_timer(capacity)
            if capacity.free > 0:
                self._grant_soon(capacity)
        self._close_if_idle(capacity)

    def _on_capacity(self, slot: CapabilitySlot) -> None:
        """A request of a client is done."""
        capacity = self._capacities.get(slot)
        if capacity is None:
            return
        if capacity.is_overloaded and slot.load < slot.client_limit:
            capacity.is_overloaded = False
            slot.admit_limit = 0
        if capacity.waiting:
            self._grant_soon(capacity)
        else:
            self._close_if_idle(capacity)

    def _grant_soon(self, capacity: CapabilityCapacity) -> None:
        # Not at once: a line that resumes would run inside the end of a request.
        if not capacity.is_due:
            router = self._router
            capacity.is_due = router.loop.try_send(router.actor, capacity, lane=Lane.CONTROL)

    def _start_timer(self, capacity: CapabilityCapacity) -> None:
        """Start the timer for the next grant that expires, or the client that has waited longest."""
        loop, timer = self._router.loop, capacity.timer
        if timer is not None and timer.pending:
            loop.cancel_timer(timer)
        oldest = next(iter(capacity.waiting.values()), 0.0)
        wait_ms = (
            GRANT_MS if capacity.grants else max(1, int(oldest + self._hold_ms - self._router.now_ms()) + 1)
        )
        capacity.timer = loop.send_after(
            self._router.actor, wait_ms / 1000, CapacityTimer(capacity), lane=Lane.CONTROL
        )

    def _close_if_idle(self, capacity: CapabilityCapacity) -> None:
        """Return to the fast path for a capability that no client waits for."""
        if (
            capacity.waiting
            or capacity.grants
            or capacity.is_overloaded
            or self._capacities.get(capacity.slot) is not capacity
        ):
            return
        capacity.slot.admit_limit = capacity.slot.client_limit
        if capacity.timer is not None and capacity.timer.pending:
            self._router.loop.cancel_timer(capacity.timer)
        capacity.timer = None
        del self._capacities[capacity.slot]
        if not self._capacities:
            self._router.on_capacity = None


# -- the send budget -------------------------------------------------------------------------------------------------------


class BudgetedWriter(Protocol):
    """A connection whose unsent bytes count against the budget."""

    @property
    def name(self) -> str:
        """The name of the connection, for logs."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers and events that are held for it now."""
        ...

    def slow_down(self) -> None:
        """Do not read from it until everything is sent."""
        ...

    def drop(self) -> None:
        """Disconnect it, and free what is held for it."""
        ...


@final
class SendBudget:
    """A budget for the unsent bytes of all connections of a node.

    Each connection has its own limits (`Limits.write_high`, `Limits.write_most`), but many connections together can still ask for more answers
    than there is memory. Above half of the budget, a connection that has unsent bytes is not read from until all of them are sent.
    Above the budget, the connection with the most unsent bytes is disconnected, then the next, until the rest fits.

    A connection reports its unsent bytes when it writes. Later the operating system takes some of them, so the connections are counted again
    before anything is done about them.

    Attributes:
        limit: how many bytes there may be.
        most: how many there were at most.
        disconnected: how many connections were disconnected because of the budget.

    Args:
        limit: how many bytes there may be.
    """

    __slots__ = ("_log_at", "_sizes", "_total", "disconnected", "limit", "most")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.most = 0
        self.disconnected = 0
        # The connections that had unsent bytes at their last write, and how many: an upper bound of what they have now.
        self._sizes: dict[BudgetedWriter, int] = {}
        self._total = 0
        self._log_at = 0.0

    @property
    def bytes(self) -> int:
        """How many bytes are unsent now."""
        self._recount()
        return self._total

    def note(self, writer: BudgetedWriter, size: int) -> None:
        """Record that a connection has written, and has this many unsent bytes."""
        self._total += size - self._sizes.get(writer, 0)
        self._sizes[writer] = size
        if self._total * 2 > self.limit:
            self._enforce()
        elif self._total > self.most:
            self.most = self._total

    def forget(self, writer: BudgetedWriter) -> None:
        """Remove a connection."""
        self._total -= self._sizes.pop(writer, 0)

    def _recount(self) -> None:
        sizes = {writer: writer.unsent_bytes for writer in self._sizes}
        self._sizes = {writer: size for writer, size in sizes.items() if size}
        self._total = sum(self._sizes.values())

    def _enforce(self) -> None:
        self._recount()
        if self._total > self.limit:
            self._drop_largest()
        self.most = max(self.most, self._total)
        if self._total * 2 > self.limit:
            for writer in tuple(self._sizes):
                writer.slow_down()

    def _drop_largest(self) -> None:
        by_size = sorted(self._sizes, key=self._sizes.__getitem__)
        while self._total > self.limit:
            writer = by_size.pop()
            size = self._sizes[writer]
            self.forget(writer)
            self.disconnected += 1
            self._log(writer, size)
            writer.drop()

    def _log(self, writer: BudgetedWriter, size: int) -> None:
        """Log a disconnect, rate-limited: clients can cause this as often as they like."""
        now = time.monotonic()
        if now < self._log_at:
            return
        self._log_at = now + LOG_INTERVAL_S
        logger.warning(
            "%s: disconnected, %d bytes are unsent; all clients together exceed NodeConfig.max_unsent_bytes (%d); %d disconnected so far",
            writer.name,
            size,
            self.limit,
            self.disconnected,
        )
