"""Runs the body of a test in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bandstand import ActorSystem
from bandstand.testing import VirtualClock, leaks_of


def in_virtual_time(body: Callable[[ActorSystem, Callable[[], float]], Awaitable[None]]) -> None:
    """Run `body(system, now)`, where `now()` returns the virtual seconds since the start."""
    clock = VirtualClock()
    start = clock.now_ns()

    def now() -> float:
        return (clock.now_ns() - start) / 1e9

    async def main() -> None:
        async with ActorSystem(clock=clock) as system:
            await body(system, now)
        assert leaks_of(system) == []

    clock.run(main())
