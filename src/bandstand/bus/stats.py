"""The statistics of a node: the counters of the bus, and the frozen records that are made of them.

Every admitted request has exactly one end, and so has every scheduled message. At any moment

    admitted == answered + failed (all types) + abandoned + withdrawn + in flight
    timers_scheduled == timers_fired + timers_cancelled + timers_pending

A request that is lost or answered twice breaks the balance, so tests check it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.ingress import ClientIngress
    from bandstand.bus.router import Router
    from bandstand.bus.scheduler import Scheduler

__all__ = (
    "BusCounters",
    "DeadLetterStats",
    "NodeStats",
    "RememberedAnswerStats",
    "Stats",
    "TimerStats",
    "UnsentStats",
    "collect_node_stats",
)

Count: TypeAlias = int


class Stats(Struct, frozen=True, kw_only=True, rename="camel"):
    """A snapshot of the counters of the bus. On the wire the names of the fields are in camel case."""

    admitted: int = 0
    """Commands and queries that were admitted."""
    answered: int = 0
    """Requests that ended with a reply, which was given to the requester."""
    failed: dict[str, int] = field(default_factory=dict[str, int])
    """Requests that ended with an error, by the type of the error."""
    in_flight: int = 0
    """Requests that have not ended."""
    repeated: int = 0
    """Requests among those that ended which were answered with a remembered answer, because the same request was answered before."""
    joined: int = 0
    """Requests that arrived while the same request was in flight, and get its answer."""
    conflicting: int = 0
    """Requests with the id of another request and different content."""
    retries: int = 0
    """Retries of requests."""
    withdrawn: int = 0
    """Requests from inside the process whose requester was cancelled."""
    abandoned: int = 0
    """Requests whose client disconnected before the capability answered with a reply or an error: each becomes a dead letter. A request that ends
    with a fault of the node, such as `Sys.Timeout`, counts as failed, even if the client has disconnected."""
    late: int = 0
    """Answers that arrived after their request had ended, and were discarded."""
    unclaimed: int = 0
    """Replies that have no requester."""
    expired: int = 0
    """Requests whose deadline passed while they waited; they are not handled."""
    refused: int = 0
    """Input that is not a message, or not one that a client may send."""
    events: int = 0
    """Events that were published."""
    deliveries: int = 0
    """Copies of events that were delivered to subscribers."""
    undelivered: int = 0
    """Copies of events that were not delivered, because the mailbox of the subscriber was full or it was out of service."""
    unheard: int = 0
    """Events that no capability and no client subscribes to. They are logged. Events of the node itself are not counted."""
    lagged: int = 0
    """Copies of events that a client missed, because it did not keep up."""
    sunk: int = 0
    """Errors without a requester. They are logged."""
    timers_scheduled: int = 0
    """Messages that were scheduled."""
    timers_fired: int = 0
    """Scheduled messages that were sent."""
    timers_cancelled: int = 0
    """Scheduled messages that were cancelled before they were sent."""
    timers_pending: int = 0
    """Scheduled messages that are not due."""
    crashes: int = 0
    """Failures of capabilities: a handler raised, or sent a message that its contract does not allow."""
    restarts: int = 0
    """Restarts of capabilities."""

    @property
    def failures(self) -> int:
        """The number of requests that ended with an error of any type."""
        return sum(self.failed.values())

    @property
    def is_balanced(self) -> bool:
        """Whether every request and every scheduled message is counted exactly once."""
        return (
            self.admitted == self.answered + self.failures + self.abandoned + self.withdrawn + self.in_flight
            and self.timers_scheduled == self.timers_fired + self.timers_cancelled + self.timers_pending
        )


# The fields of `Stats` that are counters; the others are looked up when a snapshot is taken.
COUNTERS = tuple(
    name for name in Stats.__struct_fields__ if name not in {"failed", "in_flight", "timers_pending"}
)


class BusCounters:
    """The counters of a router. `Stats` describes each of them.

    The code that does something increments its counter: `counters.admitted += 1`. That happens for every message, so the class is compiled.
    """

    __slots__ = (
        "abandoned",
        "admitted",
        "answered",
        "conflicting",
        "crashes",
        "deliveries",
        "events",
        "expired",
        "failed",
        "joined",
        "lagged",
        "late",
        "refused",
        "repeated",
        "restarts",
        "retries",
        "sunk",
        "timers_cancelled",
        "timers_fired",
        "timers_scheduled",
        "unclaimed",
        "undelivered",
        "unheard",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.abandoned: Count = 0
        self.admitted: Count = 0
        self.answered: Count = 0
        self.conflicting: Count = 0
        self.crashes: Count = 0
        self.deliveries: Count = 0
        self.events: Count = 0
        self.expired: Count = 0
        self.failed: dict[str, int] = {}
        self.joined: Count = 0
        self.lagged: Count = 0
        self.late: Count = 0
        self.refused: Count = 0
        self.repeated: Count = 0
        self.restarts: Count = 0
        self.retries: Count = 0
        self.sunk: Count = 0
        self.timers_cancelled: Count = 0
        self.timers_fired: Count = 0
        self.timers_scheduled: Count = 0
        self.unclaimed: Count = 0
        self.undelivered: Count = 0
        self.unheard: Count = 0
        self.withdrawn: Count = 0

    def fail(self, error_type: str) -> None:
        """Count a request that ended with an error of this type."""
        failed = self.failed
        failed[error_type] = failed.get(error_type, 0) + 1

    def abandon(self, answer: Frame) -> None:
        """Count a request as abandoned instead of answered or failed: its client has disconnected."""
        if answer.kind == "reply":
            self.answered -= 1
        elif self.failed[answer.type] > 1:
            self.failed[answer.type] -= 1
        else:
            del self.failed[answer.type]
        self.abandoned += 1

    def stats(self, *, in_flight: int, timers_pending: int) -> Stats:
        """Return a snapshot.

        The caller counts what is in flight and pending now. These numbers do not derive from the counters, so that an error in either breaks the
        balance.
        """
        counted = {name: getattr(self, name) for name in COUNTERS}
        return Stats(**counted, failed=dict(self.failed), in_flight=in_flight, timers_pending=timers_pending)


# -- the whole node --------------------------------------------------------------------------------------------------------


class TimerStats(Struct, frozen=True):
    """The timers that are set, by their purpose."""

    timeout: int
    """Deadlines of requests."""
    scheduled: int
    """Scheduled messages."""
    retry: int
    """Requests that wait for their next attempt."""


class DeadLetterStats(Struct, frozen=True):
    """Dead letters: made == held + fallen + removed."""

    made: int
    held: int
    fallen: int
    """Dead letters that were dropped because the store was full."""
    removed: int
    """Dead letters that were replayed successfully, purged, replaced by a newer one of the same message, or claimed by a repeated request."""
    bytes: int
    """Bytes of data in the dead letters that are held."""


class RememberedAnswerStats(Struct, frozen=True):
    """Answers that are remembered for repeated requests."""

    count: int
    bytes: int


class UnsentStats(Struct, frozen=True):
    """Bytes that wait to be sent to all clients together."""

    bytes: int
    """The number of bytes now."""
    most: int
    """The largest number of bytes so far."""
    limit: int
    """The limit: `NodeConfig.max_unsent_bytes`."""
    disconnected: int
    """Clients that were disconnected because the limit was exceeded."""


class NodeStats(Struct, frozen=True, rename="camel"):
    """The statistics of a node since its start."""

    clients: int
    """Open connections."""
    requests: Stats
    timers: TimerStats
    dead_letters: DeadLetterStats
    remembered: RememberedAnswerStats
    unsent: UnsentStats


def collect_node_stats(router: Router, scheduler: Scheduler, ingress: ClientIngress) -> NodeStats:
    """Return a snapshot of the statistics of a node."""
    letters, requests, unsent = router.dead_letters, router.requests, ingress.unsent
    requests.expire(router.now_ms())
    return NodeStats(
        clients=len(ingress),
        requests=router.counters.stats(in_flight=router.in_flight, timers_pending=len(scheduler)),
        timers=TimerStats(
            timeout=sum(pending.timer is not None for pending in router.open_requests()),
            scheduled=len(scheduler),
            retry=len(router.retries),
        ),
        dead_letters=DeadLetterStats(
            letters.made, len(letters), letters.fallen, letters.removed, letters.held_bytes
        ),
        remembered=RememberedAnswerStats(len(requests), requests.held_bytes),
        unsent=UnsentStats(unsent.bytes, unsent.most, unsent.limit, unsent.disconnected),
    )
