"""The company: all capabilities of a node, started and stopped together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bandstand.bus.seat import Seat, SeatState
from bandstand.core.logs import SafeLogger
from bandstand.errors import StartFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandstand.bus.contracts.blueprint import Blueprint
    from bandstand.bus.router import Router
    from bandstand.bus.ward import Ward

__all__ = ("Company",)

logger = SafeLogger("bandstand.bus")

# How long a supervisor takes at most to stop a capability, and a little more, in seconds.
PATIENCE = 6.0


class Company:
    """Starts and stops the capabilities of one node."""

    __slots__ = ("_router", "_ward")

    def __init__(self, router: Router, ward: Ward) -> None:
        self._router = router
        self._ward = ward

    def seat(self, blueprints: Sequence[Blueprint]) -> list[Seat]:
        """Give each of them its place. What is said to one that has not started yet waits for it."""
        return [Seat(self._router, self._ward, blueprint) for blueprint in blueprints]

    async def start(self, seats: Sequence[Seat]) -> None:
        """Start them, in their order, and wait until each of them has.

        Raises:
            StartFailed: one has not.
        """
        starting: dict[Seat, asyncio.Future[None]] = {}

        def settled(seat: Seat) -> None:
            future = starting.get(seat)
            if future is not None and not future.done():
                future.set_result(None)

        self._ward.on_settled = settled
        for seat in seats:
            starting[seat] = asyncio.get_running_loop().create_future()
            seat.launch()
        for seat in seats:
            if seat.state is SeatState.STARTING:
                await starting[seat]
            # One that has started and failed since is its supervisor's affair.
            if seat.state is SeatState.UNHEALTHY:
                raise StartFailed(f"capability {seat.id} did not start: {seat.last_fault}")

    async def stop(self) -> None:
        """Stop the capabilities, the last first; each has its supervisor's patience, and then it is killed."""
        gone = asyncio.Event()

        def look(_seat: Seat) -> None:
            if not any(seat.is_there for seat in self._router.seats.values()):
                gone.set()

        self._ward.on_fallen = look
        for seat in reversed(self._router.seats.values()):
            seat.stop()
            look(seat)
        if self._router.seats:
            try:
                await asyncio.wait_for(gone.wait(), PATIENCE)
            except TimeoutError:
                left = [seat.id for seat in self._router.seats.values() if seat.is_there]
                logger.warning("not stopped in time, and ended with the node: %s", ", ".join(left))

    async def clear(self) -> None:
        """Wait until nothing is left of those that ran elsewhere and were killed."""
        if self._router.departing:
            _, left = await asyncio.wait(list(self._router.departing), timeout=PATIENCE)
            if left:
                logger.warning("%d that ran elsewhere were killed, and have not ended in time", len(left))
