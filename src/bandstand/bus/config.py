"""The configuration of a node: immutable, and validated on construction."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.bus.admission import RESERVED_CREDIT
from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.core import LoopConfig
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import LONGEST_MS, Seconds, to_seconds

__all__ = ("FIRINGS_AT_ONCE", "NodeConfig")

FIRINGS_AT_ONCE = 1024
"""How many commands of reminders may be open."""

# The largest capacity of a mailbox.
MAX_COUNT = 1 << 24
MAX_BYTES = 1 << 39


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The limits of a node. Durations are kept in seconds, as floats.

    Raises:
        InvalidArgumentError: a value is out of range; names the field.
    """

    timeout: Seconds = 30.0
    """The deadline of a command or query in seconds, if neither it nor its capability has a timeout."""
    max_in_flight: int = 8192
    """The number of requests and events of clients that are in progress at once; beyond it, adapters stop reading."""
    max_inside: int = 8192
    """The number of requests by capabilities that are in progress at once, and the number of their events that wait to be routed."""
    max_timers: int = 10_000
    """The number of messages that clients may schedule, a quarter of them by one client; capabilities have the same limit."""
    max_reminders: int = 250_000
    """The number of reminders, on a node with a journal."""
    max_subscriptions: int = 1000
    """The number of types or patterns that one connection may subscribe to: each event of a new type is compared with all of them."""
    mailbox: int = 1024
    """How many messages may wait for a capability, if its contract does not set one. Requests of clients may use three quarters of it."""
    hold_timeout: Seconds = 5.0
    """How many seconds a client waits for room in the mailbox of a capability before its requests are delivered anyway,
    and answered with `Sys.Overloaded` if the mailbox is full. 0 for no waiting."""
    max_unsent_bytes: int = 256 << 20
    """The number of bytes of answers and events that may wait to be sent to all clients together. Above half of it, the node reads from a client
    only after that client has received everything; above all of it, the client with the most unsent bytes is disconnected."""
    max_msgs_per_actor: int = 64
    """The number of messages that one capability handles before the next one runs: `LoopConfig.max_msgs_per_actor`."""
    max_tick: Seconds = 0.005
    """How many seconds capabilities run before timers and sockets are polled again: see `LoopConfig`."""
    stall_timeout: Seconds = 1.0
    """Report a handler that blocks the thread for more seconds than this: see `LoopConfig`; 0 for no watchdog."""
    health_period: Seconds = 10.0
    """The period of `Sys.HealthTick` in seconds; 0 for no ticks."""
    remember_for: Seconds = 300.0
    """How many seconds the answer to a client's request is remembered: a repeat with the same id gets it again."""
    remember_count: int = 10_000
    """The number of remembered answers; the oldest are forgotten first. With 0 every repeat is handled again."""
    remember_bytes: int = 16 << 20
    """The number of bytes of remembered requests and answers. An answer that is larger by itself is not remembered."""
    dead_count: int = 1000
    """The number of dead letters to keep; the oldest are dropped first. 0 for none."""
    dead_bytes: int = 8 << 20
    """The number of bytes of data in dead letters."""
    log_count: int = 4096
    """The number of messages in the in-memory log, if the node has no other log. It limits how far back a trace reaches."""
    log_bytes: int = 8 << 20
    """The number of bytes of data in the in-memory log."""
    journal_keep_for: Seconds | None = None
    """How many seconds the journal keeps what the node does not need any more, for an audit; None for no limit."""
    journal_keep_bytes: int | None = 1 << 30
    """The number of bytes of records that the journal keeps; None for no limit. Whichever of the two limits is reached first counts."""
    step_keep_for: Seconds = 604_800.0
    """How many seconds the steps of a workflow are kept at least: those with a key of their own, and those of a command that has failed. A week."""
    drain_timeout: Seconds = 5.0
    """How many seconds a stopping node waits for requests in progress."""
    flush_timeout: Seconds = 5.0
    """How many seconds it then waits for clients to receive what was sent to them."""

    def __post_init__(self) -> None:
        self._keep_seconds("timeout", is_zero_allowed=False)
        self._check("max_in_flight", 1, MAX_COUNT)
        self._check("max_inside", 1, MAX_COUNT)
        self._check("max_timers", 0, MAX_COUNT)
        self._check("max_reminders", 0, MAX_COUNT)
        self._check("max_subscriptions", 1, 100_000)
        self._check("mailbox", 8, MAX_COUNT)
        self._keep_seconds("hold_timeout")
        self._keep_seconds("health_period")
        self._keep_seconds("remember_for", is_zero_allowed=False)
        self._check("remember_count", 0, MAX_COUNT)
        self._check("dead_count", 0, MAX_COUNT)
        self._check("log_count", 1, MAX_COUNT)
        self._check("max_unsent_bytes", 1 << 16, MAX_BYTES)
        self._check("max_msgs_per_actor", 1, 1 << 30)
        self._keep_seconds("max_tick", is_zero_allowed=False, most=60_000)
        self._keep_seconds("stall_timeout")
        for field in ("remember_bytes", "dead_bytes", "log_bytes"):
            self._check(field, 1, MAX_BYTES)
        if self.journal_keep_for is not None:
            self._keep_seconds("journal_keep_for", most=LONGEST_MS)
        if self.journal_keep_bytes is not None:
            self._check("journal_keep_bytes", 0, 1 << 62)
        self._keep_seconds("step_keep_for", is_zero_allowed=False, most=LONGEST_MS)
        self._keep_seconds("drain_timeout")
        self._keep_seconds("flush_timeout")

    def _check(self, field: str, least: int, most: int) -> None:
        value: object = getattr(self, field)
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgumentError(
                f"NodeConfig: {field} is {safe_repr(value)}: pass an int from {least} to {most}"
            )

    def _keep_seconds(
        self, field: str, *, is_zero_allowed: bool = True, most: int = LONGEST_TIMEOUT_MS
    ) -> None:
        value: object = getattr(self, field)
        seconds = to_seconds(f"NodeConfig: {field}", value, is_zero_allowed=is_zero_allowed, most=most)
        object.__setattr__(self, field, seconds)

    @property
    def loop_config(self) -> LoopConfig:
        """The configuration of the node's loop."""
        return LoopConfig(
            max_msgs_per_actor=self.max_msgs_per_actor,
            max_tick=self.max_tick,
            stall_timeout=self.stall_timeout or None,
        )

    @property
    def router_cap(self) -> int:
        """The capacity of the router's mailbox: enough for everything that can be in progress, so that it is never full.

        A request takes one slot at most, either itself or as its answer: admission reserves the room for the answer, and returns
        the credit only when the slot is free. In the other lane a request takes one slot at most, for its deadline.
        """
        inside = self.max_inside + self.max_timers
        return self.max_in_flight + 2 * inside + FIRINGS_AT_ONCE + RESERVED_CREDIT + 256
