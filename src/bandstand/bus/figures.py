"""What a node has done so far and has at hand, as `Syscall.Stats` tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from bandstand.bus.books import Stats

if TYPE_CHECKING:
    from bandstand.bus.backstage import Backstage

__all__ = ("LetterFigures", "NodeStats", "Remembered", "TimerKinds", "UnsentFigures", "figures_of")


class TimerKinds(Struct):
    """The timers that are set, by what for."""

    timeout: int
    """Deadlines of requests."""
    scheduled: int
    """Messages that are to be sent later."""
    retry: int
    """Requests that wait for their next attempt."""


class LetterFigures(Struct):
    """Dead letters: made == held + fallen + removed."""

    made: int
    held: int
    fallen: int
    """Those that have fallen out, because there was no more room."""
    removed: int
    """Those that were sent again with success, purged, replaced by a newer one about the same message, or claimed by a repeat."""
    bytes: int
    """Bytes of data in those that are held."""


class Remembered(Struct):
    """Answers that are remembered, for repeats."""

    count: int
    bytes: int


class UnsentFigures(Struct):
    """What waits to be sent to all clients together."""

    bytes: int
    """How many bytes there are now."""
    most: int
    """How many there were at most."""
    limit: int
    """How many there may be: `NodeConfig.max_unsent_bytes`."""
    disconnected: int
    """Clients that were disconnected because there were too many."""


class NodeStats(Struct, rename="camel"):
    """What a node has done so far."""

    clients: int
    """Connections that are open."""
    requests: Stats
    timers: TimerKinds
    dead_letters: LetterFigures
    remembered: Remembered
    unsent: UnsentFigures


def figures_of(backstage: Backstage) -> NodeStats:
    """Take a snapshot of the books."""
    router, schedule = backstage.router, backstage.schedule
    letters, roll = router.letters, router.roll
    unsent = backstage.gate.unsent
    roll.expire(router.now_ms())
    return NodeStats(
        clients=len(backstage.gate),
        requests=router.books.statistics(in_flight=router.in_flight, timers_pending=len(schedule)),
        timers=TimerKinds(
            timeout=sum(pending.timer is not None for pending in router.open_requests()),
            scheduled=len(schedule),
            retry=len(router.retries),
        ),
        dead_letters=LetterFigures(
            letters.made, len(letters), letters.fallen, letters.removed, letters.held_bytes
        ),
        remembered=Remembered(len(roll), roll.held_bytes),
        unsent=UnsentFigures(unsent.bytes, unsent.most, unsent.limit, unsent.disconnected),
    )
