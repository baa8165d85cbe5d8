"""Starts and stops all capabilities of a node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bandstand.bus.capability_slot import CapabilitySlot, CapabilityState
from bandstand.core.logs import SafeLogger
from bandstand.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bandstand.bus.capability_monitor import CapabilityMonitor
    from bandstand.bus.contracts.capability import CapabilitySpec
    from bandstand.bus.router import Router

__all__ = ("CapabilitySet",)

logger = SafeLogger("bandstand.bus")

# A little more than the time that a supervisor gives a capability to stop.
STOP_TIMEOUT_S = 6.0


class CapabilitySet:
    """All capabilities of one node."""

    __slots__ = ("_monitor", "_router")

    def __init__(self, router: Router, monitor: CapabilityMonitor) -> None:
        self._router = router
        self._monitor = monitor

    def create_slots(self, specs: Sequence[CapabilitySpec]) -> list[CapabilitySlot]:
        """Create a slot for each capability. Messages to a capability that has not started are held in its slot."""
        return [CapabilitySlot(self._router, self._monitor, spec) for spec in specs]

    async def start(self, slots: Sequence[CapabilitySlot]) -> None:
        """Start the capabilities in their order, and wait until all have started.

        Raises:
            StartError: one did not start.
        """
        starting: dict[CapabilitySlot, asyncio.Future[None]] = {}

        def settled(slot: CapabilitySlot) -> None:
            future = starting.get(slot)
            if future is not None and not future.done():
                future.set_result(None)

        self._monitor.on_settled = settled
        for slot in slots:
            starting[slot] = asyncio.get_running_loop().create_future()
            slot.start()
        for slot in slots:
            if slot.state is CapabilityState.STARTING:
                await starting[slot]
            # If it has started and failed since, its supervisor restarts it.
            if slot.state is CapabilityState.UNHEALTHY:
                raise StartError(f"capability {slot.id} did not start: {slot.last_fault}")

    async def stop(self) -> None:
        """Stop the capabilities, the last one first. Their supervisors kill those that do not stop in time."""
        slots = self._router.slots
        if not slots:
            return
        stopped = asyncio.Event()

        def check(_slot: CapabilitySlot) -> None:
            if not any(slot.has_incarnation for slot in slots.values()):
                stopped.set()

        self._monitor.on_ended = check
        for slot in reversed(slots.values()):
            slot.stop()
            check(slot)
        try:
            await asyncio.wait_for(stopped.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            left = [slot.id for slot in slots.values() if slot.has_incarnation]
            logger.warning("capabilities did not stop in time: %s", ", ".join(left))

    async def wait_killed(self) -> None:
        """Wait until the killed processes of capabilities have ended."""
        if self._router.departing:
            _, left = await asyncio.wait(list(self._router.departing), timeout=STOP_TIMEOUT_S)
            if left:
                logger.warning("%d killed processes of capabilities did not end in time", len(left))
