"""How a node is set up: frozen, and checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.bus.numbers import RESERVE
from bandstand.core import LoopConfig
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("NodeConfig",)

# More would fit into no memory, and a mailbox cannot have more slots.
MOST = 1 << 24
MOST_BYTES = 1 << 39


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The limits of a node.

    Raises:
        InvalidArgument: a value can never work. The message names the field.
    """

    timeout_ms: int = 30_000
    """How long a command or query may take if neither it nor its capability says otherwise."""
    max_in_flight: int = 8192
    """How many requests and events of clients are taken in before adapters have to wait."""
    max_inside: int = 8192
    """How many requests of capabilities may be under way, and how many events of theirs may wait to be routed."""
    max_timers: int = 10_000
    """How many messages may be scheduled by clients, a quarter of them by one; and as many by capabilities."""
    max_subscriptions: int = 1000
    """How many types, or beginnings of such, one connection may listen to: each event of a new type is held against all of them."""
    mailbox_cap: int = 1024
    """How many messages may wait for a capability, if its contract does not say. Requests of clients get three quarters of that."""
    hold_ms: int = 5000
    """How long a client that asks faster than a capability works is made to wait for room there. Then its requests are handed in without waiting,
    and answered with `Sys.Overloaded` if the mailbox is full. 0 for no waiting at all."""
    max_unsent_bytes: int = 256 << 20
    """How many bytes of answers and events may wait to be sent to all clients together. Past half of it, a client that has anything unsent is not
    read from until it has taken it; past all of it, the client with the most is disconnected."""
    max_msgs_per_actor: int = 64
    """How many messages one capability may handle before the next one has its turn: `LoopConfig.max_msgs_per_actor`."""
    max_tick_ms: float = 5.0
    """How long capabilities may run before timers and sockets are looked at again: `LoopConfig.max_tick_ms`."""
    stall_ms: float = 0.0
    """Report a handler that blocks the thread for longer than this: `LoopConfig.stall_ms`; 0 for no watchdog."""
    health_ms: int = 10_000
    """How often a `Sys.HealthTick` is published; 0 for never."""
    remember_ms: int = 300_000
    """How long the answer to a client's request is remembered, so that a repeat with the same id gets it again."""
    remember_count: int = 10_000
    """How many answers are remembered at most, the oldest are forgotten first; 0 for none: then every repeat is handled anew."""
    remember_bytes: int = 16 << 20
    """How many bytes of data they, and what they answer, may have together. One that is larger alone is not remembered."""
    dead_count: int = 1000
    """How many dead letters are kept at most, the oldest fall out first; 0 for none."""
    dead_bytes: int = 8 << 20
    """How many bytes of data they may have together."""
    log_count: int = 4096
    """How many messages the log in memory keeps, if the node is given no other: so far back a trace can look."""
    log_bytes: int = 8 << 20
    """How many bytes of data they may have together."""
    drain_ms: int = 5000
    """How long a stopping node waits for requests that are under way."""
    flush_ms: int = 5000
    """How long it then waits for clients to take what was written to them."""

    def __post_init__(self) -> None:
        self._check("timeout_ms", 1, LONGEST_TIMEOUT_MS)
        self._check("max_in_flight", 1, MOST)
        self._check("max_inside", 1, MOST)
        self._check("max_timers", 0, MOST)
        self._check("max_subscriptions", 1, 100_000)
        self._check("mailbox_cap", 8, MOST)
        self._check("hold_ms", 0, LONGEST_TIMEOUT_MS)
        self._check("health_ms", 0, LONGEST_TIMEOUT_MS)
        self._check("remember_ms", 1, LONGEST_TIMEOUT_MS)
        self._check("remember_count", 0, MOST)
        self._check("dead_count", 0, MOST)
        self._check("log_count", 1, MOST)
        self._check("max_unsent_bytes", 1 << 16, MOST_BYTES)
        self._check("max_msgs_per_actor", 1, 1 << 30)
        self._check_ms("max_tick_ms", 60_000)
        if self.stall_ms != 0:
            self._check_ms("stall_ms", 86_400_000)
        for field in ("remember_bytes", "dead_bytes", "log_bytes"):
            self._check(field, 1, MOST_BYTES)
        self._check("drain_ms", 0, LONGEST_TIMEOUT_MS)
        self._check("flush_ms", 0, LONGEST_TIMEOUT_MS)

    def _check(self, field: str, least: int, most: int) -> None:
        value: object = getattr(self, field)
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(
                f"NodeConfig: {field} is {safe_repr(value)}: pass an int from {least} to {most}"
            )

    def _check_ms(self, field: str, most: int) -> None:
        value: object = getattr(self, field)
        if (type(value) is not int and type(value) is not float) or not 0 < value <= most:
            raise InvalidArgument(
                f"NodeConfig: {field} is {safe_repr(value)}: pass milliseconds above 0, and {most} at most"
            )

    @property
    def loop_config(self) -> LoopConfig:
        """How the node's loop is set up."""
        return LoopConfig(
            max_msgs_per_actor=self.max_msgs_per_actor,
            max_tick_ms=self.max_tick_ms,
            stall_ms=self.stall_ms or None,
        )

    @property
    def router_cap(self) -> int:
        """Slots for the router's mailbox: enough for whatever may be under way at once, so that it is never full.

        A request has one slot at most, as itself or as its answer: whoever admits it reserves room for the answer, and has its credit
        back only when the slot is free. On the other lane it has one at most for its deadline.
        """
        return self.max_in_flight + 2 * self.max_inside + 2 * self.max_timers + RESERVE + 256
