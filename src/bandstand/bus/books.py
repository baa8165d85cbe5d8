"""What a router has done so far: counters that balance.

Every request that is let in has exactly one end, so at any moment

    admitted == answered + failed (of all types together) + abandoned + withdrawn + in flight

and likewise `timers_scheduled == timers_fired + timers_cancelled + timers_pending`. Nothing else would tell that a request
was lost, or answered twice: a test that checks the law checks that.

The router counts by `books.admitted += 1`, in the path of every message; what is asked for is a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from bandstand.bus.hot.tally import Tally

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = ("Books", "Stats")


class Stats(Struct, frozen=True, kw_only=True, rename="camel"):
    """A snapshot of a router's books. On the wire its fields are in camel case."""

    admitted: int = 0
    """Commands and queries let in."""
    answered: int = 0
    """Those that have ended with a reply, which was given to whoever had asked."""
    failed: dict[str, int] = field(default_factory=dict[str, int])
    """Those that have ended with an error, by the error's type."""
    in_flight: int = 0
    """Those that have not ended yet."""
    repeated: int = 0
    """Of all that have ended: those that were answered from memory, because the same request had been answered before."""
    joined: int = 0
    """Requests that came while the same one was under way, and get its answer."""
    conflicting: int = 0
    """Requests that came with the id of another one, and other content."""
    retries: int = 0
    """How often a request was tried again."""
    withdrawn: int = 0
    """Those that nobody waits for any more: whoever asked inside the process was cancelled."""
    abandoned: int = 0
    """Those whose client had gone before the answer, a reply or an error of the capability: each is a dead letter. Those that have ended with a
    fault of the node's own, such as `Sys.Timeout`, are among the failed, whether or not the client had gone."""
    late: int = 0
    """Replies that came after their request had ended, and were discarded."""
    unclaimed: int = 0
    """Answers that nobody had asked for, or cared about."""
    expired: int = 0
    """Requests that were not handled any more, because their deadline had passed while they waited."""
    refused: int = 0
    """What came in and was no message, or not one that a client may send."""
    events: int = 0
    """Events that were said."""
    deliveries: int = 0
    """Copies of events that were handed to subscribers."""
    undelivered: int = 0
    """Copies of events that were not, because the subscriber had no room or was out of service."""
    lagged: int = 0
    """Copies of events that a client did not get, because it did not keep up."""
    sunk: int = 0
    """Errors that went to the error sink, because nobody waits for them."""
    timers_scheduled: int = 0
    """Messages that were to be sent later."""
    timers_fired: int = 0
    """Those that were sent."""
    timers_cancelled: int = 0
    """Those that were cancelled before."""
    timers_pending: int = 0
    """Those whose time has not come."""
    crashes: int = 0
    """How often a capability has failed: it raised, or said what its contract does not allow."""
    restarts: int = 0
    """How often one was started again."""

    @property
    def failures(self) -> int:
        """Requests that have ended with an error, of whatever type."""
        return sum(self.failed.values())

    @property
    def is_balanced(self) -> bool:
        """Whether every request and every timer has been accounted for exactly once."""
        return (
            self.admitted == self.answered + self.failures + self.abandoned + self.withdrawn + self.in_flight
            and self.timers_scheduled == self.timers_fired + self.timers_cancelled + self.timers_pending
        )


# What is counted one by one; the rest is looked up.
COUNTERS = tuple(
    name for name in Stats.__struct_fields__ if name not in {"failed", "in_flight", "timers_pending"}
)


class Books(Tally):
    """A router's counters, to be counted up by whoever does what they count. `Stats` says what each of them means."""

    __slots__ = ("failed",)

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[str, int] = {}

    def fail(self, error_type: str) -> None:
        """One more request has ended with an error of this type."""
        failed = self.failed
        failed[error_type] = failed.get(error_type, 0) + 1

    def abandon(self, answer: Frame) -> None:
        """A request that was counted with its answer is abandoned instead: its client has gone."""
        if answer.kind == "reply":
            self.answered -= 1
        elif self.failed[answer.type] > 1:
            self.failed[answer.type] -= 1
        else:
            del self.failed[answer.type]
        self.abandoned += 1

    def statistics(self, *, in_flight: int, timers_pending: int) -> Stats:
        """A snapshot. What is under way is not counted here but looked up by the router, so that the law can be broken."""
        counted = {name: getattr(self, name) for name in COUNTERS}
        return Stats(**counted, failed=dict(self.failed), in_flight=in_flight, timers_pending=timers_pending)
