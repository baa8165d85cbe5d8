"""Circles: a request that would wait for a capability that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.bus.numbers import DONE

if TYPE_CHECKING:
    from bandstand.bus.hot.pending import Pending

__all__ = ("circle_of",)


def circle_of(pending: Pending, most: int) -> str | None:
    """The circle that a request of a handler's would close, in words; None if it closes none.

    Args:
        pending: the request, of which it is known where it goes, and whose handler waits for it.
        most: how many capabilities there are.
    """
    route, parent = pending.route, pending.parent
    assert route is not None
    assert parent is not None
    assert parent.route is not None
    asker = parent.route.seat
    way = [f"{asker.id} ({parent.frame.type})", f"{route.seat.id} ({pending.frame.type})"]
    # From the one that is asked to what its handler waits for, and so on: at most one at a time for each capability.
    seat, steps = route.seat, most
    while seat is not asker and steps:
        awaited = seat.awaits
        if awaited is None or awaited.route is None or awaited.stage == DONE:
            return None
        seat, steps = awaited.route.seat, steps - 1
        way.append(f"{seat.id} ({awaited.frame.type})")
    return " asks ".join(way)
