"""The rehearsal room: what it takes to test actors without waiting. Production code never imports it.

    clock = VirtualClock()
    loop = Loop(clock=clock)
    loop.send_after(actor, 60_000, "tick")
    clock.advance(60_000)
    loop.poll_once()
"""

from bandstand.testing.clock import VirtualClock as VirtualClock

__all__ = ("VirtualClock",)
